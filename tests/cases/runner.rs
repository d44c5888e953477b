//! Plays a case: appends its records, moves the clock a tick between steps, lets the dataflow run
//! to rest, and reads off how the run ended.
//!
//! The workers are threads in lock step: each turn is given by the runner, so a schedule is the
//! same every time.

use crate::case::{Case, Outcome, Run};
use crate::target::{Target, TargetOutlet};
use headwater::checkpoint::Resumed;
use headwater::clock::ManualClock;
use headwater::decode::{DecodeSettings, EmptyValue};
use headwater::failure::Failures;
use headwater::job::{Finish, Job, Panel, Partitions, Settings};
use headwater::key::KeyGate;
use headwater::outcome::judge;
use headwater::sink::replay::Replay;
use headwater::table::Table;
use headwater::topic::Assignment;
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use headwater::worker::WorkerRun;
use headwater_operators::decide::OnForgotten;
use headwater_operators::retention::KeepMarkers;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

const TICK_MS: u64 = 20;
/// Turns after which a dataflow that is not at rest never will be.
const TURNS_MAX: usize = 3000;

/// Plays `case` in `order` on so many workers.
pub(crate) fn run(case: &Case, run: &Run, order: &[usize], workers: usize) -> Outcome {
    match Player::start(case, run, workers).and_then(|mut player| {
        let played = player.play(case, run, order);
        let outcome = player.end(played.is_ok());
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
    topics: MemoryTopics,
    clock: Arc<ManualClock>,
    job: Arc<Job>,
    target: Arc<Mutex<Target>>,
    turns: Vec<Turns>,
    partitions: [usize; 2],
    guards: Option<timely::communication::WorkerGuards<()>>,
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
        on_forgotten: OnForgotten::Quarantine,
        rule: case.rule,
        finish: Finish::EndRecords,
        decode: DecodeSettings::default(),
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
        let tables: Vec<Table> = case.tables().into_iter().map(table).collect();
        let target = Arc::<Mutex<Target>>::default();
        let clock = Arc::new(ManualClock::default());
        let job = job(tables, settings, partitions, &topics, &clock, &target);
        let (turns, guards) = spawn(&job, workers);
        Ok(Player {
            topics,
            clock,
            job,
            target,
            turns,
            partitions,
            guards: Some(guards),
        })
    }

    /// Ends the workers as they stand: nothing is flushed, nothing is said.
    fn kill(&mut self) {
        for turns in &self.turns {
            turns.give.send(false).expect("the worker is there");
        }
        drop(self.guards.take());
    }

    /// Starts the job again on its topics and target. There is no checkpoint: from the beginning.
    fn restart(&mut self, workers: usize) {
        self.kill();
        self.clock = Arc::default();
        let (tables, settings) = (self.job.tables.clone(), self.job.settings.clone());
        let (topics, target) = (&self.topics, &self.target);
        self.job = job(
            tables,
            settings,
            self.partitions,
            topics,
            &self.clock,
            target,
        );
        let (turns, guards) = spawn(&self.job, workers);
        (self.turns, self.guards) = (turns, Some(guards));
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
        for partition in 0..self.partitions[1] {
            self.topics
                .append("S", partition, OwnedRecord::end_of_snapshot("g1"));
        }
        for _ in 0..TURNS_MAX {
            if self.failed() || self.turn() {
                return Ok(());
            }
            // The targets are sampled on a thread of the job's own.
            std::thread::yield_now();
        }
        Ok(())
    }

    fn failed(&self) -> bool {
        self.job.failures.any()
    }

    /// Runs until everything at hand was read and is durable.
    fn rest(&mut self) -> Result<(), String> {
        let mut drained_at = None;
        for _ in 0..TURNS_MAX {
            if self.failed() {
                return Ok(());
            }
            self.turn();
            let shown = self.job.panel.shown();
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
        let mut over = true;
        for _ in 0..3 {
            over = true;
            for turns in &self.turns {
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
            "run_ttl_sweep" | "read_end_offset" | "note" | "topic_config" => {}
            "offsets" => {
                self.topics.trim_to(topic, at, number("start")?);
                self.topics.extend_to(topic, at, number("end")?);
            }
            "end_offset" => self.topics.extend_to(topic, at, number("value")?),
            "eof" => {}
            "txn_commit_marker" => self.topics.extend_to(topic, at, number("o")? + 1),
            "open_txn" => {
                self.topics.transaction(topic, at, true);
                self.record(step.get("record").ok_or("open_txn without a record")?)?;
            }
            "commit_txn" => self.topics.transaction(topic, at, false),
            "crash_before_checkpoint" => {
                // The case gives the records again that come again.
                self.topics = MemoryTopics::default();
                self.topics.create("M", self.partitions[0]);
                self.topics.create("S", self.partitions[1]);
                self.restart(self.turns.len());
            }
            // Without checkpoints no step is durable: the restart that follows reads all again.
            "kill_after_offset_commit_before_state_flush" => self.restart(self.turns.len()),
            "restart" => {
                let workers = step.get("workers").and_then(Value::as_u64);
                self.restart(workers.map_or(self.turns.len(), |count| count as usize));
            }
            "big_record" => {
                let greeting = "x".repeat(number("after_bytes")? as usize);
                let id = step.pointer("/k/id").cloned().unwrap_or_default();
                let source = json!({"name": "app", "ts_ms": 2000, "snapshot": "false",
                    "schema": "public", "table": "hello", "lsn": 200});
                let value = json!({"before": null, "after": {"id": id, "greeting": greeting},
                    "source": source, "op": "u", "ts_ms": 2005});
                self.record(&json!({"t": step["t"], "p": at, "k": step["k"], "v": value}))?;
            }
            other => return Err(format!("the verb `{other}` is not known or not built yet")),
        }
        Ok(())
    }

    fn record(&mut self, step: &Value) -> Result<(), String> {
        let topic = step
            .get("t")
            .and_then(Value::as_str)
            .ok_or("a record without a topic")?;
        if topic == "N" {
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
        let shown = self.job.panel.shown();
        let counts = &shown.counts;
        let (outcome, message) = match self.job.failures.first() {
            Some(error) => ("refused", error.to_string()),
            None => match judge(&shown, &self.job.settings) {
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
            ("reads_quarantined", counts.reads_quarantined),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
        for (kind, count) in &counts.ignored {
            counters.insert(format!("ignored_{kind}"), *count);
        }
        let target = self.target.lock().expect("not poisoned");
        let quarantined = target.quarantined.len() as u64;
        assert!(!played || quarantined == counts.reads_quarantined + counts.reads_late);
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

/// A job over topics in memory and a target in memory.
fn job(
    tables: Vec<Table>,
    settings: Settings,
    partitions: [usize; 2],
    topics: &MemoryTopics,
    clock: &Arc<ManualClock>,
    target: &Arc<Mutex<Target>>,
) -> Arc<Job> {
    let assigned = |topic: &str, count: usize| {
        let assignment = |partition| Assignment {
            topic: topic.to_owned(),
            partition,
            next_offset: 0,
        };
        (0..).take(count).map(assignment).collect()
    };
    let target = Arc::clone(target);
    Arc::new(Job {
        gate: Arc::new(KeyGate::new(&tables)),
        tables,
        partitions: Partitions {
            mutations: assigned("M", partitions[0]),
            snapshot: assigned("S", partitions[1]),
        },
        generation_id: "g1".to_owned(),
        topics: Arc::new(topics.clone()),
        outlet: Box::new(move |_, waker| {
            Box::new(TargetOutlet {
                target: Arc::clone(&target),
                ticket: 0,
                waker,
            })
        }),
        clock: clock.clone(),
        settings,
        secret: [7; 16],
        failures: Arc::new(Failures::default()),
        panel: Arc::new(Panel::default()),
        resumed: Resumed::default(),
        replay: Arc::new(Replay::none()),
        checkpoints: None,
        first_worker: 0,
    })
}

/// Starts the workers; each takes a step when it is given a turn, and ends when given `false`.
fn spawn(job: &Arc<Job>, workers: usize) -> (Vec<Turns>, timely::communication::WorkerGuards<()>) {
    let mut turns = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..workers {
        let (give, given) = channel::<bool>();
        let (take, taken) = channel::<bool>();
        turns.push(Turns { give, taken });
        ends.push(Some((given, take)));
    }
    let ends = Mutex::new(ends);
    let job = Arc::clone(job);
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
    (turns, guards)
}
