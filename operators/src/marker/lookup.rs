//! Looking fingerprints up in a run, many at once.
//!
//! A lookup waits for memory three times: index sample, index word, entry. So lookups go in blocks
//! and each wait is passed by the whole block before the next, which lets the fetches overlap.
//!
//! Invariant: a result only ever grows; it is the tick of the fingerprint's entry if that is later.

use super::run::Run;

/// Lookups whose memory accesses overlap.
const BLOCK: usize = 32;
/// Entries of a bucket that are walked, not halved.
const WALK_MAX: usize = 128;

#[derive(Clone, Copy, Default)]
struct Lane {
    /// Which of the block's fingerprints.
    query: usize,
    bucket: usize,
    residual: u128,
    sample: (usize, usize),
    entries: (usize, usize),
    /// Where among them it should be, were they spread evenly.
    guess: usize,
}

impl Run {
    /// Raises each of `found` to the tick of its fingerprint's marker in this run.
    pub(crate) fn latest(&self, fingerprints: &[u128], found: &mut [Option<u64>]) {
        debug_assert_eq!(fingerprints.len(), found.len());
        let mut lanes = [Lane::default(); BLOCK];
        for (block, found) in fingerprints.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            let mut used = 0;
            for (query, fingerprint) in block.iter().enumerate() {
                // A marker as late as the latest of this run needs no look.
                if found[query] >= Some(self.ticks.1) {
                    continue;
                }
                if let Some((bucket, residual)) = self.shape.place(*fingerprint) {
                    let sample = self.index.sample(bucket);
                    lanes[used] = Lane {
                        query,
                        bucket,
                        residual,
                        sample,
                        ..Lane::default()
                    };
                    used += 1;
                }
            }
            let lanes = &mut lanes[..used];
            self.find_entries(lanes);
            for lane in lanes {
                if let Some(tick) = self.search(lane) {
                    found[lane.query] = found[lane.query].max(Some(tick));
                }
            }
        }
    }

    fn find_entries(&self, lanes: &mut [Lane]) {
        let mut touched = 0;
        for lane in lanes.iter() {
            touched ^= self.index.word(lane.sample.1);
        }
        for lane in lanes.iter_mut() {
            lane.entries = self.index.entries(lane.bucket, lane.sample);
        }
        for lane in lanes.iter_mut() {
            let (start, end) = lane.entries;
            lane.guess = start + self.shape.interpolate(lane.residual, end - start);
        }
        for lane in lanes.iter() {
            let (bytes, at) = self.entry(lane.guess.min(self.len - 1));
            touched ^= u64::from(bytes[at]) ^ u64::from(bytes[at + self.shape.width() - 1]);
        }
        // The loads above are for their side effect on the cache.
        std::hint::black_box(touched);
    }

    /// The tick of the entry with the lane's residual, among the entries of its bucket.
    ///
    /// Residuals are as uniform as fingerprints, so the guess is a few entries off and a walk from
    /// it is short; a bucket that is far too full is halved first, so a skew costs a logarithm.
    #[inline]
    fn search(&self, lane: &Lane) -> Option<u64> {
        let (mut start, mut end) = lane.entries;
        if start == end {
            return None;
        }
        let mut entry = lane.guess;
        if end - start > WALK_MAX {
            while end - start > WALK_MAX {
                let middle = start + (end - start) / 2;
                if self.residual_of(middle) <= lane.residual {
                    start = middle;
                } else {
                    end = middle;
                }
            }
            entry = entry.clamp(start, end - 1);
        }
        let mut residual = self.residual_of(entry);
        if residual < lane.residual {
            while residual < lane.residual && entry + 1 < end {
                entry += 1;
                residual = self.residual_of(entry);
            }
        } else {
            while residual > lane.residual && entry > start {
                entry -= 1;
                residual = self.residual_of(entry);
            }
        }
        let (bytes, at) = self.entry(entry);
        (residual == lane.residual).then(|| self.shape.tick(bytes, at))
    }

    #[inline]
    fn residual_of(&self, entry: usize) -> u128 {
        let (bytes, at) = self.entry(entry);
        self.shape.residual(bytes, at)
    }
}
