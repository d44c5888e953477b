//! The frozen ends of a feed's partitions: which are known, reached, reported.
//!
//! Invariant: a partition end is reported once, and only when the reader's next offset is at or
//! past it; the tick it carries is not before that of the partition's last record.

use crate::topic::{Assignment, Reader};
use headwater_operators::control::PartitionTarget;
use headwater_operators::source::PartitionEnd;

#[derive(Clone, Debug)]
struct End {
    topic: String,
    partition: u32,
    end: Option<u64>,
    reported: bool,
}

impl End {
    /// As a report; whose end it is, is to be added.
    fn at(&self, end: u64, tick: u64) -> PartitionEnd {
        PartitionEnd {
            mutations: false,
            replayed: false,
            generation: 0,
            topic: self.topic.clone(),
            partition: self.partition,
            end,
            tick,
        }
    }
}

/// One entry an assignment.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    ends: Vec<End>,
}

impl Ends {
    pub(super) fn new(assignments: &[Assignment]) -> Self {
        let end = |a: &Assignment| End {
            topic: a.topic.clone(),
            partition: a.partition,
            end: None,
            reported: false,
        };
        Ends {
            ends: assignments.iter().map(end).collect(),
        }
    }

    /// Takes the ends of this feed's partitions from a command. An end that a record in the
    /// partition set already stays.
    pub(super) fn set(&mut self, targets: &[PartitionTarget]) {
        for end in &mut self.ends {
            let target = targets
                .iter()
                .find(|t| t.topic == end.topic && t.partition == end.partition);
            if let Some(target) = target {
                end.end.get_or_insert(target.end);
            }
        }
    }

    /// The end of an assignment, if it is known.
    pub(super) fn end(&self, index: usize) -> Option<u64> {
        self.ends[index].end
    }

    /// The ends that are known, by assignment.
    pub(super) fn known(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.ends
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| entry.end.map(|end| (index, end)))
    }

    /// An end-of-snapshot record at `offset`: from it on the partition is at its frozen end.
    pub(super) fn end_record(&mut self, index: usize, offset: u64) {
        self.ends[index].end.get_or_insert(offset + 1);
    }

    /// Whether a READ at `offset` lies behind the frozen end.
    pub(super) fn is_late(&self, index: usize, offset: u64) -> bool {
        self.ends[index].end.is_some_and(|end| offset >= end)
    }

    /// Whether an end is known that was not reported.
    pub(super) fn waiting(&self) -> bool {
        self.ends
            .iter()
            .any(|entry| entry.end.is_some() && !entry.reported)
    }

    /// The ends that are known and were not reported.
    pub(super) fn unreported(&self) -> impl Iterator<Item = PartitionTarget> + '_ {
        let waiting = self.ends.iter().filter(|entry| !entry.reported);
        waiting.filter_map(|entry| {
            Some(PartitionTarget {
                topic: entry.topic.clone(),
                partition: entry.partition,
                end: entry.end?,
            })
        })
    }

    /// Reports all ends that were not: nobody will come to them.
    pub(super) fn give_up(&mut self, tick: u64, out: &mut dyn FnMut(PartitionEnd)) {
        for entry in &mut self.ends {
            if let (Some(end), false) = (entry.end, entry.reported) {
                entry.reported = true;
                out(entry.at(end, tick));
            }
        }
    }

    /// Leaves out partitions that do not stay, by assignment.
    pub(super) fn keep(&mut self, stays: &[bool]) {
        let mut stays = stays.iter();
        self.ends.retain(|_| stays.next().copied().unwrap_or(true));
    }

    /// Reports what `reader` has reached since the last call; whose end it is, is to be added.
    pub(super) fn reached(
        &mut self,
        reader: &dyn Reader,
        tick: u64,
        out: &mut dyn FnMut(PartitionEnd),
    ) {
        for (index, entry) in self.ends.iter_mut().enumerate() {
            let Some(end) = entry.end else { continue };
            if entry.reported || reader.next_offset(index) < end {
                continue;
            }
            entry.reported = true;
            out(entry.at(end, tick));
        }
    }
}
