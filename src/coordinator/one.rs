//! One generation as worker 0 sees it: what is remembered of it, and what is known just now.
//!
//! Invariant: `state` is what the next manifest says; what is only of this run is beside it.

use super::arrivals::Arrivals;
use crate::checkpoint::BadReads;
use crate::checkpoint::manifest::GenerationState;
use crate::config::choices::{CaughtUp, SourceFinished};
use crate::generation::finished::{self, Snapshot};
use crate::generation::live::{self, Live};
use crate::generation::step::{Facts, progress};
use crate::generation::waits::{Scene, wait};
use crate::generation::witness::Seen;
use crate::generation::{Reached, Stage, admit, ready};
use crate::job::{GenerationCounts, Readiness, ShownGeneration, Wait};
use crate::table::Table;
use crate::topic::Assignment;
use headwater_operators::control::{Command, PartitionStart};
use std::collections::BTreeMap;

/// See the module.
pub(super) struct One {
    /// What the next manifest says.
    pub(super) state: GenerationState,
    /// READs of earlier runs that keep it from being ready.
    pub(super) before: BadReads,
    /// Its snapshot partitions.
    pub(super) snapshot: Arrivals,
    /// The mutation partitions of its tables.
    pub(super) mutations: Arrivals,
    /// The ends were frozen, by this run or one before.
    pub(super) frozen: bool,
    /// Mutations of its tables that went to the dead letters, and that nobody has accepted.
    pub(super) lost: u64,
    /// READs of this run.
    pub(super) counts: GenerationCounts,
    /// What is known from outside.
    pub(super) seen: Seen,
    /// READs that had come when they last did, and when that was; none before the first look.
    delivered: Option<(u64, u64)>,
    /// Since when something past the cutoff has been seen.
    live_since_ms: Option<u64>,
    /// Source time of the latest mutation of each of its mutation partitions.
    pub(super) delivered_ms: Vec<Option<i64>>,
    /// It is watched outside, from this time on (ms since 1970).
    pub(super) watched_since: Option<i64>,
    /// What counted for the end of the snapshot at the last step.
    pub(super) finished: Option<SourceFinished>,
    /// A table was not scanned well: nothing but a person, or another snapshot, helps.
    pub(super) failed: bool,
    /// Ends that a person gave lie beyond what the topics hold.
    pub(super) ends_beyond: bool,
    /// Ends are not asked for before this job time.
    pub(super) ask_after_ms: u64,
    /// The cutoff was asked for.
    pub(super) cutoff_wanted: bool,
    /// The last durable manifest by which it is ready.
    pub(super) ready_manifest: Option<u64>,
}

/// What is the same for all generations at a step.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) tables: &'a [Table],
    pub(super) readiness: &'a Readiness,
    pub(super) now_ms: u64,
    pub(super) wall_ms: u64,
    /// A source has not come to the end of what is at hand.
    pub(super) behind: bool,
    pub(super) rule_off: bool,
    /// READs wait, for a person or the marker limit.
    pub(super) paused: bool,
    /// What is said when they wait for the marker limit.
    pub(super) stuck: Option<&'a Wait>,
    /// The end is taken for reached when no READ comes for so long.
    pub(super) idle_ms: Option<u64>,
}

impl One {
    pub(super) fn new(state: GenerationState, snapshot: Arrivals, mutations: Arrivals) -> One {
        One {
            before: BadReads {
                unsafe_reads: state.unsafe_reads,
                late_reads: state.late_reads,
            },
            frozen: progress(&state) >= Stage::SourceFinished,
            state,
            snapshot,
            mutations,
            lost: 0,
            counts: GenerationCounts::default(),
            seen: Seen::default(),
            delivered: None,
            live_since_ms: None,
            delivered_ms: Vec::new(),
            watched_since: None,
            finished: None,
            failed: false,
            ends_beyond: false,
            ask_after_ms: 0,
            cutoff_wanted: false,
            ready_manifest: None,
        }
    }

    /// Comes into a stage.
    pub(super) fn reach(
        &mut self,
        stage: Stage,
        at: (u64, u64),
        why: (Option<&str>, Option<&str>),
    ) {
        self.state.reached.push(reached(stage, at, why));
        // An unsafe generation is read to its end, and stays unsafe.
        if self.state.stage != Stage::Unsafe || stage.is_over() {
            self.state.stage = stage;
        }
    }

    /// Manifest `number` says that it is ready.
    pub(super) fn ready(&mut self, number: u64, at: (u64, u64)) {
        let why = format!("manifest {number}");
        self.reach(Stage::Ready, at, (Some(&why), None));
        // What was taken back from ready while its hook ran is in use.
        let promotion = self.state.promotion.as_ref();
        let used = promotion.filter(|of| of.done_ms.is_some() && of.demoted.is_none());
        if let Some(by) = used.map(|promotion| promotion.by.clone()) {
            self.reach(Stage::Promoted, at, (Some(&by), None));
        }
    }

