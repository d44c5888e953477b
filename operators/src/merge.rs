//! The merge: mutations and READs of a key in, one stream per key out.
//!
//! ```text
//!  mutations ─┐  marks, then emits            ┌─▶ data (both kinds, decision order)
//!             ├─▶ [Merge] ────────────────────┤
//!  READs ─────┘  decides each against markers └─▶ READ progress (no data; frontier of READs alone)
//!  control ────▶ opens, closes, ttl; its frontier is the time
//! ```
//! Invariants: a mutation is never held or dropped; its marker is written before it leaves; a
//! mutation of a READ's activation leaves before that READ is decided; both kinds of a key leave on
//! one channel. A mutation that cannot be decoded poisons its key before it leaves; READs change
//! nothing. A READ is held only until control has passed its tick here, or has ended, so that
//! no worker decides before an open, or forgets before a raise of the ttl, has reached it.
//!
//! It cannot: read a clock (time is the control frontier), order by time, or keep a capability of
//! its own.

mod counters;
mod look;
#[cfg(test)]
mod tests;

use crate::control::{Command, ControlLog};
use crate::decide::{OnForgotten, Verdict, decide};
use crate::exchange::routed;
use crate::marker::MarkerStore;
use crate::poison::{Poison, PoisonMark};
use crate::record::{Op, RecordRef, Records};
use crate::retention::Retention;
use crate::route::worker_of;
pub use counters::{MergeCounters, ReadCounters};
use look::Look;
pub use look::{Looked, Told};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::OutputBuilderSession;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Stream, StreamVec};
use timely::progress::Antichain;

/// Merging work done in one activation, in entries; bounds a stall.
const FUEL: usize = 1 << 16;

type DataBuilder = CapacityContainerBuilder<Records>;
type DataSession<'a> = OutputBuilderSession<'a, u64, DataBuilder>;

/// How the merge behaves.
#[derive(Clone, Debug)]
pub struct MergeConfig {
    /// Length of a tick.
    pub tick_ms: u64,
    /// Policy, with no generation open.
    pub retention: Retention,
    /// What happens to a READ that may be stale.
    pub on_forgotten: OnForgotten,
    /// Whether the rule is applied. Without it every READ is emitted: the disease, for comparison.
    pub rule: bool,
    /// Keys of this worker that are poisoned from the start.
    pub poison: Vec<PoisonMark>,
    /// Whether the value of a mutation is a whole row: one that is not leaves its key poisoned.
    pub whole_row: fn(&[u8]) -> bool,
}

/// The two outputs of the merge.
pub struct Merged<'scope> {
    /// Everything that is emitted or quarantined, in decision order.
    pub data: Stream<'scope, u64, Records>,
    /// Nothing; its frontier follows the READ input alone.
    pub read_progress: StreamVec<'scope, u64, Infallible>,
}

/// Builds the merge on streams built by [`crate::exchange::RoutedBuilder`].
pub fn merge<'scope, M: MarkerStore + 'static>(
    mutations: Stream<'scope, u64, Records>,
    reads: Stream<'scope, u64, Records>,
    control: StreamVec<'scope, u64, Command>,
    store: M,
    config: MergeConfig,
    counters: Rc<RefCell<MergeCounters>>,
    told: impl Told<M::Export> + 'static,
) -> Merged<'scope> {
    let scope = mutations.scope();
    let mut builder = OperatorBuilder::new("Merge".to_owned(), scope);
    let place = (scope.index() as u64, scope.peers());
    let activator = scope.activator_for(builder.operator_info().address);
    let (data, data_stream) = builder.new_output::<Records>();
    let (progress, progress_stream) = builder.new_output::<Vec<Infallible>>();
    let same = || Antichain::from_elem(Default::default());
    let mut mutations = builder.new_input_connection(mutations, routed(), [(0, same())]);
    let mut reads = builder.new_input_connection(reads, routed(), [(0, same()), (1, same())]);
    let mut control = builder.new_input_connection(control, Pipeline, []);
    let mut data = OutputBuilder::<u64, DataBuilder>::from(data);
    builder.build(move |capabilities| {
        drop(capabilities);
        // Never used for sending; held so that the port lives as long as the operator.
        let _progress = progress;
        let mut state = Merge::new(store, config, counters);
        let mut told = told;
        move |frontiers| {
            let _keep = &_progress;
            control.for_each(|capability, commands| {
                let tick = *capability.least().expect("a control message has a tick");
                for command in commands.drain(..) {
                    state.log.receive(tick, command);
                }
            });
            state.advance(&frontiers[2]);
            let mut output = data.activate();
            mutations.for_each(|capability, records| {
                let tick = *capability.least().expect("a mutation has a tick");
                state.mutations(tick, records);
                output.session(&capability).give_container(records);
            });
            state.forget();
            state.export(&frontiers[0], &mut told);
            state.look(&mut told, place);
            state.held_reads(&mut output);
            reads.for_each(|capability, records| {
                let tick = *capability.least().expect("a READ has a tick");
                if state.may_decide(tick) {
                    let mut session = output.session(&capability);
                    state.reads(records, |record| session.give(record));
                } else {
                    let data = capability.retain_least(0).expect("a READ has a tick");
                    let progress = capability.retain_least(1).expect("a READ has a tick");
                    state.hold(data, progress, std::mem::take(records));
                }
            });
            if state.work() {
                activator.activate();
            }
        }
    });
    Merged {
        data: data_stream,
        read_progress: progress_stream,
    }
}

