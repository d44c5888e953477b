//! PostgreSQL as one side of a comparison: every value as its text, in one session.
//!
//! Invariant: the session is read-only, and each read is a statement of its own: no snapshot of
//! the database is held open while others write.
//!
//! It cannot speak TLS, like the sink. It does not work behind a pooler that gives each
//! transaction another session, as the forms of values are set for the session.

use super::side::{Column, Described, Flavor, Give, Key, Plan, Range, Side};
use super::value::Raw;
use crate::error::Error;
use crate::postgres_session::Session;
use crate::sink::postgres::catalogue::{kind, sql_name};
use crate::sink::target::quoted;
use std::borrow::Cow;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// How each value is written, whatever the server's and the role's settings are.
const FORMS: &str = "
    SET DateStyle = 'ISO, YMD'; SET TimeZone = 'UTC';
    SET bytea_output = 'hex'; SET IntervalStyle = 'postgres'; SET extra_float_digits = 1;
    SET standard_conforming_strings = on";

const COLUMNS: &str = "
    SELECT a.attname, format_type(a.atttypid, -1), format_type(coalesce(b.oid, t.oid), -1),
           coalesce(b.typtype, t.typtype) = 'e',
           CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
           CASE WHEN a.attcollation = 0 THEN NULL
                WHEN c.collname <> 'default' THEN c.collname || '/' || c.collprovider::text
                ELSE (SELECT coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale',
                                      d.datcollate) || '/'
                             || coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')
                        FROM pg_database d WHERE d.datname = current_database()) END
      FROM pg_attribute a
      JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
      LEFT JOIN pg_collation c ON c.oid = a.attcollation
     WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum";

const KEY: &str = "
    SELECT a.attname
      FROM pg_index i
     CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
     WHERE i.indrelid = $1 AND i.indisprimary
     ORDER BY k.place";

/// The connection.
pub(super) struct Postgres(Session);

impl Postgres {
    /// Connects to `url`, which setting `setting` holds.
    pub(super) fn open(setting: &'static str, url: &str) -> Result<Postgres, Error> {
        Session::open(setting, url, "headwater/verify", FORMS).map(Postgres)
    }

    fn give(rows: &[Row], columns: usize, give: &mut Give<'_>) {
        for row in rows {
            let value = |index| match row.get::<_, Option<&str>>(index) {
                Some(text) => Raw::Text(Cow::Borrowed(text)),
                None => Raw::Null,
            };
            let values: Vec<Raw<'_>> = (0..columns).map(value).collect();
            give(&values);
        }
    }
}

impl Side for Postgres {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn describe(&mut self, table: &str) -> Result<Option<Described>, Error> {
        let sql = sql_name(table);
        let find = "SELECT oid FROM pg_class WHERE oid = to_regclass($1)";
        let Some(found) = self.0.query(find, &[&sql])?.pop() else {
            return Ok(None);
        };
        let oid: u32 = found.get(0);
        let columns = self.0.query(COLUMNS, &[&oid])?;
        let key = self.0.query(KEY, &[&oid])?;
        Ok(Some(Described {
            sql,
            columns: columns.iter().map(column).collect(),
            key: key.iter().map(|row| row.get(0)).collect(),
        }))
    }

