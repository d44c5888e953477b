//! Columns of a row and of its key, borrowed from the JSON as it came.
//!
//! Understands bare and `schema`/`payload` framing (wire.md W1), envelopes (the row is `after`) and
//! flattened rows (W12). Values stay raw JSON: no number passes through a float.
//!
//! It cannot read Avro, and does not judge what an envelope means; that was decided before.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Columns by name, in the order in which they came, and the Connect schema when there was one.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    schema: Option<&'a RawValue>,
    in_after: bool,
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
            .map(|(name, value)| (name.as_ref(), value.get()))
    }

    /// The raw JSON value of a column; `None` when it did not come (which is not null).
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }
}

/// The columns of a row; `None` when the value holds no row (null, or `after` is null).
///
/// # Errors
/// Says what is not as it should be, without the value.
pub fn columns(value: &[u8]) -> Result<Option<Columns<'_>>, String> {
    let Some(mut columns) = object(value)? else {
        return Ok(None);
    };
    let raw = |columns: &Columns<'_>, name| columns.get(name).map(first_byte);
    let after = raw(&columns, "after");
    let is_envelope = raw(&columns, "op") == Some(b'"')
        && (matches!(after, Some(b'{' | b'n')) || raw(&columns, "source") == Some(b'{'));
    if !is_envelope {
        columns.fields.retain(|(name, _)| !name.starts_with("__"));
        return Ok(Some(columns));
    }
    match columns.get("after").filter(|after| *after != "null") {
        None => Ok(None),
        Some(after) => Ok(Some(Columns {
            fields: fields(after)?,
            schema: columns.schema,
            in_after: true,
        })),
    }
}

/// The columns of a record key.
///
/// # Errors
/// When it is no JSON object, framed or not.
pub fn key(key: &[u8]) -> Result<Columns<'_>, String> {
    object(key)?.ok_or_else(|| "the key is null".to_owned())
}

fn first_byte(raw: &str) -> u8 {
    raw.as_bytes().first().copied().unwrap_or(0)
}

/// The members of an object, out of its framing.
fn object(bytes: &[u8]) -> Result<Option<Columns<'_>>, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| "not UTF-8 text".to_owned())?
        .trim();
    if text == "null" {
        return Ok(None);
    }
    let bare = fields(text)?;
    let unframed = match bare.as_slice() {
        [(a, schema), (b, payload)] if a == "schema" && b == "payload" => Some((schema, payload)),
        [(a, payload), (b, schema)] if a == "payload" && b == "schema" => Some((schema, payload)),
        _ => None,
    };
    let is_schema = |schema: &str| schema == "null" || schema.contains("\"type\"");
    match unframed.filter(|(schema, _)| is_schema(schema.get())) {
        Some((_, payload)) if payload.get() == "null" => Ok(None),
        Some((schema, payload)) => Ok(Some(Columns {
            fields: fields(payload.get())?,
            schema: Some(*schema).filter(|schema| schema.get() != "null"),
            in_after: false,
        })),
        None => Ok(Some(Columns {
            fields: bare,
            schema: None,
            in_after: false,
        })),
    }
}

fn fields(text: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, String> {
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|error| {
        // serde_json quotes what it found when the type is wrong; a row value must not get out.
        match error.classify() {
            serde_json::error::Category::Data => "not a JSON object".to_owned(),
            _ => format!("not JSON: column {} of the text", error.column()),
        }
    })?;
    Ok(fields.0)
}

struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    fields.push((name.0, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
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
    in_after: bool,
}

impl RowSchema {
    /// That of a column.
    pub fn column(&self, name: &str) -> Option<&Field> {
        let root = self.root.as_deref()?;
        match self.in_after {
            true => root.member("after")?.member(name),
            false => root.member(name),
        }
    }
}

impl Schemas {
    const KEPT: usize = 4;

    /// The schema of a row's columns; nothing when it came without, or it cannot be read.
    pub fn of(&mut self, columns: &Columns<'_>) -> RowSchema {
        let Some(schema) = columns.schema.map(RawValue::get) else {
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
            in_after: columns.in_after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Schemas, columns, key};

    fn shown(value: &str) -> Option<String> {
        let columns = columns(value.as_bytes()).unwrap()?;
        let each = columns
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        Some(each.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rows_are_found_in_every_framing() {
        let row = Some("id=1 greeting=\"hi\"".to_owned());
        let after = r#"{"id":1,"greeting":"hi"}"#;
        let bare = format!(r#"{{"before":null,"after":{after},"source":{{}},"op":"c"}}"#);
        assert_eq!(shown(&bare), row);
        assert_eq!(
            shown(&format!(r#"{{"schema":null,"payload":{bare}}}"#)),
            row
        );
        assert_eq!(
            shown(r#"{"id":1,"greeting":"hi","__deleted":"false","__op":"c"}"#),
            row
        );
        assert_eq!(
            shown(r#"{"before":{"id":1},"after":null,"source":{},"op":"d"}"#),
            None
        );
        assert_eq!(shown("null"), None);
        assert_eq!(shown(r#"{"schema":null,"payload":null}"#), None);
        // A table with these two columns.
        assert_eq!(
            shown(r#"{"schema":1,"payload":2}"#),
            Some("schema=1 payload=2".into())
        );
        assert!(columns(b"[1]").unwrap_err().contains("object"));
        assert!(columns(b"\xff").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn schemas_are_those_of_after_and_of_the_key() {
        let framed = r#"{"schema":{"type":"struct","fields":[{"type":"struct","field":"after",
            "fields":[{"type":"int32","field":"d","name":"io.debezium.time.Date"}]}]},
            "payload":{"after":{"d":1},"op":"c"}}"#;
        let mut schemas = Schemas::default();
        let row = columns(framed.as_bytes()).unwrap().unwrap();
        let schema = schemas.of(&row);
        let name = schema.column("d").unwrap().name.as_deref();
        assert_eq!(name, Some("io.debezium.time.Date"));
        let framed = r#"{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},
            "payload":{"id":1}}"#;
        let key = key(framed.as_bytes()).unwrap();
        assert_eq!(schemas.of(&key).column("id").unwrap().connect_type, "int64");
    }
}
