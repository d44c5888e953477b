//! One role's records on one worker: what is at hand is stamped, routed and bounded.
//!
//! The operator holds one capability a port at the last tick that control has passed here, and
//! stamps with it. It goes on downgrading while it is idle, throttled, stopped or failing: a source
//! holds nobody back, and its frontier alone proves nothing. What proves that a partition was read
//! is a [`PartitionEnd`].
//!
//! Invariant: bytes in flight (sent, and not yet behind the durable frontier) stay below the budget
//! plus one poll.
//!
//! It cannot: wait, decode, or decide when a topic ends. A [`Feed`] does that.

#[cfg(test)]
mod tests;

use crate::control::{Command, ControlLog};
use crate::exchange::RoutedBuilder;
use crate::record::{RecordRef, Records};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{ProbeHandle, Stream, StreamVec};
use timely::scheduling::SyncActivator;

/// Bytes that one activation sends before it lets other operators run.
const POLL_BYTES: usize = 1 << 20;

/// A source has read a partition up to a frozen end or a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionEnd {
    /// Whether it is a mutation partition.
    pub mutations: bool,
    /// Whether the end is what the target had seen before a restart; else it is a frozen end or a
    /// target.
    pub replayed: bool,
    /// The generation whose frozen end or target it is; 0 for what was replayed.
    pub generation: u32,
    /// Topic name.
    pub topic: String,
    /// Partition number.
    pub partition: u32,
    /// The end that was reached.
    pub end: u64,
    /// The tick at which its last records were stamped, or a later one.
    pub tick: u64,
}

/// What an activation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing is at hand; the waker will tell.
    Idle,
    /// There may be more now.
    More,
}

/// Where a source's records come from. Never blocks; makes its own policy of pauses and errors.
pub trait Feed {
    /// A command whose tick has passed on this worker.
    fn command(&mut self, tick: u64, command: &Command);

    /// Bytes that may be in flight beyond the budget, while the sink holds a replay back.
    fn extra_bytes(&self) -> usize {
        0
    }

    /// Hands up to about `budget_bytes` of records to `give` and reports partitions that have
    /// reached their end. `tick` is what the records will be stamped with, and grows.
    fn poll(
        &mut self,
        tick: u64,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
        ends: &mut Vec<PartitionEnd>,
    ) -> Polled;
}

/// Bytes sent and not yet durable, by tick.
#[derive(Debug, Default)]
struct InFlight {
    sent: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl InFlight {
    fn sent(&mut self, tick: u64, bytes: usize) {
        self.bytes += bytes;
        match self.sent.back_mut() {
            Some((last, total)) if *last == tick => *total += bytes,
            _ => self.sent.push_back((tick, bytes)),
        }
    }

    /// Everything stamped before the durable frontier is durable.
    fn settle(&mut self, durable: &ProbeHandle<u64>) {
        while let Some((tick, bytes)) = self.sent.front().copied() {
            if durable.less_equal(&tick) {
                return;
            }
            self.bytes -= bytes;
            self.sent.pop_front();
        }
    }
}

/// Where a source's records leave it, with the bytes that may still be in flight.
struct Outlet {
    records: OutputBuilder<u64, RoutedBuilder>,
    workers: usize,
    inflight: InFlight,
    inflight_bytes_max: usize,
}

impl Outlet {
    /// Polls `feed` once at the tick of `data` and sends what it gives; none when the budget is
    /// spent. The next tick then activates the operator again: its control frontier moves.
    fn poll(
        &mut self,
        feed: &mut impl Feed,
        data: &Capability<u64>,
        durable: &ProbeHandle<u64>,
        reached: &mut Vec<PartitionEnd>,
    ) -> Option<Polled> {
        self.inflight.settle(durable);
        let budget_bytes = self
            .inflight_bytes_max
            .saturating_add(feed.extra_bytes())
            .saturating_sub(self.inflight.bytes)
            .min(POLL_BYTES);
        if budget_bytes == 0 {
            return None;
        }
        let tick = *data.time();
        let mut output = self.records.activate();
        let mut session = output.session_with_builder(data);
        session.builder().route_to(self.workers);
        let mut sent_bytes = 0;
        let mut give = |record: RecordRef<'_>| {
            sent_bytes += record.size_bytes();
            session.give(record);
        };
        let polled = feed.poll(tick, budget_bytes, &mut give, reached);
        drop(session);
        if sent_bytes > 0 {
            self.inflight.sent(tick, sent_bytes);
        }
        Some(polled)
    }
}

/// A source's outputs and how to wake it.
pub struct Sourced<'scope> {
    /// Its records, for the routed exchange.
    pub records: Stream<'scope, u64, Records>,
    /// Its partition ends.
    pub ends: StreamVec<'scope, u64, PartitionEnd>,
}

/// Builds a source. `feed` is made with the activator that wakes the operator from any thread;
/// `durable` is the probe behind the sink.
pub fn source<'scope, F: Feed + 'static>(
    name: &str,
    control: StreamVec<'scope, u64, Command>,
    tick_ms: u64,
    inflight_bytes_max: usize,
    durable: ProbeHandle<u64>,
    feed: impl FnOnce(SyncActivator) -> F,
) -> Sourced<'scope> {
    let scope = control.scope();
    let workers = scope.peers();
    let mut builder = OperatorBuilder::new(name.to_owned(), scope);
    let address = builder.operator_info().address;
    let mut feed = feed(scope.worker().sync_activator_for(address.to_vec()));
    let activator = scope.activator_for(address);
    let mut control = builder.new_input_connection(control, Pipeline, []);
    // Control is connected to neither output: a source's time is its own capability.
    let (records, record_stream) = builder.new_output_connection::<Records, _>([]);
    let (ends, end_stream) = builder.new_output_connection::<Vec<PartitionEnd>, _>([]);
    let mut outlet = Outlet {
        records: OutputBuilder::from(records),
        workers,
        inflight: InFlight::default(),
        inflight_bytes_max,
    };
    let mut ends = OutputBuilder::<u64, CapacityContainerBuilder<Vec<PartitionEnd>>>::from(ends);
    builder.build(move |mut capabilities| {
        let mut held: Option<(Capability<u64>, Capability<u64>)> = capabilities
            .pop()
            .and_then(|end| Some((capabilities.pop()?, end)));
        let mut log = ControlLog::new(tick_ms);
        let mut reached = Vec::new();
        move |frontiers| {
            control.for_each(|capability, commands| {
                let tick = *capability.least().expect("a control message has a tick");
                for command in commands.drain(..) {
                    log.receive(tick, command);
                }
            });
            for (tick, command) in log.advance(&frontiers[0]) {
                feed.command(tick, &command);
                if command == Command::Shutdown {
                    held = None;
                }
            }
            let (Some((data, end)), Some(tick)) = (held.as_mut(), log.passed()) else {
                return;
            };
            data.downgrade(&tick);
            end.downgrade(&tick);
            let polled = outlet.poll(&mut feed, data, &durable, &mut reached);
            if !reached.is_empty() {
                ends.activate()
                    .session(&*end)
                    .give_iterator(reached.drain(..));
            }
            if polled == Some(Polled::More) {
                activator.activate();
            }
        }
    });
    Sourced {
        records: record_stream,
        ends: end_stream,
    }
}
