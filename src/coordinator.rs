//! Worker 0's part of a run: opens the generation, freezes ends, samples targets, stops.
//!
//! It sees partition ends, frontiers and reports, and answers with commands. What may block (asking
//! a topic for its end) happens on a thread of its own, and the answer is picked up at a later
//! step.
//!
//! Invariant: nothing is shut down before everything sent is durable; after `Shutdown` every worker
//! reports once more, and then `Verdict`, the last command, tells every process how it ended.

use crate::checkpoint::manifest::GenerationState;
use crate::checkpoint::{BadReads, Checkpointer, CutState, Part};
use crate::completion::{Completion, Next, Phase};
use crate::error::{Error, ErrorKind};
use crate::failure::Failures;
use crate::job::{Finish, Job, Panel, Settings, Shown, topic_names};
use crate::key::KeyGate;
use crate::outcome;
use crate::status::Counts;
use crate::table::Role;
use crate::topic::Topics;
use crate::topic::growth::growth_error;
use headwater_operators::control::{Command, PartitionTarget};
use headwater_operators::report::Reports;
use headwater_operators::source::PartitionEnd;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
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

/// Who is in trouble when a topic cannot be asked for its ends.
const ASKED: &str = "the question for the ends of topics";

/// What the thread that asks a topic for its ends sends back.
type Answer = Result<Vec<PartitionTarget>, Error>;

/// See the module.
pub struct Coordinator {
    completion: Completion,
    finish: Finish,
    settings: Settings,
    topics: Arc<dyn Topics>,
    names: [Vec<String>; 2],
    /// Partitions of each topic that are read.
    read: Arc<BTreeMap<String, u32>>,
    gate: Arc<KeyGate>,
    /// How many shapes of each worker were compared; they only grow.
    compared: BTreeMap<usize, usize>,
    tables: Vec<u16>,
    failures: Arc<Failures>,
    panel: Arc<Panel>,
    frozen: bool,
    evidence: Option<String>,
    asked: Option<(Role, Receiver<Answer>)>,
    delivered: (u64, u64),
    ending: Ending,
    /// The generation that is open, and when it was opened.
    generation: Option<(u32, u64)>,
    generation_id: String,
    checkpointer: Option<Checkpointer>,
    bad_reads_before: BadReads,
    workers: usize,
    /// Whether sinks hold the replay.
    replay_held: bool,
    /// Partitions whose replay was not read to its end, and the last tick of those that were.
    replaying: (BTreeSet<(bool, String, u32)>, u64),
}

impl Coordinator {
    /// At the start of a run.
    pub fn new(job: &Job, workers: usize) -> Self {
        let partitions = &job.partitions;
        let resumed = &job.resumed;
        let generation = resumed
            .commands
            .iter()
            .rev()
            .find_map(|command| match command {
                Command::Open {
                    generation,
                    opened_at_ms,
                    ..
                } => Some((*generation, *opened_at_ms)),
                _ => None,
            });
        let frozen = resumed.commands.iter().any(|command| match command {
            Command::Freeze { ends, .. } => ends.len() == partitions.snapshot.len(),
            _ => false,
        });
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
        Coordinator {
            completion: Completion::new(partitions.snapshot.len(), partitions.mutations.len()),
            finish: job.settings.finish,
            settings: job.settings.clone(),
            topics: Arc::clone(&job.topics),
            names: [Role::Mutations, Role::Snapshot].map(|role| topic_names(&job.tables, role)),
            read: Arc::new(partitions.counts()),
            gate: Arc::clone(&job.gate),
            compared: BTreeMap::new(),
            tables: (0..job.tables.len())
                .map(|table| u16::try_from(table).expect("fewer than 65,536 tables"))
                .collect(),
            failures: Arc::clone(&job.failures),
            panel: Arc::clone(&job.panel),
            frozen,
            evidence: resumed.evidence.clone(),
            asked: None,
            delivered: (0, 0),
            ending: Ending::No,
            generation,
            generation_id: job.generation_id.clone(),
            checkpointer,
            bad_reads_before: resumed.bad_reads,
            workers,
            replay_held: job.replay.pending(),
            replaying: (replaying, 0),
        }
    }

    /// Whether the control stream may be closed.
    pub fn over(&self) -> bool {
        self.ending == Ending::Over
    }

