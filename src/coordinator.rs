//! Worker 0's part of a run: generations, requests, checkpoints, and the end.
//!
//! It sees partition ends, frontiers, reports and evidence, and answers with commands. What may
//! block (asking a topic for its end) happens on a thread of its own, and the answer is picked up
//! at a later step. How a generation goes on is decided in [`crate::generation`]; here it is done.
//!
//! Invariant: nothing is shut down before everything sent is durable; after `Shutdown` every worker
//! reports once more, and then `Verdict`, the last command, tells every process how it ended.

mod acts;
mod arrivals;
mod begin;
mod guarding;
mod lag;
mod one;
mod questions;
mod requests;
mod saving;
mod show;
mod stages;

use crate::checkpoint::manifest::{ReadControl, RetentionState};
use crate::checkpoint::{Checkpointer, Part};
use crate::dead_letter::Counted;
use crate::error::Error;
use crate::failure::Failures;
use crate::generation::step::progress;
use crate::generation::witness::Witness;
use crate::generation::{Sources, Stage};
use crate::highs::Highs;
use crate::job::{Finish, Panel, Partitions, Settings};
use crate::key::KeyGate;
use crate::outcome;
use crate::status::Counts;
use crate::table::Table;
use guarding::Guarding;
use headwater_operators::control::Command;
use headwater_operators::report::Reports;
use headwater_operators::retention::KeepMarkers;
use headwater_operators::source::PartitionEnd;
use headwater_operators::time::Clock;
use one::One;
use questions::Questions;
use requests::Requests;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use timely::dataflow::ProbeHandle;

/// What worker 0 sees at a step.
pub struct Observed<'a> {
    /// Partition ends that came since the last step.
    pub ends: Vec<PartitionEnd>,
    /// Behind the merge, of READs alone.
    pub read_progress: &'a ProbeHandle<u64>,
    /// Behind the sink.
    pub durable: &'a ProbeHandle<u64>,
    /// Behind the reports.
    pub reported: &'a ProbeHandle<u64>,
    /// The latest report of each worker.
    pub reports: &'a Reports<Counts>,
    /// Parts of checkpoints that came since the last step.
    pub parts: Vec<Part>,
}

/// Where the run stands in its own ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// `Stop` was sent at this tick.
    Stopping(u64),
    /// Everything is durable; the last checkpoint is being made.
    Saving,
    /// `Shutdown` was sent at this tick.
    ShuttingDown(u64),
    Over,
}

/// See the module.
pub struct Coordinator {
    settings: Settings,
    tables: Vec<Table>,
    partitions: Partitions,
    gate: Arc<KeyGate>,
    /// How many shapes of each worker were compared; they only grow.
    compared: BTreeMap<usize, usize>,
    failures: Arc<Failures>,
    panel: Arc<Panel>,
    wall: Arc<dyn Clock + Send + Sync>,
    witness: Option<Arc<dyn Witness>>,
    highs: Option<Arc<Highs>>,
    sources: Sources,
    /// The id of a first generation.
    generation_id: String,
    generations: Vec<One>,
    requests: Requests,
    questions: Questions,
    read_control: ReadControl,
    /// Mutations that went to the dead letters in earlier runs.
    dead_letters_before: Vec<Counted>,
    /// And those of this run.
    dead_letters: Vec<Counted>,
    /// READs wait because there are too many markers.
    held_for_markers: bool,
    retention: RetentionState,
    /// The last that were made: job time and wall time, of the last durable manifest.
    wall_known: Vec<(u64, u64)>,
    topic_ids: BTreeMap<String, String>,
    forgotten_through: Option<u64>,
    guarding: Guarding,
    /// Why the job stops by itself, with exit code 4.
    stopped_for: Option<String>,
    began_ms: u64,
    /// All workers have reported in this run.
    all_reported: bool,
    begun: bool,
    save_wanted: bool,
    ending: Ending,
    checkpointer: Option<Checkpointer>,
    workers: usize,
    /// Whether sinks hold the replay.
    replay_held: bool,
    /// Partitions whose replay was not read to its end, and the last tick of those that were.
    replaying: (BTreeSet<(bool, String, u32)>, u64),
}

impl Coordinator {
    /// Whether the control stream may be closed.
    pub fn over(&self) -> bool {
        self.ending == Ending::Over
    }

