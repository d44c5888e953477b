//! Rows and keys for sinks: columns by name, as raw JSON or typed by the schema that came along.
//!
//! [`RowReader`] finds the row in a value (`after` of an envelope, or a flattened row without its
//! helper members) and the columns of a key, bare or framed alike. [`Column::cell`] gives a value
//! as SQL takes it. Absent, null and present stay three things: an absent column is not given.
//!
//! It cannot type what came without a schema: a decimal in base64 is then text, a time a number.

use super::envelope::Payload;
use super::framing::{Framing, open};
use super::scan::{Broken, Members, Scanner};
use super::shape::Shape;
use super::text::unescape;
use crate::key::Logical;
use crate::key::encode;
use crate::key::time;
use std::borrow::Cow;

/// Zeros that a decimal's scale may add; Postgres' numeric has at most 16,383 after the point.
const SCALE_MAX: usize = 20_000;

/// Why there is no row; in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at byte {at})")]
pub struct NoColumns {
    at: usize,
    what: &'static str,
}

impl From<Broken> for NoColumns {
    fn from(broken: Broken) -> Self {
        NoColumns {
            at: broken.at,
            what: broken.what,
        }
    }
}

/// Reads rows and keys; remembers the schema it saw last.
#[derive(Clone, Debug, Default)]
pub struct RowReader {
    framing: Framing,
    values: Known,
    keys: Known,
}

#[derive(Clone, Debug, Default)]
struct Known {
    schema: Option<Box<[u8]>>,
    types: Vec<(String, Logical)>,
}

impl Known {
    fn learn(&mut self, schema: Option<&[u8]>, types: fn(&[u8]) -> Vec<(String, Logical)>) {
        if self.schema.as_deref() != schema {
            self.types = schema.map(types).unwrap_or_default();
            self.schema = schema.map(Box::from);
        }
    }
}

/// The columns of one row or key.
#[derive(Clone, Debug)]
pub struct RowView<'a, 'r> {
    text: &'a str,
    flattened: bool,
    scalar: Option<&'r str>,
    types: &'r [(String, Logical)],
}

/// One column of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value as it stands, one JSON value.
    pub raw: &'a str,
    /// Its type, when a schema came along.
    pub logical: Option<Logical>,
}

/// A value as SQL takes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number in decimal text, exact.
    Number(Cow<'a, str>),
    /// Text; dates and times in ISO form, `infinity` as Postgres writes it.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array, map or struct, as the JSON it is.
    Json(&'a str),
}

impl RowReader {
    /// A reader of values and keys.
    pub fn new(framing: Framing) -> Self {
        RowReader {
            framing,
            ..RowReader::default()
        }
    }

    /// The row of a value: `after` of an envelope, or the flattened row.
    ///
    /// # Errors
    /// When the value is not JSON, or an envelope whose `after` is null.
    pub fn row<'a>(&mut self, value: &'a [u8]) -> Result<RowView<'a, '_>, NoColumns> {
        let known = self.values.schema.as_deref();
        let mut opened = open(value, self.framing, known)?;
        opened.scanner.peek();
        let start = opened.scanner.at();
        let payload = Payload::read(&mut opened.scanner, &mut Shape::none())?;
        let end = opened.scanner.at();
        opened.finish()?;
        self.values.learn(opened.schema(), Logical::row_fields);
        let flattened = !payload.is_envelope();
        let text = match payload.after {
            _ if flattened => &value[start..end],
            Some(after) if after.starts_with(b"{") => after,
            _ => {
                return Err(NoColumns {
                    at: start,
                    what: "the envelope has no row in `after`",
                });
            }
        };
        Ok(RowView {
            text: utf8(text)?,
            flattened,
            scalar: None,
            types: &self.values.types,
        })
    }

    /// The columns of a key. `column` names the value of a key that is not an object.
    ///
    /// # Errors
    /// When the key is not JSON, or one bare value and `column` is none.
    pub fn key<'a, 'r>(
        &'r mut self,
        key: &'a [u8],
        column: Option<&'r str>,
    ) -> Result<RowView<'a, 'r>, NoColumns> {
        let mut opened = open(key, self.framing, self.keys.schema.as_deref())?;
        let text = opened.scanner.value()?;
        opened.finish()?;
        let object = text.starts_with(b"{");
        self.keys.learn(opened.schema(), key_types);
        if !object && column.is_none() {
            return Err(NoColumns {
                at: 0,
                what: "the key is not an object with its columns",
            });
        }
        Ok(RowView {
            text: utf8(text)?,
            flattened: false,
            scalar: column.filter(|_| !object),
            types: &self.keys.types,
        })
    }
}

/// The types of a key's columns; that of a bare value has no name.
fn key_types(schema: &[u8]) -> Vec<(String, Logical)> {
    let fields = Logical::fields(schema);
    match Logical::whole(schema) {
        Some((_, logical)) if fields.is_empty() => vec![(String::new(), logical)],
        _ => fields,
    }
}

impl<'a, 'r> RowView<'a, 'r> {
    /// The row as it stands, with the helper members of a flattened one.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Its columns, in the order in which they stand; helper members of a flattened row
    /// (`__deleted`, `__op`, …) are left out.
    pub fn columns(&self) -> Columns<'a, 'r> {
        let mut scanner = Scanner::new(self.text.as_bytes());
        let members = scanner.object().ok();
        Columns {
            view: self.clone(),
            scanner,
            members,
            index: 0,
        }
    }
}

