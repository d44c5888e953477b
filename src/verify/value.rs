//! Values of two databases in one form, so that equal values have equal bytes.
//!
//! Numbers are equal by value whatever their scale, times by instant whatever their text, JSON
//! whatever its spaces and the order of its members; text and bytes are equal when they are.
//!
//! Invariant: both sides of a column are written in the same [`Form`]. A value that is not what the
//! form says (`NaN`, a year before 1) stands as its text, which no value of the form equals.
//!
//! It cannot compare intervals and arrays of different databases, nor times with counts of them:
//! [`form`] gives nothing, and the caller says that it leaves the column out.

use super::side::Column;
use crate::key::encode;
use crate::key::logical::Logical;
use crate::key::time::{self, Instant};
use crate::sink::column::{Kind, hex};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Deeper JSON is compared as text: the canonical form is made by recursion.
const JSON_DEPTH_MAX: usize = 64;

/// A value as a database gives it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw<'a> {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A float.
    Real(f64),
    /// Text, and whatever the database gives as text.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
}

impl Raw<'_> {
    /// The same value on its own.
    pub(super) fn owned(&self) -> Raw<'static> {
        match self {
            Raw::Null => Raw::Null,
            Raw::Int(value) => Raw::Int(*value),
            Raw::Real(value) => Raw::Real(*value),
            Raw::Text(text) => Raw::Text(Cow::Owned(text.clone().into_owned())),
            Raw::Bytes(bytes) => Raw::Bytes(Cow::Owned(bytes.clone().into_owned())),
        }
    }

    /// As text, bytes in hexadecimal; nothing for NULL.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Raw::Null => return None,
            Raw::Int(value) => Cow::Owned(value.to_string()),
            Raw::Real(value) => Cow::Owned(value.to_string()),
            Raw::Text(text) => Cow::Borrowed(text),
            Raw::Bytes(bytes) => Cow::Owned(hex(bytes)),
        })
    }

    /// About how many bytes it has.
    pub(super) fn size(&self) -> usize {
        match self {
            Raw::Null | Raw::Int(_) | Raw::Real(_) => 8,
            Raw::Text(text) => text.len(),
            Raw::Bytes(bytes) => bytes.len(),
        }
    }
}

/// How the values of a column are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By value.
    Number,
    /// true or false.
    Bool,
    /// As it stands.
    Text,
    /// Without spaces at its end (`char(n)`).
    Padded,
    /// Byte by byte.
    Bytes,
    /// As JSON.
    Json,
    /// As a day.
    Date,
    /// As a time of day.
    Time,
    /// As an instant without a zone.
    Timestamp,
    /// As an instant, or a time of day, in UTC.
    Zoned,
}

/// How a column of the source and its target are compared; nothing when they cannot be.
pub(super) fn form(source: &Column, target: &Column) -> Option<Form> {
    let padded = [source, target]
        .iter()
        .any(|column| matches!(column.type_name.as_str(), "bpchar" | "character"));
    let one = |a: &Kind, b: &Kind| -> Option<Form> {
        Some(match (a, b) {
            (Kind::Array(_) | Kind::Interval | Kind::Bits, _) => return None,
            (Kind::Text | Kind::Other, Kind::Text | Kind::Other) if padded => Form::Padded,
            (Kind::Text | Kind::Other, Kind::Text | Kind::Other) => Form::Text,
            (Kind::Number, Kind::Number | Kind::Text | Kind::Other | Kind::Bool) => Form::Number,
            (Kind::Bool, Kind::Bool | Kind::Text | Kind::Other) => Form::Bool,
            (Kind::Bytes, Kind::Bytes) => Form::Bytes,
            (Kind::Json, Kind::Json | Kind::Text | Kind::Other) => Form::Json,
            (Kind::Date, Kind::Date | Kind::Text | Kind::Other) => Form::Date,
            (Kind::Time { .. }, Kind::Time { .. } | Kind::Text | Kind::Other) => Form::Time,
            (Kind::Timestamp { .. }, Kind::Timestamp { .. } | Kind::Text | Kind::Other) => {
                Form::Timestamp
            }
            (Kind::Zoned, Kind::Zoned | Kind::Text | Kind::Other) => Form::Zoned,
            // One database writes both in the same way.
            _ => return None,
        })
    };
    let same = source.flavor == target.flavor && source.type_name == target.type_name;
    one(&source.kind, &target.kind)
        .or_else(|| one(&target.kind, &source.kind))
        .or_else(|| same.then_some(Form::Text))
}

