//! A target in memory: applies what the merge emits, in order, with a parser of its own, so that
//! the product's reading of envelopes is checked by another.

use headwater::topic::Waker;
use headwater_operators::record::{Op, RecordRef, Records};
use headwater_operators::sink::Outlet;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Rows by fingerprint, and what was emitted, in order of each worker.
#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(crate) rows: BTreeMap<u128, Value>,
    pub(crate) quarantined: Vec<Value>,
    pub(crate) dead_letters: u64,
}

pub(crate) struct TargetOutlet {
    pub(crate) target: Arc<Mutex<Target>>,
    pub(crate) ticket: u64,
    pub(crate) waker: Waker,
}

impl Outlet for TargetOutlet {
    fn push(&mut self, records: Records) -> u64 {
        let mut target = self.target.lock().expect("not poisoned");
        for record in records.iter() {
            apply(&mut target, &record);
        }
        let ticket = self.ticket;
        self.ticket += 1;
        (self.waker)();
        ticket
    }

    fn durable(&mut self) -> u64 {
        self.ticket
    }
}

fn apply(target: &mut Target, record: &RecordRef<'_>) {
    match record.op {
        Op::Delete => {
            target.rows.remove(&record.fingerprint);
        }
        Op::Upsert | Op::Read | Op::ReadInPlace => {
            let row = row(record.value);
            target.rows.insert(record.fingerprint, row);
        }
        Op::Poisoned | Op::Undecodable => target.dead_letters += 1,
        Op::Quarantined | Op::Late | Op::TooOld | Op::ReadPoisoned => {
            target.quarantined.push(row(record.value));
        }
    }
}

fn row(value: &[u8]) -> Value {
    let mut value: Value = serde_json::from_slice(value).expect("the decoder lets only JSON pass");
    if value.get("schema").is_some() && value.get("payload").is_some() {
        value = value["payload"].take();
    }
    if value.get("op").is_some() && value.get("after").is_some() {
        return value["after"].take();
    }
    let helpers = |name: &String| !name.starts_with("__");
    match value {
        Value::Object(row) => row.into_iter().filter(|(name, _)| helpers(name)).collect(),
        other => other,
    }
}
