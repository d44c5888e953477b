//! Plays a case: appends its records, moves the clock a tick between steps, lets the dataflow run
//! to rest, and reads off how the run ended.
//!
//! The workers are threads in lock step (`live.rs`): each turn is given by the runner, so a
//! schedule is the same every time.

use crate::asked;
use crate::case::{Case, Outcome, Run, partition};
use crate::durable::{Claims, Durable, Ground};
use crate::live::{Live, Since};
use crate::notices::Notices;
use crate::preflight;
use crate::settings::settings;
use crate::target::{Target, TargetOutlet};
use headwater::checkpoint::manifest::PartitionState;
use headwater::clock::{Continued, ManualClock};
use headwater::error::Error;
use headwater::failure::Failures;
use headwater::generation::Stage;
use headwater::job::{Job, Panel, Settings, Shown};
use headwater::outcome::judge;
use headwater::sink::replay::Replay;
use headwater::table::Table;
use headwater::topic::Topics;
use headwater::topic::growth::growth_error;
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use headwater::topic::names::TopicNames;
use headwater_operators::time::Clock;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TICK_MS: u64 = 20;
/// Turns after which a dataflow that is not at rest never will be.
const TURNS_MAX: usize = 3000;
/// How long threads of the job (checkpoints) are waited for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// When a case with notifications is over, the job gets so many times so much job time, with a
/// checkpoint each time, to be ready.
const SETTLE_TIMES: usize = 12;
const SETTLE_MS: u64 = 10_000;
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

