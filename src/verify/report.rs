//! What `headwater verify` says: counts for each table and the first keys of each kind, as a table
//! for a person and as JSON for a program.
//!
//! Invariant: values of columns outside of the key are in it only when they were asked for.

use super::side::{Key, Pair};
use super::value::{Form, Raw, put};
use crate::error::Error;
use crate::summary::grouped;
use serde::Serialize;
use serde_json::{Map, Value};

/// Differences of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Kind {
    /// Keys.
    pub(super) count: u64,
    /// The first of them.
    pub(super) keys: Vec<Found>,
}

/// A key that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Found {
    key: Map<String, Value>,
    /// Columns whose values differ, when both sides have the row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Map<String, Value>>,
}

impl Found {
    /// `source` and `target` are the rows as they are now.
    pub(super) fn new(
        pair: &Pair,
        key: &Key,
        source: Option<Vec<Raw<'static>>>,
        target: Option<Vec<Raw<'static>>>,
        show_values: bool,
    ) -> Found {
        let plan = &pair.source;
        let forms = &plan.forms;
        let object = |row: &[Raw<'_>]| -> Map<String, Value> {
            let columns = plan.columns.iter().zip(forms).zip(row);
            columns
                .map(|((column, form), raw)| (column.name.clone(), value(raw, *form)))
                .collect()
        };
        let bytes = |raw: &Raw<'_>, form: Form| {
            let mut bytes = Vec::new();
            put(raw, form, &mut bytes);
            bytes
        };
        let columns = match (&source, &target) {
            (Some(source), Some(target)) => (0..forms.len())
                .filter(|n| bytes(&source[*n], forms[*n]) != bytes(&target[*n], forms[*n]))
                .map(|n| plan.columns[n].name.clone())
                .collect(),
            _ => Vec::new(),
        };
        let shown = |row: Option<Vec<Raw<'_>>>| match show_values {
            true => row.map(|row| object(&row)),
            false => None,
        };
        Found {
            key: object(key),
            columns,
            source: shown(source),
            target: shown(target),
        }
    }

    fn line(&self, kind: &str) -> String {
        let json = |object: &Map<String, Value>| Value::Object(object.clone()).to_string();
        let mut line = format!("  {kind:<9}  {}", json(&self.key));
        if !self.columns.is_empty() {
            line.push_str(&format!("  {}", self.columns.join(", ")));
        }
        for (side, row) in [("source", &self.source), ("target", &self.target)] {
            if let Some(row) = row {
                line.push_str(&format!("\n    {side}  {}", json(row)));
            }
        }
        line
    }
}

/// A value as JSON: a number only where nothing of it is lost.
fn value(raw: &Raw<'_>, form: Form) -> Value {
    let Some(text) = raw.text() else {
        return Value::Null;
    };
    let whole = (form == Form::Number).then(|| text.parse::<i64>().ok());
    match whole.flatten() {
        Some(number) => number.into(),
        None => text.into_owned().into(),
    }
}

/// What was found of one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct TableReport {
    pub(super) table: String,
    /// Its name at the target.
    pub(super) target: String,
    pub(super) source_rows: u64,
    pub(super) target_rows: u64,
    /// Rows that only the source has.
    pub(super) missing: Kind,
    /// Rows that only the target has: resurrected ones.
    pub(super) extra: Kind,
    /// Rows with other values.
    pub(super) different: Kind,
    /// Keys whose rows changed on both sides at every look.
    pub(super) moving: u64,
    pub(super) ranges_different: u64,
    pub(super) rows_read_again: u64,
    /// Columns that were not compared, and why.
    pub(super) left_out: Vec<String>,
}

impl TableReport {
    fn kinds(&self) -> [(&'static str, &Kind); 3] {
        [
            ("missing", &self.missing),
            ("extra", &self.extra),
            ("different", &self.different),
        ]
    }

    fn differing(&self) -> u64 {
        self.kinds().iter().map(|(_, kind)| kind.count).sum()
    }
}

/// All tables.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    equal: bool,
    differing_rows: u64,
    lag_seconds: f64,
    source: String,
    target: String,
    tables: Vec<TableReport>,
}

impl Report {
    pub(super) fn new(
        source: &str,
        target: &str,
        lag_seconds: f64,
        tables: Vec<TableReport>,
    ) -> Report {
        let differing_rows = tables.iter().map(TableReport::differing).sum();
        Report {
            equal: differing_rows == 0,
            differing_rows,
            lag_seconds,
            source: source.to_owned(),
            target: target.to_owned(),
            tables,
        }
    }

    /// One JSON object, on one line.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("plain numbers and text")
    }

    /// For a person; with a line break at the end.
    pub(super) fn table(&self) -> String {
        let names = self.tables.iter().map(|table| table.table.chars().count());
        let width = names.max().unwrap_or(0).max("table".len());
        let mut out = format!(
            "{:<width$}  {:>13}  {:>13}  {:>9}  {:>9}  {:>9}  {:>7}\n",
            "table", "source rows", "target rows", "missing", "extra", "different", "moving"
        );
        for one in &self.tables {
            out.push_str(&format!(
                "{:<width$}  {:>13}  {:>13}  {:>9}  {:>9}  {:>9}  {:>7}\n",
                one.table,
                grouped(one.source_rows),
                grouped(one.target_rows),
                grouped(one.missing.count),
                grouped(one.extra.count),
                grouped(one.different.count),
                grouped(one.moving)
            ));
        }
        for one in &self.tables {
            self.details(one, &mut out);
        }
        out
    }

    fn details(&self, one: &TableReport, out: &mut String) {
        if one.differing() == 0 && one.left_out.is_empty() {
            return;
        }
        out.push_str(&format!("{}\n", one.table));
        for (word, kind) in one.kinds() {
            for found in &kind.keys {
                out.push_str(&format!("{}\n", found.line(word)));
            }
            let more = kind.count - kind.keys.len() as u64;
            if more > 0 {
                out.push_str(&format!("  {word:<9}  and {} more\n", grouped(more)));
            }
        }
        for column in &one.left_out {
            out.push_str(&format!("  not compared  {column}\n"));
        }
    }

    /// Good when nothing differs.
    pub(super) fn verdict(&self) -> Result<(), Error> {
        if self.equal {
            return Ok(());
        }
        let sum = |of: fn(&TableReport) -> u64| grouped(self.tables.iter().map(of).sum());
        let rows = match self.differing_rows {
            1 => "1 row".to_owned(),
            rows => format!("{} rows", grouped(rows)),
        };
        Err(
            Error::refused(format!("the target differs from the source in {rows}"))
                .line(format!("missing    {}", sum(|table| table.missing.count)))
                .line(format!("extra      {}", sum(|table| table.extra.count)))
                .line(format!("different  {}", sum(|table| table.different.count)))
                .line(
                    "A new generation heals missing and different rows. No READ heals extra rows:",
                )
                .line("delete them by hand, or rebuild into an empty target."),
        )
    }
}
