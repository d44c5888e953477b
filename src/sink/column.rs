//! From a raw JSON value, by the type of the target's column, to a cell.
//!
//! What the wire holds for a type is wire.md W14. With the schema framing the logical name decides;
//! without it the target's type does, read as Debezium's default modes write it: `timestamp(3)` and
//! coarser as milliseconds, others as microseconds; decimals as plain text.
//!
//! It cannot tell a base64 decimal from a number without a schema: such a connector needs
//! `decimal.handling.mode=string` or `schemas.enable=true`. What it does not know is an error,
//! never a guess, and no error holds the value.

mod number;
mod text;
mod time;

use super::row::Field;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub use text::{array_literal, hex};

/// What a target's column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text of any kind.
    Text,
    /// A number of any kind.
    Number,
    /// true or false.
    Bool,
    /// Bytes.
    Bytes,
    /// JSON.
    Json,
    /// A day.
    Date,
    /// A time of day; `millis` when its precision is 3 digits or less.
    Time {
        /// Whether the wire counts milliseconds.
        millis: bool,
    },
    /// A timestamp without time zone.
    Timestamp {
        /// Whether the wire counts milliseconds.
        millis: bool,
    },
    /// A timestamp or time with time zone.
    Zoned,
    /// An interval.
    Interval,
    /// A bit string.
    Bits,
    /// An array.
    Array(Box<Kind>),
    /// Anything that the target reads from text (uuid, enum, inet, …).
    Other,
}

/// A value for a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// Text as the target reads it.
    Text(Cow<'a, str>),
    /// A number in decimal digits.
    Number(Cow<'a, str>),
    /// true or false.
    Bool(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Cell<'a>>),
}

/// The cell for a raw JSON value.
///
/// # Errors
/// Says what was found and what the column holds.
pub fn cell<'a>(raw: &'a str, kind: &Kind, schema: Option<&Field>) -> Result<Cell<'a>, String> {
    if raw == "null" {
        return Ok(Cell::Null);
    }
    if let Some(cell) = schema
        .map(|field| logical(raw, kind, field))
        .transpose()?
        .flatten()
    {
        return Ok(cell);
    }
    match raw.as_bytes().first() {
        Some(b'"') => of_text(text::unquoted(raw)?, kind),
        Some(b't') => of_bool(true, kind),
        Some(b'f') => of_bool(false, kind),
        Some(b'[') => of_array(raw, kind, schema),
        Some(b'{') => of_object(raw, kind),
        _ => of_number(raw, kind),
    }
}

fn unknown<'a>(found: &str, kind: &Kind) -> Result<Cell<'a>, String> {
    Err(format!("{found} for a column of kind {kind:?}"))
}

/// What the logical name alone decides; `None` leaves it to the form.
fn logical<'a>(raw: &'a str, kind: &Kind, field: &Field) -> Result<Option<Cell<'a>>, String> {
    if *kind == Kind::Json {
        return Ok(None);
    }
    let name = field.name.as_deref().unwrap_or_default();
    let number = |what: fn(i64) -> String| -> Result<Option<Cell<'a>>, String> {
        match kind {
            // A column of whole numbers takes the count as it is.
            Kind::Number => Ok(None),
            _ => Ok(Some(Cell::Text(what(number::integer(raw)?).into()))),
        }
    };
    match name {
        "org.apache.kafka.connect.data.Decimal" => {
            let scale = field
                .parameters
                .get("scale")
                .and_then(|scale| scale.parse().ok());
            let scale = scale.ok_or("a Decimal schema without scale")?;
            let unscaled = bytes(&text::unquoted(raw)?)?;
            Ok(Some(Cell::Number(
                number::decimal(&unscaled, scale)?.into(),
            )))
        }
        "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => number(time::date),
        "io.debezium.time.Time" | "org.apache.kafka.connect.data.Time" => number(time::of_ms),
        "io.debezium.time.MicroTime" => number(time::of_us),
        "io.debezium.time.NanoTime" => number(time::of_ns),
        "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp" => {
            number(time::at_ms)
        }
        "io.debezium.time.MicroTimestamp" => number(time::at_us),
        "io.debezium.time.NanoTimestamp" => number(time::at_ns),
        "io.debezium.time.MicroDuration" => number(time::duration),
        "io.debezium.data.Bits" => {
            let length = field
                .parameters
                .get("length")
                .and_then(|length| length.parse().ok());
            let bits = bytes(&text::unquoted(raw)?)?;
            Ok(Some(Cell::Text(number::bits(&bits, length).into())))
        }
        "" if field.connect_type == "bytes" => {
            let found = bytes(&text::unquoted(raw)?)?;
            match kind {
                Kind::Bytes | Kind::Other => Ok(Some(Cell::Bytes(found))),
                _ => unknown("bytes", kind).map(Some),
            }
        }
        _ => Ok(None),
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(text)
        .map_err(|_| "bytes that are not base64".to_owned())
}

