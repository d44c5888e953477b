//! Whether a generation is ready: a pure function of one manifest, to be asked of a durable one.
//!
//! Invariant: it looks at nothing but the manifest, so a restart from it says the same.

use crate::checkpoint::manifest::{GenerationState, Manifest, PartitionState};
use crate::dead_letter;
use crate::table::Role;
use std::collections::BTreeSet;

/// Why a generation is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// It is not in the manifest.
    Unknown,
    /// It was aborted, superseded, or is unsafe.
    Ended,
    /// Its ends are not frozen.
    NotFrozen,
    /// A snapshot partition was not read to its frozen end.
    Snapshot(String, u32),
    /// The live connector was not seen to have passed the cutoff, or targets were not sampled.
    NoTargets,
    /// A mutation partition was not read up to its target.
    Mutations(String, u32),
    /// READs met a forgotten marker.
    Unsafe(u64),
    /// READs lie behind a frozen end.
    Late(u64),
    /// Mutations could not be decoded, and nobody has accepted that.
    DeadLetters(u64),
}

/// Whether generation `number` is ready by this manifest.
///
/// # Errors
/// The first thing that is missing.
pub fn ready(manifest: &Manifest, number: u32) -> Result<(), NotReady> {
    let mut generations = manifest.generations.iter();
    let state = generations
        .find(|state| state.number == number)
        .ok_or(NotReady::Unknown)?;
    if state.stage.is_over() || state.stage == super::Stage::Unsafe {
        return Err(NotReady::Ended);
    }
    if state.unsafe_reads > 0 {
        return Err(NotReady::Unsafe(state.unsafe_reads));
    }
    let topics = topics(state);
    let mut partitions = 0;
    for of in manifest.of(Role::Snapshot) {
        if !topics.contains(of.topic.as_str()) {
            continue;
        }
        partitions += 1;
        match of.end {
            None => return Err(NotReady::NotFrozen),
            Some(end) if of.next_offset < end => {
                return Err(NotReady::Snapshot(of.topic.clone(), of.partition));
            }
            Some(_) => {}
        }
    }
    if partitions == 0 {
        return Err(NotReady::NotFrozen);
    }
    if state.targets.is_empty() || state.passed.is_none() {
        return Err(NotReady::NoTargets);
    }
    for target in &state.targets {
        let same =
            |of: &&PartitionState| of.topic == target.topic && of.partition == target.partition;
        let at = manifest.of(Role::Mutations).find(same);
        if at.is_none_or(|at| at.next_offset < target.end) {
            return Err(NotReady::Mutations(target.topic.clone(), target.partition));
        }
    }
    match state.late_reads {
        0 => {}
        late => return Err(NotReady::Late(late)),
    }
    match dead_letter::unaccepted(&manifest.dead_letters, state) {
        0 => Ok(()),
        letters => Err(NotReady::DeadLetters(letters)),
    }
}

/// The topics of the tables that a generation still has.
pub fn topics(state: &GenerationState) -> BTreeSet<&str> {
    let left = state
        .topics
        .iter()
        .filter(|(table, _)| state.tables.contains(table) && !state.dropped_tables.contains(table));
    left.map(|(_, topic)| topic.as_str()).collect()
}

#[cfg(test)]
mod tests;
