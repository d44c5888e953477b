//! Rules over all connectors of the worker: what they take from each other.

use super::Lint;
use crate::check::finding::Finding;
use crate::connector::Connector;
use crate::error::ErrorKind::Refused;

pub(super) fn rules(given: &Lint<'_>, findings: &mut Vec<Finding>) {
    let ours = |one: &Connector| {
        let name = Some(one.name.as_str());
        name == given.live || name == given.snapshot
    };
    for (index, one) in given.connectors.iter().enumerate() {
        for other in &given.connectors[index + 1..] {
            if ours(one) || ours(other) {
                pair(one, other, given, findings);
            }
        }
    }
}

fn pair(one: &Connector, other: &Connector, given: &Lint<'_>, findings: &mut Vec<Finding>) {
    let thing = format!("connectors {} and {}", one.name, other.name);
    let names = [Some(one.name.as_str()), Some(other.name.as_str())];
    let the_pair = names.contains(&given.live) && names.contains(&given.snapshot);
    let same_database = ["database.hostname", "database.port", "database.dbname"]
        .iter()
        .all(|key| one.get(key) == other.get(key));
    if same_database && streams(one) && streams(other) {
        if let (Some(table), Some(same)) = (signals(one), signals(other))
            && table == same
        {
            findings.push(
                Finding::warning(
                    &thing,
                    format!("both obey the signal table {table}"),
                    &["A signal that is meant for one starts a snapshot in the other, too."],
                )
                .expected("a signal table for each, or signals by Kafka"),
            );
        }
        let slot = one.or("slot.name", "debezium");
        if one.is_postgres() && other.is_postgres() && slot == other.or("slot.name", "debezium") {
            findings.push(
                Finding::bad(Refused, &thing, format!("both use the slot `{slot}`"))
                    .expected("a slot for each")
                    .to_do("Changes that one of them has taken never come to the other."),
            );
        }
        let key = "publication.name";
        let publication = one.or(key, "dbz_publication");
        let filtered = |one: &Connector| one.get("publication.autocreate.mode") == Some("filtered");
        let lists = one.get("table.include.list") != other.get("table.include.list");
        if publication == other.or(key, "dbz_publication")
            && lists
            && (filtered(one) || filtered(other))
        {
            findings.push(
                Finding::warning(
                    &thing,
                    format!("both use the publication `{publication}`, with other tables"),
                    &["With autocreate.mode=filtered each start takes the others away."],
                )
                .expected("a publication for each"),
            );
        }
    }
    let tagged = one.get("custom.metric.tags") != other.get("custom.metric.tags");
    let same_prefix = !one.prefix().is_empty() && one.prefix() == other.prefix();
    if !the_pair && same_prefix && !tagged {
        findings.push(
            Finding::warning(
                &thing,
                format!("one topic.prefix, `{}`, in one worker", one.prefix()),
                &["They may write to the same topics, and the second one starts 111 s late (JMX)."],
            )
            .expected("a topic.prefix for each, or custom.metric.tags"),
        );
    }
}

/// One that only reads a snapshot has neither slot nor ears for signals.
fn streams(connector: &Connector) -> bool {
    connector.or("snapshot.mode", "initial") != "initial_only"
}

fn signals(connector: &Connector) -> Option<&str> {
    let channels = connector.or("signal.enabled.channels", "source");
    let by_table = channels.split(',').any(|one| one.trim() == "source");
    connector
        .get("signal.data.collection")
        .filter(|_| by_table && !connector.flag("read.only", false))
}
