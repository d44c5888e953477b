//! Torture: the real binary on `file:` topics is killed at any instant, started again on another
//! number of workers, and must end in the source's rows, with no READ emitted against the rule.
//!
//! `HEADWATER_TORTURE_KILLS` (200) says how often, `HEADWATER_TORTURE_SEED` repeats a run's
//! choices; both are printed. A harness that finds nothing proves nothing: the planted bugs must be
//! found.
//!
//! It cannot cut the power or the network, and it runs on one machine.

mod auditor;
mod child;
mod fencing;
mod history;
mod lanes;
mod manifest;
mod oracle;
mod outputs;
mod planted;
mod points;
mod random;
mod report;
mod scenario;
mod supervisor;
mod visits;
mod watcher;
mod writers;

use lanes::in_lanes;
use random::Random;
use report::Tally;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use supervisor::Run;

const KILLS_A_SCENARIO: u64 = 20;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn killed_at_any_instant_it_ends_in_the_sources_rows() {
    let started = Instant::now();
    let kills = number("HEADWATER_TORTURE_KILLS").unwrap_or(200);
    let seed = number("HEADWATER_TORTURE_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| now.as_millis() as u64)
    });
    println!("HEADWATER_TORTURE_SEED={seed} HEADWATER_TORTURE_KILLS={kills}");
    let mut random = Random::new(seed);
    let scenarios = kills.div_ceil(KILLS_A_SCENARIO).max(1);
    let run = |number: u64| Run {
        seed: random.next(),
        kills: kills / scenarios + u64::from(number < kills % scenarios),
        plant: None,
    };
    let runs: Vec<Run> = (0..scenarios).map(run).collect();
    let (mut tally, mut findings) = (Tally::default(), Vec::new());
    for (run, (verdict, one)) in in_lanes(&runs, |run| (run.clone(), supervisor::run(run))) {
        tally.add(&one);
        if !verdict.clean() {
            findings.push(format!("{run:?}: {}", verdict.words()));
        }
    }
    let report = tally.json(seed, runs.len(), started.elapsed());
    println!("{report}");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("torture.json");
    std::fs::write(path, report.to_string()).expect("the report is written");
    assert!(
        findings.is_empty(),
        "HEADWATER_TORTURE_SEED={seed}\n{}",
        findings.join("\n")
    );
}
