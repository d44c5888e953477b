//! Reads the first and the last records of each partition of each topic, for `headwater check`.
//!
//! Invariant: bounded in records, bytes and time; what is read is neither committed nor kept by
//! anybody. A topic is sampled as far as it goes: nothing that is found ends the check.

use super::columns::{self, Columns};
use super::times::Times;
use crate::decode::{DecodeSettings, Decoded, Decoder, Ignored, TopicId};
use crate::error::Error;
use crate::job::topic_names;
use crate::key::{KeyGate, KnownShape};
use crate::sink::{Change, Origin, Row};
use crate::table::{Role, Table};
use crate::topic::{Assignment, OffsetRange, RawRecord, Topics, Waker};
use crossbeam_channel::bounded;
use headwater_operators::fingerprint::Fingerprinter;
use headwater_operators::record::Op;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First records looked at in each partition.
const RECORDS_MAX: u64 = 200;
/// Last records looked at in each partition, beside the first ones.
const LAST_MAX: u64 = 20;
/// How long one topic is read.
const TIME_MAX: Duration = Duration::from_secs(3);
/// Rows kept of one topic, to be laid over the target.
const ROWS_MAX: usize = 1_000;
/// Bytes of rows kept of one topic.
const ROW_BYTES_MAX: usize = 16 << 20;
/// Faults kept of one topic; the others are counted.
const FAULTS_MAX: usize = 3;
const POLL_BYTES: usize = 256 << 10;

/// Offsets of each partition, or why they cannot be told.
pub(super) type Ranges = Result<Vec<OffsetRange>, Error>;

/// A record that cannot be decoded, or the log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `topic[partition]@offset`; nothing when the log itself is at fault.
    pub at: Option<String>,
    /// What is wrong with it.
    pub error: Error,
    /// Whether the job would go on, and have it in the dead letters.
    pub set_aside: bool,
}

/// What a sampled topic showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Its role.
    pub role: Role,
    /// Its name.
    pub topic: String,
    /// Offsets of each partition, or why they cannot be told.
    pub ranges: Result<Vec<OffsetRange>, Error>,
    /// Records looked at.
    pub records: u64,
    /// Of them, rows.
    pub rows: u64,
    /// Of them, READs on a mutation topic.
    pub reads_in_place: u64,
    /// Of them, no rows, by kind.
    pub ignored: BTreeMap<Ignored, u64>,
    /// Of them, end-of-snapshot records.
    pub ends: u64,
    /// The address of the first TRUNCATE.
    pub truncate: Option<String>,
    /// Records that cannot be decoded.
    pub faults_count: u64,
    /// The first of them.
    pub faults: Vec<Fault>,
    /// Whether time ran out before the records did.
    pub slow: bool,
    /// The first row of each partition.
    pub first: Vec<First>,
    /// Oldest and newest of the sample.
    pub times: Times,
}

/// The first row that was looked at of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// The partition.
    pub partition: u32,
    /// The offset at which reading starts.
    pub offset: u64,
    /// When it changed at the source, ms since 1970; the record's time when it does not say.
    pub time_ms: Option<i64>,
}

impl Sampled {
    /// A topic at which nobody has looked yet.
    pub fn new(role: Role, topic: &str) -> Self {
        Sampled {
            role,
            topic: topic.to_owned(),
            ranges: Ok(Vec::new()),
            records: 0,
            rows: 0,
            reads_in_place: 0,
            ignored: BTreeMap::new(),
            ends: 0,
            truncate: None,
            faults_count: 0,
            faults: Vec::new(),
            slow: false,
            first: Vec::new(),
            times: Times::default(),
        }
    }

    /// Takes note of the times of a row.
    fn row_times(&mut self, from: &Assignment, raw: &RawRecord<'_>, times: [i64; 2]) {
        let [read_ms, source_ms] = times.map(|ms| (ms > 0).then_some(ms));
        let source_ms = source_ms.or(read_ms);
        let newest = &mut self.times.newest_source_ms;
        *newest = (*newest).max(source_ms);
        if self.role == Role::Snapshot
            && let Some(read_ms) = read_ms
        {
            let oldest = self.times.oldest_read_ms.get_or_insert(read_ms);
            *oldest = (*oldest).min(read_ms);
        }
        let known = self
            .first
            .iter()
            .any(|first| first.partition == from.partition);
        if !known {
            self.first.push(First {
                partition: from.partition,
                offset: from.next_offset,
                time_ms: source_ms.or((raw.timestamp_ms > 0).then_some(raw.timestamp_ms)),
            });
        }
    }

    fn fault(&mut self, at: Option<String>, error: Error, set_aside: bool) {
        self.faults_count += 1;
        // One of a kind is enough: a topic in a wrong format has a fault a record.
        let seen = |known: &Fault| known.error.text.lines().next() == error.text.lines().next();
        if self.faults.len() < FAULTS_MAX && !self.faults.iter().any(seen) {
            self.faults.push(Fault {
                at,
                error,
                set_aside,
            });
        }
    }
}

