//! Which worker owns a key, and which sink shard writes it.
//!
//! One order for all: the high half of the fingerprint gives the worker, so each worker owns one
//! contiguous range and a restore on another number of workers reads only overlapping slices; the
//! low half gives the shard, so that shards of one worker are even.
//!
//! It cannot move a key while a job runs.

/// The worker that owns `fingerprint` among `workers` (at least 1): always below `workers`, so
/// timely's own mask or modulo leaves it alone.
pub fn worker_of(fingerprint: u128, workers: usize) -> u64 {
    let high = fingerprint >> 64;
    // The product of two 64-bit numbers fits 128 bits.
    ((high * workers as u128) >> 64) as u64
}

/// The inclusive range of high halves that `worker` of `workers` owns.
pub fn range_of(worker: usize, workers: usize) -> (u64, u64) {
    let first = |worker: usize| ((worker as u128) << 64).div_ceil(workers as u128);
    let last = first(worker + 1) - 1;
    (first(worker) as u64, last as u64)
}

/// The shard that writes `fingerprint` among `shards` (at least 1).
pub fn shard_of(fingerprint: u128, shards: usize) -> usize {
    let low = fingerprint & u128::from(u64::MAX);
    ((low * shards as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::{range_of, shard_of, worker_of};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn ranges_and_workers_agree(fingerprint in any::<u128>(), workers in 1..70_usize) {
            let worker = worker_of(fingerprint, workers) as usize;
            assert!(worker < workers);
            let (low, high) = range_of(worker, workers);
            let half = (fingerprint >> 64) as u64;
            assert!(low <= half && half <= high, "{half:x} is outside {low:x}..={high:x}");
            assert!(shard_of(fingerprint, workers) < workers);
        }

        #[test]
        fn ranges_tile_the_space(workers in 1..70_usize) {
            assert_eq!(range_of(0, workers).0, 0);
            assert_eq!(range_of(workers - 1, workers).1, u64::MAX);
            for worker in 1..workers {
                assert_eq!(range_of(worker, workers).0, range_of(worker - 1, workers).1 + 1);
            }
        }
    }
}
