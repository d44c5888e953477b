//! Everything that must hold of a run, each breach in words.

use crate::history::Row;
use crate::reference::{check_counters, check_mutations, stale_reads, table, total};
use crate::scenario::{Plan, Run, TICK_MS};
use headwater_operators::record::Op;
use headwater_operators::retention::{KeepMarkers, Retention};
use headwater_operators::route::worker_of;

/// What is wrong with `run`.
pub(crate) fn findings(plan: &Plan, run: &Run) -> Vec<String> {
    let mut found = Vec::new();
    check_mutations(&run.world, &plan.history);
    check_counters(&run.world);
    let total = total(&run.world);
    let mut stale = 0;
    for side in &run.world.sides {
        for read in stale_reads(side.merged.iter().map(|(_, row)| row)) {
            stale += 1;
            if total.reads_emitted_unsafe == 0 {
                found.push(format!("a stale READ left the merge: {read:?}"));
            }
        }
        for read in stale_reads(side.sunk.iter()) {
            if total.reads_emitted_unsafe == 0 {
                found.push(format!("a stale READ reached the target: {read:?}"));
            }
        }
        if !side.sunk.iter().eq(side.merged.iter().map(|(_, row)| row)) {
            found.push("the sink applied another order than the merge's".to_owned());
        }
    }
    // With `emit`, a READ may be stale, and then it was counted as one that may be.
    if stale > total.reads_emitted_unsafe && plan.setup.merge.rule {
        found.push(format!(
            "{stale} stale READs, not all of them counted as unsafe"
        ));
    }
    found.extend(wrong_rows(plan, run));
    found.extend(forgotten_early(plan, run));
    found.extend(wrong_generation(plan, run));
    found
}

/// Rows of the target that are not the source's, apart from those that were refused by name.
fn wrong_rows(plan: &Plan, run: &Run) -> Vec<String> {
    if total(&run.world).reads_emitted_unsafe > 0 {
        return Vec::new();
    }
    let last = plan.backdated_ms.len() as u32;
    let refused = |key: usize| {
        let rows = run.world.sides.iter().flat_map(|side| &side.merged);
        rows.filter(|(_, row)| row.key == key && row.generation == last)
            .any(|(_, row)| matches!(row.op, Op::Quarantined | Op::Late))
    };
    let source = plan.history.final_table();
    let target = table(&run.world, source.len());
    let keys = (0..source.len()).filter(|key| source[*key] != target[*key] && !refused(*key));
    keys.map(|key| {
        let (source, target) = (source[key], target[key]);
        format!("key {key}: the source has {source:?}, the target {target:?}")
    })
    .collect()
}

/// The latest tick that any worker may have forgotten: the policy, asked tick by tick.
fn horizon_max(plan: &Plan, run: &Run) -> Option<u64> {
    let mut retention = Retention::new(plan.keep, plan.start_margin_ms);
    let mut commands = run.commands.iter().peekable();
    let mut horizon = None;
    for passed in (0..=run.world.now_ms).step_by(TICK_MS as usize) {
        while let Some((_, command)) = commands.next_if(|(tick, _)| *tick <= passed) {
            retention.apply(command);
        }
        horizon = horizon.max(retention.forget_through(passed));
    }
    horizon
}

/// READs that were called unsafe although no marker of their window may have gone.
fn forgotten_early(plan: &Plan, run: &Run) -> Vec<String> {
    let horizon = horizon_max(plan, run);
    let workers = plan.setup.workers;
    let mut found = Vec::new();
    for (worker, side) in run.world.sides.iter().enumerate() {
        let here = |index: usize| {
            let key = plan.history.commits[index].key;
            worker_of(plan.history.fingerprints[key], workers) as usize == worker
        };
        let quarantined = side
            .merged
            .iter()
            .filter(|(_, row)| row.op == Op::Quarantined);
        for (_, row) in quarantined {
            let start_ms = run.starts_ms[&row.generation];
            let may_be_gone =
                run.world.stamped.iter().any(|(tick, index)| {
                    *tick >= start_ms && Some(*tick) <= horizon && here(*index)
                });
            if !may_be_gone {
                found.push(format!("a marker was forgotten before its time: {row:?}"));
            }
        }
    }
    let late_max_ms = match plan.keep {
        KeepMarkers::UntilReady { open_late_max_ms } => open_late_max_ms,
        KeepMarkers::Ttl { .. } => return found,
    };
    let in_time = plan
        .backdated_ms
        .iter()
        .all(|back_ms| *back_ms <= late_max_ms);
    if in_time && total(&run.world).unsafe_reads() > 0 {
        found.push("a marker of an open generation was forgotten before its time".to_owned());
    }
    found
}

/// READs of the last generation, which stays open, that were called superseded.
fn wrong_generation(plan: &Plan, run: &Run) -> Vec<String> {
    let last = plan.backdated_ms.len() as u32;
    let older = |row: &&Row| row.generation < last;
    let left = run.world.sides.iter().flat_map(|side| &side.merged);
    let came = run.world.reads_in.iter().filter(older).count();
    let went = left
        .map(|(_, row)| row)
        .filter(|row| row.generation > 0)
        .filter(older)
        .count();
    let superseded = total(&run.world).reads_dropped_superseded;
    if superseded > (came - went) as u64 {
        return vec![format!(
            "{superseded} superseded READs of an open generation"
        )];
    }
    Vec::new()
}
