//! READs that must not be written as truth: in `quarantine.<incarnation>.<worker>.jsonl`, or the
//! same lines in a Kafka topic, each with the key `TOPIC[PARTITION]@OFFSET`.
//!
//! Invariant: every quarantined record is there, durable, before its ticket is; nothing is folded.
//! A record may stand there twice after a failure; topic, partition and offset tell.
//!
//! It cannot put a record back.

use super::batch::{Batch, Entry};
use super::kafka::{KafkaLog, LogFailure, LogRecord};
use super::lane::{Failure, Output};
use super::line::{LineFile, put_field, put_text};
use super::queue::QueueOptions;
use crate::error::Error;
use crate::table::{Role, Table};
use crate::topic::names::TopicNames;
use headwater_operators::record::Op;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a READ is here.
fn reason(op: Op) -> &'static str {
    match op {
        Op::Late => "late",
        Op::TooOld => "too_old",
        _ => "forgotten_markers",
    }
}

/// The quarantine of one worker.
pub(super) struct Quarantine {
    to: To,
    tables: Arc<[Table]>,
    names: Arc<TopicNames>,
}

enum To {
    /// A file, made with its first record.
    File(PathBuf, Option<LineFile>),
    Topic(KafkaLog),
}

impl Quarantine {
    pub(super) fn new(options: &QueueOptions, worker: usize) -> Quarantine {
        let name = format!("quarantine.{}.{worker}.jsonl", options.incarnation);
        Quarantine {
            to: match &options.quarantine_topic {
                Some(topic) => To::Topic(KafkaLog::new(topic.clone())),
                None => To::File(options.quarantine_dir.join(name), None),
            },
            tables: Arc::clone(&options.tables),
            names: Arc::clone(&options.names),
        }
    }

    /// The snapshot topic of a record.
    fn topic(&self, entry: &Entry<'_>) -> String {
        let record = entry.record;
        let topic = self
            .names
            .of(Role::Snapshot, record.table, record.generation);
        topic.as_deref().unwrap_or("?").to_owned()
    }

    /// Appends a record's line, without its end.
    fn put(&self, out: &mut Vec<u8>, entry: &Entry<'_>) {
        let record = entry.record;
        let table = self.tables.get(usize::from(record.table));
        let name = table.map_or("?", |table| &table.name);
        out.extend_from_slice(b"{\"topic\":");
        put_text(out, &self.topic(entry));
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
        out.push(b'}');
    }

    /// A record for a topic.
    fn record(&self, entry: Entry<'_>) -> LogRecord {
        let mut value = Vec::new();
        self.put(&mut value, &entry);
        let topic = self.topic(&entry);
        let (partition, offset) = (entry.record.partition, entry.record.offset);
        LogRecord {
            key: format!("{topic}[{partition}]@{offset}").into_bytes(),
            value,
            generation: None,
        }
    }
}

fn append(path: &Path, file: &mut Option<LineFile>, lines: &[u8]) -> std::io::Result<()> {
    let mut open = match file.take() {
        Some(open) => open,
        None => LineFile::open(path.to_path_buf())?,
    };
    // A file that could not be written is opened anew.
    open.append(lines)?;
    *file = Some(open);
    Ok(())
}

/// What a topic's failure means: a READ must never be lost, so one that the brokers refuse ends the
/// job.
fn failure(failure: LogFailure, records: &[LogRecord]) -> Failure {
    match failure {
        LogFailure::Retry(reason) => Failure::Retry(format!("quarantine topic {reason}")),
        LogFailure::Fatal(reason) => Failure::Fatal(
            Error::failed("the quarantine topic cannot be written")
                .line(reason)
                .line("Check that it is there, and the rights of this client."),
        ),
        LogFailure::Record(index, reason) => {
            let read = records.get(index).map(|record| &record.key[..]);
            let read = String::from_utf8_lossy(read.unwrap_or_default()).into_owned();
            Failure::Fatal(
                Error::failed("the quarantine topic does not take a READ")
                    .line(format!("record  {read}"))
                    .line(format!("reason  {reason}"))
                    .line(
                        "Raise max.message.bytes of the topic (\"message.max.bytes\" in [kafka]).",
                    ),
            )
        }
    }
}

impl Output for Quarantine {
    fn write(&mut self, batch: &Batch) -> Result<(), Failure> {
        if let To::Topic(_) = self.to {
            let records: Vec<LogRecord> = batch.iter().map(|entry| self.record(entry)).collect();
            let To::Topic(log) = &mut self.to else {
                unreachable!("it is one");
            };
            return log
                .append(&records)
                .map_err(|error| failure(error, &records));
        }
        let mut lines = Vec::new();
        for entry in batch.iter() {
            self.put(&mut lines, &entry);
            lines.push(b'\n');
        }
        let To::File(path, file) = &mut self.to else {
            unreachable!("it is one");
        };
        append(path, file, &lines)
            .map_err(|error| Failure::Retry(format!("quarantine file {}: {error}", path.display())))
    }
}
