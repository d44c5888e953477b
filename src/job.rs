//! One job in one process: what the workers need, made and checked before anything is read.
//!
//! Everything that touches the world is handed in (topics, sink outlets, clock), so that the same
//! dataflow runs on Kafka, on files, and in a test on a clock that a hand moves.

use crate::checkpoint::manifest::{GenerationState, ReadControl, RetentionState};
use crate::checkpoint::{BadReads, Checkpoints, Resumed, Saved};
use crate::config::choices::{CaughtUp, SourceFinished};
use crate::decode::DecodeSettings;
use crate::failure::Failures;
use crate::generation::witness::Witness;
use crate::generation::{Desk, Sources};
use crate::guard::GuardSettings;
use crate::highs::Highs;
use crate::key::KeyGate;
use crate::looks::LookDesk;
use crate::sink::GenerationNames;
use crate::sink::replay::Replay;
use crate::status::Counts;
use crate::table::{Role, Table};
use crate::topic::names::TopicNames;
use crate::topic::{Assignment, Topics, Waker};
use headwater_operators::decide::OnForgotten;
use headwater_operators::retention::KeepMarkers;
use headwater_operators::sink::Outlet;
use headwater_operators::time::Clock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// When a run ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Not at all.
    Never,
    /// When every snapshot partition has its end-of-snapshot record and mutations have caught up.
    EndRecords,
    /// As `EndRecords`, and the ends are also frozen when neither topic delivered for so long.
    Idle {
        /// Milliseconds of job time.
        idle_ms: u64,
    },
}

/// Settings that are numbers and policies.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Length of a tick.
    pub tick_ms: u64,
    /// Bytes of mutations that may be in flight, a worker.
    pub inflight_bytes_max: usize,
    /// Bytes of READs that may be in flight, a worker.
    pub reads_inflight_bytes_max: usize,
    /// READs a second over all workers.
    pub reads_per_second_max: Option<u64>,
    /// Which markers are kept.
    pub keep_markers: KeepMarkers,
    /// What a snapshot read from a lagging replica may miss, with the declared lag of a standby.
    pub start_margin_ms: u64,
    /// Numbers of the retention guard.
    pub guard: GuardSettings,
    /// What happens to a READ that may be stale.
    pub on_forgotten: OnForgotten,
    /// Whether the marker rule is applied.
    pub rule: bool,
    /// When the run ends by itself.
    pub finish: Finish,
    /// How records are decoded.
    pub decode: DecodeSettings,
    /// What readiness stands on.
    pub readiness: Readiness,
}

/// What readiness stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The weakest evidence that counts for the end of a snapshot.
    pub source_finished: SourceFinished,
    /// The weakest evidence that counts for the live connector having passed the cutoff.
    pub caught_up: CaughtUp,
    /// For how long a topic must be quiet, where that counts.
    pub end_settle_ms: u64,
    /// For how long something past the cutoff must have been seen.
    pub live_settle_ms: u64,
    /// How far clocks may be apart.
    pub clock_skew_max_ms: u64,
}

impl Default for Readiness {
    /// For a job on topics that nothing else than the job knows of: a person says when the snapshot
    /// is complete, and nothing tells what the source has not written yet.
    fn default() -> Self {
        Readiness {
            source_finished: SourceFinished::Counted,
            caught_up: CaughtUp::Unproven,
            end_settle_ms: 30_000,
            live_settle_ms: 5_000,
            clock_skew_max_ms: 5_000,
        }
    }
}

/// Makes the sink outlet of a worker: worker index, and what wakes its operator.
pub type MakeOutlet = dyn Fn(usize, Waker) -> Box<dyn Outlet> + Send + Sync;

