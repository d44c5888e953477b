//! Every named point between two durable steps is visited, in error and in abort mode: the job
//! survives or ends with a message that names the point, and a restart ends in the right rows.
//!
//! One process writes SQLite, two write JSON lines; all go on from a killed run with half of the
//! history. A visit is proved by what the process says of it.
//!
//! It cannot reach the points of other targets and of stores in the cloud: the tests that have
//! those services do.

use crate::child::{Ended, Start};
use crate::history::{History, Shape, random};
use crate::lanes::in_lanes;
use crate::manifest;
use crate::points::POINTS;
use crate::scenario::{Scenario, Settings, Target};
use crate::writers::Writers;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);
const SIGABRT: i32 = 6;

/// A point, and how it is visited.
#[derive(Clone, Copy, Debug)]
struct Visit {
    target: Target,
    /// Which process has the fault.
    process: usize,
    point: &'static str,
    action: &'static str,
    /// The visit at which it happens.
    at: u64,
    /// Whether a fault there ends the run: nothing can be done again before the workers run.
    ends: bool,
}

/// The places where a point is passed: the target (and so the number of processes) and the process.
fn places(point: &str) -> &'static [(Target, usize)] {
    const SQLITE: (Target, usize) = (Target::Sqlite, 0);
    const FIRST: (Target, usize) = (Target::Jsonl, 0);
    const SECOND: (Target, usize) = (Target::Jsonl, 1);
    match point {
        "claim.announce.before" => &[FIRST],
        "store.rename" | "store.delete" => &[SQLITE, FIRST],
        // The others write no more than their runs.
        "checkpoint.run.before" | "checkpoint.run.after" => &[SQLITE, SECOND],
        _ => match point.split('.').next() {
            Some("target" | "sqlite") => &[SQLITE],
            Some("store") => &[SQLITE, SECOND],
            _ => &[SQLITE, FIRST],
        },
    }
}

/// At which visits, and whether a fault there ends the run. The store is written for the claim and
/// the lease, then (of several processes) for the announcement, then for checkpoints.
fn moments(point: &str, target: Target) -> Vec<(u64, bool)> {
    let ends = point.starts_with("claim.") || point.starts_with("target.claim.");
    match (point, target) {
        ("store.delete", Target::Sqlite) => vec![(1, false)],
        // What an earlier start has announced.
        ("store.delete", _) => vec![(1, true)],
        // The last one gives the lease back: whoever comes next would only wait longer.
        ("store.rename", Target::Sqlite) => vec![(1, true), (2, false)],
        ("store.rename", _) => vec![(2, true)],
        ("store.link", Target::Sqlite) => vec![(1, true), (2, false)],
        (point, Target::Sqlite) if point.starts_with("store.") => vec![(1, true), (3, false)],
        _ => vec![(1, ends)],
    }
}

/// All visits.
fn visits() -> Vec<Visit> {
    let mut visits = Vec::new();
    for (point, _) in POINTS {
        let actions: &[&str] = match *point {
            "store.write" => &["error", "abort", "full", "short"],
            _ => &["error", "abort"],
        };
        for (target, process) in places(point).iter().copied() {
            for (at, ends) in moments(point, target) {
                visits.extend(actions.iter().map(|action| Visit {
                    target,
                    process,
                    point,
                    action,
                    at,
                    ends,
                }));
            }
        }
    }
    visits
}

impl Visit {
    fn start(&self) -> Start {
        let mut start = start(self.target);
        start.once = true;
        let Visit {
            point, action, at, ..
        } = self;
        start.fault = Some((self.process, format!("{point}={action}@{at}")));
        start
    }

