//! Reads the key of a record into canonical bytes, by a plan made from the first one like it.
//!
//! A [`Plan`] is what a key text of one layout needs: the raw names in the order they stand, their
//! types and their places in the canonical order. A text that does not fit the plan gets a new one,
//! and no plan is used before the [`KeyGate`] has let its shape pass.
//!
//! Invariant: bytes are given out only for a key that has every column, once, and none null.

use super::encode::put;
use super::gate::{KeyGate, KeyMismatch};
use super::logical::Logical;
use super::{Class, KeyShape};
use crate::decode::scan::{Broken, Scanner};
use crate::decode::text::unescape;
use crate::table::Role;

/// Layouts remembered at a time: bare and framed, and one schema change of each.
const PLANS_MAX: usize = 4;

/// Where a key is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The record's key.
    Key,
    /// `after` of the envelope, or the flattened row.
    After,
    /// `before` of the envelope.
    Before,
}

impl Place {
    /// The word used in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Place::Key => "the record's key",
            Place::After => "the row",
            Place::Before => "`before`",
        }
    }
}

/// Why there are no canonical bytes.
#[derive(Debug)]
pub(crate) enum KeyFault {
    /// The text is not JSON.
    Broken(Broken),
    /// A configured column is not there.
    Missing(String),
    /// A column is null.
    Null(String),
    /// A value is not what its type says, or is no key.
    Bad(String, &'static str),
    /// The key is neither an object nor the one configured column.
    Scalar,
    /// The gate refuses its shape.
    Gate(Box<KeyMismatch>),
}

impl From<Broken> for KeyFault {
    fn from(broken: Broken) -> Self {
        KeyFault::Broken(broken)
    }
}

#[derive(Clone, Debug)]
struct Field {
    raw: Box<[u8]>,
    name: String,
    logical: Logical,
    class: Class,
    /// Its place in name order.
    rank: usize,
}

#[derive(Clone, Debug)]
struct Plan {
    schema: Option<Box<[u8]>>,
    from_row: bool,
    /// In the order in which they stand.
    fields: Vec<Field>,
}

/// Reads the keys of one table in one role.
#[derive(Clone, Debug)]
pub(crate) struct KeyReader {
    table: usize,
    role: Role,
    wanted: Option<Vec<String>>,
    plans: Vec<Plan>,
    /// For each rank: the field and the range of its value in the text.
    found: Vec<(usize, usize, usize)>,
}

/// What a walk by a plan came to.
enum Walk {
    Fits,
    Differs,
}

impl KeyReader {
    /// For one table; `wanted` are its configured key columns.
    pub(crate) fn new(table: usize, role: Role, wanted: Option<Vec<String>>) -> Self {
        KeyReader {
            table,
            role,
            wanted,
            plans: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Index of its table.
    pub(crate) fn table(&self) -> usize {
        self.table
    }

    /// The configured key columns.
    pub(crate) fn wanted(&self) -> Option<&[String]> {
        self.wanted.as_deref()
    }

    /// Appends the canonical bytes of the key in `text`, a whole JSON value.
    #[inline]
    pub(crate) fn read(
        &mut self,
        gate: &KeyGate,
        schema: Option<&[u8]>,
        text: &[u8],
        place: Place,
        out: &mut Vec<u8>,
    ) -> Result<(), KeyFault> {
        let from_row = place != Place::Key;
        for index in 0..self.plans.len() {
            let plan = &self.plans[index];
            if plan.from_row != from_row || plan.schema.as_deref() != schema {
                continue;
            }
            if let Walk::Fits = self.walk(index, text)? {
                if index != 0 {
                    self.plans.swap(0, index);
                }
                return self.put(text, out);
            }
        }
        self.plan(gate, schema, text, place)?;
        match self.walk(0, text)? {
            Walk::Fits => self.put(text, out),
            // A plan made from a text fits that text; said as an error, as bad input never panics.
            Walk::Differs => Err(KeyFault::Bad(
                String::new(),
                "it does not fit its own layout",
            )),
        }
    }

    /// Walks `text` by a plan and notes where the values are, in canonical order.
    fn walk(&mut self, index: usize, text: &[u8]) -> Result<Walk, KeyFault> {
        let plan = &self.plans[index];
        let columns = plan.fields.len();
        self.found.clear();
        self.found.resize(columns, (0, 0, 0));
        let mut scanner = Scanner::new(text);
        if scanner.peek() != b'{' {
            let end = text.len();
            let value = scanner.at();
            self.found[0] = (0, value, end);
            let scalar = self.wanted.is_some() && columns == 1 && !plan.from_row;
            return Ok(if scalar && self.class_fits(index, 0, &text[value..end]) {
                Walk::Fits
            } else {
                Walk::Differs
            });
        }
        let mut members = scanner.object()?;
        let (mut next, mut matched) = (0, 0);
        while let Some(name) = scanner.member(&mut members)? {
            let value = scanner.value()?;
            let end = scanner.at();
            let plan = &self.plans[index];
            let field = match plan.fields.get(next) {
                Some(field) if *field.raw == *name => Some(next),
                _ => plan.fields.iter().position(|field| *field.raw == *name),
            };
            let Some(field) = field else {
                if self.wanted.is_some() {
                    continue;
                }
                return Ok(Walk::Differs);
            };
            if !self.class_fits(index, field, value) {
                return Ok(Walk::Differs);
            }
            self.found[self.plans[index].fields[field].rank] = (field, end - value.len(), end);
            next = field + 1;
            matched += 1;
        }
        Ok(
            if matched == columns && self.found.iter().all(|found| found.2 != 0) {
                Walk::Fits
            } else {
                Walk::Differs
            },
        )
    }

    #[inline]
    fn class_fits(&self, index: usize, field: usize, value: &[u8]) -> bool {
        let plan = &self.plans[index];
        if plan.schema.is_some() {
            return value != b"null";
        }
        Logical::of_bare(value) == Some(plan.fields[field].logical)
    }

    /// Appends the columns read last, as a JSON object; `text` is what they were read from.
    pub(crate) fn write_json(&self, text: &[u8], out: &mut Vec<u8>) {
        out.push(b'{');
        for (rank, &(field, start, end)) in self.found.iter().enumerate() {
            if rank > 0 {
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(&self.plans[0].fields[field].raw);
            out.extend_from_slice(b"\":");
            out.extend_from_slice(&text[start..end]);
        }
        out.push(b'}');
    }

    fn put(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), KeyFault> {
        for &(field, start, end) in &self.found {
            let field = &self.plans[0].fields[field];
            put(&text[start..end], field.logical, out)
                .map_err(|what| KeyFault::Bad(field.name.clone(), what))?;
        }
        Ok(())
    }

    /// Makes the plan of `text`, asks the gate, and puts it first.
    #[cold]
    fn plan(
        &mut self,
        gate: &KeyGate,
        schema: Option<&[u8]>,
        text: &[u8],
        place: Place,
    ) -> Result<(), KeyFault> {
        let types = match (schema, place) {
            (None, _) => None,
            (Some(schema), Place::Key) => Some(Logical::fields(schema)),
            (Some(schema), _) => Some(Logical::row_fields(schema)),
        };
        let mut fields = if Scanner::new(text).peek() == b'{' {
            self.fields(types.as_deref(), text)?
        } else {
            vec![self.scalar(schema, text, place)?]
        };
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        let ranks: Vec<usize> = fields
            .iter()
            .map(|field| names.partition_point(|name| *name < field.name.as_str()))
            .collect();
        for (field, rank) in fields.iter_mut().zip(ranks) {
            field.rank = rank;
        }
        let columns = fields.iter().map(|field| (field.name.clone(), field.class));
        let shape = KeyShape::new(columns.collect());
        gate.observe(self.table, self.role, &shape)
            .map_err(KeyFault::Gate)?;
        self.plans.truncate(PLANS_MAX - 1);
        let plan = Plan {
            schema: schema.map(Box::from),
            from_row: place != Place::Key,
            fields,
        };
        self.plans.insert(0, plan);
        Ok(())
    }

    fn fields(
        &self,
        types: Option<&[(String, Logical)]>,
        text: &[u8],
    ) -> Result<Vec<Field>, KeyFault> {
        let mut fields: Vec<Field> = Vec::new();
        let mut scanner = Scanner::new(text);
        let mut members = scanner.object()?;
        while let Some(raw) = scanner.member(&mut members)? {
            let value = scanner.value()?;
            let name = std::str::from_utf8(raw).ok().and_then(unescape);
            let name = name.ok_or(scanner.broken("a member name that is no text"))?;
            if let Some(wanted) = &self.wanted
                && !wanted.iter().any(|column| *column == name)
            {
                continue;
            }
            if fields.iter().any(|field| field.name == name) {
                return Err(KeyFault::Bad(name.into_owned(), "it stands there twice"));
            }
            if value == b"null" {
                return Err(KeyFault::Null(name.into_owned()));
            }
            let logical = match types.map(|types| types.iter().find(|(of, _)| *of == name)) {
                Some(Some((_, logical))) => Some(*logical),
                Some(None) => {
                    return Err(KeyFault::Bad(
                        name.into_owned(),
                        "its schema has no such field",
                    ));
                }
                None => Logical::of_bare(value),
            };
            fields.push(field(raw, &name, logical)?);
        }
        let wanted = self.wanted.iter().flatten();
        let missing = wanted
            .filter(|column| !fields.iter().any(|field| field.name == **column))
            .min();
        match missing {
            Some(column) => Err(KeyFault::Missing(column.clone())),
            None if fields.is_empty() => Err(KeyFault::Scalar),
            None => Ok(fields),
        }
    }

    /// A key that is one bare value, as `ExtractField$Key` leaves it: named by configuration only.
    fn scalar(&self, schema: Option<&[u8]>, text: &[u8], place: Place) -> Result<Field, KeyFault> {
        let (Some([column]), Place::Key) = (self.wanted.as_deref(), place) else {
            return Err(KeyFault::Scalar);
        };
        if text == b"null" {
            return Err(KeyFault::Null(column.clone()));
        }
        let logical = match schema {
            Some(schema) => Logical::whole(schema).map(|(_, logical)| logical),
            None => Logical::of_bare(text),
        };
        field(column.as_bytes(), column, logical)
    }
}

fn field(raw: &[u8], name: &str, logical: Option<Logical>) -> Result<Field, KeyFault> {
    let found = logical.and_then(|logical| Some((logical, logical.class()?)));
    let Some((logical, class)) = found else {
        let what = "an array, map or struct is no key";
        return Err(KeyFault::Bad(name.to_owned(), what));
    };
    Ok(Field {
        raw: Box::from(raw),
        name: name.to_owned(),
        logical,
        class,
        rank: 0,
    })
}
