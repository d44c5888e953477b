//! Plays a case: appends its records, moves the clock a tick between steps, lets the dataflow run
//! to rest, and reads off how the run ended.
//!
//! The workers are threads in lock step: each turn is given by the runner, so a schedule is the
//! same every time.

use crate::case::{Case, Outcome, Run};
use crate::durable::{Claims, Durable, Ground};
use crate::preflight;
use crate::target::{Target, TargetOutlet};
use headwater::checkpoint::manifest::PartitionState;
use headwater::clock::{Continued, ManualClock, WallClock};
use headwater::decode::{DecodeSettings, EmptyValue};
use headwater::error::Error;
use headwater::failure::Failures;
use headwater::generation::Sources;
use headwater::guard::GuardSettings;
use headwater::job::{Finish, Job, Panel, Readiness, Settings};
use headwater::outcome::judge;
use headwater::sink::replay::Replay;
use headwater::table::Table;
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use headwater::topic::names::TopicNames;
use headwater::worker::WorkerRun;
use headwater_operators::decide::OnForgotten;
use headwater_operators::retention::KeepMarkers;
use headwater_operators::time::Clock;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TICK_MS: u64 = 20;
/// Turns after which a dataflow that is not at rest never will be.
const TURNS_MAX: usize = 3000;
/// How long threads of the job (checkpoints) are waited for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Plays `case` in `order` on so many workers.
pub(crate) fn run(case: &Case, run: &Run, order: &[usize], workers: usize) -> Outcome {
    match Player::start(case, run, workers).and_then(|mut player| {
        let played = player.play(case, run, order);
        let mut outcome = player.end(played.is_ok());
        if outcome.outcome == "ready" && !run.message_has.is_empty() {
            outcome.message = preflight::columns(&player.topics, &player.tables, &player.settings);
        }
        played.map(|()| outcome)
    }) {
        Ok(outcome) => outcome,
        Err(reason) => Outcome {
            outcome: "not played".to_owned(),
            message: reason,
            ..Outcome::default()
        },
    }
}

/// The two ends of one worker's turns.
struct Turns {
    give: Sender<bool>,
    taken: Receiver<bool>,
}

struct Player {
    tables: Vec<Table>,
    settings: Settings,
    topics: MemoryTopics,
    partitions: [usize; 2],
    /// Time as it passes outside, also while the job is down.
    clock: Arc<ManualClock>,
    target: Arc<Mutex<Target>>,
    durable: Option<Durable>,
    /// Of this run, or of the last one.
    workers: usize,
    panel: Arc<Panel>,
    failures: Arc<Failures>,
    claims: Arc<Claims>,
    /// None while the job is down.
    live: Option<Live>,
    starts: usize,
    /// Whether the case has ended the snapshot itself.
    ended: bool,
}

/// The workers of a run.
struct Live {
    turns: Vec<Turns>,
    guards: timely::communication::WorkerGuards<()>,
}

/// Time since the run began.
struct Since {
    clock: Arc<ManualClock>,
    from_ms: u64,
}

impl Clock for Since {
    fn now_ms(&self) -> u64 {
        self.clock.now_ms() - self.from_ms
    }
}

fn settings(case: &Case, run: &Run) -> Result<(Settings, Option<Vec<String>>), String> {
    let mut settings = Settings {
        tick_ms: TICK_MS,
        inflight_bytes_max: 64 << 20,
        reads_inflight_bytes_max: 16 << 20,
        reads_per_second_max: None,
        keep_markers: KeepMarkers::UntilReady {
            open_late_max_ms: 3_600_000,
        },
        start_margin_ms: 900_000,
        guard: GuardSettings::default(),
        on_forgotten: OnForgotten::Quarantine,
        rule: case.rule,
        finish: Finish::EndRecords,
        decode: DecodeSettings::default(),
        readiness: Readiness::default(),
    };
    let mut key = None;
    for (name, value) in &run.config {
        match (name.as_str(), value.as_str()) {
            ("retention.keep_markers", Some("until_ready" | "ttl")) => {}
            ("retention.ttl", Some("3d")) => {
                settings.keep_markers = KeepMarkers::Ttl {
                    ttl_ms: 3 * 86_400_000,
                };
            }
            ("empty_value", Some("tombstone")) => {
                settings.decode.empty_value = EmptyValue::Tombstone;
            }
            ("on_error", Some("dead_letter")) => settings.decode.dead_letters = true,
            ("table.key", None) => {
                key = Some(serde_json::from_value(value.clone()).map_err(|e| e.to_string())?);
            }
            _ => {
                return Err(format!(
                    "the runner does not know the setting {name} = {value}"
                ));
            }
        }
    }
    Ok((settings, key))
}

