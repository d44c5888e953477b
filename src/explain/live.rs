//! What a running job knows of a key.
//!
//! Invariant: a question does not hold the job: whoever waits for the answer holds no [`Job`].
//!
//! It cannot be asked in another process than 0: the desk is worker 0's.

use super::facts::{Explanation, Facts, Source};
use super::key::{self, Key};
use super::saved::kept;
use crate::checkpoint::manifest::{GenerationState, JobTime};
use crate::error::Error;
use crate::job::{Job, Shown};
use crate::looks::Look;
use headwater_operators::merge::Looked;
use tokio::sync::oneshot::Receiver;

/// A question, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    number: usize,
    key: Key,
}

/// Reads table and key, and asks; nothing instead of the receiver when too many wait already.
///
/// # Errors
/// Of usage: the table or the key is wrong.
pub fn ask(job: &Job, table: &str, text: &str) -> Result<(Asked, Option<Receiver<Looked>>), Error> {
    let number = key::table_number(&job.tables, table)?;
    let shapes = job.gate.shapes();
    let shape = key::shape_of(&shapes, number);
    let of = &job.tables[number];
    let key = key::read(of, shape, job.settings.decode.key_framing, text)?;
    let answer = job.panel.looks.ask(Look {
        fingerprint: key.fingerprint(job.secret, &of.name),
        table: u16::try_from(number).expect("fewer than 65,536 tables"),
    });
    Ok((Asked { number, key }, answer))
}

/// What follows from the answer; `name` is the job's, `wall_ms` the wall time of now.
pub fn explain(job: &Job, name: &str, asked: &Asked, looked: &Looked, wall_ms: u64) -> Explanation {
    let shown = job.panel.shown();
    let settings = &job.settings;
    let (keep, start_margin_ms) = kept(&shown.retention)
        .map_or((settings.keep_markers, settings.start_margin_ms), |keep| {
            (keep, shown.retention.start_margin_ms)
        });
    Explanation::of(&Facts {
        job: name,
        table: &job.tables[asked.number].name,
        number: u16::try_from(asked.number).expect("fewer than 65,536 tables"),
        key: &asked.key.json,
        shape: &asked.key.shape,
        seen: asked.key.seen,
        looked,
        generations: &generations(job, &shown),
        keep,
        start_margin_ms,
        on_forgotten: settings.on_forgotten,
        rule: settings.rule,
        time: &time(job, job.clock.now_ms(), wall_ms),
        source: Source::Live,
    })
}

/// Every generation; the one of the job's start as long as none is shown.
fn generations(job: &Job, shown: &Shown) -> Vec<GenerationState> {
    let states: Vec<GenerationState> = shown
        .generations
        .iter()
        .map(|generation| generation.state.clone())
        .collect();
    if !states.is_empty() {
        return states;
    }
    let tables = 0..u16::try_from(job.tables.len()).expect("fewer than 65,536 tables");
    vec![GenerationState {
        number: 1,
        id: job.generation_id.clone(),
        tables: tables.collect(),
        ..GenerationState::default()
    }]
}

/// Job time and wall time: what the checkpoint of the start knew, and this run, whose job time goes
/// with the wall.
fn time(job: &Job, now_ms: u64, wall_ms: u64) -> JobTime {
    let base = job.checkpoints.as_ref().map(|to| &to.base.time);
    let from_ms = base.map_or(0, |time| time.now_ms).min(now_ms);
    let mut wall = base.map_or_else(Vec::new, |time| time.wall.clone());
    wall.retain(|(logical, _)| *logical < from_ms);
    wall.push((from_ms, wall_ms.saturating_sub(now_ms - from_ms)));
    wall.push((now_ms, wall_ms));
    JobTime {
        tick_ms: job.settings.tick_ms,
        cut_ms: now_ms,
        now_ms,
        wall,
    }
}

#[cfg(test)]
mod tests;
