//! The records of the quarantine by table and key.
//!
//! Invariant: keys that are the same row are one entry, however their JSON was written or framed.

use super::line::{Line, files, read};
use super::literal::{Literals, of_key};
use crate::decode::row::{self, Schemas};
use crate::error::Error;
use crate::table::Table;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Which records count.
pub(super) struct Wanted {
    tables: Vec<Table>,
    table: Option<String>,
    /// As [`shown`] gives it.
    key: Option<String>,
}

impl Wanted {
    /// Checks the flags.
    pub(super) fn new(
        tables: &[Table],
        table: Option<&str>,
        key: Option<&str>,
    ) -> Result<Wanted, Error> {
        let only = table.and_then(|name| tables.iter().find(|table| table.name == name));
        if let (Some(name), None) = (table, only) {
            let known: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            return Err(Error::usage(format!("`{name}` is no table"))
                .line(format!("expected  one of: {}", known.join(", "))));
        }
        let key = key.map(|text| {
            let configured = only.and_then(|table| table.key.as_deref());
            shown(text.as_bytes(), configured).map_err(|reason| {
                Error::usage("`--key` is no key")
                    .line(format!("found     {text}: {reason}"))
                    .line("expected  a JSON object of the key's columns: {\"id\":5}")
            })
        });
        Ok(Wanted {
            tables: tables.to_vec(),
            table: table.map(str::to_owned),
            key: key.transpose()?,
        })
    }

    fn key_columns(&self, table: &str) -> Option<&[String]> {
        let found = self.tables.iter().find(|known| known.name == table);
        found.and_then(|table| table.key.as_deref())
    }
}

/// Where a record stands in its topic, and why it is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) topic: String,
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) generation: u32,
    pub(super) reason: String,
}

/// The records of one key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) records: Vec<Record>,
    /// Its columns and how their values stand in SQL; in words, why they cannot.
    pub(super) literals: Result<Literals, String>,
}

/// Everything that is wanted.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// By table, then by the key as JSON.
    pub(super) tables: BTreeMap<String, BTreeMap<String, Entry>>,
}

impl Index {
    /// Reads all files of a folder; `each` gets every distinct line.
    pub(super) fn read(
        folder: &Path,
        wanted: &Wanted,
        each: &mut dyn FnMut(&str) -> Result<(), Error>,
    ) -> Result<Index, Error> {
        let mut index = Index::default();
        let mut seen: BTreeMap<String, HashSet<(u32, u64)>> = BTreeMap::new();
        let mut schemas = Schemas::default();
        for path in files(folder)? {
            read(&path, &mut |line, text| {
                if wanted
                    .table
                    .as_ref()
                    .is_some_and(|table| *table != line.table)
                {
                    return Ok(());
                }
                let place = (line.partition, line.offset);
                let topic = match seen.get_mut(&*line.topic) {
                    Some(topic) => topic,
                    None => seen.entry(line.topic.clone().into_owned()).or_default(),
                };
                if !topic.insert(place) {
                    return Ok(());
                }
                if index.put(&line, wanted, &mut schemas) {
                    each(text)?;
                }
                Ok(())
            })?;
        }
        Ok(index)
    }

    /// Whether the line's key is wanted; then it is in the index.
    fn put(&mut self, line: &Line<'_>, wanted: &Wanted, schemas: &mut Schemas) -> bool {
        let (key, columns) = (line.key(), wanted.key_columns(&line.table));
        let text = shown(&key, columns);
        // A key that is no JSON is told as it stands in the file.
        let text = text.unwrap_or_else(|_| String::from_utf8_lossy(&key).into_owned());
        if wanted.key.as_ref().is_some_and(|wanted| *wanted != text) {
            return false;
        }
        let table = self
            .tables
            .entry(line.table.clone().into_owned())
            .or_default();
        let entry = table.entry(text).or_insert_with(|| Entry {
            records: Vec::new(),
            literals: of_key(&key, columns, schemas),
        });
        entry.records.push(Record {
            topic: line.topic.clone().into_owned(),
            partition: line.partition,
            offset: line.offset,
            generation: line.generation,
            reason: line.reason.clone().into_owned(),
        });
        true
    }
}

/// A key as JSON on one line, its columns in name order; with only the configured ones, if any.
fn shown(key: &[u8], configured: Option<&[String]>) -> Result<String, String> {
    let columns = row::key(key, configured)?;
    let mut members = BTreeMap::new();
    for (name, raw) in columns.iter() {
        if configured.is_none_or(|only| only.iter().any(|column| column == name)) {
            // Escapes of text may be written in several ways.
            let value = match raw.starts_with('"') {
                true => serde_json::from_str::<String>(raw)
                    .map(|text| serde_json::Value::String(text).to_string()),
                false => Ok(raw.to_owned()),
            };
            members.insert(name, value.map_err(|_| "text with a broken escape")?);
        }
    }
    let members: Vec<String> = members
        .into_iter()
        .map(|(name, raw)| format!("{}:{raw}", serde_json::Value::from(name)))
        .collect();
    Ok(format!("{{{}}}", members.join(",")))
}
