//! One worker: builds the dataflow, then steps it until the job is over.
//!
//! ```text
//!  [Feed] ─▶ Source(mutations) ─┐ routed by fingerprint
//!                               ├─▶ Merge ─data─▶ Sink ─▶ durable probe ─▶ (in-flight budgets)
//!  [Feed] ─▶ Source(READs) ─────┘     └─▶ READ progress ─▶ probe
//!       └─▶ partition ends ─▶ worker 0
//!  control (worker 0) ─ broadcast ─▶ sources, merge, reports
//! ```
//! It cannot decide anything: worker 0's [`Coordinator`] does, and sends commands.

use crate::checkpoint::{Outbox, Part, Resumed, Uploads};
use crate::coordinator::{Coordinator, Observed};
use crate::decode::unavailable::Placeholders;
use crate::error::Error;
use crate::feed::{FeedConfig, FeedCounters, MutationFeed, SnapshotFeeds};
use crate::job::Job;
use crate::looks::Looks;
use crate::outcome::unsafe_generation;
use crate::status::Counts;
use crate::table::Role;
use crate::topic::Waker;
use headwater_operators::control::{Command, broadcast};
use headwater_operators::gather::{Gathered, gather};
use headwater_operators::marker::{MarkerArrangement, MarkerConfig, MarkerExport};
use headwater_operators::merge::{Cut, Looked, MergeConfig, MergeCounters, Told, merge};
use headwater_operators::poison::PoisonMark;
use headwater_operators::report::{Reports, reports};
use headwater_operators::retention::Retention;
use headwater_operators::route::{range_of, worker_of};
use headwater_operators::sink::sink;
use headwater_operators::source::{Feed, PartitionEnd, Sourced, source};
use headwater_operators::time::tick_at;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Concat, Input, Inspect, Operator, Probe};
use timely::dataflow::{InputHandle, ProbeHandle, Scope, StreamVec};
use timely::scheduling::SyncActivator;
use timely::worker::Worker;

/// How often a worker reports to worker 0.
const REPORT_MS: u64 = 200;
/// How long a worker without anything to do sleeps; messages wake it earlier.
const PARK: Duration = Duration::from_millis(50);

type ControlInput = InputHandle<u64, CapacityContainerBuilder<Vec<Command>>>;

/// What a worker keeps of its dataflow.
struct Handles {
    control: Option<ControlInput>,
    ends: Rc<RefCell<Vec<PartitionEnd>>>,
    read_progress: ProbeHandle<u64>,
    durable: ProbeHandle<u64>,
    reports: Reports<Counts>,
    reported: ProbeHandle<u64>,
    merged: Rc<RefCell<MergeCounters>>,
    /// Parts of checkpoints, at worker 0.
    parts: Gathered<Part>,
    /// Behind the commands: done when the last one has come.
    commanded: ProbeHandle<u64>,
}

/// Runs the job on this worker until it is over.
///
/// # Errors
/// The first thing that went wrong in this process. The caller must end the process: the rest of
/// the cluster cannot go on without it.
pub fn run(worker: &mut Worker, job: &Job) -> Result<(), Error> {
    let mut run = WorkerRun::new(worker, job);
    while !run.over() {
        let park = run.step(job)?;
        worker.step_or_park(Some(park));
    }
    Ok(())
}

/// A worker's part of a run, stepped by [`run`] or by a test that owns the schedule.
pub struct WorkerRun {
    handles: Handles,
    /// Only worker 0 speaks: everyone else lets go of the control stream at once.
    control: Option<ControlInput>,
    coordinator: Option<Coordinator>,
    /// Questions about keys, at worker 0.
    looks: Looks,
    /// A probe is empty until its dataflow has run once, which must not look like the end.
    lived: bool,
}

impl WorkerRun {
    /// Builds the dataflow on this worker.
    pub fn new(worker: &mut Worker, job: &Job) -> Self {
        let first = worker.index() == 0;
        let mut handles: Handles = worker.dataflow::<u64, _, _>(|scope| build(scope, job));
        let control = handles.control.take().filter(|_| first);
        WorkerRun {
            handles,
            control,
            coordinator: first.then(|| Coordinator::new(job, worker.peers())),
            looks: Looks::default(),
            lived: false,
        }
    }

    /// Whether this worker has nothing left to do.
    pub fn over(&self) -> bool {
        self.lived && self.control.is_none() && self.ended()
    }

    fn ended(&self) -> bool {
        self.handles.durable.done() && self.handles.reported.done() && self.handles.commanded.done()
    }

