//! The merge by hand on one worker: what arrives in which activation, and where control stands.

use super::{Cut, MergeConfig, MergeCounters, Merged, ReadCounters, Told, merge};
use crate::control::Command;
use crate::decide::OnForgotten;
use crate::marker::{MarkerArrangement, MarkerConfig, MarkerExport};
use crate::poison::PoisonMark;
use crate::record::{Op, RecordRef, Records};
use crate::retention::{KeepMarkers, Retention};
use std::cell::RefCell;
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::InputHandle;
use timely::dataflow::ProbeHandle;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::{Operator, Probe};
use timely::worker::Worker;

mod poison;

const TICK_MS: u64 = 20;

type Handle<C> = InputHandle<u64, CapacityContainerBuilder<C>>;
type Left = Rc<RefCell<Vec<(u64, u128, Op)>>>;

struct Bench {
    mutations: Handle<Records>,
    reads: Handle<Records>,
    control: Handle<Vec<Command>>,
    left: Left,
    counters: Rc<RefCell<MergeCounters>>,
    reads_passed: ProbeHandle<u64>,
    /// The poisoned keys at the last cut.
    poisoned: Marks,
}

#[derive(Clone, Default)]
struct Marks(Rc<RefCell<Vec<PoisonMark>>>);

impl Told<MarkerExport> for Marks {
    fn exported(&mut self, _cut: Cut, _export: MarkerExport) {}

    fn poisoned(&mut self, _cut: Cut, marks: Vec<PoisonMark>) {
        *self.0.borrow_mut() = marks;
    }
}

fn config(keep: KeepMarkers) -> MergeConfig {
    MergeConfig {
        tick_ms: TICK_MS,
        retention: Retention::new(keep, 0),
        on_forgotten: OnForgotten::Quarantine,
        rule: true,
        poison: Vec::new(),
        whole_row: |_| true,
    }
}

fn until_ready() -> MergeConfig {
    config(KeepMarkers::UntilReady {
        open_late_max_ms: 0,
    })
}

fn bench(worker: &mut Worker, config: MergeConfig) -> Bench {
    let (mut mutations, mut reads, mut control) = (Handle::new(), Handle::new(), Handle::new());
    let (left, counters) = (Left::default(), Rc::default());
    let poisoned = Marks::default();
    let mut reads_passed = ProbeHandle::new();
    let store = MarkerArrangement::new(MarkerConfig::new(0..=u64::MAX, TICK_MS));
    worker.dataflow::<u64, _, _>(|scope| {
        let Merged {
            data,
            read_progress,
        } = merge(
            mutations.to_stream(scope),
            reads.to_stream(scope),
            control.to_stream(scope),
            store,
            config,
            Rc::clone(&counters),
            poisoned.clone(),
        );
        reads_passed = read_progress.probe().0;
        let left = Rc::clone(&left);
        data.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(Pipeline, "Left", |_, _| {
            move |input, _| {
                input.for_each(|capability, records| {
                    let tick = *capability.least().expect("a record has a tick");
                    let rows = records.iter().map(|r| (tick, r.fingerprint, r.op));
                    left.borrow_mut().extend(rows);
                });
            }
        });
    });
    Bench {
        mutations,
        reads,
        control,
        left,
        counters,
        reads_passed,
        poisoned,
    }
}

fn record(fingerprint: u128, op: Op) -> RecordRef<'static> {
    RecordRef {
        fingerprint,
        op,
        table: 0,
        generation: u32::from(op == Op::Read || op == Op::Late),
        partition: 0,
        offset: 0,
        read_time_ms: 0,
        key: b"k",
        value: b"v",
    }
}

fn open(opened_at_ms: u64) -> Command {
    Command::Open {
        generation: 1,
        tables: vec![0],
        opened_at_ms,
        id: "g1".to_owned(),
        topics: Vec::new(),
        partitions: Vec::new(),
        not_before_ms: 0,
    }
}

impl Bench {
    fn mutation(&mut self, tick: u64, fingerprint: u128) {
        self.mutations.advance_to(tick);
        self.mutations.send(record(fingerprint, Op::Upsert));
        self.mutations.flush();
    }

    fn read(&mut self, tick: u64, fingerprint: u128) {
        self.reads.advance_to(tick);
        self.reads.send(record(fingerprint, Op::Read));
        self.reads.flush();
    }

    fn command(&mut self, tick: u64, command: Command) {
        self.control.advance_to(tick);
        self.control.send(command);
        self.control.flush();
    }

    fn left(&self, worker: &mut Worker) -> Vec<(u64, u128, Op)> {
        (0..5).for_each(|_| {
            worker.step();
        });
        std::mem::take(&mut *self.left.borrow_mut())
    }
}

#[test]
fn a_read_waits_for_its_tick_and_a_mutation_for_nothing() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, until_ready());
        bench.command(40, open(40));
        bench.read(40, 1);
        bench.mutation(80, 2);
        // Control has not passed 40: the open may still be on its way. The mutation is ahead of
        // control and leaves all the same.
        assert_eq!(bench.left(worker), [(80, 2, Op::Upsert)]);
        bench.reads.advance_to(100);
        bench.left(worker);
        assert!(
            bench.reads_passed.less_equal(&40),
            "the READ keeps its tick"
        );
        bench.control.advance_to(60);
        assert_eq!(bench.left(worker), [(40, 1, Op::Read)]);
        assert!(!bench.reads_passed.less_equal(&80));
        let counters = bench.counters.borrow();
        assert_eq!(
            (counters.reads_held, counters.reads_dropped_superseded),
            (1, 0)
        );
    });
}

