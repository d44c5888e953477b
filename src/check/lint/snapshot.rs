//! Rules for the snapshot connector: READs alone, in a private topic, with an end that is told.

use super::Lint;
use crate::check::finding::Finding;
use crate::connector::Connector;
use crate::error::ErrorKind::{Refused, Usage};

pub(super) fn rules(
    connector: &Connector,
    thing: &str,
    given: &Lint<'_>,
    findings: &mut Vec<Finding>,
) {
    mode(connector, thing, findings);
    notifications(connector, thing, given, findings);
    let overrides = connector.list("snapshot.select.statement.overrides");
    if !overrides.is_empty() {
        findings.push(
            Finding::warning(
                thing,
                format!("it reads only a part of {}", overrides.join(", ")),
                &["Rows that it leaves out come with their next change alone."],
            )
            .expected("no snapshot.select.statement.overrides"),
        );
    }
}

fn mode(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    let mode = connector.or("snapshot.mode", "initial");
    if mode == "initial_only" {
        return;
    }
    let skipped = connector.or("skipped.operations", "t");
    let streams: Vec<&str> = ["c", "u", "d"]
        .into_iter()
        .filter(|op| !skipped.split(',').any(|one| one.trim() == *op))
        .collect();
    let channels = connector.or("signal.enabled.channels", "source");
    let by_table = connector
        .get("signal.data.collection")
        .filter(|_| channels.split(',').any(|one| one.trim() == "source"));
    let signalled = by_table.is_some() || channels != "source";
    if mode == "no_data" && !signalled {
        findings.push(
            Finding::bad(
                Usage,
                thing,
                "snapshot.mode=no_data and no signal channel: it reads nothing",
            )
            .expected("snapshot.mode=initial_only, or a signal channel"),
        );
    }
    let only_signal_rows = by_table.is_some() && streams == ["c"];
    if !streams.is_empty() && !only_signal_rows {
        findings.push(
            Finding::bad(
                Refused,
                thing,
                format!("snapshot.mode={mode}: changes come to its topic, too"),
            )
            .expected("snapshot.mode=initial_only, or skipped.operations=c,u,d,t")
            .to_do("A snapshot topic must hold READs alone: the job stops at a mutation in it."),
        );
    }
    if let Some(table) = by_table
        && !streams.contains(&"c")
    {
        findings.push(
            Finding::warning(
                thing,
                format!("it skips `c`, so it never sees the rows of its signal table {table}"),
                &["A signal by Kafka (signal.enabled.channels=kafka, read.only=true) does come."],
            )
            .expected("skipped.operations=u,d,t, or signals by Kafka"),
        );
    }
    if mode == "no_data" && signalled {
        findings.push(
            Finding::warning(
                thing,
                "an incremental snapshot",
                &[
                    "A key change that moves a row over the cursor leaves no READ of it, and a",
                    "large column that did not change comes from nowhere else.",
                ],
            )
            .expected("snapshot.mode=initial_only for tables with large columns"),
        );
    }
}

fn notifications(
    connector: &Connector,
    thing: &str,
    given: &Lint<'_>,
    findings: &mut Vec<Finding>,
) {
    let Some(topic) = connector.notification_topic() else {
        findings.push(
            Finding::warning(
                thing,
                "it sends no notifications",
                &["How many READs there are is not known: the evidence `counted` never comes."],
            )
            .expected(
                "notification.enabled.channels=sink, notification.sink.topic.name, and \
                 source.notifications",
            ),
        );
        return;
    };
    let name = &topic.name;
    match given.notifications {
        Some(named) if topic.open.is_empty() && named != name => findings.push(
            Finding::bad(Usage, thing, format!("its notifications are in {name}"))
                .expected(format!("{named}, which is source.notifications"))
                .to_do(format!("Set source.notifications = \"{name}\".")),
        ),
        None => findings.push(
            Finding::warning(
                thing,
                "it sends notifications that nobody reads: source.notifications is not set",
                &[],
            )
            .expected(format!("source.notifications = \"{name}\"")),
        ),
        Some(_) => {}
    }
    if let Some(partitions) = connector.created_partitions(name)
        && partitions > 1
    {
        findings.push(
            Finding::warning(
                thing,
                format!("it would create {name} with {partitions} partitions"),
                &["Notifications lose their order; an end before its start counts for nothing."],
            )
            .expected("1 partition: a topic.creation group of its own, or the topic made before"),
        );
    }
}
