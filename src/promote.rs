//! Whether a generation may be promoted at this instant, and why not. Pure.
//!
//! Invariant: what is not known is not met. A promotion is a decision of the moment, not a latch
//! (design.md section 9): every look judges anew.
//!
//! It cannot see what the live connector has not written: that is what evidence stands for. (The
//! hook, in a file of its own, is not pure.)

pub mod hook;

use crate::config::choices::{CaughtUp, SourceFinished};
use crate::generation::{Stage, finished, live};
use crate::job::{Shown, ShownGeneration};
use crate::table::Role;
use serde::{Deserialize, Serialize};

/// Accepts rows that were in the target before, and whose DELETE nobody saw.
pub const GHOSTS: &str = "ghosts";
/// Accepts a lag that is too large or not known.
pub const LIVE_LAG: &str = "live_lag";

/// What promotion asks for: `[promote]`, and what the start has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The weakest evidence of `source_finished` that is enough.
    pub source_finished: SourceFinished,
    /// The weakest evidence of `caught_up` that is enough.
    pub caught_up: CaughtUp,
    /// How far behind the target may lie: what was read of mutations, and what is on its way.
    pub live_lag_max_ms: u64,
    /// Whether the target may have held rows at the first start.
    pub ghosts_possible: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            source_finished: SourceFinished::Counted,
            caught_up: CaughtUp::Seen,
            live_lag_max_ms: 5_000,
            ghosts_possible: false,
        }
    }
}

/// One thing that promotion asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// Its name, in snake case.
    pub name: String,
    /// What is asked for.
    pub required: String,
    /// What is there.
    pub actual: String,
    /// Whether that is enough.
    pub met: bool,
    /// What to do when it is not; null when it is met.
    pub remedy: Option<String>,
}

impl Terms {
    /// All criteria for one generation, with what is accepted for this promotion.
    pub fn criteria(
        &self,
        generation: &ShownGeneration,
        shown: &Shown,
        accepted: &[String],
    ) -> Vec<Criterion> {
        let accepts = |what: &str| accepted.iter().any(|word| word == what);
        vec![
            ready(generation),
            self.finished(generation),
            self.caught_up(generation),
            self.lag(shown, accepts(LIVE_LAG)),
            loss(generation),
            self.ghosts(accepts(GHOSTS)),
            durable(shown),
        ]
    }

    fn finished(&self, generation: &ShownGeneration) -> Criterion {
        let actual = evidence(generation, Stage::SourceFinished);
        let strong = actual.and_then(SourceFinished::from_word);
        evidenced(
            "source_finished",
            self.source_finished.word(),
            actual,
            strong.is_some_and(|found| finished::at_least(found, self.source_finished)),
            &stronger("source_finished", actual),
        )
    }

    fn caught_up(&self, generation: &ShownGeneration) -> Criterion {
        let actual = evidence(generation, Stage::CaughtUp);
        let strong = actual.and_then(CaughtUp::from_word);
        evidenced(
            "caught_up",
            self.caught_up.word(),
            actual,
            strong.is_some_and(|found| live::at_least(found, self.caught_up)),
            &stronger("caught_up", actual),
        )
    }

    fn lag(&self, shown: &Shown, accepted: bool) -> Criterion {
        let lags = shown.gauges.lag.iter();
        let live: Vec<Option<u64>> = lags
            .filter(|lag| lag.role == Role::Mutations)
            .map(crate::gauges::TopicLag::behind_ms)
            .collect();
        let known: Option<Vec<u64>> = live.into_iter().collect();
        let read = known.and_then(|all| all.into_iter().max());
        // What is read is not yet seen: a view moved to a target that is stuck would go back.
        let target = shown.now_ms.saturating_sub(shown.durable_ms);
        let within = |read: u64| read.saturating_add(target) <= self.live_lag_max_ms;
        let met = accepted || read.is_some_and(within);
        let read = read.map_or("not known".to_owned(), |lag| format!("{lag} ms"));
        let accepted = if accepted { ", accepted" } else { "" };
        let actual = format!("{read} until read, {target} ms until in the target{accepted}");
        Criterion {
            name: LIVE_LAG.to_owned(),
            required: format!(
                "together at most {} ms (promote.live_lag_max)",
                self.live_lag_max_ms
            ),
            actual,
            met,
            remedy: (!met).then(|| {
                "wait until mutations are read and in the target; or `headwater generation \
                 promote --accept live_lag`"
                    .to_owned()
            }),
        }
    }