    /// Looks at failures, the clock and what was observed; step the worker after it. Returns how
    /// long the worker may park.
    ///
    /// # Errors
    /// See [`run`].
    pub fn step(&mut self, job: &Job) -> Result<Duration, Error> {
        if let Some(error) = job.failures.any().then(|| job.failures.first()).flatten() {
            return Err(error);
        }
        if self.handles.merged.borrow().reads_failed > 0 {
            // `on_forgotten = "fail"`: the READ was neither emitted nor counted as read.
            return Err(unsafe_generation(1, &job.settings));
        }
        self.lived |= !self.ended();
        let (Some(coordinator), Some(input)) = (self.coordinator.as_mut(), self.control.as_mut())
        else {
            return Ok(PARK);
        };
        let tick_ms = job.settings.tick_ms;
        let now_ms = job.clock.now_ms();
        let tick = tick_at(now_ms, tick_ms);
        if tick > *input.time() {
            input.advance_to(tick);
        }
        let mut parts: Vec<Part> = self.handles.parts.borrow_mut().drain(..).collect();
        self.looks.answered(&mut parts);
        for command in self.looks.commands(&job.panel.looks) {
            input.send(command);
        }
        let observed = Observed {
            ends: self.handles.ends.borrow_mut().drain(..).collect(),
            read_progress: &self.handles.read_progress,
            durable: &self.handles.durable,
            reported: &self.handles.reported,
            reports: &self.handles.reports,
            parts,
        };
        for command in coordinator.step(*input.time(), now_ms, observed) {
            input.send(command);
        }
        input.flush();
        if coordinator.over() {
            self.control = None;
        }
        Ok(Duration::from_millis(tick_ms - now_ms % tick_ms).min(PARK))
    }
}

fn build(scope: Scope<'_, u64>, job: &Job) -> Handles {
    let settings = &job.settings;
    let durable = ProbeHandle::new();
    let (control, commands) = scope.new_input::<Vec<Command>>();
    // Everyone hears of a command only after this process was told: a READ's generation has a name.
    let (commanded, commands) = keep_told(broadcast(commands), job);
    let counters = [Rc::<RefCell<FeedCounters>>::default(), Rc::default()];
    let outbox = Outbox::default();
    let config = |role, counters| feed_config(scope, job, role, counters, &outbox);
    let (mutations, reads) = (
        config(Role::Mutations, &counters[0]),
        config(Role::Snapshot, &counters[1]),
    );
    let mutations = feed_source(
        job,
        &commands,
        &durable,
        ("Source(mutations)", settings.inflight_bytes_max),
        |waker| MutationFeed::new(mutations, waker),
    );
    let reads = feed_source(
        job,
        &commands,
        &durable,
        ("Source(snapshot)", settings.reads_inflight_bytes_max),
        |waker| SnapshotFeeds::new(reads, waker),
    );
    let ends = collect_ends(mutations.ends.concat(reads.ends));
    let merge_counters = Rc::<RefCell<MergeCounters>>::default();
    let merged = merge(
        mutations.records,
        reads.records,
        commands.clone(),
        restored(scope, job),
        merge_config(scope, job),
        Rc::clone(&merge_counters),
        Teller::new(scope.index(), job, &outbox),
    );
    let parts = gather(commands.clone(), settings.tick_ms, move |out| {
        outbox.drain(out);
    });
    let (read_progress, _) = merged.read_progress.probe();
    let outlet = |activator| (job.outlet)(scope.index(), waker(activator));
    sink(merged.data, outlet).probe_with(&durable);
    let merged_counters = Rc::clone(&merge_counters);
    let (panel, gate) = (Arc::clone(&job.panel), Arc::clone(&job.gate));
    let count = move |tick| Counts {
        at_ms: tick,
        stop: panel.stopping(),
        shapes: gate.shapes(),
        ..Counts::of(
            &counters[0].borrow(),
            &counters[1].borrow(),
            &merge_counters.borrow(),
        )
    };
    let (reports, reported) = reports(commands, settings.tick_ms, REPORT_MS, count);
    Handles {
        control: Some(control),
        ends,
        read_progress,
        durable,
        reports,
        reported,
        merged: merged_counters,
        parts,
        commanded,
    }
}

/// How the merge behaves, with the generations that are open from the start.
fn merge_config(scope: Scope<'_, u64>, job: &Job) -> MergeConfig {
    let settings = &job.settings;
    let mut retention = Retention::new(settings.keep_markers, settings.start_margin_ms);
    for command in &job.resumed.commands {
        // Before any time passes: else markers of an open generation would be forgotten first.
        retention.apply(command);
    }
    MergeConfig {
        tick_ms: settings.tick_ms,
        retention,
        on_forgotten: settings.on_forgotten,
        rule: settings.rule,
        poison: {
            let owned = |mark: &&PoisonMark| {
                worker_of(mark.fingerprint, scope.peers()) == scope.index() as u64
            };
            job.resumed.poison.iter().filter(owned).copied().collect()
        },
        whole_row: |value| !Placeholders::default().are_in(value),
    }
}

/// Tells this process what commands say to it as a whole: how the run ended, that the replay is
/// over, and how generations and their topics are called. The commands go on behind it.
fn keep_told<'scope>(
    commands: StreamVec<'scope, u64, Command>,
    job: &Job,
) -> (ProbeHandle<u64>, StreamVec<'scope, u64, Command>) {
    let (panel, replay) = (Arc::clone(&job.panel), Arc::clone(&job.replay));
    let (names, topics) = (Arc::clone(&job.generation_names), Arc::clone(&job.names));
    job.resumed.commands.iter().for_each(|c| topics.told(c));
    let keep = move |command: &Command| match command {
        Command::Verdict { exit_code } => panel.judged(*exit_code),
        Command::Replayed { through } => replay.ends_at(*through),
        command => {
            names.told(command);
            topics.told(command);
        }
    };
    commands.inspect(keep).probe()
}

