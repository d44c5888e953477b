//! A case file, and whether what a run gave is what the case demands.

use crate::notices;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// One file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) steps: Vec<Value>,
    pub(crate) runs: Vec<Run>,
    #[serde(default)]
    pub(crate) interleavings: Option<usize>,
    /// Off in the tests of the runner itself.
    #[serde(skip, default = "on")]
    pub(crate) rule: bool,
    /// Off likewise: a COMPLETED is taken for the end.
    #[serde(skip, default = "on")]
    pub(crate) evidence: bool,
}

fn on() -> bool {
    true
}

/// One way to run it, and its outcome.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Run {
    #[serde(default)]
    pub(crate) config: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) skip: Vec<usize>,
    pub(crate) outcome: Vec<String>,
    #[serde(default)]
    pub(crate) table: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) counters: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) message_has: Vec<String>,
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) outcome: String,
    pub(crate) message: String,
    pub(crate) table: Vec<Value>,
    pub(crate) counters: BTreeMap<String, u64>,
}

/// The partition of a step.
pub(crate) fn partition(step: &Value) -> usize {
    step.get("p").and_then(Value::as_u64).unwrap_or(0) as usize
}

impl Case {
    /// Partitions of the topics M, S and N before the first step.
    pub(crate) fn partitions(&self) -> [usize; 3] {
        let mut partitions = [1, 1, 1];
        let mut grown = [false; 3];
        for step in &self.steps {
            let topic = step.get("t").or(step.get("topic")).and_then(Value::as_str);
            let index = match topic {
                Some("M") => 0,
                Some("S") => 1,
                Some(notices::TOPIC) => 2,
                _ => continue,
            };
            grown[index] |= step["do"] == "add_partitions";
            if !grown[index] {
                partitions[index] = partitions[index].max(partition(step) + 1);
            }
        }
        partitions
    }

    pub(crate) fn load(path: &Path) -> Case {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{} is no case: {error}", path.display()))
    }

    /// Whether it has notifications.
    pub(crate) fn notified(&self) -> bool {
        self.steps.iter().any(is_notice)
    }

    /// The steps of each (topic, partition), in order; a verb is a stream of its own. Notifications
    /// never reach the merge, and are in none: see [`Case::with_notices`].
    pub(crate) fn streams(&self) -> Vec<Vec<usize>> {
        let mut streams: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            if is_notice(step) {
                continue;
            }
            let stream = match step.get("t") {
                Some(topic) => format!("{topic}/{}", step.get("p").unwrap_or(&Value::from(0))),
                None => format!("verb {index}"),
            };
            streams.entry(stream).or_default().push(index);
        }
        streams.into_values().collect()
    }

    /// An order of the streams, with every notification at its own place in the file.
    pub(crate) fn with_notices(&self, order: &[usize]) -> Vec<usize> {
        let mut others = order.iter().copied();
        let at = |(index, step)| match is_notice(step) {
            true => Some(index),
            false => others.next(),
        };
        self.steps.iter().enumerate().filter_map(at).collect()
    }

    /// The tables that the records or notifications name, `public.hello` if none does.
    pub(crate) fn tables(&self) -> Vec<String> {
        let mut tables = self.told_tables();
        for step in &self.steps {
            let Some(source) = step
                .pointer("/v/source")
                .or(step.pointer("/v/payload/source"))
            else {
                continue;
            };
            let part = |name: &str| source.get(name).and_then(Value::as_str).unwrap_or("");
            let signal = step
                .pointer("/v/after/type")
                .is_some_and(|t| t == "execute-snapshot");
            if part("table").is_empty() || signal {
                continue;
            }
            let name = format!("{}.{}", part("schema"), part("table"));
            if !tables.contains(&name) {
                tables.push(name);
            }
        }
        if tables.is_empty() {
            tables.push("public.hello".to_owned());
        }
        tables
    }

    /// Those that notifications name, without the database that may stand before.
    fn told_tables(&self) -> Vec<String> {
        let mut tables: Vec<String> = Vec::new();
        for step in self.steps.iter().filter(|step| is_notice(step)) {
            let value = step.pointer("/v/payload").unwrap_or(&step["v"]);
            let data = &value["additional_data"];
            let names = ["data_collections", "scanned_collection"].map(|name| data[name].as_str());
            for name in names.into_iter().flatten().flat_map(|text| text.split(',')) {
                let parts: Vec<&str> = name.trim().rsplitn(3, '.').take(2).collect();
                let table = parts.into_iter().rev().collect::<Vec<_>>().join(".");
                if !table.is_empty() && !tables.contains(&table) {
                    tables.push(table);
                }
            }
        }
        tables
    }
}

/// Whether a step is a notification.
fn is_notice(step: &Value) -> bool {
    step["t"] == notices::TOPIC
}

/// Compares what a run gave with what the case demands.
pub(crate) fn judge(
    case: &Case,
    run: &Run,
    given: &Outcome,
    in_file_order_on_one_worker: bool,
) -> Result<(), String> {
    if !run.outcome.contains(&given.outcome) {
        return Err(format!(
            "outcome {} where {:?} was expected; {}",
            given.outcome, run.outcome, given.message
        ));
    }
    for text in &run.message_has {
        if !given.message.contains(text) {
            return Err(format!("`{text}` is not in the message: {}", given.message));
        }
    }
    if let Some(table) = run.table.as_ref().filter(|_| given.outcome != "refused") {
        let sorted = |rows: &[Value]| {
            let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
            rows.sort();
            rows
        };
        if sorted(table) != sorted(&given.table) {
            return Err(format!(
                "table {:?} where {table:?} was expected",
                given.table
            ));
        }
    }
    if in_file_order_on_one_worker {
        for (name, expected) in &run.counters {
            let found = given.counters.get(name).copied().unwrap_or(0);
            if found != *expected {
                return Err(format!(
                    "{}: {name} is {found}, expected {expected}",
                    case.id
                ));
            }
        }
    }
    Ok(())
}
