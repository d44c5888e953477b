//! The supervisor: starts a job on random workers, kills it at a random moment, starts it again,
//! while a history is appended; at last lets it come to its end.
//!
//! Invariant: a process that ends by itself without a fault, a kill or the end of the snapshot is a
//! finding. The next incarnation starts only when all processes of the last have ended.
//!
//! It cannot cut the power: what the system has taken of a process it will still write.

use crate::child::{Children, Ended, Start};
use crate::history::{self, Shape};
use crate::manifest;
use crate::points::POINTS;
use crate::random::Random;
use crate::report::Tally;
use crate::scenario::{Scenario, Settings, Target, Verdict};
use crate::watcher::Watcher;
use crate::writers::Writers;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time from a kill or fault to the end of all processes.
const SOON: Duration = Duration::from_secs(20);

/// When an incarnation is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Some time after its start.
    After(Duration),
    /// Some time after so many manifests, the claim among them, have been seen.
    AfterManifest(u64, Duration),
    /// Some time after something has changed in the store.
    InStore(Duration),
}

/// One incarnation.
#[derive(Clone, Debug)]
struct Plan {
    start: Start,
    moment: Moment,
    /// Its name in the report.
    kind: &'static str,
    /// Which process is killed; all if none.
    victim: Option<usize>,
}

/// A random scenario.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) kills: u64,
    pub(crate) plant: Option<&'static str>,
}

struct Supervisor<'a> {
    scenario: Scenario<'a>,
    writers: Writers,
    random: Random,
    processes: usize,
    plant: Option<&'static str>,
    tally: Tally,
}

fn settings(random: &mut Random) -> (Settings, usize) {
    let target = random.pick(&[Target::Sqlite, Target::Jsonl, Target::Jsonl]);
    let mut settings = Settings::new(target);
    settings.batch_rows_max = random.pick(&[1, 1, 20, 10_000]);
    if target == Target::Sqlite {
        settings.batch_rows_max = random.pick(&[50, 1_000, 10_000]);
    }
    settings.tick_ms = random.pick(&[2, 10, 20]);
    settings.inflight_bytes_max = random.pick(&[16 << 10, 256 << 10, 64 << 20]);
    if random.percent(30) {
        settings.more = "[retention]\nkeep_markers = \"ttl\"\nttl = \"1h\"\n".to_owned();
    }
    let processes = match target {
        Target::Sqlite => 1,
        Target::Jsonl => random.pick(&[1, 2, 2]),
    };
    (settings, processes)
}

/// Runs a scenario.
pub(crate) fn run(run: &Run) -> (Verdict, Tally) {
    let mut random = Random::new(run.seed);
    let shape = Shape {
        keys: 1_000 + random.below(6_000) as u32,
        changes: 500 * run.kills.clamp(5, 60),
        mutation_partitions: 1 + random.below(4) as u32,
        snapshot_partitions: 1 + random.below(3) as u32,
    };
    let history = Arc::new(history::random(random.next(), shape));
    let (settings, processes) = settings(&mut random);
    let scenario = Scenario::new(&history, &settings);
    let writers = Writers::start(scenario.path(), &history, random.next());
    let mut supervisor = Supervisor {
        scenario,
        writers,
        random,
        processes,
        plant: run.plant,
        tally: Tally::default(),
    };
    let sqlite = settings.target == Target::Sqlite;
    let watcher = sqlite.then(|| Watcher::start(supervisor.scenario.path(), &history));
    let result = supervisor.all(run.kills);
    let back = watcher.map(Watcher::end).unwrap_or_default();
    supervisor.tally.gone_back = back.len() as u64;
    let verdict = Verdict {
        back,
        trouble: result.err(),
        ..supervisor.scenario.verdict()
    };
    supervisor.tell(&verdict);
    if !verdict.clean() && run.plant.is_none() {
        // Kept for whoever looks into it.
        supervisor.scenario.folder.disable_cleanup(true);
        let folder = supervisor.scenario.path().display();
        eprintln!(
            "torture seed {}: {settings:?} {shape:?} in {folder}",
            run.seed
        );
    }
    (verdict, supervisor.tally)
}

