//! Whether a request fits the state of the job. Pure.
//!
//! Invariant: what is refused has changed nothing; the reason names what was found and what would
//! be accepted.

use super::record::Promotion;
use super::request::{Body, Open, Refusal};
use super::stage::Stage;
use super::step::progress;
use crate::checkpoint::manifest::GenerationState;
use crate::config::units::print_instant;
use crate::table::Table;
use headwater_operators::control::PartitionTarget;
use headwater_operators::retention::KeepMarkers;
use std::collections::BTreeSet;

/// What a request is judged by.
#[derive(Clone, Debug)]
pub struct Now<'a> {
    /// The tables of the job.
    pub tables: &'a [Table],
    /// Every generation.
    pub generations: &'a [&'a GenerationState],
    /// Snapshot partitions of a generation: number, topic, partition.
    pub partitions: &'a [(u32, String, u32)],
    /// Which markers are kept.
    pub keep: KeepMarkers,
    /// The margin, in job time.
    pub start_margin_ms: u64,
    /// The latest tick of a marker that was forgotten.
    pub forgotten_through: Option<u64>,
    /// Job time and wall time (ms since 1970), ascending, and both of now at its end.
    pub wall: &'a [(u64, u64)],
    /// How far clocks may be apart.
    pub clock_skew_max_ms: u64,
    /// A ttl below it is refused, if one is required.
    pub ttl_ms_min: Option<u64>,
}

impl Now<'_> {
    /// The generation of this id.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self, id: &str) -> Result<&GenerationState, Refusal> {
        let found = self.generations.iter().find(|of| of.id == id);
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = self.generations.iter().map(|of| of.id.as_str()).collect();
            Refusal::Unknown(format!(
                "there is no generation {id}; known: {}",
                known.join(", ")
            ))
        })
    }

    fn table(&self, number: u16) -> &str {
        let table = self.tables.get(usize::from(number));
        table.map_or("?", |table| table.name.as_str())
    }
}

/// Judges one.
///
/// # Errors
/// Why it is refused.
pub fn admit(body: &Body, now: &Now<'_>) -> Result<(), Refusal> {
    match body {
        Body::Open(open) => admit_open(open, now),
        Body::Finish { generation, ends } => {
            let state = now.find(generation)?;
            active(state)?;
            if progress(state) != Stage::Open {
                return conflict(format!("the ends of {generation} are frozen already"));
            }
            all_partitions(state, ends, now)
        }
        Body::Abort { generation, .. } => admit_abort(generation, now),
        Body::DropTable { generation, table } => {
            let state = now.find(generation)?;
            active(state)?;
            let left: Vec<u16> = left(state).collect();
            match (left.contains(table), left.len()) {
                (false, _) => Err(Refusal::Unknown(format!(
                    "{generation} has no table {}",
                    now.table(*table)
                ))),
                (true, 1) => conflict(format!(
                    "{} is the last table of {generation}; abort the generation instead",
                    now.table(*table)
                )),
                _ if progress(state) >= Stage::CaughtUp => {
                    conflict(format!("{generation} has read all its tables"))
                }
                _ => Ok(()),
            }
        }
        Body::AcceptLag { generation } => {
            let state = now.find(generation)?;
            active(state)?;
            match state.passed {
                Some(_) => conflict(format!(
                    "{generation} does not wait for the live connector any more"
                )),
                None => Ok(()),
            }
        }
        // To accept none is no harm: it may have been asked for twice.
        Body::AcceptDeadLetters { generation } => active(now.find(generation)?),
        Body::Reads { per_second_max, .. } => match per_second_max {
            Some(Some(0)) => conflict("a rate of 0; pause READs instead".to_owned()),
            _ => Ok(()),
        },
        Body::Ttl { ttl_ms } => admit_ttl(*ttl_ms, now),
        Body::MarkersMax { markers_max: 0 } => conflict("a marker limit of 0".to_owned()),
        Body::MarkersMax { .. } => Ok(()),
        Body::PromoteBegin { .. } | Body::PromoteEnd { .. } | Body::Demote { .. } => {
            admit_promotion(body, now)
        }
    }
}

