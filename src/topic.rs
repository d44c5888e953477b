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

pub mod memory;

use crate::error::Error;
use std::sync::Arc;

/// The header that ends a partition of a snapshot topic: null key, null value, and as its value the
/// id of the generation.
pub const END_HEADER: &str = "headwater.end";

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

/// Called from any thread when there may be something to read.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A client of topics. May block; never used inside an operator.
pub trait Topics: Send + Sync {
    /// The offset range of each partition, by partition number.
    ///
    /// # Errors
    /// When the topic does not exist or cannot be asked.
    fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error>;

    /// The offset at which reading of each partition starts.
    ///
    /// # Errors
    /// As [`Topics::ranges`].
    fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error>;

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
    /// given. Returns the bytes given, counting a record as 1 at least; 0 means that nothing is at
    /// hand now.
    ///
    /// # Errors
    /// What the log or `take` says; the record at hand then counts as not given.
    fn poll(&mut self, budget_bytes: usize, take: &mut Take<'_>) -> Result<usize, Error>;

    /// The next offset of assignment `index`; see the invariant above.
    fn next_offset(&self, index: usize) -> u64;
}
