//! From raw records to rows: what an envelope is, by the role of its topic, and whose row it is.
//!
//! Pure: bytes in, a borrowed [`Decoded`] out. Payloads are read no further than needed.

use headwater_operators::record::Op;

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
    /// A tombstone on a snapshot topic.
    SnapshotTombstone,
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
    },
    /// TRUNCATE of a table, by index.
    Truncate {
        /// Index of the table.
        table: usize,
    },
    /// No row.
    Ignored(Ignored),
}
