//! A connector of Kafka Connect as its worker describes it: configuration, state, tasks.
//!
//! Invariant: a configuration may hold passwords, so `Debug` shows names and states alone. It is
//! the tasks that say whether a connector runs: the connector itself says RUNNING over failed ones.
//!
//! It cannot see the worker's own settings (its default converters, say): Connect does not tell.

pub mod ask;
pub mod names;
mod route;

use std::collections::BTreeMap;
use std::fmt;

/// One connector of a worker.
#[derive(Clone, PartialEq, Eq)]
pub struct Connector {
    /// Its name.
    pub name: String,
    /// Its configuration, as it was put.
    pub config: BTreeMap<String, String>,
    /// What the connector says of itself: RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED.
    pub state: String,
    /// Its tasks.
    pub tasks: Vec<TaskState>,
}

/// How a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    /// Its number.
    pub id: u64,
    /// As of the connector.
    pub state: String,
    /// The first line of what ended it.
    pub trace: Option<String>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connector {
            name, state, tasks, ..
        } = self;
        write!(f, "Connector({name} {state} {tasks:?})")
    }
}

impl Connector {
    /// A setting that was put and is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        let value = self.config.get(key)?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// A setting, or its default.
    pub fn or<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.get(key).unwrap_or(default)
    }

    /// A list with commas; nothing when it was not put.
    pub fn list(&self, key: &str) -> Vec<&str> {
        let items = self.get(key).unwrap_or_default().split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).collect()
    }

    /// A setting that is true or false.
    pub fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key)
            .map_or(default, |value| value.eq_ignore_ascii_case("true"))
    }

    /// Whether it is Debezium's for PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        self.or("connector.class", "")
            .ends_with("PostgresConnector")
    }

    /// Its single message transforms by name and the last part of their class.
    pub fn transforms(&self) -> Vec<(&str, &str)> {
        let class = |name: &&str| self.get(&format!("transforms.{name}.type"));
        let short = |class: &'_ str| class.rfind(['.', '$']).map_or(0, |at| at + 1);
        let names = self.list("transforms").into_iter();
        names
            .map(|name| {
                let class = class(&name).unwrap_or("");
                (name, &class[short(class)..])
            })
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests;
