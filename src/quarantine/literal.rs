//! Key values as literals in PostgreSQL's SQL.
//!
//! Invariant: a literal is one token sequence whatever the value is, also where the server reads
//! backslashes in plain strings.
//!
//! It cannot know the type of a column whose key came without a schema: a count of days stands as a
//! number then, and the database refuses it.

use crate::decode::row::{self, Field, Schemas};
use crate::sink::column::{Cell, Kind, cell, hex};

/// What the logical names of counts begin with that stand for times.
const TIMES: [&str; 4] = [
    "io.debezium.time.",
    "org.apache.kafka.connect.data.Date",
    "org.apache.kafka.connect.data.Time",
    "org.apache.kafka.connect.data.Timestamp",
];

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
        .is_some_and(|name| TIMES.iter().any(|start| name.starts_with(start)));
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

#[cfg(test)]
mod tests {
    use super::of_key;
    use crate::decode::row::Schemas;

    fn of(connect_type: &str, name: &str, value: &str) -> Result<String, String> {
        let key = format!(
            "{{\"schema\":{{\"type\":\"struct\",\"fields\":[{{\"type\":\"{connect_type}\",\
             \"name\":\"{name}\",\"field\":\"k\",\"parameters\":{{\"scale\":\"2\"}}}}]}},\
             \"payload\":{{\"k\":{value}}}}}"
        );
        let literals = of_key(key.as_bytes(), None, &mut Schemas::default())?;
        Ok(literals[0].1.clone())
    }

    #[test]
    fn a_schema_tells_what_a_value_is() {
        for (connect_type, name, value, literal) in [
            ("int64", "", "-9007199254740993", "-9007199254740993"),
            ("string", "", "\"it's\"", "'it''s'"),
            ("string", "", "\"a\\\\b\"", "E'a\\\\b'"),
            ("boolean", "", "true", "TRUE"),
            ("bytes", "", "\"AQI=\"", "decode('0102', 'hex')"),
            (
                "bytes",
                "org.apache.kafka.connect.data.Decimal",
                "\"ATo=\"",
                "3.14",
            ),
            ("int32", "io.debezium.time.Date", "20786", "'2026-11-29'"),
            (
                "int32",
                "org.apache.kafka.connect.data.Date",
                "20786",
                "'2026-11-29'",
            ),
            (
                "int64",
                "io.debezium.time.MicroTimestamp",
                "1500000",
                "'1970-01-01 00:00:01.5'",
            ),
            (
                "string",
                "io.debezium.time.ZonedTimestamp",
                "\"1970-01-01T00:00:00Z\"",
                "'1970-01-01T00:00:00Z'",
            ),
        ] {
            assert_eq!(
                of(connect_type, name, value).as_deref(),
                Ok(literal),
                "{name}"
            );
        }
        assert!(of("string", "", "null").is_err());
        assert!(of("string", "", "\"a\\u0000\"").is_err());
        assert!(of("array", "", "[1]").is_err());
    }
}
