//! CREATE TABLE for the target, from the source's columns or as a template.

use super::plan::{Plan, PlannedTable};
use crate::config::choices::SinkKind;
use crate::sink::postgres::catalogue::sql_name;
use crate::sink::target::quoted;
use crate::source_database::{SourceColumn, SourceTable};

/// The statements; nothing for a target without columns of its own.
pub(super) fn text(plan: &Plan, found: &[Option<SourceTable>]) -> String {
    let kind = plan.from.sink;
    if !matches!(kind, SinkKind::Postgres | SinkKind::Sqlite) {
        return String::new();
    }
    let mut out = "\n-- The target.\n".to_owned();
    for (table, found) in plan.tables.iter().zip(found) {
        out.push_str(&match found {
            Some(found) => create(kind, table, found),
            None => template(kind, table),
        });
    }
    out
}

/// As the sink names it.
fn target_name(kind: SinkKind, table: &PlannedTable) -> String {
    match (kind, table.name.rsplit_once('.')) {
        (SinkKind::Sqlite, Some((_, name))) => quoted(name),
        _ => sql_name(&table.name),
    }
}

fn create(kind: SinkKind, table: &PlannedTable, found: &SourceTable) -> String {
    let mut lines = Vec::new();
    let generated = |column: &&SourceColumn| column.generated;
    let left_out: Vec<&str> = found
        .columns
        .iter()
        .filter(generated)
        .map(|column| column.name.as_str())
        .collect();
    for column in found.columns.iter().filter(|column| !generated(column)) {
        let key = found.key.contains(&column.name);
        let type_name = match kind {
            SinkKind::Sqlite => affinity(column),
            _ => column.type_name.as_str(),
        };
        // A column that does not come stays as it is, which may be null: only keys are NOT NULL.
        let not_null = if key { " NOT NULL" } else { "" };
        lines.push(format!(
            "    {} {type_name}{not_null}",
            quoted(&column.name)
        ));
    }
    let key: Vec<String> = found.key.iter().map(|name| quoted(name)).collect();
    match key.is_empty() {
        true => lines.push("    PRIMARY KEY (…) -- the source has none: set `key`, too".to_owned()),
        false => lines.push(format!("    PRIMARY KEY ({})", key.join(", "))),
    }
    let note = match left_out.is_empty() {
        true => String::new(),
        false => format!(
            "-- Generated at the source, so they do not come with mutations: {}\n",
            left_out.join(", ")
        ),
    };
    let name = target_name(kind, table);
    format!("{note}CREATE TABLE {name} (\n{}\n);\n", lines.join(",\n"))
}

fn template(kind: SinkKind, table: &PlannedTable) -> String {
    format!(
        "-- A template: the columns of {} at the source, without generated ones.\n\
         CREATE TABLE {} (\n    \"id\" bigint NOT NULL,\n    -- …\n    PRIMARY KEY (\"id\")\n);\n",
        table.name,
        target_name(kind, table)
    )
}

fn affinity(column: &SourceColumn) -> &'static str {
    let name = column.type_name.as_str();
    match name {
        "smallint" | "integer" | "bigint" => "INTEGER",
        "real" | "double precision" => "REAL",
        "boolean" => "BOOLEAN",
        "bytea" => "BLOB",
        _ => "TEXT",
    }
}
