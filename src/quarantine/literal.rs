//! Key values as literals in PostgreSQL's SQL.
//!
//! Invariant: a literal is one token sequence whatever the value is, also where the server reads
//! backslashes in plain strings.
//!
//! It cannot know the type of a column whose key came without a schema: a count of days stands as a
//! number then, and the database refuses it.

use crate::decode::row::{self, Field, Schemas};
use crate::sink::column::{Cell, Kind, cell, hex};

/// Columns in name order, with the literal of each.
pub(super) type Literals = Vec<(String, String)>;

/// The literals of a key.
pub(super) fn of_key(
    key: &[u8],
    configured: Option<&[String]>,
    schemas: &mut Schemas,
) -> Result<Literals, String> {
    let columns = row::key(key, configured)?;
    let schema = schemas.of(&columns);
    let mut literals = Vec::new();
    for (name, raw) in columns.iter() {
        if configured.is_none_or(|only| only.iter().any(|column| column == name)) {
            let value = literal(raw, schema.column(name));
            literals.push((
                name.to_owned(),
                value.map_err(|reason| format!("column `{name}`: {reason}"))?,
            ));
        }
    }
    literals.sort();
    match literals.is_empty() {
        true => Err("it has no columns".to_owned()),
        false => Ok(literals),
    }
}

fn literal(raw: &str, schema: Option<&Field>) -> Result<String, String> {
    let time = schema
        .and_then(|field| field.name.as_deref())
        .is_some_and(|name| name.contains(".time.") || name.ends_with("Timestamp"));
    let kind = match raw.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') if !time => Kind::Number,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'{') => Kind::Number,
        _ => Kind::Other,
    };
    Ok(match cell(raw, &kind, schema)? {
        Cell::Null => return Err("it is null".to_owned()),
        Cell::Number(digits) => digits.into_owned(),
        Cell::Bool(true) => "TRUE".to_owned(),
        Cell::Bool(false) => "FALSE".to_owned(),
        Cell::Bytes(bytes) => format!("decode('{}', 'hex')", &hex(&bytes)[2..]),
        Cell::Text(text) => quoted(&text)?,
        Cell::Array(_) => return Err("an array is no key".to_owned()),
    })
}

/// Text as a literal.
pub(super) fn quoted(text: &str) -> Result<String, String> {
    if text.contains('\0') {
        return Err("text with a NUL, which no column of PostgreSQL has".to_owned());
    }
    let doubled = text.replace('\'', "''");
    Ok(match text.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    })
}
