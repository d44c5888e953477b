//! Worker 0's part of a run: opens the generation, freezes ends, samples targets, stops.
//!
//! It sees partition ends, frontiers and reports, and answers with commands. What may block (asking
//! a topic for its end) happens on a thread of its own, and the answer is picked up at a later
//! step.
//!
//! Invariant: nothing is shut down before everything sent is durable; after `Shutdown` every worker
//! reports once more, and then `Verdict`, the last command, tells every process how it ended.

use crate::completion::{Completion, Next, Phase};
use crate::error::Error;
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
use std::collections::BTreeMap;
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
}

/// Where the run stands in its own ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// `Stop` was sent at this tick.
    Stopping(u64),
    /// `Shutdown` was sent at this tick.
    ShuttingDown(u64),
    Over,
}

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
    opened: bool,
    frozen: bool,
    evidence: Option<String>,
    asked: Option<(Role, Receiver<Answer>)>,
    delivered: (u64, u64),
    ending: Ending,
}

impl Coordinator {
    /// At the start of a run.
    pub fn new(job: &Job) -> Self {
        let partitions = &job.partitions;
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
            opened: false,
            frozen: false,
            evidence: None,
            asked: None,
            delivered: (0, 0),
            ending: Ending::No,
        }
    }

    /// Whether the control stream may be closed.
    pub fn over(&self) -> bool {
        self.ending == Ending::Over
    }

    /// One step at `tick`; the commands to send at it, in order.
    pub fn step(&mut self, tick: u64, now_ms: u64, observed: Observed<'_>) -> Vec<Command> {
        let mut commands = Vec::new();
        if !self.opened {
            // A fresh job opens its generation at its first tick, so that it forgets nothing.
            self.opened = true;
            let tables = self.tables.clone();
            commands.push(Command::Open {
                generation: 1,
                tables,
                opened_at_ms: tick,
            });
        }
        if let Err(error) = self.compare_keys(observed.reports) {
            // The next step of this worker ends the job; nothing is judged before.
            self.failures.report(error);
            return Vec::new();
        }
        for end in observed.ends {
            self.completion.partition_end(end);
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
        self.end(
            tick,
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

    /// Stop, then everything durable, then shutdown, then everyone's last report.
    fn end(
        &mut self,
        tick: u64,
        durable: &ProbeHandle<u64>,
        reported: &ProbeHandle<u64>,
        commands: &mut Vec<Command>,
    ) {
        match self.ending {
            // Sources may stamp until they have seen `Stop`, that is with the tick of it at most.
            Ending::Stopping(at) if !durable.less_equal(&at) => {
                self.ending = Ending::ShuttingDown(tick);
                commands.push(Command::Shutdown);
            }
            Ending::ShuttingDown(at) if tick > at && !reported.less_equal(&at) => {
                self.ending = Ending::Over;
            }
            _ => {}
        }
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
            (Ok(targets), Role::Snapshot) => commands.push(Command::Freeze(targets)),
            (Ok(targets), Role::Mutations) => {
                self.completion.targets_sent();
                commands.push(Command::Target(targets));
            }
            (Err(error), _) => self.failures.report(error),
        }
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
            snapshot_partitions: (at_end, of),
            durable_ms: durable.with_frontier(|f| f.first().copied().unwrap_or(now_ms)),
            now_ms,
            evidence: self.evidence.clone(),
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