/// A checkpoint's cut, as control has told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the checkpoint.
    pub number: u64,
    /// Its tick: what was stamped before it is in the checkpoint.
    pub tick: u64,
}

/// READs whose tick control has not passed yet, with what keeps their frontiers.
struct Held {
    data: Capability<u64>,
    _progress: Capability<u64>,
    records: Records,
}

struct Merge<M> {
    store: M,
    poison: Poison,
    config: MergeConfig,
    counters: Rc<RefCell<MergeCounters>>,
    log: ControlLog,
    held: VecDeque<Held>,
    /// Cuts whose mutations have not all come yet.
    cuts: VecDeque<Cut>,
    /// Questions of ticks that control has passed.
    looks: Vec<Look>,
    fingerprints: Vec<u128>,
    markers: Vec<Option<u64>>,
}

impl<M: MarkerStore> Merge<M> {
    fn new(store: M, mut config: MergeConfig, counters: Rc<RefCell<MergeCounters>>) -> Self {
        let log = ControlLog::new(config.tick_ms);
        Merge {
            store,
            poison: Poison::of(std::mem::take(&mut config.poison)),
            config,
            counters,
            log,
            held: VecDeque::new(),
            cuts: VecDeque::new(),
            looks: Vec::new(),
            fingerprints: Vec::new(),
            markers: Vec::new(),
        }
    }

    /// Applies the commands of all ticks that control has passed.
    fn advance(&mut self, control: &timely::progress::frontier::MutableAntichain<u64>) {
        for (tick, command) in self.log.advance(control) {
            self.config.retention.apply(&command);
            if let Command::Checkpoint { number } = command {
                self.cuts.push_back(Cut { number, tick });
            }
            self.looks.extend(Look::of(&command));
        }
    }

    /// Marks before anything leaves.
    fn mutations(&mut self, tick: u64, records: &Records) {
        let mut counters = self.counters.borrow_mut();
        self.fingerprints.clear();
        for index in 0..records.len() {
            let op = records.op(index);
            if op.marks() {
                let fingerprint = records.fingerprint(index);
                self.fingerprints.push(fingerprint);
                if op == Op::Poisoned {
                    self.poison.set(fingerprint, tick);
                } else if self.poison.holds(fingerprint) && self.heals(op, records, index) {
                    self.poison.clear(fingerprint);
                }
            }
            counters.mutation(op);
        }
        drop(counters);
        if self.config.rule {
            self.store.mark(tick, &self.fingerprints);
        }
    }

    /// Whether the target has the whole row, or none, behind a mutation.
    fn heals(&self, op: Op, records: &Records, index: usize) -> bool {
        op == Op::Delete || (self.config.whole_row)(records.get(index).value)
    }

    /// Forgets through the ticks that control has passed here, and no further.
    fn forget(&mut self) {
        let passed = self.log.passed();
        if let Some(horizon) =
            passed.and_then(|passed| self.config.retention.forget_through(passed))
        {
            self.store.forget_through(horizon);
            // A READ that would need it then meets the guard of forgotten markers.
            self.poison.forget_through(horizon);
        }
    }