    /// One step at `tick`; the commands to send at it, in order.
    pub fn step(&mut self, tick: u64, now_ms: u64, mut observed: Observed<'_>) -> Vec<Command> {
        let mut commands = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            self.began_ms = now_ms;
            self.first_step(tick, &mut commands);
        }
        if let Err(error) = self.compare_keys(observed.reports) {
            // The next step of this worker ends the job; nothing is judged before.
            self.failures.report(error);
            return Vec::new();
        }
        for end in std::mem::take(&mut observed.ends) {
            if end.replayed {
                commands.extend(self.replayed(end));
            } else {
                self.partition_end(end);
            }
        }
        let counts = Counts::sum(observed.reports.borrow().values());
        let stop_asked = counts.stop;
        self.all_reported = observed.reports.borrow().len() == self.workers;
        self.look(&counts, now_ms);
        self.requests((tick, now_ms), &mut commands);
        let guarded = self.guard(&counts, now_ms, &mut commands);
        let stepped =
            guarded.and_then(|()| self.stages((tick, now_ms), &counts, &observed, &mut commands));
        if let Err(error) = stepped {
            self.failures.report(error);
            return Vec::new();
        }
        // A signal at any process stops the job.
        if self.panel.stopping() || stop_asked || self.done() || self.stopped_for.is_some() {
            self.stop(tick, &mut commands);
        }
        if let Err(error) = self.checkpoint((tick, now_ms), &counts, &mut observed, &mut commands) {
            self.failures.report(error);
            return Vec::new();
        }
        let durable = observed.durable.clone();
        self.end((tick, now_ms), &durable, observed.reported, &mut commands);
        let shown = self.show(counts, now_ms, observed.durable, &observed);
        if self.ending == Ending::Over {
            self.requests.end();
            let exit_code = outcome::exit_code(&shown, &self.settings);
            commands.push(Command::Verdict { exit_code });
        }
        commands
    }

    /// Which markers are kept now.
    fn keep_markers(&self) -> KeepMarkers {
        match (self.settings.keep_markers, self.retention.ttl_ms) {
            (KeepMarkers::Ttl { .. }, Some(ttl_ms)) => KeepMarkers::Ttl { ttl_ms },
            (configured, _) => configured,
        }
    }

    /// Whether a run that ends by itself has nothing left to do.
    fn done(&self) -> bool {
        if self.settings.finish == Finish::Never || self.generations.is_empty() {
            return false;
        }
        // Without checkpoints nothing can be ready.
        let saves = self.checkpointer.is_some();
        self.generations.iter().all(|of| {
            let bad = of.bad();
            let lacking = bad.late_reads > 0 || of.lost > 0;
            let spoiled = bad.unsafe_reads > 0 || lacking || !self.settings.rule;
            let enough = match saves && !spoiled {
                true => Stage::Ready,
                false => Stage::CaughtUp,
            };
            of.state.stage.is_over() || progress(&of.state) >= enough || of.failed
        })
    }

    /// A partition was read again as far as the target had seen it; the command when all were.
    fn replayed(&mut self, end: PartitionEnd) -> Option<Command> {
        let (waiting, through) = &mut self.replaying;
        *through = end.tick.max(*through);
        let last = waiting.remove(&(end.mutations, end.topic, end.partition)) && waiting.is_empty();
        last.then_some(Command::Replayed { through: *through })
    }

    fn partition_end(&mut self, end: PartitionEnd) {
        let mut generations = self.generations.iter_mut();
        let Some(of) = generations.find(|of| of.state.number == end.generation) else {
            return;
        };
        match end.mutations {
            true => of.mutations.reached(end.topic, end.partition, end.tick),
            false => of.snapshot.reached(end.topic, end.partition, end.tick),
        }
    }

    /// Compares what the processes know of the keys: the two topics of a table may be read in two
    /// processes, whose gates then never see both sides.
    fn compare_keys(&mut self, reports: &Reports<Counts>) -> Result<(), Error> {
        for (worker, counts) in reports.borrow().iter() {
            let compared = self.compared.entry(*worker).or_default();
            if *compared == counts.shapes.len() {
                continue;
            }
            *compared = counts.shapes.len();
            for known in &counts.shapes {
                let seen = self.gate.observe(known.table, known.role, &known.shape);
                seen.map_err(|mismatch| Error::refused(mismatch.to_string()))?;
            }
        }
        Ok(())
    }

    fn stop(&mut self, tick: u64, commands: &mut Vec<Command>) {
        if self.ending == Ending::No {
            self.ending = Ending::Stopping(tick);
            commands.push(Command::Stop);
        }
    }

    /// Stop, then everything durable, then a last checkpoint, then shutdown, then everyone's last
    /// report.
    fn end(
        &mut self,
        (tick, now_ms): (u64, u64),
        durable: &ProbeHandle<u64>,
        reported: &ProbeHandle<u64>,
        commands: &mut Vec<Command>,
    ) {
        if let Ending::Stopping(at) = &mut self.ending
            && self.replay_held
            && !self.replaying.0.is_empty()
        {
            // Sources read a held replay to its end first, and stamp until then.
            *at = tick;
            return;
        }
        match self.ending {
            // Sources may stamp until they have seen `Stop`, that is with the tick of it at most.
            Ending::Stopping(at) if !durable.less_equal(&at) => {
                match self.checkpointer.as_ref().map(Checkpointer::busy) {
                    // The one under way comes first.
                    Some(true) => {}
                    Some(false) => {
                        self.save((tick, now_ms), commands);
                        self.ending = Ending::Saving;
                    }
                    None => self.shut_down(tick, commands),
                }
            }
            Ending::Saving if self.checkpointer.as_ref().is_none_or(|c| !c.busy()) => {
                self.shut_down(tick, commands);
            }
            Ending::ShuttingDown(at) if tick > at && !reported.less_equal(&at) => {
                self.ending = Ending::Over;
            }
            _ => {}
        }
    }

    fn shut_down(&mut self, tick: u64, commands: &mut Vec<Command>) {
        self.ending = Ending::ShuttingDown(tick);
        commands.push(Command::Shutdown);
    }
}
