//! Hands what the merge emits to an outlet, in order, and holds its ticks until it is durable.
//!
//! Invariant: the frontier behind this operator passes a tick only when every record of it is
//! durable in the target, the quarantine and the dead-letter output alike.
//!
//! It cannot: wait, sort, or group by time. A READ that was held leaves with an older tick than a
//! mutation that left before it; the outlet gets them as they came.

#[cfg(test)]
mod tests;

use crate::record::Records;
use std::collections::VecDeque;
use std::convert::Infallible;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Stream, StreamVec};
use timely::scheduling::SyncActivator;

/// Takes records and makes them durable on threads of its own.
pub trait Outlet {
    /// Takes records, never blocking. The ticket is greater than every one before it.
    fn push(&mut self, records: Records) -> u64;

    /// Everything with a ticket *below* this is durable.
    fn durable(&mut self) -> u64;

    /// Every record stamped before `tick` has been pushed; `None`: no record comes any more.
    fn passed(&mut self, tick: Option<u64>) {
        let _ = tick;
    }
}

impl<O: Outlet + ?Sized> Outlet for Box<O> {
    fn push(&mut self, records: Records) -> u64 {
        (**self).push(records)
    }

    fn durable(&mut self) -> u64 {
        (**self).durable()
    }

    fn passed(&mut self, tick: Option<u64>) {
        (**self).passed(tick);
    }
}

/// Builds the sink. `outlet` is made with the activator to call when more has become durable.
pub fn sink<'scope, O: Outlet + 'static>(
    data: Stream<'scope, u64, Records>,
    outlet: impl FnOnce(SyncActivator) -> O,
) -> StreamVec<'scope, u64, Infallible> {
    let scope = data.scope();
    let mut builder = OperatorBuilder::new("Sink".to_owned(), scope);
    let address = builder.operator_info().address;
    let mut outlet = outlet(scope.worker().sync_activator_for(address.to_vec()));
    let (flushed, stream) = builder.new_output::<Vec<Infallible>>();
    let mut data = builder.new_input(data, Pipeline);
    builder.build(move |capabilities| {
        drop(capabilities);
        let flushed = flushed;
        let mut waiting: VecDeque<(u64, Capability<u64>)> = VecDeque::new();
        move |frontiers| {
            let _keep = &flushed;
            data.for_each(|capability, records| {
                let ticket = outlet.push(std::mem::take(records));
                let tick = *capability.least().expect("a record has a tick");
                match waiting.back_mut() {
                    // One capability for neighbours of one tick, held for the last of them.
                    Some((last, held)) if *held.time() == tick => *last = ticket,
                    _ => {
                        let held = capability.retain_least(0).expect("a record has a tick");
                        waiting.push_back((ticket, held));
                    }
                }
            });
            outlet.passed(frontiers[0].frontier().first().copied());
            let durable = outlet.durable();
            while waiting.front().is_some_and(|(ticket, _)| *ticket < durable) {
                waiting.pop_front();
            }
        }
    });
    stream
}