/// See the module.
pub struct Job {
    /// The tables; the index is the table's number in the dataflow.
    pub tables: Vec<Table>,
    /// Every partition of every topic of a role, with the offset to start from, in one order that
    /// all processes agree on.
    pub partitions: Partitions,
    /// The id of the generation, as end-of-snapshot records carry it.
    pub generation_id: String,
    /// Ids of generations for the rows of the sink; kept up to date by commands.
    pub generation_names: Arc<GenerationNames>,
    /// Where topics are read.
    pub topics: Arc<dyn Topics>,
    /// Which topics generations have brought.
    pub names: Arc<TopicNames>,
    /// Where rows go.
    pub outlet: Box<MakeOutlet>,
    /// The job's clock; read by worker 0 alone.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// Numbers and policies.
    pub settings: Settings,
    /// The first worker of this process.
    pub first_worker: usize,
    /// Keys the fingerprints; equal in all processes.
    pub secret: [u8; 16],
    /// The key shapes of both sides of each table.
    pub gate: Arc<KeyGate>,
    /// The first thing that went wrong in this process.
    pub failures: Arc<Failures>,
    /// What a person or a test asks of the job, and what it says.
    pub panel: Arc<Panel>,
    /// What it goes on from.
    pub resumed: Resumed,
    /// What the sinks of this process hold until it is read again.
    pub replay: Arc<Replay>,
    /// Where checkpoints go; none are taken without.
    pub checkpoints: Option<Checkpoints>,
    /// Wall time, ms since 1970; looked at by worker 0 alone, and never compared with job time.
    pub wall: Arc<dyn Clock + Send + Sync>,
    /// Where evidence of the first generation comes from.
    pub sources: Sources,
    /// What is seen outside, at process 0.
    pub witness: Option<Arc<dyn Witness>>,
    /// How long topics are, at process 0.
    pub highs: Option<Arc<Highs>>,
}

/// The partitions of both roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions {
    /// Of the mutation topics.
    pub mutations: Vec<Assignment>,
    /// Of the snapshot topics.
    pub snapshot: Vec<Assignment>,
}

impl Job {
    /// A worker's place among those of this process, which has `first_worker..`.
    pub fn local(&self, worker: usize) -> usize {
        worker - self.first_worker
    }
}

impl Partitions {
    /// All partitions of a role.
    pub fn of(&self, role: Role) -> &[Assignment] {
        match role {
            Role::Mutations => &self.mutations,
            Role::Snapshot => &self.snapshot,
        }
    }

    /// All partitions, mutations first.
    pub fn all(&self) -> impl Iterator<Item = &Assignment> {
        self.mutations.iter().chain(&self.snapshot)
    }

    /// How many partitions of each topic are read.
    pub fn counts(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for assignment in self.all() {
            *counts.entry(assignment.topic.clone()).or_default() += 1;
        }
        counts
    }
}

/// The topics of a role, each once, in the order of the tables.
pub fn topic_names(tables: &[Table], role: Role) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = tables.iter().map(|table| match role {
        Role::Mutations => &table.mutations,
        Role::Snapshot => &table.snapshot,
    });
    names
        .filter(|name| seen.insert((*name).clone()))
        .cloned()
        .collect()
}

/// What is asked of a running job from outside, and what it shows. No dataflow state is touched.
#[derive(Debug, Default)]
pub struct Panel {
    stop: AtomicBool,
    save: AtomicBool,
    verdict: AtomicU8,
    shown: Mutex<Shown>,
    troubles: Mutex<BTreeMap<String, String>>,
    /// Where requests wait for worker 0.
    pub desk: Desk,
    /// Where questions about keys wait for worker 0.
    pub looks: LookDesk,
}

/// What a running job shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Sum over all workers.
    pub counts: Counts,
    /// Whether everything up to the sampled targets, and all READs, are in the sink.
    pub caught_up: bool,
    /// Whether all READs up to the ends of their partitions have left the merge.
    pub consumed: bool,
    /// READs that the snapshot topic holds, once its ends are known.
    pub snapshot_total: Option<u64>,
    /// Words for the phase.
    pub phase: String,
    /// Snapshot partitions at their end, of all.
    pub snapshot_partitions: (usize, usize),
    /// Everything stamped before this tick is durable.
    pub durable_ms: u64,
    /// Job time.
    pub now_ms: u64,
    /// What the end of the snapshot stands on.
    pub evidence: Option<String>,
    /// Whether rows that the target may have seen before this run are written again.
    pub replaying: bool,
    /// READs of earlier runs that keep the generation from being ready.
    pub bad_reads_before: BadReads,
    /// The last durable checkpoint of this run.
    pub saved: Option<Saved>,
    /// Every generation, oldest first.
    pub generations: Vec<ShownGeneration>,
    /// What a person should look at.
    pub alarms: Vec<Alarm>,
    /// Why the job stops by itself before it is ready.
    pub stopped_for: Option<String>,
    /// What the start-position proof leaves open, a sentence each.
    pub not_proven: Vec<String>,
    /// How READs are read, as persons have asked.
    pub read_control: ReadControl,
    /// Retention as it is now.
    pub retention: RetentionState,
    /// The latest tick of a marker that was forgotten, on any worker.
    pub forgotten_through_ms: Option<u64>,
    /// What is measured beside the counts.
    pub gauges: crate::gauges::Gauges,
}

