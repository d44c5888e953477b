//! What a rebuild took: `GET /v1/generations/ID/report`.
//!
//! Invariant: what is known of this run alone is named as such; what is not known is null.
//!
//! It cannot tell peaks of earlier runs: manifests keep none.

use super::document::{Generation, VERSION};
use super::requests::unknown;
use super::router::json;
use super::{Shared, lock};
use crate::checkpoint::Saved;
use crate::job::ShownGeneration;
use crate::status::Counts;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Members of a report that are of this run alone.
const OF_THIS_RUN: [&str; 3] = ["peaks", "checkpoints", "generation.reads"];

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// As that of the status document.
    pub(super) version: u32,
    /// The job.
    pub(super) job: String,
    /// Stages with their evidence, counts by reason, and the rest.
    pub(super) generation: Generation,
    /// The most that was held while its READs were decided; null when that was not seen.
    pub(super) peaks: Option<Peaks>,
    /// Checkpoints before, during and after it; null when none was seen.
    pub(super) checkpoints: Checkpoints,
    /// Members that are of this run alone: a restart began them anew.
    pub(super) of_this_run: Vec<String>,
}

/// The most that was held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Peaks {
    /// Markers of all workers.
    pub(super) markers: u64,
    /// Memory that they took.
    pub(super) marker_bytes: u64,
    /// All objects of a checkpoint in the store.
    pub(super) checkpoint_bytes: u64,
}

/// Checkpoints by when they were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Checkpoints {
    /// Before it was opened.
    pub(super) before: Option<Made>,
    /// While its READs were decided.
    pub(super) during: Option<Made>,
    /// When it was ready, or over.
    pub(super) after: Option<Made>,
}

/// Some checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    /// How many.
    pub(super) count: u64,
    /// Bytes that all of them had to write.
    pub(super) bytes_new: u64,
    /// The most that one of them named.
    pub(super) bytes_max: u64,
    /// From command to manifest, of all of them.
    pub(super) seconds: f64,
    /// The longest.
    pub(super) seconds_max: f64,
}

impl Made {
    fn add(&mut self, saved: &Saved) {
        let seconds = saved.took_ms as f64 / 1_000.0;
        self.count += 1;
        self.bytes_new += saved.bytes_new;
        self.bytes_max = self.bytes_max.max(saved.bytes);
        self.seconds += seconds;
        self.seconds_max = self.seconds_max.max(seconds);
    }

    fn any(&self) -> Option<Made> {
        (self.count > 0).then(|| self.clone())
    }
}

/// What was seen of each generation since this run began.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracker {
    /// All checkpoints so far.
    made: Made,
    looked: bool,
    tracks: BTreeMap<String, Track>,
}

#[derive(Clone, Debug, Default)]
struct Track {
    peaks: Option<Peaks>,
    /// Not known of one that was there when the run began.
    before: Option<Made>,
    during: Made,
    after: Made,
}

impl Tracker {
    /// Notes what is shown, and a checkpoint that is new.
    pub(super) fn look(
        &mut self,
        generations: &[ShownGeneration],
        counts: &Counts,
        new: Option<&Saved>,
    ) {
        let before = self.looked.then(|| self.made.clone());
        for generation in generations {
            let state = &generation.state;
            let track = self.tracks.entry(state.id.clone());
            let track = track.or_insert_with(|| Track {
                before: before.clone(),
                ..Track::default()
            });
            let made = match state.stage.takes_reads() {
                true => {
                    let peaks = track.peaks.get_or_insert_default();
                    peaks.markers = peaks.markers.max(counts.markers);
                    peaks.marker_bytes = peaks.marker_bytes.max(counts.marker_bytes);
                    let bytes = new.map_or(0, |saved| saved.bytes);
                    peaks.checkpoint_bytes = peaks.checkpoint_bytes.max(bytes);
                    &mut track.during
                }
                false => &mut track.after,
            };
            new.into_iter().for_each(|saved| made.add(saved));
        }
        new.into_iter().for_each(|saved| self.made.add(saved));
        self.looked |= !generations.is_empty();
    }

    fn of(&self, id: &str) -> (Option<Peaks>, Checkpoints) {
        let Some(track) = self.tracks.get(id) else {
            return (None, Checkpoints::default());
        };
        let checkpoints = Checkpoints {
            before: track.before.as_ref().and_then(Made::any),
            during: track.during.any(),
            after: track.after.any(),
        };
        (track.peaks.clone(), checkpoints)
    }
}

/// A report without what only a running job knows.
pub(super) fn saved(job: &str, generation: Generation) -> Report {
    Report {
        version: VERSION,
        job: job.to_owned(),
        generation,
        peaks: None,
        checkpoints: Checkpoints::default(),
        of_this_run: OF_THIS_RUN.map(str::to_owned).to_vec(),
    }
}

/// `GET /v1/generations/ID/report`.
pub(super) async fn report(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    let mut all = shared.status().generations.into_iter();
    let Some(generation) = all.find(|generation| generation.id == id) else {
        return unknown(&id);
    };
    let live = lock(&shared.live);
    let seen = live.as_ref().map(|live| live.tracker.of(&id));
    let (peaks, checkpoints) = seen.unwrap_or_default();
    let report = Report {
        peaks,
        checkpoints,
        ..saved(&shared.job, generation)
    };
    json(StatusCode::OK, &report)
}

#[cfg(test)]
mod tests {
    use super::Tracker;
    use crate::checkpoint::Saved;
    use crate::generation::Stage;
    use crate::job::ShownGeneration;
    use crate::status::Counts;

    fn shown(id: &str, stage: Stage) -> ShownGeneration {
        let mut one = ShownGeneration::default();
        one.state.id = id.to_owned();
        one.state.stage = stage;
        one
    }

    fn saved(number: u64) -> Saved {
        Saved {
            number,
            bytes_new: 10 * number,
            bytes: 100 * number,
            took_ms: 1_000 * number,
            at_ms: 0,
        }
    }

    fn markers(markers: u64) -> Counts {
        Counts {
            markers,
            marker_bytes: 16 * markers,
            ..Counts::default()
        }
    }

    #[test]
    fn peaks_are_of_the_rebuild_and_checkpoints_of_their_time() {
        let mut tracker = Tracker::default();
        let g1 = shown("g1", Stage::Promoted);
        tracker.look(std::slice::from_ref(&g1), &markers(9_999), Some(&saved(1)));
        let open = [g1.clone(), shown("g2", Stage::Open)];
        tracker.look(&open, &markers(5), None);
        tracker.look(&open, &markers(70), Some(&saved(2)));
        tracker.look(&open, &markers(60), Some(&saved(3)));
        let ready = [g1, shown("g2", Stage::Ready)];
        tracker.look(&ready, &markers(500), Some(&saved(4)));
        let (peaks, made) = tracker.of("g2");
        let peaks = peaks.expect("it was seen open");
        assert_eq!(
            (peaks.markers, peaks.marker_bytes, peaks.checkpoint_bytes),
            (70, 1_120, 300)
        );
        let count = |made: Option<super::Made>| made.map_or(0, |made| made.count);
        let during = made.during.clone().expect("two");
        assert_eq!((during.bytes_new, during.bytes_max), (50, 300));
        assert_eq!((during.seconds, during.seconds_max), (5.0, 3.0));
        assert_eq!((count(made.before), count(made.after)), (1, 1));
        // It was there when the run began: what was before is not known, and no peak was seen.
        let (peaks, made) = tracker.of("g1");
        assert!(peaks.is_none() && made.before.is_none());
        assert_eq!(count(made.after), 4);
        assert!(tracker.of("g9").0.is_none());
    }
}
