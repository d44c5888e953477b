//! What the merge of one worker has done, by reason. Every arm of a verdict has a counter.

use crate::decide::{OnForgotten, Verdict};
use crate::marker::MarkerStats;
use crate::record::{Op, RecordRef};

/// Counts since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeCounters {
    /// Mutations that left a row.
    pub upserts: u64,
    /// Mutations that left none.
    pub deletes: u64,
    /// `r` records of the mutation topic, emitted in place.
    pub reads_in_place: u64,
    /// READs emitted.
    pub reads_emitted: u64,
    /// READs dropped because their key has a marker.
    pub reads_dropped_marker: u64,
    /// READs dropped because their generation is not open.
    pub reads_dropped_superseded: u64,
    /// READs quarantined because a marker of their window was forgotten.
    pub reads_quarantined: u64,
    /// READs quarantined because they lie behind a frozen end.
    pub reads_late: u64,
    /// READs emitted although they may be stale (`on_forgotten = "emit"`).
    pub reads_emitted_unsafe: u64,
    /// READs at which the job must end (`on_forgotten = "fail"`).
    pub reads_failed: u64,
    /// READs that waited for their tick.
    pub reads_held: u64,
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
            Op::Read | Op::Quarantined | Op::Late => unreachable_op("mutation", op),
        }
    }

    pub(super) fn read(&mut self, record: &RecordRef<'_>, verdict: Verdict) {
        match (record.op, verdict) {
            (Op::Late, _) => self.reads_late += 1,
            (_, Verdict::Emit) => self.reads_emitted += 1,
            (_, Verdict::DropMarked) => self.reads_dropped_marker += 1,
            (_, Verdict::DropSuperseded) => self.reads_dropped_superseded += 1,
            (_, Verdict::Unsafe(OnForgotten::Quarantine)) => self.reads_quarantined += 1,
            (_, Verdict::Unsafe(OnForgotten::Emit)) => self.reads_emitted_unsafe += 1,
            (_, Verdict::Unsafe(OnForgotten::Fail)) => self.reads_failed += 1,
        }
    }
}

pub(super) fn unreachable_op(input: &str, op: Op) -> ! {
    panic!("a record with op {op:?} came on the {input} input: the source mixed up its roles");
}
