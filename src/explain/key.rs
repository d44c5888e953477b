//! A key as a person writes it, into the canonical form that records of that key have.
//!
//! A key with its schema, as a topic holds it, is read as the decoder reads it. One without is read
//! by the classes of the columns that are known of the table, so that a decimal may be written as a
//! number and a time as ISO text, whatever the topics have.
//!
//! Invariant: the columns are exactly those of the table's key, or both sides are named.
//!
//! It cannot tell the unit of a time that is given as a count, and refuses it.

use crate::decode::Framing;
use crate::decode::framing::open;
use crate::decode::scan::{Broken, Scanner};
use crate::decode::text::unescape;
use crate::error::Error;
use crate::key::encode::put;
use crate::key::reader::{KeyFault, KeyReader, Place};
use crate::key::{Class, KeyGate, KeyShape, KnownShape, Logical};
use crate::table::{Role, Table};
use headwater_operators::fingerprint::Fingerprinter;

/// A key, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its columns in name order, as JSON.
    pub json: String,
    /// What its fingerprint is made of.
    pub canonical: Vec<u8>,
    /// Its columns and their classes.
    pub shape: KeyShape,
    /// Whether records of the table have shown such a key.
    pub seen: bool,
}

impl Key {
    /// Its fingerprint in a job with this secret.
    pub fn fingerprint(&self, secret: [u8; 16], table: &str) -> u128 {
        Fingerprinter::new(secret).table(table).of(&self.canonical)
    }
}

/// The shape of a table's keys, of either topic: the gate has let no other pass.
pub fn shape_of(shapes: &[KnownShape], table: usize) -> Option<&KeyShape> {
    let known = shapes.iter().find(|known| known.table == table);
    known.map(|known| &known.shape)
}

/// The number of a table, by its name.
///
/// # Errors
/// Of usage: there is none of that name.
pub fn table_number(tables: &[Table], name: &str) -> Result<usize, Error> {
    let found = tables.iter().position(|table| table.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        Error::usage(format!("`{name}` is no table of this job"))
            .line(format!("expected  one of: {}", known.join(", ")))
    })
}

/// Reads a key: a JSON object of its columns, or the bare value of its one column. `shape` is what
/// is known of the table's keys.
///
/// # Errors
/// Of usage: it is no JSON, its columns are others, or a value is not of its column's class. Values
/// are never in the error.
pub fn read(
    table: &Table,
    shape: Option<&KeyShape>,
    framing: Framing,
    text: &str,
) -> Result<Key, Error> {
    let reading = Reading { table, shape };
    let broken = |broken: Broken| reading.broken(broken);
    let mut opened = open(text.as_bytes(), framing, None).map_err(broken)?;
    opened.scanner.peek();
    let payload = opened.scanner.value().map_err(broken)?;
    opened.finish().map_err(broken)?;
    match opened.schema() {
        Some(schema) => reading.with_schema(schema, payload),
        None => reading.bare(payload),
    }
}

struct Reading<'a> {
    table: &'a Table,
    shape: Option<&'a KeyShape>,
}

