//! How worker 0 begins: from the claim, or with a first generation.
//!
//! Invariant: what the claim says of a generation is taken as it is; an older program's says less,
//! and is filled up with what it meant.

use super::arrivals::Arrivals;
use super::guarding::Guarding;
use super::one::{One, reached};
use super::questions::Questions;
use super::requests::Requests;
use super::{Coordinator, Ending};
use crate::checkpoint::Checkpointer;
use crate::checkpoint::manifest::{GenerationState, Manifest, ReadControl, RetentionState};
use crate::generation::witness::Remembered;
use crate::generation::{Sources, Stage, ready};
use crate::guard::start::earliest_read_ms;
use crate::job::{Job, Partitions, Settings};
use crate::table::{Role, Table};
use crate::topic::Assignment;
use headwater_operators::control::Command;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Coordinator {
    /// At the start of a run.
    pub fn new(job: &Job, workers: usize) -> Self {
        let resumed = &job.resumed;
        let base = job.checkpoints.as_ref().map(|to| &to.base);
        let replaying = resumed.replay.iter().map(|applied| {
            let mutations = applied.role == Role::Mutations;
            (mutations, applied.topic.clone(), applied.partition)
        });
        let replaying = replaying.collect();
        let checkpointer = job.checkpoints.as_ref().and_then(|to| {
            Checkpointer::new(to, &job.topics, workers, &job.panel)
                .inspect_err(|error| job.failures.report(error.clone()))
                .ok()
        });
        let states = base.map_or(&[][..], |base| &base.generations);
        let generations = states.iter().map(|state| {
            let ends_known = base.is_some_and(|base| all_ends_known(base, state, &job.tables));
            let state = filled_up(state.clone(), &job.tables, ends_known, &job.sources);
            resumed_one(state, base, &job.tables, &job.partitions)
        });
        Coordinator {
            generations: generations.collect(),
            settings: job.settings.clone(),
            tables: job.tables.clone(),
            partitions: job.partitions.clone(),
            gate: Arc::clone(&job.gate),
            compared: BTreeMap::new(),
            failures: Arc::clone(&job.failures),
            panel: Arc::clone(&job.panel),
            wall: Arc::clone(&job.wall),
            witness: job.witness.clone(),
            highs: job.highs.clone(),
            sources: job.sources.clone(),
            generation_id: job.generation_id.clone(),
            requests: Requests::new(base.map_or_else(Vec::new, |base| base.requests.clone())),
            questions: Questions::new(Arc::clone(&job.topics), Arc::clone(&job.panel)),
            read_control: base.map_or_else(ReadControl::default, |base| {
                still_asked(&base.read_control, &job.settings)
            }),
            dead_letters: Vec::new(),
            dead_letters_before: base.map_or_else(Vec::new, |base| base.dead_letters.clone()),
            held_for_markers: false,
            retention: base.map_or_else(RetentionState::default, |base| base.retention.clone()),
            wall_known: base.map_or_else(Vec::new, |base| base.time.wall.clone()),
            topic_ids: base.map_or_else(BTreeMap::new, |base| base.topic_ids.clone()),
            forgotten_through: base.and_then(Manifest::forgotten_through),
            guarding: Guarding::new(base.map_or_else(Vec::new, |base| base.starts.clone())),
            stopped_for: None,
            began_ms: 0,
            all_reported: false,
            begun: false,
            save_wanted: false,
            ending: Ending::No,
            checkpointer,
            workers,
            replay_held: job.replay.pending(),
            replaying: (replaying, 0),
        }
    }

    /// Opens the first generation of a fresh job; tells the others what persons have asked before.
    pub(super) fn first_step(&mut self, tick: u64, commands: &mut Vec<Command>) {
        // The others go on as the checkpoint says; the configuration may say something else now.
        commands.push(self.read_rate());
        if !self.generations.is_empty() {
            return;
        }
        // A fresh job opens its generation at its first tick, so that it forgets nothing; as of
        // tick 0, which sources may have stamped with before the first tick has passed.
        let wall_ms = self.wall.now_ms();
        let tables = self.tables.iter();
        let topics = (0..).zip(tables.map(|table| table.snapshot.clone()));
        let topics: BTreeMap<u16, String> = topics.collect();
        let state = GenerationState {
            number: 1,
            id: self.generation_id.clone(),
            tables: topics.keys().copied().collect(),
            topics,
            opened_at_ms: 0,
            sources: self.sources.clone(),
            began: None,
            reached: vec![reached(Stage::Open, (tick, wall_ms), (None, None))],
            ..GenerationState::default()
        };
        let snapshot = self.partitions.snapshot.clone();
        let one = One::new(
            state.clone(),
            Arrivals::of(places(&snapshot)),
            Arrivals::of(self.mutation_partitions(&state)),
        );
        commands.push(one.open(&snapshot));
        self.generations.push(one);
    }

    /// Tells whoever looks outside what to look for; again when more is known of its begin.
    pub(super) fn watch(&self, of: &mut One) {
        let Some(witness) = &self.witness else {
            return;
        };
        let state = &of.state;
        if !state.stage.takes_reads() {
            if std::mem::take(&mut of.watched_since).is_some() {
                witness.unwatch(&state.id);
            }
            return;
        }
        let since = since_ms(state, &self.settings);
        if of.watched_since == Some(since) {
            return;
        }
        let topics = of.snapshot.expected().iter();
        let topics: BTreeSet<String> = topics.map(|(topic, _)| topic.clone()).collect();
        let remembered = Remembered {
            topics: &topics.into_iter().collect(),
            scan: &state.scan,
            before: &state.before,
        };
        witness.watch(&state.id, &state.sources, Some(since), remembered);
        of.watched_since = Some(since);
    }

    /// The mutation partitions of a generation's tables.
    pub(super) fn mutation_partitions(&self, state: &GenerationState) -> Vec<(String, u32)> {
        mutation_partitions(state, &self.tables, &self.partitions)
    }
}

