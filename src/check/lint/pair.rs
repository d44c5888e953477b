//! Rules over the live and the snapshot connector: rows must have one key and one form.

use super::Lint;
use crate::check::finding::Finding;
use crate::connector::Connector;
use crate::error::ErrorKind::Refused;

/// Settings that decide what a value looks like, with their defaults.
const FORMS: [(&str, &str); 8] = [
    ("decimal.handling.mode", "precise"),
    ("time.precision.mode", "adaptive"),
    ("binary.handling.mode", "bytes"),
    ("hstore.handling.mode", "json"),
    ("interval.handling.mode", "numeric"),
    ("money.fraction.digits", "2"),
    ("field.name.adjustment.mode", "none"),
    ("converters", ""),
];

/// Settings that decide which columns there are, and with what in them.
const COLUMNS: [&str; 2] = ["column.include.list", "column.exclude.list"];

pub(super) fn rules(
    live: &Connector,
    snapshot: &Connector,
    given: &Lint<'_>,
    findings: &mut Vec<Finding>,
) {
    let thing = format!("connectors {} and {}", live.name, snapshot.name);
    let before = findings.len();
    private_topics(live, snapshot, given, &thing, findings);
    if !given.replica {
        servers(live, snapshot, &thing, findings);
    }
    keys(live, snapshot, &thing, findings);
    for (key, default) in FORMS {
        let (one, other) = (live.or(key, default), snapshot.or(key, default));
        if one != other {
            findings.push(
                Finding::warning(
                    &thing,
                    format!("{key} is `{one}` and `{other}`"),
                    &["The same value has two forms, and the row depends on who wrote it last."],
                )
                .expected("the same in both"),
            );
        }
    }
    let masks = |connector: &Connector| -> Vec<String> {
        let keys = connector.config.keys();
        let masks = keys.filter(|key| {
            key.starts_with("column.mask.") || key.starts_with("column.truncate.to.")
        });
        masks.cloned().collect()
    };
    // Leaving out what does not come with mutations anyway makes no difference.
    let list = |connector: &Connector, key: &str| -> Vec<String> {
        let items = connector.list(key).into_iter();
        let plain = items.map(|item| item.replace("\\.", "."));
        plain
            .filter(|item| !given.generated.contains(item))
            .collect()
    };
    let lists = COLUMNS
        .iter()
        .any(|key| list(live, key) != list(snapshot, key));
    if lists || masks(live) != masks(snapshot) {
        findings.push(
            Finding::warning(
                &thing,
                "they have different column lists or masks",
                &[
                    "A column that comes with READs alone stays for rows that no mutation touches,",
                    "and goes from all others.",
                ],
            )
            .expected("column.include.list, column.exclude.list and masks the same in both"),
        );
    }
    if findings.len() == before {
        findings.push(Finding::ok(
            thing,
            "the same keys and forms, as far as it can be seen",
        ));
    }
}

/// A standby that is behind by more than the margin gives rows that are older than every mutation
/// read, and nothing in them says so.
fn servers(live: &Connector, snapshot: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    let server = |of: &Connector| {
        let host = of.get("database.hostname")?;
        Some(format!("{host}:{}", of.or("database.port", "5432")))
    };
    let (Some(primary), Some(other)) = (server(live), server(snapshot)) else {
        return;
    };
    if primary != other {
        let found = format!("the snapshot reads {other}, the live connector {primary}");
        let advice = "If it is a standby that lags by more than retention.start_margin, rows of \
                      the target would be stale, and nothing could notice.";
        findings
            .push(Finding::warning(thing, found, &[advice]).expected(
                "source.snapshot_from = \"replica\" with replica_lag_max, or one server",
            ));
    }
}

fn private_topics(
    live: &Connector,
    snapshot: &Connector,
    given: &Lint<'_>,
    thing: &str,
    findings: &mut Vec<Finding>,
) {
    for table in given.tables {
        let (one, other) = (live.topic_of(&table.name), snapshot.topic_of(&table.name));
        if one.open.is_empty() && one == other {
            findings.push(
                Finding::bad(Refused, thing, format!("both write to {}", one.name))
                    .expected("a private topic of READs")
                    .to_do("Give the snapshot connector a RegexRouter to topics of its own, or")
                    .to_do("another topic.prefix."),
            );
        }
    }
    let tagged = live.get("custom.metric.tags") != snapshot.get("custom.metric.tags");
    if live.prefix() == snapshot.prefix() && !tagged {
        findings.push(
            Finding::warning(
                thing,
                format!("one topic.prefix, `{}`, in one worker", live.prefix()),
                &["Their JMX names clash: the second one starts 111 s late."],
            )
            .expected("custom.metric.tags=rebuild=g1 in the snapshot connector"),
        );
    }
}

fn keys(live: &Connector, snapshot: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    let columns = |connector: &Connector| connector.get("message.key.columns").map(str::to_owned);
    if columns(live) != columns(snapshot) {
        findings.push(
            Finding::bad(Refused, thing, "message.key.columns differs")
                .expected("the same in both")
                .to_do("Keys that differ never match: every stale READ would pass."),
        );
    }
    let router = |connector: &Connector| {
        let adds = |(name, class): &(&str, &str)| {
            let key = format!("transforms.{name}.key.enforce.uniqueness");
            *class == "ByLogicalTableRouter" && connector.flag(&key, true)
        };
        connector.transforms().iter().any(adds)
    };
    if router(live) != router(snapshot) {
        findings.push(
            Finding::bad(Refused, thing, "one of them adds a field to its keys")
                .expected("key.enforce.uniqueness=false in the router, or `key` of the table set")
                .to_do("Keys that differ never match: every stale READ would pass."),
        );
    }
    let flat = |connector: &Connector| {
        let mut transforms = connector.transforms().into_iter();
        transforms.any(|(_, class)| class == "ExtractNewRecordState")
    };
    if flat(live) != flat(snapshot) {
        findings.push(Finding::warning(
            thing,
            "one is flattened (ExtractNewRecordState), the other is not",
            &["Both are read. A target of JSON lines or Kafka then holds rows of two forms."],
        ));
    }
    for key in ["key.converter", "value.converter"] {
        let (one, other) = (live.get(key), snapshot.get(key));
        if one.is_some() != other.is_some() {
            findings.push(
                Finding::warning(
                    thing,
                    format!("{key} is set in one of them alone"),
                    &["The other has the worker's, which Connect does not tell."],
                )
                .expected("the same in both; keys are compared by value, not by bytes"),
            );
        }
    }
}
