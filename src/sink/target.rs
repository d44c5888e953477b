//! A table of an SQL target: its columns and key, and how a row is laid over them.
//!
//! Invariant: the key columns of a bound row come from the record's key, for upserts and deletes
//! alike, and are exactly the target's primary key; a column that did not come is left as it is.
//!
//! It cannot find anything out about the target; each sink reads its own catalogue.

use super::column::Kind;
use super::row::{self, Columns, Field, Schemas};
use super::settings::UnknownColumns;
use super::{Change, Rejected, Row, WriteError};
use crate::error::Error;
use std::collections::HashMap;

/// A column of a target.
#[derive(Clone, Debug)]
pub(crate) struct TargetColumn {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The type as the target spells it in a cast.
    pub(crate) type_name: String,
    /// Computed by the target: never written.
    pub(crate) generated: bool,
}

/// A table of a target.
#[derive(Clone, Debug)]
pub(crate) struct TargetTable {
    /// As in the configuration, for messages.
    pub(crate) source: String,
    /// As the target knows it, for messages.
    pub(crate) name: String,
    /// As it stands in SQL, quoted.
    pub(crate) sql: String,
    pub(crate) columns: Vec<TargetColumn>,
    /// Indices of the primary key's columns.
    pub(crate) key: Vec<usize>,
    /// Names of unique constraints and indexes beyond the primary key.
    pub(crate) unique: Vec<String>,
    pub(crate) is_empty: bool,
}

impl TargetTable {
    /// Names of the primary key's columns.
    pub(crate) fn key_names(&self) -> Vec<&str> {
        self.key
            .iter()
            .map(|index| self.columns[*index].name.as_str())
            .collect()
    }
}

/// A name in double quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What is wrong with a row.
pub(super) enum Problem {
    /// With this row alone.
    Row(String),
    /// With every row of its form.
    Table(Error),
}

/// A row laid over a target's columns.
#[derive(Debug)]
pub(super) struct Bound<V> {
    /// For an upsert, the index of its shape; `None` for a delete.
    pub(super) shape: Option<usize>,
    /// One for each column of the shape, or of the primary key for a delete.
    pub(super) values: Vec<V>,
}

/// Makes a value of a sink for a column.
pub(super) type Convert<V> = fn(&str, &TargetColumn, Option<&Field>) -> Result<V, String>;

/// Lays rows over the columns of one target table.
pub(super) struct Binder<V> {
    pub(super) table: TargetTable,
    configured_key: Option<Vec<String>>,
    unknown: UnknownColumns,
    convert: Convert<V>,
    by_name: HashMap<String, usize>,
    schemas: Schemas,
    key_schemas: Schemas,
    /// Sets of columns seen so far, in target order.
    shapes: Vec<Vec<usize>>,
}

impl<V> Binder<V> {
    pub(super) fn new(
        table: TargetTable,
        configured_key: Option<Vec<String>>,
        unknown: UnknownColumns,
        convert: Convert<V>,
    ) -> Self {
        let names = table.columns.iter().enumerate();
        let by_name = names
            .map(|(index, column)| (column.name.clone(), index))
            .collect();
        Binder {
            table,
            configured_key,
            unknown,
            convert,
            by_name,
            schemas: Schemas::default(),
            key_schemas: Schemas::default(),
            shapes: Vec::new(),
        }
    }

    /// The columns of a shape.
    pub(super) fn shape(&self, index: usize) -> &[usize] {
        &self.shapes[index]
    }

    /// Lays a row over the columns.
    pub(super) fn bind(&mut self, row: &Row<'_>) -> Result<Bound<V>, Problem> {
        let key = row::key(row.key, self.configured_key.as_deref())
            .map_err(|reason| Problem::Row(format!("key: {reason}")))?;
        self.check_key(&key)?;
        match row.change {
            Change::Delete => Ok(Bound {
                shape: None,
                values: self.key_values(&key)?,
            }),
            Change::Upsert(value) => {
                let columns = row::columns(value).map_err(Problem::Row)?;
                let Some(columns) = columns else {
                    return Err(Problem::Row("an upsert that holds no row".into()));
                };
                self.upsert(&key, &columns)
            }
        }
    }

