//! The configuration as written: values with the place they came from, `--set` laid over the file.
//!
//! Knows TOML's syntax and no setting. Syntax errors name the line and never quote it: it may hold
//! a secret.

use super::secret::redact_url;
use crate::error::Error;
use std::collections::BTreeMap;
use std::fmt;
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, at a line from 1.
    File {
        /// The file as given.
        name: String,
        /// The line.
        line: usize,
    },
    /// `--set` with this key.
    Set(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { name, line } => write!(f, "{name}, line {line}"),
            Place::Set(key) => write!(f, "--set {key}"),
        }
    }
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub tree: Tree,
    /// Where it was written.
    pub place: Place,
}

/// A table's entries by key.
pub type Entries = BTreeMap<String, Node>;

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// TOML text.
    Text(String),
    /// An integer.
    Integer(i128),
    /// `true` or `false`.
    Boolean(bool),
    /// Anything else that stands alone: a float or a time, or unquoted words after `--set key=`.
    Bare(String),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Entries),
}

impl Tree {
    /// The value as an error shows it.
    pub fn found(&self) -> String {
        match self {
            Tree::Text(text) => format!("\"{}\"", redact_url(text)),
            Tree::Bare(text) => redact_url(text),
            Tree::Integer(number) => number.to_string(),
            Tree::Boolean(value) => value.to_string(),
            Tree::List(_) | Tree::Table(_) => self.sort().to_owned(),
        }
    }

    /// What sort of value this is, for values that must not be shown.
    pub fn sort(&self) -> &'static str {
        match self {
            Tree::Text(_) | Tree::Bare(_) => "text",
            Tree::Integer(_) => "a number",
            Tree::Boolean(_) => "a boolean",
            Tree::List(_) => "a list",
            Tree::Table(_) => "a table",
        }
    }
}

/// Reads a file's text.
///
/// # Errors
/// What is not TOML, with the line.
pub fn parse(name: &str, text: &str) -> Result<Entries, Error> {
    let place = |at: usize| Place::File {
        name: name.to_owned(),
        line: line_of(text, at),
    };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Error::usage(format!("{name} is not valid TOML"))
            .line(format!(
                "found     {} at {}",
                error.message().replace('\n', ", "),
                place(at)
            ))
            .line("expected  `key = value` lines below `[section]` lines; text in quotes")
    })?;
    Ok(entries(table.get_ref(), &place))
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

fn entries(table: &DeTable<'_>, place: &dyn Fn(usize) -> Place) -> Entries {
    table
        .iter()
        .map(|(key, value)| {
            let tree = tree(value.get_ref(), place);
            (
                key.get_ref().to_string(),
                Node {
                    tree,
                    place: place(key.span().start),
                },
            )
        })
        .collect()
}

fn tree(value: &DeValue<'_>, place: &dyn Fn(usize) -> Place) -> Tree {
    match value {
        DeValue::String(text) => Tree::Text(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Tree::Bare(number.to_string()), Tree::Integer),
        DeValue::Float(number) => Tree::Bare(number.to_string()),
        DeValue::Boolean(value) => Tree::Boolean(*value),
        DeValue::Datetime(time) => Tree::Bare(time.to_string()),
        DeValue::Array(items) => Tree::List(
            items
                .iter()
                .map(|item| Node {
                    tree: tree(item.get_ref(), place),
                    place: place(item.span().start),
                })
                .collect(),
        ),
        DeValue::Table(table) => Tree::Table(entries(table, place)),
    }
}

