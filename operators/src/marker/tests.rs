//! Property tests of the marker arrangement against a map that does the same slowly.
//!
//! Every history is random (proptest's seed), and small sizes are chosen so that seals, merges,
//! whole-run drops and rewrites all happen in it.

mod codec;
mod model;
mod range;
mod ticks;

use std::ops::RangeInclusive;

use super::{Latest, MarkerArrangement, MarkerConfig, Run};

pub(crate) const TICK_MS: u64 = 20;

/// The high halves that worker `worker` of `workers` owns: `(high * workers) >> 64 == worker`.
pub(crate) fn worker_range(worker: u64, workers: u64) -> RangeInclusive<u64> {
    let first = |worker: u64| (u128::from(worker) << 64).div_ceil(u128::from(workers));
    first(worker) as u64..=(first(worker + 1) - 1) as u64
}

/// The `n`-th fingerprint of a small universe in `range`: both edges, then well-mixed ones.
pub(crate) fn fingerprint(n: u64, range: &RangeInclusive<u64>) -> u128 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let (first, last) = (*range.start(), *range.end());
    match n {
        0 => u128::from(first) << 64,
        1 => (u128::from(last) << 64) | u128::from(u64::MAX),
        // Neighbours that differ in the lowest bit only.
        2 => (u128::from(first) << 64) | 1,
        _ => {
            let spread = (u128::from(mix(n)) * (u128::from(last - first) + 1)) >> 64;
            ((u128::from(first) + spread) << 64) | u128::from(mix(!n))
        }
    }
}

pub(crate) fn small(range: RangeInclusive<u64>) -> MarkerArrangement {
    let config = MarkerConfig::new(range, TICK_MS);
    MarkerArrangement::new(MarkerConfig {
        memtable_markers_max: 16,
        ..config
    })
}

/// A run of `len` markers of `range` with ticks up to `ticks`.
pub(crate) fn run_of(len: u64, range: &RangeInclusive<u64>, ticks: u64) -> Run {
    let markers = (0..len).map(|n| (fingerprint(n, range), Latest(n * 7919 % ticks * TICK_MS)));
    let mut markers: Vec<_> = markers.collect();
    differential_dataflow::consolidation::consolidate(&mut markers);
    Run::from_sorted(&markers, range, TICK_MS).expect("len is not 0")
}
