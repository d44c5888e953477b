//! Records that are kept from the target: READs that must not be written as truth, in
//! `quarantine.<incarnation>.<worker>.jsonl`, and mutations that cannot be decoded, in
//! `dead_letter.<incarnation>.<worker>.jsonl`; or the same lines in a Kafka topic, each with the
//! key `TOPIC[PARTITION]@OFFSET`.
//!
//! Invariant: every such record is there, durable, before its ticket is; nothing is folded. A
//! record may stand there twice after a failure; topic, partition and offset tell.
//!
//! It cannot put a record back.

use super::Origin;
use super::batch::{Batch, Entry};
use super::kafka::{KafkaLog, LogFailure, LogRecord};
use super::lane::{Failure, Output};
use super::line::{LineFile, put_field, put_text};
use super::queue::{AsidePlace, QueueOptions};
use crate::dead_letter::letter::Letter;
use crate::error::Error;
use crate::table::Table;
use crate::topic::names::TopicNames;
use headwater_operators::record::Op;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a READ is here.
fn reason(op: Op) -> &'static str {
    match op {
        Op::Late => "late",
        Op::TooOld => "too_old",
        Op::ReadPoisoned => "poisoned",
        _ => "forgotten_markers",
    }
}

/// What is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Quarantine,
    DeadLetters,
}

impl Kind {
    /// For messages.
    fn word(self) -> &'static str {
        match self {
            Kind::Quarantine => "quarantine",
            Kind::DeadLetters => "dead-letter",
        }
    }
}

/// The quarantine, or the dead letters, of one worker.
pub(super) struct Aside {
    kind: Kind,
    to: To,
    tables: Arc<[Table]>,
    names: Arc<TopicNames>,
}

enum To {
    /// A file, made with its first record.
    File(PathBuf, Option<LineFile>),
    Topic(KafkaLog),
}

impl Aside {
    /// Of READs.
    pub(super) fn quarantine(options: &QueueOptions, worker: usize) -> Aside {
        let place = match &options.quarantine_topic {
            Some(topic) => AsidePlace::Topic(topic.clone()),
            None => AsidePlace::Folder(options.quarantine_dir.clone()),
        };
        Aside::new(Kind::Quarantine, &place, options, worker)
    }

    /// Of mutations; none where they end the job.
    pub(super) fn dead_letters(options: &QueueOptions, worker: usize) -> Option<Aside> {
        let place = options.dead_letters.as_ref()?;
        Some(Aside::new(Kind::DeadLetters, place, options, worker))
    }

    fn new(kind: Kind, place: &AsidePlace, options: &QueueOptions, worker: usize) -> Aside {
        let name = match kind {
            Kind::Quarantine => "quarantine",
            Kind::DeadLetters => "dead_letter",
        };
        let name = format!("{name}.{}.{worker}.jsonl", options.incarnation);
        Aside {
            kind,
            to: match place {
                AsidePlace::Topic(topic) => To::Topic(KafkaLog::new(topic.clone())),
                AsidePlace::Folder(folder) => To::File(folder.join(name), None),
            },
            tables: Arc::clone(&options.tables),
            names: Arc::clone(&options.names),
        }
    }

    /// The topic of a record.
    fn topic(&self, entry: &Entry<'_>) -> String {
        let record = entry.record;
        let role = Origin::of(&record).role;
        let topic = self.names.of(role, record.table, record.generation);
        topic.as_deref().unwrap_or("?").to_owned()
    }

    /// Appends a record's line, without its end.
    fn put(&self, out: &mut Vec<u8>, entry: &Entry<'_>) {
        let record = entry.record;
        let table = self.tables.get(usize::from(record.table));
        let name = table.map_or("?", |table| &table.name);
        out.extend_from_slice(b"{\"topic\":");
        put_text(out, &self.topic(entry));
        if self.kind == Kind::DeadLetters {
            return put_letter(out, entry, name);
        }
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

/// The rest of a mutation's line.
fn put_letter(out: &mut Vec<u8>, entry: &Entry<'_>, table: &str) {
    let record = entry.record;
    let letter = Letter::decode(record.value).unwrap_or(Letter {
        reason: "",
        has_key: true,
        has_table: true,
        value: Some(record.value),
    });
    let table = letter.has_table.then_some(table);
    let table = table.map_or("null".to_owned(), |table| json!(table).to_string());
    let rest = format!(
        ",\"role\":\"mutations\",\"table\":{table},\"partition\":{},\"offset\":{},\
         \"version\":{},\"poisoned\":{},\"reason\":{},",
        record.partition,
        record.offset,
        entry.version,
        record.op == Op::Poisoned,
        json!(letter.reason),
    );
    out.extend_from_slice(rest.as_bytes());
    match letter.has_key {
        true => put_field(out, "key", record.key),
        false => out.extend_from_slice(b"\"key\":null"),
    }
    out.push(b',');
    match letter.value {
        Some(value) => put_field(out, "value", value),
        None => out.extend_from_slice(b"\"value\":null"),
    }
    out.push(b'}');
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

/// What a topic's failure means: a record must never be lost, so one that the brokers refuse ends
/// the job.
fn failure(kind: Kind, failure: LogFailure, records: &[LogRecord]) -> Failure {
    let word = kind.word();
    match failure {
        LogFailure::Retry(reason) => Failure::Retry(format!("{word} topic {reason}")),
        LogFailure::Fatal(reason) => Failure::Fatal(
            Error::failed(format!("the {word} topic cannot be written"))
                .line(reason)
                .line("Check that it is there, and the rights of this client."),
        ),
        LogFailure::Record(index, reason) => {
            let what = match kind {
                Kind::Quarantine => "READ",
                Kind::DeadLetters => "mutation",
            };
            let record = records.get(index).map(|record| &record.key[..]);
            let record = String::from_utf8_lossy(record.unwrap_or_default()).into_owned();
            Failure::Fatal(
                Error::failed(format!("the {word} topic does not take a {what}"))
                    .line(format!("record  {record}"))
                    .line(format!("reason  {reason}"))
                    .line(
                        "Raise max.message.bytes of the topic (\"message.max.bytes\" in [kafka]).",
                    ),
            )
        }
    }
}

impl Output for Aside {
    fn write(&mut self, batch: &Batch) -> Result<(), Failure> {
        if let To::Topic(_) = self.to {
            let records: Vec<LogRecord> = batch.iter().map(|entry| self.record(entry)).collect();
            let To::Topic(log) = &mut self.to else {
                unreachable!("it is one");
            };
            return log
                .append(&records)
                .map_err(|error| failure(self.kind, error, &records));
        }
        let mut lines = Vec::new();
        for entry in batch.iter() {
            self.put(&mut lines, &entry);
            lines.push(b'\n');
        }
        let To::File(path, file) = &mut self.to else {
            unreachable!("it is one");
        };
        append(path, file, &lines).map_err(|error| {
            let word = self.kind.word();
            Failure::Retry(format!("{word} file {}: {error}", path.display()))
        })
    }
}