/// What a job shows of one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownGeneration {
    /// What the next manifest would say.
    pub state: GenerationState,
    /// What it waits for; none when it is ready, promoted, or ended.
    pub waits: Option<Wait>,
    /// READs of it in this run.
    pub counts: GenerationCounts,
    /// Snapshot partitions at their end, of all.
    pub partitions_at_end: (usize, usize),
    /// Mutation partitions at their target, of all.
    pub targets_reached: (usize, usize),
    /// READs that its snapshot has in all, where that is known.
    pub reads_total: Option<u64>,
    /// Mutations of its tables that went to the dead letters and that nobody has accepted.
    pub dead_letters: u64,
}

/// READs of one generation in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationCounts {
    /// Read from its topics.
    pub read: u64,
    /// Emitted.
    pub emitted: u64,
    /// Dropped for a marker.
    pub dropped_marker: u64,
    /// Dropped because the generation is not open for the table.
    pub dropped_superseded: u64,
    /// Quarantined, as the last mutation of their key could not be decoded.
    pub poisoned: u64,
    /// May be stale: quarantined, emitted all the same, or the end of the job.
    pub unsafe_reads: u64,
    /// Behind a frozen end, or older than the generation: quarantined.
    pub late: u64,
}

impl GenerationCounts {
    /// Adds those of another worker.
    pub fn add(&mut self, more: &GenerationCounts) {
        self.read += more.read;
        self.emitted += more.emitted;
        self.dropped_marker += more.dropped_marker;
        self.dropped_superseded += more.dropped_superseded;
        self.poisoned += more.poisoned;
        self.unsafe_reads += more.unsafe_reads;
        self.late += more.late;
    }
}

/// What is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// In words.
    pub text: String,
    /// Whether a person must act; else the job, or those it waits for, do.
    pub person: bool,
    /// A command to give, if there is one that helps.
    pub command: Option<String>,
    /// Whether it may be left alone over night.
    pub leave_alone: bool,
}

/// Something that a person should look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alarm {
    /// Its name, in snake case: what alert rules and the dashboard know it by.
    pub name: String,
    /// What is wrong, in words.
    pub text: String,
    /// What to do.
    pub remedy: String,
    /// Whether it must be acted upon now.
    pub critical: bool,
}

impl Shown {
    /// READs of this run and those before that keep the generation from being ready.
    pub fn bad_reads(&self) -> BadReads {
        BadReads {
            unsafe_reads: self.bad_reads_before.unsafe_reads + self.counts.unsafe_reads(),
            late_reads: self.bad_reads_before.late_reads + self.counts.reads_late,
        }
    }

    /// Mutations that went to the dead letters and that nobody has accepted, of the generation that
    /// has most of them: one may be of the tables of several.
    pub fn dead_letters(&self) -> u64 {
        let live = self.generations.iter();
        let live = live.filter(|of| !of.state.stage.is_over());
        live.map(|of| of.dead_letters).max().unwrap_or(0)
    }

    /// Whether a signal, at any process, ended the run before it had caught up.
    pub fn interrupted(&self) -> bool {
        self.counts.stop && !self.caught_up
    }
}

impl Panel {
    /// Asks for a clean stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether a clean stop was asked for.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Asks for a checkpoint now, whatever its interval; [`Shown::saved`] tells when it is durable.
    pub fn save(&self) {
        self.save.store(true, Ordering::Release);
    }

    /// Whether a checkpoint was asked for since this was called last.
    pub(crate) fn take_save(&self) -> bool {
        self.save.swap(false, Ordering::AcqRel)
    }

    /// How the run ended, as worker 0 has told every process; 0 until then.
    pub fn verdict(&self) -> u8 {
        self.verdict.load(Ordering::Acquire)
    }

    /// Keeps how the run ended.
    pub fn judged(&self, exit_code: u8) {
        self.verdict.store(exit_code, Ordering::Release);
    }

    /// What the job shows now.
    pub fn shown(&self) -> Shown {
        self.shown
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Keeps what is wrong just now with `who`, without being an error.
    pub fn trouble(&self, who: &str, what: Option<String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            Some(what) => drop(troubles.insert(who.to_owned(), what)),
            None => drop(troubles.remove(who)),
        }
    }

    /// What is wrong just now in this process, by who is in trouble.
    pub fn troubles(&self) -> BTreeMap<String, String> {
        self.troubles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Shows something else.
    pub fn show(&self, shown: Shown) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }
}
