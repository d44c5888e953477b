//! What the last checkpoint knows of a key, for a job that does not answer.
//!
//! Invariant: markers are asked as a restored job would ask them: the same store, the ticks of all
//! workers, the runs that hold the fingerprint. A damaged one is an error, never "no marker".
//!
//! It cannot know what happened since: the answer says as of when it is.

use super::facts::{Explanation, Facts, Source};
use super::key::{self, Key};
use crate::checkpoint::manifest::{GenerationState, PoisonState, RetentionState};
use crate::checkpoint::{self, Manifest, read_run};
use crate::config::Config;
use crate::error::Error;
use crate::run::settings;
use crate::store::Store;
use crate::table::Table;
use headwater_operators::control::Command;
use headwater_operators::decide::OnForgotten;
use headwater_operators::marker::{MarkerArrangement, MarkerConfig, MarkerStore};
use headwater_operators::merge::Looked;
use headwater_operators::retention::{KeepMarkers, Retention};
use std::sync::Arc;

/// A live job may delete a checkpoint behind a newer one while it is read.
const TRIES: usize = 3;

/// What is around a manifest: policies of the configuration, where it does not say.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The tables of the configuration.
    pub tables: &'a [Table],
    /// Which markers are kept.
    pub keep: KeepMarkers,
    /// The margin of windows.
    pub start_margin_ms: u64,
    /// What happens to a READ that may be stale.
    pub on_forgotten: OnForgotten,
}

/// Explains a key by the newest checkpoint; `why` the job itself does not answer.
///
/// # Errors
/// Of usage: the table or the key is wrong. Failed: there is no checkpoint. Refused: it is damaged.
pub fn newest(config: &Config, table: &str, text: &str, why: &str) -> Result<Explanation, Error> {
    let store = Store::open(&config.checkpoint.store)?;
    let tables = config.tables();
    let terms = Terms {
        tables: &tables,
        keep: settings::keep_markers(config),
        start_margin_ms: settings::ms(config.retention.start_margin),
        on_forgotten: settings::on_forgotten(config),
    };
    let number = key::table_number(&tables, table)?;
    let framing = settings::decode(config).key_framing;
    let mut tries = TRIES;
    loop {
        let job = &config.job.job;
        let Some(manifest) = checkpoint::latest(&store, job)? else {
            return Err(Error::failed(format!("nothing is known of job {job}"))
                .line(format!("found     {why}"))
                .line(format!("missing   {job}/manifest/ in {}", store.place()))
                .line("It has no checkpoint, so no mutation is remembered."));
        };
        let shape = key::shape_of(&manifest.shapes, number);
        let key = key::read(&tables[number], shape, framing, text)?;
        match explain(&store, &manifest, terms, number, &key, why) {
            Err(error) if tries > 1 => {
                let gone = checkpoint::numbers(&store, job)?;
                if gone.contains(&manifest.number) {
                    return Err(error);
                }
                tries -= 1;
            }
            explained => return explained,
        }
    }
}

/// Explains a key by one manifest.
///
/// # Errors
/// Refused: a run that may hold its marker is missing or damaged.
pub fn explain(
    store: &Store,
    manifest: &Manifest,
    terms: Terms<'_>,
    number: usize,
    key: &Key,
    why: &str,
) -> Result<Explanation, Error> {
    let table = &terms.tables[number];
    let number = u16::try_from(number).expect("fewer than 65,536 tables");
    let secret = manifest.secret().map_err(|error| {
        Error::refused(format!(
            "checkpoint {} cannot be used: {error}",
            manifest.number
        ))
    })?;
    let (keep, start_margin_ms) = kept(&manifest.retention)
        .map_or((terms.keep, terms.start_margin_ms), |keep| {
            (keep, manifest.retention.start_margin_ms)
        });
    let mut looked = look(store, manifest, key.fingerprint(secret, &table.name))?;
    let mut retention = Retention::new(keep, start_margin_ms);
    manifest
        .generations
        .iter()
        .filter_map(open)
        .for_each(|open| {
            retention.apply(&open);
        });
    looked.windows = retention.windows(number);
    Ok(Explanation::of(&Facts {
        job: &manifest.job,
        table: &table.name,
        number,
        key: &key.json,
        shape: &key.shape,
        seen: key.seen,
        looked: &looked,
        generations: &manifest.generations,
        keep,
        start_margin_ms,
        on_forgotten: terms.on_forgotten,
        rule: true,
        time: &manifest.time,
        source: Source::Checkpoint {
            number: manifest.number,
            why: why.to_owned(),
        },
    }))
}

/// The policy of a manifest; nothing when an older program wrote it.
pub(super) fn kept(state: &RetentionState) -> Option<KeepMarkers> {
    match (state.ttl_ms, state.open_late_max_ms) {
        (Some(ttl_ms), _) => Some(KeepMarkers::Ttl { ttl_ms }),
        (None, Some(open_late_max_ms)) => Some(KeepMarkers::UntilReady { open_late_max_ms }),
        (None, None) => None,
    }
}

/// The command by which a generation is open; nothing when its READs are not decided any more.
fn open(state: &GenerationState) -> Option<Command> {
    let mut tables = state.tables.clone();
    tables.retain(|table| !state.dropped_tables.contains(table));
    let open = state.stage.takes_reads() && !tables.is_empty();
    open.then(|| Command::Open {
        generation: state.number,
        tables,
        opened_at_ms: state.opened_at_ms,
        id: state.id.clone(),
        topics: Vec::new(),
        partitions: Vec::new(),
        not_before_ms: state.not_before_ms,
    })
}

/// What a restored worker would know of a fingerprint.
fn look(store: &Store, manifest: &Manifest, fingerprint: u128) -> Result<Looked, Error> {
    // Below 2^64.
    let high = (fingerprint >> 64) as u64;
    let mut markers = MarkerArrangement::new(MarkerConfig {
        memtable_markers_max: 1,
        ..MarkerConfig::new(high..=high, manifest.time.tick_ms)
    });
    for ticks in &manifest.markers.ticks {
        let spans = ticks.spans.iter().copied();
        markers.restore_ticks(ticks.horizon, ticks.forgotten, spans);
    }
    let mut seen = Vec::new();
    for run_ref in &manifest.markers.runs {
        let holds = run_ref.markers > 0 && (run_ref.first..=run_ref.last).contains(&high);
        if !holds || seen.contains(&&run_ref.file) {
            continue;
        }
        seen.push(&run_ref.file);
        let run = read_run(store, manifest.number, run_ref)?;
        if let Some(slice) = run.slice(&(high..=high)) {
            markers.insert_run(Arc::new(slice));
        }
    }
    let mut found = Vec::new();
    markers.latest(&[fingerprint], &mut found);
    let mut marks = manifest.poison_marks.iter().filter_map(PoisonState::mark);
    let poison = marks.find(|mark| mark.fingerprint == fingerprint);
    Ok(Looked {
        id: 0,
        marker: found.first().copied().flatten(),
        poison: poison.map(|mark| mark.tick_ms),
        forgotten_through: markers.forgotten_through(),
        windows: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
