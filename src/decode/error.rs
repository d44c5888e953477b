//! Why a record could not be decoded, in words that name the cure.
//!
//! Values of rows never appear, column names do. The caller knows the address and adds it with
//! [`DecodeError::at`].

use crate::error::{Error, ErrorKind};
use crate::key::KeyMismatch;
use thiserror::Error as ThisError;

/// The half of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Side::Key => "key",
            Side::Value => "value",
        })
    }
}

/// Why a record could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum DecodeError {
    /// Not JSON, or cut.
    #[error(
        "the {side} is not JSON: {what}, at byte {at}\n  \
         Expected Debezium's JSON, bare or with schema and payload. Look at the record; a row that \
         is skipped could let a stale READ pass."
    )]
    BadJson {
        /// Which half.
        side: Side,
        /// At which byte.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// Avro, Protobuf or another framing with a schema id.
    #[error(
        "the {side} begins with byte 0x{first:02x}, as Avro or Protobuf with a schema id do\n  \
         Only JSON is read. Set {side}.converter=org.apache.kafka.connect.json.JsonConverter in \
         the connector."
    )]
    Binary {
        /// Which half.
        side: Side,
        /// 0 or 1.
        first: u8,
    },
    /// A value of no bytes; see `empty_value`.
    #[error(
        "the value has no bytes\n  \
         It may be a tombstone of a producer that writes null so, or damage. Set \
         `empty_value = \"tombstone\"` when it means a delete."
    )]
    EmptyValue,
    /// No key, and no columns to take one from.
    #[error(
        "a row of `{table}` has no key, so its markers and READs cannot be matched\n  \
         Set `key = [..]` for this table to take these columns from the row, or \
         message.key.columns in both connectors."
    )]
    NoKey {
        /// Name of the table.
        table: String,
    },
    /// The key is one bare value and no single column is configured.
    #[error(
        "the key of a row of `{table}` is not an object with its columns\n  \
         Set `key = [\"COLUMN\"]` for this table to name the one column that it holds."
    )]
    ScalarKey {
        /// Name of the table.
        table: String,
    },
    /// A configured key column is not there.
    #[error(
        "key column `{column}` of `{table}` is not in {place}\n  \
         `key = [..]` of this table must name columns that every record has; a DELETE without its \
         key in the record needs REPLICA IDENTITY FULL."
    )]
    MissingKeyColumn {
        /// Name of the table.
        table: String,
        /// The column.
        column: String,
        /// Where it was looked for.
        place: &'static str,
    },
    /// A key column is null.
    #[error(
        "key column `{column}` of `{table}` is null in {place}\n  \
         A row is found by its key; null is none. For a DELETE set REPLICA IDENTITY FULL, else \
         choose columns that are NOT NULL."
    )]
    NullKeyColumn {
        /// Name of the table.
        table: String,
        /// The column.
        column: String,
        /// Where it was looked for.
        place: &'static str,
    },
    /// A key value that cannot be read.
    #[error("key column `{column}` of `{table}` cannot be read: {what}")]
    BadKey {
        /// Name of the table.
        table: String,
        /// The column.
        column: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The key gate refuses the shape.
    #[error("{0}")]
    KeyGate(Box<KeyMismatch>),
    /// An UPDATE moves a row whose key is taken from the row.
    #[error(
        "an UPDATE of `{table}` changes its key, and the record has none of its own\n  \
         The row under the old key would stay for ever. Give both connectors message.key.columns, \
         which makes Debezium send a delete of the old key."
    )]
    KeyChange {
        /// Name of the table.
        table: String,
    },
    /// A live mutation on a snapshot topic.
    #[error(
        "a live mutation (op `{op}`) of `{table}` is on the snapshot topic\n  \
         The snapshot connector is still streaming: it must stop after its snapshot. Set \
         snapshot.mode=initial_only in it, and start a new generation on a new topic."
    )]
    MisWired {
        /// Name of the table, as the record has it.
        table: String,
        /// The operation.
        op: char,
    },
    /// A table that is not configured, on a topic of one table.
    #[error(
        "a row of `{found}` is on a topic that is configured for `{expected}` alone\n  \
         Name the table as the source block does, add a [[table]] for the other one, or set \
         `other_tables = \"ignore\"` when its rows are to be left out."
    )]
    UnknownTable {
        /// As the record has it.
        found: String,
        /// As configured.
        expected: String,
    },
    /// Several tables share the topic and the record does not say whose it is.
    #[error(
        "the record does not say which of the tables of this topic it belongs to\n  \
         {what}"
    )]
    AmbiguousTable {
        /// What to do.
        what: &'static str,
    },
    /// An operation that Debezium does not have.
    #[error("operation `{op}` is none of c, u, d, r, t, m")]
    UnknownOp {
        /// As it stands, at most eight characters.
        op: String,
    },
    /// An envelope without the row it should hold.
    #[error("a record of operation `{op}` of `{table}` has no row in `after`")]
    NoRow {
        /// Name of the table.
        table: String,
        /// The operation.
        op: char,
    },
    /// JSON, but no row and none of the records that may be ignored.
    #[error("the value is {found}; expected Debezium's JSON envelope or a flattened row\n  {cure}")]
    NotARow {
        /// What it looks like.
        found: &'static str,
        /// What to do.
        cure: &'static str,
    },
}

