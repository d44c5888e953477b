//! From what is known of a key to what becomes of a READ of it, and why. Pure.
//!
//! Invariant: the verdict is that of [`headwater_operators::decide::decide`], given what the merge
//! that owns the key knows; nothing of the rule is said twice.
//!
//! It cannot know what a READ that comes later meets: a mutation may come first.

use crate::checkpoint::manifest::{GenerationState, JobTime};
use crate::checkpoint_cli::Moment;
use crate::generation::Stage;
use crate::key::KeyShape;
use headwater_operators::decide::{OnForgotten, Verdict, decide};
use headwater_operators::merge::Looked;
use headwater_operators::retention::{KeepMarkers, Window};
use serde::{Deserialize, Serialize};

/// Version of the document.
pub const VERSION: u32 = 1;

/// Everything that an explanation stands on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The job.
    pub job: &'a str,
    /// The table's name.
    pub table: &'a str,
    /// Its number.
    pub number: u16,
    /// The key as JSON.
    pub key: &'a str,
    /// The key's columns.
    pub shape: &'a KeyShape,
    /// Whether records of the table have shown such a key.
    pub seen: bool,
    /// What the merge that owns the key knows, or would know.
    pub looked: &'a Looked,
    /// Every generation that is known, oldest first.
    pub generations: &'a [GenerationState],
    /// Which markers are kept.
    pub keep: KeepMarkers,
    /// For generations that are not open: how far their window began before the snapshot.
    pub start_margin_ms: u64,
    /// What happens to a READ that may be stale.
    pub on_forgotten: OnForgotten,
    /// Whether the rule is applied.
    pub rule: bool,
    /// Job time and wall time.
    pub time: &'a JobTime,
    /// Who says so.
    pub source: Source,
}

/// Where an explanation comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "from")]
pub enum Source {
    /// The running job.
    Live,
    /// A checkpoint.
    Checkpoint {
        /// Its number.
        number: u64,
        /// Why the job itself does not say.
        why: String,
    },
}

/// An explanation: the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Of the document.
    pub version: u32,
    /// The job.
    pub job: String,
    /// Who says so.
    pub source: Source,
    /// As of when.
    pub as_of: Moment,
    /// The table.
    pub table: String,
    /// The key as JSON, its columns in name order.
    pub key: String,
    /// Columns of the key and their classes.
    pub columns: KeyShape,
    /// When the last mutation of the key was read, if that is remembered.
    pub marked: Option<Moment>,
    /// Until when the marker is kept.
    pub kept: Option<Kept>,
    /// The latest marker, of any key, that was forgotten.
    pub forgotten_through: Option<Moment>,
    /// What becomes of a READ, by generation of the table, oldest first.
    pub generations: Vec<OfGeneration>,
    /// What else is to be known, in words.
    pub notes: Vec<String>,
}

/// How long a marker is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Until these generations are ready.
    UntilReady(Vec<String>),
    /// For so many ms of job time from now on, unless the key is mutated again.
    ForMs(u64),
    /// It is in no window, and goes with the next clean-up.
    NoLonger,
}

/// What becomes of a READ of the key in one generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfGeneration {
    /// Its id.
    pub id: String,
    /// Its number.
    pub number: u32,
    /// Its stage.
    pub stage: Stage,
    /// Whether its READs of the table are decided at all.
    pub open: bool,
    /// The snapshot topic of the table, when it is not that of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The start of its window: older markers do not count.
    pub window_from: Moment,
    /// Whether the marker is in the window.
    pub marker_in_window: bool,
    /// Whether a marker of the window, of any key, was forgotten.
    pub at_risk: bool,
    /// What becomes of a READ.
    pub outcome: Outcome,
}

/// What becomes of a READ, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Emitted.
    Emitted,
    /// Emitted, as the rule is off.
    EmittedRuleOff,
    /// Dropped: its key has a marker of the window.
    DroppedMarker,
    /// Dropped: its generation is not open for the table.
    DroppedSuperseded,
    /// The last mutation of its key could not be decoded: quarantined.
    Poisoned,
    /// May be stale: quarantined.
    Quarantined,
    /// May be stale: emitted all the same.
    EmittedUnsafe,
    /// May be stale: the job ends.
    EndsJob,
}

impl Outcome {
    fn of(verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Emit => Outcome::Emitted,
            Verdict::DropMarked => Outcome::DroppedMarker,
            Verdict::DropSuperseded => Outcome::DroppedSuperseded,
            Verdict::Poisoned => Outcome::Poisoned,
            Verdict::Unsafe(OnForgotten::Quarantine) => Outcome::Quarantined,
            Verdict::Unsafe(OnForgotten::Emit) => Outcome::EmittedUnsafe,
            Verdict::Unsafe(OnForgotten::Fail) => Outcome::EndsJob,
        }
    }
}

