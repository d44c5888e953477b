//! The frontier behind the sink passes a tick only when all its tickets are durable.

use super::{Outlet, sink};
use crate::record::{Op, RecordRef, Records};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::{Concat, Probe};
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::worker::Worker;

type Handle = InputHandle<u64, CapacityContainerBuilder<Records>>;

struct Script {
    got: Rc<RefCell<Vec<u64>>>,
    next: u64,
    durable: Rc<Cell<u64>>,
}

impl Outlet for Script {
    fn push(&mut self, records: Records) -> u64 {
        let offsets = records.iter().map(|record| record.offset);
        self.got.borrow_mut().extend(offsets);
        self.next += 1;
        self.next - 1
    }

    fn durable(&mut self) -> u64 {
        self.durable.get()
    }
}

struct Bench {
    one: Handle,
    two: Handle,
    got: Rc<RefCell<Vec<u64>>>,
    durable: Rc<Cell<u64>>,
    wake: timely::scheduling::SyncActivator,
    probe: ProbeHandle<u64>,
}

fn bench(worker: &mut Worker) -> Bench {
    let (mut one, mut two) = (Handle::new(), Handle::new());
    let (got, durable) = (Rc::default(), Rc::new(Cell::new(0)));
    let mut wake = None;
    let probe = worker.dataflow::<u64, _, _>(|scope| {
        let data = one.to_stream(scope).concat(two.to_stream(scope));
        let flushed = sink(data, |waker| {
            wake = Some(waker);
            Script {
                got: Rc::clone(&got),
                next: 0,
                durable: Rc::clone(&durable),
            }
        });
        flushed.probe().0
    });
    Bench {
        one,
        two,
        got,
        durable,
        wake: wake.expect("the sink was built"),
        probe,
    }
}

/// Sends one record as one container, and steps until it has arrived.
fn send(worker: &mut Worker, handle: &mut Handle, tick: u64, offset: u64) {
    handle.advance_to(tick);
    handle.send(RecordRef {
        fingerprint: 1,
        op: Op::Upsert,
        table: 0,
        generation: 0,
        partition: 0,
        offset,
        read_time_ms: 0,
        key: b"k",
        value: b"v",
    });
    handle.flush();
    steps(worker);
}

fn steps(worker: &mut Worker) {
    (0..5).for_each(|_| {
        worker.step();
    });
}

impl Bench {
    /// The first tick that is not passed once so many tickets are durable.
    fn frontier_at(&self, worker: &mut Worker, durable: u64) -> u64 {
        self.durable.set(durable);
        self.wake.activate().expect("the worker is here");
        steps(worker);
        self.probe.with_frontier(|frontier| frontier[0])
    }
}

#[test]
fn ticks_out_of_order_are_held_each_for_its_own_tickets() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker);
        // A held READ (tick 40) leaves behind a mutation of tick 100, and another follows.
        send(worker, &mut bench.one, 100, 0);
        send(worker, &mut bench.two, 40, 1);
        send(worker, &mut bench.one, 100, 2);
        bench.one.advance_to(200);
        bench.two.advance_to(200);
        steps(worker);
        assert_eq!(
            *bench.got.borrow(),
            [0, 1, 2],
            "the outlet gets them as they came"
        );
        assert_eq!(bench.frontier_at(worker, 0), 40);
        assert_eq!(bench.frontier_at(worker, 1), 40);
        assert_eq!(bench.frontier_at(worker, 2), 100);
        assert_eq!(bench.frontier_at(worker, 3), 200);
        bench.durable.set(u64::MAX);
    });
}

#[test]
fn neighbours_of_one_tick_wait_for_the_last_of_them() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker);
        for offset in 0..3 {
            send(worker, &mut bench.one, 60, offset);
        }
        bench.one.advance_to(200);
        bench.two.advance_to(200);
        assert_eq!(bench.frontier_at(worker, 2), 60);
        assert_eq!(bench.frontier_at(worker, 3), 200);
        bench.durable.set(u64::MAX);
    });
}

#[test]
fn an_ended_input_waits_for_durability() {
    timely::execute_directly(|worker| {
        let mut bench = bench(worker);
        send(worker, &mut bench.one, 60, 0);
        let Bench {
            one,
            two,
            durable,
            wake,
            probe,
            ..
        } = bench;
        drop((one, two));
        steps(worker);
        assert!(probe.less_equal(&60));
        durable.set(1);
        wake.activate().expect("the worker is here");
        steps(worker);
        assert!(probe.done());
    });
}
