//! The run-time key gate: both topics of a table must show one key shape, and keep it.
//!
//! One for the process, shared by all workers. Asked only when a worker meets a shape anew, so its
//! lock is never on the hot path; between, a worker compares with the shape it had last.
//!
//! Invariant: no two shapes of one table ever pass. A refused shape is not remembered.

use super::encode::needs_schema;
use super::{Class, KeyShape};
use crate::table::{Role, Table};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A shape as the gate knows it; what a manifest keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownShape {
    /// Index of the table.
    pub table: usize,
    /// Which of its topics showed it.
    pub role: Role,
    /// The shape.
    pub shape: KeyShape,
}

/// One topic of a table and the shape of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// What the topic is for.
    pub role: Role,
    /// Its name.
    pub topic: String,
    /// The shape of its keys.
    pub shape: KeyShape,
}

/// Two shapes of one table that cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMismatch {
    /// Name of the table.
    pub table: String,
    /// What was known: of the other topic, or of the same one earlier.
    pub known: Side,
    /// What was found now.
    pub found: Side,
    /// Whether `key = [..]` is set for the table.
    pub configured: bool,
}

/// Remembers the key shape of each side of each table.
#[derive(Debug)]
pub struct KeyGate {
    tables: Vec<Table>,
    known: Mutex<Vec<Sides>>,
}

#[derive(Clone, Debug, Default)]
struct Sides {
    mutations: Option<KeyShape>,
    snapshot: Option<KeyShape>,
}

impl Sides {
    fn of(&mut self, role: Role) -> &mut Option<KeyShape> {
        match role {
            Role::Mutations => &mut self.mutations,
            Role::Snapshot => &mut self.snapshot,
        }
    }
}

impl KeyGate {
    /// A gate that knows no shape yet.
    pub fn new(tables: &[Table]) -> Self {
        KeyGate {
            tables: tables.to_vec(),
            known: Mutex::new(vec![Sides::default(); tables.len()]),
        }
    }

    /// Compares a shape with what is known and remembers it. Also how a shape that another process
    /// or a manifest knows is brought in.
    ///
    /// # Errors
    /// When it differs from the shape of the other topic, or of this one before. Nothing is
    /// remembered then.
    ///
    /// # Panics
    /// When `table` is no index of the tables that the gate was made for.
    pub fn observe(
        &self,
        table: usize,
        role: Role,
        shape: &KeyShape,
    ) -> Result<(), Box<KeyMismatch>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let sides = &mut known[table];
        for at in [role, other(role)] {
            if let Some(before) = sides.of(at)
                && before != shape
            {
                return Err(Box::new(KeyMismatch {
                    table: self.tables[table].name.clone(),
                    known: self.side(table, at, before),
                    found: self.side(table, role, shape),
                    configured: self.tables[table].key.is_some(),
                }));
            }
        }
        *sides.of(role) = Some(shape.clone());
        Ok(())
    }

    /// A gate that knows what this one does, for keys that must teach it nothing.
    pub(crate) fn copy(&self) -> KeyGate {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        KeyGate {
            tables: self.tables.clone(),
            known: Mutex::new(known.clone()),
        }
    }

    /// Whether it is known what keys of a table look like.
    pub(crate) fn knows(&self, table: usize) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let sides = &known[table];
        sides.mutations.is_some() || sides.snapshot.is_some()
    }

    /// Takes over what a manifest knows; a shape of a table that is not there is left out.
    pub fn restore(&self, shapes: &[KnownShape]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for shape in shapes {
            if let Some(sides) = known.get_mut(shape.table) {
                *sides.of(shape.role) = Some(shape.shape.clone());
            }
        }
    }

    /// All shapes that are known.
    pub fn shapes(&self) -> Vec<KnownShape> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shapes = Vec::new();
        for (table, sides) in known.iter_mut().enumerate() {
            for role in [Role::Mutations, Role::Snapshot] {
                if let Some(shape) = sides.of(role).clone() {
                    shapes.push(KnownShape { table, role, shape });
                }
            }
        }
        shapes
    }

    /// Whether any side of `table` is known to have exactly these key columns.
    pub(crate) fn has_columns(&self, table: usize, names: &[String]) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let sides = &mut known[table];
        let fits = |shape: &Option<KeyShape>| {
            let names = names.iter().map(String::as_str);
            shape.as_ref().is_some_and(|shape| shape.has_exactly(names))
        };
        fits(&sides.mutations) || fits(&sides.snapshot)
    }

    fn side(&self, table: usize, role: Role, shape: &KeyShape) -> Side {
        let configured = &self.tables[table];
        let topic = match role {
            Role::Mutations => &configured.mutations,
            Role::Snapshot => &configured.snapshot,
        };
        Side {
            role,
            topic: topic.clone(),
            shape: shape.clone(),
        }
    }
}

