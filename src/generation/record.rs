//! What is remembered of a generation beside its number, id, tables and counts: the members that
//! `checkpoint::manifest::GenerationState` keeps. Plain data.

use super::stage::Stage;
use headwater_operators::control::PartitionTarget;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A stage was come into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reached {
    /// Which.
    pub stage: Stage,
    /// When, ms since 1970.
    pub at_ms: u64,
    /// When, in job time.
    pub tick_ms: u64,
    /// What it stands on: a word of `promote.source_finished` or `promote.caught_up`, or why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// What that does not prove, a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_proven: Option<String>,
}

/// Where evidence of a generation comes from; a first generation has that of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// The snapshot connector's name in Kafka Connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
    /// The topic of its notifications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<String>,
}

/// READs of one table and one run of the snapshot that were read before the cut. Exact: they are
/// counted where offsets are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadsSeen {
    /// Number of the table.
    pub table: u16,
    /// Debezium's `runId` header; empty when there is none.
    pub run: String,
    /// How many.
    pub rows: u64,
    /// The earliest read time (`source.ts_ms`), ms since 1970; 0 when none is known.
    #[serde(default)]
    pub first_ms: i64,
    /// The latest one.
    #[serde(default)]
    pub last_ms: i64,
    /// A READ with the snapshot marker `last` was among them.
    #[serde(default)]
    pub last_marker: bool,
}

/// What notifications have told of the snapshot, since the last STARTED.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// How many STARTED have been seen.
    pub starts: u32,
    /// When the first was sent, ms since 1970.
    #[serde(default)]
    pub first_started_ms: Option<i64>,
    /// When the last was sent.
    #[serde(default)]
    pub started_ms: Option<i64>,
    /// When COMPLETED was sent, if it has come after the last STARTED.
    #[serde(default)]
    pub completed_ms: Option<i64>,
    /// When SKIPPED was last sent: the connector found that it had nothing to do.
    #[serde(default)]
    pub skipped_ms: Option<i64>,
    /// ABORTED, where a version of Debezium tells of it.
    #[serde(default)]
    pub aborted_ms: Option<i64>,
    /// Tables that were scanned, by the name that Debezium gives.
    #[serde(default)]
    pub scanned: BTreeMap<String, Scanned>,
    /// A COMPLETED came without a STARTED before it.
    #[serde(default)]
    pub completed_early: bool,
    /// Whose notifications these are: the `topic.prefix` of a connector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
    /// Another connector sends into the same topic, and may be meant as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_connector: Option<String>,
}

/// A table was scanned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scanned {
    /// Rows that the connector has read.
    pub rows: u64,
    /// Its status: SUCCEEDED, EMPTY, or what went wrong.
    pub status: String,
}

/// What the live connector must have passed before mutation targets are sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cutoff {
    /// Source time: the moment at which the ends were frozen plus `clock_skew_max`, ms since 1970.
    pub time_ms: i64,
    /// The source's position at that moment, where it can be asked (PostgreSQL: an LSN).
    #[serde(default)]
    pub position: Option<u64>,
}

/// A promotion, or its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promotion {
    /// Its id; the hook gets it, and must do the same thing for the same id.
    pub id: String,
    /// Who asked.
    pub by: String,
    /// When it was begun, ms since 1970.
    pub begun_ms: u64,
    /// The manifest that it was judged by.
    pub manifest: u64,
    /// What was accepted: `ghosts`, …
    #[serde(default)]
    pub accepted: Vec<String>,
    /// When the hook had ended well; null while it is not known to have.
    #[serde(default)]
    pub done_ms: Option<u64>,
    /// What the hook said or how it failed.
    #[serde(default)]
    pub hook: Option<String>,
    /// When it was taken back, and by whom and why.
    #[serde(default)]
    pub demoted: Option<(u64, String, String)>,
}

/// Ends that a person gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// When, ms since 1970.
    pub at_ms: u64,
    /// One past the last READ of each partition; none: the high watermarks of that moment.
    #[serde(default)]
    pub ends: Vec<PartitionTarget>,
}
