//! The decoder of one worker: topics resolved once, scratch buffers, one record at a time.
//!
//! Invariant: a row comes out only with the fingerprint of a key that the gate has let pass. An
//! error leaves the decoder as it was, so the next record can be decoded.

mod owner;

use self::owner::{Owner, ambiguous};
use super::envelope::Payload;
use super::error::{DecodeError, Side};
use super::framing::{Opened, open};
use super::kind::{self, Kind};
use super::recent::Recent;
use super::scan::Broken;
use super::shape::Shape;
use super::{DecodeSettings, Decoded, EmptyValue, Ignored, OtherTables};
use crate::key::KeyGate;
use crate::key::reader::{KeyFault, KeyReader, Place};
use crate::table::{Role, Table};
use crate::topic::RawRecord;
use headwater_operators::fingerprint::{Fingerprinter, TableFingerprinter};
use headwater_operators::record::Op;
use std::sync::Arc;

/// A topic in a role, of one [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicId(usize);

/// Decodes the records of all topics for one worker.
#[derive(Debug)]
pub struct Decoder {
    tables: Vec<Named>,
    topics: Vec<Topic>,
    gate: Arc<KeyGate>,
    settings: DecodeSettings,
    canonical: Vec<u8>,
    before: Vec<u8>,
    key_json: Vec<u8>,
}

#[derive(Debug)]
struct Named {
    name: String,
    fingerprinter: TableFingerprinter,
}

#[derive(Debug)]
struct Topic {
    role: Role,
    name: String,
    /// One for each table that has this topic in this role.
    readers: Vec<KeyReader>,
    key_schema: Option<Box<[u8]>>,
    value_schema: Option<Box<[u8]>>,
    source: Shape,
    deletes: Recent<Owner>,
    flattened: bool,
}

/// A JSON object, read in one pass.
struct Object<'a> {
    payload: Payload<'a>,
    text: &'a [u8],
    schema: Option<&'a [u8]>,
}

/// A row whose table is known, before its key is read.
struct Found<'a> {
    reader: usize,
    op: Op,
    read_time_ms: u64,
    source_ms: i64,
    last: bool,
    /// The row to take the key from when the record has none.
    row: Option<(Place, &'a [u8])>,
    /// `before` of an update.
    before: Option<&'a [u8]>,
    schema: Option<&'a [u8]>,
    value: &'a [u8],
}

