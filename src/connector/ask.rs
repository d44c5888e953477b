//! Asks a Connect worker for all its connectors.

use super::{Connector, TaskState};
use crate::config::secret::Secret;
use crate::connect::Connect;
use crate::error::Error;

/// All connectors of the worker at `url`.
///
/// # Errors
/// Of usage: an address that cannot be asked. Failed: nobody answers, or not as Connect does.
pub fn connectors(url: &Secret) -> Result<Vec<Connector>, Error> {
    let connect = Connect::new(&url.resolve()?)?;
    let mut all = Vec::new();
    for name in connect.connectors()? {
        // One that was removed just now is not there.
        let Some(config) = connect.config(&name)? else {
            continue;
        };
        let status = connect.status(&name)?;
        let tasks = status.as_ref().map(|status| status.tasks.clone());
        let task = |task: crate::connect::TaskStatus| TaskState {
            id: u64::from(task.id),
            state: task.state,
            trace: task.trace,
        };
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        all.push(Connector {
            name,
            config: config.iter().map(pair).collect(),
            state: status.map_or_else(|| "UNASSIGNED".to_owned(), |status| status.state),
            tasks: tasks.into_iter().flatten().map(task).collect(),
        });
    }
    Ok(all)
}