/// A sampled row, kept.
#[derive(Clone, Debug)]
pub(super) struct KeptRow {
    table: usize,
    fingerprint: u128,
    key: Vec<u8>,
    /// Nothing for a delete.
    value: Option<Vec<u8>>,
    origin: Origin,
}

impl KeptRow {
    pub(super) fn row(&self) -> Row<'_> {
        Row {
            table: self.table,
            fingerprint: self.fingerprint,
            key: &self.key,
            change: self.value.as_deref().map_or(Change::Delete, Change::Upsert),
            version: 1,
            origin: self.origin,
        }
    }
}

/// Asks all topics at once, then samples them one after the other; all share one key gate.
pub(super) struct Sampler<'t> {
    topics: &'t dyn Topics,
    tables: &'t [Table],
    gate: Arc<KeyGate>,
    decoder: Decoder,
    /// Whether the job goes on at a mutation that cannot be decoded.
    dead_letters: bool,
    rows: Vec<KeptRow>,
    columns: Columns,
    ranges: BTreeMap<String, Ranges>,
    /// Where reading starts, for the topics of which that is configured.
    starts: BTreeMap<(String, u32), u64>,
}

impl<'t> Sampler<'t> {
    pub(super) fn new(topics: &'t dyn Topics, tables: &'t [Table], decode: DecodeSettings) -> Self {
        let gate = Arc::new(KeyGate::new(tables));
        // Nothing leaves this process, so the fingerprints need no secret.
        let fingerprinter = Fingerprinter::new([0; 16]);
        Sampler {
            topics,
            tables,
            dead_letters: decode.dead_letters,
            decoder: Decoder::new(tables, &fingerprinter, decode, Arc::clone(&gate)),
            gate,
            rows: Vec::new(),
            columns: Columns::new(),
            ranges: BTreeMap::new(),
            starts: BTreeMap::new(),
        }
    }

    /// Has mutations sampled from where the job reads them.
    pub(super) fn start_at(&mut self, mutations: &[Assignment]) {
        let place = |one: &Assignment| ((one.topic.clone(), one.partition), one.next_offset);
        self.starts = mutations.iter().map(place).collect();
    }

    /// The offsets of every topic, asked once. All at the same time: a broker that does not answer
    /// takes its whole time limit each time that it is asked.
    pub(super) fn ranges(&mut self) -> &BTreeMap<String, Ranges> {
        if self.ranges.is_empty() {
            let (topics, named) = (self.topics, self.named());
            self.ranges = std::thread::scope(|scope| {
                let ask = |(_, topic): (Role, String)| {
                    let asked = topic.clone();
                    (topic, scope.spawn(move || topics.ranges(&asked)))
                };
                let asked: Vec<_> = named.into_iter().map(ask).collect();
                asked
                    .into_iter()
                    .map(|(topic, told)| {
                        let told = told.join();
                        (
                            topic,
                            told.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                        )
                    })
                    .collect()
            });
        }
        &self.ranges
    }

    fn named(&self) -> Vec<(Role, String)> {
        let names = |role| topic_names(self.tables, role).into_iter();
        [Role::Mutations, Role::Snapshot]
            .into_iter()
            .flat_map(|role| names(role).map(move |topic| (role, topic)))
            .collect()
    }

    /// Every topic of both roles.
    pub(super) fn all(&mut self) -> Vec<Sampled> {
        let ranges = self.ranges().clone();
        let named = self.named().into_iter();
        named
            .map(|(role, topic)| self.topic(role, &topic, ranges[&topic].clone()))
            .collect()
    }

    /// The rows that were kept, the key shapes and the columns that the topics showed.
    pub(super) fn into_rows(self) -> (Vec<KeptRow>, Vec<KnownShape>, Columns) {
        (self.rows, self.gate.shapes(), self.columns)
    }

    fn topic(&mut self, role: Role, topic: &str, ranges: Ranges) -> Sampled {
        let mut sampled = Sampled::new(role, topic);
        sampled.ranges = ranges;
        let Ok(ranges) = sampled.ranges.clone() else {
            return sampled;
        };
        let at = |partition, next_offset| Assignment {
            topic: topic.to_owned(),
            partition,
            next_offset,
        };
        let mut assignments = Vec::new();
        for (partition, range) in (0..).zip(&ranges) {
            let place = (topic.to_owned(), partition);
            let start = self.starts.get(&place).filter(|_| role == Role::Mutations);
            let start = start.copied().unwrap_or(range.low);
            assignments.push(at(partition, start.clamp(range.low, range.high)));
        }
        let read = self.read(&assignments, &ranges, RECORDS_MAX, &mut sampled);
        let last = read.and_then(|next| {
            let tails: Vec<Assignment> = next
                .iter()
                .zip(assignments.iter().zip(&ranges))
                .filter(|(next, (_, range))| **next < range.high)
                .map(|(next, (from, range))| {
                    let tail = range.high.saturating_sub(LAST_MAX).max(*next);
                    at(from.partition, tail)
                })
                .collect();
            if tails.is_empty() || sampled.slow {
                return Ok(());
            }
            let of = |tail: &Assignment| ranges[tail.partition as usize];
            let ranges: Vec<OffsetRange> = tails.iter().map(of).collect();
            let first = sampled.first.clone();
            let done = self.read(&tails, &ranges, LAST_MAX, &mut sampled);
            // The last records of a partition say nothing about its first row.
            sampled.first = first;
            done.map(drop)
        });
        if let Err(error) = last {
            sampled.fault(None, error, false);
        }
        sampled
    }