impl Decoder {
    /// A decoder of all topics of `tables`.
    ///
    /// # Panics
    /// When `gate` was made for fewer tables.
    pub fn new(
        tables: &[Table],
        fingerprinter: &Fingerprinter,
        settings: DecodeSettings,
        gate: Arc<KeyGate>,
    ) -> Self {
        let mut topics: Vec<Topic> = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            for (role, name) in [
                (Role::Mutations, &table.mutations),
                (Role::Snapshot, &table.snapshot),
            ] {
                let reader = KeyReader::new(index, role, table.key.clone());
                match topics
                    .iter_mut()
                    .find(|t| t.role == role && t.name == *name)
                {
                    Some(topic) => topic.readers.push(reader),
                    None => topics.push(Topic::new(role, name, reader)),
                }
            }
        }
        let named = |table: &Table| Named {
            name: table.name.clone(),
            fingerprinter: fingerprinter.table(&table.name),
        };
        Decoder {
            tables: tables.iter().map(named).collect(),
            topics,
            gate,
            settings,
            canonical: Vec::new(),
            before: Vec::new(),
            key_json: Vec::new(),
        }
    }

    /// The handle of a topic; none when no table has it in this role.
    pub fn topic(&self, role: Role, topic: &str) -> Option<TopicId> {
        let mut topics = self.topics.iter();
        topics
            .position(|of| of.role == role && of.name == topic)
            .map(TopicId)
    }

    /// Decodes one record. The end-of-snapshot record is the caller's: it has no value.
    ///
    /// # Errors
    /// See [`DecodeError`]; its kind says whether going on could give wrong rows.
    pub fn decode<'a>(
        &'a mut self,
        topic: TopicId,
        raw: &RawRecord<'a>,
    ) -> Result<Decoded<'a>, DecodeError> {
        let role = self.topics[topic.0].role;
        let decided = match self.value(topic, raw)? {
            None if role == Role::Snapshot => {
                return Ok(Decoded::Ignored(Ignored::SnapshotTombstone));
            }
            None => self.tombstone(topic, raw)?,
            Some(object) => self.object(topic, raw, &object)?,
        };
        match decided {
            Decided::Row(found) => self.row(topic, raw, &found),
            Decided::Truncate(table) => Ok(Decoded::Truncate { table }),
            Decided::Ignored(ignored) => Ok(Decoded::Ignored(ignored)),
        }
    }

    /// Table and fingerprint of a record whose value cannot be decoded, so that its key can be
    /// marked as poisoned. Its key teaches nothing: not the gate, and no later tombstone.
    ///
    /// # Errors
    /// When the key cannot be decoded either, is unlike the others, or does not say whose it is.
    #[cold]
    pub fn decode_key(
        &mut self,
        topic: TopicId,
        raw: &RawRecord<'_>,
    ) -> Result<(usize, u128), DecodeError> {
        let key = raw.key.unwrap_or_default();
        let state = &mut self.topics[topic.0];
        let shared = state.readers.len() > 1;
        if shared {
            // It may have been the DELETE whose tombstone comes next.
            let unknown = Owner::Ignored(Ignored::SharedTombstone);
            state.deletes.push(key, unknown);
        }
        let others = self.settings.other_tables == OtherTables::Ignore;
        let reader = match self.named_by_key(topic, key)? {
            Some(reader) => reader,
            None if !shared && !others => 0,
            // A key that would fit a table of which nothing is known yet may be that one's.
            None if shared && self.all_keys_known(topic) => match self.owner_by_key(topic, key)? {
                Owner::Reader(reader) => reader,
                _ => return Err(ambiguous()),
            },
            None => return Err(ambiguous()),
        };
        let key = raw.key.ok_or_else(|| self.no_key(topic, reader))?;
        let known = Arc::new(self.gate.copy());
        let gate = std::mem::replace(&mut self.gate, known);
        let before = self.topics[topic.0].readers[reader].clone();
        let read = self.read_key(topic, reader, key);
        self.topics[topic.0].readers[reader] = before;
        self.gate = gate;
        if !read? {
            // A JSON null; the buffer still holds the key of another record.
            return Err(self.no_key(topic, reader));
        }
        let table = self.topics[topic.0].readers[reader].table();
        Ok((table, self.tables[table].fingerprinter.of(&self.canonical)))
    }

    /// The tables of a topic.
    pub fn tables(&self, topic: TopicId) -> impl Iterator<Item = usize> + '_ {
        self.topics[topic.0].readers.iter().map(KeyReader::table)
    }

    /// The object that is the value; none when it is a tombstone.
    fn value<'a>(
        &mut self,
        topic: TopicId,
        raw: &RawRecord<'a>,
    ) -> Result<Option<Object<'a>>, DecodeError> {
        let Some(text) = raw.value else {
            return Ok(None);
        };
        if text.is_empty() {
            return match self.settings.empty_value {
                EmptyValue::Tombstone => Ok(None),
                EmptyValue::Poison => Err(DecodeError::EmptyValue),
            };
        }
        check_text(text, Side::Value)?;
        let topic = &mut self.topics[topic.0];
        let bad = |broken| bad_json(Side::Value, broken);
        let known = topic.value_schema.as_deref();
        let mut opened = open(text, self.settings.value_framing, known).map_err(bad)?;
        let first = opened.scanner.peek();
        let start = opened.scanner.at();
        let payload = if first == b'{' {
            Some(Payload::read(&mut opened.scanner, &mut topic.source).map_err(bad)?)
        } else {
            opened.scanner.value().map_err(bad)?;
            None
        };
        let end = opened.scanner.at();
        opened.finish().map_err(bad)?;
        remember(&mut topic.value_schema, &opened);
        match payload {
            Some(payload) => Ok(Some(Object {
                payload,
                text: &text[start..end],
                schema: opened.schema(),
            })),
            None if first == b'n' => Ok(None),
            None => Err(DecodeError::NotARow {
                found: "a bare JSON value",
                cure: "Let the connector write Debezium's own JSON to this topic.",
            }),
        }
    }

    fn tombstone<'a>(
        &mut self,
        topic: TopicId,
        raw: &RawRecord<'a>,
    ) -> Result<Decided<'a>, DecodeError> {
        let Some(key) = raw.key else {
            return Err(self.no_key(topic, 0));
        };
        let (shared, flattened) = {
            let topic = &self.topics[topic.0];
            (topic.readers.len() > 1, topic.flattened)
        };
        let reader = match self.topics[topic.0].deletes.find(key) {
            Some(Owner::Ignored(ignored)) => return Ok(Decided::Ignored(ignored)),
            Some(Owner::Reader(reader)) => reader,
            _ if !shared => 0,
            _ => match self.owner_by_key(topic, key)? {
                Owner::Reader(reader) => reader,
                _ if flattened => return Err(ambiguous()),
                _ => return Ok(Decided::Ignored(Ignored::SharedTombstone)),
            },
        };
        Ok(Decided::Row(Found {
            reader,
            op: Op::Delete,
            read_time_ms: 0,
            source_ms: 0,
            last: false,
            row: None,
            before: None,
            schema: None,
            value: &[],
        }))
    }

    fn object<'a>(
        &mut self,
        topic: TopicId,
        raw: &RawRecord<'a>,
        object: &Object<'a>,
    ) -> Result<Decided<'a>, DecodeError> {
        let payload = &object.payload;
        let envelope = payload.is_envelope();
        if envelope {
            if kind::op_letter(payload.op)? == 'm' {
                return Ok(Decided::Ignored(Ignored::Message));
            }
        } else if let Some(ignored) = kind::of_bare_record(payload, raw.key)? {
            return Ok(Decided::Ignored(ignored));
        }
        let role = self.topics[topic.0].role;
        let reader = match self.owner(topic, raw, payload)? {
            Owner::Reader(reader) => reader,
            Owner::Unnamed => return Err(ambiguous()),
            Owner::Ignored(ignored) => {
                if let Some(key) = raw.key
                    && payload.after.is_none_or(|after| after == b"null")
                {
                    let deletes = &mut self.topics[topic.0].deletes;
                    deletes.push(key, Owner::Ignored(ignored));
                }
                return Ok(Decided::Ignored(ignored));
            }
        };
        let table = self.topics[topic.0].readers[reader].table();
        let name = &self.tables[table].name;
        let (kind, row, before) = if envelope {
            let kind = kind::of_envelope(payload, role, name)?;
            let after = payload.after.filter(|raw| raw.starts_with(b"{"));
            let before = payload.before.filter(|raw| raw.starts_with(b"{"));
            match after {
                Some(after) => (kind, Some((Place::After, after)), before),
                None => (kind, before.map(|before| (Place::Before, before)), None),
            }
        } else {
            self.topics[topic.0].flattened = true;
            let kind = kind::of_flattened(payload, role, name)?;
            (kind, Some((Place::After, object.text)), None)
        };
        Ok(match kind {
            Kind::Ignored(ignored) => Decided::Ignored(ignored),
            Kind::Truncate => Decided::Truncate(table),
            Kind::Row {
                op,
                read_time_ms,
                source_ms,
                last,
            } => Decided::Row(Found {
                reader,
                op,
                read_time_ms,
                source_ms,
                last,
                row,
                before,
                schema: object.schema,
                value: raw.value.unwrap_or_default(),
            }),
        })
    }

    /// Reads the key of a found row and puts it together.
    fn row<'a>(
        &'a mut self,
        topic: TopicId,
        raw: &RawRecord<'a>,
        found: &Found<'a>,
    ) -> Result<Decoded<'a>, DecodeError> {
        let from_row = match raw.key {
            Some(key) => !self.read_key(topic, found.reader, key)?,
            None => true,
        };
        if from_row {
            self.read_row_key(topic, found)?;
        }
        let state = &mut self.topics[topic.0];
        if found.op == Op::Delete && state.readers.len() > 1 && !found.value.is_empty() {
            let key = raw.key.unwrap_or_default();
            state.deletes.push(key, Owner::Reader(found.reader));
        }
        let table = state.readers[found.reader].table();
        Ok(Decoded::Row {
            table,
            op: found.op,
            fingerprint: self.tables[table].fingerprinter.of(&self.canonical),
            key: match raw.key {
                Some(key) if !from_row => key,
                _ => &self.key_json,
            },
            value: found.value,
            read_time_ms: found.read_time_ms,
            source_ms: found.source_ms,
            last: found.last,
        })
    }

    /// Reads a record's key into the scratch buffer; false when the key is a JSON null.
    #[inline]
    fn read_key(&mut self, topic: TopicId, reader: usize, key: &[u8]) -> Result<bool, DecodeError> {
        check_text(key, Side::Key)?;
        let state = &mut self.topics[topic.0];
        let bad = |broken| bad_json(Side::Key, broken);
        let known = state.key_schema.as_deref();
        let mut opened = open(key, self.settings.key_framing, known).map_err(bad)?;
        let text = opened.scanner.value().map_err(bad)?;
        opened.finish().map_err(bad)?;
        if text == b"null" {
            return Ok(false);
        }
        remember(&mut state.key_schema, &opened);
        self.canonical.clear();
        let read = state.readers[reader].read(
            &self.gate,
            opened.schema(),
            text,
            Place::Key,
            &mut self.canonical,
        );
        read.map_err(|fault| self.key_error(topic, reader, fault, Place::Key))?;
        Ok(true)
    }

    /// Takes the configured key columns from the row.
    fn read_row_key(&mut self, topic: TopicId, found: &Found<'_>) -> Result<(), DecodeError> {
        let reader = &mut self.topics[topic.0].readers[found.reader];
        let (Some((place, row)), Some(_)) = (found.row, reader.wanted()) else {
            return Err(self.no_key(topic, found.reader));
        };
        if let (Place::After, Some(before)) = (place, found.before) {
            // Not usable is the common case: without REPLICA IDENTITY FULL it is null or partial.
            self.before.clear();
            let read = reader.read(
                &self.gate,
                found.schema,
                before,
                Place::Before,
                &mut self.before,
            );
            if read.is_err() {
                self.before.clear();
            }
        } else {
            self.before.clear();
        }
        self.canonical.clear();
        let read = reader.read(&self.gate, found.schema, row, place, &mut self.canonical);
        if let Err(fault) = read {
            return Err(self.key_error(topic, found.reader, fault, place));
        }
        if !self.before.is_empty() && self.before != self.canonical {
            return Err(DecodeError::KeyChange {
                table: self.table_name(topic, found.reader),
            });
        }
        self.key_json.clear();
        self.topics[topic.0].readers[found.reader].write_json(row, &mut self.key_json);
        Ok(())
    }

    fn table_name(&self, topic: TopicId, reader: usize) -> String {
        let table = self.topics[topic.0].readers[reader].table();
        self.tables[table].name.clone()
    }

    #[cold]
    fn no_key(&self, topic: TopicId, reader: usize) -> DecodeError {
        DecodeError::NoKey {
            table: self.table_name(topic, reader),
        }
    }

    #[cold]
    fn key_error(
        &self,
        topic: TopicId,
        reader: usize,
        fault: KeyFault,
        place: Place,
    ) -> DecodeError {
        let table = self.table_name(topic, reader);
        let place_word = place.word();
        match fault {
            KeyFault::Broken(broken) => bad_json(Side::Key, broken),
            KeyFault::Gate(mismatch) => DecodeError::KeyGate(mismatch),
            KeyFault::Scalar => DecodeError::ScalarKey { table },
            KeyFault::Bad(column, what) => DecodeError::BadKey {
                table,
                column,
                what,
            },
            KeyFault::Missing(column) => DecodeError::MissingKeyColumn {
                table,
                column,
                place: place_word,
            },
            KeyFault::Null(column) => DecodeError::NullKeyColumn {
                table,
                column,
                place: place_word,
            },
        }
    }
}