fn of_text<'a>(text: Cow<'a, str>, kind: &Kind) -> Result<Cell<'a>, String> {
    match kind {
        Kind::Bytes => Ok(Cell::Bytes(bytes(&text)?)),
        Kind::Number => Ok(Cell::Number(text)),
        Kind::Array(_) if !text.starts_with('{') => unknown("text", kind),
        _ => Ok(Cell::Text(text)),
    }
}

fn of_bool<'a>(value: bool, kind: &Kind) -> Result<Cell<'a>, String> {
    let digit = if value { "1" } else { "0" };
    match kind {
        Kind::Bool => Ok(Cell::Bool(value)),
        Kind::Number => Ok(Cell::Number(digit.into())),
        Kind::Bits => Ok(Cell::Text(digit.into())),
        Kind::Text | Kind::Json => Ok(Cell::Text(value.to_string().into())),
        _ => unknown("true or false", kind),
    }
}

fn of_number<'a>(raw: &'a str, kind: &Kind) -> Result<Cell<'a>, String> {
    let counted = |what: fn(i64) -> String| -> Result<Cell<'a>, String> {
        Ok(Cell::Text(what(number::integer(raw)?).into()))
    };
    match kind {
        Kind::Number => Ok(Cell::Number(raw.into())),
        Kind::Text | Kind::Json => Ok(Cell::Text(raw.into())),
        Kind::Bool => match raw {
            "0" => Ok(Cell::Bool(false)),
            "1" => Ok(Cell::Bool(true)),
            _ => unknown("a number other than 0 and 1", kind),
        },
        Kind::Date => counted(time::date),
        Kind::Time { millis: true } => counted(time::of_ms),
        Kind::Time { millis: false } => counted(time::of_us),
        Kind::Timestamp { millis: true } => counted(time::at_ms),
        Kind::Timestamp { millis: false } => counted(time::at_us),
        Kind::Interval => counted(time::duration),
        Kind::Bytes | Kind::Zoned | Kind::Bits | Kind::Array(_) | Kind::Other => {
            unknown("a number", kind)
        }
    }
}

fn of_object<'a>(raw: &'a str, kind: &Kind) -> Result<Cell<'a>, String> {
    match kind {
        Kind::Json => Ok(Cell::Text(raw.into())),
        Kind::Number => {
            #[derive(serde::Deserialize)]
            struct VariableScale {
                scale: i32,
                value: String,
            }
            match serde_json::from_str::<VariableScale>(raw) {
                Ok(VariableScale { scale, value }) => Ok(Cell::Number(
                    number::decimal(&bytes(&value)?, scale)?.into(),
                )),
                Err(_) => unknown("an object", kind),
            }
        }
        _ => unknown("an object", kind),
    }
}

fn of_array<'a>(raw: &'a str, kind: &Kind, schema: Option<&Field>) -> Result<Cell<'a>, String> {
    match kind {
        Kind::Json => Ok(Cell::Text(raw.into())),
        Kind::Array(of) => {
            let items: Vec<&'a RawValue> =
                serde_json::from_str(raw).map_err(|_| "an array that is not JSON".to_owned())?;
            let schema = schema.and_then(|field| field.items.as_deref());
            let cells = items.into_iter().map(|item| cell(item.get(), of, schema));
            Ok(Cell::Array(cells.collect::<Result<_, _>>()?))
        }
        _ => unknown("an array", kind),
    }
}

#[cfg(test)]
mod tests;