/// Iterates over the columns of a [`RowView`].
#[derive(Clone, Debug)]
pub struct Columns<'a, 'r> {
    view: RowView<'a, 'r>,
    scanner: Scanner<'a>,
    members: Option<Members>,
    index: usize,
}

impl<'a> Iterator for Columns<'a, '_> {
    type Item = Column<'a>;

    fn next(&mut self) -> Option<Column<'a>> {
        if let Some(name) = self.view.scalar.take() {
            return Some(Column {
                name: Cow::Owned(name.to_owned()),
                raw: self.view.text,
                logical: self.view.types.first().map(|(_, logical)| *logical),
            });
        }
        loop {
            let members = self.members.as_mut()?;
            // The view was made from a text that has been walked: there is nothing to fail.
            let raw_name = self.scanner.member(members).ok().flatten()?;
            let raw = self.scanner.value().ok()?;
            let name = unescape(std::str::from_utf8(raw_name).ok()?)?;
            if self.view.flattened && name.starts_with("__") {
                continue;
            }
            let raw = std::str::from_utf8(raw).ok()?;
            let logical = self.logical(&name);
            self.index += 1;
            return Some(Column { name, raw, logical });
        }
    }
}

impl Columns<'_, '_> {
    /// The type of a column; a schema lists them in the order in which they stand.
    fn logical(&self, name: &str) -> Option<Logical> {
        let types = self.view.types;
        let found = match types.get(self.index) {
            Some(of) if of.0 == name => Some(of),
            _ => types.iter().find(|(of, _)| of == name),
        };
        found.map(|(_, logical)| *logical)
    }
}

impl<'a> Column<'a> {
    /// The value as SQL takes it.
    ///
    /// # Errors
    /// In words, when the value is not what its schema says.
    pub fn cell(&self) -> Result<Cell<'a>, &'static str> {
        let raw = self.raw.as_bytes();
        if raw == b"null" {
            return Ok(Cell::Null);
        }
        match self.logical {
            None => bare(self.raw),
            Some(logical) => typed(self.raw, logical),
        }
    }
}

fn bare(raw: &str) -> Result<Cell<'_>, &'static str> {
    Ok(match raw.as_bytes().first() {
        Some(b'"') => Cell::Text(encode::string(raw.as_bytes())?),
        Some(b't' | b'f') => Cell::Bool(raw == "true"),
        Some(b'{' | b'[') => Cell::Json(raw),
        _ => Cell::Number(Cow::Borrowed(raw)),
    })
}

fn typed(raw: &str, logical: Logical) -> Result<Cell<'_>, &'static str> {
    let bytes = raw.as_bytes();
    let owned = |text: String| Ok(Cell::Text(Cow::Owned(text)));
    match logical {
        Logical::Bytes => Ok(Cell::Bytes(encode::base64_of(bytes)?)),
        Logical::Decimal { scale } => {
            let text = decimal_text(&encode::base64_of(bytes)?, scale)?;
            Ok(Cell::Number(Cow::Owned(text)))
        }
        Logical::VariableDecimal => {
            let (unscaled, scale) = encode::variable_decimal(bytes)?;
            Ok(Cell::Number(Cow::Owned(decimal_text(&unscaled, scale)?)))
        }
        Logical::Date => match encode::instant_of(bytes, logical)? {
            time::Instant::Nanos(days) => {
                let days = i64::try_from(days).map_err(|_| "a date was expected")?;
                owned(time::date_text(days))
            }
            _ => Err("a date was expected"),
        },
        Logical::Time(_) => match encode::instant_of(bytes, logical)? {
            time::Instant::Nanos(ns) => owned(time::time_text(ns)),
            _ => Err("a time was expected"),
        },
        Logical::Timestamp(_) => owned(time::timestamp_text(encode::instant_of(bytes, logical)?)),
        _ => bare(raw),
    }
}

/// A decimal as text, with exactly `scale` digits after the point.
fn decimal_text(unscaled: &[u8], scale: i32) -> Result<String, &'static str> {
    let (negative, digits) = encode::decimal_digits(unscaled)?;
    let mut digits = String::from_utf8(digits).map_err(|_| "digits were expected")?;
    let places = scale.unsigned_abs() as usize;
    if places > SCALE_MAX {
        return Err("a decimal whose scale is beyond 20,000");
    }
    if scale < 0 {
        if digits != "0" {
            digits.extend(std::iter::repeat_n('0', places));
        }
    } else if places > 0 {
        if digits.len() <= places {
            digits.insert_str(0, &"0".repeat(places + 1 - digits.len()));
        }
        digits.insert(digits.len() - places, '.');
    }
    Ok(if negative {
        format!("-{digits}")
    } else {
        digits
    })
}

fn utf8(text: &[u8]) -> Result<&str, NoColumns> {
    std::str::from_utf8(text).map_err(|error| NoColumns {
        at: error.valid_up_to(),
        what: "bytes that are not UTF-8",
    })
}

#[cfg(test)]
mod tests;
