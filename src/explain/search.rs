//! The records of a key themselves, read from the topics of its table.
//!
//! Mutations are looked for around the time of the marker, and, when none is there, before it: the
//! job may have read old records late. A snapshot topic is read whole. Records are decoded as the
//! job decodes them, and known by the same canonical key.
//!
//! Invariant: bounded in time, told when it ran out; nothing is committed, and no value is kept
//! unless it was asked for.
//!
//! It cannot find what the topics have deleted, nor say which of two mutations of one tick the
//! marker is of.

use super::facts::Explanation;
use crate::checkpoint_cli::Moment;
use crate::config::units::{parse_instant, print_instant};
use crate::decode::{DecodeSettings, Decoded, Decoder, TopicId};
use crate::error::Error;
use crate::key::KeyGate;
use crate::table::{Role, Table};
use crate::topic::{Assignment, RawRecord, Start, Topics, Waker};
use crossbeam_channel::bounded;
use headwater_operators::fingerprint::Fingerprinter;
use headwater_operators::record::Op;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long all topics together are read.
const TIME_MAX: Duration = Duration::from_secs(300);
/// Records of the key that are kept of one topic: the last ones.
const RECORDS_MAX: usize = 20;
const POLL_BYTES: usize = 1 << 20;
/// How often the deadline is looked at while nothing comes.
const WAIT: Duration = Duration::from_millis(50);

/// What is looked for, and how.
pub struct Wanted<'a> {
    /// Where.
    pub topics: &'a dyn Topics,
    /// The tables of the job.
    pub tables: &'a [Table],
    /// The key's table, by number.
    pub number: usize,
    /// The canonical key.
    pub canonical: &'a [u8],
    /// How records are decoded.
    pub decode: DecodeSettings,
    /// Before and after the time of the marker.
    pub around: Duration,
    /// Whether values are kept.
    pub values: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Searched {
    /// By topic, mutations first.
    pub topics: Vec<OfTopic>,
}

/// What was found in one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OfTopic {
    /// What it is for.
    pub role: &'static str,
    /// Its name.
    pub topic: String,
    /// What of it was read, in words.
    pub span: String,
    /// Records read.
    pub read: u64,
    /// Of them, those that could not be decoded: one of them may be of the key.
    pub undecodable: u64,
    /// The key's, by partition and offset.
    pub records: Vec<Found>,
    /// Whether there are more before those.
    pub more: bool,
    /// Whether time ran out.
    pub cut: bool,
    /// Why it could not be read, or not to its end.
    pub trouble: Option<String>,
}

/// A record of the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// `topic[partition]@offset`.
    pub at: String,
    /// Partition.
    pub partition: u32,
    /// Offset.
    pub offset: u64,
    /// INSERT, UPDATE, DELETE, TOMBSTONE, READ; ROW where the record does not say.
    pub op: &'static str,
    /// When it happened at the source, if the record says so.
    pub source_time: Option<String>,
    /// The timestamp of the record in the log.
    pub log_time: Option<String>,
    /// The value as it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Searches the topics of the key's table.
pub fn search(wanted: &Wanted<'_>, explanation: &Explanation) -> Searched {
    let table = &wanted.tables[wanted.number];
    let until = Instant::now() + TIME_MAX;
    let mutations = mutations(wanted, explanation, until);
    let mut snapshots = vec![table.snapshot.clone()];
    for of in &explanation.generations {
        let topic = of.topic.clone();
        snapshots.extend(topic.filter(|topic| !snapshots.contains(topic)));
    }
    let snapshots = snapshots.into_iter().map(|topic| {
        let mut of = OfTopic::new(Role::Snapshot, &topic, "all of it");
        of.trouble = read(wanted, Role::Snapshot, &mut of, (None, None), until).err();
        of
    });
    let snapshots: Vec<OfTopic> = snapshots.collect();
    Searched {
        topics: std::iter::once(mutations).chain(snapshots).collect(),
    }
}

