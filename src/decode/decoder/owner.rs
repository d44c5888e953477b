//! Whose record it is: the table by the source block, its flattened form, or the key alone.
//!
//! Invariant: of a topic that several tables share, a record is given to a table only when exactly
//! one fits; one that does not say is [`Owner::Unnamed`], never a guess.
//!
//! It cannot tell what the record is (row, delete, signal): the decoder asks for the table alone.

use super::{Decoder, TopicId, bad_json, check_text};
use crate::decode::envelope::{Payload, Source};
use crate::decode::error::{DecodeError, Side};
use crate::decode::framing::open;
use crate::decode::kind;
use crate::decode::scan::{Broken, Scanner};
use crate::decode::text::unescape;
use crate::decode::{Ignored, OtherTables};
use crate::key::Logical;
use crate::key::reader::KeyReader;
use crate::topic::RawRecord;

/// Whose row a record is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// Index of the topic's reader.
    Reader(usize),
    /// Nobody's.
    Ignored(Ignored),
    /// The record does not say.
    Unnamed,
}

impl Decoder {
    /// Whose record it is, by the source block or its flattened form.
    pub(super) fn owner(
        &mut self,
        topic: TopicId,
        raw: &RawRecord<'_>,
        payload: &Payload<'_>,
    ) -> Result<Owner, DecodeError> {
        let state = &self.topics[topic.0];
        let (space, table) = match (&payload.source, &payload.flat) {
            (Some(source), _) => (namespace(source), source.table),
            (None, flat) => (flat.schema, flat.table),
        };
        let table = table.filter(|table| !table.is_empty());
        let Some(table) = table else {
            return match state.readers.len() {
                1 => Ok(Owner::Reader(0)),
                _ => self.owner_by_key(topic, raw.key.unwrap_or_default()),
            };
        };
        let named = |reader: &KeyReader| is_name(&self.tables[reader.table()].name, space, table);
        if let Some(reader) = state.readers.iter().position(named) {
            return Ok(Owner::Reader(reader));
        }
        let signal = self.settings.signal_table.as_deref();
        if signal.is_some_and(|name| is_name(name, space, table))
            || kind::looks_like_signal(payload)
        {
            return Ok(Owner::Ignored(Ignored::Signal));
        }
        if state.readers.len() > 1 || self.settings.other_tables == OtherTables::Ignore {
            return Ok(Owner::Ignored(Ignored::OtherTable));
        }
        let text = |raw: &[u8]| String::from_utf8_lossy(raw).into_owned();
        let space = space.map_or_else(String::new, |space| text(space) + ".");
        Err(DecodeError::UnknownTable {
            found: space + &text(table),
            expected: self.tables[state.readers[0].table()].name.clone(),
        })
    }

    /// The reader of the table that the schema of a key names.
    #[cold]
    pub(super) fn named_by_key(
        &self,
        topic: TopicId,
        key: &[u8],
    ) -> Result<Option<usize>, DecodeError> {
        let state = &self.topics[topic.0];
        let bad = |broken| bad_json(Side::Key, broken);
        check_text(key, Side::Key)?;
        let mut opened = open(key, self.settings.key_framing, None).map_err(bad)?;
        opened.scanner.value().map_err(bad)?;
        let Some(Some((Some(name), _))) = opened.schema().map(Logical::whole) else {
            return Ok(None);
        };
        let of = |reader: &KeyReader| {
            let path = name.strip_suffix(".Key");
            let before = path.and_then(|path| path.strip_suffix(&self.tables[reader.table()].name));
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        Ok(state.readers.iter().position(of))
    }

    /// Whether it is known for each table of a topic what its keys look like.
    pub(super) fn all_keys_known(&self, topic: TopicId) -> bool {
        let mut readers = self.topics[topic.0].readers.iter();
        readers.all(|reader| reader.wanted().is_some() || self.gate.knows(reader.table()))
    }

    /// Whose record it is, by its key alone: the name of its schema, else its columns.
    #[cold]
    pub(super) fn owner_by_key(&self, topic: TopicId, key: &[u8]) -> Result<Owner, DecodeError> {
        if let Some(reader) = self.named_by_key(topic, key)? {
            return Ok(Owner::Reader(reader));
        }
        let state = &self.topics[topic.0];
        let bad = |broken| bad_json(Side::Key, broken);
        let mut opened = open(key, self.settings.key_framing, None).map_err(bad)?;
        let text = opened.scanner.value().map_err(bad)?;
        let names = member_names(text).map_err(bad)?;
        let mut fitting =
            state
                .readers
                .iter()
                .enumerate()
                .filter(|(_, reader)| match reader.wanted() {
                    Some(wanted) => wanted.iter().all(|column| names.contains(column)),
                    None => self.gate.has_columns(reader.table(), &names),
                });
        match (fitting.next(), fitting.next()) {
            (Some((reader, _)), None) => Ok(Owner::Reader(reader)),
            _ => Ok(Owner::Unnamed),
        }
    }
}

/// The first part of a table's name: its schema, or the database where there are no schemas.
fn namespace<'a>(source: &Source<'a>) -> Option<&'a [u8]> {
    let schema = source.schema.filter(|schema| !schema.is_empty());
    schema.or(source.db.filter(|db| !db.is_empty()))
}

/// Whether `name` is `space.table`, or `table` alone when there is no space.
#[inline]
fn is_name(name: &str, space: Option<&[u8]>, table: &[u8]) -> bool {
    let name = name.as_bytes();
    match space {
        Some(space) => name
            .strip_prefix(space)
            .and_then(|rest| rest.strip_prefix(b"."))
            .is_some_and(|rest| rest == table),
        None => {
            let tail = name.rsplit(|byte| *byte == b'.').next();
            tail.is_some_and(|tail| tail == table)
        }
    }
}

fn member_names(text: &[u8]) -> Result<Vec<String>, Broken> {
    let mut names = Vec::new();
    let mut scanner = Scanner::new(text);
    if scanner.peek() == b'{' {
        let mut members = scanner.object()?;
        while let Some(name) = scanner.member(&mut members)? {
            let name = std::str::from_utf8(name).ok().and_then(unescape);
            names.extend(name.map(std::borrow::Cow::into_owned));
            scanner.value()?;
        }
    }
    Ok(names)
}

#[cold]
pub(super) fn ambiguous() -> DecodeError {
    DecodeError::AmbiguousTable {
        what: "Give each table its own topic, or let the records name it: keep the source block, \
               or add.fields=source.schema,source.table, or schemas in the keys.",
    }
}