impl Supervisor<'_> {
    /// Kills, and the runs to the end. The last kills come when all is appended.
    fn all(&mut self, kills: u64) -> Result<(), String> {
        let end = self.scenario.history.end;
        let late = kills / 8;
        let early = kills - late;
        let mut killed = 0;
        while killed < early {
            let share = end / (early + 1);
            let rate = 1 + share / (50 + self.random.below(1_500));
            self.writers.advance(share * (killed + 1), rate);
            self.round(false)?;
            killed += 1;
        }
        self.writers.advance(end, end / 1_000);
        // A round may come to its good end instead of being killed.
        let mut rounds = 0;
        while self.tally.killed() < kills && rounds < 3 * late {
            self.round(true)?;
            rounds += 1;
        }
        while self.writers.now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        // To the end; and once more, when there is nothing left to do.
        for _ in 0..2 {
            let start = self.start(true);
            let ended = self.scenario.once(&start)?;
            self.tally.end(&ended);
            self.checked()?;
        }
        Ok(())
    }

    /// Any number of workers.
    fn start(&mut self, once: bool) -> Start {
        let workers = 1 + self.random.below(if self.processes > 1 { 2 } else { 4 }) as usize;
        // A cluster may come back as one process, and the other way round.
        let processes = match self.processes {
            1 => 1,
            _ if self.random.percent(25) => 1,
            processes => processes,
        };
        let interval = self.random.pick(&[50, 100, 200, 500, 1_000]);
        let mut arguments = vec![format!("--set=checkpoint.interval={interval}ms")];
        if self.random.percent(20) {
            let reads = self.random.pick(&[500, 3_000]);
            arguments.push(format!("--set=limits.reads_per_second_max={reads}"));
        }
        Start {
            processes,
            workers,
            once,
            arguments,
            fault: None,
            plant: self.plant.map(str::to_owned),
        }
    }

    fn plan(&mut self, once: bool) -> Plan {
        let mut start = self.start(once);
        let random = &mut self.random;
        let ms = |ms: f64| Duration::from_micros((ms * 1_000.0) as u64);
        let (kind, moment) = match random.below(100) {
            0..15 => ("start_up", Moment::After(ms(random.exponential(25.0)))),
            15..50 => ("random", Moment::After(ms(random.exponential(900.0)))),
            50..60 => (
                "late",
                Moment::After(ms(1_000.0 + random.exponential(600.0))),
            ),
            60..80 => {
                let after = ms(random.exponential(8.0));
                let count = 1 + random.below(4);
                ("after_manifest", Moment::AfterManifest(count, after))
            }
            _ => ("in_store", Moment::InStore(ms(random.exponential(2.0)))),
        };
        let some = random.below(start.processes as u64) as usize;
        let one = start.processes > 1 && random.percent(40);
        if !POINTS.is_empty() && random.percent(30) {
            start.fault = Some((some, fault(random)));
        }
        Plan {
            start,
            moment,
            kind,
            victim: one.then_some(some),
        }
    }

    /// One incarnation, to its violent end.
    fn round(&mut self, once: bool) -> Result<(), String> {
        let plan = self.plan(once);
        let mut children = self.scenario.start(&plan.start)?;
        self.tally.restarts += 1;
        let killed = wait(&mut children, plan.moment, self.scenario.path());
        if killed {
            match plan.victim {
                Some(victim) => children.kill(victim),
                None => children.kill_all(),
            }
            let all = if plan.victim.is_some() { "one" } else { "all" };
            self.tally.kill(&format!("{all}:{}", plan.kind));
        }
        let ended = children.end_others(SOON);
        self.scenario.audit();
        let ended = ended.ok_or_else(|| format!("{plan:?} did not end\n{}", children.said()))?;
        self.judge(&plan, killed, &ended)?;
        self.checked()
    }

    /// Whether every process ended as it may have.
    fn judge(&mut self, plan: &Plan, killed: bool, ended: &[Ended]) -> Result<(), String> {
        let faulty = plan.start.fault.is_some();
        let aborted = ended.iter().any(|ended| ended.signal == Some(6));
        if !killed && aborted {
            self.tally.kill("fault:abort");
        } else if !killed && faulty {
            self.tally.kill("fault:error");
        }
        for ended in ended {
            let fine = match (ended.code, ended.signal) {
                (None, Some(9)) => ended.killed,
                (None, Some(6)) => faulty,
                // Lost a peer, or what was planted.
                (Some(1), None) => faulty || plan.victim.is_some() || ended_late(killed, ended),
                (Some(0), None) => plan.start.once,
                _ => false,
            };
            if !fine || ended.err.contains("PANIC") {
                return Err(format!("{plan:?}, killed {killed}: {}", ended.words()));
            }
        }
        Ok(())
    }

    /// A breach ends the scenario at once: what follows would only hide it.
    fn checked(&self) -> Result<(), String> {
        match self.scenario.auditor.breaches.is_empty() {
            true => Ok(()),
            false => Err("the auditor has found breaches".to_owned()),
        }
    }

    fn tell(&mut self, verdict: &Verdict) {
        let scenario = &self.scenario;
        let tally = &mut self.tally;
        let newest = manifest::numbers(scenario.path()).last().copied();
        let claims = manifest::incarnation(scenario.path());
        tally.checkpoints = newest.unwrap_or(0).saturating_sub(claims);
        tally.changes = scenario.history.changes();
        tally.reads = scenario.history.reads();
        tally.reads_emitted = scenario.auditor.reads.len() as u64;
        tally.lines = scenario.auditor.lines;
        tally.differing_rows = verdict.differences.rows();
        tally.breaches = verdict.breaches.len() as u64;
    }
}

