//! The source by hand on one worker: budget, downgrading, stop and shutdown, partition ends.

use super::{Feed, PartitionEnd, Polled, Sourced, source};
use crate::control::Command;
use crate::record::{Op, RecordRef, Records};
use crate::sink::{Outlet, sink};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

const TICK_MS: u64 = 20;
const VALUE: &[u8] = &[7; 100];

type Control = InputHandle<u64, CapacityContainerBuilder<Vec<Command>>>;

/// What the test and the feed share.
#[derive(Default)]
struct Script {
    /// Records that the feed may still hand out.
    at_hand: Cell<usize>,
    sent_bytes: Cell<usize>,
    most_of_a_poll_bytes: Cell<usize>,
    stopped: Cell<bool>,
    /// Tick of each poll that handed something out.
    polls: RefCell<Vec<u64>>,
    /// Reports a partition end with the last record.
    ends: Cell<bool>,
    durable: Cell<u64>,
    pushed: Cell<u64>,
}

struct ScriptFeed(Rc<Script>);

impl Feed for ScriptFeed {
    fn command(&mut self, _: u64, command: &Command) {
        if *command == Command::Stop {
            self.0.stopped.set(true);
        }
    }

    fn poll(
        &mut self,
        tick: u64,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
        ends: &mut Vec<PartitionEnd>,
    ) -> Polled {
        let script = &self.0;
        let mut sent_bytes = 0;
        while sent_bytes < budget_bytes && script.at_hand.get() > 0 && !script.stopped.get() {
            let record = RecordRef {
                fingerprint: script.at_hand.get() as u128,
                op: Op::Upsert,
                table: 0,
                generation: 0,
                partition: 0,
                offset: 0,
                read_time_ms: 0,
                key: b"k",
                value: VALUE,
            };
            sent_bytes += record.size_bytes();
            give(record);
            script.at_hand.set(script.at_hand.get() - 1);
        }
        if sent_bytes > 0 {
            script.polls.borrow_mut().push(tick);
            if script.ends.get() && script.at_hand.get() == 0 {
                ends.push(PartitionEnd {
                    replayed: false,
                    generation: 1,
                    mutations: true,
                    topic: "t".to_owned(),
                    partition: 0,
                    end: 1,
                    tick,
                });
            }
        }
        script.sent_bytes.set(script.sent_bytes.get() + sent_bytes);
        let most = script.most_of_a_poll_bytes.get().max(sent_bytes);
        script.most_of_a_poll_bytes.set(most);
        match script.at_hand.get() > 0 && !script.stopped.get() {
            true => Polled::More,
            false => Polled::Idle,
        }
    }
}

struct ScriptOutlet(Rc<Script>);

impl Outlet for ScriptOutlet {
    fn push(&mut self, _: Records) -> u64 {
        self.0.pushed.set(self.0.pushed.get() + 1);
        self.0.pushed.get() - 1
    }

    fn durable(&mut self) -> u64 {
        self.0.durable.get()
    }
}

struct Bench {
    control: Control,
    script: Rc<Script>,
    /// Right behind the source.
    sent: ProbeHandle<u64>,
    ends: Rc<RefCell<Vec<(u64, PartitionEnd)>>>,
}

fn bench(worker: &mut Worker, inflight_bytes_max: usize) -> Bench {
    let script = Rc::<Script>::default();
    let mut control = Control::new();
    let ends = Rc::<RefCell<Vec<_>>>::default();
    let sent = ProbeHandle::new();
    worker.dataflow::<u64, _, _>(|scope| {
        let durable = ProbeHandle::new();
        let Sourced {
            records,
            ends: end_stream,
        } = source(
            "Mutations",
            control.to_stream(scope),
            TICK_MS,
            inflight_bytes_max,
            durable.clone(),
            |_| ScriptFeed(Rc::clone(&script)),
        );
        let records = records.probe_with(&sent);
        sink(records, |_| ScriptOutlet(Rc::clone(&script))).probe_with(&durable);
        let ends = Rc::clone(&ends);
        end_stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(Pipeline, "Ends", |_, _| {
            move |input, _| {
                input.for_each(|capability, reached| {
                    let tick = *capability.least().expect("an end has a tick");
                    ends.borrow_mut()
                        .extend(reached.drain(..).map(|end| (tick, end)));
                });
            }
        });
    });
    Bench {
        control,
        script,
        sent,
        ends,
    }
}