impl Reading<'_> {
    fn with_schema(&self, schema: &[u8], payload: &[u8]) -> Result<Key, Error> {
        let gate = KeyGate::new(std::slice::from_ref(self.table));
        if let Some(shape) = self.shape {
            gate.restore(&[KnownShape {
                table: 0,
                role: Role::Snapshot,
                shape: shape.clone(),
            }]);
        }
        let mut reader = KeyReader::new(0, Role::Mutations, self.table.key.clone());
        let mut canonical = Vec::new();
        reader
            .read(&gate, Some(schema), payload, Place::Key, &mut canonical)
            .map_err(|fault| self.fault(fault))?;
        let mut json = Vec::new();
        reader.write_json(payload, &mut json);
        let shapes = gate.shapes();
        let shape = shape_of(&shapes, 0).expect("the gate has let it pass");
        Ok(Key {
            json: String::from_utf8_lossy(&json).into_owned(),
            canonical,
            shape: shape.clone(),
            seen: self.shape.is_some(),
        })
    }

    fn bare(&self, payload: &[u8]) -> Result<Key, Error> {
        let columns = self.columns(payload)?;
        let shape = match self.shape {
            Some(shape) => shape.clone(),
            None => self.shape_as_given(&columns)?,
        };
        if !shape.has_exactly(columns.iter().map(|(name, _)| name.as_str())) {
            return Err(self.other_columns(&columns, &shape.to_string()));
        }
        let (mut json, mut canonical) = (Vec::new(), Vec::new());
        for ((name, raw), (_, class)) in columns.iter().zip(shape.columns()) {
            let put = logical(*class, raw).and_then(|logical| put(raw, logical, &mut canonical));
            put.map_err(|what| self.bad_value(name, *class, what))?;
            let name = serde_json::to_string(name).expect("text");
            json.push(format!("{name}:{}", String::from_utf8_lossy(raw)));
        }
        Ok(Key {
            json: format!("{{{}}}", json.join(",")),
            canonical,
            shape,
            seen: self.shape.is_some(),
        })
    }

    /// Names and raw values, in name order.
    fn columns<'t>(&self, payload: &'t [u8]) -> Result<Vec<(String, &'t [u8])>, Error> {
        let mut scanner = Scanner::new(payload);
        if scanner.peek() != b'{' {
            return Ok(vec![(self.only_column()?, payload)]);
        }
        let broken = |broken: Broken| self.broken(broken);
        let mut columns: Vec<(String, &[u8])> = Vec::new();
        let mut members = scanner.object().map_err(broken)?;
        while let Some(raw) = scanner.member(&mut members).map_err(broken)? {
            let name = std::str::from_utf8(raw).ok().and_then(unescape);
            let name = name.ok_or_else(|| self.wrong("a column's name is no text"))?;
            let value = scanner.value().map_err(broken)?;
            if columns.iter().any(|(other, _)| *other == name) {
                return Err(self.wrong(&format!("column `{name}` stands there twice")));
            }
            columns.push((name.into_owned(), value));
        }
        columns.sort();
        Ok(columns)
    }

    /// The one column that a bare value is of.
    fn only_column(&self) -> Result<String, Error> {
        let names: Vec<&str> = match (self.shape, &self.table.key) {
            (Some(shape), _) => shape.columns().iter().map(|(n, _)| n.as_str()).collect(),
            (None, Some(names)) => names.iter().map(String::as_str).collect(),
            (None, None) => {
                return Err(self.wrong("a bare value; no key of the table was seen yet"));
            }
        };
        match names[..] {
            [name] => Ok(name.to_owned()),
            _ => {
                let key = names.join(", ");
                Err(self.wrong(&format!(
                    "a bare value, but the key has the columns {{{key}}}"
                )))
            }
        }
    }

    /// The shape of a key that nobody has seen: what the values look like.
    fn shape_as_given(&self, columns: &[(String, &[u8])]) -> Result<KeyShape, Error> {
        if let Some(names) = &self.table.key {
            let mut given: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
            given.sort_unstable();
            wanted.sort_unstable();
            if given != wanted {
                return Err(self.other_columns(columns, &format!("{{{}}}", wanted.join(", "))));
            }
        }
        if columns.is_empty() {
            return Err(self.wrong("an object without columns"));
        }
        let classes = columns.iter().map(|(name, raw)| {
            let class = Logical::of_bare(raw).and_then(Logical::class);
            let class = class.ok_or_else(|| self.wrong(&format!("column `{name}` is no key")))?;
            Ok((name.clone(), class))
        });
        Ok(KeyShape::new(classes.collect::<Result<_, Error>>()?))
    }

    fn fault(&self, fault: KeyFault) -> Error {
        match fault {
            KeyFault::Broken(broken) => self.broken(broken),
            KeyFault::Missing(column) => self.wrong(&format!("column `{column}` is missing")),
            KeyFault::Null(column) => self.wrong(&format!("column `{column}` is null")),
            KeyFault::Bad(column, what) => self.wrong(&format!("column `{column}`: {what}")),
            KeyFault::Scalar => self.wrong("a value that is no object of columns"),
            KeyFault::Gate(mismatch) => self
                .headline()
                .line(format!("found     {}", mismatch.found.shape))
                .line(format!("expected  {}", mismatch.known.shape)),
        }
    }

    fn headline(&self) -> Error {
        Error::usage(format!("that is no key of `{}`", self.table.name))
    }

    fn other_columns(&self, columns: &[(String, &[u8])], expected: &str) -> Error {
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        self.headline()
            .line(format!("found     {{{}}}", names.join(", ")))
            .line(format!("expected  {expected}"))
    }

    fn bad_value(&self, name: &str, class: Class, what: &str) -> Error {
        self.headline()
            .line(format!("found     column `{name}`: {what}"))
            .line(format!("expected  {}", form(class)))
    }

    fn broken(&self, broken: Broken) -> Error {
        self.wrong(&format!("{} at byte {}", broken.what, broken.at))
    }

    fn wrong(&self, found: &str) -> Error {
        let expected = match self.shape {
            Some(shape) => format!("a JSON object of {shape}"),
            None => "a JSON object of the key's columns: {\"id\":5}".to_owned(),
        };
        self.headline()
            .line(format!("found     {found}"))
            .line(format!("expected  {expected}; text in \"quotes\""))
    }
}

/// How a value of a class is read that stands there without a schema.
fn logical(class: Class, raw: &[u8]) -> Result<Logical, &'static str> {
    let text = raw.first() == Some(&b'"');
    Ok(match class {
        Class::Number if raw.first() == Some(&b'{') => Logical::VariableDecimal,
        Class::Number => Logical::Number,
        Class::Text => Logical::Text,
        Class::Bool => Logical::Bool,
        Class::Bytes => Logical::Bytes,
        Class::Uuid => Logical::Uuid,
        Class::Date if text => Logical::IsoDate,
        Class::Date => Logical::Date,
        Class::Time | Class::TimeTz | Class::Timestamp | Class::TimestampTz if !text => {
            return Err("a count, whose unit is not known");
        }
        Class::Time => Logical::IsoTime,
        Class::TimeTz => Logical::ZonedTime,
        Class::Timestamp => Logical::IsoTimestamp,
        Class::TimestampTz => Logical::ZonedTimestamp,
    })
}

/// How a value of a class is written.
fn form(class: Class) -> &'static str {
    match class {
        Class::Number => "a number: 5 or 1.50",
        Class::Text => "text in quotes: \"a\"",
        Class::Bool => "true or false",
        Class::Bytes => "base64 in quotes: \"AQI=\"",
        Class::Uuid => "a uuid in quotes",
        Class::Date => "a date: \"2026-11-29\", or the days since 1970",
        Class::Time => "a time: \"10:00:03\"",
        Class::TimeTz => "a time with its offset: \"10:00:03Z\"",
        Class::Timestamp => "a timestamp: \"2026-11-29T10:00:03\"",
        Class::TimestampTz => "a timestamp with its offset: \"2026-11-29T10:00:03Z\"",
    }
}

#[cfg(test)]
mod tests;
