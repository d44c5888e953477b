//! What the demo says at its end: a table for a person, one JSON object for a program.

use super::compare::Differences;
use crate::job::Shown;
use crate::run::summary;
use serde::Serialize;
use std::time::Duration;

/// Everything that is told.
pub(super) struct Report {
    pub(super) shown: Shown,
    pub(super) elapsed: Duration,
    pub(super) workers: usize,
    pub(super) sink: Differences,
    pub(super) sick: Differences,
    pub(super) without_markers: bool,
}

#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    summary: crate::summary::Summary,
    differing_rows: u64,
    without_markers: Differences,
}

impl Report {
    fn summary(&self) -> crate::summary::Summary {
        let mut summary = summary(&self.shown, "ready", self.workers, self.elapsed);
        summary.rule_off = self.without_markers;
        summary
    }

    /// One JSON object, on one line.
    pub(super) fn json(&self) -> String {
        let json = Json {
            summary: self.summary(),
            differing_rows: self.sink.differing_rows,
            without_markers: self.sick,
        };
        serde_json::to_string(&json).expect("plain numbers and text")
    }

    /// The table, the set difference, the disease.
    pub(super) fn text(&self) -> String {
        let (sink, sick) = (&self.sink, &self.sick);
        format!(
            "{}\nsink EXCEPT source UNION ALL source EXCEPT sink: {} rows\n\
             the same topics without the marker rule: {} stale, {} resurrected rows\n",
            self.summary().table(),
            sink.differing_rows,
            sick.stale_rows,
            sick.resurrected_rows,
        )
    }
}