impl Bench {
    /// Lets control pass up to, but not including, `tick`.
    fn tick(&mut self, worker: &mut Worker, tick: u64) {
        self.control.advance_to(tick);
        (0..10).for_each(|_| {
            worker.step();
        });
    }

    fn shut_down(mut self, worker: &mut Worker, tick: u64) {
        self.script.durable.set(u64::MAX);
        self.control.send(Command::Shutdown);
        self.tick(worker, tick);
        assert!(self.sent.done(), "shutdown lets go of the capabilities");
    }
}

#[test]
fn bytes_in_flight_stay_within_the_budget() {
    timely::execute_directly(|worker| {
        let budget_bytes = 5000;
        let mut bench = bench(worker, budget_bytes);
        bench.script.at_hand.set(100_000);
        let one = 51 + 1 + VALUE.len();
        for tick in 1..50 {
            bench.tick(worker, tick * TICK_MS);
            let sent_bytes = bench.script.sent_bytes.get();
            assert!(
                sent_bytes < budget_bytes + one,
                "{sent_bytes} bytes, none durable"
            );
        }
        assert!(
            bench.script.sent_bytes.get() >= budget_bytes,
            "it uses its budget"
        );
        // It sent nothing for long, and its time went on all the same.
        assert!(!bench.sent.less_than(&(48 * TICK_MS)));
        // What becomes durable makes room, and no more than that.
        let mut settled_bytes = bench.script.sent_bytes.get();
        for round in 0..20 {
            bench.script.durable.set(bench.script.pushed.get());
            bench.tick(worker, (60 + 10 * round) * TICK_MS);
            bench.tick(worker, (65 + 10 * round) * TICK_MS);
            let inflight_bytes = bench.script.sent_bytes.get() - settled_bytes;
            assert!(
                inflight_bytes < budget_bytes + one,
                "{inflight_bytes} in flight"
            );
            assert!(
                inflight_bytes > 0,
                "round {round}: a settled budget is used again"
            );
            settled_bytes = bench.script.sent_bytes.get();
        }
        assert!(bench.script.most_of_a_poll_bytes.get() < budget_bytes + one);
        bench.script.stopped.set(true);
        bench.shut_down(worker, 1000 * TICK_MS);
    });
}

#[test]
fn an_idle_source_goes_on_and_a_stopped_one_keeps_its_capability() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, 5000);
        for tick in 1..10 {
            bench.tick(worker, tick * TICK_MS);
            let passed = (tick - 1) * TICK_MS;
            bench
                .sent
                .with_frontier(|frontier| assert_eq!(frontier[..], [passed]));
        }
        bench.control.send(Command::Stop);
        bench.tick(worker, 20 * TICK_MS);
        bench.script.at_hand.set(10);
        bench.tick(worker, 30 * TICK_MS);
        assert!(bench.script.stopped.get());
        assert_eq!(bench.script.sent_bytes.get(), 0);
        bench
            .sent
            .with_frontier(|frontier| assert_eq!(frontier[..], [29 * TICK_MS]));
        bench.shut_down(worker, 40 * TICK_MS);
    });
}

#[test]
fn nothing_is_polled_before_the_first_tick_has_passed() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, 5000);
        bench.script.at_hand.set(1);
        bench.tick(worker, 0);
        assert!(bench.script.polls.borrow().is_empty());
        bench.tick(worker, TICK_MS);
        assert_eq!(*bench.script.polls.borrow(), [0]);
        bench.shut_down(worker, 40 * TICK_MS);
    });
}

#[test]
fn a_partition_end_is_not_before_its_records() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker, 500);
        bench.script.durable.set(u64::MAX);
        bench.script.ends.set(true);
        bench.script.at_hand.set(20);
        for tick in 1..30 {
            bench.tick(worker, 3 * tick * TICK_MS);
        }
        let polls = bench.script.polls.borrow().clone();
        assert!(
            polls.len() > 3,
            "a small budget needs many polls: {polls:?}"
        );
        let last = polls[polls.len() - 1];
        let ends = bench.ends.borrow().clone();
        assert_eq!(ends.len(), 1);
        let (stamped, end) = &ends[0];
        assert!(*stamped >= last && end.tick >= last && *stamped >= end.tick);
        bench.shut_down(worker, 1000 * TICK_MS);
    });
}