    fn key_values(&mut self, key: &Columns<'_>) -> Result<Vec<V>, Problem> {
        let schema = self.key_schemas.of(key);
        let value = |index: &usize| {
            let column = &self.table.columns[*index];
            let raw = key.get(&column.name).expect("check_key has found it");
            if raw == "null" {
                return Err(Problem::Row(format!(
                    "key column `{}` is null",
                    column.name
                )));
            }
            let converted = (self.convert)(raw, column, schema.column(&column.name));
            converted.map_err(|reason| Problem::Row(format!("column `{}`: {reason}", column.name)))
        };
        self.table.key.iter().map(value).collect()
    }

    fn upsert(&mut self, key: &Columns<'_>, columns: &Columns<'_>) -> Result<Bound<V>, Problem> {
        let schema = self.schemas.of(columns);
        let mut slots: Vec<Option<V>> = self.table.columns.iter().map(|_| None).collect();
        for (index, value) in self
            .table
            .key
            .clone()
            .into_iter()
            .zip(self.key_values(key)?)
        {
            slots[index] = Some(value);
        }
        for (name, raw) in columns.iter() {
            let Some(index) = self.by_name.get(name).copied() else {
                if self.unknown == UnknownColumns::Drop {
                    continue;
                }
                return Err(Problem::Table(self.no_column(name)));
            };
            let column = &self.table.columns[index];
            if column.generated || self.table.key.contains(&index) {
                continue;
            }
            let converted = (self.convert)(raw, column, schema.column(name));
            let reason = |reason| Problem::Row(format!("column `{name}`: {reason}"));
            slots[index] = Some(converted.map_err(reason)?);
        }
        let (shape, values): (Vec<usize>, Vec<V>) = slots
            .into_iter()
            .enumerate()
            .filter_map(|(index, slot)| slot.map(|value| (index, value)))
            .unzip();
        let known = self.shapes.iter().position(|known| *known == shape);
        let shape = known.unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        });
        Ok(Bound {
            shape: Some(shape),
            values,
        })
    }

    /// The record key must have the target's key columns, and no others that make rows differ.
    fn check_key(&self, key: &Columns<'_>) -> Result<(), Problem> {
        let wanted = self.table.key_names();
        let has_all = wanted.iter().all(|name| key.get(name).is_some());
        let same = self.configured_key.is_some() || key.names().count() == wanted.len();
        if has_all && same {
            return Ok(());
        }
        let found: Vec<&str> = key.names().collect();
        Err(Problem::Table(
            Error::refused(format!(
                "the key of `{}` is not the primary key of its target",
                self.table.source
            ))
            .line(format!("record key      {}", found.join(", ")))
            .line(format!("target {}  {}", self.table.name, wanted.join(", ")))
            .line("Rows would overwrite each other or could not be deleted.")
            .line("Give the target this primary key, or set `key` of the table."),
        ))
    }

    fn no_column(&self, name: &str) -> Error {
        let columns: Vec<&str> = self
            .table
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let table = &self.table;
        Error::refused(format!(
            "`{}` has a column `{name}`, its target has not",
            table.source
        ))
        .line(format!("target {}  {}", table.name, columns.join(", ")))
        .line("Add the column to the target,")
        .line("or set sink.unknown_columns = \"drop\" to leave such columns out.")
    }
}

/// Lays rows over their tables and keeps nothing; see [`super::Sink::fit`].
pub(super) fn fit<V>(binders: &mut [Binder<V>], rows: &[Row<'_>]) -> Result<(), WriteError> {
    let mut rejected = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        match binders[row.table].bind(row) {
            Ok(_) => {}
            Err(Problem::Row(reason)) => rejected.push(Rejected { index, reason }),
            Err(Problem::Table(error)) => return Err(WriteError::Fatal(error)),
        }
    }
    match rejected.is_empty() {
        true => Ok(()),
        false => Err(WriteError::Rejected(rejected)),
    }
}

#[cfg(test)]
mod tests;
