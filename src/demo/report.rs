//! What the demo says at its end: a table for a person, one JSON object for a program.
//!
//! Invariant: counts are of both runs of the job together, and what was emitted again after the
//! restart is told apart. The killed run could not say its last counts, so that "again" is "at
//! least".

use super::compare::Differences;
use super::healthy::Life;
use crate::summary::{Summary, grouped};
use serde::Serialize;
use std::time::Duration;

/// Everything that is told.
pub(super) struct Report {
    pub(super) life: Life,
    pub(super) elapsed: Duration,
    pub(super) workers: usize,
    pub(super) sink: Differences,
    pub(super) sick: Differences,
    pub(super) without_markers: bool,
}

#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    summary: Summary,
    #[serde(flatten)]
    again: Again,
    checkpoints: u64,
    restarts: u32,
    restored: Restored,
    differing_rows: u64,
    without_markers: Differences,
}

/// What came again after the restart, and is counted twice in the summary.
#[derive(Clone, Copy, Serialize)]
struct Again {
    mutations_again: u64,
    reads_again: u64,
}

/// How the job came back.
#[derive(Serialize)]
struct Restored {
    killed_after_seconds: f64,
    down_seconds: f64,
    from_checkpoint: u64,
    markers: u64,
    workers: usize,
}

fn seconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1000.0
}

impl Report {
    fn summary(&self) -> Summary {
        let (killed, last) = (&self.life.killed, &self.life.last);
        let mut summary = last.clone();
        summary.mutations_emitted += killed.mutations_emitted;
        summary.reads_emitted += killed.reads_emitted;
        summary.reads_quarantined += killed.reads_quarantined;
        let by_marker = summary.reads_dropped.entry("marker".to_owned());
        *by_marker.or_default() += killed.reads_dropped_marker;
        summary.workers = self.workers;
        summary.elapsed_seconds = seconds(self.elapsed);
        summary.rule_off = self.without_markers;
        summary
    }

    fn again(&self) -> Again {
        let (killed, from) = (&self.life.killed, &self.life.from);
        Again {
            mutations_again: killed.mutations_emitted.saturating_sub(from.mutations),
            reads_again: killed.snapshot_consumed.saturating_sub(from.reads),
        }
    }

    /// One JSON object, on one line.
    pub(super) fn json(&self) -> String {
        let life = &self.life;
        let json = Json {
            summary: self.summary(),
            again: self.again(),
            checkpoints: life.checkpoints,
            restarts: 1,
            restored: Restored {
                killed_after_seconds: seconds(life.killed_after),
                down_seconds: seconds(life.down),
                from_checkpoint: life.from.number,
                markers: life.from.markers,
                workers: life.workers,
            },
            differing_rows: self.sink.differing_rows,
            without_markers: self.sick,
        };
        serde_json::to_string(&json).expect("plain numbers and text")
    }

    /// The table, the restart, the set difference, the disease.
    pub(super) fn text(&self) -> String {
        let (life, sink, sick) = (&self.life, &self.sink, &self.sick);
        let Again {
            mutations_again,
            reads_again,
        } = self.again();
        format!(
            "{table}\
             checkpoints        {checkpoints}\n\
             restarts           1   killed after {killed:.1} s on {before} workers, \
             {down:.1} s later back on {after}\n\
             restored           from checkpoint {number} with {markers} markers\n\
             emitted again      {mutations} mutations, and {reads} READs decided again, at least: \
             those after that checkpoint\n\
             \n\
             sink EXCEPT source UNION ALL source EXCEPT sink: {differing} rows\n\
             the same topics without the marker rule: {stale} stale, {resurrected} resurrected \
             rows\n",
            table = self.summary().table(),
            checkpoints = grouped(life.checkpoints),
            killed = seconds(life.killed_after),
            before = self.workers,
            down = seconds(life.down),
            after = life.workers,
            number = life.from.number,
            markers = grouped(life.from.markers),
            mutations = grouped(mutations_again),
            reads = grouped(reads_again),
            differing = sink.differing_rows,
            stale = sick.stale_rows,
            resurrected = sick.resurrected_rows,
        )
    }
}