impl Player {
    fn start(case: &Case, run: &Run, workers: usize) -> Result<Player, String> {
        let (settings, key) = settings(case, run)?;
        let topics = MemoryTopics::default();
        let mut partitions = [1, 1];
        for step in &case.steps {
            let topic = step.get("t").or(step.get("topic")).and_then(Value::as_str);
            let index = match topic {
                Some("M") => 0,
                Some("S") => 1,
                _ => continue,
            };
            partitions[index] = partitions[index].max(partition(step) + 1);
        }
        topics.create("M", partitions[0]);
        topics.create("S", partitions[1]);
        let table = |name: String| Table {
            name,
            mutations: "M".to_owned(),
            snapshot: "S".to_owned(),
            key: key.clone(),
        };
        let mut player = Player {
            tables: case.tables().into_iter().map(table).collect(),
            settings,
            topics,
            partitions,
            clock: Arc::default(),
            target: Arc::default(),
            durable: Durable::needed(&case.steps).then(|| Durable::new(TICK_MS)),
            workers,
            panel: Arc::default(),
            failures: Arc::default(),
            claims: Arc::default(),
            live: None,
            starts: 0,
            ended: false,
        };
        if let Some(durable) = &mut player.durable {
            durable.lay_ground(&case.steps, &player.topics);
        }
        let first = case.steps.first().and_then(|step| step.get("do"));
        if first != Some(&json!("start")) {
            player.begin(workers);
        }
        Ok(player)
    }

    /// Starts the job on what is there. What refuses it is kept as its failure.
    fn begin(&mut self, workers: usize) {
        let ground = match &self.durable {
            None => Ok(Ground::bare(&self.tables, self.partitions)),
            Some(durable) => durable.begin(&self.tables, &self.topics, workers),
        };
        self.starts += 1;
        self.workers = workers;
        match ground {
            Ok(ground) => self.spawn(ground),
            Err(error) => self.refused(error),
        }
    }

    fn refused(&mut self, error: Error) {
        self.failures = Arc::default();
        self.failures.report(error);
    }

    fn spawn(&mut self, ground: Ground) {
        self.panel = Arc::clone(&ground.panel);
        self.failures = Arc::clone(&ground.failures);
        self.claims = Arc::clone(&ground.claims);
        let clock = Since {
            clock: Arc::clone(&self.clock),
            from_ms: self.clock.now_ms(),
        };
        let target = Arc::clone(&self.target);
        let job = Arc::new(Job {
            gate: Arc::new(ground.gate),
            tables: self.tables.clone(),
            names: Arc::new(TopicNames::new(self.tables.clone().into())),
            partitions: ground.partitions,
            generation_id: "g1".to_owned(),
            generation_names: Default::default(),
            topics: Arc::new(self.topics.clone()),
            outlet: Box::new(move |_, waker| {
                Box::new(TargetOutlet {
                    target: Arc::clone(&target),
                    ticket: 0,
                    waker,
                })
            }),
            clock: Arc::new(Continued {
                from_ms: ground.from_ms,
                clock: Arc::new(clock),
            }),
            settings: self.settings.clone(),
            secret: ground.secret,
            failures: ground.failures,
            panel: ground.panel,
            resumed: ground.resumed,
            replay: Arc::new(Replay::none()),
            checkpoints: ground.checkpoints,
            first_worker: 0,
            wall: Arc::new(WallClock),
            sources: Sources::default(),
            witness: None,
            highs: None,
        });
        self.live = Some(spawn(job, self.workers));
    }