struct Player {
    tables: Vec<Table>,
    settings: Settings,
    topics: MemoryTopics,
    notices: Option<Notices>,
    partitions: [usize; 2],
    /// Offsets below the end of a log whose records come at a later step, by topic and partition.
    awaited: BTreeMap<(String, usize), BTreeSet<u64>>,
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

impl Player {
    fn start(case: &Case, run: &Run, workers: usize) -> Result<Player, String> {
        let (settings, key) = settings(case, run, TICK_MS)?;
        let topics = MemoryTopics::default();
        let partitions = case.partitions();
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
            notices: Notices::of(case, partitions[2]),
            partitions: [partitions[0], partitions[1]],
            awaited: BTreeMap::new(),
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
            wall: self.clock.clone(),
            sources: self
                .notices
                .as_ref()
                .map(Notices::sources)
                .unwrap_or_default(),
            witness: self.notices.as_mut().map(Notices::start),
            highs: None,
        });
        self.live = Some(Live::spawn(job, self.workers));
    }

    /// Ends the workers as they stand: nothing is flushed, nothing is said.
    fn kill(&mut self) {
        if let Some(live) = self.live.take() {
            live.end(|| self.claims.kill());
            self.topics.readers_gone();
            if let Some(notices) = &mut self.notices {
                notices.kill();
            }
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
        let played = order.iter().filter(|index| !run.skip.contains(index));
        let steps: Vec<&Value> = played.map(|index| &case.steps[*index]).collect();
        for (index, step) in steps.iter().enumerate() {
            match step.get("do").and_then(Value::as_str) {
                Some("begin_batch") => batch = true,
                Some("end_batch") => batch = false,
                Some(verb) => {
                    self.await_records(step, &steps[index..]);
                    self.verb(verb, step)?;
                }
                None => self.record(step)?,
            }
            if !batch {
                self.rest()?;
            }
        }
        match &self.notices {
            // The snapshot has ended when they say so.
            Some(_) => self.settle()?,
            None if !self.ended => self.end_snapshot(),
            None => {}
        }
        self.finish();
        Ok(())
    }

    /// Records that come later, at offsets that the log is about to hold, are on their way: nothing
    /// from them on is given to readers before.
    fn await_records(&mut self, step: &Value, later: &[&Value]) {
        let (Some(topic), Some(high)) = (step["topic"].as_str(), step["value"].as_u64()) else {
            return;
        };
        if step["do"] != "end_offset" {
            return;
        }
        let at = partition(step);
        let ranges = self.log(topic).ranges(topic).unwrap_or_default();
        let held = ranges.get(at).map_or(0, |range| range.high);
        let same = |record: &&&Value| record["t"] == topic && partition(record) == at;
        let offsets = later.iter().filter(same).filter_map(|r| r["o"].as_u64());
        let awaited: BTreeSet<u64> = offsets.filter(|o| (held..high).contains(o)).collect();
        if let Some(first) = awaited.first() {
            self.log(topic).hold(topic, at, Some(*first));
            self.awaited.insert((topic.to_owned(), at), awaited);
        }
    }

    /// The topics of which this is one.
    fn log(&self, topic: &str) -> &MemoryTopics {
        match &self.notices {
            Some(notices) if topic == crate::notices::TOPIC => &notices.topics,
            _ => &self.topics,
        }
    }

    /// Lets time pass, with a checkpoint now and then, until the job is ready or will never be, and
    /// stops it.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..SETTLE_TIMES {
            if self.failed() || self.live.is_none() || ready(&self.panel.shown()) {
                break;
            }
            self.clock.advance(SETTLE_MS);
            self.rest()?;
            self.save()?;
            self.rest()?;
        }
        self.panel.stop();
        Ok(())
    }

    /// Takes a checkpoint.
    fn save(&mut self) -> Result<(), String> {
        self.panel.save();
        let saved = |player: &Player| player.panel.shown().saved.map(|s| s.number);
        let before = saved(self);
        self.until("the checkpoint", |player| saved(player) > before)?;
        if saved(self).is_none() && !self.failed() {
            return Err("the job ended without a checkpoint".to_owned());
        }
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
            if let Some(notices) = &self.notices {
                notices.settle()?;
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
        live.turn()
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
                let log = self.log(topic);
                log.trim_to(topic, at, number("start")?);
                if self.live.is_none() {
                    log.cut_to(topic, at, number("end")?);
                }
                log.extend_to(topic, at, number("end")?);
            }
            "add_partitions" if topic == "M" => {
                let (known, count) = (self.partitions[0] as u32, number("count")? as u32);
                self.topics.create(topic, count as usize);
                // What the job's watch says at its next look.
                let grown = growth_error(topic, known, count);
                grown
                    .into_iter()
                    .for_each(|error| self.failures.report(error));
            }
            "end_offset" => self.log(topic).extend_to(topic, at, number("value")?),
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
                self.save()?;
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
            // Of the runner's own tests alone, too.
            "finish_generation" => {
                let answer = self.panel.desk.ask(asked::finish(step)?);
                self.until("the answer", |_| {
                    answer.try_recv().is_ok_and(|of| of.is_ok())
                })?;
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
        let text = |raw: &str, name: &str| match (step.get(raw), step.get(name)) {
            (Some(Value::String(text)), _) => Some(text.clone()),
            (_, None | Some(Value::Null)) => None,
            (_, Some(value)) => Some(value.to_string()),
        };
        let (key, value) = (text("kraw", "k"), text("vraw", "v"));
        let mut record = OwnedRecord::new(key.as_deref(), value.as_deref());
        let run_id = step.pointer("/h/runId").and_then(Value::as_str);
        record.run_id = run_id.map(|id| id.as_bytes().to_vec());
        let (at, offset) = (partition(step), step.get("o").and_then(Value::as_u64));
        let log = self.log(topic).clone();
        let awaited = self.awaited.get_mut(&(topic.to_owned(), at));
        if let Some((offset, awaited)) = offset.zip(awaited)
            && awaited.remove(&offset)
        {
            log.put(topic, at, offset, record);
            log.hold(topic, at, awaited.first().copied());
            return Ok(());
        }
        if let Some(offset) = offset {
            log.extend_to(topic, at, offset);
        }
        log.append(topic, at, record);
        Ok(())
    }

    fn end(&mut self, played: bool) -> Outcome {
        self.kill();
        let shown = self.panel.shown();
        let counts = &shown.counts;
        let (outcome, message) = match self.failures.first() {
            Some(error) => ("refused", error.to_string()),
            None => match judge(&shown, &self.settings) {
                Ok(_) if self.notices.is_some() && !ready(&shown) => ("not_ready", waits(&shown)),
                Ok(_) => ("ready", String::new()),
                Err(error) if counts.unsafe_reads() > 0 => ("unsafe", error.to_string()),
                Err(error) => ("not_ready", format!("{error}\n{}", waits(&shown))),
            },
        };
        let mut counters: BTreeMap<String, u64> = [
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

/// Whether every generation is, by a durable manifest.
fn ready(shown: &Shown) -> bool {
    let mut all = shown.generations.iter().map(|of| of.state.stage);
    !shown.generations.is_empty() && all.all(|stage| stage == Stage::Ready)
}

/// What the status says that generations wait for.
fn waits(shown: &Shown) -> String {
    let waits = shown.generations.iter().filter_map(|of| of.waits.as_ref());
    waits.fold(String::new(), |text, wait| text + &wait.text + "\n")
}

fn durable_offsets(durable: &Option<Durable>) -> Vec<PartitionState> {
    durable.as_ref().map(Durable::offsets).unwrap_or_default()
}
