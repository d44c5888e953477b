//! What the status document tells of one generation.

use super::Actor;
use crate::generation::Stage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A generation: one run of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Generation {
    /// Its id.
    pub id: String,
    /// Its number, from 1.
    pub number: u32,
    /// Its tables, by name.
    pub tables: Vec<String>,
    /// Tables that it goes on without.
    pub dropped_tables: Vec<String>,
    /// The snapshot topic of each table.
    pub topics: BTreeMap<String, String>,
    /// How far it is.
    pub stage: Stage,
    /// When it was opened, RFC 3339 in UTC; null when not known.
    pub opened_at: Option<String>,
    /// When its snapshot began; null when not known.
    pub began: Option<Began>,
    /// When it came into which stage, oldest first.
    pub timeline: Vec<Step>,
    /// What it waits for; null when it is ready, promoted or over.
    pub waits_for: Option<Wait>,
    /// Snapshot partitions that were read to their end.
    pub partitions_at_end: usize,
    /// All its snapshot partitions.
    pub partitions: usize,
    /// Mutation partitions that were read to their target.
    pub targets_reached: usize,
    /// All mutation partitions that have a target; 0 until targets are sampled.
    pub targets: usize,
    /// Its READs in this run.
    pub reads: GenerationReads,
    /// READs that its snapshot has in all; null when not known.
    pub reads_total: Option<u64>,
    /// READs that may be stale, of all runs.
    pub unsafe_reads: u64,
    /// READs behind a frozen end, of all runs.
    pub late_reads: u64,
    /// Mutations of its tables that could not be decoded and that nobody has accepted, of all runs.
    pub dead_letters: u64,
    /// Those that a person has accepted.
    pub dead_letters_accepted: u64,
    /// What the live connector must pass before it is caught up; null before its ends are frozen.
    pub live_cutoff: Option<Cutoff>,
    /// The snapshot connector's name in Kafka Connect; null when not known.
    pub connector: Option<String>,
    /// The topic of its notifications; null when there is none.
    pub notifications: Option<String>,
    /// What persons have accepted.
    pub accepted: Vec<String>,
    /// Its last promotion.
    pub promotion: Option<Promotion>,
}

/// When a snapshot began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Began {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// How that is known.
    pub known_by: String,
}

/// A generation came into a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Step {
    /// The stage.
    pub stage: Stage,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// What it stands on; null when nothing has to be shown.
    pub evidence: Option<String>,
    /// What that does not prove; null when it leaves nothing open.
    pub not_proven: Option<String>,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Wait {
    /// In words.
    pub text: String,
    /// Who acts.
    pub acts: Actor,
    /// A command to give, if there is one that helps.
    pub command: Option<String>,
    /// Whether it may be left alone over night.
    pub leave_alone: bool,
}

/// READs of one generation in this run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GenerationReads {
    /// Read from its topics.
    pub read: u64,
    /// Emitted.
    pub emitted: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// That may be stale (`unsafe`), lie behind the end (`late`), or whose key's last mutation
    /// could not be decoded (`poisoned`).
    pub kept_back: BTreeMap<String, u64>,
}

/// What the live connector must pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cutoff {
    /// Source time, RFC 3339 in UTC.
    pub at: String,
    /// The source's position, where it could be asked.
    pub position: Option<u64>,
}

/// A promotion, or its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promotion {
    /// Its id, which the hook gets.
    pub id: String,
    /// Who asked.
    pub by: String,
    /// When it was begun, RFC 3339 in UTC.
    pub begun_at: String,
    /// The checkpoint that it was judged by.
    pub manifest: u64,
    /// What was accepted.
    pub accepted: Vec<String>,
    /// When its hook had ended well; null while it is not known to have.
    pub done_at: Option<String>,
    /// What the hook said, or how it failed.
    pub hook: Option<String>,
    /// That it was taken back.
    pub demoted: Option<Demoted>,
}

/// A promotion was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Demoted {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Who asked.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What `GET /v1/generations` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerationList {
    /// As [`super::Status::version`].
    pub version: u32,
    /// Oldest first.
    pub generations: Vec<Generation>,
}
