//! Columns of a row and of its key, borrowed from the JSON as it came: the one place where sinks
//! look inside records.
//!
//! Understands bare and `schema`/`payload` framing (wire.md W1), envelopes (the row is `after`) and
//! flattened rows (W12), by the same parser as the decoder. Values stay raw JSON: no number passes
//! through a float. Absent, null and present stay three things: an absent column is not given.
//!
//! It cannot read Avro, and does not judge what an envelope means; that was decided before. It
//! always finds the framing out by itself, whatever `decode.value_framing` says.

use super::envelope::Payload;
use super::framing::{Framing, open};
use super::scan::{Broken, Scanner};
use super::shape::Shape;
use super::text::unescape;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Columns by name, in the order in which they came, and the Connect schema when there was one.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    fields: Vec<(Cow<'a, str>, &'a str)>,
    schema: Option<&'a str>,
    place: Place,
}

/// Where the schema of a column stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Among the members of the schema.
    #[default]
    Member,
    /// Among those of its member `after`.
    After,
    /// It is the schema.
    Whole,
}

impl<'a> Columns<'a> {
    /// Names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_ref())
    }

    /// Names and raw JSON values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_ref(), *value))
    }

    /// The raw JSON value of a column; `None` when it did not come (which is not null).
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }
}

/// The columns of a row; `None` when the value holds no row (null, or `after` is null). Helper
/// members of a flattened row (`__deleted`, `__op`, …) are left out.
///
/// # Errors
/// Says what is not as it should be, without the value.
pub fn columns(value: &[u8]) -> Result<Option<Columns<'_>>, String> {
    let text = utf8(value)?;
    let mut opened = open(value, Framing::Auto, None).map_err(not_json)?;
    let mut ahead = opened.scanner.clone();
    if ahead.peek() != b'{' {
        let raw = opened.scanner.value().map_err(not_json)?;
        opened.finish().map_err(not_json)?;
        return match raw {
            b"null" => Ok(None),
            _ => Err("not a JSON object".to_owned()),
        };
    }
    let start = ahead.at();
    let payload = Payload::read(&mut opened.scanner, &mut Shape::none()).map_err(not_json)?;
    let whole = &value[start..opened.scanner.at()];
    opened.finish().map_err(not_json)?;
    let schema = opened.schema().map(|schema| part(text, schema));
    let (row, place) = match payload.after {
        _ if !payload.is_envelope() => (whole, Place::Member),
        Some(after) if after.starts_with(b"{") => (after, Place::After),
        Some(b"null") | None => return Ok(None),
        Some(_) => return Err("`after` is not a JSON object".to_owned()),
    };
    let mut fields = fields(part(text, row))?;
    if place == Place::Member {
        fields.retain(|(name, _)| !name.starts_with("__"));
    }
    Ok(Some(Columns {
        fields,
        schema,
        place,
    }))
}

/// The columns of a record key. A key that is one bare value is the only column of `configured`,
/// the table's own key columns.
///
/// # Errors
/// When it is null, or neither a JSON object nor named by `configured`.
pub fn key<'a>(key: &'a [u8], configured: Option<&[String]>) -> Result<Columns<'a>, String> {
    let text = utf8(key)?;
    let mut opened = open(key, Framing::Auto, None).map_err(not_json)?;
    let raw = part(text, opened.scanner.value().map_err(not_json)?);
    opened.finish().map_err(not_json)?;
    let schema = opened.schema().map(|schema| part(text, schema));
    let (fields, place) = match (raw.as_bytes().first(), configured) {
        (Some(b'{'), _) => (fields(raw)?, Place::Member),
        _ if raw == "null" => return Err("the key is null".to_owned()),
        (_, Some([only])) => (vec![(Cow::Owned(only.clone()), raw)], Place::Whole),
        _ => return Err("not a JSON object".to_owned()),
    };
    Ok(Columns {
        fields,
        schema,
        place,
    })
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

fn not_json(broken: Broken) -> String {
    format!("not JSON: {} (at byte {})", broken.what, broken.at)
}

/// The text of `bytes`, which are a part of those of `text`.
fn part<'a>(text: &'a str, bytes: &[u8]) -> &'a str {
    let start = bytes.as_ptr().addr() - text.as_ptr().addr();
    &text[start..start + bytes.len()]
}

/// The members of an object.
fn fields(text: &str) -> Result<Vec<(Cow<'_, str>, &str)>, String> {
    let mut scanner = Scanner::new(text.as_bytes());
    let mut members = scanner.object().map_err(not_json)?;
    let mut fields = Vec::new();
    while let Some(name) = scanner.member(&mut members).map_err(not_json)? {
        let name = unescape(part(text, name)).ok_or("a column name that is no text")?;
        let value = scanner.value().map_err(not_json)?;
        fields.push((name, part(text, value)));
    }
    Ok(fields)
}

/// The Connect schema of one field.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Field {
    /// Connect type: `int64`, `string`, `bytes`, `array`, …
    #[serde(rename = "type")]
    pub connect_type: String,
    /// The logical name, such as `io.debezium.time.Date`.
    #[serde(default)]
    pub name: Option<String>,
    /// The name of the column, when it is a member of a struct.
    #[serde(default)]
    pub field: Option<String>,
    /// Members of a struct.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// Of the elements of an array.
    #[serde(default)]
    pub items: Option<Box<Field>>,
    /// Such as `scale`.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

impl Field {
    fn member(&self, name: &str) -> Option<&Field> {
        self.fields
            .iter()
            .find(|field| field.field.as_deref() == Some(name))
    }
}

/// Parsed schemas. The same text comes with every record, so the last few are kept.
#[derive(Default)]
pub struct Schemas {
    recent: Vec<(Box<str>, Arc<Field>)>,
}

/// The schemas of the columns of a row.
#[derive(Clone, Default)]
pub struct RowSchema {
    root: Option<Arc<Field>>,
    place: Place,
}

impl RowSchema {
    /// That of a column.
    pub fn column(&self, name: &str) -> Option<&Field> {
        let root = self.root.as_deref()?;
        match self.place {
            Place::Member => root.member(name),
            Place::After => root.member("after")?.member(name),
            Place::Whole => Some(root),
        }
    }
}

impl Schemas {
    const KEPT: usize = 4;

    /// The schema of a row's columns; nothing when it came without, or it cannot be read.
    pub fn of(&mut self, columns: &Columns<'_>) -> RowSchema {
        let Some(schema) = columns.schema else {
            return RowSchema::default();
        };
        let found = self.recent.iter().find(|(text, _)| **text == *schema);
        let root = found.map(|(_, root)| Arc::clone(root)).or_else(|| {
            let root = Arc::new(serde_json::from_str::<Field>(schema).ok()?);
            self.recent.truncate(Self::KEPT - 1);
            self.recent.insert(0, (schema.into(), Arc::clone(&root)));
            Some(root)
        });
        RowSchema {
            root,
            place: columns.place,
        }
    }
}

#[cfg(test)]
mod tests;