/// Both processes of a cluster are killed one after the other: the second may notice the first.
fn ended_late(killed: bool, ended: &Ended) -> bool {
    killed && ended.err.contains("lost a peer")
}

/// A fault for one process: a point, how, and at which visit.
fn fault(random: &mut Random) -> String {
    let (point, store) = random.pick(POINTS);
    let how = if store {
        random.pick(&["error", "abort", "full", "short"])
    } else {
        random.pick(&["error", "abort"])
    };
    let visit = 1 + random.exponential(3.0) as u64;
    format!("{point}={how}@{visit}")
}

/// Waits for the moment; `false` when a process has ended before it.
fn wait(children: &mut Children, moment: Moment, folder: &Path) -> bool {
    let started = Instant::now();
    let newest = || manifest::numbers(folder).last().copied().unwrap_or(0);
    let manifests = newest();
    let store = listing(&folder.join(manifest::STORE));
    // A moment that does not come is given up.
    let limit = Duration::from_millis(2_500);
    let mut due = match moment {
        Moment::After(time) => Some(time),
        Moment::AfterManifest(..) | Moment::InStore(_) => None,
    };
    loop {
        let elapsed = started.elapsed();
        match moment {
            Moment::AfterManifest(count, after) if due.is_none() => {
                let seen = newest() >= manifests + count;
                due = seen.then_some(elapsed + after);
            }
            // The first 100 ms are the start, which writes to the store too.
            Moment::InStore(after) if due.is_none() && elapsed.as_millis() > 100 => {
                let new = listing(&folder.join(manifest::STORE)) != store;
                due = new.then_some(elapsed + after);
            }
            _ => (),
        }
        if elapsed >= due.unwrap_or(limit).min(limit) {
            return true;
        }
        if children.any_ended() {
            return false;
        }
        let left = due.map_or(Duration::from_micros(500), |due| due - elapsed);
        std::thread::sleep(left.min(Duration::from_millis(2)));
    }
}

/// Names and lengths of everything in a folder.
fn listing(folder: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for entry in entries.flatten() {
        // What was seen may be gone a moment later.
        let Ok(meta) = entry.metadata() else {
            continue;
        };
        if meta.is_dir() {
            all.extend(listing(&entry.path()));
        } else {
            all.push((entry.path(), meta.len()));
        }
    }
    all.sort();
    all
}
