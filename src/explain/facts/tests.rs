//! The whole table: every verdict is that of the rule, whatever else is told.

use super::{Explanation, Facts, Kept, Outcome, Source};
use crate::checkpoint::manifest::{GenerationState, JobTime};
use crate::generation::Stage;
use crate::key::{Class, KeyShape};
use headwater_operators::decide::{OnForgotten, Verdict, decide};
use headwater_operators::merge::Looked;
use headwater_operators::retention::{KeepMarkers, Window};

const TTL: KeepMarkers = KeepMarkers::Ttl { ttl_ms: 1_000 };
const UNTIL_READY: KeepMarkers = KeepMarkers::UntilReady {
    open_late_max_ms: 500,
};

/// A job of one table at 2,000 ms.
pub(in crate::explain) struct World {
    pub(in crate::explain) looked: Looked,
    pub(in crate::explain) generations: Vec<GenerationState>,
    pub(in crate::explain) keep: KeepMarkers,
    pub(in crate::explain) on_forgotten: OnForgotten,
    pub(in crate::explain) rule: bool,
    pub(in crate::explain) seen: bool,
    pub(in crate::explain) source: Source,
}

/// Generation 1 of table 0, whose window begins at 100, open if it is said so.
pub(in crate::explain) fn world(marker: Option<u64>, open: bool, forgotten: Option<u64>) -> World {
    World {
        looked: Looked {
            id: 1,
            marker,
            poison: None,
            forgotten_through: forgotten,
            windows: if open {
                vec![(1, Window { start_ms: 100 })]
            } else {
                Vec::new()
            },
        },
        generations: vec![GenerationState {
            number: 1,
            id: "g1".to_owned(),
            tables: vec![0],
            opened_at_ms: 150,
            stage: if open { Stage::Open } else { Stage::Ready },
            ..GenerationState::default()
        }],
        keep: UNTIL_READY,
        on_forgotten: OnForgotten::Quarantine,
        rule: true,
        seen: true,
        source: Source::Live,
    }
}

impl World {
    pub(in crate::explain) fn explained(&self) -> Explanation {
        Explanation::of(&Facts {
            job: "hello",
            table: "public.hello",
            number: 0,
            key: "{\"id\":5}",
            shape: &KeyShape::new(vec![("id".to_owned(), Class::Number)]),
            seen: self.seen,
            looked: &self.looked,
            generations: &self.generations,
            keep: self.keep,
            start_margin_ms: 50,
            on_forgotten: self.on_forgotten,
            rule: self.rule,
            time: &JobTime {
                tick_ms: 20,
                cut_ms: 2_000,
                now_ms: 2_000,
                wall: vec![(0, 1_700_000_000_000)],
            },
            source: self.source.clone(),
        })
    }
}

/// What the rule says, by name.
fn expected(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Emit => Outcome::Emitted,
        Verdict::DropMarked => Outcome::DroppedMarker,
        Verdict::DropSuperseded => Outcome::DroppedSuperseded,
        Verdict::Poisoned => Outcome::Poisoned,
        Verdict::Unsafe(OnForgotten::Quarantine) => Outcome::Quarantined,
        Verdict::Unsafe(OnForgotten::Fail) => Outcome::EndsJob,
        Verdict::Unsafe(OnForgotten::Emit) => Outcome::EmittedUnsafe,
    }
}