/// What persons have asked of READs, as long as the configuration says what it said then.
fn still_asked(asked: &ReadControl, settings: &Settings) -> ReadControl {
    let mut control = asked.clone();
    if control.per_second_configured != Some(settings.reads_per_second_max) {
        (control.per_second_max, control.per_second_configured) = (None, None);
    }
    if control.markers_max_configured != Some(settings.guard.markers_max) {
        (control.markers_max, control.markers_max_configured) = (None, None);
    }
    control
}

/// What was told outside before this is of another snapshot, ms since 1970. A first generation may
/// be of a snapshot that was begun before the job was: its earliest READ tells.
fn since_ms(state: &GenerationState, settings: &Settings) -> i64 {
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let skew_ms = signed(settings.readiness.clock_skew_max_ms);
    if let Some((began_ms, _)) = &state.began {
        return began_ms.saturating_sub(skew_ms);
    }
    let opened_ms = state.reached.first().map_or(0, |first| first.at_ms);
    let opened_ms = signed(opened_ms).saturating_sub(skew_ms);
    let read_ms = earliest_read_ms(&state.reads);
    let read_ms = read_ms.map(|ms| ms.saturating_sub(signed(settings.start_margin_ms)));
    read_ms.map_or(opened_ms, |ms| ms.min(opened_ms))
}

fn places(partitions: &[Assignment]) -> Vec<(String, u32)> {
    let places = partitions.iter();
    places
        .map(|from| (from.topic.clone(), from.partition))
        .collect()
}

fn mutation_partitions(
    state: &GenerationState,
    tables: &[Table],
    partitions: &Partitions,
) -> Vec<(String, u32)> {
    let left = crate::generation::admit::left(state);
    let topics = left.filter_map(|number| tables.get(usize::from(number)));
    let topics: BTreeSet<&str> = topics.map(|table| table.mutations.as_str()).collect();
    let of = partitions.mutations.iter();
    of.filter(|from| topics.contains(from.topic.as_str()))
        .map(|from| (from.topic.clone(), from.partition))
        .collect()
}

fn all_ends_known(base: &Manifest, state: &GenerationState, tables: &[Table]) -> bool {
    let topics = snapshot_topics(state, tables);
    let mut of = base
        .of(Role::Snapshot)
        .filter(|of| topics.values().any(|topic| *topic == of.topic))
        .peekable();
    of.peek().is_some() && of.all(|of| of.end.is_some())
}

/// The snapshot topics of a generation; those of the configuration for one of an older manifest.
fn snapshot_topics(state: &GenerationState, tables: &[Table]) -> BTreeMap<u16, String> {
    if !state.topics.is_empty() {
        return state.topics.clone();
    }
    let tables = state.tables.iter().filter_map(|number| {
        let table = tables.get(usize::from(*number))?;
        Some((*number, table.snapshot.clone()))
    });
    tables.collect()
}

/// What an older manifest left out.
fn filled_up(
    mut state: GenerationState,
    tables: &[Table],
    ends_known: bool,
    sources: &Sources,
) -> GenerationState {
    state.topics = snapshot_topics(&state, tables);
    if state.sources == Sources::default() && state.number == 1 {
        // What the configuration says now: it may have learned of them since.
        state.sources = sources.clone();
    }
    if state.reached.is_empty() {
        let at = (state.opened_at_ms, 0);
        state.reached.push(reached(Stage::Open, at, (None, None)));
        if ends_known {
            let evidence = state.evidence.clone();
            let why = (evidence.as_deref(), None);
            let finished = reached(Stage::SourceFinished, at, why);
            state.reached.push(finished);
            state.stage = Stage::SourceFinished;
        }
    }
    state
}

fn resumed_one(
    state: GenerationState,
    base: Option<&Manifest>,
    tables: &[Table],
    partitions: &Partitions,
) -> One {
    let topics = ready::topics(&state);
    let snapshot = base.into_iter().flat_map(|base| base.of(Role::Snapshot));
    let snapshot = snapshot.filter(|of| topics.contains(of.topic.as_str()));
    let snapshot: Vec<(String, u32)> = snapshot
        .map(|of| (of.topic.clone(), of.partition))
        .collect();
    let mutations = mutation_partitions(&state, tables, partitions);
    let number = state.number;
    let mut one = One::new(state, Arrivals::of(snapshot), Arrivals::of(mutations));
    // The claim is durable, and says what the manifest says that it goes on from.
    let durable = base.filter(|base| ready::ready(base, number).is_ok());
    one.ready_manifest = durable.map(|base| base.number);
    one
}
