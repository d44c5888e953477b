//! The status document: what `GET /v1/status` answers, as types. Its schema is
//! `status.schema.json` beside this file; a test makes it again from these types and compares.
//!
//! Invariant: within a version, members are only added. No row value and no secret is in it.

mod generation;
mod wide;

pub use generation::{
    Began, Cutoff, Demoted, Generation, GenerationList, GenerationReads, Promotion, Step, Wait,
};
pub use wide::{Alarm, Budget, Lag, ReadControl, Retention};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version that this program writes.
pub const VERSION: u32 = 1;

/// The state of one job: of the whole cluster, as process 0 sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// Of this document. It grows when a member changes its meaning or goes away; new members come
    /// without.
    pub version: u32,
    /// What a person should know first.
    pub verdict: Verdict,
    /// The name of the job.
    pub job: String,
    /// What its process does.
    pub stage: Doing,
    /// When this was written, RFC 3339 in UTC.
    pub at: String,
    /// This run; null before it owns the job, and when the job is down.
    pub run: Option<Run>,
    /// What the job cannot prove, a sentence each.
    pub not_proven: Vec<String>,
    /// The generations, oldest first.
    pub generations: Vec<Generation>,
    /// Mutations since this run began; null when not known.
    pub mutations: Option<Mutations>,
    /// READs since this run began; null when not known.
    pub reads: Option<Reads>,
    /// Records that are no row, by kind, since this run began.
    pub ignored: BTreeMap<String, u64>,
    /// Markers; null when not known.
    pub markers: Option<Markers>,
    /// The last durable checkpoint; null before the first one of this run.
    pub checkpoint: Option<Checkpoint>,
    /// The target, as process 0 writes it; null when not known.
    pub sink: Option<Sink>,
    /// What keeps process 0 waiting just now, without being an error.
    pub troubles: Vec<Trouble>,
    /// What a person should look at.
    pub alarms: Vec<Alarm>,
    /// How READs are read; null when not known.
    pub read_control: Option<ReadControl>,
    /// Which markers are kept; null when not known.
    pub retention: Option<Retention>,
    /// How far behind its end each topic is read, where that is known.
    pub lag: Vec<Lag>,
}

/// What a person should know first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// In one word.
    pub word: Word,
    /// What it waits for, or what is wrong.
    pub text: String,
    /// Who acts.
    pub acts: Actor,
    /// A command to give, if there is one that helps.
    pub command: Option<String>,
    /// Whether it may be left alone over night.
    pub leave_alone: bool,
}

/// A verdict in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It does not read yet.
    Starting,
    /// Something is waited for.
    NotReady,
    /// Every READ and all mutations up to the targets are in the target.
    CaughtUp,
    /// A generation is ready, and a criterion of promotion is not met.
    Ready,
    /// A generation is ready, and every criterion of promotion is met.
    Promotable,
    /// The generation is promoted.
    Promoted,
    /// It can never be ready any more in this generation: READs came behind the end.
    Spoiled,
    /// The target may hold stale rows, or lacks some that are in quarantine.
    Unsafe,
    /// The generation was given up.
    Aborted,
    /// A clean stop is under way.
    Stopping,
    /// Something went wrong; the process ends.
    Failed,
    /// No process of the job answers.
    Down,
}

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// The job does, by itself.
    Job,
    /// A person must.
    Person,
    /// Nobody needs to.
    Nobody,
}

/// What a process of the job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// It checks, claims the job, waits for its peers.
    Starting,
    /// It merges.
    Running,
    /// A clean stop was asked for.
    Stopping,
    /// An error was met; the process ends.
    Failed,
    /// Nothing answers; the document tells what the last checkpoint knows.
    Down,
}

/// One run of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Run {
    /// Its number.
    pub incarnation: u32,
    /// Processes of the cluster.
    pub processes: usize,
    /// Workers of all processes.
    pub workers: usize,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// Since then.
    pub up_seconds: f64,
    /// The checkpoint that it goes on from; null for a fresh job.
    pub restored_from: Option<u64>,
    /// Whether the marker rule is off (`--without-markers`).
    pub rule_off: bool,
    /// Which markers are kept, in words.
    pub keeps: String,
    /// Why an older run that still lives could write the target after this one; null when it is
    /// fenced.
    pub not_fenced: Option<String>,
    /// What is wrong with the lease that shows others that this run lives; null when nothing is.
    pub lease_trouble: Option<String>,
}

/// Counts of mutations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mutations {
    /// Read from topics.
    pub read: u64,
    /// Emitted: all of them, sooner or later, but the dead letters.
    pub emitted: u64,
    /// Not emitted, as they could not be decoded.
    pub dead_letters: u64,
}

/// Counts of READs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reads {
    /// Read from topics.
    pub read: u64,
    /// Emitted.
    pub emitted: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Kept from the target, by reason.
    pub quarantined: BTreeMap<String, u64>,
    /// Emitted although they may be stale (`on_forgotten = "emit"`).
    pub emitted_unsafe: u64,
}

/// The markers of all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Markers {
    /// How many.
    pub count: u64,
    /// Bytes that they take; null when not known.
    pub bytes: Option<u64>,
}

/// A durable checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// Its number.
    pub number: u64,
    /// When it became durable, RFC 3339 in UTC; null when not known.
    pub at: Option<String>,
    /// From its command to its manifest; null when not known.
    pub seconds: Option<f64>,
    /// Bytes that it had to write; null when not known.
    pub bytes_new: Option<u64>,
    /// Bytes of all objects that it names.
    pub bytes: u64,
}

/// The target, as one process writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sink {
    /// Its kind.
    pub kind: String,
    /// Folded rows written by this process in this run.
    pub rows_written: u64,
    /// How it does.
    pub state: SinkState,
    /// Why it is tried again, or has failed; null when all is well.
    pub reason: Option<String>,
    /// Attempts in a row that failed.
    pub attempts_failed: u32,
    /// How far what is durable lies behind what was read.
    pub behind_seconds: f64,
}

/// How a target does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SinkState {
    /// It takes rows.
    Running,
    /// A write is tried again.
    Retrying,
    /// It takes nothing any more.
    Failed,
}

/// Who waits, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trouble {
    /// Who.
    pub who: String,
    /// What is wrong.
    pub what: String,
}

/// What `GET /v1/checkpoints` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointList {
    /// As [`Status::version`].
    pub version: u32,
    /// The last ones of this run, newest first.
    pub checkpoints: Vec<Checkpoint>,
}

#[cfg(test)]
mod tests {
    use super::Status;
    use schemars::generate::SchemaSettings;

    /// With `HEADWATER_WRITE_SCHEMA` set it writes the file instead.
    #[test]
    fn the_schema_in_the_repository_is_that_of_the_types() {
        let generator = SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator();
        let schema = generator.into_root_schema_for::<Status>();
        let text = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/control/status.schema.json"
        );
        if std::env::var_os("HEADWATER_WRITE_SCHEMA").is_some() {
            std::fs::write(path, &text).expect("written");
        }
        let kept = std::fs::read_to_string(path).expect("it is in the repository");
        assert!(
            kept == text,
            "src/control/status.schema.json is old: run this test with HEADWATER_WRITE_SCHEMA=1"
        );
    }
}
