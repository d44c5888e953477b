//! Which topic a record came from: the dataflow carries numbers of tables and generations alone.
//!
//! Invariant: a generation's topics are known before any of its READs leaves the merge: commands
//! pass here before they reach an operator.
//!
//! It cannot forget: a late READ may be written long after its generation.

use crate::table::{Role, Table};
use headwater_operators::control::Command;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// See the module.
#[derive(Debug)]
pub struct TopicNames {
    tables: Arc<[Table]>,
    own: RwLock<BTreeMap<(u32, u16), String>>,
}

impl TopicNames {
    /// Those of the configuration, until a generation brings its own.
    pub fn new(tables: Arc<[Table]>) -> Self {
        let own = RwLock::default();
        TopicNames { tables, own }
    }

    /// A command passes.
    pub fn told(&self, command: &Command) {
        let Command::Open {
            generation, topics, ..
        } = command
        else {
            return;
        };
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        for (table, topic) in topics {
            own.insert((*generation, *table), topic.clone());
        }
    }

    /// The topic of a record; none of a table that the job does not have.
    pub fn of(&self, role: Role, table: u16, generation: u32) -> Option<String> {
        if role == Role::Snapshot {
            let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(topic) = own.get(&(generation, table)) {
                return Some(topic.clone());
            }
        }
        let table = self.tables.get(usize::from(table))?;
        Some(table.topic(role).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::TopicNames;
    use crate::table::{Role, Table};
    use headwater_operators::control::Command;

    #[test]
    fn a_generation_has_topics_of_its_own() {
        let tables = ["a", "b"].map(|name| Table {
            name: name.to_owned(),
            mutations: "m".to_owned(),
            snapshot: "s".to_owned(),
            key: None,
        });
        let names = TopicNames::new(tables.into());
        names.told(&Command::Open {
            generation: 2,
            tables: vec![1],
            opened_at_ms: 0,
            id: "g2".to_owned(),
            topics: vec![(1, "s2".to_owned())],
            partitions: Vec::new(),
            not_before_ms: 0,
        });
        let of = |table, generation| names.of(Role::Snapshot, table, generation);
        assert_eq!(of(1, 2).as_deref(), Some("s2"));
        assert_eq!(of(1, 1).as_deref(), Some("s"));
        assert_eq!(of(0, 2).as_deref(), Some("s"));
        assert_eq!(of(2, 2), None);
        assert_eq!(names.of(Role::Mutations, 1, 0).as_deref(), Some("m"));
    }
}
