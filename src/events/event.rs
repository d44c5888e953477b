//! One transition as it is told: one line of JSON.
//!
//! Invariant: it holds no row value and no key; members are added, never taken away or renamed.

use super::told::Step;
use crate::checkpoint::manifest::GenerationState;
use crate::generation::Stage;
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// `JOB/GENERATION/SEQ@AT_MS`: the same when the transition is told again. The time tells it
    /// from another one of its place, which comes about when the job goes back to an older
    /// checkpoint.
    pub id: String,
    /// The job.
    pub job: String,
    /// The generation's id.
    pub generation: String,
    /// Its number, from 1.
    pub number: u32,
    /// Place in the generation's timeline, from 1.
    pub seq: usize,
    /// The stage that it has come into.
    pub stage: Stage,
    /// When, ms since 1970.
    pub at_ms: u64,
    /// What that stands on, or why.
    pub evidence: Option<String>,
    /// What that does not prove.
    pub not_proven: Option<String>,
    /// Names of the tables that it goes on with.
    pub tables: Vec<String>,
    /// A durable manifest that says so.
    pub manifest: u64,
}

impl Event {
    /// The transition `step` of a manifest; `names` are those of all tables.
    pub fn of(
        job: &str,
        names: &[String],
        (manifest, generations): (u64, &[GenerationState]),
        step: Step,
    ) -> Event {
        let state = &generations[step.generation];
        let (reached, seq) = (&state.reached[step.index], step.index + 1);
        let tables = state.tables.iter();
        let tables = tables.filter(|table| !state.dropped_tables.contains(table));
        let name = |table: &u16| {
            let name = names.get(usize::from(*table)).cloned();
            name.unwrap_or_else(|| table.to_string())
        };
        Event {
            id: format!("{job}/{}/{seq}@{}", state.id, reached.at_ms),
            job: job.to_owned(),
            generation: state.id.clone(),
            number: state.number,
            seq,
            stage: reached.stage,
            at_ms: reached.at_ms,
            evidence: reached.evidence.clone(),
            not_proven: reached.not_proven.clone(),
            tables: tables.map(name).collect(),
            manifest,
        }
    }

    /// As JSON.
    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data")
    }
}
