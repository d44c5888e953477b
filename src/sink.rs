//! Targets: where the merged stream goes. This is the extension point: a [`Sink`] of your own needs
//! nothing but this module, and [`row`] to look inside the rows.
//!
//! A [`Sink`] is made once a process and checked before anything is read. Its [`Writer`]s each own
//! one shard of the keys on a thread of their own, and may block. A batch reaches a writer already
//! folded: at most one row a key, its last state, in the order in which the keys were last touched.
//!
//! Invariant: of one key, a later row carries a greater `version` and is written after an earlier
//! one; a row is written again after a restart or a failure, so writing twice must do no harm.
//!
//! It cannot: order rows of different keys, or take part of a batch back.

pub mod admit;
mod aside;
mod backoff;
pub mod batch;
pub mod claim;
pub mod column;
pub mod fold;
pub mod generation;
pub mod jsonl;
pub mod kafka;
mod lane;
mod ledger;
mod line;
pub mod null;
pub mod postgres;
pub mod queue;
pub mod replay;
pub mod settings;
pub mod sqlite;
pub(crate) mod target;

use crate::error::Error;
use headwater_operators::record::{Op, RecordRef};
use std::sync::Arc;

pub use crate::decode::row;
pub use crate::table::Role;
pub use claim::{Applied, Claim, Claimed, Fence};
pub use generation::{GenerationNames, GenerationNote};

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
    /// The row is now this envelope (or flattened row), as it came; [`row::columns`] reads it.
    Upsert(&'a [u8]),
    /// There is no row any more. That there was none before is no error.
    Delete,
}

/// Where the last record of a row came from; for messages and dead letters, not for order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which of the table's topics.
    pub role: Role,
    /// Its partition.
    pub partition: u32,
    /// The offset in that partition.
    pub offset: u64,
    /// The generation of a READ; 0 for a mutation.
    pub generation: u32,
}

impl Origin {
    /// The origin of a record.
    pub fn of(record: &RecordRef<'_>) -> Origin {
        let role = match record.op {
            Op::Read | Op::Quarantined | Op::Late | Op::TooOld | Op::ReadPoisoned => Role::Snapshot,
            Op::Upsert | Op::Delete | Op::ReadInPlace | Op::Poisoned | Op::Undecodable => {
                Role::Mutations
            }
        };
        Origin {
            role,
            partition: record.partition,
            offset: record.offset,
            generation: record.generation,
        }
    }
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
    /// Grows with each record of a key, across restarts and worker counts (see
    /// [`queue::version`]); an external version for targets that keep the newest by themselves.
    pub version: u64,
    /// The last record that made it what it is.
    pub origin: Origin,
}

/// A row that the target would not take, by its place in the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Index in the batch.
    pub index: usize,
    /// Why, without values of the row.
    pub reason: String,
}

/// Why a batch, or part of it, was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The batch, or some of it, may be missing, and trying again may help (connection lost,
    /// serialization). The same batch is given again, after a pause, before any other.
    Retry(String),
    /// These rows were refused and will be again; all others of the batch are durable.
    Rejected(Vec<Rejected>),
    /// The batch, or some of it, is missing and trying again will not help. Ends the job.
    Fatal(Error),
}

/// Which writer of the job one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The run of the job; greater after every restart.
    pub incarnation: u32,
    /// The worker it writes for, counted over all processes (the first one of the process when it
    /// writes for all of them).
    pub worker: usize,
    /// Its shard, counted over all workers of all processes; unique in an incarnation.
    pub shard: usize,
}

/// A target. Made and checked before the job reads anything.
pub trait Sink: Send + Sync {
    /// Whether rows may be written again. [`ReplaySafety::Unsafe`] is refused at start unless the
    /// person states why it is safe after all.
    fn replay_safety(&self) -> ReplaySafety;

    /// Whether it takes partial rows.
    fn row_form(&self) -> RowForm;

    /// Whether one thread of the process writes for all its workers (SQLite). The number of shards
    /// is then 1.
    fn one_writer_a_process(&self) -> bool {
        false
    }

    /// Whether it keeps how far it is, with the rows: then [`Claimed::applied`] says so, and what
    /// is replayed after a restart is held and written at once. Others replay as a stream.
    fn keeps_progress(&self) -> bool {
        false
    }

    /// How many shards, each with a [`Writer`] and a thread, a worker writes through; at least 1.
    fn shards_a_worker(&self) -> usize {
        1
    }

    /// Checks that the target can be written: it is there, has a key, has the columns, gives the
    /// rights that [`Sink::claim`] needs. Leaves nothing behind.
    ///
    /// # Errors
    /// Names the target, what was found, what was expected and what to do.
    fn check(&self) -> Result<(), Error>;

    /// Names what holds rows already ("target table x"), for [`admit::admit`]; nothing when the
    /// target is empty or cannot know.
    ///
    /// # Errors
    /// When the target cannot be read.
    fn holds_rows(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Lays rows over the target as a writer would, and writes none; `headwater check` calls it
    /// with sampled rows. A target without columns of its own has nothing to say.
    ///
    /// # Errors
    /// As [`Writer::write`] for what can be seen without writing.
    fn fit(&self, rows: &[Row<'_>]) -> Result<(), WriteError> {
        let _ = rows;
        Ok(())
    }

    /// Takes the target for a run of a job, after [`Sink::check`]; process 0 of a cluster does. A
    /// writer that is made before writes nothing until then. Whatever an older run still writes
    /// must not reach the target after it.
    ///
    /// # Errors
    /// When the target belongs to another job, is not the one that the claim knows, is older than
    /// the claim's checkpoint, or was taken by a greater incarnation; both sides are named.
    fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let _ = claim;
        Ok(Claimed::default())
    }

    /// Leaves the number of a checkpoint that is about to be made in the target; everything that
    /// the checkpoint counts as written is. Numbers grow.
    ///
    /// # Errors
    /// [`WriteError::Retry`] when trying again may help, [`WriteError::Fatal`] when a greater
    /// incarnation has taken the target.
    fn note_checkpoint(&self, number: u64) -> Result<(), WriteError> {
        let _ = number;
        Ok(())
    }

    /// Leaves in the target how far every generation is, oldest first; a durable manifest says so.
    /// What was left before is replaced.
    ///
    /// # Errors
    /// As [`Sink::note_checkpoint`]; after [`WriteError::Retry`] the next checkpoint tells it
    /// again.
    fn generations(&self, generations: &[GenerationNote]) -> Result<(), WriteError> {
        let _ = generations;
        Ok(())
    }

    /// Where the job shall keep the ids of generations, for a sink that puts them on its rows.
    fn names(&self) -> Option<Arc<GenerationNames>> {
        None
    }

    /// The writer of one shard.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn writer(&self, place: Place) -> Result<Box<dyn Writer>, Error>;
}

/// Writes one shard, on a thread of its own. May block.
pub trait Writer: Send {
    /// Writes a folded batch and flushes it: durable when this returns `Ok`. `applied` is how far
    /// the batch's records go in their partitions; a target that can stores it with the rows, for
    /// [`Claimed::applied`].
    ///
    /// # Errors
    /// See [`WriteError`].
    fn write(&mut self, rows: &[Row<'_>], applied: &[Applied]) -> Result<(), WriteError>;
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
