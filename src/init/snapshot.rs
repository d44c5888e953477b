//! The configuration of the snapshot connector that goes with a live one.
//!
//! Invariant: whatever decides what a key or a value looks like is that of the live connector, and
//! no secret of it is printed.

use super::plan::Plan;
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
pub(super) fn text(plan: &Plan) -> String {
    let name = &plan.snapshot;
    let config: Map<String, Value> = config(plan)
        .into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    let json = serde_json::to_string_pretty(&config).expect("plain text");
    format!(
        "\n# The snapshot connector. Create its topics first, start `headwater run`, then\n\
         # PUT CONNECT/connectors/{name}/config with this. It keeps the live topic.prefix, so that\n\
         # keys and schema names are the same, and RegexRouter takes its READs to private topics.\n\
         {json}\n"
    )
}

/// The settings.
pub(super) fn config(plan: &Plan) -> BTreeMap<String, String> {
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
    let name = &plan.snapshot;
    let tables: Vec<&str> = plan.tables.iter().map(|table| table.name.as_str()).collect();
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
        ("transforms.private.regex", format!("{prefix}{delimiter}(.*)")),
        ("transforms.private.replacement", format!("{}.$1", plan.snapshot)),
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
