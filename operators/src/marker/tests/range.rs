//! Ranges of fingerprints: the edges, slices for another number of workers, markers out of range.

use std::sync::Arc;

use super::{fingerprint, run_of, small, worker_range};
use crate::marker::{Latest, MarkerStore, Run};

#[test]
fn ranges_of_workers_meet() {
    for workers in 1..6 {
        assert_eq!(*worker_range(0, workers).start(), 0);
        assert_eq!(*worker_range(workers - 1, workers).end(), u64::MAX);
        for worker in 1..workers {
            let (before, range) = (
                worker_range(worker - 1, workers),
                worker_range(worker, workers),
            );
            assert_eq!(before.end() + 1, *range.start());
            let owner = |high: u64| (u128::from(high) * u128::from(workers)) >> 64;
            assert_eq!(owner(*range.start()), u128::from(worker));
            assert_eq!(owner(*before.end()), u128::from(worker) - 1);
        }
    }
}

#[test]
fn slices_of_every_worker_make_the_whole() {
    let whole = run_of(70_000, &worker_range(0, 1), 5_000);
    for workers in [1, 2, 3, 7] {
        let slices: Vec<_> = (0..workers)
            .filter_map(|worker| whole.slice(&worker_range(worker, workers)))
            .collect();
        assert!(
            slices.iter().flat_map(Run::entries).eq(whole.entries()),
            "{workers} workers"
        );
    }
    assert!(whole.slice(&(5..=5)).is_none());
}

#[test]
fn from_three_workers_to_two() {
    let runs: Vec<_> = (0..3)
        .map(|worker| run_of(3_000, &worker_range(worker, 3), 5_000))
        .collect();
    for worker in 0..2 {
        let range = worker_range(worker, 2);
        let mut store = small(range.clone());
        for run in &runs {
            if let Some(slice) = run.slice(&range) {
                store.insert_run(Arc::new(slice));
            }
        }
        while store.work(1_000) {}
        for run in &runs {
            let (keys, ticks): (Vec<_>, Vec<_>) = run.entries().unzip();
            let mut found = Vec::new();
            store.latest(&keys, &mut found);
            for ((key, tick), found) in keys.iter().zip(ticks).zip(found) {
                let owned = range.contains(&((key >> 64) as u64));
                assert_eq!(found, owned.then_some(tick));
            }
        }
    }
}

/// A fingerprint that was sent to the wrong worker is held all the same.
#[test]
fn markers_out_of_range_are_kept() {
    let range = worker_range(1, 3);
    let mut store = small(range.clone());
    let keys: Vec<_> = (3..200)
        .map(|n| fingerprint(n, &worker_range(n % 3, 3)))
        .chain([0, u128::MAX])
        .collect();
    for (tick, key) in keys.iter().enumerate() {
        store.mark(tick as u64 * 20, &[*key]);
        store.work(10);
    }
    while store.work(1_000) {}
    let mut found = Vec::new();
    store.latest(&keys, &mut found);
    assert!(
        found
            .iter()
            .zip(0..)
            .all(|(found, tick)| *found == Some(tick * 20))
    );
}

#[test]
fn a_bucket_that_holds_everything() {
    // All fingerprints share their high half, so one bucket of a full-range run holds them all.
    let markers: Vec<_> = (0..100_000u128)
        .map(|n| ((7 << 64) | (n * 3), Latest(20)))
        .collect();
    let run = Run::from_sorted(&markers, &(0..=u64::MAX), 20).expect("there are markers");
    let keys: Vec<_> = (0..3_000u128).map(|n| (7 << 64) | n).collect();
    let mut found = vec![None; keys.len()];
    run.latest(&keys, &mut found);
    assert!(
        found
            .iter()
            .zip(0..)
            .all(|(found, n)| found.is_some() == (n % 3 == 0))
    );
    assert_eq!(Run::decode(&run.encode()).map(|run| run.len()), Ok(100_000));
}