/// The mutations around the marker, or else before; of a key without one, the last ones.
fn mutations(wanted: &Wanted<'_>, explanation: &Explanation, until: Instant) -> OfTopic {
    let topic = &wanted.tables[wanted.number].mutations;
    let around_ms = i64::try_from(wanted.around.as_millis()).unwrap_or(i64::MAX);
    let marked = explanation.marked.as_ref();
    let (from, to) = match marked.map_or_else(|| range(&explanation.as_of), range) {
        None => (None, None),
        Some((earliest, _)) if marked.is_none() => (Some(earliest.saturating_sub(around_ms)), None),
        Some((earliest, latest)) => (
            Some(earliest.saturating_sub(around_ms)),
            Some(latest.saturating_add(around_ms)),
        ),
    };
    let mut of = OfTopic::new(Role::Mutations, topic, &span(from, to));
    of.trouble = read(wanted, Role::Mutations, &mut of, (from, to), until).err();
    if marked.is_some() && from.is_some() && of.records.is_empty() && of.trouble.is_none() {
        let so_far = of.read;
        of.span = span(None, to);
        of.trouble = read(wanted, Role::Mutations, &mut of, (None, from), until).err();
        of.read += so_far;
    }
    of
}

/// Wall times of a moment, ms since 1970.
fn range(moment: &Moment) -> Option<(i64, i64)> {
    let ms = |text: &Option<String>| parse_instant(text.as_deref()?);
    Some((ms(&moment.wall_earliest)?, ms(&moment.wall_latest)?))
}

fn span(from: Option<i64>, to: Option<i64>) -> String {
    match (from, to) {
        (Some(from), Some(to)) => {
            format!(
                "written from {} to {}",
                print_instant(from),
                print_instant(to)
            )
        }
        (Some(from), None) => format!("written since {}", print_instant(from)),
        (None, Some(to)) => format!("written until {}", print_instant(to)),
        (None, None) => "all of it".to_owned(),
    }
}

/// Reads one topic between two log times; in words, why it could not be.
fn read(
    wanted: &Wanted<'_>,
    role: Role,
    of: &mut OfTopic,
    (from, to): (Option<i64>, Option<i64>),
    until: Instant,
) -> Result<(), String> {
    let text = |error: Error| error.text;
    let ranges = wanted.topics.ranges(&of.topic).map_err(text)?;
    let at = |time: Option<i64>| time.map(|ms| wanted.topics.starts(&of.topic, Start::Time(ms)));
    let starts = at(from).transpose().map_err(text)?;
    let ends = at(to).transpose().map_err(text)?;
    let parts: Vec<(Assignment, u64)> = (0..)
        .zip(&ranges)
        .filter_map(|(partition, range)| {
            let of_partition = |all: &Option<Vec<u64>>| {
                let all = all.as_ref()?;
                all.get(partition as usize).copied()
            };
            let next_offset = of_partition(&starts).unwrap_or(range.low).max(range.low);
            let end = of_partition(&ends).unwrap_or(range.high).min(range.high);
            let topic = of.topic.clone();
            let assignment = Assignment {
                topic,
                partition,
                next_offset,
            };
            (next_offset < end).then_some((assignment, end))
        })
        .collect();
    if parts.is_empty() {
        return Ok(());
    }
    let mut looking = Looking::new(wanted, role, &of.topic);
    let read = drain(wanted.topics, &parts, until, of, &mut looking).map_err(text);
    of.records = looking.found.into();
    of.records
        .sort_by_key(|found| (found.partition, found.offset));
    of.more |= looking.more;
    (of.read, of.undecodable) = (looking.read, of.undecodable + looking.undecodable);
    read
}

/// Reads every part to its end.
fn drain(
    topics: &dyn Topics,
    parts: &[(Assignment, u64)],
    until: Instant,
    of: &mut OfTopic,
    looking: &mut Looking,
) -> Result<(), Error> {
    let (wake, woken) = bounded(1);
    let waker: Waker = Arc::new(move || {
        // Full: somebody has woken it already.
        let _ = wake.try_send(());
    });
    let assignments: Vec<Assignment> = parts.iter().map(|(from, _)| from.clone()).collect();
    let mut reader = topics.reader(&assignments, waker)?;
    let ended = |reader: &dyn crate::topic::Reader| {
        let mut parts = parts.iter().enumerate();
        parts.all(|(index, (_, end))| reader.next_offset(index) >= *end)
    };
    while !ended(&*reader) {
        if Instant::now() >= until {
            of.cut = true;
            return Ok(());
        }
        let given = reader.poll(POLL_BYTES, &mut |index, raw| {
            let (from, end) = &parts[index];
            if raw.offset < *end {
                looking.record(from, &raw);
            }
            Ok(())
        })?;
        if given == 0 {
            // Woken or not, the loop looks again.
            let _ = woken.recv_timeout(WAIT);
        }
    }
    Ok(())
}

