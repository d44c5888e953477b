//! The last report of every worker is in before the frontier has passed the shutdown.

use super::reports;
use crate::control::{Command, broadcast};
use std::cell::Cell;
use std::rc::Rc;
use timely::Config;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::InputHandle;

const TICK_MS: u64 = 20;

type Control = InputHandle<u64, CapacityContainerBuilder<Vec<Command>>>;

#[test]
fn the_last_report_is_in_when_the_shutdown_has_passed() {
    for jump in [1, 7] {
        let guards = timely::execute(Config::process(2), move |worker| {
            let mut control = Control::new();
            let calls = Rc::new(Cell::new(0_u64));
            let (latest, probe) = worker.dataflow::<u64, _, _>(|scope| {
                let calls = Rc::clone(&calls);
                let control = broadcast(control.to_stream(scope));
                reports(control, TICK_MS, 5 * TICK_MS, move |_| {
                    calls.set(calls.get() + 1);
                    calls.get()
                })
            });
            let last = 40 * TICK_MS;
            if worker.index() == 0 {
                for tick in (0..last).step_by((jump * TICK_MS) as usize) {
                    control.advance_to(tick);
                    worker.step();
                }
                control.advance_to(last);
                control.send(Command::Shutdown);
                // Time goes on in a jump, past the shutdown.
                control.advance_to(last + jump * TICK_MS);
            } else {
                drop(control);
            }
            while probe.less_equal(&last) {
                worker.step_or_park(Some(std::time::Duration::from_millis(1)));
            }
            let seen = latest.borrow().clone();
            (worker.index(), calls.get(), seen)
        })
        .expect("threads start");
        let ended: Vec<_> = guards.join().into_iter().map(Result::unwrap).collect();
        for (index, calls, _) in &ended {
            assert!(*calls >= 2, "worker {index} reported {calls} times");
            assert_eq!(
                ended[0].2.get(index),
                Some(calls),
                "worker {index}, jump {jump}"
            );
        }
        assert!(ended[1].2.is_empty(), "only worker 0 receives");
    }
}

#[test]
fn a_shutdown_at_the_first_tick_is_reported_too() {
    let seen = timely::execute_directly(|worker| {
        let mut control = Control::new();
        let (latest, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let control = broadcast(control.to_stream(scope));
            reports(control, TICK_MS, TICK_MS, |_| "bye".to_owned())
        });
        control.send(Command::Shutdown);
        drop(control);
        (0..10).for_each(|_| {
            worker.step();
        });
        assert!(probe.done(), "the report lets go of its capability");
        latest.borrow().clone()
    });
    assert_eq!(seen.get(&0).map(String::as_str), Some("bye"));
}