#[test]
fn every_verdict_is_that_of_the_rule() {
    let mut seen = std::collections::BTreeSet::new();
    for (marker, poison) in [
        (None, None),
        (Some(99), None),
        (Some(100), None),
        (Some(500), None),
        (Some(99), Some(99)),
        (Some(500), Some(100)),
    ] {
        for open in [false, true] {
            for forgotten in [None, Some(99), Some(100)] {
                for on_forgotten in [
                    OnForgotten::Quarantine,
                    OnForgotten::Fail,
                    OnForgotten::Emit,
                ] {
                    let mut world = world(marker, open, forgotten);
                    world.on_forgotten = on_forgotten;
                    world.looked.poison = poison;
                    let window = open.then_some(Window { start_ms: 100 });
                    let rule = expected(decide(marker, poison, window, forgotten, on_forgotten));
                    let found = world.explained();
                    let [of] = &found.generations[..] else {
                        panic!("{found:?}");
                    };
                    assert_eq!(of.outcome, rule, "{marker:?} {open} {forgotten:?}");
                    assert_eq!((of.open, of.window_from.job_ms), (open, 100));
                    assert_eq!(of.marker_in_window, marker.is_some_and(|tick| tick >= 100));
                    assert_eq!(of.at_risk, forgotten == Some(100));
                    assert_eq!(found.marked.map(|at| at.job_ms), marker);
                    seen.insert(format!("{:?}", of.outcome));
                    world.rule = false;
                    let outcome = world.explained().generations[0].outcome;
                    assert_eq!(outcome, Outcome::EmittedRuleOff);
                }
            }
        }
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}

#[test]
fn how_long_a_marker_is_kept_follows_from_the_policy() {
    let ready = |ids: &[&str]| Kept::UntilReady(ids.iter().map(|id| (*id).to_owned()).collect());
    for (keep, marker, open, kept) in [
        (TTL, None, true, None),
        (TTL, Some(1_500), true, Some(Kept::ForMs(500))),
        (TTL, Some(1_000), true, Some(Kept::NoLonger)),
        (UNTIL_READY, Some(100), true, Some(ready(&["g1"]))),
        (UNTIL_READY, Some(99), true, Some(Kept::NoLonger)),
        // The margin of 50 and 500 more.
        (UNTIL_READY, Some(1_500), false, Some(Kept::ForMs(50))),
        (UNTIL_READY, Some(1_450), false, Some(Kept::NoLonger)),
    ] {
        let mut world = world(marker, open, None);
        world.keep = keep;
        assert_eq!(world.explained().kept, kept, "{keep:?} {marker:?} {open}");
    }
    // A generation of another table keeps the markers of its window.
    let mut other = world(Some(1_500), false, None);
    other.generations.push(GenerationState {
        number: 2,
        id: "g2".to_owned(),
        tables: vec![1],
        opened_at_ms: 1_000,
        ..GenerationState::default()
    });
    let found = other.explained();
    assert_eq!(found.kept, Some(ready(&["g2"])));
    assert_eq!(found.generations.len(), 1, "its READs are of another table");
}

#[test]
fn only_generations_of_the_table_are_told_and_one_that_was_just_opened_too() {
    let mut world = world(Some(500), true, None);
    world.generations[0].tables = vec![1];
    world.generations[0].dropped_tables = vec![0];
    world.looked.windows = vec![(2, Window { start_ms: 600 })];
    let found = world.explained();
    let told: Vec<_> = found
        .generations
        .iter()
        .map(|of| (&*of.id, of.open, of.outcome))
        .collect();
    assert_eq!(
        told,
        [
            ("g1", false, Outcome::DroppedSuperseded),
            ("g2", true, Outcome::Emitted)
        ]
    );
    world.looked.windows.clear();
    world.generations.clear();
    world.seen = false;
    let notes = world.explained().notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("no key of this table") && notes[1].contains("no generation"));
}

#[test]
fn a_frozen_end_is_told_beside_the_verdict() {
    let mut world = world(None, true, None);
    assert!(world.explained().notes.is_empty());
    world.generations[0].stage = Stage::TopicConsumed;
    assert!(world.explained().notes[0].contains("frozen end"));
}

#[test]
fn the_document_is_read_back_as_it_was_written() {
    let found = world(Some(500), true, Some(50)).explained();
    let text = serde_json::to_string(&found).expect("plain data");
    assert_eq!(
        serde_json::from_str::<Explanation>(&text).expect("JSON"),
        found
    );
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["generations"][0]["outcome"], "dropped_marker");
    assert_eq!(json["source"]["from"], "live");
    assert_eq!(json["kept"]["until_ready"][0], "g1");
}
