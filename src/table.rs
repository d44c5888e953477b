//! One table of a job: its name, its two topics and where its key comes from.

use serde::{Deserialize, Serialize};

/// A table as configured. Its index in the configuration is its number in the dataflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// `schema.table`, as in the envelope's source block.
    pub name: String,
    /// The shared topic of live mutations.
    pub mutations: String,
    /// The private topic of READs.
    pub snapshot: String,
    /// The key columns, when they are not simply those of the record key.
    pub key: Option<Vec<String>>,
}

impl Table {
    /// Its topic of a role.
    pub fn topic(&self, role: Role) -> &str {
        match role {
            Role::Mutations => &self.mutations,
            Role::Snapshot => &self.snapshot,
        }
    }
}

/// What a topic is for. The role decides how an envelope is read, never its `op` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Live mutations.
    Mutations,
    /// READs of one snapshot.
    Snapshot,
}

impl Role {
    /// The word used in messages.
    pub fn word(self) -> &'static str {
        match self {
            Role::Mutations => "mutations",
            Role::Snapshot => "snapshot",
        }
    }
}
