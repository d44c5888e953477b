//! What PostgreSQL's catalogue says about a table.
//!
//! It cannot see triggers or row security; what they do is the target's affair.

use crate::sink::column::Kind;
use crate::sink::target::{TargetColumn, TargetTable, quoted};
use tokio_postgres::{Client, Error, Row};

/// Types come without length: a cast to `varchar(3)` would cut silently. Domains are described by
/// what they are made of, and cast to by their own name.
const COLUMNS: &str = "
    SELECT a.attname, format_type(a.atttypid, -1), a.attgenerated <> '',
           format_type(coalesce(b.oid, t.oid), -1), coalesce(b.typtype, t.typtype) = 'e',
           CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END
      FROM pg_attribute a
      JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
     WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum";

const KEY: &str = "
    SELECT a.attname
      FROM pg_index i
     CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
     WHERE i.indrelid = $1 AND i.indisprimary
     ORDER BY k.place";

const UNIQUE: &str = "
    SELECT c.relname
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE i.indrelid = $1 AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary
     ORDER BY 1";

const RIGHTS: &str = "
    SELECT r FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r
     WHERE NOT has_table_privilege(to_regclass($1), r)";

/// `schema.table` or `table`, as it stands in SQL.
pub(crate) fn sql_name(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, table)) => format!("{}.{}", quoted(schema), quoted(table)),
        None => quoted(name),
    }
}

/// The table `name` (`schema.table` or `table`), or nothing when there is no such table.
pub(super) async fn read(
    client: &Client,
    source: &str,
    name: &str,
) -> Result<Option<TargetTable>, Error> {
    let sql = sql_name(name);
    let find = "SELECT oid FROM pg_class WHERE oid = to_regclass($1) AND relkind IN ('r', 'p')";
    let Some(found) = client.query_opt(find, &[&sql]).await? else {
        return Ok(None);
    };
    let oid: u32 = found.get(0);
    let columns: Vec<TargetColumn> = client
        .query(COLUMNS, &[&oid])
        .await?
        .iter()
        .map(column)
        .collect();
    let key = client.query(KEY, &[&oid]).await?;
    let place = |row: &Row| {
        let name: &str = row.get(0);
        columns.iter().position(|column| column.name == name)
    };
    let key = key.iter().filter_map(place).collect();
    let unique = client
        .query(UNIQUE, &[&oid])
        .await?
        .iter()
        .map(|row| row.get(0))
        .collect();
    let any = format!("SELECT EXISTS (SELECT 1 FROM {sql})");
    // Without the right to read, the check of rights says so.
    let has_rows = match client.query_one(&any, &[]).await {
        Ok(row) => row.get(0),
        Err(error) if error.as_db_error().is_some() => false,
        Err(error) => return Err(error),
    };
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

/// Rights that the user lacks.
pub(super) async fn missing_rights(
    client: &Client,
    table: &TargetTable,
) -> Result<Vec<String>, Error> {
    let rows = client.query(RIGHTS, &[&table.sql]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn column(row: &Row) -> TargetColumn {
    let (base, is_enum): (&str, bool) = (row.get(3), row.get(4));
    let modifier: i32 = row.get(5);
    let kind = match is_enum {
        true => Kind::Other,
        false => kind(base, modifier),
    };
    TargetColumn {
        name: row.get(0),
        kind,
        type_name: row.get(1),
        generated: row.get(2),
    }
}

/// What a type holds; `modifier` is the precision of times.
pub(crate) fn kind(name: &str, modifier: i32) -> Kind {
    if let Some(element) = name.strip_suffix("[]") {
        return Kind::Array(Box::new(kind(element, modifier)));
    }
    let millis = (0..=3).contains(&modifier);
    match name {
        "smallint" | "integer" | "bigint" | "real" | "double precision" | "numeric" | "money"
        | "oid" => Kind::Number,
        "text" | "character varying" | "bpchar" | "character" | "name" | "citext" | "\"char\""
        | "xml" => Kind::Text,
        "boolean" => Kind::Bool,
        "bytea" => Kind::Bytes,
        "json" | "jsonb" => Kind::Json,
        "date" => Kind::Date,
        "time without time zone" => Kind::Time { millis },
        "timestamp without time zone" => Kind::Timestamp { millis },
        "timestamp with time zone" | "time with time zone" => Kind::Zoned,
        "interval" => Kind::Interval,
        "bit" | "\"bit\"" | "bit varying" => Kind::Bits,
        _ => Kind::Other,
    }
}