    fn ghosts(&self, accepted: bool) -> Criterion {
        let met = !self.ghosts_possible || accepted;
        let actual = match (self.ghosts_possible, accepted) {
            (false, _) => "empty",
            (true, true) => "it may have held rows (target_not_empty = \"accept\"), accepted",
            (true, false) => "it may have held rows (target_not_empty = \"accept\")",
        };
        Criterion {
            name: "no_ghosts".to_owned(),
            required: "a target that was empty at the first start".to_owned(),
            actual: actual.to_owned(),
            met,
            remedy: (!met).then(|| {
                "`headwater verify`, then `headwater generation promote --accept-ghosts`".to_owned()
            }),
        }
    }
}

/// Whether all of them are met.
pub fn all_met(criteria: &[Criterion]) -> bool {
    // None at all: the job has just gone.
    !criteria.is_empty() && criteria.iter().all(|criterion| criterion.met)
}

fn ready(generation: &ShownGeneration) -> Criterion {
    let stage = generation.state.stage;
    let met = matches!(stage, Stage::Ready | Stage::Promoted);
    let remedy = match (&generation.waits, stage) {
        (Some(wait), _) => wait.command.clone().unwrap_or_else(|| wait.text.clone()),
        (None, Stage::Unsafe | Stage::Aborted | Stage::Superseded) => {
            "it can never be ready; open a new generation".to_owned()
        }
        (None, _) => "wait".to_owned(),
    };
    Criterion {
        name: "ready".to_owned(),
        required: "ready".to_owned(),
        actual: stage.word().to_owned(),
        met,
        remedy: (!met).then_some(remedy),
    }
}

fn loss(generation: &ShownGeneration) -> Criterion {
    let state = &generation.state;
    let (unsafe_reads, late) = (state.unsafe_reads, state.late_reads);
    let letters = generation.dead_letters;
    let bad_reads = unsafe_reads > 0 || late > 0 || state.stage == Stage::Unsafe;
    let met = !bad_reads && letters == 0;
    Criterion {
        name: "no_loss".to_owned(),
        required: "no READ that may be stale or came late, and no dead letter".to_owned(),
        actual: format!("{unsafe_reads} that may be stale, {late} late, {letters} dead letters"),
        met,
        remedy: (!met).then(|| match bad_reads {
            true => "`headwater quarantine ls`; then take a new snapshot of these keys".to_owned(),
            false => format!("headwater generation accept-dead-letters {}", state.id),
        }),
    }
}

fn durable(shown: &Shown) -> Criterion {
    let saved = shown.saved.as_ref();
    Criterion {
        name: "durable".to_owned(),
        required: "a durable checkpoint of this run".to_owned(),
        actual: saved.map_or("none".to_owned(), |saved| {
            format!("checkpoint {}", saved.number)
        }),
        met: saved.is_some(),
        remedy: saved.is_none().then(|| "wait for a checkpoint".to_owned()),
    }
}

/// What helps: the evidence of a stage that was reached does not change any more.
fn stronger(key: &str, found: Option<&str>) -> String {
    match found {
        None => "wait for it".to_owned(),
        Some(found) => format!(
            "it stands on `{found}` for good: set promote.{key} = \"{found}\" and start the job \
             again, or take the snapshot again into a new generation"
        ),
    }
}

/// What a stage stands on; that of a later stage does not count.
fn evidence(generation: &ShownGeneration, stage: Stage) -> Option<&str> {
    let mut reached = generation.state.reached.iter().rev();
    reached
        .find(|reached| reached.stage == stage)?
        .evidence
        .as_deref()
}

fn evidenced(
    name: &str,
    required: &str,
    actual: Option<&str>,
    met: bool,
    remedy: &str,
) -> Criterion {
    Criterion {
        name: name.to_owned(),
        required: format!("{required} or stronger (promote.{name})"),
        actual: actual.unwrap_or("none yet").to_owned(),
        met,
        remedy: (!met).then(|| remedy.to_owned()),
    }
}

#[cfg(test)]
mod tests;
