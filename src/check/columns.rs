//! Which columns come from which topic, and in which form. Pure.
//!
//! A column that comes with READs alone would stay for rows that no mutation touches and be missing
//! from all others; that is found here, before the start.
//!
//! It sees sampled rows only: a column whose every value lacks, or is null, has no form.

use super::finding::Finding;
use crate::decode::row;
use crate::sink::Role;
use crate::table::Table;
use std::collections::{BTreeMap, BTreeSet};

/// What values of a column look like in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// A number.
    Number,
    /// Text.
    Text,
    /// `true` or `false`.
    Bool,
    /// `{…}`.
    Object,
    /// `[…]`.
    List,
}

impl Form {
    fn of(raw: &str) -> Option<Form> {
        match raw.trim_start().bytes().next()? {
            b'"' => Some(Form::Text),
            b't' | b'f' => Some(Form::Bool),
            b'{' => Some(Form::Object),
            b'[' => Some(Form::List),
            b'n' => None,
            _ => Some(Form::Number),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Form::Number => "number",
            Form::Text => "text",
            Form::Bool => "bool",
            Form::Object => "object",
            Form::List => "list",
        }
    }
}

/// The columns of one table in the topic of one role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Rows that were looked at.
    pub rows: u64,
    /// Forms of each column that came.
    pub columns: BTreeMap<String, BTreeSet<Form>>,
}

/// By table and role.
pub type Columns = BTreeMap<(usize, Role), Seen>;

/// Adds a row as it came. One that cannot be read has been told of as a fault.
pub(super) fn add(columns: &mut Columns, table: usize, role: Role, value: &[u8]) {
    let Ok(Some(row)) = row::columns(value) else {
        return;
    };
    let seen = columns.entry((table, role)).or_default();
    seen.rows += 1;
    for (name, raw) in row.iter() {
        let forms = match seen.columns.get_mut(name) {
            Some(forms) => forms,
            None => seen.columns.entry(name.to_owned()).or_default(),
        };
        forms.extend(Form::of(raw));
    }
}

/// Compares both sides of each table.
pub(super) fn judge(columns: &Columns, tables: &[Table], findings: &mut Vec<Finding>) {
    for (index, table) in tables.iter().enumerate() {
        let of = |role| columns.get(&(index, role)).filter(|seen| seen.rows > 0);
        if let (Some(mutations), Some(reads)) = (of(Role::Mutations), of(Role::Snapshot)) {
            one(table, mutations, reads, findings);
        }
    }
}

fn one(table: &Table, mutations: &Seen, reads: &Seen, findings: &mut Vec<Finding>) {
    let thing = format!("columns of {}", table.name);
    let before = findings.len();
    let only = |one: &Seen, other: &Seen| -> Vec<String> {
        let names = one.columns.keys();
        let names = names.filter(|name| !other.columns.contains_key(*name));
        names.cloned().collect()
    };
    let in_reads = only(reads, mutations);
    if !in_reads.is_empty() {
        findings.push(
            Finding::warning(
                &thing,
                format!("in READs only: {}", in_reads.join(", ")),
                &[
                    "A row that a mutation touches goes without it; one that none touches keeps",
                    "the READ's value: rows differ in shape. It is never filled in from the READ.",
                    "A generated column does not come with mutations (pgoutput); a column list or",
                    "mask may be set in one connector alone.",
                    "To leave it out everywhere: column.exclude.list in the snapshot connector, or",
                    "no such column in the target with sink.unknown_columns = \"drop\".",
                ],
            )
            .expected("the same columns in both topics"),
        );
    }
    let in_mutations = only(mutations, reads);
    if !in_mutations.is_empty() {
        findings.push(
            Finding::warning(
                &thing,
                format!("in mutations only: {}", in_mutations.join(", ")),
                &[
                    "A row that no mutation touches goes without it. Was the column added after",
                    "the snapshot, or does a column list of the snapshot connector leave it out?",
                ],
            )
            .expected("the same columns in both topics"),
        );
    }
    for (name, forms) in &mutations.columns {
        let Some(others) = reads.columns.get(name) else {
            continue;
        };
        if !forms.is_empty() && !others.is_empty() && forms.is_disjoint(others) {
            findings.push(
                Finding::warning(
                    &thing,
                    format!(
                        "`{name}` is {} in mutations and {} in READs",
                        words(forms),
                        words(others)
                    ),
                    &["Time, decimal or binary modes, or converters, of the connectors differ."],
                )
                .expected("one form"),
            );
        }
    }
    if findings.len() == before {
        let found = format!("the same {} in both topics", mutations.columns.len());
        findings.push(Finding::ok(thing, found));
    }
}

fn words(forms: &BTreeSet<Form>) -> String {
    let words: Vec<&str> = forms.iter().map(|form| form.word()).collect();
    words.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::{Columns, add, judge};
    use crate::check::{Findings, Level};
    use crate::table::{Role, Table};

    fn found(mutations: &[&str], reads: &[&str]) -> Findings {
        let mut columns = Columns::new();
        for (role, rows) in [(Role::Mutations, mutations), (Role::Snapshot, reads)] {
            for row in rows {
                let value = format!(r#"{{"before":null,"after":{row},"op":"u"}}"#);
                add(&mut columns, 0, role, value.as_bytes());
            }
        }
        let table = Table {
            name: "public.hello".to_owned(),
            mutations: "m".to_owned(),
            snapshot: "s".to_owned(),
            key: None,
        };
        let mut findings = Vec::new();
        judge(&columns, &[table], &mut findings);
        Findings(findings)
    }

    #[test]
    fn both_sides_are_compared_by_name_and_form() {
        let same = found(&[r#"{"id":1,"a":null}"#], &[r#"{"id":2,"a":"x"}"#]);
        assert_eq!(same.0.len(), 1);
        assert_eq!(same.0[0].level, Level::Ok);
        for (mutation, read, part) in [
            (
                r#"{"id":1}"#,
                r#"{"id":1,"shout":"X!"}"#,
                "READs only: shout",
            ),
            (r#"{"id":1,"new":1}"#, r#"{"id":1}"#, "mutations only: new"),
            (
                r#"{"id":1}"#,
                r#"{"id":"1"}"#,
                "`id` is number in mutations and text in READs",
            ),
            (
                r#"{"id":[1]}"#,
                r#"{"id":{"a":1}}"#,
                "list in mutations and object in READs",
            ),
        ] {
            let found = found(&[mutation], &[read]);
            let first = &found.0[0];
            assert_eq!((found.0.len(), first.level), (1, Level::Warning));
            assert!(first.found.contains(part), "{}", found.table());
            assert!(found.verdict().is_ok());
        }
        assert!(found(&[], &[r#"{"id":1}"#]).0.is_empty());
        // A form that came on either side once is not another one.
        let mixed = found(&[r#"{"a":1}"#, r#"{"a":"x"}"#], &[r#"{"a":"y"}"#]);
        assert_eq!(mixed.0[0].level, Level::Ok);
    }
}