    /// It is not ready any more, and stands on what it stood on.
    pub(super) fn take_back(&mut self, at: (u64, u64)) {
        self.ready_manifest = None;
        let why = match self.bad().late_reads {
            0 => "dead letters",
            _ => "late READs",
        };
        let passed = self.state.passed.clone().unwrap_or_default();
        let left = passed.not_proven.map(|left| format!("; {left}"));
        let why = format!("taken back from ready: {why}{}", left.unwrap_or_default());
        self.reach(
            Stage::CaughtUp,
            at,
            (passed.evidence.as_deref(), Some(&why)),
        );
    }

    /// READs that keep it from being ready.
    pub(super) fn bad(&self) -> BadReads {
        BadReads {
            unsafe_reads: self.before.unsafe_reads + self.counts.unsafe_reads,
            late_reads: self.before.late_reads + self.counts.late,
        }
    }

    /// The topics of the tables that it still has, with the partitions that are read.
    pub(super) fn partitions(arrivals: &Arrivals) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for (topic, _) in arrivals.expected() {
            *counts.entry(topic.clone()).or_default() += 1;
        }
        counts
    }

    /// Takes in what was counted and seen.
    pub(super) fn look(&mut self, moment: &Moment<'_>) {
        let read = self.counts.read;
        let before = self
            .delivered
            .filter(|(rows, _)| *rows == read && !moment.behind);
        self.delivered = before.or(Some((read, moment.now_ms)));
        if let Some(scan) = &self.seen.scan {
            self.state.scan = scan.clone();
        }
        if self.state.live_cutoff.is_none() && self.frozen {
            self.state.live_cutoff.clone_from(&self.seen.cutoff);
        }
        if let Some(before) = &self.seen.before {
            self.state.before.clone_from(before);
        }
        let seen = self.live(moment).is_some_and(|live| live.seen());
        match (seen, self.live_since_ms) {
            (true, None) => self.live_since_ms = Some(moment.now_ms),
            (false, Some(_)) => self.live_since_ms = None,
            _ => {}
        }
        // The other tables are read first.
        let quiet = self.quiet_for_ms(moment) >= moment.readiness.end_settle_ms;
        self.failed = quiet
            && !self.frozen
            && self.state.said.is_none()
            && moment.idle_ms.is_none()
            && finished::failed(&finished::count(&self.snapshot(moment)));
    }

    /// For how long no READ has come.
    fn quiet_for_ms(&self, moment: &Moment<'_>) -> u64 {
        let since_ms = self.delivered.map_or(moment.now_ms, |(_, at_ms)| at_ms);
        moment.now_ms.saturating_sub(since_ms)
    }

    /// What is known of its snapshot.
    pub(super) fn snapshot<'a>(&'a self, moment: &Moment<'a>) -> Snapshot<'a> {
        let left = admit::left(&self.state);
        let tables = left.filter_map(|number| {
            let table = moment.tables.get(usize::from(number))?;
            Some((number, table.name.as_str()))
        });
        let quiet_for_ms = self.quiet_for_ms(moment);
        let idle = moment
            .idle_ms
            .is_some_and(|idle_ms| quiet_for_ms >= idle_ms);
        // READs of runs before count too: a snapshot that was read before a restart brings no more.
        let read = self.counts.read > 0 || !self.state.reads.is_empty();
        let told = read || self.state.scan.completed_of_ours();
        let settled = told && quiet_for_ms >= moment.readiness.end_settle_ms;
        let mut topics = self.state.topics.values();
        let notified = self.state.sources.notifications.as_ref();
        Snapshot {
            tables: tables.collect(),
            partitions: self.snapshot.expected().len(),
            reads: &self.state.reads,
            scan: notified.map(|_| &self.state.scan),
            notified_in_order: notified.is_some_and(|of| topics.all(|topic| topic == of)),
            offsets_finished: self.seen.finished,
            end_records: !self.frozen && self.snapshot.complete(),
            said: self.state.said.is_some(),
            quiet: idle || (settled && !moment.paused),
            settled: quiet_for_ms >= moment.readiness.end_settle_ms && !moment.paused,
        }
    }

    /// What is known of the live stream, once there is a cutoff.
    pub(super) fn live(&self, moment: &Moment<'_>) -> Option<Live> {
        let cutoff = self.state.live_cutoff.clone()?;
        let since = self.live_since_ms.unwrap_or(moment.now_ms);
        Some(Live {
            cutoff,
            position: self.seen.position,
            committed_ms: self.seen.committed_ms,
            delivered_ms: self.delivered_ms.clone(),
            heartbeat_ms: self.seen.heartbeat_ms,
            seen_for_ms: moment.now_ms.saturating_sub(since),
            settle_ms: moment.readiness.live_settle_ms,
            accepted: self.state.accepted.iter().any(|what| what == "lag"),
        })
    }

    /// What its next transition is decided by.
    pub(super) fn facts(
        &self,
        moment: &Moment<'_>,
        read_passed: impl Fn(u64) -> bool,
        sink_passed: impl Fn(u64) -> bool,
    ) -> Facts {
        let required = match moment.idle_ms {
            Some(_) => SourceFinished::Quiet,
            None => moment.readiness.source_finished,
        };
        let live = self.live(moment);
        let targets = !self.state.targets.is_empty();
        let last = self.mutations.last_tick().max(self.snapshot.last_tick());
        let bad = self.bad();
        Facts {
            finished: finished::finished(&self.snapshot(moment), required),
            consumed: self.frozen && self.snapshot.passed(read_passed),
            cutoff: live.is_some(),
            passed: live.and_then(|live| live::passed(&live, moment.readiness.caught_up)),
            targets,
            reached: targets && self.mutations.complete() && sink_passed(last),
            unsafe_reads: bad.unsafe_reads,
            late_reads: bad.late_reads,
            dead_letters: self.lost,
            rule_off: moment.rule_off,
            ready_manifest: self.ready_manifest,
        }
    }

    /// What it shows.
    pub(super) fn shown(&self, moment: &Moment<'_>, facts: Facts) -> ShownGeneration {
        let snapshot = self.snapshot(moment);
        let live_seen = self.live(moment).is_some_and(|live| live.seen());
        let scene = Scene {
            id: &self.state.id,
            stage: self.state.stage,
            progress: progress(&self.state),
            facts,
            snapshot: &snapshot,
            required: (moment.readiness.source_finished, moment.readiness.caught_up),
            at_end: self.snapshot.progress(),
            at_target: self.mutations.progress(),
            troubles: (
                self.seen
                    .snapshot_trouble
                    .as_deref()
                    .or(self.seen.notices_trouble.as_deref()),
                self.seen.live_trouble.as_deref().or_else(|| {
                    let held = self.seen.slot_held.as_deref();
                    held.filter(|_| moment.readiness.caught_up == CaughtUp::LiveOffsets)
                }),
            ),
            live_seen,
            read: self.counts.read,
            first: self.state.number == 1,
            paused: moment.paused,
            stuck: moment.stuck,
            ends_beyond: self.ends_beyond,
            unsafe_reason: None,
            ends_when_idle: moment.idle_ms.is_some(),
        };
        let mut state = self.state.clone();
        let bad = self.bad();
        (state.unsafe_reads, state.late_reads) = (bad.unsafe_reads, bad.late_reads);
        ShownGeneration {
            waits: wait(&scene),
            counts: self.counts.clone(),
            partitions_at_end: self.snapshot.progress(),
            targets_reached: self.mutations.progress(),
            reads_total: finished::total(&snapshot),
            dead_letters: self.lost,
            state,
        }
    }

    /// A table is gone, dropped or taken over by a newer generation.
    pub(super) fn without(&mut self, table: u16, tables: &[Table]) {
        self.state.dropped_tables.push(table);
        self.snapshot.keep(&ready::topics(&self.state));
        let left = admit::left(&self.state);
        let topics = left.filter_map(|number| tables.get(usize::from(number)));
        self.mutations
            .keep(&topics.map(|table| table.mutations.as_str()).collect());
    }

    /// The command that opens it, with these partitions.
    pub(super) fn open(&self, partitions: &[Assignment]) -> Command {
        let starts = partitions.iter().map(|from| PartitionStart {
            topic: from.topic.clone(),
            partition: from.partition,
            next_offset: from.next_offset,
        });
        Command::Open {
            generation: self.state.number,
            tables: self.state.tables.clone(),
            opened_at_ms: self.state.opened_at_ms,
            id: self.state.id.clone(),
            topics: self.state.topics.clone().into_iter().collect(),
            partitions: starts.collect(),
            not_before_ms: self.state.not_before_ms,
        }
    }
}

/// An entry of a timeline; `at` is job time and wall time.
pub(super) fn reached(
    stage: Stage,
    (tick_ms, at_ms): (u64, u64),
    (evidence, not_proven): (Option<&str>, Option<&str>),
) -> Reached {
    Reached {
        stage,
        at_ms,
        tick_ms,
        evidence: evidence.map(str::to_owned),
        not_proven: not_proven.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