    /// Ends the workers as they stand: nothing is flushed, nothing is said.
    fn kill(&mut self) {
        if let Some(live) = self.live.take() {
            for turns in &live.turns {
                turns.give.send(false).expect("the worker is there");
            }
            self.claims.kill();
            drop(live.guards);
            self.topics.readers_gone();
        }
    }

    /// Starts the job again, on other workers when the case does not say on how many.
    fn restart(&mut self, step: &Value) {
        let workers = step.get("workers").and_then(Value::as_u64);
        let other = match self.starts {
            0 => self.workers,
            _ => self.workers % 3 + 1,
        };
        self.begin(workers.map_or(other, |count| count as usize));
    }

    fn play(&mut self, case: &Case, run: &Run, order: &[usize]) -> Result<(), String> {
        let mut batch = false;
        self.rest()?;
        for index in order {
            if run.skip.contains(index) {
                continue;
            }
            let step = &case.steps[*index];
            match step.get("do").and_then(Value::as_str) {
                Some("begin_batch") => batch = true,
                Some("end_batch") => batch = false,
                Some(verb) => self.verb(verb, step)?,
                None => self.record(step)?,
            }
            if !batch {
                self.rest()?;
            }
        }
        if !self.ended {
            self.end_snapshot();
        }
        self.finish();
        Ok(())
    }

    fn end_snapshot(&mut self) {
        self.ended = true;
        for partition in 0..self.partitions[1] {
            self.topics
                .append("S", partition, OwnedRecord::end_of_snapshot("g1"));
        }
    }

    /// Runs until the job is over, if it ever is.
    fn finish(&mut self) {
        for _ in 0..TURNS_MAX {
            if self.failed() || self.turn() {
                return;
            }
            self.let_threads_run();
        }
    }