#[test]
fn a_held_read_is_decided_against_mutations_that_came_meanwhile() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, until_ready());
        bench.command(0, open(0));
        bench.read(40, 1);
        assert!(bench.left(worker).is_empty());
        bench.mutation(60, 1);
        bench.control.advance_to(80);
        assert_eq!(bench.left(worker), [(60, 1, Op::Upsert)]);
        assert_eq!(bench.counters.borrow().reads_dropped_marker, 1);
    });
}

#[test]
fn the_end_of_control_settles_reads_and_forgets_nothing() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, config(KeepMarkers::Ttl { ttl_ms: 20 }));
        bench.command(0, open(0));
        bench.mutation(40, 1);
        bench.read(40, 1);
        bench.read(60, 2);
        assert_eq!(bench.left(worker), [(40, 1, Op::Upsert)]);
        // Straight from a tick that was not passed to the end, as when a job stops.
        let Bench {
            control, counters, ..
        } = bench;
        drop(control);
        (0..5).for_each(|_| {
            worker.step();
        });
        assert_eq!(*bench.left.borrow(), [(60, 2, Op::Read)]);
        assert_eq!(counters.borrow().reads_dropped_marker, 1);
        assert_eq!(counters.borrow().unsafe_reads(), 0);
        // Nothing is held back: the dataflow ends with its inputs, else this test never does.
    });
}

#[test]
fn a_marker_goes_only_through_ticks_that_control_has_passed() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, config(KeepMarkers::Ttl { ttl_ms: 40 }));
        bench.command(0, open(0));
        bench.mutation(100, 1);
        // The sources are far ahead; control has passed 120 here, so the horizon is 80.
        bench.mutation(500, 2);
        bench.control.advance_to(140);
        bench.read(120, 1);
        assert_eq!(bench.left(worker).len(), 2);
        assert_eq!(bench.counters.borrow().reads_dropped_marker, 1);
        // A raise at 140 comes before the horizon of 140 is known.
        bench.command(140, Command::SetTtl { ttl_ms: 1000 });
        bench.control.advance_to(900);
        bench.read(880, 1);
        assert!(bench.left(worker).is_empty());
        assert_eq!(bench.counters.borrow().reads_dropped_marker, 2);
        bench.command(900, Command::SetTtl { ttl_ms: 40 });
        bench.control.advance_to(1000);
        bench.read(980, 1);
        assert_eq!(bench.left(worker), [(980, 1, Op::Quarantined)]);
    });
}

#[test]
fn fail_neither_emits_nor_forgets_to_count() {
    timely::execute_directly(|worker| {
        let mut config = config(KeepMarkers::Ttl { ttl_ms: 0 });
        config.on_forgotten = OnForgotten::Fail;
        let mut bench = bench(worker, config);
        bench.command(0, open(0));
        bench.mutation(20, 1);
        bench.control.advance_to(100);
        assert_eq!(bench.left(worker).len(), 1);
        bench.read(80, 1);
        assert!(bench.left(worker).is_empty());
        assert_eq!(bench.counters.borrow().reads_failed, 1);
        assert_eq!(bench.counters.borrow().unsafe_reads(), 1);
    });
}

#[test]
#[should_panic(expected = "the source mixed up its roles")]
fn a_mutation_on_the_read_input_is_refused() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, until_ready());
        bench.control.advance_to(20);
        bench.reads.send(record(1, Op::Delete));
        bench.reads.flush();
        bench.left(worker);
    });
}

#[test]
fn a_newer_generation_takes_over_table_by_table() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, until_ready());
        let opened = |generation: u32, tables: &[u16]| match open(0) {
            Command::Open { id, .. } => Command::Open {
                generation,
                tables: tables.to_vec(),
                opened_at_ms: 0,
                id,
                topics: Vec::new(),
                partitions: Vec::new(),
                not_before_ms: 0,
            },
            other => other,
        };
        bench.command(0, opened(1, &[0, 1]));
        bench.command(20, opened(2, &[1]));
        bench.mutation(20, 7);
        bench.control.advance_to(100);
        let mut send = |tick, generation, table, fingerprint, op| {
            bench.reads.advance_to(tick);
            bench.reads.send(RecordRef {
                generation,
                table,
                ..record(fingerprint, op)
            });
        };
        send(40, 1, 0, 1, Op::Read);
        send(40, 1, 1, 2, Op::Read);
        send(40, 2, 1, 2, Op::Read);
        send(40, 2, 1, 7, Op::Read);
        send(40, 2, 0, 3, Op::Read);
        send(40, 2, 1, 4, Op::TooOld);
        bench.reads.flush();
        let left = bench.left(worker);
        let reads: Vec<_> = left.iter().filter(|(tick, ..)| *tick == 40).collect();
        assert_eq!(reads.len(), 3, "{left:?}");
        bench.command(
            100,
            Command::Close {
                generation: 2,
                aborted: false,
            },
        );
        bench.control.advance_to(200);
        bench.reads.advance_to(180);
        for (generation, op) in [(2, Op::Read), (2, Op::Late), (1, Op::Read)] {
            bench.reads.send(RecordRef {
                generation,
                ..record(9, op)
            });
        }
        bench.reads.flush();
        bench.left(worker);
        let counters = bench.counters.borrow();
        let of = |emitted, dropped_marker, dropped_superseded, late| ReadCounters {
            emitted,
            dropped_marker,
            dropped_superseded,
            late,
            poisoned: 0,
            unsafe_reads: 0,
        };
        assert_eq!(counters.generations[&1], of(2, 0, 1, 0));
        assert_eq!(counters.generations[&2], of(1, 1, 2, 2));
        assert_eq!(counters.reads_dropped_superseded, 3);
        assert_eq!(counters.reads_late, 2);
        assert_eq!(counters.forgotten_through, None);
    });
}