    /// Exports the markers for every cut whose mutations have all marked: a mutation before the cut
    /// is not read again after a restore, so its marker must be in.
    fn export(
        &mut self,
        mutations: &timely::progress::frontier::MutableAntichain<u64>,
        told: &mut impl Told<M::Export>,
    ) {
        while let Some(cut) = self.cuts.front().copied() {
            if mutations.less_than(&cut.tick) {
                return;
            }
            self.cuts.pop_front();
            told.poisoned(cut, self.poison.marks());
            told.exported(cut, self.store.export());
        }
    }

    /// Answers the questions about fingerprints that this worker owns.
    fn look(&mut self, told: &mut impl Told<M::Export>, (index, peers): (u64, usize)) {
        let owns = |look: &Look| worker_of(look.fingerprint, peers) == index;
        for look in self.looks.drain(..).filter(owns) {
            self.markers.clear();
            self.store.latest(&[look.fingerprint], &mut self.markers);
            let marker = self.markers.first().copied().flatten();
            let forgotten = self.store.forgotten_through();
            let known = (marker, self.poison.of_key(look.fingerprint));
            told.looked(look.answer(known, forgotten, &self.config.retention));
        }
    }

    fn may_decide(&self, tick: u64) -> bool {
        self.held.is_empty() && self.log.settled(tick)
    }

    fn hold(&mut self, data: Capability<u64>, progress: Capability<u64>, records: Records) {
        self.counters.borrow_mut().reads_held += records.len() as u64;
        self.held.push_back(Held {
            data,
            _progress: progress,
            records,
        });
    }

    /// Decides the held READs whose tick has passed, in order of arrival.
    fn held_reads(&mut self, output: &mut DataSession<'_>) {
        while let Some(front) = self.held.front() {
            if !self.log.settled(*front.data.time()) {
                return;
            }
            let Some(held) = self.held.pop_front() else {
                return;
            };
            let mut session = output.session(&held.data);
            self.reads(&held.records, |record| session.give(record));
        }
    }

    /// Decides every READ of a container against the markers as they are now.
    fn reads(&mut self, records: &Records, mut give: impl FnMut(RecordRef<'_>)) {
        self.fingerprints.clear();
        self.fingerprints
            .extend((0..records.len()).map(|index| records.fingerprint(index)));
        self.markers.clear();
        self.store.latest(&self.fingerprints, &mut self.markers);
        let forgotten_through = self.store.forgotten_through();
        let mut counters = self.counters.borrow_mut();
        for (record, marker) in records.iter().zip(&self.markers) {
            let verdict = match record.op {
                Op::Read if self.config.rule => {
                    let window = self
                        .config
                        .retention
                        .window(record.generation, record.table);
                    let poison = self.poison.of_key(record.fingerprint);
                    let policy = self.config.on_forgotten;
                    decide(*marker, poison, window, forgotten_through, policy)
                }
                // The rule is off, or the source has decided already (late READs).
                Op::Read | Op::Late | Op::TooOld => Verdict::Emit,
                // A mutation here would be emitted without a marker.
                op => counters::unreachable_op("READ", op),
            };
            counters.read(&record, verdict);
            if let Some(op) = emitted_as(record.op, verdict) {
                give(RecordRef { op, ..record });
            }
        }
    }

    /// Background merging; `true` when there is more.
    fn work(&mut self) -> bool {
        let more = self.store.work(FUEL);
        let mut counters = self.counters.borrow_mut();
        counters.markers = self.store.stats();
        counters.forgotten_through = self.store.forgotten_through();
        more
    }
}

/// How a READ leaves, if it does.
fn emitted_as(op: Op, verdict: Verdict) -> Option<Op> {
    match verdict {
        Verdict::Emit | Verdict::Unsafe(OnForgotten::Emit) => Some(op),
        Verdict::Poisoned => Some(Op::ReadPoisoned),
        Verdict::Unsafe(OnForgotten::Quarantine) => Some(Op::Quarantined),
        // The job ends; the READ is neither emitted nor lost, since its offset is not passed.
        Verdict::Unsafe(OnForgotten::Fail) => None,
        Verdict::DropMarked | Verdict::DropSuperseded => None,
    }
}