    /// Targets are sampled, and checkpoints written, on threads of the job's own.
    fn let_threads_run(&self) {
        match self.durable {
            None => std::thread::yield_now(),
            Some(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }

    /// Runs until `done`, or until the job has come to its own end.
    fn until(&mut self, what: &str, done: impl Fn(&Player) -> bool) -> Result<(), String> {
        let until = Instant::now() + WAIT_MAX;
        while !(done(self) || self.failed()) {
            if Instant::now() > until {
                return Err(format!("{what} did not come"));
            }
            if self.turn() {
                return Ok(());
            }
            self.let_threads_run();
        }
        Ok(())
    }

    fn failed(&self) -> bool {
        self.failures.any()
    }

    /// Runs until everything at hand was read and is durable.
    fn rest(&mut self) -> Result<(), String> {
        let mut drained_at = None;
        for _ in 0..TURNS_MAX {
            if self.failed() || self.live.is_none() {
                return Ok(());
            }
            if self.turn() {
                // The job has come to its own end.
                return Ok(());
            }
            let shown = self.panel.shown();
            match drained_at {
                None if self.topics.drained() => drained_at = Some(shown.now_ms),
                Some(at) if shown.durable_ms > at => return Ok(()),
                _ => {}
            }
        }
        Err("the dataflow does not come to rest".to_owned())
    }

    /// One tick: every worker is stepped a few times. `true` when all are over.
    fn turn(&mut self) -> bool {
        self.clock.advance(TICK_MS);
        let Some(live) = &self.live else {
            return true;
        };
        let mut over = true;
        for _ in 0..3 {
            over = true;
            for turns in &live.turns {
                turns.give.send(true).expect("the worker is there");
                over &= turns.taken.recv().expect("the worker answers");
            }
        }
        over
    }

    fn verb(&mut self, verb: &str, step: &Value) -> Result<(), String> {
        let topic = step.get("topic").and_then(Value::as_str).unwrap_or("M");
        let number = |name: &str| {
            step.get(name)
                .and_then(Value::as_u64)
                .ok_or_else(|| format!("{verb} without `{name}`: {step}"))
        };
        let at = partition(step);
        match verb {
            "advance_processing_time" => self.clock.advance(number("ms")?),
            "run_ttl_sweep" | "read_end_offset" | "note" => {}
            // Of the ground that the job begins on.
            "topic_config" | "target_preloaded" => {}
            "offsets" => {
                self.topics.trim_to(topic, at, number("start")?);
                if self.live.is_none() {
                    self.topics.cut_to(topic, at, number("end")?);
                }
                self.topics.extend_to(topic, at, number("end")?);
            }
            "end_offset" => self.topics.extend_to(topic, at, number("value")?),
            "eof" => {}
            // Of the runner's own tests alone.
            "end_of_snapshot" => self.end_snapshot(),
            "txn_commit_marker" => self.topics.extend_to(topic, at, number("o")? + 1),
            "open_txn" => {
                self.topics.transaction(topic, at, true);
                self.record(step.get("record").ok_or("open_txn without a record")?)?;
            }
            "commit_txn" => self.topics.transaction(topic, at, false),
            "big_record" => {
                let greeting = "x".repeat(number("after_bytes")? as usize);
                let id = step.pointer("/k/id").cloned().unwrap_or_default();
                let source = json!({"name": "app", "ts_ms": 2000, "snapshot": "false",
                    "schema": "public", "table": "hello", "lsn": 200});
                let value = json!({"before": null, "after": {"id": id, "greeting": greeting},
                    "source": source, "op": "u", "ts_ms": 2005});
                self.record(&json!({"t": step["t"], "p": at, "k": step["k"], "v": value}))?;
            }
            other => return self.life(other, step),
        }
        Ok(())
    }

    /// Verbs about the job's runs.
    fn life(&mut self, verb: &str, step: &Value) -> Result<(), String> {
        let Some(durable) = &mut self.durable else {
            return Err(format!("the verb `{verb}` is not known or not built yet"));
        };
        match verb {
            "checkpoint" => {
                let member = |topic| step.get(topic).and_then(Value::as_object);
                for (topic, (at, next)) in ["M", "S"]
                    .into_iter()
                    .flat_map(|topic| member(topic).into_iter().flatten().map(move |m| (topic, m)))
                {
                    let at = at.parse().map_err(|_| format!("no partition: {at}"))?;
                    let next = next.as_u64().ok_or("no offset in `checkpoint`")?;
                    self.topics.extend_to(topic, at, next);
                }
                self.rest()?;
                self.panel.save();
                let saved = |player: &Player| player.panel.shown().saved.map(|s| s.number);
                let before = saved(self);
                self.until("the checkpoint", |player| saved(player) > before)?;
                if saved(self).is_none() && !self.failed() {
                    return Err("the job ended without a checkpoint".to_owned());
                }
            }
            "stop" => {
                self.panel.stop();
                self.finish();
                self.kill();
            }
            "start" if self.live.is_none() => {
                if step.get("mutation_start") == Some(&json!("latest")) {
                    durable.start_at_the_end(&self.topics);
                }
                self.restart(step);
            }
            "restart" => {
                self.kill();
                self.restart(step);
            }
            "crash_before_checkpoint" => {
                self.kill();
                // The case gives the records again that come again.
                for state in durable_offsets(&self.durable) {
                    let at = state.partition as usize;
                    self.topics.cut_to(&state.topic, at, state.next_offset);
                }
                self.restart(step);
            }
            // All is durable but the manifest that names it.
            "kill_after_offset_commit_before_state_flush" => {
                self.claims.hold_next();
                self.panel.save();
                self.until("the manifest's turn", |player| player.claims.waiting())?;
                if !self.claims.waiting() {
                    return Err(format!("the job ended before it was killed: {step}"));
                }
                self.kill();
            }
            "second_instance_joins" if step["same_job_id"] == true => {
                durable.second_instance(&self.tables, &self.topics)?;
            }
            other => return Err(format!("this form of `{other}` is not built yet: {step}")),
        }
        Ok(())
    }

    fn record(&mut self, step: &Value) -> Result<(), String> {
        let topic = step
            .get("t")
            .and_then(Value::as_str)
            .ok_or("a record without a topic")?;
        if topic == "N" && !self.failed() {
            return Err("notifications are not built yet".to_owned());
        }
        let text = |raw: &str, name: &str| match (step.get(raw), step.get(name)) {
            (Some(Value::String(text)), _) => Some(text.clone()),
            (_, None | Some(Value::Null)) => None,
            (_, Some(value)) => Some(value.to_string()),
        };
        let (key, value) = (text("kraw", "k"), text("vraw", "v"));
        if let Some(offset) = step.get("o").and_then(Value::as_u64) {
            self.topics.extend_to(topic, partition(step), offset);
        }
        let record = OwnedRecord::new(key.as_deref(), value.as_deref());
        self.topics.append(topic, partition(step), record);
        Ok(())
    }

    fn end(&mut self, played: bool) -> Outcome {
        self.kill();
        let shown = self.panel.shown();
        let counts = &shown.counts;
        let (outcome, message) = match self.failures.first() {
            Some(error) => ("refused", error.to_string()),
            None => match judge(&shown, &self.settings) {
                Ok(_) => ("ready", String::new()),
                Err(error) if counts.unsafe_reads() > 0 => ("unsafe", error.to_string()),
                Err(error) => ("not_ready", error.to_string()),
            },
        };
        let mut counters: std::collections::BTreeMap<String, u64> = [
            ("mutations_emitted", counts.mutations_emitted),
            ("reads_emitted", counts.reads_emitted),
            (
                "reads_dropped",
                counts.reads_dropped_marker + counts.reads_dropped_superseded,
            ),
            ("reads_quarantined", counts.kept_back() - counts.reads_late),
            ("dead_letters", counts.dead_letters()),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
        for (kind, count) in &counts.ignored {
            counters.insert(format!("ignored_{kind}"), *count);
        }
        let target = self.target.lock().expect("not poisoned");
        let given = (target.quarantined.len() as u64, target.dead_letters);
        let counted = (counts.kept_back(), counts.dead_letters());
        // The counts are of the last run alone.
        assert!(!played || self.starts > 1 || given == counted);
        Outcome {
            outcome: outcome.to_owned(),
            message,
            table: target.rows.values().cloned().collect(),
            counters,
        }
    }
}

fn partition(step: &Value) -> usize {
    step.get("p").and_then(Value::as_u64).unwrap_or(0) as usize
}

fn durable_offsets(durable: &Option<Durable>) -> Vec<PartitionState> {
    durable.as_ref().map(Durable::offsets).unwrap_or_default()
}

/// Starts the workers; each takes a step when it is given a turn, and ends when given `false`.
fn spawn(job: Arc<Job>, workers: usize) -> Live {
    let mut turns = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..workers {
        let (give, given) = channel::<bool>();
        let (take, taken) = channel::<bool>();
        turns.push(Turns { give, taken });
        ends.push(Some((given, take)));
    }
    let ends = Mutex::new(ends);
    let guards = timely::execute(timely::Config::process(workers), move |worker| {
        let (given, take) = ends.lock().expect("not poisoned")[worker.index()]
            .take()
            .expect("one worker an end");
        let mut run = WorkerRun::new(worker, &job);
        while given.recv().expect("the runner is there") {
            // A failure is kept in the job; the worker goes on answering until it is ended.
            if run.step(&job).is_ok() {
                worker.step();
            }
            take.send(run.over()).expect("the runner is there");
        }
        // The other workers may be gone: nothing more is stepped.
        let dataflows: Vec<usize> = worker.installed_dataflows();
        dataflows
            .into_iter()
            .for_each(|dataflow| worker.drop_dataflow(dataflow));
    })
    .expect("threads can be started");
    Live { turns, guards }
}
