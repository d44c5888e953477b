//! One of the two databases that are compared, and what both have in common of a table.
//!
//! Invariant: a [`Side`] reads and never writes. Rows come with the key's columns first, all
//! columns in the order of the [`Plan`], so that the n-th value of both sides is the same column.

use super::value::{Form, Raw, form};
use crate::error::Error;
use crate::sink::column::Kind;

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavor {
    Postgres,
    Sqlite,
}

/// A column of one side.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) flavor: Flavor,
    pub(super) kind: Kind,
    /// As the database spells it in a cast.
    pub(super) type_name: String,
    /// How its text is ordered, when it is text: `C` is byte by byte.
    pub(super) order: Option<String>,
}

/// A table of one side.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// As it stands in SQL, quoted.
    pub(super) sql: String,
    pub(super) columns: Vec<Column>,
    /// Names of the primary key's columns, in its order.
    pub(super) key: Vec<String>,
}

/// What is read of a table at one side.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) sql: String,
    /// Those of the key first.
    pub(super) columns: Vec<Column>,
    /// How many belong to the key.
    pub(super) keys: usize,
    /// Whether text of the key is ordered byte by byte against the table's own order.
    pub(super) bytewise: bool,
    pub(super) forms: Vec<Form>,
}

/// The values of a key, as the side that gave them has them.
pub(super) type Key = Vec<Raw<'static>>;

/// Keys behind `after` up to and with `upto`, in key order; all where there is no bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range<'k> {
    pub(super) after: Option<&'k Key>,
    pub(super) upto: Option<&'k Key>,
}

/// Takes a row.
pub(super) type Give<'g> = dyn FnMut(&[Raw<'_>]) + 'g;

/// A database that is read.
pub(super) trait Side {
    /// What it is, without a password.
    fn name(&self) -> &str;

    /// The table; nothing when it is not there.
    fn describe(&mut self, table: &str) -> Result<Option<Described>, Error>;

    /// The first rows of a range, at most so many, in key order.
    fn page(
        &mut self,
        plan: &Plan,
        range: Range<'_>,
        rows_max: usize,
        give: &mut Give<'_>,
    ) -> Result<(), Error>;

    /// The rows of some keys, in any order.
    fn lookup(&mut self, plan: &Plan, keys: &[Key], give: &mut Give<'_>) -> Result<(), Error>;
}

/// How a table of both sides is compared.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) source: Plan,
    pub(super) target: Plan,
    /// Columns that are not compared, each with the reason.
    pub(super) left_out: Vec<String>,
}

/// What both have in common. `key` are the configured key columns; without, those of the target's
/// primary key.
pub(super) fn pair(
    table: &str,
    source: &Described,
    target: &Described,
    key: Option<&[String]>,
) -> Result<Pair, Error> {
    let key = key.unwrap_or(&target.key);
    let find = |described: &Described, name: &str| {
        described
            .columns
            .iter()
            .find(|column| column.name == name)
            .cloned()
    };
    let (mut columns, mut left_out) = (Vec::new(), Vec::new());
    for name in key {
        let both = find(source, name).zip(find(target, name));
        let formed = both.and_then(|(a, b)| form(&a, &b).map(|form| (a, b, form)));
        columns.push(formed.ok_or_else(|| no_key(table, name, source, target))?);
    }
    if key.is_empty() {
        return Err(Error::usage(format!("`{table}` has no key to compare by"))
            .line("found     no primary key in the target, and no `key` of the table")
            .line("expected  key = [\"…\"] in its [[table]]"));
    }
    for column in source
        .columns
        .iter()
        .filter(|column| !key.contains(&column.name))
    {
        match find(target, &column.name) {
            None => left_out.push(format!("{} (the target has it not)", column.name)),
            Some(other) => match form(column, &other) {
                Some(form) => columns.push((column.clone(), other, form)),
                None => left_out.push(format!(
                    "{} ({} and {} cannot be compared)",
                    column.name, column.type_name, other.type_name
                )),
            },
        }
    }
    for column in &target.columns {
        if find(source, &column.name).is_none() {
            left_out.push(format!("{} (the source has it not)", column.name));
        }
    }
    let same_order = columns[..key.len()]
        .iter()
        .all(|(a, b, _)| a.order == b.order);
    let plan = |described: &Described, columns: Vec<Column>, forms: &[Form]| Plan {
        sql: described.sql.clone(),
        columns,
        keys: key.len(),
        bytewise: !same_order,
        forms: forms.to_vec(),
    };
    let forms: Vec<Form> = columns.iter().map(|(_, _, form)| *form).collect();
    let (ours, theirs) = columns.into_iter().map(|(a, b, _)| (a, b)).unzip();
    Ok(Pair {
        source: plan(source, ours, &forms),
        target: plan(target, theirs, &forms),
        left_out,
    })
}

fn no_key(table: &str, name: &str, source: &Described, target: &Described) -> Error {
    let kind = |described: &Described| {
        let found = described.columns.iter().find(|column| column.name == name);
        found.map_or("no such column".to_owned(), |column| {
            column.type_name.clone()
        })
    };
    Error::usage(format!(
        "key column `{name}` of `{table}` cannot be compared"
    ))
    .line(format!("source    {} in {}", kind(source), source.sql))
    .line(format!("target    {} in {}", kind(target), target.sql))
    .line("expected  a column of the same type class on both sides")
}