    /// Whether the processes ended as they must.
    fn judge(&self, ended: &[Ended]) -> Result<(), String> {
        let faulty = &ended[self.process];
        let Visit { point, action, .. } = self;
        let proof = format!("fault: {point}: {action}\n");
        if !faulty.err.contains(&proof) {
            return Err("the point was not visited".to_owned());
        }
        if ended.iter().any(|ended| ended.err.contains("PANIC")) {
            return Err("a process panicked".to_owned());
        }
        let message = match *action {
            "full" => "The disk is full.",
            "short" => "bytes were taken",
            _ => point,
        };
        // What the fault itself has said is no message.
        let said = faulty.err.replace(&proof, "").contains(message);
        let fine = match (*action, self.ends) {
            ("abort", _) => faulty.signal == Some(SIGABRT),
            (_, true) => faulty.code == Some(1) && said,
            (_, false) => ended.iter().all(|ended| ended.code == Some(0)),
        };
        match fine {
            true => Ok(()),
            false => Err("it ended otherwise than it must".to_owned()),
        }
    }

    /// In the copy of a killed run: the visit, then a restart to the end.
    fn make(&self, killed: &Scenario<'_>) -> Result<(), String> {
        let mut scenario = killed.copy();
        let mut children = scenario.start(&self.start())?;
        let until = Instant::now() + LIMIT;
        let dies = self.ends || self.action == "abort";
        while dies && !children.any_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let ended = if dies {
            children.end_or_kill(Duration::from_millis(500))
        } else {
            children.end(LIMIT)
        };
        scenario.audit();
        let ended = ended.ok_or_else(|| format!("it did not end\n{}", children.said()))?;
        let judged = self.judge(&ended);
        judged.map_err(|words| {
            let ended: Vec<String> = ended.iter().map(Ended::words).collect();
            format!("{words}\n{}", ended.join("\n"))
        })?;
        // On another number of workers; and two processes come back as one, or as two.
        let mut again = start(self.target);
        again.once = true;
        again.processes = if dies { 1 } else { again.processes };
        again.workers = 3 - again.processes;
        scenario.once(&again)?;
        let verdict = scenario.verdict();
        match verdict.clean() {
            true => Ok(()),
            false => Err(verdict.words()),
        }
    }
}

fn start(target: Target) -> Start {
    let processes = match target {
        Target::Sqlite => 1,
        Target::Jsonl => 2,
    };
    let sets = ["checkpoint.interval=20ms", "checkpoint.kept=1"];
    Start {
        processes,
        workers: 1,
        arguments: sets.map(|set| format!("--set={set}")).into(),
        ..Start::default()
    }
}

/// A run that was killed amid the history, all of which is in the topics now.
fn killed(history: &History, target: Target) -> Result<Scenario<'_>, String> {
    let mut scenario = Scenario::new(history, &Settings::new(target));
    let path = scenario.path().to_path_buf();
    Writers::backlog(&path, history, 0, history.end / 2);
    let mut children = scenario.start(&start(target))?;
    let until = Instant::now() + LIMIT;
    while !(manifest::covers_some(&path) && manifest::numbers(&path).last() >= Some(&3)) {
        if children.any_ended() || Instant::now() > until {
            return Err(format!("it did not come so far\n{}", children.said()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    children.kill_all();
    children.end(LIMIT).ok_or("a killed process lives")?;
    scenario.audit();
    Writers::backlog(&path, history, history.end / 2, history.end + 1);
    Ok(scenario)
}

#[test]
fn a_fault_between_any_two_durable_steps_does_no_harm() {
    let shape = Shape {
        keys: 300,
        changes: 3_000,
        mutation_partitions: 2,
        snapshot_partitions: 1,
    };
    let history = random(5, shape);
    let started = [Target::Sqlite, Target::Jsonl].map(|target| killed(&history, target));
    let [sqlite, jsonl] = started.map(|scenario| scenario.expect("it is killed half way"));
    let visits = visits();
    let findings = in_lanes(&visits, |visit| {
        let killed = match visit.target {
            Target::Sqlite => &sqlite,
            Target::Jsonl => &jsonl,
        };
        let began = Instant::now();
        let made = visit.make(killed);
        println!("{:?} {visit:?}", began.elapsed());
        made.err().map(|words| format!("{visit:?}: {words}"))
    });
    let findings: Vec<String> = findings.into_iter().flatten().collect();
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}
