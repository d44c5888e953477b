//! Planted bugs: marker stores and sinks that are wrong in one way each. The checks of this test
//! must see every one of them.
//!
//! It cannot be reached from the product.

use crate::history::row;
use crate::world::Shared;
use headwater_operators::marker::{MarkerStats, MarkerStore};
use headwater_operators::record::{Op, Records};
use std::collections::BTreeMap;
use std::convert::Infallible;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Operator;
use timely::dataflow::{Stream, StreamVec};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Nothing.
    Nothing,
    /// READs are decided before an activation's mutations, and emitted after them.
    DecidesFirst,
    /// A marker is written in the activation after the one that emitted its mutation.
    MarksLater,
    /// Markers are forgotten through a tick that control has not passed here.
    ForgetsAhead,
    /// Mutations and READs reach the sink on two channels; it applies one and then the other.
    TwoChannels,
    /// The sink waits for a tick to be complete and applies tick by tick.
    SinkByTick,
}

/// How far [`Planted::ForgetsAhead`] is ahead.
const AHEAD_MS: u64 = 100;

/// A real store with a planted bug, and with less fuel than it is given.
pub(crate) struct Store<M> {
    inner: M,
    planted: Planted,
    fuel_max: usize,
    unmarked: Vec<(u64, Vec<u128>)>,
    unmarked_older: Vec<(u64, Vec<u128>)>,
}

impl<M> Store<M> {
    /// Wraps a store.
    pub(crate) fn new(inner: M, planted: Planted, fuel_max: usize) -> Self {
        Store {
            inner,
            planted,
            fuel_max,
            unmarked: Vec::new(),
            unmarked_older: Vec::new(),
        }
    }
}

impl<M: MarkerStore> MarkerStore for Store<M> {
    type Export = M::Export;

    fn mark(&mut self, tick: u64, fingerprints: &[u128]) {
        match self.planted {
            Planted::DecidesFirst | Planted::MarksLater => {
                self.unmarked.push((tick, fingerprints.to_vec()));
            }
            _ => self.inner.mark(tick, fingerprints),
        }
    }

    fn latest(&mut self, fingerprints: &[u128], out: &mut Vec<Option<u64>>) {
        self.inner.latest(fingerprints, out);
    }

    fn forget_through(&mut self, horizon: u64) {
        let ahead_ms = match self.planted {
            Planted::ForgetsAhead => AHEAD_MS,
            _ => 0,
        };
        self.inner.forget_through(horizon + ahead_ms);
    }

    fn forgotten_through(&self) -> Option<u64> {
        self.inner.forgotten_through()
    }

    /// The last thing that an activation does.
    fn work(&mut self, fuel: usize) -> bool {
        let now = match self.planted {
            Planted::MarksLater => {
                let newer = std::mem::take(&mut self.unmarked);
                std::mem::replace(&mut self.unmarked_older, newer)
            }
            _ => std::mem::take(&mut self.unmarked),
        };
        for (tick, fingerprints) in now {
            self.inner.mark(tick, &fingerprints);
        }
        // Starved, and lying about it: merges then go on at the next occasion.
        self.inner.work(fuel.min(self.fuel_max));
        !self.unmarked_older.is_empty()
    }

    fn export(&mut self) -> M::Export {
        self.inner.export()
    }

    fn stats(&self) -> MarkerStats {
        self.inner.stats()
    }
}

/// Activations whose records a planted sink puts in one batch.
const BATCH: usize = 8;

/// Mutations and READs in two queues, as two channels would hold them; a batch is all mutations at
/// hand and then all READs at hand.
pub(crate) fn two_channels(
    data: Stream<'_, u64, Records>,
    shared: Shared,
    index: usize,
) -> StreamVec<'_, u64, Infallible> {
    data.unary_frontier::<CapacityContainerBuilder<Vec<Infallible>>, _, _, _>(
        Pipeline,
        "TwoChannels",
        move |_, _| {
            let mut channels = [Vec::new(), Vec::new()];
            let mut activations = 0;
            move |(input, frontier), _| {
                input.for_each(|_, records| {
                    for record in records.iter() {
                        let channel = usize::from(matches!(record.op, Op::Read | Op::Quarantined));
                        channels[channel].push(row(record));
                    }
                });
                activations += 1;
                if activations % BATCH == 0 || frontier.is_empty() {
                    let side = &mut shared.get().sides[index];
                    for channel in &mut channels {
                        side.sunk.append(channel);
                    }
                }
            }
        },
    )
}

/// Applies a tick when it is complete, in order of ticks.
pub(crate) fn sink_by_tick(
    data: Stream<'_, u64, Records>,
    shared: Shared,
    index: usize,
) -> StreamVec<'_, u64, Infallible> {
    data.unary_frontier::<CapacityContainerBuilder<Vec<Infallible>>, _, _, _>(
        Pipeline,
        "ByTick",
        move |_, _| {
            let mut ticks = BTreeMap::<u64, Vec<_>>::new();
            move |(input, frontier), _| {
                input.for_each(|capability, records| {
                    let tick = *capability.least().expect("a record has a tick");
                    let rows = records.iter().map(row);
                    ticks.entry(tick).or_default().extend(rows);
                });
                while let Some(first) = ticks.first_entry() {
                    if frontier.less_equal(first.key()) {
                        break;
                    }
                    let side = &mut shared.get().sides[index];
                    side.sunk.extend(first.remove());
                }
            }
        },
    )
}
