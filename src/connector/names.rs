//! Names that follow from a connector's configuration: its tables, their topics, its heartbeats.
//!
//! Invariant: a name that a regular expression or a transform leaves open is said to be open, never
//! guessed.

use super::{Connector, route::route};

/// Topic of a table, and the transforms that may still change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The name, as far as it is known.
    pub name: String,
    /// Transforms whose effect on the name is not known, by name and class.
    pub open: Vec<String>,
}

/// Plain text of an item of an include list; nothing when it is a pattern.
fn plain(item: &str) -> Option<String> {
    let text = item.replace("\\.", ".");
    let plain = !text.contains(|c: char| "\\*+?[](){}|^$".contains(c));
    plain.then_some(text)
}

/// Transforms that leave a topic's name alone.
const LEAVE_TOPIC: [&str; 12] = [
    "ExtractNewRecordState",
    "Value",
    "Key",
    "Filter",
    "HeaderToValue",
    "InsertHeader",
    "DropHeaders",
    "SchemaMetadata",
    "TimezoneConverter",
    "VectorToJsonConverter",
    "SetSchemaMetadata",
    "DecodeLogicalDecodingMessageContent",
];

impl Connector {
    /// `topic.prefix`.
    pub fn prefix(&self) -> &str {
        self.or("topic.prefix", "")
    }

    /// The tables of its include list.
    ///
    /// # Errors
    /// The item that is a pattern; all tables without a list, as `.*`.
    pub fn tables(&self) -> Result<Vec<String>, String> {
        let list = self.list("table.include.list");
        if list.is_empty() {
            return Err(".*".to_owned());
        }
        let named = |item: &str| plain(item).ok_or_else(|| item.to_owned());
        list.into_iter().map(named).collect()
    }

    /// Whether it reads a table; nothing when a pattern decides.
    pub fn reads(&self, table: &str) -> Option<bool> {
        let listed = |key: &str| {
            let items = self.list(key);
            let plain: Vec<Option<String>> = items.into_iter().map(plain).collect();
            match plain.iter().flatten().any(|item| item == table) {
                true => Some(true),
                false if plain.iter().all(Option::is_some) => Some(false),
                false => None,
            }
        };
        match self.get("table.include.list") {
            Some(_) => listed("table.include.list"),
            None if self.get("table.exclude.list").is_some() => {
                listed("table.exclude.list").map(|excluded| !excluded)
            }
            None => Some(true),
        }
    }

    /// The topic of a table, routers applied.
    pub fn topic_of(&self, table: &str) -> Topic {
        let delimiter = self.or("topic.delimiter", ".");
        let name = match delimiter {
            "." => table.to_owned(),
            other => table.replace('.', other),
        };
        self.routed(format!("{}{delimiter}{name}", self.prefix()))
    }

    /// What its routers make of a topic.
    pub fn routed(&self, topic: String) -> Topic {
        let mut topic = Topic {
            name: topic,
            open: Vec::new(),
        };
        for (name, class) in self.transforms() {
            let setting = |key: &str| self.get(&format!("transforms.{name}.{key}"));
            let by_field = setting("route.by.field").is_some();
            if LEAVE_TOPIC.contains(&class) && !by_field {
                continue;
            }
            let known = (class == "RegexRouter" && setting("predicate").is_none())
                .then(|| route(setting("regex")?, setting("replacement")?, &topic.name))
                .flatten();
            match known {
                Some(name) => topic.name = name,
                None => topic.open.push(format!("{name} ({class})")),
            }
        }
        topic
    }

    /// The topic of its heartbeats; nothing when it sends none.
    pub fn heartbeat_topic(&self) -> Option<Topic> {
        let interval: u64 = self.or("heartbeat.interval.ms", "0").parse().ok()?;
        let prefix = self.or("topic.heartbeat.prefix", "__debezium-heartbeat");
        let topic = || self.routed(format!("{prefix}.{}", self.prefix()));
        (interval > 0).then(topic)
    }

    /// The topic of its notifications; nothing when it sends none there.
    pub fn notification_topic(&self) -> Option<Topic> {
        let sends = self.list("notification.enabled.channels").contains(&"sink");
        let topic = self.get("notification.sink.topic.name")?;
        sends.then(|| self.routed(topic.to_owned()))
    }

    /// How many partitions Connect gives a topic that it creates; nothing when it creates none or a
    /// pattern decides.
    pub fn created_partitions(&self, topic: &str) -> Option<i64> {
        let partitions = |group: &str| {
            let key = format!("topic.creation.{group}.partitions");
            self.get(&key)?.parse().ok()
        };
        for group in self.list("topic.creation.groups") {
            let patterns = self.list(&format!("topic.creation.{group}.include"));
            for pattern in patterns {
                // The same text comes back when the expression does not match it.
                if route(pattern, "", topic)?.is_empty() {
                    return partitions(group).or_else(|| partitions("default"));
                }
            }
        }
        partitions("default")
    }
}