/// Lays `KEY=VALUE` over what the file says. `number` counts the `--set`s, from 1.
///
/// Where names are free (`kafka`, `source.start_offsets`, `sink.names`, `sink.kafka`) the rest of
/// the key is one name, quoted or not: a shell eats the quotes. In `table.NAME.key` the
/// middle is a table's name or its number from 0.
///
/// # Errors
/// A key or table that cannot be, never quoting the value.
pub fn set(root: &mut Entries, number: usize, argument: &str) -> Result<(), Error> {
    let Some((path, value)) = split_argument(argument) else {
        return Err(
            Error::usage(format!("`--set` number {number} is not KEY=VALUE"))
                .line("found     no `=` after a key")
                .line("example   --set retention.start_margin=30m"),
        );
    };
    let place = Place::Set(path.join("."));
    let node = Node {
        tree: value_tree(value, &place),
        place: place.clone(),
    };
    let maps = [
        &["kafka"][..],
        &["source", "start_offsets"],
        &["sink", "names"],
        &["sink", "kafka"],
    ];
    if let Some(map) = maps.into_iter().find(|map| starts_with(&path, map)) {
        let (sections, name) = path.split_at(map.len());
        return insert(root, &[sections, &[name.join(".")]].concat(), node, &place);
    }
    match path.as_slice() {
        [section, middle @ .., key] if section == "table" && !middle.is_empty() => {
            let table = find_table(root, &middle.join("."), &place)?;
            table.insert(key.clone(), node);
            Ok(())
        }
        _ => insert(root, &path, node, &place),
    }
}

/// Whether the key names something inside `map`.
fn starts_with(path: &[String], map: &[&str]) -> bool {
    path.len() > map.len() && path.iter().zip(map).all(|(part, name)| part == name)
}

/// The parts of the key and the text of the value.
fn split_argument(argument: &str) -> Option<(Vec<String>, &str)> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for (at, c) in argument.char_indices() {
        let part = parts.last_mut().expect("never empty");
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '.') => parts.push(String::new()),
            (None, '=') => {
                let parts: Vec<String> = parts.iter().map(|part| part.trim().to_owned()).collect();
                let good = parts.iter().all(|part| !part.is_empty());
                return good.then(|| (parts, argument[at + 1..].trim()));
            }
            (_, c) => part.push(c),
        }
    }
    None
}

/// Quoted text, lists and tables as TOML reads them; all else is kept as written, for the setting
/// to read: `30m` and `true` need no quotes.
fn value_tree(value: &str, place: &Place) -> Tree {
    let document = format!("x = {value}");
    let parsed = DeTable::parse(&document).ok();
    let parsed = parsed.as_ref().and_then(|table| {
        let table = table.get_ref();
        (table.len() == 1).then(|| table.get("x")).flatten()
    });
    match parsed.map(|value| value.get_ref()) {
        Some(found @ (DeValue::String(_) | DeValue::Array(_) | DeValue::Table(_))) => {
            tree(found, &|_| place.clone())
        }
        _ => Tree::Bare(value.to_owned()),
    }
}

fn insert(root: &mut Entries, path: &[String], node: Node, place: &Place) -> Result<(), Error> {
    let (key, sections) = path.split_last().expect("a key has a part");
    let mut at = root;
    for (depth, section) in sections.iter().enumerate() {
        let inner = at.entry(section.clone()).or_insert_with(|| Node {
            tree: Tree::Table(Entries::new()),
            place: place.clone(),
        });
        let Tree::Table(inner) = &mut inner.tree else {
            return Err(
                Error::usage(format!("`{place}` names no key")).line(format!(
                    "found     `{}` is not a section",
                    path[..=depth].join(".")
                )),
            );
        };
        at = inner;
    }
    at.insert(key.clone(), node);
    Ok(())
}

fn find_table<'a>(
    root: &'a mut Entries,
    name: &str,
    place: &Place,
) -> Result<&'a mut Entries, Error> {
    let tables: Vec<&mut Entries> = match root.get_mut("table").map(|node| &mut node.tree) {
        Some(Tree::List(nodes)) => nodes
            .iter_mut()
            .filter_map(|node| match &mut node.tree {
                Tree::Table(entries) => Some(entries),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let name_of = |table: &Entries| match table.get("name").map(|node| &node.tree) {
        Some(Tree::Text(name) | Tree::Bare(name)) => name.clone(),
        _ => String::new(),
    };
    let names: Vec<String> = tables.iter().map(|table| name_of(table)).collect();
    let index = names
        .iter()
        .position(|known| known == name)
        .or_else(|| name.parse().ok());
    let known = names.join(", ");
    index
        .and_then(|index| tables.into_iter().nth(index))
        .ok_or_else(|| {
            Error::usage(format!("`{place}` names a table that is not configured"))
                .line(format!("found     `{name}`"))
                .line(format!("expected  one of: {known}; or its number from 0"))
        })
}
