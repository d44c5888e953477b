//! Every marker is on its owner after a restore on any number of workers, twice over.

use super::resume;
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{Manifest, RunRef};
use crate::error::ErrorKind;
use crate::store::Store;
use headwater_operators::marker::{Latest, Run};
use headwater_operators::route::{range_of, worker_of};
use proptest::prelude::{any, prop, proptest};
use std::collections::BTreeMap;

/// Writes a run of these markers for a worker of so many.
fn put(store: &Store, name: &str, markers: &BTreeMap<u128, u64>, range: (u64, u64)) -> RunRef {
    let sorted: Vec<_> = markers.iter().map(|(f, t)| (*f, Latest(*t))).collect();
    let run = Run::from_sorted(&sorted, &(range.0..=range.1), 20).expect("not empty");
    let bytes = run.encode();
    store.put_new(name, &bytes).expect("written");
    RunRef {
        file: name.to_owned(),
        first: *run.range().start(),
        last: *run.range().end(),
        markers: run.len() as u64,
        bytes: bytes.len() as u64,
    }
}

/// All markers of a manifest after a restore on `workers`, checked to be on their owners, and the
/// references that a checkpoint of that restore would hold.
fn restored(
    store: &Store,
    manifest: &Manifest,
    workers: usize,
) -> (BTreeMap<u128, u64>, Vec<RunRef>) {
    let resumed = resume(store, manifest, &[], 0..workers, workers).expect("restored");
    let (mut all, mut refs) = (BTreeMap::new(), Vec::new());
    for worker in 0..workers {
        for (run_ref, run) in resumed.take_runs(worker) {
            assert_eq!(run_ref.markers, run.len() as u64);
            refs.push(run_ref);
            for (fingerprint, tick) in run.entries() {
                assert_eq!(worker_of(fingerprint, workers), worker as u64);
                let latest = all.entry(fingerprint).or_insert(tick);
                *latest = (*latest).max(tick);
            }
        }
    }
    (all, refs)
}

proptest! {
    #[test]
    fn every_marker_is_on_its_owner(
        markers in prop::collection::btree_map(any::<u128>(), 0..500_u64, 1..200),
        before in 1..5_usize,
        then in prop::collection::vec(1..6_usize, 1..4),
    ) {
        let markers: BTreeMap<u128, u64> = markers.into_iter().map(|(f, t)| (f, t * 20)).collect();
        let store = Store::memory();
        let mut manifest = manifest();
        manifest.markers.runs.clear();
        for worker in 0..before {
            let of_worker = |(fingerprint, _): &(&u128, &u64)| {
                worker_of(**fingerprint, before) == worker as u64
            };
            let own: BTreeMap<u128, u64> = markers
                .iter()
                .filter(of_worker)
                .map(|(f, t)| (*f, *t))
                .collect();
            if !own.is_empty() {
                let name = format!("r{worker}");
                let run = put(&store, &name, &own, range_of(worker, before));
                manifest.markers.runs.push(run);
            }
        }
        // From one number of workers to the next, each going on from what the one before would
        // have written: slices of slices.
        for workers in then {
            let (found, refs) = restored(&store, &manifest, workers);
            assert_eq!(found, markers);
            manifest.markers.runs = refs;
        }
    }
}

#[test]
fn the_same_number_of_workers_shares_runs_whole() {
    let store = Store::memory();
    let mut manifest = manifest();
    let markers = [(1_u128, 20), (2, 40)].into();
    manifest.markers.runs = vec![put(&store, "r", &markers, range_of(0, 2))];
    let (_, refs) = restored(&store, &manifest, 2);
    assert_eq!(refs, manifest.markers.runs);
}

#[test]
fn parts_that_several_workers_took_over_are_one_again() {
    let store = Store::memory();
    let mut manifest = manifest();
    // One marker in each half of the range, so that both workers have a part.
    let markers = [(1_u128, 20), (u128::MAX, 40)].into();
    let whole = vec![put(&store, "r", &markers, range_of(0, 1))];
    manifest.markers.runs = whole.clone();
    let (_, halves) = restored(&store, &manifest, 2);
    assert_eq!(halves.len(), 2);
    manifest.markers.runs = halves;
    let (found, refs) = restored(&store, &manifest, 1);
    assert_eq!((found, refs), (markers, whole));
}

#[test]
fn a_missing_and_a_damaged_run_are_named() {
    let store = Store::memory();
    let mut manifest = manifest();
    let markers = [(1_u128, 20), (2, 40)].into();
    let run = put(&store, "h/runs/x", &markers, range_of(0, 1));
    manifest.markers.runs = vec![run.clone()];
    let whole = store.get("h/runs/x").expect("read").expect("there");
    let mut changed = whole.clone();
    changed[40] ^= 1;
    for damage in [None, Some(&whole[..whole.len() - 1]), Some(&changed[..])] {
        store.delete("h/runs/x").expect("deleted");
        if let Some(bytes) = damage {
            store.put("h/runs/x", bytes).expect("written");
        }
        let error = resume(&store, &manifest, &[], 0..1, 1).expect_err("damaged");
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.text.contains("h/runs/x"), "{error}");
    }
}