fn admit_abort(generation: &str, now: &Now<'_>) -> Result<(), Refusal> {
    let state = now.find(generation)?;
    // One whose hook has ended badly is under way no more.
    let under_way =
        |of: &Promotion| of.done_ms.is_none() && of.demoted.is_none() && of.hook.is_none();
    if state.promotion.as_ref().is_some_and(under_way) {
        return conflict(format!(
            "a promotion of {generation} is under way, or its hook was interrupted: run it to its \
             end with `headwater generation promote {generation}`, or stop the job and give the \
             generation up with `headwater run --abort-generation {generation}`"
        ));
    }
    match state.stage {
        Stage::Promoted => conflict(format!(
            "{generation} is promoted; take that back first: headwater generation demote \
             {generation}"
        )),
        _ => active(state),
    }
}

fn admit_promotion(body: &Body, now: &Now<'_>) -> Result<(), Refusal> {
    match body {
        Body::PromoteBegin { generation, .. } => {
            let state = now.find(generation)?;
            match state.stage {
                Stage::Ready | Stage::Promoted => Ok(()),
                stage => conflict(format!("{generation} is {}, not ready", stage.word())),
            }
        }
        Body::PromoteEnd { generation, .. } => {
            let state = now.find(generation)?;
            let begun = state.promotion.as_ref();
            match begun.is_some_and(|promotion| promotion.done_ms.is_none()) {
                true => Ok(()),
                false => conflict(format!("no promotion of {generation} is under way")),
            }
        }
        Body::Demote { generation, .. } => {
            let state = now.find(generation)?;
            match (state.stage, &state.promotion) {
                (Stage::Promoted, Some(Promotion { demoted: None, .. })) => Ok(()),
                _ => conflict(format!("{generation} is not promoted")),
            }
        }
        // Only these three come here.
        _ => Ok(()),
    }
}

fn admit_ttl(ttl_ms: u64, now: &Now<'_>) -> Result<(), Refusal> {
    match (now.keep, now.ttl_ms_min) {
        (KeepMarkers::UntilReady { .. }, _) => conflict(
            "markers are kept until ready (`retention.keep_markers`), so there is no ttl to set"
                .to_owned(),
        ),
        (KeepMarkers::Ttl { .. }, Some(min)) if ttl_ms < min => conflict(format!(
            "a ttl of {} s is below the budget of {} s (`retention.require_budget`)",
            ttl_ms / 1000,
            min / 1000
        )),
        _ => Ok(()),
    }
}

fn admit_open(open: &Open, now: &Now<'_>) -> Result<(), Refusal> {
    if open.topics.is_empty() || open.partitions.is_empty() {
        return conflict("a generation needs a table and its snapshot topic".to_owned());
    }
    if let Some(id) = &open.generation
        && now.generations.iter().any(|of| of.id == *id)
    {
        return conflict(format!(
            "there is a generation {id} already; an id names one"
        ));
    }
    for (table, topic) in &open.topics {
        if usize::from(*table) >= now.tables.len() {
            return Err(Refusal::Unknown(format!("the job has no table {table}")));
        }
        if now.tables.iter().any(|of| of.mutations == *topic) {
            return conflict(format!("{topic} is a mutation topic of the job"));
        }
        let taken = now.generations.iter().find(|of| {
            let mut topics = of.topics.values();
            topics.any(|taken| taken == topic)
        });
        if let Some(of) = taken {
            return conflict(format!(
                "{topic} is the snapshot topic of generation {}; each generation has its own",
                of.id
            ));
        }
    }
    let (tick, _) = opened_at(open, now);
    let window_start = tick.saturating_sub(now.start_margin_ms);
    let at_risk = now.forgotten_through.filter(|tick| *tick >= window_start);
    match (now.keep, at_risk) {
        (KeepMarkers::UntilReady { .. }, Some(forgotten)) => conflict(format!(
            "the snapshot began at {}, and markers up to {} were forgotten: with `start_margin` \
             its window begins at {}. Take a new snapshot after the open, or raise \
             `retention.open_late_max`",
            print_instant(wall_of(tick, now.wall)),
            print_instant(wall_of(forgotten, now.wall)),
            print_instant(wall_of(window_start, now.wall)),
        )),
        _ => Ok(()),
    }
}

