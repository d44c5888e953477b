//! From raw records to rows: what an envelope is, by the role of its topic, and whose row it is.
//!
//! Pure: bytes in, a borrowed [`Decoded`] out. Each half of a record is checked for its whole JSON
//! structure and UTF-8, and read no further than needed; the value passes through as it came.
//!
//! A topic that several tables share: the source block names the table; a record of a table that is
//! not configured is counted and left out. A tombstone there names none. It belongs to the table of
//! the `d` with the same key bytes that was seen last, else to the one named by the key's schema,
//! else to the only one whose key has these columns. When that does not tell either, then on a
//! topic of envelopes it is counted and left out, as its `d` has already marked the key; on a topic
//! of flattened rows, where it is the only sign of a delete, it is refused.

mod decoder;
mod envelope;
mod error;
pub(crate) mod framing;
mod kind;
mod recent;
pub mod row;
pub(crate) mod scan;
mod shape;
pub(crate) mod text;
pub mod unavailable;

pub use decoder::{Decoder, TopicId};
pub use error::{DecodeError, Side};
pub use framing::Framing;

use headwater_operators::record::Op;

/// What a value of no bytes means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyValue {
    /// An error.
    #[default]
    Poison,
    /// A delete.
    Tombstone,
}

/// What becomes of a row of a table that is not configured, on a topic of one table. On a topic
/// that several tables share such rows are always left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherTables {
    /// Refused: a router may have renamed the topic, and then the row must not be lost.
    #[default]
    Refuse,
    /// Counted and left out.
    Ignore,
}

/// How records are decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeSettings {
    /// What a value of no bytes means.
    pub empty_value: EmptyValue,
    /// How keys are framed.
    pub key_framing: Framing,
    /// How values are framed.
    pub value_framing: Framing,
    /// `schema.table` of the signalling table; one with its three columns is recognised anyway.
    pub signal_table: Option<String>,
    /// Whether a mutation with a placeholder of an unchanged column is passed on as it came; else
    /// it ends the job, since the marker would drop the READ that holds the column's value.
    pub pass_unavailable: bool,
    /// What becomes of rows of tables that are not configured.
    pub other_tables: OtherTables,
    /// Whether a mutation that cannot be decoded goes to the dead letters; else it ends the job.
    pub dead_letters: bool,
}

/// A record that is not a row; skipped and counted by kind (wire.md W8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ignored {
    /// Debezium heartbeat.
    Heartbeat,
    /// `op` = `m`, a logical decoding message.
    Message,
    /// BEGIN or END of a transaction.
    Transaction,
    /// DDL.
    SchemaChange,
    /// A row of the signalling table.
    Signal,
    /// A notification of a snapshot's progress, routed into a data topic.
    Notification,
    /// A tombstone on a snapshot topic.
    SnapshotTombstone,
    /// A row of a table that is not configured.
    OtherTable,
    /// A tombstone on a shared topic whose table cannot be told; its `d` has marked the key.
    SharedTombstone,
}

impl Ignored {
    /// The name of its counter, after `ignored_`.
    pub fn word(self) -> &'static str {
        match self {
            Ignored::Heartbeat => "heartbeat",
            Ignored::Message => "message",
            Ignored::Transaction => "transaction",
            Ignored::SchemaChange => "schema_change",
            Ignored::Signal => "signal",
            Ignored::Notification => "notification",
            Ignored::SnapshotTombstone => "snapshot_tombstone",
            Ignored::OtherTable => "other_table",
            Ignored::SharedTombstone => "shared_tombstone",
        }
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A mutation or a READ of a row.
    Row {
        /// Index of the table.
        table: usize,
        /// What it does.
        op: Op,
        /// Keyed hash of table and canonical key.
        fingerprint: u128,
        /// The key as it came, or the configured key columns as JSON when it came without.
        key: &'a [u8],
        /// The value as it came; empty for a tombstone.
        value: &'a [u8],
        /// When a READ was read at the source, ms since 1970; 0 otherwise.
        read_time_ms: u64,
        /// The source's own time of it (`source.ts_ms`), ms since 1970; 0 where it says none.
        source_ms: i64,
        /// Whether a READ says of itself that it is its snapshot's last (`source.snapshot`).
        last: bool,
    },
    /// TRUNCATE of a table, by index.
    Truncate {
        /// Index of the table.
        table: usize,
    },
    /// No row.
    Ignored(Ignored),
}

#[cfg(test)]
mod tests;
