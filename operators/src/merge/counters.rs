//! What the merge of one worker has done, by reason. Every arm of a verdict has a counter.

use crate::decide::{OnForgotten, Verdict};
use crate::marker::MarkerStats;
use crate::record::{Op, RecordRef};
use std::collections::BTreeMap;

/// What became of the READs of one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Emitted.
    pub emitted: u64,
    /// Dropped because their key has a marker.
    pub dropped_marker: u64,
    /// Dropped because the generation is not open for their table.
    pub dropped_superseded: u64,
    /// Behind a frozen end, or of an older run: quarantined.
    pub late: u64,
    /// Quarantined: the last mutation of their key could not be decoded.
    pub poisoned: u64,
    /// Quarantined, emitted all the same, or the end of the job: a marker was forgotten.
    pub unsafe_reads: u64,
}

/// Counts since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeCounters {
    /// Mutations that left a row.
    pub upserts: u64,
    /// Mutations that left none.
    pub deletes: u64,
    /// `r` records of the mutation topic, emitted in place.
    pub reads_in_place: u64,
    /// Mutations that cannot be decoded; not emitted.
    pub dead_letters: u64,
    /// READs emitted.
    pub reads_emitted: u64,
    /// READs dropped because their key has a marker.
    pub reads_dropped_marker: u64,
    /// READs dropped because their generation is not open.
    pub reads_dropped_superseded: u64,
    /// READs quarantined because a marker of their window was forgotten.
    pub reads_quarantined: u64,
    /// READs quarantined because they lie behind a frozen end, or are of an older run.
    pub reads_late: u64,
    /// READs quarantined because the last mutation of their key could not be decoded.
    pub reads_poisoned: u64,
    /// READs emitted although they may be stale (`on_forgotten = "emit"`).
    pub reads_emitted_unsafe: u64,
    /// READs at which the job must end (`on_forgotten = "fail"`).
    pub reads_failed: u64,
    /// READs that waited for their tick.
    pub reads_held: u64,
    /// READs by generation.
    pub generations: BTreeMap<u32, ReadCounters>,
    /// The latest tick of a marker that was forgotten.
    pub forgotten_through: Option<u64>,
    /// The store's own numbers.
    pub markers: MarkerStats,
}

impl MergeCounters {
    /// Mutations emitted: all of them.
    pub fn mutations_emitted(&self) -> u64 {
        self.upserts + self.deletes + self.reads_in_place
    }

    /// Whether a READ met a forgotten marker: its generation can never be ready.
    pub fn unsafe_reads(&self) -> u64 {
        self.reads_quarantined + self.reads_emitted_unsafe + self.reads_failed
    }

    pub(super) fn mutation(&mut self, op: Op) {
        match op {
            Op::Upsert => self.upserts += 1,
            Op::Delete => self.deletes += 1,
            Op::ReadInPlace => self.reads_in_place += 1,
            Op::Poisoned | Op::Undecodable => self.dead_letters += 1,
            Op::Read | Op::Quarantined | Op::Late | Op::TooOld | Op::ReadPoisoned => {
                unreachable_op("mutation", op)
            }
        }
    }

    pub(super) fn read(&mut self, record: &RecordRef<'_>, verdict: Verdict) {
        let of = self.generations.entry(record.generation).or_default();
        let (all, own) = match (record.op, verdict) {
            (Op::Late | Op::TooOld, _) => (&mut self.reads_late, &mut of.late),
            (_, Verdict::Emit) => (&mut self.reads_emitted, &mut of.emitted),
            (_, Verdict::DropMarked) => (&mut self.reads_dropped_marker, &mut of.dropped_marker),
            (_, Verdict::DropSuperseded) => (
                &mut self.reads_dropped_superseded,
                &mut of.dropped_superseded,
            ),
            (_, Verdict::Poisoned) => (&mut self.reads_poisoned, &mut of.poisoned),
            (_, Verdict::Unsafe(OnForgotten::Quarantine)) => {
                (&mut self.reads_quarantined, &mut of.unsafe_reads)
            }
            (_, Verdict::Unsafe(OnForgotten::Emit)) => {
                (&mut self.reads_emitted_unsafe, &mut of.unsafe_reads)
            }
            (_, Verdict::Unsafe(OnForgotten::Fail)) => {
                (&mut self.reads_failed, &mut of.unsafe_reads)
            }
        };
        *all += 1;
        *own += 1;
    }
}

pub(super) fn unreachable_op(input: &str, op: Op) -> ! {
    panic!("a record with op {op:?} came on the {input} input: the source mixed up its roles");
}