/// When its snapshot began: as a tick, and ms since 1970.
pub fn opened_at(open: &Open, now: &Now<'_>) -> (u64, i64) {
    let (tick, wall_ms) = now.wall.last().copied().unwrap_or_default();
    let wall_ms = i64::try_from(wall_ms).unwrap_or(i64::MAX);
    let skew_ms = i64::try_from(now.clock_skew_max_ms).unwrap_or(i64::MAX);
    match open.started_at_ms {
        Some(started) if started < wall_ms => {
            (tick_of(started.saturating_sub(skew_ms), now.wall), started)
        }
        _ => (tick.saturating_sub(now.clock_skew_max_ms), wall_ms),
    }
}

/// The last known tick at or before a wall time; 0 before the first.
pub fn tick_of(wall_ms: i64, wall: &[(u64, u64)]) -> u64 {
    let wall_ms = u64::try_from(wall_ms).unwrap_or(0);
    // Between two entries both clocks go on alike, or the job was down, or the wall clock was set:
    // a time that it has shown twice is the first, so that a window never begins too late.
    let shown = |(index, (tick, at)): &(usize, &(u64, u64))| {
        let next = wall.get(index + 1);
        let before = |(next_tick, next_at): &(u64, u64)| {
            wall_ms < *next_at || wall_ms - at < next_tick.saturating_sub(*tick)
        };
        *at <= wall_ms && next.is_none_or(before)
    };
    let found = wall.iter().enumerate().find(shown);
    found.map_or(0, |(_, (tick, _))| *tick)
}

/// About which wall time a tick was, ms since 1970.
pub fn wall_of(tick: u64, wall: &[(u64, u64)]) -> i64 {
    let before = wall.iter().rev().find(|(of, _)| *of <= tick);
    let ms = match (before, wall.first()) {
        (Some((of, at)), _) => at.saturating_add(tick - of),
        (None, Some((of, at))) => at.saturating_sub(of - tick),
        (None, None) => 0,
    };
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The tables that a generation still has.
pub fn left(state: &GenerationState) -> impl Iterator<Item = u16> {
    let tables = state.tables.iter().copied();
    tables.filter(|table| !state.dropped_tables.contains(table))
}

fn active(state: &GenerationState) -> Result<(), Refusal> {
    match state.stage.is_over() {
        true => conflict(format!("{} is {}", state.id, state.stage.word())),
        false => Ok(()),
    }
}

fn all_partitions(
    state: &GenerationState,
    ends: &[PartitionTarget],
    now: &Now<'_>,
) -> Result<(), Refusal> {
    if ends.is_empty() {
        return Ok(());
    }
    let topics = super::ready::topics(state);
    let wanted: BTreeSet<(&str, u32)> = now
        .partitions
        .iter()
        .filter(|(number, topic, _)| *number == state.number && topics.contains(topic.as_str()))
        .map(|(_, topic, partition)| (topic.as_str(), *partition))
        .collect();
    let given: BTreeSet<(&str, u32)> = ends
        .iter()
        .map(|end| (end.topic.as_str(), end.partition))
        .collect();
    match wanted.symmetric_difference(&given).next() {
        None => Ok(()),
        Some((topic, partition)) => conflict(format!(
            "an end is needed for each snapshot partition of {}, and for no other: see \
             {topic}[{partition}]",
            state.id
        )),
    }
}

fn conflict(text: String) -> Result<(), Refusal> {
    Err(Refusal::Conflict(text))
}

#[cfg(test)]
mod tests;
