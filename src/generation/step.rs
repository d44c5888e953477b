//! The transitions of a generation: one pure function over what is known of it.
//!
//! Invariant: a stage is come into only when the one before was; nothing but a late READ or a dead
//! letter takes one back, and that before promotion alone. An unsafe generation goes on being read
//! to its end, and is never ready.

use super::stage::Stage;
use crate::checkpoint::manifest::GenerationState;
use crate::config::choices::{CaughtUp, SourceFinished};

/// What is known of a generation at a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The strongest evidence that counts for the end of the snapshot.
    pub finished: Option<SourceFinished>,
    /// All READs up to the frozen ends have left the merge.
    pub consumed: bool,
    /// The cutoff is known.
    pub cutoff: bool,
    /// The strongest evidence that counts for the live connector having passed it.
    pub passed: Option<CaughtUp>,
    /// The mutation targets were sampled.
    pub targets: bool,
    /// Mutations up to them, and all READs, are in the target.
    pub reached: bool,
    /// READs that met a forgotten marker, in this run and before.
    pub unsafe_reads: u64,
    /// READs behind a frozen end, likewise.
    pub late_reads: u64,
    /// Mutations of its tables that could not be decoded, and that nobody has accepted.
    pub dead_letters: u64,
    /// The marker rule is off.
    pub rule_off: bool,
    /// The last durable manifest of which `ready` is true.
    pub ready_manifest: Option<u64>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait.
    Nothing,
    /// It can never be ready: READs met a forgotten marker, or the rule is off.
    Spoil,
    /// The snapshot has ended: look at its partitions again and freeze the ends.
    Freeze(SourceFinished),
    /// All READs are merged.
    Consume,
    /// Find out what the live connector must pass.
    TakeCutoff,
    /// The live connector has: sample the high watermarks of the mutation topics.
    SampleTargets(CaughtUp),
    /// Everything up to the targets is in the target.
    CatchUp,
    /// Make a manifest that may be ready.
    Save,
    /// This manifest is.
    Ready(u64),
    /// A READ came late, or a mutation could not be decoded, before promotion.
    TakeBack,
}

/// How far a generation is on its way, whether or not it can be ready.
pub fn progress(state: &GenerationState) -> Stage {
    let on_the_way = state.reached.iter().rev().map(|reached| reached.stage);
    let last = on_the_way
        .into_iter()
        .find(|stage| *stage <= Stage::Promoted);
    last.unwrap_or_default()
}

/// The transition function; `stage` is where it stands, `progress` how far it is on its way.
pub fn next(stage: Stage, progress: Stage, facts: &Facts) -> Next {
    if stage.is_over() {
        return Next::Nothing;
    }
    let spoiled = facts.unsafe_reads > 0 || facts.rule_off;
    if spoiled && !matches!(stage, Stage::Unsafe | Stage::Ready | Stage::Promoted) {
        return Next::Spoil;
    }
    let lacking = facts.late_reads > 0 || facts.dead_letters > 0;
    match progress {
        Stage::Open => facts.finished.map_or(Next::Nothing, Next::Freeze),
        Stage::SourceFinished if facts.consumed => Next::Consume,
        Stage::SourceFinished | Stage::TopicConsumed if !facts.cutoff => Next::TakeCutoff,
        Stage::SourceFinished | Stage::TopicConsumed if !facts.targets => {
            facts.passed.map_or(Next::Nothing, Next::SampleTargets)
        }
        Stage::TopicConsumed if facts.reached => Next::CatchUp,
        Stage::CaughtUp if spoiled || lacking => Next::Nothing,
        Stage::CaughtUp => facts.ready_manifest.map_or(Next::Save, Next::Ready),
        Stage::Ready if lacking => Next::TakeBack,
        _ => Next::Nothing,
    }
}

#[cfg(test)]
mod tests;
