//! Reports from every worker to worker 0: a value each so many ticks, and a last one at shutdown.
//!
//! The frontier of the stream passes the tick of `Shutdown` only when the last report of every
//! worker has been sent, so that worker 0 can state exact totals.
//!
//! It cannot aggregate; worker 0 does.

#[cfg(test)]
mod tests;

use crate::control::{Command, ControlLog};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{ProbeHandle, StreamVec};

/// The latest report of each worker, at worker 0 (empty elsewhere).
pub type Reports<R> = Rc<RefCell<BTreeMap<usize, R>>>;

/// Builds the reports. `report` is called on every worker each `every_ms` of job time, and once
/// more at shutdown, with the tick that control has passed there. The probe follows the stream at
/// worker 0.
pub fn reports<'scope, R>(
    control: StreamVec<'scope, u64, Command>,
    tick_ms: u64,
    every_ms: u64,
    mut report: impl FnMut(u64) -> R + 'static,
) -> (Reports<R>, ProbeHandle<u64>)
where
    R: Clone + Serialize + for<'de> Deserialize<'de> + Send + 'static,
{
    let scope = control.scope();
    let worker = scope.index();
    let mut builder = OperatorBuilder::new("Report".to_owned(), scope);
    let mut control = builder.new_input_connection(control, Pipeline, []);
    let (output, stream) = builder.new_output_connection::<Vec<(usize, R)>, _>([]);
    let mut output = OutputBuilder::<u64, CapacityContainerBuilder<Vec<(usize, R)>>>::from(output);
    builder.build(move |mut capabilities| {
        let mut held = capabilities.pop();
        let mut log = ControlLog::new(tick_ms);
        let mut next_ms = 0;
        move |frontiers| {
            control.for_each(|capability, commands| {
                let tick = *capability.least().expect("a control message has a tick");
                for command in commands.drain(..) {
                    log.receive(tick, command);
                }
            });
            let shutdown = log
                .advance(&frontiers[0])
                .into_iter()
                .find(|(_, command)| *command == Command::Shutdown);
            let Some(capability) = held.as_mut() else {
                return;
            };
            // The last report is stamped no later than the shutdown, so that the frontier behind
            // the receiver passes that tick only when it has arrived.
            if let Some((tick, _)) = shutdown {
                capability.downgrade(&tick);
                output
                    .activate()
                    .session(&*capability)
                    .give((worker, report(tick)));
                held = None;
                return;
            }
            let Some(tick) = log.passed() else { return };
            capability.downgrade(&tick);
            if tick >= next_ms {
                next_ms = tick.saturating_add(every_ms);
                output
                    .activate()
                    .session(&*capability)
                    .give((worker, report(tick)));
            }
        }
    });
    gathered(stream)
}

/// Worker 0's end of the stream of reports.
fn gathered<R>(stream: StreamVec<'_, u64, (usize, R)>) -> (Reports<R>, ProbeHandle<u64>)
where
    R: Clone + Serialize + for<'de> Deserialize<'de> + Send + 'static,
{
    let latest = Reports::<R>::default();
    let received = Rc::clone(&latest);
    let (probe, _) = stream
        .unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
            Exchange::new(|_: &(usize, R)| 0),
            "Reports",
            move |_, _| {
                move |input, _| {
                    input.for_each(|_, reports| {
                        received.borrow_mut().extend(reports.drain(..));
                    });
                }
            },
        )
        .probe();
    (latest, probe)
}
