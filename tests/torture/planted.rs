//! Planted bugs that the harness must find; the same scenario without the bug must be clean.
//!
//! It cannot prove that every bug is found, only that these kinds are.

use crate::auditor::Breach;
use crate::child::Start;
use crate::history::{Shape, random};
use crate::scenario::{Scenario, Settings, Target, Verdict};
use crate::writers::Writers;

/// A job on topics that are whole, from beginning to end, without a kill.
fn whole(target: Target, without_markers: bool) -> Verdict {
    let shape = Shape {
        keys: 500,
        changes: 5_000,
        mutation_partitions: 3,
        snapshot_partitions: 2,
    };
    let history = random(11, shape);
    let mut settings = Settings::new(target);
    if target == Target::Jsonl {
        settings.batch_rows_max = 1;
    }
    let mut scenario = Scenario::new(&history, &settings);
    Writers::backlog(scenario.path(), &history, 0, history.end + 1);
    let mut start = Start {
        processes: 1,
        workers: 2,
        once: true,
        ..Start::default()
    };
    if without_markers {
        start.arguments.push("--without-markers".to_owned());
    }
    match scenario.once(&start) {
        Ok(_) => scenario.verdict(),
        Err(words) => Verdict::trouble(words),
    }
}

#[test]
fn without_markers_it_is_found_sick_by_the_oracle() {
    let verdict = whole(Target::Sqlite, false);
    assert!(verdict.clean(), "{}", verdict.words());
    let sick = whole(Target::Sqlite, true);
    assert!(!sick.differences.stale.is_empty(), "{}", sick.words());
    assert!(!sick.differences.resurrected.is_empty(), "{}", sick.words());
}

#[test]
fn without_markers_it_is_found_sick_by_the_auditor() {
    let verdict = whole(Target::Jsonl, false);
    assert!(verdict.clean(), "{}", verdict.words());
    let sick = whole(Target::Jsonl, true);
    assert!(sick.has(Breach::Stale), "{}", sick.words());
}
