//! Rules for the live connector: every change of a row must come, and be known for what it is.

use super::Lint;
use crate::check::finding::Finding;
use crate::connector::Connector;
use crate::error::ErrorKind::{Refused, Usage};
use crate::evidence::slot::by_hand;

pub(super) fn rules(
    connector: &Connector,
    thing: &str,
    given: &Lint<'_>,
    findings: &mut Vec<Finding>,
) {
    skipped(connector, thing, findings);
    heartbeat(connector, thing, given, findings);
    mode(connector, thing, findings);
    confirms(connector, thing, findings);
    signals(connector, thing, given, findings);
    if !connector.flag("tombstones.on.delete", true) {
        findings.push(
            Finding::warning(
                thing,
                "tombstones.on.delete=false",
                &[
                    "Deletes are still seen, by their `d`. A Kafka target with compaction keeps",
                    "rows that are gone, and so does a flattened topic.",
                ],
            )
            .expected("tombstones.on.delete=true"),
        );
    }
}

fn skipped(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    let skipped = connector.or("skipped.operations", "t");
    let skips = |op: &str| skipped.split(',').any(|one| one.trim() == op);
    let rows: Vec<&str> = ["c", "u", "d"].into_iter().filter(|op| skips(op)).collect();
    if !rows.is_empty() {
        findings.push(
            Finding::bad(Refused, thing, format!("skipped.operations={skipped}"))
                .expected("skipped.operations=none")
                .to_do(format!(
                    "Changes of kind {} never come, so READs older than them would pass.",
                    rows.join(", ")
                )),
        );
    } else if skips("t") {
        let how = match connector.get("skipped.operations") {
            Some(_) => "",
            None => " (the default)",
        };
        findings.push(
            Finding::warning(
                thing,
                format!("skipped.operations=t{how}: TRUNCATE is not seen"),
                &[
                    "After a TRUNCATE at the source all its rows would stay in the target. With",
                    "`none` the job stops at one and says what to do.",
                ],
            )
            .expected("skipped.operations=none"),
        );
    }
}

fn heartbeat(connector: &Connector, thing: &str, given: &Lint<'_>, findings: &mut Vec<Finding>) {
    let Some(topic) = connector.heartbeat_topic() else {
        let found = match given.heartbeat {
            Some(named) => format!("it sends no heartbeats, but source.heartbeat is {named}"),
            None => "it sends no heartbeats".to_owned(),
        };
        findings.push(
            Finding::warning(
                thing,
                found,
                &[
                    "When the tables are idle nothing shows that it is past the snapshot: the job",
                    "waits for `caught_up`, and the slot holds back the database's log.",
                ],
            )
            .expected("heartbeat.interval.ms=10000, and source.heartbeat"),
        );
        return;
    };
    match given.heartbeat {
        Some(named) if topic.open.is_empty() && named != topic.name => findings.push(
            Finding::bad(
                Usage,
                thing,
                format!("its heartbeats are in {}", topic.name),
            )
            .expected(format!("{named}, which is source.heartbeat"))
            .to_do(format!("Set source.heartbeat = \"{}\".", topic.name)),
        ),
        None => findings.push(
            Finding::warning(
                thing,
                "it sends heartbeats that nobody reads: source.heartbeat is not set",
                &["An idle source could then not be told from one that lags."],
            )
            .expected(format!("source.heartbeat = \"{}\"", topic.name)),
        ),
        Some(_) => {}
    }
}

/// Who moves the slot, and whether a restart finds it where it was left.
fn confirms(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    let mode = connector.get("lsn.flush.mode");
    let strategy = connector.or("offset.mismatch.strategy", "no_validation");
    let slot_counts = matches!(strategy, "trust_slot" | "trust_greater_lsn");
    let found = if by_hand(mode, connector.get("flush.lsn.source")) {
        Finding::warning(
            thing,
            "lsn.flush.mode=manual: it does not move its slot",
            &[
                "Then the slot proves nothing of it, and holds back the database's log until",
                "somebody else moves it.",
            ],
        )
    } else if mode == Some("connector_and_driver") && !slot_counts {
        Finding::warning(
            thing,
            format!("lsn.flush.mode=connector_and_driver, offset.mismatch.strategy={strategy}"),
            &[
                "On an idle source its slot gets ahead of its offset, and a restart fails:",
                "\"no longer available on the server\". It needs trust_slot there.",
            ],
        )
    } else {
        return;
    };
    findings.push(found.expected("lsn.flush.mode=connector, and a heartbeat.action.query"));
}

fn mode(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    let mode = connector.or("snapshot.mode", "initial");
    let expected = "snapshot.mode=no_data";
    match mode {
        "no_data" | "never" | "schema_only" => {}
        "initial_only" => findings.push(
            Finding::bad(
                Refused,
                thing,
                "snapshot.mode=initial_only: it does not stream",
            )
            .expected(expected)
            .to_do("Is this the snapshot connector? Change source.connect.live."),
        ),
        _ => findings.push(
            Finding::warning(
                thing,
                format!("snapshot.mode={mode}"),
                &[
                    "READs in the mutation topic are emitted in place, older than every mutation",
                    "after them. Good, but slow: each start of a new slot may read all rows again.",
                ],
            )
            .expected(expected),
        ),
    }
    if connector.is_postgres() && connector.get("slot.name").is_none() {
        let found = "slot.name is not set: it is `debezium`";
        let advice = "Two connectors with one slot take changes from each other.";
        findings.push(Finding::warning(thing, found, &[advice]).expected("a slot of its own"));
    }
}

fn signals(connector: &Connector, thing: &str, given: &Lint<'_>, findings: &mut Vec<Finding>) {
    let Some(table) = connector.get("signal.data.collection") else {
        return;
    };
    // Debezium names it with the database for some sources.
    let same = |known: &str| known == table || table.ends_with(&format!(".{known}"));
    if !given.signal_table.is_some_and(same) {
        findings.push(
            Finding::warning(
                thing,
                format!("its signal table is {table}"),
                &["Its rows are left out when they have the usual three columns, else by name."],
            )
            .expected(format!("decode.signal_table = \"{table}\"")),
        );
    }
}
