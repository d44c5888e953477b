//! Topics as the job sees them: partitions of offsets, read without waiting.
//!
//! A [`Topics`] is a client of one kind (`file`, `kafka`): it may block and is used off the worker
//! threads. A [`Reader`] belongs to one worker and one role, is called inside an operator, and
//! never blocks; it wakes its operator through the waker it was given. Back pressure is simply not
//! polling it.
//!
//! Invariant: records of a partition come in offset order without a gap the log does not have;
//! `next_offset` is 1 + the last offset given, moved on by the end of the partition alone, and
//! never beyond the partition's high watermark.

pub mod file;
pub mod growth;
pub mod kafka;
pub mod memory;
pub mod mixed;
pub mod names;
pub mod partitioner;
pub mod resume;
mod sticky;

use crate::error::Error;
use std::sync::Arc;

/// The header that ends a partition of a snapshot topic: null key, null value, and as its value the
/// id of the generation.
pub const END_HEADER: &str = "headwater.end";

/// The header by which Debezium tells the starts of a connector's task apart.
pub const RUN_HEADER: &str = "__debezium.context.runId";

/// A record as the log holds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawRecord<'a> {
    /// Its offset.
    pub offset: u64,
    /// Its timestamp, ms since 1970; 0 when it has none.
    pub timestamp_ms: i64,
    /// Its key, if it is not null.
    pub key: Option<&'a [u8]>,
    /// Its value, if it is not null.
    pub value: Option<&'a [u8]>,
    /// The value of its [`END_HEADER`], if it has one.
    pub end_of_snapshot: Option<&'a [u8]>,
    /// The value of its [`RUN_HEADER`], where that was asked for; see [`Reader::want_runs`].
    pub run_id: Option<&'a [u8]>,
}

/// One partition that a reader reads, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Topic name.
    pub topic: String,
    /// Partition number.
    pub partition: u32,
    /// The first offset to give.
    pub next_offset: u64,
}

/// The offsets a partition's log holds: `low` is the first, `high` the one after the last
/// (Kafka's high watermark, not the last stable offset).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// First offset still in the log.
    pub low: u64,
    /// One past the last.
    pub high: u64,
}

/// Where reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first offset that the log holds.
    Beginning,
    /// At the first offset whose record is not older, ms since 1970.
    Time(i64),
}

/// Settings of a topic that decide how long it keeps records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicSettings {
    /// Whether `cleanup.policy` has `compact`.
    pub compacted: bool,
    /// Whether `cleanup.policy` has `delete`.
    pub deleted: bool,
    /// `retention.ms`; none: no limit.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`, of each partition; none: no limit.
    pub retention_bytes: Option<u64>,
    /// `delete.retention.ms`: how long a compacted topic keeps tombstones; none: not known.
    pub delete_retention_ms: Option<u64>,
}

impl TopicSettings {
    /// From settings by their Kafka names; others are passed over. A number below 0 is no limit.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut settings = TopicSettings::default();
        for (name, value) in pairs {
            let number = value.parse().ok();
            match name {
                "cleanup.policy" => {
                    let has = |policy| value.split(',').any(|word| word.trim() == policy);
                    (settings.compacted, settings.deleted) = (has("compact"), has("delete"));
                }
                "retention.ms" => settings.retention_ms = number,
                "retention.bytes" => settings.retention_bytes = number,
                "delete.retention.ms" => settings.delete_retention_ms = number,
                _ => {}
            }
        }
        settings
    }

    /// How old a record may get before the topic deletes it; none: it deletes none by age.
    pub fn deletes_after_ms(&self) -> Option<u64> {
        self.retention_ms.filter(|_| self.deleted)
    }
}

/// Called from any thread when records (or errors) come after [`Reader::poll`] had returned 0, or
/// before its first call. Must be quick and must not call the reader. May be called for nothing.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A client of topics. May block; never used inside an operator.
pub trait Topics: Send + Sync {
    /// The offset range of each partition, by partition number.
    ///
    /// # Errors
    /// When the topic does not exist or cannot be asked.
    fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error>;

    /// How many partitions the topic has now.
    ///
    /// # Errors
    /// As [`Topics::ranges`].
    fn partition_count(&self, topic: &str) -> Result<u32, Error>;

    /// The offset at which reading of each partition starts; the end where no record is young
    /// enough.
    ///
    /// # Errors
    /// As [`Topics::ranges`].
    fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error>;

    /// What tells the topic from one that was deleted and made anew under its name; `None` where
    /// topics have no such thing.
    ///
    /// # Errors
    /// As [`Topics::ranges`].
    fn topic_id(&self, topic: &str) -> Result<Option<String>, Error> {
        let _ = topic;
        Ok(None)
    }

    /// How long the topic keeps records; `None` where topics have no such settings, or they may not
    /// be read (Kafka: DESCRIBE_CONFIGS on the topic). May block for some seconds.
    ///
    /// # Errors
    /// As [`Topics::ranges`].
    fn settings(&self, topic: &str) -> Result<Option<TopicSettings>, Error> {
        let _ = topic;
        Ok(None)
    }

    /// A checkpoint with these offsets is durable: tells whatever shows lag (Kafka's consumer group
    /// of the job's name). Nobody reads it back. May block for some seconds when brokers are away.
    /// Returns a note for the person when it could not be told; that is never an error.
    fn committed(&self, next_offsets: &[Assignment]) -> Option<String> {
        let _ = next_offsets;
        None
    }

    /// A reader of these partitions; must return at once. `waker` is called when records may be
    /// ready.
    ///
    /// # Errors
    /// When a client cannot be made at all; anything later comes out of [`Reader::poll`].
    fn reader(&self, partitions: &[Assignment], waker: Waker) -> Result<Box<dyn Reader>, Error>;
}

/// What [`Reader::poll`] hands records to: the index of the assignment, and the record.
pub type Take<'t> = dyn FnMut(usize, RawRecord<'_>) -> Result<(), Error> + 't;

/// Reads assigned partitions for one operator, without ever waiting.
pub trait Reader {
    /// Gives records that are at hand to `take` until about `budget_bytes` of key and value were
    /// given. Returns the bytes given, a record without any counting as 1; 0 means that nothing is
    /// at hand now, and that the waker will be called when something is.
    ///
    /// # Errors
    /// What the log or `take` says; the record at hand then counts as not given. The reader is of
    /// no use afterwards and says the same again.
    fn poll(&mut self, budget_bytes: usize, take: &mut Take<'_>) -> Result<usize, Error>;

    /// The next offset of assignment `index`; see the invariant above.
    fn next_offset(&self, index: usize) -> u64;

    /// Tells that nothing comes at or after offset `end` of assignment `index`, so that what is cut
    /// off there is an error and not waited for (`file` topics; Kafka has no such thing).
    fn freeze(&mut self, index: usize, end: u64) {
        let _ = (index, end);
    }

    /// Asks for [`RawRecord::run_id`], which costs a look at the headers of every record.
    fn want_runs(&mut self) {}

    /// What is wrong just now without being an error, in words: no broker answers, say.
    fn trouble(&self) -> Option<String> {
        None
    }
}