    /// Reads so many records of each assignment, as far as there are. Gives the next offsets.
    fn read(
        &mut self,
        assignments: &[Assignment],
        ranges: &[OffsetRange],
        records_max: u64,
        sampled: &mut Sampled,
    ) -> Result<Vec<u64>, Error> {
        let (wake, woken) = bounded(1);
        let waker: Waker = Arc::new(move || {
            // Full: somebody has woken it already.
            let _ = wake.try_send(());
        });
        let mut reader = self.topics.reader(assignments, waker)?;
        let until = Instant::now() + TIME_MAX;
        let mut kept = Kept {
            looked_at: vec![0; ranges.len()],
            next: assignments.iter().map(|one| one.next_offset).collect(),
            rows: ROWS_MAX,
            bytes: ROW_BYTES_MAX,
        };
        let id = self.decoder.topic(sampled.role, &sampled.topic);
        let id = id.expect("the topic of a table");
        loop {
            let full = |index: usize| kept.looked_at[index] >= records_max;
            let ended = |index: usize| reader.next_offset(index) >= ranges[index].high;
            if (0..ranges.len()).all(|index| full(index) || ended(index)) {
                for (index, next) in kept.next.iter_mut().enumerate() {
                    // One that is not full has nothing left, whatever stands at its end.
                    if kept.looked_at[index] < records_max {
                        *next = ranges[index].high;
                    }
                }
                return Ok(kept.next);
            }
            if Instant::now() >= until {
                sampled.slow = true;
                return Ok(kept.next);
            }
            let given = reader.poll(POLL_BYTES, &mut |index, raw| {
                if kept.looked_at[index] < records_max {
                    kept.looked_at[index] += 1;
                    kept.next[index] = raw.offset + 1;
                    self.record(id, &assignments[index], &raw, &mut kept, sampled);
                }
                Ok(())
            })?;
            if given == 0 {
                let left = until.saturating_duration_since(Instant::now());
                // Woken or not, the loop looks again.
                let _ = woken.recv_timeout(left.min(Duration::from_millis(50)));
            }
        }
    }

    fn record(
        &mut self,
        topic: TopicId,
        from: &Assignment,
        raw: &RawRecord<'_>,
        kept: &mut Kept,
        sampled: &mut Sampled,
    ) {
        sampled.records += 1;
        let newest = &mut sampled.times.newest_record_ms;
        *newest = (*newest).max((raw.timestamp_ms > 0).then_some(raw.timestamp_ms));
        if sampled.role == Role::Snapshot && raw.end_of_snapshot.is_some() {
            sampled.ends += 1;
            return;
        }
        let at = || format!("{}[{}]@{}", from.topic, from.partition, raw.offset);
        match self.decoder.decode(topic, raw) {
            Ok(Decoded::Row {
                table,
                op,
                fingerprint,
                key,
                value,
                read_time_ms,
                source_ms,
                ..
            }) => {
                sampled.rows += 1;
                let read_ms = i64::try_from(read_time_ms).unwrap_or(0);
                sampled.row_times(from, raw, [read_ms, source_ms]);
                if op != Op::Delete {
                    columns::add(&mut self.columns, table, sampled.role, value);
                }
                sampled.reads_in_place += u64::from(op == Op::ReadInPlace);
                if kept.rows > 0 && kept.bytes > key.len() + value.len() {
                    kept.rows -= 1;
                    kept.bytes -= key.len() + value.len();
                    self.rows.push(KeptRow {
                        table,
                        fingerprint,
                        key: key.to_vec(),
                        value: (op != Op::Delete).then(|| value.to_vec()),
                        origin: Origin {
                            role: sampled.role,
                            partition: from.partition,
                            offset: raw.offset,
                            generation: 0,
                        },
                    });
                }
            }
            Ok(Decoded::Ignored(kind)) => *sampled.ignored.entry(kind).or_default() += 1,
            Ok(Decoded::Truncate { .. }) => {
                sampled.truncate.get_or_insert_with(at);
            }
            Err(error) => {
                let letter = self.dead_letters && sampled.role == Role::Mutations;
                let set_aside = letter && error.is_of_one_record();
                let error = Error::new(error.kind(), error.to_string());
                sampled.fault(Some(at()), error, set_aside);
            }
        }
    }
}

/// What may still be kept of a topic.
struct Kept {
    looked_at: Vec<u64>,
    next: Vec<u64>,
    rows: usize,
    bytes: usize,
}