impl DecodeError {
    /// Whether it is a refusal (exit code 4) or a plain failure (exit code 1).
    pub fn kind(&self) -> ErrorKind {
        match self {
            DecodeError::NoKey { .. }
            | DecodeError::ScalarKey { .. }
            | DecodeError::MissingKeyColumn { .. }
            | DecodeError::NullKeyColumn { .. }
            | DecodeError::KeyGate(_)
            | DecodeError::KeyChange { .. }
            | DecodeError::MisWired { .. }
            | DecodeError::UnknownTable { .. }
            | DecodeError::AmbiguousTable { .. } => ErrorKind::Refused,
            DecodeError::BadJson { .. }
            | DecodeError::Binary { .. }
            | DecodeError::EmptyValue
            | DecodeError::BadKey { .. }
            | DecodeError::UnknownOp { .. }
            | DecodeError::NoRow { .. }
            | DecodeError::NotARow { .. } => ErrorKind::Failed,
        }
    }

    /// Whether it is about one record, which may be set aside. The others say that a topic or a key
    /// is not what it was configured to be, which is true of the records to come as well.
    pub fn is_of_one_record(&self) -> bool {
        match self {
            DecodeError::BadJson { .. }
            | DecodeError::EmptyValue
            | DecodeError::NoKey { .. }
            | DecodeError::MissingKeyColumn { .. }
            | DecodeError::NullKeyColumn { .. }
            | DecodeError::BadKey { .. }
            | DecodeError::UnknownOp { .. }
            | DecodeError::NoRow { .. }
            | DecodeError::NotARow { .. } => true,
            // Another converter, or a key that a transform took apart.
            DecodeError::Binary { .. }
            | DecodeError::ScalarKey { .. }
            | DecodeError::KeyGate(_)
            | DecodeError::KeyChange { .. }
            | DecodeError::MisWired { .. }
            | DecodeError::UnknownTable { .. }
            | DecodeError::AmbiguousTable { .. } => false,
        }
    }

    /// The first line of it.
    pub fn headline(&self) -> String {
        let text = self.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    }

    /// The error of the record at this address.
    pub fn at(&self, topic: &str, partition: u32, offset: u64) -> Error {
        let text = format!("{self}");
        let address = format!("record: {topic}[{partition}] offset {offset}");
        match text.split_once('\n') {
            Some((headline, details)) => {
                Error::new(self.kind(), format!("{headline}\n  {address}\n{details}"))
            }
            None => Error::new(self.kind(), text).line(address),
        }
    }
}
