//! From what was written to sections: unknown keys, wrong types and missing keys become errors that
//! name the key, the place, what was found and what was expected.

use super::nearest::nearest;
use super::section::{Key, Section, State};
use super::tree::{Entries, Node, Tree};
use super::value::Fault;
use crate::error::Error;

/// Reads a section called `path` (empty for the top of the file).
///
/// # Errors
/// The first key that is unknown, wrong or missing.
pub(super) fn section(
    section: &mut dyn Section,
    path: &str,
    entries: &Entries,
) -> Result<(), Error> {
    let keys = section.keys();
    for (name, node) in entries {
        let full = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match section.read(name, &full, node) {
            None => {
                let names = keys.iter().map(|key| key.name);
                return Err(unknown(&full, name, node, &names.collect::<Vec<_>>()));
            }
            Some(Err(fault)) => {
                let key = keys
                    .iter()
                    .find(|key| key.name == name)
                    .expect("it was read");
                return Err(mismatch(&full, key, fault));
            }
            Some(Ok(())) => {}
        }
    }
    match keys
        .iter()
        .find(|key| key.state == State::Required && !entries.contains_key(key.name))
    {
        Some(key) => Err(Error::usage(format!("`{path}` lacks `{}`", key.name))
            .line(format!(
                "found     {}",
                listed(entries.keys().map(String::as_str))
            ))
            .line(format!("expected  {} = {}", key.name, key.example))),
        None => Ok(()),
    }
}

/// The keys of a section that were written and mean nothing yet.
pub(super) fn later(section: &dyn Section, path: &str, entries: &Entries) -> Vec<String> {
    let keys = section.keys();
    let written = keys.iter().filter(|key| entries.contains_key(key.name));
    written
        .filter(|key| key.state == State::Later)
        .map(|key| format!("{path}.{}", key.name))
        .collect()
}

/// The error of a key that does not exist.
pub(super) fn unknown(full: &str, name: &str, node: &Node, known: &[&str]) -> Error {
    let error =
        Error::usage(format!("unknown key `{full}`")).line(format!("found     {}", node.place));
    let error = match nearest(name, known.iter().copied()) {
        Some(near) => {
            let section = full.strip_suffix(name).unwrap_or_default();
            error.line(format!("expected  perhaps `{section}{near}`"))
        }
        None => error,
    };
    error.line(format!("known     {}", known.join(", ")))
}

/// The error of a key whose value is something else.
pub(super) fn mismatch(full: &str, key: &Key, fault: Fault) -> Error {
    match fault {
        Fault::Told(error) => error,
        Fault::Mismatch { place, found } => {
            let example = key.default.as_ref().unwrap_or(&key.example);
            Error::usage(format!("wrong value for `{full}`"))
                .line(format!("found     {found} ({place})"))
                .line(format!("expected  {}", key.expected))
                .line(format!("example   {} = {example}", key.name))
        }
    }
}

/// The entries of a node that must be a table.
///
/// # Errors
/// When it is something else.
pub(super) fn table<'a>(path: &str, node: &'a Node) -> Result<&'a Entries, Error> {
    match &node.tree {
        Tree::Table(entries) => Ok(entries),
        other => Err(Error::usage(format!("`{path}` is a section, not a key"))
            .line(format!("found     {} ({})", other.sort(), node.place))
            .line(format!("expected  a line `[{path}]` and its keys below"))),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        "no key".to_owned()
    } else {
        format!("only {}", names.join(", "))
    }
}
