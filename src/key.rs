//! Keys: from the bytes of a record to one canonical form that both topics of a table share.
//!
//! Raw key bytes never match across two connectors (wire.md W13). A key is decoded, its columns are
//! put in name order, and each value is written by its class into a tuple whose bytes order as the
//! values do: numbers by value whatever their width or scale, times by instant whatever their unit.
//! Two keys of one table are the same row exactly when these bytes are equal, provided that the
//! columns and classes agree; that is what the [`KeyGate`] holds.
//!
//! It cannot know a collation: text is compared byte by byte, only uuids are folded to lower case.

pub(crate) mod encode;
pub(crate) mod gate;
pub(crate) mod logical;
pub(crate) mod reader;
pub(crate) mod time;

pub use gate::{KeyGate, KeyMismatch, KnownShape};
pub use logical::Logical;

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of value a key column holds; two columns match only within one class. The code of
/// each is part of the canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// Integers of any width, decimals, floats: one class, compared by value.
    Number = 1,
    /// Text, and any JSON string without a schema.
    Text = 2,
    /// true and false.
    Bool = 3,
    /// Bytes, by schema only.
    Bytes = 4,
    /// A uuid by schema, in lower case.
    Uuid = 5,
    /// Days.
    Date = 6,
    /// Time of day, by instant.
    Time = 7,
    /// Time of day with an offset, as UTC.
    TimeTz = 8,
    /// Timestamp without a time zone, by instant.
    Timestamp = 9,
    /// Timestamp with a time zone, by instant.
    TimestampTz = 10,
}

impl Class {
    /// The word used in messages.
    pub fn word(self) -> &'static str {
        match self {
            Class::Number => "number",
            Class::Text => "text",
            Class::Bool => "bool",
            Class::Bytes => "bytes",
            Class::Uuid => "uuid",
            Class::Date => "date",
            Class::Time => "time",
            Class::TimeTz => "timetz",
            Class::Timestamp => "timestamp",
            Class::TimestampTz => "timestamptz",
        }
    }
}

/// The columns of a key in name order, each with its class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyShape {
    /// Names and classes, sorted by name, no name twice.
    columns: Vec<(String, Class)>,
}

impl KeyShape {
    /// A shape of these columns, in any order.
    pub fn new(mut columns: Vec<(String, Class)>) -> Self {
        columns.sort();
        KeyShape { columns }
    }

    /// Names and classes in name order.
    pub fn columns(&self) -> &[(String, Class)] {
        &self.columns
    }

    /// Whether these are its column names, in any order.
    pub fn has_exactly<'n>(&self, names: impl Iterator<Item = &'n str>) -> bool {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        self.columns.iter().map(|(name, _)| name.as_str()).eq(names)
    }
}

/// `{id: number, region: text}`.
impl fmt::Display for KeyShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, class)) in self.columns.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {}", class.word())?;
        }
        f.write_str("}")
    }
}