/// Appends a value in its form; no value's bytes are the start of another's.
pub(super) fn put(raw: &Raw<'_>, form: Form, out: &mut Vec<u8>) {
    let Some(text) = raw.text() else {
        out.push(0);
        return;
    };
    out.push(1);
    let start = out.len();
    out.extend([0; 8]);
    match (form, raw) {
        (Form::Bytes, Raw::Bytes(bytes)) => out.extend_from_slice(bytes),
        (Form::Bytes, _) => match unhex(&text) {
            Some(bytes) => out.extend(bytes),
            None => out.extend_from_slice(text.as_bytes()),
        },
        (Form::Text, _) => out.extend_from_slice(text.as_bytes()),
        (Form::Padded, _) => out.extend_from_slice(text.trim_end_matches(' ').as_bytes()),
        _ => {
            let length = out.len();
            out.push(2);
            if by_value(&text, form, out).is_none() {
                out.truncate(length);
                out.push(1);
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
    let length = (out.len() - start - 8) as u64;
    out[start..start + 8].copy_from_slice(&length.to_be_bytes());
}

/// Appends what a text means; nothing when it is not of the form.
fn by_value(text: &str, form: Form, out: &mut Vec<u8>) -> Option<()> {
    let nanos = |ns: i128, out: &mut Vec<u8>| out.extend(ns.to_be_bytes());
    match form {
        Form::Number => {
            let text = match text {
                "true" | "t" => "1",
                "false" | "f" => "0",
                text => text,
            };
            encode::put(text.as_bytes(), Logical::Number, out).ok()?;
        }
        Form::Bool => out.push(match text {
            "true" | "t" | "1" => 1,
            "false" | "f" | "0" => 0,
            _ => return None,
        }),
        Form::Json => json(text, JSON_DEPTH_MAX, out)?,
        Form::Date => nanos(i128::from(time::date(text)?), out),
        Form::Time => nanos(time::time(text)?, out),
        Form::Timestamp => instant(text, out)?,
        Form::Zoned => match instant(text, out) {
            Some(()) => {}
            None => nanos(time::time(text)?, out),
        },
        Form::Text | Form::Padded | Form::Bytes => return None,
    }
    Some(())
}

fn instant(text: &str, out: &mut Vec<u8>) -> Option<()> {
    match time::timestamp(text)? {
        Instant::Earliest => out.push(b'-'),
        Instant::Latest => out.push(b'+'),
        Instant::Nanos(ns) => out.extend(ns.to_be_bytes()),
    }
    Some(())
}

fn json(text: &str, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let text = text.trim();
    let sized = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend((bytes.len() as u64).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    let depth = depth.checked_sub(1)?;
    let first = *text.as_bytes().first()?;
    match first {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            out.push(first);
            out.extend((members.len() as u64).to_be_bytes());
            for (name, value) in members {
                sized(name.as_bytes(), out);
                json(value.get(), depth, out)?;
            }
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            out.push(first);
            out.extend((items.len() as u64).to_be_bytes());
            for item in items {
                json(item.get(), depth, out)?;
            }
        }
        b'"' => {
            let text: String = serde_json::from_str(text).ok()?;
            out.push(first);
            sized(text.as_bytes(), out);
        }
        b't' | b'f' | b'n' if matches!(text, "true" | "false" | "null") => out.push(first),
        _ => {
            out.push(b'#');
            encode::put(text.as_bytes(), Logical::Number, out).ok()?;
        }
    }
    Some(())
}

/// The bytes of `\x0102`.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests;
