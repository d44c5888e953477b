//! Whether a connector is there and runs.

use super::Lint;
use crate::check::finding::Finding;
use crate::connector::Connector;
use crate::error::ErrorKind;

pub(super) fn missing(role: &str, thing: &str, given: &Lint<'_>) -> Finding {
    let names: Vec<&str> = given
        .connectors
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let found = match names.is_empty() {
        true => "not there: the worker has no connector".to_owned(),
        false => format!("not there; the worker has {}", names.join(", ")),
    };
    match role {
        "live" => Finding::bad(ErrorKind::Usage, thing, found)
            .expected("the connector that writes the mutation topics, in source.connect.live")
            .to_do("Correct the name, or start it: mutations must be recorded before a snapshot."),
        _ => {
            let mut finding = Finding::ok(thing, found);
            finding.advice = vec![
                "Good before the start: the generation is opened first, then the snapshot is \
                 triggered."
                    .to_owned(),
                "`headwater init --connect URL --connector LIVE` prints its configuration."
                    .to_owned(),
            ];
            finding
        }
    }
}

/// The tasks decide: over failed ones the connector says RUNNING.
pub(super) fn state(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    let name = &connector.name;
    let restart = format!(
        "Look at the worker's log, then POST /connectors/{name}/restart?includeTasks=true&\
         onlyFailed=true."
    );
    let failed = connector.tasks.iter().find(|task| task.state == "FAILED");
    if let Some(task) = failed {
        let why = task.trace.as_deref().unwrap_or("no reason is given");
        let said = &connector.state;
        findings.push(
            Finding::bad(
                ErrorKind::Failed,
                thing,
                format!(
                    "task {} FAILED while the connector says {said}: {why}",
                    task.id
                ),
            )
            .expected("every task RUNNING")
            .to_do(restart),
        );
    } else if connector.state == "FAILED" {
        let finding = Finding::bad(ErrorKind::Failed, thing, "FAILED");
        findings.push(finding.expected("RUNNING").to_do(restart));
    } else if let Some(state) = paused(connector) {
        findings.push(
            Finding::warning(thing, format!("it is {state}: nothing is written"), &[])
                .expected("RUNNING")
                .to_do(format!("PUT /connectors/{name}/resume goes on.")),
        );
    } else if connector.tasks.is_empty() {
        findings.push(
            Finding::warning(thing, format!("{} without a task", connector.state), &[])
                .expected("one task")
                .to_do("It has just started, or cannot start. Run the check again."),
        );
    }
}

fn paused(connector: &Connector) -> Option<&str> {
    let still = ["PAUSED", "STOPPED", "UNASSIGNED"];
    let tasks = connector.tasks.iter().map(|task| task.state.as_str());
    std::iter::once(connector.state.as_str())
        .chain(tasks)
        .find(|state| still.contains(state))
}