impl Explanation {
    /// What follows from the facts.
    pub fn of(facts: &Facts<'_>) -> Explanation {
        let moment = |ms| Moment::of(ms, facts.time);
        let looked = facts.looked;
        let generations = generations(facts);
        let mut notes = Vec::new();
        if !facts.seen {
            notes.push(
                "no key of this table was seen yet, on either topic: its columns cannot be checked"
                    .to_owned(),
            );
        }
        if generations.is_empty() {
            notes.push("no generation reads this table: its READs stay unread".to_owned());
        }
        if generations
            .iter()
            .any(|of| of.open && of.stage > Stage::Open)
        {
            notes.push(
                "a READ behind the frozen end of its partition is late: quarantined, whatever its \
                 key"
                .to_owned(),
            );
        }
        Explanation {
            version: VERSION,
            job: facts.job.to_owned(),
            source: facts.source.clone(),
            as_of: moment(facts.time.now_ms),
            table: facts.table.to_owned(),
            key: facts.key.to_owned(),
            columns: facts.shape.clone(),
            marked: looked.marker.map(moment),
            kept: looked.marker.map(|tick| kept(tick, facts, &generations)),
            forgotten_through: looked.forgotten_through.map(moment),
            generations,
            notes,
        }
    }
}

fn generations(facts: &Facts<'_>) -> Vec<OfGeneration> {
    let looked = facts.looked;
    let mut all: Vec<OfGeneration> = Vec::new();
    for state in facts.generations {
        let window = looked.windows.iter().find(|of| of.0 == state.number);
        let window = window.map(|(_, window)| *window);
        let named = state.tables.contains(&facts.number);
        if window.is_some() || named || state.dropped_tables.contains(&facts.number) {
            all.push(of_generation(facts, state, window));
        }
    }
    // Opened since the list was made.
    for (number, window) in &looked.windows {
        if facts
            .generations
            .iter()
            .all(|state| state.number != *number)
        {
            let state = GenerationState {
                number: *number,
                id: format!("g{number}"),
                ..GenerationState::default()
            };
            all.push(of_generation(facts, &state, Some(*window)));
        }
    }
    all
}

fn of_generation(
    facts: &Facts<'_>,
    state: &GenerationState,
    window: Option<Window>,
) -> OfGeneration {
    let Looked {
        marker,
        poison,
        forgotten_through,
        ..
    } = *facts.looked;
    let shown = window.unwrap_or(Window {
        start_ms: state.opened_at_ms.saturating_sub(facts.start_margin_ms),
    });
    let outcome = match facts.rule {
        true => Outcome::of(decide(
            marker,
            poison,
            window,
            forgotten_through,
            facts.on_forgotten,
        )),
        false => Outcome::EmittedRuleOff,
    };
    OfGeneration {
        id: state.id.clone(),
        number: state.number,
        stage: state.stage,
        open: window.is_some(),
        topic: state.topics.get(&facts.number).cloned(),
        window_from: Moment::of(shown.start_ms, facts.time),
        marker_in_window: marker.is_some_and(|tick| shown.holds(tick)),
        at_risk: shown.at_risk(forgotten_through),
        outcome,
    }
}

/// How long the marker of `tick` is kept.
fn kept(tick: u64, facts: &Facts<'_>, generations: &[OfGeneration]) -> Kept {
    let left = |for_ms: u64| match tick.saturating_add(for_ms).checked_sub(facts.time.now_ms) {
        None | Some(0) => Kept::NoLonger,
        Some(left) => Kept::ForMs(left),
    };
    match facts.keep {
        KeepMarkers::Ttl { ttl_ms } => left(ttl_ms),
        KeepMarkers::UntilReady { open_late_max_ms } => {
            // Those of other tables keep every marker of their windows, too.
            let others = facts.generations.iter().filter(|state| {
                let ours = generations.iter().any(|of| of.number == state.number);
                !ours && state.stage.takes_reads() && !state.tables.is_empty()
            });
            let others = others.map(|state| {
                let start_ms = state.opened_at_ms.saturating_sub(facts.start_margin_ms);
                (&state.id, Window { start_ms }.holds(tick))
            });
            let ours = generations.iter().filter(|of| of.open);
            let ours = ours.map(|of| (&of.id, of.marker_in_window));
            let open: Vec<(&String, bool)> = ours.chain(others).collect();
            let holding = open.iter().filter(|(_, holds)| *holds);
            let ids: Vec<String> = holding.map(|(id, _)| (*id).clone()).collect();
            match (ids.is_empty(), open.is_empty()) {
                (false, _) => Kept::UntilReady(ids),
                (true, true) => left(facts.start_margin_ms.saturating_add(open_late_max_ms)),
                (true, false) => Kept::NoLonger,
            }
        }
    }
}

#[cfg(test)]
pub(in crate::explain) mod tests;
