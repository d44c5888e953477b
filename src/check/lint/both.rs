//! Rules for either connector: what would lose records or their meaning in silence.

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
    loses(connector, thing, findings);
    converters(connector, thing, findings);
    decimals(connector, thing, given, findings);
    placeholder(connector, thing, findings);
    for (name, class) in connector.transforms() {
        transform(connector, (name, class), thing, findings);
    }
    tables(connector, thing, given, findings);
}

/// Settings that drop what cannot be handled, and go on.
fn loses(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    for (key, bad, good) in [
        ("errors.tolerance", &["all"][..], "none"),
        (
            "event.processing.failure.handling.mode",
            &["warn", "skip", "ignore"],
            "fail",
        ),
        (
            "event.converting.failure.handling.mode",
            &["warn", "skip"],
            "fail",
        ),
    ] {
        if let Some(value) = connector.get(key).filter(|value| bad.contains(value)) {
            findings.push(
                Finding::bad(Refused, thing, format!("{key}={value}"))
                    .expected(format!("{key}={good}"))
                    .to_do("A change that is dropped in silence leaves a stale row for ever."),
            );
        }
    }
}

fn converters(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    for key in ["key.converter", "value.converter"] {
        let Some(class) = connector.get(key) else {
            continue;
        };
        if !class.to_ascii_lowercase().ends_with("jsonconverter") {
            findings.push(
                Finding::bad(Usage, thing, format!("{key}={class}"))
                    .expected("org.apache.kafka.connect.json.JsonConverter")
                    .to_do("Only JSON is read: bare, with schema, or flattened."),
            );
        }
    }
}

/// A decimal as bytes has its scale in the schema alone.
fn decimals(connector: &Connector, thing: &str, given: &Lint<'_>, findings: &mut Vec<Finding>) {
    let mode = connector.or("decimal.handling.mode", "precise");
    let expected = "decimal.handling.mode=string";
    if mode == "double" && given.decimals.is_none_or(|columns| !columns.is_empty()) {
        findings.push(
            Finding::warning(thing, "decimal.handling.mode=double: digits are lost", &[])
                .expected(expected),
        );
    }
    let schemas = connector.get("value.converter.schemas.enable");
    let without = schemas.is_some_and(|value| value.eq_ignore_ascii_case("false"));
    // Without a converter of its own it has the worker's, which nobody tells.
    let unknown = schemas.is_none() && connector.get("value.converter").is_none();
    if mode != "precise" || !(without || unknown) {
        return;
    }
    let columns = match given.decimals {
        Some([]) => return,
        Some(columns) => columns.join(", "),
        None => "columns of type numeric".to_owned(),
    };
    let found = match without {
        true => format!("decimal.handling.mode=precise without schemas: {columns}"),
        false => format!("decimal.handling.mode=precise, converter of the worker: {columns}"),
    };
    let advice: &[&str] = &[
        "They come as base64 bytes, and the scale is only in the schema: with schemas.enable=false",
        "nobody can tell 2.25 from 225.",
    ];
    findings.push(Finding::warning(thing, found, advice).expected(expected));
}

fn placeholder(connector: &Connector, thing: &str, findings: &mut Vec<Finding>) {
    const DEFAULT: &str = "__debezium_unavailable_value";
    let key = "unavailable.value.placeholder";
    if connector.or(key, DEFAULT) != DEFAULT {
        findings.push(
            Finding::bad(Refused, thing, format!("{key} is not the default"))
                .expected(format!("{key}={DEFAULT}"))
                .to_do("The job knows an unchanged large column by this text alone; another would")
                .to_do("be written to the target as the column's value."),
        );
    }
}

fn transform(
    connector: &Connector,
    (name, class): (&str, &str),
    thing: &str,
    findings: &mut Vec<Finding>,
) {
    let enforced = format!("transforms.{name}.key.enforce.uniqueness");
    match class {
        "ExtractNewRecordState" => flattened(connector, name, thing, findings),
        "ByLogicalTableRouter" if connector.flag(&enforced, true) => findings.push(
            Finding::warning(
                thing,
                format!("transform `{name}` adds a field to the key"),
                &["Keys of the two topics match only if both connectors add it."],
            )
            .expected(format!("{enforced}=false, or `key` of the table set")),
        ),
        "Filter" => findings.push(
            Finding::warning(
                thing,
                format!("transform `{name}` drops records"),
                &["It must never drop a change of a row: its stale READ would pass."],
            )
            .expected("no filter over rows of the tables"),
        ),
        _ => {}
    }
}

fn flattened(connector: &Connector, name: &str, thing: &str, findings: &mut Vec<Finding>) {
    let setting = |key: &str| connector.get(&format!("transforms.{name}.{key}"));
    let key = format!("transforms.{name}.delete.tombstone.handling.mode");
    let (mode, old) = (connector.get(&key), setting("delete.handling.mode"));
    let old_drop = old == Some("drop") && setting("drop.tombstones") != Some("false");
    if mode == Some("drop") || mode.is_none() && old_drop {
        findings.push(
            Finding::bad(Refused, thing, format!("transform `{name}` drops deletes"))
                .expected(format!("{key}=rewrite-with-tombstone"))
                .to_do("A delete that does not come leaves a row that is gone, and its READ")
                .to_do("brings it back."),
        );
    } else if mode.is_none() && old.is_none() {
        findings.push(
            Finding::warning(
                thing,
                format!("transform `{name}` makes a delete the 4 bytes `null` (JSON)"),
                &[
                    "Read as a delete here. A compacted topic and other readers do not take it",
                    "for a tombstone.",
                ],
            )
            .expected(format!("{key}=delete-to-tombstone")),
        );
    }
    let fields = setting("add.fields").unwrap_or_default();
    if !fields.split(',').any(|field| field.trim() == "op") {
        findings.push(
            Finding::warning(
                thing,
                format!("transform `{name}` leaves out what a record is"),
                &[
                    "Without `__op` a READ in the mutation topic looks like a mutation. A TRUNCATE",
                    "vanishes in any case.",
                ],
            )
            .expected(format!(
                "transforms.{name}.add.fields=op,source.ts_ms,source.snapshot"
            )),
        );
    }
}

/// Every table of the job that it should read is in its list.
fn tables(connector: &Connector, thing: &str, given: &Lint<'_>, findings: &mut Vec<Finding>) {
    let live = Some(connector.name.as_str()) == given.live;
    for table in given.tables {
        if connector.reads(&table.name) == Some(false) {
            let found = format!("it does not read {}", table.name);
            let expected = "the table in table.include.list";
            let finding = match live {
                true => Finding::bad(Refused, thing, found).to_do(
                    "Changes of the table would never come, so every READ of it would pass.",
                ),
                // Another connector may read it.
                false => Finding::warning(thing, found, &[]),
            };
            findings.push(finding.expected(expected));
            continue;
        }
        let topic = connector.topic_of(&table.name);
        let configured = match live {
            true => &table.mutations,
            false => &table.snapshot,
        };
        if topic.open.is_empty() && topic.name != *configured && !configured.starts_with("file:") {
            let key = if live { "mutations" } else { "snapshot" };
            findings.push(
                Finding::warning(
                    thing,
                    format!("it writes {} to {}", table.name, topic.name),
                    &[],
                )
                .expected(format!("{configured}, which is `{key}` of the table")),
            );
        }
    }
}
