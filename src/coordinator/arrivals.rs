//! Which partitions of one role have reached their end, for one generation.
//!
//! Invariant: a frontier is never taken as proof alone. Something has passed when the partition
//! ends of *all* its partitions are here and the frontier has passed the greatest of their ticks.

use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    expected: BTreeSet<(String, u32)>,
    ticks: BTreeMap<(String, u32), u64>,
}

impl Arrivals {
    /// Of these partitions.
    pub(super) fn of(expected: impl IntoIterator<Item = (String, u32)>) -> Arrivals {
        Arrivals {
            expected: expected.into_iter().collect(),
            ticks: BTreeMap::new(),
        }
    }

    /// A source has reached the end of one. Told again, by a source that was started again, it is
    /// the same.
    pub(super) fn reached(&mut self, topic: String, partition: u32, tick: u64) {
        let key = (topic, partition);
        if self.expected.contains(&key) {
            self.ticks.insert(key, tick);
        }
    }

    /// Goes on without the partitions of all other topics.
    pub(super) fn keep(&mut self, topics: &BTreeSet<&str>) {
        self.expected
            .retain(|(topic, _)| topics.contains(topic.as_str()));
        self.ticks
            .retain(|(topic, _), _| topics.contains(topic.as_str()));
    }

    /// The partitions.
    pub(super) fn expected(&self) -> &BTreeSet<(String, u32)> {
        &self.expected
    }

    /// Those at their end, of all.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.ticks.len(), self.expected.len())
    }

    /// Whether all are at their end.
    pub(super) fn complete(&self) -> bool {
        // Nothing at all is no proof of anything.
        !self.expected.is_empty() && self.ticks.len() == self.expected.len()
    }

    /// The greatest tick.
    pub(super) fn last_tick(&self) -> u64 {
        self.ticks.values().copied().max().unwrap_or(0)
    }

    /// Whether all are at their end, and `passed` says so of the greatest tick.
    pub(super) fn passed(&self, passed: impl Fn(u64) -> bool) -> bool {
        self.complete() && passed(self.last_tick())
    }
}

#[cfg(test)]
mod tests {
    use super::Arrivals;

    fn two() -> Arrivals {
        Arrivals::of([("t".to_owned(), 0), ("t".to_owned(), 1)])
    }

    #[test]
    fn the_frontier_alone_completes_nothing() {
        let mut ends = two();
        assert!(!ends.passed(|_| true));
        ends.reached("t".to_owned(), 0, 40);
        // Told twice: still one of two; one of another topic counts for nothing.
        ends.reached("t".to_owned(), 0, 40);
        ends.reached("other".to_owned(), 1, 40);
        assert!(!ends.passed(|_| true));
        assert_eq!(ends.progress(), (1, 2));
    }

    #[test]
    fn the_ends_alone_complete_nothing() {
        let mut ends = two();
        ends.reached("t".to_owned(), 0, 40);
        ends.reached("t".to_owned(), 1, 20);
        assert!(!ends.passed(|tick| tick < 40));
        assert!(ends.passed(|tick| tick <= 40));
    }

    #[test]
    fn a_topic_may_be_dropped() {
        let mut ends = Arrivals::of([("t".to_owned(), 0), ("bad".to_owned(), 0)]);
        ends.reached("t".to_owned(), 0, 40);
        assert!(!ends.complete());
        ends.keep(&["t"].into());
        assert!(ends.complete());
    }
}
