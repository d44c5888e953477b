//! What one worker has done, as it is sent to worker 0, and the sum over all of them.

use crate::dead_letter::{self, Counted};
use crate::feed::FeedCounters;
use crate::job::GenerationCounts;
use crate::key::KnownShape;
use crate::table::Role;
use headwater_operators::merge::MergeCounters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of one worker, or of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Mutation rows read from topics.
    pub mutations_read: u64,
    /// READs read from topics.
    pub reads_read: u64,
    /// Bytes of key and value read.
    pub bytes_read: u64,
    /// Records that are no row, by kind.
    pub ignored: BTreeMap<String, u64>,
    /// Mutations emitted.
    pub mutations_emitted: u64,
    /// READs emitted.
    pub reads_emitted: u64,
    /// READs dropped for a marker.
    pub reads_dropped_marker: u64,
    /// READs dropped because their generation is not open.
    pub reads_dropped_superseded: u64,
    /// READs quarantined because a marker was forgotten.
    pub reads_quarantined: u64,
    /// READs behind a frozen end, or of an older run, quarantined.
    pub reads_late: u64,
    /// READs quarantined because the last mutation of their key could not be decoded.
    pub reads_poisoned: u64,
    /// Mutations that could not be decoded and went to the dead letters.
    pub dead_letters: Vec<Counted>,
    /// READs emitted although they may be stale.
    pub reads_emitted_unsafe: u64,
    /// READs at which the job must end.
    pub reads_failed: u64,
    /// READs that waited in the merge for their tick.
    pub reads_held: u64,
    /// READs by generation.
    pub generations: BTreeMap<u32, GenerationCounts>,
    /// The latest tick of a marker that was forgotten; of a sum, on any worker.
    pub forgotten_through_ms: Option<u64>,
    /// 1 + the last offset read of each partition, by role, topic and number.
    pub next_offsets: BTreeMap<(Role, String, u32), u64>,
    /// Source time (ms since 1970) of the first and the latest mutation read of each mutation
    /// partition that has any, in all runs.
    pub live: BTreeMap<(String, u32), (i64, i64)>,
    /// Markers held.
    pub markers: u64,
    /// Bytes that they take.
    pub marker_bytes: u64,
    /// The tick that control had passed on the worker; of a sum, the earliest.
    pub at_ms: u64,
    /// Whether this process was asked to stop.
    pub stop: bool,
    /// Whether a source has not come to the end of what is at hand, or cannot know it.
    pub behind: bool,
    /// The key shapes that this process knows; worker 0 compares them with those of the others.
    pub shapes: Vec<KnownShape>,
}

impl Counts {
    /// The counts of one worker.
    pub fn of(mutations: &FeedCounters, reads: &FeedCounters, merge: &MergeCounters) -> Self {
        let mut ignored = BTreeMap::new();
        for feed in [mutations, reads] {
            for (kind, count) in &feed.ignored {
                *ignored.entry(kind.word().to_owned()).or_default() += count;
            }
        }
        Counts {
            mutations_read: mutations.rows,
            reads_read: reads.rows,
            bytes_read: mutations.bytes + reads.bytes,
            ignored,
            mutations_emitted: merge.mutations_emitted(),
            reads_emitted: merge.reads_emitted,
            reads_dropped_marker: merge.reads_dropped_marker,
            reads_dropped_superseded: merge.reads_dropped_superseded,
            reads_quarantined: merge.reads_quarantined,
            reads_late: merge.reads_late,
            reads_poisoned: merge.reads_poisoned,
            dead_letters: mutations.dead_letters.clone(),
            reads_emitted_unsafe: merge.reads_emitted_unsafe,
            reads_failed: merge.reads_failed,
            reads_held: merge.reads_held,
            generations: generations(reads, merge),
            forgotten_through_ms: merge.forgotten_through,
            next_offsets: [(Role::Mutations, mutations), (Role::Snapshot, reads)]
                .into_iter()
                .flat_map(|(role, feed)| next_offsets(role, feed))
                .collect(),
            live: live(mutations),
            markers: merge.markers.markers,
            marker_bytes: merge.markers.bytes,
            at_ms: 0,
            stop: false,
            behind: mutations.behind || reads.behind,
            shapes: Vec::new(),
        }
    }