fn other(role: Role) -> Role {
    match role {
        Role::Mutations => Role::Snapshot,
        Role::Snapshot => Role::Mutations,
    }
}

/// Headline, both sides, what would happen, what to do.
impl fmt::Display for KeyMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.table;
        if self.known.role == self.found.role {
            writeln!(
                f,
                "the key of `{table}` has changed within its {} topic",
                self.found.role.word()
            )?;
            writeln!(f, "  before  {}  {}", self.known.topic, self.known.shape)?;
            writeln!(f, "  now     {}  {}", self.found.topic, self.found.shape)?;
        } else {
            writeln!(f, "the key of `{table}` differs between its two topics")?;
            let (mutations, snapshot) = match self.found.role {
                Role::Mutations => (&self.found, &self.known),
                Role::Snapshot => (&self.known, &self.found),
            };
            let width = mutations
                .topic
                .chars()
                .count()
                .max(snapshot.topic.chars().count());
            writeln!(
                f,
                "  mutations  {:width$}  {}",
                mutations.topic, mutations.shape
            )?;
            writeln!(
                f,
                "  snapshot   {:width$}  {}",
                snapshot.topic, snapshot.shape
            )?;
        }
        writeln!(
            f,
            "  Markers could never match READs, so every stale row would pass."
        )?;
        write!(f, "  {}", self.remedy())
    }
}

impl std::error::Error for KeyMismatch {}

impl KeyMismatch {
    fn remedy(&self) -> String {
        let (one, two) = (self.known.shape.columns(), self.found.shape.columns());
        let names = |columns: &[(String, Class)]| -> Vec<String> {
            columns.iter().map(|(name, _)| name.clone()).collect()
        };
        let (one_names, two_names) = (names(one), names(two));
        if one_names == two_names {
            return self.remedy_for_classes(one, two);
        }
        let common: Vec<String> = one_names
            .iter()
            .filter(|name| two_names.contains(name))
            .map(|name| format!("\"{name}\""))
            .collect();
        let router = one_names
            .iter()
            .chain(&two_names)
            .any(|name| name.starts_with("__dbz__"));
        let mut text = if common.is_empty() || self.configured {
            "Make both connectors send the same key columns (message.key.columns)".to_owned()
        } else {
            format!("Set `key = [{}]` for this table", common.join(", "))
        };
        if router {
            text.push_str(", or `key.enforce.uniqueness=false` in the connector's router");
        }
        text + "."
    }

    fn remedy_for_classes(&self, one: &[(String, Class)], two: &[(String, Class)]) -> String {
        let (mut text, mut bare) = (String::new(), false);
        for ((name, before), (_, now)) in one.iter().zip(two) {
            if before != now {
                bare |= needs_schema(*before) != needs_schema(*now);
                text = format!(
                    "Column `{name}` is {} on one side and {} on the other.",
                    before.word(),
                    now.word()
                );
            }
        }
        text.push_str(if bare {
            " Give both connectors the same key.converter with the same schemas.enable: without \
             a schema a number or text is all that can be seen."
        } else {
            " Give both connectors the same key.converter, decimal.handling.mode and \
             time.precision.mode; if the column's type was changed, start a new generation and a \
             new mutation topic."
        });
        text
    }
}

#[cfg(test)]
mod tests;
