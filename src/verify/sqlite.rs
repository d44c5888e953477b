//! An SQLite file as one side of a comparison.
//!
//! Invariant: the file is opened for reading, and is there before.
//!
//! It cannot find a time key whose text is written in another way than the sink of this crate does.

use super::side::{Column, Described, Flavor, Give, Key, Plan, Range, Side};
use super::value::{Form, Raw, unhex};
use crate::error::Error;
use crate::sink::column::Kind;
use crate::sink::sqlite::catalogue;
use crate::sink::target::quoted;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, params_from_iter};
use std::path::Path;
use std::time::Duration;

/// Keys in one statement: it has at most 32,766 parameters.
const KEYS_MAX: usize = 200;

/// The connection.
pub(super) struct Sqlite {
    name: String,
    connection: Connection,
}

impl Sqlite {
    /// Opens `path`, which setting `setting` holds.
    pub(super) fn open(setting: &str, path: &Path) -> Result<Sqlite, Error> {
        let name = path.display().to_string();
        if !path.is_file() {
            return Err(Error::failed(format!("there is no SQLite file {name}"))
                .line(format!("found     {setting}"))
                .line("expected  an SQLite file, or postgres://user:password@host/database"));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            Ok(connection)
        };
        let connection = open().map_err(|error| failed(&name, &error))?;
        Ok(Sqlite { name, connection })
    }

    fn query(
        &self,
        plan: &Plan,
        sql: &str,
        values: Vec<Value>,
        give: &mut Give<'_>,
    ) -> Result<(), Error> {
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                let value = |index| Ok(raw(row.get_ref(index)?));
                let values: Vec<Raw<'_>> = (0..plan.columns.len())
                    .map(value)
                    .collect::<rusqlite::Result<_>>()?;
                give(&values);
            }
            Ok(())
        };
        read().map_err(|error| failed(&self.name, &error))
    }
}

fn failed(name: &str, error: &rusqlite::Error) -> Error {
    Error::failed(format!("cannot read the SQLite file {name}")).line(error)
}

fn raw(value: ValueRef<'_>) -> Raw<'_> {
    match value {
        ValueRef::Null => Raw::Null,
        ValueRef::Integer(value) => Raw::Int(value),
        ValueRef::Real(value) => Raw::Real(value),
        ValueRef::Text(text) => Raw::Text(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Raw::Bytes(bytes.into()),
    }
}

impl Side for Sqlite {
    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&mut self, table: &str) -> Result<Option<Described>, Error> {
        let found = catalogue::read(&self.connection, table, table);
        let found = found.map_err(|error| failed(&self.name, &error))?;
        Ok(found.map(|found| Described {
            sql: found.sql.clone(),
            key: found.key_names().into_iter().map(str::to_owned).collect(),
            columns: found
                .columns
                .iter()
                .map(|column| Column {
                    name: column.name.clone(),
                    flavor: Flavor::Sqlite,
                    kind: column.kind.clone(),
                    type_name: column.type_name.clone(),
                    order: (column.kind == Kind::Text).then(|| "C".to_owned()),
                })
                .collect(),
        }))
    }

    fn page(
        &mut self,
        plan: &Plan,
        range: Range<'_>,
        rows_max: usize,
        give: &mut Give<'_>,
    ) -> Result<(), Error> {
        let names = key_names(plan).join(", ");
        let marks = vec!["?"; plan.keys].join(", ");
        let (mut values, mut bounds) = (Vec::new(), Vec::new());
        for (operator, key) in [(">", range.after), ("<=", range.upto)] {
            if let Some(key) = key {
                bounds.push(format!("({names}) {operator} ({marks})"));
                values.extend(parameters(plan, key));
            }
        }
        let filter = match bounds.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", bounds.join(" AND ")),
        };
        let sql = format!(
            "SELECT {} FROM {}{filter} ORDER BY {names} LIMIT {rows_max}",
            columns_sql(plan),
            plan.sql
        );
        self.query(plan, &sql, values, give)
    }

    fn lookup(&mut self, plan: &Plan, keys: &[Key], give: &mut Give<'_>) -> Result<(), Error> {
        let equal: Vec<String> = key_names(plan)
            .iter()
            .map(|name| format!("{name} = ?"))
            .collect();
        let one = format!("({})", equal.join(" AND "));
        for keys in keys.chunks(KEYS_MAX) {
            let sql = format!(
                "SELECT {} FROM {} WHERE {}",
                columns_sql(plan),
                plan.sql,
                vec![one.as_str(); keys.len()].join(" OR ")
            );
            let values = keys.iter().flat_map(|key| parameters(plan, key)).collect();
            self.query(plan, &sql, values, give)?;
        }
        Ok(())
    }
}

fn columns_sql(plan: &Plan) -> String {
    let names: Vec<String> = plan
        .columns
        .iter()
        .map(|column| quoted(&column.name))
        .collect();
    names.join(", ")
}

fn key_names(plan: &Plan) -> Vec<String> {
    plan.columns[..plan.keys]
        .iter()
        .map(|column| quoted(&column.name))
        .collect()
}

/// The values of a key as this database holds them, whoever gave them.
fn parameters(plan: &Plan, key: &Key) -> Vec<Value> {
    key.iter()
        .zip(&plan.forms)
        .map(|(raw, form)| match raw {
            Raw::Null => Value::Null,
            Raw::Int(value) => Value::Integer(*value),
            Raw::Real(value) => Value::Real(*value),
            Raw::Bytes(bytes) => Value::Blob(bytes.to_vec()),
            Raw::Text(text) => of_text(text, *form),
        })
        .collect()
}

fn of_text(text: &str, form: Form) -> Value {
    let plain = || Value::Text(text.to_owned());
    match form {
        Form::Number => text.parse().map_or_else(|_| plain(), Value::Integer),
        Form::Bool => match text {
            "true" => Value::Integer(1),
            "false" => Value::Integer(0),
            _ => plain(),
        },
        Form::Bytes => unhex(text).map_or_else(plain, Value::Blob),
        // As a connector writes it.
        Form::Zoned => Value::Text(text.replacen(' ', "T", 1).replace("+00", "Z")),
        _ => plain(),
    }
}