    /// The sum over workers, without shapes.
    pub fn sum<'a>(workers: impl Iterator<Item = &'a Counts>) -> Self {
        let mut all = Counts {
            at_ms: u64::MAX,
            ..Counts::default()
        };
        for one in workers {
            all.mutations_read += one.mutations_read;
            all.reads_read += one.reads_read;
            all.bytes_read += one.bytes_read;
            for (kind, count) in &one.ignored {
                *all.ignored.entry(kind.clone()).or_default() += count;
            }
            all.mutations_emitted += one.mutations_emitted;
            all.reads_emitted += one.reads_emitted;
            all.reads_dropped_marker += one.reads_dropped_marker;
            all.reads_dropped_superseded += one.reads_dropped_superseded;
            all.reads_quarantined += one.reads_quarantined;
            all.reads_late += one.reads_late;
            all.reads_poisoned += one.reads_poisoned;
            dead_letter::add_up(&mut all.dead_letters, &one.dead_letters);
            all.reads_emitted_unsafe += one.reads_emitted_unsafe;
            all.reads_failed += one.reads_failed;
            all.reads_held += one.reads_held;
            for (generation, counts) in &one.generations {
                all.generations.entry(*generation).or_default().add(counts);
            }
            all.forgotten_through_ms = all.forgotten_through_ms.max(one.forgotten_through_ms);
            for (place, next_offset) in &one.next_offsets {
                let known = all.next_offsets.entry(place.clone()).or_default();
                *known = (*known).max(*next_offset);
            }
            all.live.extend(one.live.clone());
            all.markers += one.markers;
            all.marker_bytes += one.marker_bytes;
            all.at_ms = all.at_ms.min(one.at_ms);
            all.stop |= one.stop;
            all.behind |= one.behind;
        }
        all
    }

    /// READs that met a forgotten marker; the generation is unsafe if there is one.
    pub fn unsafe_reads(&self) -> u64 {
        self.reads_quarantined + self.reads_emitted_unsafe + self.reads_failed
    }

    /// READs in the quarantine.
    pub fn kept_back(&self) -> u64 {
        self.reads_quarantined + self.reads_late + self.reads_poisoned
    }

    /// Mutations that went to the dead letters.
    pub fn dead_letters(&self) -> u64 {
        dead_letter::total(&self.dead_letters).0
    }

    /// Rows read from both topics; stands still when neither delivers.
    pub fn rows_read(&self) -> u64 {
        self.mutations_read + self.reads_read
    }
}

/// READs by generation: read by the feed, and what became of them in the merge of this worker.
fn generations(reads: &FeedCounters, merge: &MergeCounters) -> BTreeMap<u32, GenerationCounts> {
    let mut all: BTreeMap<u32, GenerationCounts> = BTreeMap::new();
    for (generation, read) in &reads.generations {
        all.entry(*generation).or_default().read = *read;
    }
    for (generation, decided) in &merge.generations {
        let counts = all.entry(*generation).or_default();
        counts.emitted = decided.emitted;
        counts.dropped_marker = decided.dropped_marker;
        counts.dropped_superseded = decided.dropped_superseded;
        counts.poisoned = decided.poisoned;
        counts.unsafe_reads = decided.unsafe_reads;
        counts.late = decided.late;
    }
    all
}

fn next_offsets(
    role: Role,
    feed: &FeedCounters,
) -> impl Iterator<Item = ((Role, String, u32), u64)> + '_ {
    let all = feed.partitions.values().flatten();
    all.map(move |of| {
        let place = (role, of.topic.to_string(), of.partition);
        (place, of.next_offset)
    })
}

fn live(mutations: &FeedCounters) -> BTreeMap<(String, u32), (i64, i64)> {
    let all = mutations.partitions.values().flatten();
    let seen = all.filter_map(|of| {
        let place = (of.topic.to_string(), of.partition);
        Some((place, (of.times.first_ms?, of.times.last_ms?)))
    });
    seen.collect()
}

#[cfg(test)]
mod tests {
    use super::Counts;
    use crate::feed::{FeedCounters, PartitionRead, SourceTimes};
    use crate::table::Role;
    use headwater_operators::merge::{MergeCounters, ReadCounters};

    fn worker(number: u32) -> Counts {
        let times = SourceTimes {
            first_ms: (number > 0).then_some(5),
            last_ms: (number > 0).then_some(9),
        };
        let partition = PartitionRead {
            topic: "t".into(),
            partition: number,
            next_offset: 10 + u64::from(number),
            times,
        };
        let mut feed = FeedCounters::default();
        feed.partitions.insert(0, vec![partition]);
        feed.generations.insert(2, 7);
        let mut merge = MergeCounters::default();
        let late = ReadCounters {
            late: 1,
            ..ReadCounters::default()
        };
        merge.generations.insert(1 + number, late);
        merge.forgotten_through = number.checked_sub(1).map(u64::from);
        Counts::of(&feed, &feed, &merge)
    }

    #[test]
    fn a_sum_is_by_generation_and_partition() {
        let workers = [worker(0), worker(1), worker(2)];
        let all = Counts::sum(workers.iter());
        let by = all.generations.iter().map(|(g, c)| (*g, c.read, c.late));
        let by: Vec<_> = by.collect();
        assert_eq!(by, [(1, 0, 1), (2, 21, 1), (3, 0, 1)]);
        assert_eq!(all.forgotten_through_ms, Some(1));
        assert_eq!(worker(0).forgotten_through_ms, None);
        assert_eq!(all.next_offsets.len(), 6);
        assert_eq!(all.next_offsets[&(Role::Snapshot, "t".to_owned(), 2)], 12);
        let live: Vec<_> = all.live.into_iter().collect();
        let of = |partition| (("t".to_owned(), partition), (5, 9));
        assert_eq!(live, [of(1), of(2)]);
    }
}
