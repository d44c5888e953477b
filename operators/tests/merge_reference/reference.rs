//! The slow oracle: replays what came out, record by record, and compares with the source.
//!
//! It knows nothing of marker stores, ticks in runs or windows of lookups; it knows the commit
//! order. A READ is stale if a mutation that is newer than its row had left before it.
//!
//! Invariant: it judges *positions of the output*, not only the table at the end: a stale READ that
//! a later record hides is still a finding.

use crate::history::{History, Row};
use crate::world::{World, applies};
use headwater_operators::merge::MergeCounters;
use headwater_operators::record::Op;
use std::collections::BTreeMap;

/// A stale READ: where it was emitted, and the mutation that was newer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The READ.
    pub(crate) read: Row,
    /// The version that had left before it.
    pub(crate) newer: u64,
}

/// Replays one worker's output in order and gives every READ that was emitted stale.
pub(crate) fn stale_reads<'a>(output: impl Iterator<Item = &'a Row>) -> Vec<Stale> {
    let mut newest: BTreeMap<usize, u64> = BTreeMap::new();
    let mut stale = Vec::new();
    for row in output {
        match row.op {
            Op::Upsert | Op::Delete => {
                let version = newest.entry(row.key).or_default();
                *version = row.version.max(*version);
            }
            Op::Read => {
                let newer = newest.get(&row.key).copied().unwrap_or(0);
                if newer > row.version {
                    stale.push(Stale {
                        read: row.clone(),
                        newer,
                    });
                }
            }
            _ => {}
        }
    }
    stale
}

/// The table that a replay of all workers' outputs leaves: each key lives on one worker.
pub(crate) fn table(world: &World, keys: usize) -> Vec<Option<u64>> {
    let mut table = vec![None; keys];
    for row in world.sides.iter().flat_map(|side| &side.sunk) {
        if applies(row.op) {
            table[row.key] = (row.op != Op::Delete).then_some(row.version);
        }
    }
    table
}

/// Every mutation left exactly once, those of a partition that one worker owns in their order.
pub(crate) fn check_mutations(world: &World, history: &History) {
    let mut left = Vec::new();
    for side in &world.sides {
        let mut last = vec![None; history.partitions];
        for (_, row) in &side.merged {
            if matches!(row.op, Op::Upsert | Op::Delete | Op::ReadInPlace) {
                let last = &mut last[row.partition as usize];
                assert!(*last < Some(row.offset), "out of order: {row:?}");
                *last = Some(row.offset);
                left.push((row.partition, row.offset));
            }
        }
    }
    left.sort_unstable();
    let all = (0..history.partitions).flat_map(|partition| {
        let count = history.mutations(partition).len() as u64;
        (0..count).map(move |offset| (partition as u32, offset))
    });
    assert_eq!(
        left,
        all.collect::<Vec<_>>(),
        "a mutation was lost or repeated"
    );
}

/// All workers' counters together.
pub(crate) fn total(world: &World) -> MergeCounters {
    let mut total = MergeCounters::default();
    for counters in world.sides.iter().map(|side| &side.counters) {
        total.upserts += counters.upserts;
        total.deletes += counters.deletes;
        total.reads_in_place += counters.reads_in_place;
        total.reads_emitted += counters.reads_emitted;
        total.reads_dropped_marker += counters.reads_dropped_marker;
        total.reads_dropped_superseded += counters.reads_dropped_superseded;
        total.reads_quarantined += counters.reads_quarantined;
        total.reads_late += counters.reads_late;
        total.reads_emitted_unsafe += counters.reads_emitted_unsafe;
        total.reads_failed += counters.reads_failed;
        total.reads_held += counters.reads_held;
        for (generation, of) in &counters.generations {
            let sum = total.generations.entry(*generation).or_default();
            sum.emitted += of.emitted;
            sum.dropped_marker += of.dropped_marker;
            sum.dropped_superseded += of.dropped_superseded;
            sum.late += of.late;
            sum.unsafe_reads += of.unsafe_reads;
        }
    }
    total
}

/// The counters say what the output shows, and every READ that came in is in one of them.
pub(crate) fn check_counters(world: &World) {
    let total = total(world);
    let left = |op| {
        let rows = world.sides.iter().flat_map(|side| &side.merged);
        rows.filter(|(_, row)| row.op == op).count() as u64
    };
    assert_eq!(total.upserts, left(Op::Upsert));
    assert_eq!(total.deletes, left(Op::Delete));
    assert_eq!(total.reads_in_place, left(Op::ReadInPlace));
    assert_eq!(
        total.reads_emitted + total.reads_emitted_unsafe,
        left(Op::Read)
    );
    assert_eq!(total.reads_quarantined, left(Op::Quarantined));
    assert_eq!(total.reads_late, left(Op::Late));
    for (generation, of) in &total.generations {
        let read = world.reads_in.iter();
        let read = read.filter(|row| row.generation == *generation).count() as u64;
        let all = of.emitted + of.dropped_marker + of.dropped_superseded + of.late;
        assert_eq!(all + of.unsafe_reads, read, "generation {generation}");
    }
    let accounted = total.reads_emitted
        + total.reads_emitted_unsafe
        + total.reads_dropped_marker
        + total.reads_dropped_superseded
        + total.reads_quarantined
        + total.reads_late
        + total.reads_failed;
    assert_eq!(
        accounted,
        world.reads_in.len() as u64,
        "a READ is unaccounted for"
    );
}
