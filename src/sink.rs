//! Targets: where the merged stream goes.
//!
//! A [`Sink`] is made once a process and checked before anything is read. Its [`Writer`]s each own
//! one shard of the keys on a thread of their own, and may block. A batch reaches a writer already
//! folded: at most one row a key, its last state, in the order in which the keys were last touched.
//!
//! Invariant: of one key, a later row carries a greater `version` and is written after an earlier
//! one; a row is written again after a restart, so writing twice must do no harm.

use crate::error::Error;

/// Whether writing a row again does no harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplaySafety {
    /// An upsert or delete by key.
    Safe,
    /// It is not; the reason is for the person.
    Unsafe(String),
}

/// Whether a target can take some columns of a row and leave the others as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// Writes only the columns it got (SQL).
    Partial,
    /// Writes whole rows only (Kafka, JSON lines).
    Whole,
}

/// What becomes of the row of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The row is now this envelope (or flattened row), as it came.
    Upsert(&'a [u8]),
    /// There is no row any more.
    Delete,
}

/// One folded row for a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Index of the table.
    pub table: usize,
    /// Fingerprint of the key; rows of one batch have different ones.
    pub fingerprint: u128,
    /// The key as it came (JSON, framed or not).
    pub key: &'a [u8],
    /// What becomes of it.
    pub change: Change<'a>,
    /// Grows with each record of a key, across restarts and worker counts.
    pub version: u64,
}

/// A row that the target would not take, by its place in the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Index in the batch.
    pub index: usize,
    /// The target's words.
    pub reason: String,
}

/// Why a batch, or part of it, was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Nothing of it was written, and trying again may help (connection lost, serialization).
    Retry(String),
    /// These rows were refused and will be again; all others of the batch are written.
    Rejected(Vec<Rejected>),
    /// Nothing of it was written and trying again will not help.
    Fatal(Error),
}

/// A target. Made and checked before the job reads anything.
pub trait Sink: Send + Sync {
    /// Whether rows may be written again.
    fn replay_safety(&self) -> ReplaySafety;

    /// Whether it takes partial rows.
    fn row_form(&self) -> RowForm;

    /// Whether one thread of the process writes for all its workers (SQLite).
    fn one_writer_a_process(&self) -> bool {
        false
    }

    /// How many shards each worker writes through, at least 1.
    fn shards_a_worker(&self) -> usize {
        1
    }

    /// Checks that the target can be written: it is there, has a key, has the columns, is empty.
    ///
    /// # Errors
    /// Names the target, what was found, what was expected and what to do.
    fn check(&self) -> Result<(), Error>;

    /// The writer of one shard; `shard` counts over all workers of all processes.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn writer(&self, shard: usize) -> Result<Box<dyn Writer>, Error>;
}

/// Writes one shard, on a thread of its own. May block.
pub trait Writer: Send {
    /// Writes a folded batch, durable when this returns `Ok`.
    ///
    /// # Errors
    /// See [`WriteError`].
    fn write(&mut self, rows: &[Row<'_>]) -> Result<(), WriteError>;
}
