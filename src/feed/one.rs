//! One record: decoded, judged by its place and its time, counted, given.
//!
//! It cannot decide whether a READ is stale; the merge does.

use super::ends::Ends;
use super::reads::Reads;
use super::{FeedCounters, SourceTimes};
use crate::dead_letter;
use crate::dead_letter::letter::Letter;
use crate::decode::unavailable::Placeholders;
use crate::decode::{DecodeError, Decoded, Decoder, TopicId};
use crate::error::Error;
use crate::table::Role;
use crate::topic::{Assignment, RawRecord};
use headwater_operators::record::{Op, RecordRef};

/// The parts of a feed that one record needs.
pub(super) struct One<'f> {
    pub(super) role: Role,
    /// Whether a mutation that cannot be decoded is given as a dead letter.
    pub(super) dead_letters: bool,
    pub(super) assignments: &'f [Assignment],
    pub(super) topics: &'f [TopicId],
    /// The generation's number and id; of mutations 0 and nothing.
    pub(super) generation: (u32, &'f str),
    /// READs that were read before it are of an older run; 0: none is.
    pub(super) not_before_ms: i64,
    /// Whether the generation is over, so that only late READs are looked for.
    pub(super) closed: bool,
    /// The frozen ends of a generation; none for mutations.
    pub(super) ends: Option<&'f mut Ends>,
    pub(super) decoder: &'f mut Decoder,
    /// What no mutation may hold; none when it is passed on.
    pub(super) placeholders: Option<&'f Placeholders>,
    pub(super) times: &'f mut [SourceTimes],
    pub(super) reads: &'f mut Reads,
    pub(super) counters: &'f mut FeedCounters,
    /// Rows that were given.
    pub(super) rows: u64,
}

impl One<'_> {
    /// Takes record `raw` of assignment `index`.
    pub(super) fn record(
        &mut self,
        index: usize,
        raw: &RawRecord<'_>,
        give: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(), Error> {
        let assignment = &self.assignments[index];
        self.counters.bytes +=
            (raw.key.map_or(0, <[u8]>::len) + raw.value.map_or(0, <[u8]>::len)) as u64;
        if let (Role::Snapshot, Some(id)) = (self.role, raw.end_of_snapshot) {
            return self.end_record(index, raw.offset, id);
        }
        match self.decoder.decode(self.topics[index], raw) {
            Ok(Decoded::Row {
                table,
                mut op,
                fingerprint,
                key,
                value,
                read_time_ms,
                source_ms,
                last,
            }) => {
                if op == Op::Upsert && self.placeholders.is_some_and(|p| p.are_in(value)) {
                    return Err(unavailable(&place(assignment, raw)));
                }
                let table = number(table);
                if op == Op::Read {
                    let time_ms = match source_ms {
                        0 => i64::try_from(read_time_ms).unwrap_or(i64::MAX),
                        time_ms => time_ms,
                    };
                    let late = |ends: &&mut Ends| ends.is_late(index, raw.offset);
                    if 0 < time_ms && time_ms < self.not_before_ms {
                        op = Op::TooOld;
                    } else if self.ends.as_ref().is_some_and(late) {
                        op = Op::Late;
                    } else {
                        let run = raw.run_id.unwrap_or_default();
                        self.reads.saw(table, run, time_ms, last);
                    }
                } else if op.marks() && source_ms > 0 {
                    self.times[index].saw(source_ms);
                }
                self.rows += 1;
                give(RecordRef {
                    fingerprint,
                    op,
                    table,
                    generation: self.generation.0,
                    partition: assignment.partition,
                    offset: raw.offset,
                    read_time_ms,
                    key,
                    value,
                });
                Ok(())
            }
            Ok(Decoded::Ignored(kind)) => {
                *self.counters.ignored.entry(kind).or_default() += 1;
                Ok(())
            }
            Ok(Decoded::Truncate { .. }) => Err(truncated(&place(assignment, raw))),
            Err(error) => self.undecodable(index, raw, error, give),
        }
    }

    /// A record that cannot be decoded: a dead letter, or the end of the job. A READ is never a
    /// letter: its snapshot can be taken again.
    #[cold]
    fn undecodable(
        &mut self,
        index: usize,
        raw: &RawRecord<'_>,
        error: DecodeError,
        give: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(), Error> {
        let assignment = &self.assignments[index];
        let at = |error: DecodeError| error.at(&assignment.topic, assignment.partition, raw.offset);
        let letters = self.dead_letters && self.role == Role::Mutations;
        if !letters || !error.is_of_one_record() {
            return Err(at(error));
        }
        let topic = self.topics[index];
        let (op, tables, fingerprint) = match self.decoder.decode_key(topic, raw) {
            Ok((table, fingerprint)) => (Op::Poisoned, vec![number(table)], fingerprint),
            Err(_) => {
                let tables = self.decoder.tables(topic).map(number).collect();
                (Op::Undecodable, tables, 0)
            }
        };
        let keyless = op == Op::Undecodable;
        let counted = &mut self.counters.dead_letters;
        dead_letter::count(counted, &assignment.topic, &tables, keyless);
        let letter = Letter {
            reason: &error.headline(),
            has_key: raw.key.is_some(),
            has_table: tables.len() == 1,
            value: raw.value,
        };
        self.rows += 1;
        give(RecordRef {
            fingerprint,
            op,
            table: tables.first().copied().unwrap_or_default(),
            generation: self.generation.0,
            partition: assignment.partition,
            offset: raw.offset,
            read_time_ms: 0,
            key: raw.key.unwrap_or_default(),
            value: &letter.encode(),
        });
        Ok(())
    }

    fn end_record(&mut self, index: usize, offset: u64, id: &[u8]) -> Result<(), Error> {
        let expected = self.generation.1;
        if id == expected.as_bytes() {
            if let Some(ends) = &mut self.ends {
                ends.end_record(index, offset);
            }
            return Ok(());
        }
        if self.closed {
            // It holds no READ, and this generation waits for none.
            return Ok(());
        }
        let Assignment {
            topic, partition, ..
        } = &self.assignments[index];
        Err(Error::refused(format!(
            "{topic}[{partition}]@{offset}: an end-of-snapshot record of another generation"
        ))
        .line(format!("found     {}", String::from_utf8_lossy(id)))
        .line(format!("expected  {expected}"))
        .line("A snapshot topic belongs to one generation: give this one a topic of its own."))
    }
}

fn number(table: usize) -> u16 {
    u16::try_from(table).expect("a job has fewer than 65,536 tables")
}

fn place(assignment: &Assignment, raw: &RawRecord<'_>) -> String {
    let Assignment {
        topic, partition, ..
    } = assignment;
    format!("{topic}[{partition}]@{}", raw.offset)
}

fn unavailable(at: &str) -> Error {
    Error::refused(format!("{at}: a mutation without all its columns"))
        .line("found     Debezium's unavailable value: a large column that the UPDATE left alone")
        .line("expected  whole rows: the READ that holds the column would be dropped for this key")
        .line("ALTER TABLE … REPLICA IDENTITY FULL, and start a new snapshot; or pass the")
        .line("placeholder on to the target with `sink.unavailable = \"pass\"`.")
}

fn truncated(at: &str) -> Error {
    Error::refused(format!("{at}: TRUNCATE"))
        .line("It has no key and stands in one partition only, so no order against the mutations")
        .line("of other partitions is known, and markers cannot stand for it.")
        .line("Truncate the target, start a new snapshot, and run the job anew on both topics")
        .line("from behind this offset.")
}
