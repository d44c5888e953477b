//! How fast one worker reads READs, over all generations.
//!
//! The rate is that of the whole job: a worker's share is that of its partitions among those of all
//! generations that are read, and the feeds of the worker draw on it in turn.
//!
//! It cannot limit mutations: their feed has a pace without a limit.

use super::rate::Rate;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    per_second_max: Option<u64>,
    paused: bool,
    /// Partitions of this worker, of all.
    share: (usize, usize),
    rate: Option<Rate>,
}

impl Pace {
    /// A pace for a job's rate, if it has one.
    pub(super) fn new(per_second_max: Option<u64>) -> Self {
        let mut pace = Pace::default();
        pace.set(per_second_max, false);
        pace
    }

    /// A person has asked for another one.
    pub(super) fn set(&mut self, per_second_max: Option<u64>, paused: bool) {
        self.per_second_max = per_second_max;
        self.paused = paused;
        self.reckon();
    }

    /// This worker reads so many of all partitions.
    pub(super) fn share(&mut self, mine: usize, all: usize) {
        self.share = (mine, all);
        self.reckon();
    }

    fn reckon(&mut self) {
        let (mine, all) = self.share;
        let fresh = self
            .per_second_max
            .map(|limit| Rate::share(limit, mine, all));
        self.rate = fresh.map(|fresh| match &self.rate {
            // What was saved up or used stays, else every open would give a record for nothing.
            Some(before) => fresh.after(before),
            None => fresh,
        });
    }

    /// Whether none are read.
    pub(super) fn paused(&self) -> bool {
        self.paused
    }

    /// READs that may be read at `tick_ms`; none: as many as there are.
    pub(super) fn allow(&mut self, tick_ms: u64) -> Option<u64> {
        self.rate.as_mut().map(|rate| rate.allow(tick_ms))
    }

    /// READs that were read.
    pub(super) fn used(&mut self, records: u64) {
        if let Some(rate) = &mut self.rate {
            rate.used(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn a_share_that_changes_gives_nothing_twice() {
        let mut pace = Pace::new(Some(100));
        assert_eq!(pace.allow(0), Some(0));
        pace.share(1, 1);
        let mut total = 0;
        for tick in 0..=500 {
            // Another generation comes and goes, all the time.
            pace.share(1, 1 + tick as usize % 2);
            let allowed = pace.allow(tick * 20).expect("a limit");
            pace.used(allowed);
            total += allowed;
        }
        assert!((700..=800).contains(&total), "{total} in 10 s");
        pace.set(None, true);
        assert!(pace.paused());
        assert_eq!(pace.allow(20_000), None);
    }
}
