//! A manifest and its runs, asked as a restored job would ask them.

use super::{Terms, explain, open};
use crate::checkpoint::Manifest;
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{GenerationState, RetentionState, RunRef, Ticks};
use crate::error::ErrorKind;
use crate::explain::facts::{Explanation, Outcome, Source};
use crate::explain::key::{Key, read};
use crate::generation::Stage;
use crate::key::{Class, KeyShape};
use crate::store::Store;
use crate::table::Table;
use headwater_operators::decide::OnForgotten;
use headwater_operators::marker::{Latest, Run};
use headwater_operators::retention::KeepMarkers;
use headwater_operators::route::range_of;

const SECRET: [u8; 16] = [0xab; 16];

fn tables() -> Vec<Table> {
    let table = Table {
        name: "public.hello".to_owned(),
        mutations: "m".to_owned(),
        snapshot: "snap".to_owned(),
        key: None,
    };
    vec![table]
}

fn key(id: u64) -> Key {
    let shape = KeyShape::new(vec![("id".to_owned(), Class::Number)]);
    let key = read(
        &tables()[0],
        Some(&shape),
        Default::default(),
        &id.to_string(),
    );
    key.expect("a key")
}

fn fingerprint(id: u64) -> u128 {
    key(id).fingerprint(SECRET, "public.hello")
}

/// Writes a run of these ids, marked at these ticks, as `worker` of `workers` would.
fn put(store: &Store, name: &str, ids: &[(u64, u64)], range: (u64, u64)) -> RunRef {
    let mut markers: Vec<_> = ids
        .iter()
        .map(|(id, tick)| (fingerprint(*id), Latest(*tick)))
        .collect();
    markers.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
    let run = Run::from_sorted(&markers, &(range.0..=range.1), 20).expect("not empty");
    let bytes = run.encode();
    store.put_new(name, &bytes).expect("written");
    RunRef {
        file: name.to_owned(),
        first: range.0,
        last: range.1,
        markers: run.len() as u64,
        bytes: bytes.len() as u64,
    }
}

/// Two runs that hold the ids 0 to 39, the even ones twice; nothing was forgotten.
fn bench() -> (Store, Manifest) {
    let store = Store::memory();
    let mut manifest = manifest();
    let all = range_of(0, 1);
    let first: Vec<_> = (0..40).map(|id| (id, 200)).collect();
    let second: Vec<_> = (0..40).step_by(2).map(|id| (id, 400)).collect();
    manifest.markers.runs = vec![
        put(&store, "a", &first, all),
        put(&store, "b", &second, all),
    ];
    manifest.markers.ticks = vec![Ticks {
        horizon: None,
        forgotten: None,
        spans: vec![(200, 200), (400, 400)],
    }];
    (store, manifest)
}

fn explained(store: &Store, manifest: &Manifest, id: u64) -> Explanation {
    let tables = tables();
    let terms = Terms {
        tables: &tables,
        keep: KeepMarkers::Ttl { ttl_ms: 1 },
        start_margin_ms: 7,
        on_forgotten: OnForgotten::Quarantine,
    };
    explain(store, manifest, terms, 0, &key(id), "nobody").expect("explained")
}

fn told(explanation: &Explanation) -> (Option<u64>, Outcome) {
    let marked = explanation.marked.as_ref().map(|at| at.job_ms);
    (marked, explanation.generations[0].outcome)
}

#[test]
fn the_latest_marker_of_all_runs_counts() {
    let (store, manifest) = bench();
    let found = explained(&store, &manifest, 6);
    assert_eq!(told(&found), (Some(400), Outcome::DroppedMarker));
    assert_eq!(found.as_of.job_ms, 1040);
    assert_eq!(
        found.generations[0].window_from.job_ms, 10,
        "the manifest's margin"
    );
    let source = Source::Checkpoint {
        number: 7,
        why: "nobody".to_owned(),
    };
    assert_eq!(found.source, source);
    assert_eq!(
        told(&explained(&store, &manifest, 7)),
        (Some(200), Outcome::DroppedMarker)
    );
    assert_eq!(
        told(&explained(&store, &manifest, 70)),
        (None, Outcome::Emitted)
    );
}

#[test]
fn a_marker_that_is_still_in_a_run_but_forgotten_does_not_count() {
    let (store, mut manifest) = bench();
    manifest.markers.ticks.push(Ticks {
        horizon: Some(300),
        forgotten: Some(200),
        spans: Vec::new(),
    });
    let odd = explained(&store, &manifest, 7);
    assert_eq!(told(&odd), (None, Outcome::Quarantined));
    assert_eq!(odd.forgotten_through.expect("one").job_ms, 200);
    assert_eq!(
        told(&explained(&store, &manifest, 6)),
        (Some(400), Outcome::DroppedMarker)
    );
}

#[test]
fn only_the_run_that_holds_the_key_is_read_and_damage_is_no_answer() {
    let (store, mut manifest) = bench();
    let high = (fingerprint(6) >> 64) as u64;
    // A part that another worker took over, and an object that is gone.
    let other = if high > u64::MAX / 2 {
        (0, 1)
    } else {
        (u64::MAX - 1, u64::MAX)
    };
    manifest.markers.runs.push(RunRef {
        file: "gone".to_owned(),
        first: other.0,
        last: other.1,
        markers: 1,
        bytes: 1,
    });
    assert_eq!(told(&explained(&store, &manifest, 6)).0, Some(400));
    let gone = manifest.markers.runs.last_mut().expect("it was pushed");
    (gone.first, gone.last) = (0, u64::MAX);
    let tables = tables();
    let terms = Terms {
        tables: &tables,
        keep: KeepMarkers::Ttl { ttl_ms: 1 },
        start_margin_ms: 0,
        on_forgotten: OnForgotten::Quarantine,
    };
    let error = explain(&store, &manifest, terms, 0, &key(6), "").expect_err("it is gone");
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.text.contains("gone"), "{error}");
}

#[test]
fn an_older_manifest_has_the_policy_of_the_configuration() {
    let (store, mut manifest) = bench();
    manifest.retention = RetentionState::default();
    let found = explained(&store, &manifest, 6);
    assert_eq!(found.generations[0].window_from.job_ms, 13, "20 - 7");
}

#[test]
fn only_stages_that_take_reads_are_open() {
    for stage in Stage::ALL {
        let mut state = GenerationState {
            tables: vec![0, 1],
            dropped_tables: vec![1],
            stage,
            ..GenerationState::default()
        };
        assert_eq!(open(&state).is_some(), stage.takes_reads(), "{stage:?}");
        state.dropped_tables = vec![0, 1];
        assert_eq!(open(&state), None);
    }
    let (store, mut manifest) = bench();
    manifest.generations[0].stage = Stage::Ready;
    let found = explained(&store, &manifest, 6);
    assert_eq!(told(&found), (Some(400), Outcome::DroppedSuperseded));
}