    fn page(
        &mut self,
        plan: &Plan,
        range: Range<'_>,
        rows_max: usize,
        give: &mut Give<'_>,
    ) -> Result<(), Error> {
        let mut values = Vec::new();
        let mut bounds = Vec::new();
        for (operator, key) in [(">", range.after), ("<=", range.upto)] {
            let Some(key) = key else { continue };
            let first = values.len();
            values.extend(texts(key));
            let marks: Vec<String> = plan.columns[..plan.keys]
                .iter()
                .zip(first + 1..)
                .map(|(column, place)| ordered(plan, column, &typed(column, place)))
                .collect();
            let names = key_names(plan).join(", ");
            bounds.push(format!("({names}) {operator} ({})", marks.join(", ")));
        }
        let filter = match bounds.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", bounds.join(" AND ")),
        };
        let sql = format!(
            "SELECT {} FROM {} AS t{filter} ORDER BY {} LIMIT {rows_max}",
            values_sql(plan),
            plan.sql,
            key_names(plan).join(", ")
        );
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|text| text as _).collect();
        let rows = self.0.query(&sql, &values)?;
        Postgres::give(&rows, plan.columns.len(), give);
        Ok(())
    }

    fn lookup(&mut self, plan: &Plan, keys: &[Key], give: &mut Give<'_>) -> Result<(), Error> {
        let columns = &plan.columns[..plan.keys];
        let mut values: Vec<Vec<Option<String>>> = vec![Vec::new(); plan.keys];
        for key in keys {
            for (place, text) in texts(key).into_iter().enumerate() {
                values[place].push(text);
            }
        }
        let arrays: Vec<String> = (1..=plan.keys).map(|n| format!("${n}::text[]")).collect();
        let names: Vec<String> = (1..=plan.keys).map(|n| format!("k{n}")).collect();
        let equal: Vec<String> = columns
            .iter()
            .zip(&names)
            .map(|(column, name)| {
                let own = quoted(&column.name);
                format!("t.{own} = u.{name}::{}", column.type_name)
            })
            .collect();
        let sql = format!(
            "SELECT {} FROM unnest({}) AS u({}) JOIN {} AS t ON {}",
            values_sql(plan),
            arrays.join(", "),
            names.join(", "),
            plan.sql,
            equal.join(" AND ")
        );
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|list| list as _).collect();
        let rows = self.0.query(&sql, &values)?;
        Postgres::give(&rows, plan.columns.len(), give);
        Ok(())
    }
}

/// The values of a key as parameters.
fn texts(key: &Key) -> Vec<Option<String>> {
    key.iter()
        .map(|raw| raw.text().map(Cow::into_owned))
        .collect()
}

fn typed(column: &Column, place: usize) -> String {
    format!("${place}::text::{}", column.type_name)
}

/// A key's expression in the order that both sides share.
fn ordered(plan: &Plan, column: &Column, sql: &str) -> String {
    match &column.order {
        Some(order) if plan.bytewise && order != "C" => format!("{sql} COLLATE \"C\""),
        _ => sql.to_owned(),
    }
}

fn key_names(plan: &Plan) -> Vec<String> {
    plan.columns[..plan.keys]
        .iter()
        .map(|column| ordered(plan, column, &format!("t.{}", quoted(&column.name))))
        .collect()
}

fn values_sql(plan: &Plan) -> String {
    let value = |column: &Column| {
        let name = quoted(&column.name);
        match column.type_name.as_str() {
            // Its text has the currency of the server's locale.
            "money" => format!("t.{name}::numeric::text"),
            _ => format!("t.{name}::text"),
        }
    };
    let values: Vec<String> = plan.columns.iter().map(value).collect();
    values.join(", ")
}

fn column(row: &Row) -> Column {
    let (base, is_enum): (&str, bool) = (row.get(2), row.get(3));
    let modifier: i32 = row.get(4);
    let order: Option<String> = row.get(5);
    Column {
        name: row.get(0),
        flavor: Flavor::Postgres,
        kind: match is_enum {
            true => crate::sink::column::Kind::Other,
            false => kind(base, modifier),
        },
        type_name: row.get(1),
        order: order.map(byte_order),
    }
}

/// Orders that compare bytes, or what comes to the same in UTF-8, are all `C`.
fn byte_order(order: String) -> String {
    let (name, _) = order.rsplit_once('/').unwrap_or((&order, ""));
    match name {
        "C" | "POSIX" | "C.UTF-8" | "C.utf8" | "ucs_basic" => "C".to_owned(),
        _ => order,
    }
}
