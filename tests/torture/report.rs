//! What a torture run tells: one JSON object.
//!
//! It cannot tell READs that were emitted into SQLite: they leave no line.

use crate::child::Ended;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The counts of a scenario, or of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Kills by kind: `all:` or `one:` of the processes and when; `fault:` by the program itself.
    pub(crate) kills: BTreeMap<String, u64>,
    pub(crate) restarts: u64,
    /// Manifests that were written, without the claims of the incarnations.
    pub(crate) checkpoints: u64,
    /// Of the histories.
    pub(crate) changes: u64,
    pub(crate) reads: u64,
    /// Distinct READs in JSON lines.
    pub(crate) reads_emitted: u64,
    /// Dropped by the last incarnations, as they said.
    pub(crate) reads_dropped: u64,
    /// Lines audited.
    pub(crate) lines: u64,
    pub(crate) differing_rows: u64,
    pub(crate) breaches: u64,
    /// Rows that a reader of SQLite saw go back.
    pub(crate) gone_back: u64,
}

impl Tally {
    pub(crate) fn kill(&mut self, kind: &str) {
        *self.kills.entry(kind.to_owned()).or_default() += 1;
    }

    /// Takes what a run that came to its end says of itself.
    pub(crate) fn end(&mut self, ended: &[Ended]) {
        self.restarts += 1;
        let said = ended.first().map_or("", |ended| &*ended.out);
        let summary: Value = serde_json::from_str(said).unwrap_or_default();
        let dropped = summary["reads_dropped"].as_object();
        let counts = dropped.into_iter().flat_map(|reasons| reasons.values());
        self.reads_dropped += counts.filter_map(Value::as_u64).sum::<u64>();
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        for (kind, count) in &other.kills {
            *self.kills.entry(kind.clone()).or_default() += count;
        }
        self.restarts += other.restarts;
        self.checkpoints += other.checkpoints;
        self.changes += other.changes;
        self.reads += other.reads;
        self.reads_emitted += other.reads_emitted;
        self.reads_dropped += other.reads_dropped;
        self.lines += other.lines;
        self.differing_rows += other.differing_rows;
        self.breaches += other.breaches;
        self.gone_back += other.gone_back;
    }

    pub(crate) fn json(&self, seed: u64, scenarios: usize, elapsed: Duration) -> Value {
        json!({
            "seed": seed,
            "scenarios": scenarios,
            "seconds": elapsed.as_millis() as f64 / 1_000.0,
            "kills": self.kills.values().sum::<u64>(),
            "kills_by_kind": self.kills,
            "restarts": self.restarts,
            "checkpoints_seen": self.checkpoints,
            "changes": self.changes,
            "reads": self.reads,
            "reads_emitted_jsonl": self.reads_emitted,
            "reads_dropped_at_end": self.reads_dropped,
            "lines_audited": self.lines,
            "differing_rows": self.differing_rows,
            "breaches": self.breaches,
            "rows_gone_back": self.gone_back,
        })
    }
}