impl Topic {
    fn new(role: Role, name: &str, reader: KeyReader) -> Self {
        Topic {
            role,
            name: name.to_owned(),
            readers: vec![reader],
            key_schema: None,
            value_schema: None,
            source: Shape::default(),
            deletes: Recent::new(),
            flattened: false,
        }
    }
}

/// What is to be done with a record.
enum Decided<'a> {
    Row(Found<'a>),
    Truncate(usize),
    Ignored(Ignored),
}

/// Remembers a schema by its bytes, to know it again.
#[inline]
fn remember(known: &mut Option<Box<[u8]>>, opened: &Opened<'_>) {
    if let Some(schema) = opened.raw_schema
        && known.as_deref() != Some(schema)
    {
        *known = Some(Box::from(schema));
    }
}

#[inline]
fn check_text(text: &[u8], side: Side) -> Result<(), DecodeError> {
    if let Some(&first @ (0 | 1)) = text.first() {
        return Err(DecodeError::Binary { side, first });
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(DecodeError::BadJson {
            side,
            at: error.valid_up_to(),
            what: "bytes that are not UTF-8",
        }),
    }
}

#[cold]
fn bad_json(side: Side, broken: Broken) -> DecodeError {
    DecodeError::BadJson {
        side,
        at: broken.at,
        what: broken.what,
    }
}
