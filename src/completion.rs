//! When a run has read its snapshot and caught up: one enum, one transition function, no I/O.
//!
//! Invariant: a frontier is never taken as proof alone. A snapshot is consumed when the partition
//! ends of *all* its partitions are here and the READ frontier behind the merge has passed the
//! greatest of their ticks; the job has caught up when the same holds for the mutation targets,
//! that were sampled after that, and the frontier behind the sink.
//!
//! It cannot know whether the live connector had more to append: `caught up` is measured against
//! the topic, and the summary says so.

use headwater_operators::source::PartitionEnd;
use std::collections::BTreeMap;

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the snapshot; its ends may not be known yet.
    Reading,
    /// All READs have left the merge; the mutation targets are being sampled.
    Consumed,
    /// Mutations are read up to their targets.
    CatchingUp,
    /// Everything up to the targets, and all READs, are in the sink.
    CaughtUp,
}

/// What worker 0 must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait.
    Wait,
    /// Sample the high watermarks of the mutation topics, then call [`Completion::targets_sent`].
    SampleTargets,
    /// The job has caught up.
    Done,
}

/// The state of one run.
#[derive(Clone, Debug)]
pub struct Completion {
    phase: Phase,
    snapshot_partitions: usize,
    mutation_partitions: usize,
    snapshot_ends: BTreeMap<(String, u32), u64>,
    mutation_ends: BTreeMap<(String, u32), u64>,
    sampling: bool,
}

impl Completion {
    /// A run over so many partitions of each role.
    pub fn new(snapshot_partitions: usize, mutation_partitions: usize) -> Self {
        Completion {
            phase: Phase::Reading,
            snapshot_partitions,
            mutation_partitions,
            snapshot_ends: BTreeMap::new(),
            mutation_ends: BTreeMap::new(),
            sampling: false,
        }
    }

    /// How far the run is.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Snapshot partitions that have reached their end, of all.
    pub fn snapshot_progress(&self) -> (usize, usize) {
        (self.snapshot_ends.len(), self.snapshot_partitions)
    }

    /// Mutation partitions that have reached their target, of all.
    pub fn mutation_progress(&self) -> (usize, usize) {
        (self.mutation_ends.len(), self.mutation_partitions)
    }

    /// A source has reached an end.
    pub fn partition_end(&mut self, end: PartitionEnd) {
        let ends = if end.mutations {
            &mut self.mutation_ends
        } else {
            &mut self.snapshot_ends
        };
        ends.insert((end.topic, end.partition), end.tick);
    }

    /// The mutation targets were sent to the sources.
    pub fn targets_sent(&mut self) {
        if self.phase == Phase::Consumed {
            self.phase = Phase::CatchingUp;
        }
    }

    /// Moves on. `read_passed(t)` says whether the READ frontier behind the merge has passed tick
    /// `t`, `sink_passed(t)` whether the frontier behind the sink has.
    pub fn step(
        &mut self,
        read_passed: impl Fn(u64) -> bool,
        sink_passed: impl Fn(u64) -> bool,
    ) -> Next {
        let last = |ends: &BTreeMap<(String, u32), u64>| ends.values().copied().max().unwrap_or(0);
        if self.phase == Phase::Reading
            && self.snapshot_ends.len() == self.snapshot_partitions
            && read_passed(last(&self.snapshot_ends))
        {
            self.phase = Phase::Consumed;
        }
        if self.phase == Phase::Consumed && !self.sampling {
            self.sampling = true;
            return Next::SampleTargets;
        }
        let last_tick = last(&self.mutation_ends).max(last(&self.snapshot_ends));
        if self.phase == Phase::CatchingUp
            && self.mutation_ends.len() == self.mutation_partitions
            && sink_passed(last_tick)
        {
            self.phase = Phase::CaughtUp;
        }
        if self.phase == Phase::CaughtUp {
            Next::Done
        } else {
            Next::Wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Completion, Next, Phase};
    use headwater_operators::source::PartitionEnd;

    fn end(mutations: bool, partition: u32, tick: u64) -> PartitionEnd {
        PartitionEnd {
            replayed: false,
            generation: 1,
            mutations,
            topic: "t".to_owned(),
            partition,
            end: 1,
            tick,
        }
    }

    #[test]
    fn the_frontier_alone_completes_nothing() {
        let mut run = Completion::new(2, 1);
        assert_eq!(run.step(|_| true, |_| true), Next::Wait);
        run.partition_end(end(false, 0, 40));
        assert_eq!(run.step(|_| true, |_| true), Next::Wait);
        // Told twice: still one of two.
        run.partition_end(end(false, 0, 40));
        assert_eq!(run.step(|_| true, |_| true), Next::Wait);
        assert_eq!(*run.phase(), Phase::Reading);
    }

    #[test]
    fn the_ends_alone_complete_nothing() {
        let mut run = Completion::new(1, 1);
        run.partition_end(end(false, 0, 40));
        assert_eq!(run.step(|tick| tick < 40, |_| true), Next::Wait);
        assert_eq!(run.step(|tick| tick <= 40, |_| true), Next::SampleTargets);
        assert_eq!(run.step(|_| true, |_| true), Next::Wait);
        run.targets_sent();
        run.partition_end(end(true, 0, 60));
        assert_eq!(run.step(|_| true, |tick| tick < 60), Next::Wait);
        assert_eq!(run.step(|_| true, |tick| tick <= 60), Next::Done);
        assert_eq!(*run.phase(), Phase::CaughtUp);
    }

    #[test]
    fn a_mutation_end_before_the_targets_are_sampled_does_not_count_early() {
        let mut run = Completion::new(1, 1);
        run.partition_end(end(true, 0, 0));
        run.partition_end(end(false, 0, 0));
        assert_eq!(run.step(|_| true, |_| true), Next::SampleTargets);
        assert_eq!(run.step(|_| true, |_| true), Next::Wait);
    }
}
