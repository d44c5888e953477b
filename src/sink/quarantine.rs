//! READs that must not be written as truth: `quarantine.<incarnation>.<worker>.jsonl`.
//!
//! Invariant: every quarantined record is in the file, durable, before its ticket is; nothing is
//! folded. A record may stand there twice after a failure; topic, partition and offset tell.
//!
//! It cannot put a record back.

use super::batch::{Batch, Entry};
use super::lane::{Failure, Output};
use super::line::{LineFile, put_field, put_text};
use super::queue::QueueOptions;
use crate::table::{Role, Table};
use crate::topic::names::TopicNames;
use headwater_operators::record::Op;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a READ is here.
fn reason(op: Op) -> &'static str {
    match op {
        Op::Late => "late",
        Op::TooOld => "too_old",
        _ => "forgotten_markers",
    }
}

/// The quarantine file of one worker, made with its first record.
pub(super) struct Quarantine {
    path: PathBuf,
    file: Option<LineFile>,
    tables: Arc<[Table]>,
    names: Arc<TopicNames>,
}

impl Quarantine {
    pub(super) fn new(options: &QueueOptions, worker: usize) -> Quarantine {
        let name = format!("quarantine.{}.{worker}.jsonl", options.incarnation);
        Quarantine {
            path: options.quarantine_dir.join(name),
            file: None,
            tables: Arc::clone(&options.tables),
            names: Arc::clone(&options.names),
        }
    }

    fn append(&mut self, lines: &[u8]) -> std::io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => LineFile::open(self.path.clone())?,
        };
        // A file that could not be written is opened anew.
        file.append(lines)?;
        self.file = Some(file);
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>, entry: Entry<'_>) {
        let record = entry.record;
        let table = self.tables.get(usize::from(record.table));
        let name = table.map_or("?", |table| &table.name);
        let topic = self
            .names
            .of(Role::Snapshot, record.table, record.generation);
        out.extend_from_slice(b"{\"topic\":");
        put_text(out, topic.as_deref().unwrap_or("?"));
        out.extend_from_slice(b",\"role\":\"snapshot\",\"table\":");
        put_text(out, name);
        let numbers = format!(
            ",\"partition\":{},\"offset\":{},\"generation\":{},\"version\":{},\"reason\":\"{}\",",
            record.partition,
            record.offset,
            record.generation,
            entry.version,
            reason(record.op)
        );
        out.extend_from_slice(numbers.as_bytes());
        put_field(out, "key", record.key);
        out.push(b',');
        put_field(out, "value", record.value);
        out.extend_from_slice(b"}\n");
    }
}

impl Output for Quarantine {
    fn write(&mut self, batch: &Batch) -> Result<(), Failure> {
        let mut lines = Vec::new();
        for entry in batch.iter() {
            self.put(&mut lines, entry);
        }
        self.append(&lines).map_err(|error| {
            Failure::Retry(format!("quarantine file {}: {error}", self.path.display()))
        })
    }
}
