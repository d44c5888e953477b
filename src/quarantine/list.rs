//! `headwater quarantine ls`: counts by table, reason and generation, and the keys.
//!
//! Invariant: no value of a row is shown, only keys.

use super::index::{Entry, Index, Record};
use crate::summary::grouped;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Records and keys of one table, reason and generation.
#[derive(Debug, Default)]
struct Count<'a> {
    records: u64,
    keys: BTreeSet<&'a str>,
}

type Counts<'a> = BTreeMap<(&'a str, &'a str, u32), Count<'a>>;

fn counts(index: &Index) -> Counts<'_> {
    let mut counts = Counts::new();
    for (table, keys) in &index.tables {
        for (key, entry) in keys {
            for record in &entry.records {
                let of = (table.as_str(), record.reason.as_str(), record.generation);
                let count = counts.entry(of).or_default();
                count.records += 1;
                count.keys.insert(key);
            }
        }
    }
    counts
}

fn entries(index: &Index) -> impl Iterator<Item = (&str, &str, &Entry)> {
    index.tables.iter().flat_map(|(table, keys)| {
        let of_table = keys.iter();
        of_table.map(move |(key, entry)| (table.as_str(), key.as_str(), entry))
    })
}

/// For a person; with a line break at the end.
pub(super) fn table(index: &Index, keys_max: usize) -> String {
    let counts = counts(index);
    if counts.is_empty() {
        return "nothing is in quarantine\n".to_owned();
    }
    let width = index.tables.keys().map(|table| table.chars().count()).max();
    let width = width.unwrap_or(0).max("table".len());
    let mut out = format!(
        "{:<width$}  {:<17}  {:>10}  {:>9}  {:>9}\n",
        "table", "reason", "generation", "records", "keys"
    );
    for ((table, reason, generation), count) in &counts {
        out.push_str(&format!(
            "{table:<width$}  {reason:<17}  {:>10}  {:>9}  {:>9}\n",
            format!("g{generation}"),
            grouped(count.records),
            grouped(count.keys.len() as u64)
        ));
    }
    for (table, key, entry) in entries(index).take(keys_max) {
        out.push_str(&format!("{table} {key}"));
        for record in &entry.records {
            let Record {
                topic,
                partition,
                offset,
                reason,
                ..
            } = record;
            out.push_str(&format!("  {topic}[{partition}]@{offset} {reason}"));
        }
        out.push('\n');
    }
    let more = entries(index).count().saturating_sub(keys_max);
    if more > 0 {
        out.push_str(&format!(
            "and {} more keys (--keys N)\n",
            grouped(more as u64)
        ));
    }
    out
}

/// For a program: one JSON object, on one line.
pub(super) fn json(index: &Index, keys_max: usize) -> String {
    let counts: Vec<Value> = counts(index)
        .iter()
        .map(|((table, reason, generation), count)| {
            json!({
                "table": table,
                "reason": reason,
                "generation": generation,
                "records": count.records,
                "keys": count.keys.len(),
            })
        })
        .collect();
    let keys: Vec<Value> = entries(index)
        .take(keys_max)
        .map(|(table, key, entry)| {
            let records = entry.records.iter().map(|record| {
                json!({
                    "topic": record.topic,
                    "partition": record.partition,
                    "offset": record.offset,
                    "generation": record.generation,
                    "reason": record.reason,
                })
            });
            let key = serde_json::from_str(key).unwrap_or_else(|_| Value::from(key));
            json!({ "table": table, "key": key, "records": records.collect::<Vec<_>>() })
        })
        .collect();
    let all = entries(index).map(|(_, _, entry)| entry.records.len());
    json!({
        "records": all.sum::<usize>(),
        "keys": entries(index).count(),
        "counts": counts,
        "first_keys": keys,
    })
    .to_string()
}
