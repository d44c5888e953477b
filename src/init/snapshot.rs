//! The configuration of the snapshot connector that goes with a live one.
//!
//! Invariant: whatever decides what a key or a value looks like is that of the live connector, and
//! no secret of it is printed.

use super::plan::Plan;
use crate::source_database::SourceTable;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What is the live connector's own, by the first part of its name.
const OWN: [&str; 16] = [
    "name",
    "snapshot.",
    "slot.",
    "publication.",
    "signal.",
    "read.only",
    "incremental.",
    "heartbeat.",
    "topic.heartbeat.",
    "skipped.operations",
    "notification.",
    "topic.creation.",
    "table.",
    "custom.metric.tags",
    "exactly.once.",
    "transaction.boundary",
];

const SECRETS: [&str; 8] = [
    "password",
    "secret",
    "token",
    "jaas.config",
    "user.info",
    "credential",
    "private.key",
    "keystore.key",
];

/// The JSON, and how it is used.
pub(super) fn text(plan: &Plan, found: &[Option<SourceTable>]) -> String {
    let name = &plan.snapshot;
    let config: Map<String, Value> = config(plan, found)
        .into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    let json = serde_json::to_string_pretty(&config).expect("plain text");
    format!(
        "\n# The snapshot connector. Create its topics first, start `headwater run`, then\n\
         # PUT CONNECT/connectors/{name}/config with this. It keeps the live topic.prefix, so\n\
         # that keys and schema names are the same; RegexRouter takes its READs to topics of\n\
         # their own. `custom.metric.tags` keeps it from waiting 111 s for a JMX name.\n\
         {json}\n"
    )
}

/// The settings. Columns that the source computes do not come with mutations, so READs go without
/// them, too.
pub(super) fn config(plan: &Plan, found: &[Option<SourceTable>]) -> BTreeMap<String, String> {
    let live = &plan.live;
    let own = |key: &str| OWN.iter().any(|prefix| key.starts_with(prefix));
    let mut config = BTreeMap::new();
    for (key, value) in live.config.iter().filter(|(key, _)| !own(key)) {
        let lower = key.to_ascii_lowercase();
        let secret = SECRETS.iter().any(|word| lower.contains(word));
        // `${file:…}` and the like are followed by Connect, and are no secret.
        let value = match secret && !value.starts_with("${") {
            true => format!("${{env:{}}}", variable(key)),
            false => value.clone(),
        };
        config.insert(key.clone(), value);
    }
    routers(plan, &mut config);
    let generated = plan.tables.iter().zip(found).flat_map(|(table, found)| {
        let columns = found.iter().flat_map(|found| &found.columns);
        let generated = columns.filter(|column| column.generated);
        generated.map(|column| format!("{}.{}", table.name, column.name).replace('.', "\\."))
    });
    let mut left_out: Vec<String> = generated.collect();
    // One list or the other: with an include list they are out unless it names them.
    if !left_out.is_empty() && live.get("column.include.list").is_none() {
        let known = live
            .list("column.exclude.list")
            .into_iter()
            .map(str::to_owned);
        left_out.splice(0..0, known);
        config.insert("column.exclude.list".to_owned(), left_out.join(","));
    }
    let name = &plan.snapshot;
    let tables: Vec<&str> = plan
        .tables
        .iter()
        .map(|table| table.name.as_str())
        .collect();
    let partitions = live.or("topic.creation.default.partitions", "1");
    let replicas = live.or("topic.creation.default.replication.factor", "-1");
    let (tags, notes) = (format!("rebuild={name}"), r".*\.notifications");
    let tables = tables.join(",");
    for (key, value) in [
        ("snapshot.mode", "initial_only"),
        ("table.include.list", tables.as_str()),
        ("custom.metric.tags", tags.as_str()),
        ("notification.enabled.channels", "sink"),
        ("notification.sink.topic.name", plan.notifications.as_str()),
        ("topic.creation.default.replication.factor", replicas),
        ("topic.creation.default.partitions", partitions),
        ("topic.creation.groups", "notes"),
        ("topic.creation.notes.include", notes),
        ("topic.creation.notes.replication.factor", replicas),
        ("topic.creation.notes.partitions", "1"),
    ] {
        config.insert(key.to_owned(), value.to_owned());
    }
    config
}

/// Takes the live routers out and puts one in that leads to the private topics.
fn routers(plan: &Plan, config: &mut BTreeMap<String, String>) {
    let mut names = Vec::new();
    for (name, class) in plan.live.transforms() {
        match class {
            "RegexRouter" => {
                let prefix = format!("transforms.{name}.");
                config.retain(|key, _| !key.starts_with(&prefix));
            }
            _ => names.push(name.to_owned()),
        }
    }
    names.push("private".to_owned());
    let prefix = plan.live.prefix().replace('.', "\\.");
    let delimiter = plan.live.or("topic.delimiter", ".").replace('.', "\\.");
    let class = "org.apache.kafka.connect.transforms.RegexRouter";
    for (key, value) in [
        ("transforms", names.join(",")),
        ("transforms.private.type", class.to_owned()),
        (
            "transforms.private.regex",
            format!("{prefix}{delimiter}(.*)"),
        ),
        (
            "transforms.private.replacement",
            format!("{}.$1", plan.snapshot),
        ),
    ] {
        config.insert(key.to_owned(), value);
    }
}

fn variable(key: &str) -> String {
    match key {
        "database.password" => "PGPASSWORD".to_owned(),
        _ => key.to_ascii_uppercase().replace(['.', '-'], "_"),
    }
}