    /// One step at `tick`; the commands to send at it, in order.
    pub fn step(&mut self, tick: u64, now_ms: u64, mut observed: Observed<'_>) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.generation.is_none() {
            // A fresh job opens its generation at its first tick, so that it forgets nothing; as of
            // tick 0, which sources may have stamped with before the first tick has passed.
            self.generation = Some((1, 0));
            let tables = self.tables.clone();
            commands.push(Command::Open {
                generation: 1,
                tables,
                opened_at_ms: 0,
                id: self.generation_id.clone(),
                topics: Vec::new(),
                partitions: Vec::new(),
                not_before_ms: 0,
            });
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
                self.completion.partition_end(end);
            }
        }
        let counts = Counts::sum(observed.reports.borrow().values());
        let stop_asked = counts.stop;
        self.freeze_when_idle(&counts, now_ms);
        self.answers(&mut commands);
        let next = self.completion.step(
            |tick| !observed.read_progress.less_equal(&tick),
            |tick| !observed.durable.less_equal(&tick),
        );
        match next {
            Next::SampleTargets => self.ask(Role::Mutations),
            Next::Done if self.finish != Finish::Never => self.stop(tick, &mut commands),
            Next::Done | Next::Wait => {}
        }
        // A signal at any process stops the job.
        if self.panel.stopping() || stop_asked {
            self.stop(tick, &mut commands);
        }
        if let Err(error) = self.checkpoint((tick, now_ms), &counts, &mut observed, &mut commands) {
            self.failures.report(error);
            return Vec::new();
        }
        self.end(
            tick,
            now_ms,
            &observed.durable.clone(),
            observed.reported,
            &mut commands,
        );
        let shown = self.show(counts, now_ms, observed.durable);
        if self.ending == Ending::Over {
            let exit_code = outcome::exit_code(&shown, &self.settings);
            commands.push(Command::Verdict { exit_code });
        }
        commands
    }

    /// A partition was read again as far as the target had seen it; the command when all were.
    fn replayed(&mut self, end: PartitionEnd) -> Option<Command> {
        let (waiting, through) = &mut self.replaying;
        *through = end.tick.max(*through);
        let last = waiting.remove(&(end.mutations, end.topic, end.partition)) && waiting.is_empty();
        last.then_some(Command::Replayed { through: *through })
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

    /// Begins a checkpoint when one is due, and moves the one under way on.
    fn checkpoint(
        &mut self,
        (tick, now_ms): (u64, u64),
        counts: &Counts,
        observed: &mut Observed<'_>,
        commands: &mut Vec<Command>,
    ) -> Result<(), Error> {
        let state = self.cut_state();
        let all = observed.reports.borrow().len() == self.workers;
        let counted_at = if all { counts.at_ms } else { 0 };
        let Some(checkpointer) = &mut self.checkpointer else {
            return Ok(());
        };
        checkpointer.take(std::mem::take(&mut observed.parts));
        let durable = |tick| !observed.durable.less_than(&tick);
        checkpointer.step((tick, now_ms), durable, (counted_at, &counts.generations))?;
        let asked = !checkpointer.busy() && self.panel.take_save();
        if self.ending == Ending::No && (asked || checkpointer.due(now_ms)) {
            commands.push(checkpointer.begin(tick, now_ms, state));
        }
        Ok(())
    }

    /// What commands up to now have made of the generation.
    fn cut_state(&self) -> CutState {
        let generations = self
            .generation
            .map(|(number, opened_at_ms)| GenerationState {
                number,
                id: self.generation_id.clone(),
                tables: self.tables.clone(),
                opened_at_ms,
                evidence: self.evidence.clone(),
                // Known when everything before the cut was decided.
                unsafe_reads: 0,
                late_reads: 0,
                ..GenerationState::default()
            });
        CutState {
            generations: generations.into_iter().collect(),
            ..CutState::default()
        }
    }

    /// Stop, then everything durable, then a last checkpoint, then shutdown, then everyone's last
    /// report.
    fn end(
        &mut self,
        tick: u64,
        now_ms: u64,
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
                let state = self.cut_state();
                match &mut self.checkpointer {
                    // The one under way comes first.
                    Some(checkpointer) if checkpointer.busy() => {}
                    Some(checkpointer) => {
                        commands.push(checkpointer.begin(tick, now_ms, state));
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

    /// Freezes the snapshot's ends when neither topic has delivered for the time given. A source
    /// that is throttled, or waits for the sink or for brokers, says nothing about its topic.
    fn freeze_when_idle(&mut self, counts: &Counts, now_ms: u64) {
        let Finish::Idle { idle_ms } = self.finish else {
            return;
        };
        let rows = counts.rows_read();
        if rows != self.delivered.0 || counts.behind {
            self.delivered = (rows, now_ms);
        }
        let idle = now_ms.saturating_sub(self.delivered.1) >= idle_ms;
        let reading = *self.completion.phase() == Phase::Reading;
        if idle && reading && !self.frozen && self.asked.is_none() {
            self.frozen = true;
            self.evidence = Some("assumed".to_owned());
            self.ask(Role::Snapshot);
        }
    }

    /// Asks for the ends of a role's topics, on a thread.
    fn ask(&mut self, role: Role) {
        let (answer, asked) = channel();
        let topics = Arc::clone(&self.topics);
        let names = self.names.clone();
        let read = Arc::clone(&self.read);
        std::thread::spawn(move || {
            let ends = || {
                all_read(&*topics, &names, &read)?;
                ends(&*topics, &names[role as usize])
            };
            // Nobody waits for the answer when the job has ended meanwhile.
            let _ = answer.send(ends());
        });
        self.asked = Some((role, asked));
    }

    fn answers(&mut self, commands: &mut Vec<Command>) {
        let Some((role, asked)) = &self.asked else {
            return;
        };
        let Ok(answer) = asked.try_recv() else { return };
        match (answer, role) {
            (Ok(targets), Role::Snapshot) => commands.push(Command::Freeze {
                generation: 1,
                ends: targets,
            }),
            (Ok(targets), Role::Mutations) => {
                self.completion.targets_sent();
                commands.push(Command::Target {
                    generation: 1,
                    targets,
                });
            }
            // Brokers that are away may come back: the question is asked again.
            (Err(error), role) if error.kind == ErrorKind::Failed => {
                let role = *role;
                self.panel.trouble(ASKED, Some(error.text));
                return self.ask(role);
            }
            (Err(error), _) => self.failures.report(error),
        }
        self.panel.trouble(ASKED, None);
        self.asked = None;
    }

    fn show(&mut self, counts: Counts, now_ms: u64, durable: &ProbeHandle<u64>) -> Shown {
        let (at_end, of) = self.completion.snapshot_progress();
        if at_end == of && of > 0 && self.evidence.is_none() {
            self.evidence = Some("end_records".to_owned());
        }
        let (caught, targets) = self.completion.mutation_progress();
        let phase = match self.completion.phase() {
            Phase::Reading => format!("reading the snapshot, {at_end} of {of} partitions at end"),
            Phase::Consumed => "snapshot consumed, asking for the mutation targets".to_owned(),
            Phase::CatchingUp => format!("catching up, {caught} of {targets} partitions there"),
            Phase::CaughtUp => "caught up".to_owned(),
        };
        let shown = Shown {
            counts,
            phase,
            snapshot_total: None,
            caught_up: *self.completion.phase() == Phase::CaughtUp,
            consumed: *self.completion.phase() != Phase::Reading,
            snapshot_partitions: (at_end, of),
            durable_ms: durable.with_frontier(|f| f.first().copied().unwrap_or(now_ms)),
            now_ms,
            evidence: self.evidence.clone(),
            replaying: !self.replaying.0.is_empty(),
            bad_reads_before: self.bad_reads_before,
            saved: self.checkpointer.as_ref().and_then(|c| c.saved().cloned()),
            ..Shown::default()
        };
        self.panel.show(shown.clone());
        shown
    }
}

/// Refuses topics with partitions that nobody reads: their records would be missing silently.
fn all_read(
    topics: &dyn Topics,
    names: &[Vec<String>; 2],
    read: &BTreeMap<String, u32>,
) -> Result<(), Error> {
    for (role, name) in [Role::Mutations, Role::Snapshot]
        .into_iter()
        .flat_map(|role| names[role as usize].iter().map(move |name| (role, name)))
    {
        let (known, found) = (
            read.get(name).copied().unwrap_or(0),
            topics.partition_count(name)?,
        );
        let error = match role {
            Role::Mutations => growth_error(name, known, found),
            Role::Snapshot => (known != found).then(|| unread(name, known, found)),
        };
        if let Some(error) = error {
            return Err(error);
        }
    }
    Ok(())
}

fn unread(name: &str, known: u32, found: u32) -> Error {
    Error::refused(format!(
        "snapshot topic {name} has partitions that were not read"
    ))
    .line(format!("found     {found} partitions"))
    .line(format!("expected  {known}, as at the start of this run"))
    .line("READs in the others are missing in the target. Start the job again; it reads all.")
}

/// The high watermarks of all partitions of these topics.
fn ends(topics: &dyn Topics, names: &[String]) -> Result<Vec<PartitionTarget>, Error> {
    let mut targets = Vec::new();
    for name in names {
        for (partition, range) in topics.ranges(name)?.into_iter().enumerate() {
            let partition = u32::try_from(partition).expect("Kafka counts partitions in 31 bits");
            targets.push(PartitionTarget {
                topic: name.clone(),
                partition,
                end: range.high,
            });
        }
    }
    Ok(targets)
}
