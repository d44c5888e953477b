//! Values from every worker to worker 0, each soon after it is there.
//!
//! The operator asks `take` at every tick and whenever it is activated. It holds a capability that
//! follows control, and lets go of it at shutdown: whoever shuts down has seen what it waits for.
//!
//! It cannot promise an order between workers.

use crate::control::{Command, ControlLog};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Operator;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

/// What has come to worker 0 and was not taken yet (empty elsewhere).
pub type Gathered<V> = Rc<RefCell<Vec<V>>>;

/// Builds it. `take` appends what this worker has to say.
pub fn gather<'scope, V>(
    control: StreamVec<'scope, u64, Command>,
    tick_ms: u64,
    mut take: impl FnMut(&mut Vec<V>) + 'static,
) -> Gathered<V>
where
    V: Clone + Serialize + for<'de> Deserialize<'de> + Send + 'static,
{
    let scope = control.scope();
    let mut builder = OperatorBuilder::new("Gather".to_owned(), scope);
    let mut control = builder.new_input_connection(control, Pipeline, []);
    let (output, stream) = builder.new_output_connection::<Vec<V>, _>([]);
    let mut output = OutputBuilder::<u64, CapacityContainerBuilder<Vec<V>>>::from(output);
    builder.build(move |mut capabilities| {
        let mut held = capabilities.pop();
        let mut log = ControlLog::new(tick_ms);
        let mut values = Vec::new();
        move |frontiers| {
            control.for_each(|capability, commands| {
                let tick = *capability.least().expect("a control message has a tick");
                for command in commands.drain(..) {
                    log.receive(tick, command);
                }
            });
            let commands = log.advance(&frontiers[0]);
            let (Some(capability), Some(tick)) = (held.as_mut(), log.passed()) else {
                return;
            };
            capability.downgrade(&tick);
            take(&mut values);
            if !values.is_empty() {
                output
                    .activate()
                    .session(&*capability)
                    .give_iterator(values.drain(..));
            }
            if commands
                .iter()
                .any(|(_, command)| *command == Command::Shutdown)
            {
                held = None;
            }
        }
    });
    let gathered = Gathered::<V>::default();
    let received = Rc::clone(&gathered);
    stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
        Exchange::new(|_: &V| 0),
        "Gathered",
        move |_, _| {
            move |input, _| {
                input.for_each(|_, values| received.borrow_mut().append(values));
            }
        },
    );
    gathered
}
