//! What SQLite says about a table: its pragmas as a target.
//!
//! It cannot know more of a type than its declared name.

use crate::sink::column::Kind;
use crate::sink::target::{TargetColumn, TargetTable, quoted};
use rusqlite::{Connection, Result};

/// The table, or nothing when it is not there.
pub(crate) fn read(
    connection: &Connection,
    source: &str,
    name: &str,
) -> Result<Option<TargetTable>> {
    let mut statement =
        connection.prepare("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?1)")?;
    let found = statement.query_map([name], |row| {
        let (name, declared): (String, String) = (row.get(0)?, row.get(1)?);
        let (place, hidden): (i64, i64) = (row.get(2)?, row.get(3)?);
        let column = TargetColumn {
            name,
            kind: kind(&declared),
            type_name: declared,
            generated: hidden != 0,
        };
        Ok((column, place))
    })?;
    let (columns, places): (Vec<TargetColumn>, Vec<i64>) =
        found.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    if columns.is_empty() {
        return Ok(None);
    }
    let mut key: Vec<usize> = (0..columns.len())
        .filter(|index| places[*index] > 0)
        .collect();
    key.sort_by_key(|index| places[*index]);
    let mut statement = connection
        .prepare("SELECT name FROM pragma_index_list(?1) WHERE \"unique\" AND origin <> 'pk'")?;
    let unique = statement
        .query_map([name], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let sql = quoted(name);
    let any = format!("SELECT EXISTS (SELECT 1 FROM {sql})");
    let has_rows: bool = connection.query_row(&any, [], |row| row.get(0))?;
    Ok(Some(TargetTable {
        source: source.to_owned(),
        name: name.to_owned(),
        sql,
        columns,
        key,
        unique,
        is_empty: !has_rows,
    }))
}

/// What a declared type holds.
pub(crate) fn kind(declared: &str) -> Kind {
    let declared = declared.to_ascii_uppercase();
    let has = |part: &str| declared.contains(part);
    let millis = matches!(precision(&declared), Some(0..=3));
    match () {
        () if has("TIMESTAMPTZ") || has("WITH TIME ZONE") || has("TIMETZ") => Kind::Zoned,
        () if has("TIMESTAMP") || has("DATETIME") => Kind::Timestamp { millis },
        () if has("INTERVAL") => Kind::Interval,
        () if has("INT") => Kind::Number,
        () if has("CHAR") || has("CLOB") || has("TEXT") || has("UUID") => Kind::Text,
        () if has("BLOB") || has("BYTEA") => Kind::Bytes,
        () if has("BOOL") => Kind::Bool,
        () if has("JSON") => Kind::Json,
        () if has("REAL") || has("FLOA") || has("DOUB") || has("NUM") || has("DEC") => Kind::Number,
        () if has("DATE") => Kind::Date,
        () if has("TIME") => Kind::Time { millis },
        () => Kind::Text,
    }
}

fn precision(declared: &str) -> Option<u32> {
    let (_, rest) = declared.split_once('(')?;
    rest.split_once(')')?.0.trim().parse().ok()
}