fn waker(activator: SyncActivator) -> Waker {
    // The operator may be gone already, at the end of the job; nobody is left to wake then.
    Arc::new(move || {
        let _ = activator.activate();
    })
}

/// What the feed of a role needs.
fn feed_config(
    scope: Scope<'_, u64>,
    job: &Job,
    role: Role,
    counters: &Rc<RefCell<FeedCounters>>,
    outbox: &Outbox,
) -> FeedConfig {
    let settings = &job.settings;
    FeedConfig {
        role,
        partitions: job.partitions.of(role).to_vec(),
        reads_per_second_max: settings.reads_per_second_max,
        topics: Arc::clone(&job.topics),
        pass_unavailable: settings.decode.pass_unavailable,
        tables: job.tables.clone(),
        secret: job.secret,
        decode: settings.decode.clone(),
        failures: Arc::clone(&job.failures),
        panel: Arc::clone(&job.panel),
        name: format!("{} topics of worker {}", role.word(), scope.index()),
        counters: Rc::clone(counters),
        worker: scope.index(),
        workers: scope.peers(),
        gate: Arc::clone(&job.gate),
        outbox: outbox.clone(),
        replay: job.resumed.replay_of(role),
        replay_bytes_max: job.replay.inflight_bytes_max(),
        replay_held: job.replay.pending(),
        source_times: job.resumed.source_times.clone(),
    }
}

/// The source of a role, with what was commanded before a restart.
fn feed_source<'scope, F: Feed + 'static>(
    job: &Job,
    commands: &StreamVec<'scope, u64, Command>,
    durable: &ProbeHandle<u64>,
    (name, inflight_bytes_max): (&str, usize),
    feed: impl FnOnce(Waker) -> F,
) -> Sourced<'scope> {
    source(
        name,
        commands.clone(),
        job.settings.tick_ms,
        inflight_bytes_max,
        durable.clone(),
        |activator| {
            let mut feed = feed(waker(activator));
            for command in &job.resumed.commands {
                feed.command(0, command);
            }
            feed
        },
    )
}

/// The marker store of this worker, with what a checkpoint has left.
fn restored(scope: Scope<'_, u64>, job: &Job) -> MarkerArrangement {
    let (low, high) = range_of(scope.index(), scope.peers());
    let config = MarkerConfig::new(low..=high, job.settings.tick_ms);
    let mut store = MarkerArrangement::new(config);
    let Resumed { ticks, .. } = &job.resumed;
    for of_worker in ticks {
        let spans = of_worker.spans.iter().copied();
        store.restore_ticks(of_worker.horizon, of_worker.forgotten, spans);
    }
    let mut known = Vec::new();
    for (run_ref, run) in job.resumed.take_runs(job.local(scope.index())) {
        if let Some(id) = store.insert_run(run) {
            known.push((id, run_ref));
        }
    }
    if let Some(checkpoints) = &job.checkpoints {
        checkpoints.uploads.known(scope.index(), known);
    }
    store
}

/// Takes what the merge exports at a cut, and what it has found of a key.
struct Teller {
    worker: usize,
    uploads: Option<Uploads>,
    outbox: Outbox,
}

impl Teller {
    fn new(worker: usize, job: &Job, outbox: &Outbox) -> Self {
        Teller {
            worker,
            uploads: job.checkpoints.as_ref().map(|to| to.uploads.clone()),
            outbox: outbox.clone(),
        }
    }
}

impl Told<MarkerExport> for Teller {
    fn exported(&mut self, cut: Cut, export: MarkerExport) {
        if let Some(uploads) = &self.uploads {
            uploads.export(self.worker, cut, export, &self.outbox);
        }
    }

    fn poisoned(&mut self, cut: Cut, marks: Vec<PoisonMark>) {
        let marks = marks.iter().map(|mark| (mark.fingerprint, mark.tick_ms));
        self.outbox.put(Part::Poisoned {
            number: cut.number,
            worker: self.worker,
            marks: marks.collect(),
        });
    }

    fn looked(&mut self, looked: Looked) {
        self.outbox.put(Part::Looked(looked));
    }
}

fn collect_ends(ends: StreamVec<'_, u64, PartitionEnd>) -> Rc<RefCell<Vec<PartitionEnd>>> {
    let collected = Rc::<RefCell<Vec<PartitionEnd>>>::default();
    let into = Rc::clone(&collected);
    ends.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
        Exchange::new(|_: &PartitionEnd| 0),
        "PartitionEnds",
        move |_, _| move |input, _| input.for_each(|_, ends| into.borrow_mut().append(ends)),
    );
    collected
}
