//! What the coordinator and the stepped workers share: what is released, what came out.
//!
//! Only one thread runs at a time (see `cluster`), so the lock is never contended and a run is a
//! function of its seed.

use crate::history::{History, Row, record, row};
use headwater_operators::control::Command;
use headwater_operators::record::{Exit, Op, RecordRef, Records};
use headwater_operators::sink::Outlet;
use headwater_operators::source::{Feed, PartitionEnd, Polled};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use timely::scheduling::SyncActivator;

/// Mutations or READs.
pub(crate) const MUTATIONS: usize = 0;
/// See [`MUTATIONS`].
pub(crate) const READS: usize = 1;

/// The merge, as a consumer of control.
pub(crate) const MERGE: usize = 2;

/// One worker's side of the world.
#[derive(Default)]
pub(crate) struct Side {
    /// Released and not yet polled, by role.
    pub(crate) released: [VecDeque<(usize, Row)>; 2],
    /// Wakes the sources and the sink.
    pub(crate) wakers: Vec<SyncActivator>,
    /// Whether control is late at the sources and the merge.
    pub(crate) lags: [bool; 3],
    /// Generations whose open this worker's sources have been told, by role.
    pub(crate) opens: [BTreeSet<u32>; 2],
    /// What left the merge here, with its tick.
    pub(crate) merged: Vec<(u64, Row)>,
    /// What the outlet got.
    pub(crate) sunk: Vec<Row>,
    /// Containers that the outlet got, and how many of them are durable.
    pub(crate) pushed: u64,
    /// See `pushed`.
    pub(crate) durable: u64,
    /// The counters of the merge after every step.
    pub(crate) counters: headwater_operators::merge::MergeCounters,
}

/// Everything shared.
#[derive(Default)]
pub(crate) struct World {
    /// By worker.
    pub(crate) sides: Vec<Side>,
    /// Stamped mutations: tick and index among the commits.
    pub(crate) stamped: Vec<(u64, usize)>,
    /// READs handed to the dataflow, by generation.
    pub(crate) reads_in: Vec<Row>,
    /// The control tick that worker 0 is at.
    pub(crate) now_ms: u64,
}

/// A handle to the world.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<World>>, pub(crate) Arc<History>);

impl Shared {
    /// A world of so many workers.
    pub(crate) fn new(workers: usize, history: Arc<History>) -> Shared {
        let sides = (0..workers).map(|_| Side::default()).collect();
        let world = World {
            sides,
            ..World::default()
        };
        Shared(Arc::new(Mutex::new(world)), history)
    }

    /// The world; poisoned only if a check failed before.
    pub(crate) fn get(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no worker has panicked")
    }

    /// Writes down what passes `from` the merge to the sink.
    pub(crate) fn saw(&self, worker: usize, tick: u64, records: &Records) {
        let mut world = self.get();
        let seen = records.iter().map(|record| (tick, row(record)));
        world.sides[worker].merged.extend(seen);
    }
}

/// A feed that hands out what the coordinator has released.
pub(crate) struct ScriptFeed {
    /// The world.
    pub(crate) shared: Shared,
    /// Its worker.
    pub(crate) worker: usize,
    /// Its role.
    pub(crate) role: usize,
}

impl Feed for ScriptFeed {
    fn command(&mut self, _: u64, command: &Command) {
        if let Command::Open { generation, .. } = command {
            let side = &mut self.shared.get().sides[self.worker];
            side.opens[self.role].insert(*generation);
        }
    }

    fn poll(
        &mut self,
        tick: u64,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
        _: &mut Vec<PartitionEnd>,
    ) -> Polled {
        let mut world = self.shared.get();
        let mut sent_bytes = 0;
        loop {
            let side = &mut world.sides[self.worker];
            let Some((_, next)) = side.released[self.role].front() else {
                return Polled::Idle;
            };
            // READs stay unread until their generation's open has passed here.
            if self.role == READS && !side.opens[READS].contains(&next.generation) {
                return Polled::Idle;
            }
            if sent_bytes >= budget_bytes {
                return Polled::More;
            }
            let (index, row) = side.released[self.role]
                .pop_front()
                .expect("there is a front");
            let mut body = [0; 16];
            let record = record(&row, &self.shared.1, &mut body);
            sent_bytes += record.size_bytes();
            give(record);
            if self.role == MUTATIONS {
                world.stamped.push((tick, index));
            } else {
                world.reads_in.push(row);
            }
        }
    }
}

/// An outlet that writes down what it gets; the coordinator says what is durable.
pub(crate) struct ScriptOutlet {
    /// The world.
    pub(crate) shared: Shared,
    /// Its worker.
    pub(crate) worker: usize,
}

impl Outlet for ScriptOutlet {
    fn push(&mut self, records: Records) -> u64 {
        let side = &mut self.shared.get().sides[self.worker];
        side.sunk.extend(records.iter().map(row));
        side.pushed += 1;
        side.pushed - 1
    }

    fn durable(&mut self) -> u64 {
        self.shared.get().sides[self.worker].durable
    }
}

/// Whether a row changes the target.
pub(crate) fn applies(op: Op) -> bool {
    op.leaves_for() == Exit::Target
}