/// What is kept while one topic is read.
struct Looking {
    decoder: Decoder,
    topic: TopicId,
    number: usize,
    fingerprint: u128,
    values: bool,
    read: u64,
    undecodable: u64,
    found: VecDeque<Found>,
    more: bool,
}

impl Looking {
    fn new(wanted: &Wanted<'_>, role: Role, topic: &str) -> Self {
        let mut tables = wanted.tables.to_vec();
        if role == Role::Snapshot {
            // A later generation has a topic of its own.
            topic.clone_into(&mut tables[wanted.number].snapshot);
        }
        // Nothing leaves this process, so the fingerprints need no secret.
        let fingerprinter = Fingerprinter::new([0; 16]);
        let name = &tables[wanted.number].name;
        let fingerprint = fingerprinter.table(name).of(wanted.canonical);
        let gate = Arc::new(KeyGate::new(&tables));
        let decoder = Decoder::new(&tables, &fingerprinter, wanted.decode.clone(), gate);
        let id = decoder.topic(role, topic);
        Looking {
            topic: id.expect("the topic of a table"),
            decoder,
            number: wanted.number,
            fingerprint,
            values: wanted.values,
            read: 0,
            undecodable: 0,
            found: VecDeque::new(),
            more: false,
        }
    }

    fn record(&mut self, from: &Assignment, raw: &RawRecord<'_>) {
        self.read += 1;
        if raw.end_of_snapshot.is_some() {
            return;
        }
        match self.decoder.decode(self.topic, raw) {
            Ok(Decoded::Row {
                table,
                op,
                fingerprint,
                value,
                ..
            }) if table == self.number && fingerprint == self.fingerprint => {
                let (letter, source_ms) = inside(value);
                let text = || String::from_utf8_lossy(value).into_owned();
                self.found.push_back(Found {
                    at: format!("{}[{}]@{}", from.topic, from.partition, raw.offset),
                    partition: from.partition,
                    offset: raw.offset,
                    op: word(op, letter.as_deref(), value.is_empty()),
                    source_time: source_ms.map(print_instant),
                    log_time: (raw.timestamp_ms != 0).then(|| print_instant(raw.timestamp_ms)),
                    value: self.values.then(text),
                });
                if self.found.len() > RECORDS_MAX {
                    self.found.pop_front();
                    self.more = true;
                }
            }
            Ok(_) => {}
            Err(_) => self.undecodable += 1,
        }
    }
}

impl OfTopic {
    fn new(role: Role, topic: &str, span: &str) -> Self {
        OfTopic {
            role: role.word(),
            topic: topic.to_owned(),
            span: span.to_owned(),
            ..OfTopic::default()
        }
    }
}

/// The letter of an envelope, and when its row was changed or read, ms since 1970.
fn inside(value: &[u8]) -> (Option<String>, Option<i64>) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(value) else {
        return (None, None);
    };
    let row = match value.get("payload") {
        Some(payload) if value.get("schema").is_some() => payload,
        _ => &value,
    };
    let letter = row.get("op").or_else(|| row.get("__op"));
    let letter = letter.and_then(serde_json::Value::as_str);
    let time = row.pointer("/source/ts_ms");
    let time = time.or_else(|| row.get("__source_ts_ms"));
    (
        letter.map(str::to_owned),
        time.and_then(serde_json::Value::as_i64),
    )
}

fn word(op: Op, letter: Option<&str>, empty: bool) -> &'static str {
    match (op, letter) {
        (Op::Delete, _) if empty => "TOMBSTONE",
        (Op::Delete, _) => "DELETE",
        (Op::Upsert, Some("c")) => "INSERT",
        (Op::Upsert, Some("u")) => "UPDATE",
        (Op::Upsert, _) => "ROW",
        (Op::Poisoned | Op::Undecodable, _) => "?",
        _ => "READ",
    }
}

#[cfg(test)]
mod tests;
