//! Planted bugs that the harness must find; the same scenario without the bug must be clean.
//!
//! Each scenario is directed: changes first, a kill at the moment that counts, then READs that are
//! all older than the changes, and a slow last run, so that READs and what is read again meet.
//!
//! It cannot prove that every bug is found, only that these kinds are.

use crate::auditor::Breach;
use crate::child::{Children, Start};
use crate::history::{Builder, History, Shape, random};
use crate::manifest;
use crate::outputs;
use crate::random::Random;
use crate::scenario::{Scenario, Settings, Target, Verdict};
use crate::watcher::Watcher;
use crate::writers::Writers;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A planted bug may need a race to be seen: so often it is tried.
const ATTEMPTS: u64 = 8;
const LIMIT: Duration = Duration::from_secs(60);

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
    let mut start = started(None, 2, &[]);
    start.once = true;
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

/// How an incarnation is started, with settings that differ from the file.
fn started(plant: Option<&str>, workers: usize, sets: &[&str]) -> Start {
    Start {
        processes: 1,
        workers,
        arguments: sets.iter().map(|set| format!("--set={set}")).collect(),
        plant: plant.map(str::to_owned),
        ..Start::default()
    }
}

/// Few bytes in flight: READs and mutations come in small steps, one beside the other.
const SLOW: [&str; 3] = [
    "limits.inflight_bytes_max=16KiB",
    "limits.reads_inflight_bytes_max=8KiB",
    "checkpoint.interval=200ms",
];

/// Every key is written once in each pass, in another order each time; then all keys are read as
/// they were before.
fn passes(seed: u64, keys: u32, passes: u32) -> History {
    let mut random = Random::new(seed);
    let mut builder = Builder::new(seed, &vec![true; keys as usize], 2, 1);
    // READs of one due are appended by key.
    let due = u64::from(keys) * u64::from(passes) + 1;
    (0..keys).for_each(|key| builder.read(key, due));
    for _ in 0..passes {
        let mut order: Vec<u32> = (0..keys).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        order.into_iter().for_each(|key| builder.change(key, false));
    }
    builder.build()
}

/// Where the changes end and the READs begin.
fn changes_end(history: &History) -> u64 {
    history.changes() + 1
}

/// Waits until `done` says so; an incarnation that ends before is an error.
fn until(children: &mut Children, mut done: impl FnMut() -> bool) -> Result<(), String> {
    let limit = Instant::now() + LIMIT;
    while !done() {
        if children.any_ended() || Instant::now() > limit {
            return Err(format!("it did not come so far\n{}", children.said()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Offsets of mutations that the newest manifest covers.
fn covered(scenario: &Scenario<'_>) -> u64 {
    let offsets = manifest::newest(scenario.path(), scenario.history);
    offsets.mutations.iter().sum()
}

/// Kills an incarnation and audits it.
fn kill(scenario: &mut Scenario<'_>, mut children: Children) -> Result<(), String> {
    children.kill_all();
    children.end(LIMIT).ok_or("a killed process lives")?;
    scenario.audit();
    Ok(())
}

/// Appends the READs and runs to the end. An unsafe generation (code 4) is an end too.
fn finish(
    scenario: &mut Scenario<'_>,
    plant: Option<&str>,
    sets: &[&str],
) -> Result<Option<i32>, String> {
    let history = scenario.history;
    Writers::backlog(
        scenario.path(),
        history,
        changes_end(history),
        history.end + 1,
    );
    let mut start = started(plant, 2, sets);
    start.once = true;
    let ended = scenario.run_whole(&start)?;
    match ended[0].code {
        Some(0 | 4) => Ok(ended[0].code),
        _ => Err(ended[0].words()),
    }
}

/// Killed as soon as a manifest covers some of a backlog, and not all of it.
fn killed_in_a_backlog(plant: Option<&str>, history: &History, last: &[&str]) -> Verdict {
    let mut scenario = Scenario::new(history, &Settings::new(Target::Jsonl));
    Writers::backlog(scenario.path(), history, 0, changes_end(history));
    let mut go = || -> Result<(), String> {
        let start = started(plant, 2, &["checkpoint.interval=50ms"]);
        let mut children = scenario.start(&start)?;
        let path = scenario.path().to_path_buf();
        until(&mut children, || manifest::covers_some(&path))?;
        kill(&mut scenario, children)?;
        finish(&mut scenario, plant, last)?;
        Ok(())
    };
    match go() {
        Ok(()) => scenario.verdict(),
        Err(words) => Verdict::trouble(words),
    }
}

/// Runs a scenario clean, then with the bug until it is found.
fn is_found(
    bug: &str,
    run: impl Fn(Option<&str>, u64) -> Verdict,
    found: impl Fn(&Verdict) -> bool,
) {
    let clean = run(None, 1);
    assert!(clean.clean(), "without the bug: {}", clean.words());
    let mut last = String::new();
    for seed in 1..=ATTEMPTS {
        let verdict = run(Some(bug), seed);
        if found(&verdict) {
            println!(
                "{bug} is found at attempt {seed}: {}",
                verdict.differences.words()
            );
            return;
        }
        last = verdict.words();
    }
    panic!("{bug} is not found in {ATTEMPTS} attempts: {last}");
}

#[test]
fn offsets_saved_ahead_of_the_markers_are_found() {
    is_found(
        "offsets-ahead",
        |plant, seed| killed_in_a_backlog(plant, &passes(seed, 60_000, 1), &[]),
        |verdict| verdict.differences.rows() > 0 && verdict.has(Breach::Stale),
    );
}

/// The auditor alone can see it: the mutation that refreshed the marker is read again.
#[test]
fn markers_left_out_by_their_tick_are_found_by_the_auditor() {
    is_found(
        "markers-filtered",
        |plant, seed| killed_in_a_backlog(plant, &passes(seed, 3_000, 30), &SLOW),
        |verdict| verdict.has(Breach::Stale),
    );
}

/// Everything is forgotten before the first checkpoint; the READs come after it.
fn forgotten(plant: Option<&str>) -> (Verdict, Option<i32>) {
    let history = passes(3, 2_000, 1);
    let mut settings = Settings::new(Target::Jsonl);
    settings.more = "[retention]\nkeep_markers = \"ttl\"\nttl = \"100ms\"\n".to_owned();
    let mut scenario = Scenario::new(&history, &settings);
    Writers::backlog(scenario.path(), &history, 0, changes_end(&history));
    let mut go = || -> Result<Option<i32>, String> {
        let start = started(plant, 2, &["checkpoint.interval=1500ms"]);
        let mut children = scenario.start(&start)?;
        let path = scenario.path().to_path_buf();
        until(&mut children, || manifest::covers_some(&path))?;
        kill(&mut scenario, children)?;
        finish(&mut scenario, plant, &SLOW)
    };
    match go() {
        Ok(code) => (scenario.verdict(), code),
        Err(words) => (Verdict::trouble(words), None),
    }
}

#[test]
fn what_was_forgotten_taken_too_early_is_found() {
    let (clean, code) = forgotten(None);
    assert!(clean.clean(), "{}", clean.words());
    assert_eq!(code, Some(4), "the READs are refused, and nothing is stale");
    let (sick, _) = forgotten(Some("forgotten-at-f"));
    assert!(sick.has(Breach::Stale), "{}", sick.words());
    assert!(!sick.differences.stale.is_empty(), "{}", sick.words());
}

/// The target is ahead of the newest manifest when the job is killed; then READs come before what
/// is read again.
fn ahead_of_the_manifest(plant: Option<&str>, seed: u64) -> Verdict {
    let history = passes(seed, 5_000, 1);
    let mut scenario = Scenario::new(&history, &Settings::new(Target::Sqlite));
    let (some, all) = (100, changes_end(&history));
    Writers::backlog(scenario.path(), &history, 0, some);
    let mut go = || -> Result<(), String> {
        let mut children = scenario.start(&started(plant, 2, &["checkpoint.interval=50ms"]))?;
        let path = scenario.path().to_path_buf();
        until(&mut children, || manifest::covers_some(&path))?;
        kill(&mut scenario, children)?;
        let before = covered(&scenario);
        Writers::backlog(&path, &history, some, all);
        let mut children = scenario.start(&started(plant, 1, &["checkpoint.interval=1h"]))?;
        until(&mut children, || outputs::sqlite(&path).len() == 5_000)?;
        kill(&mut scenario, children)?;
        if covered(&scenario) != before {
            return Err("a checkpoint was made that was not due".to_owned());
        }
        finish(&mut scenario, plant, &SLOW).map(|_| ())
    };
    match go() {
        Ok(()) => scenario.verdict(),
        Err(words) => Verdict::trouble(words),
    }
}

/// What is read again is the only thing that knows of some mutations: skipped, their keys have no
/// marker.
#[test]
fn progress_used_to_skip_is_found() {
    is_found("progress-skips", ahead_of_the_manifest, |verdict| {
        !verdict.differences.stale.is_empty()
    });
}

/// Keys without READs, each written again and again; the job is killed when the target is far ahead
/// of the manifest, and a reader looks on while it is read again with these settings. What the
/// reader saw go back, and what the job said.
fn read_again(sets: &[&str]) -> Result<(Verdict, String), String> {
    let (keys, some) = (300, 100);
    let mut builder = Builder::new(7, &vec![true; keys as usize], 2, 1);
    for _ in 0..20 {
        (0..keys).for_each(|key| builder.change(key, false));
    }
    let history = Arc::new(builder.build());
    let mut scenario = Scenario::new(&history, &Settings::new(Target::Sqlite));
    let path = scenario.path().to_path_buf();
    Writers::backlog(&path, &history, 0, some);
    let mut children = scenario.start(&started(None, 2, &["checkpoint.interval=50ms"]))?;
    until(&mut children, || manifest::covers_some(&path))?;
    kill(&mut scenario, children)?;
    Writers::backlog(&path, &history, some, history.end + 1);
    let mut children = scenario.start(&started(None, 1, &["checkpoint.interval=1h"]))?;
    let truth = history.truth();
    until(&mut children, || outputs::sqlite(&path) == truth)?;
    kill(&mut scenario, children)?;
    let watcher = Watcher::start(&path, &history);
    let mut start = started(None, 2, sets);
    start.once = true;
    let ended = scenario.once(&start)?;
    let verdict = Verdict {
        back: watcher.end(),
        ..scenario.verdict()
    };
    Ok((verdict, ended[0].err.clone()))
}

/// No bug need be planted: it is the documented behaviour of a replay that cannot be held.
#[test]
fn a_replay_that_is_too_large_to_be_held_is_seen_and_said() {
    const SLOW_BATCHES: &str = "sink.batch_rows_max=20";
    let said = "may see rows go back";
    let (held, words) = read_again(&[SLOW_BATCHES]).expect("it ends well");
    assert!(held.clean(), "{}", held.words());
    assert!(!words.contains(said), "{words}");
    let sets = [SLOW_BATCHES, "limits.replay_bytes_max=1B"];
    let (streamed, words) = read_again(&sets).expect("it ends well");
    assert!(!streamed.back.is_empty(), "no row was seen to go back");
    assert!(words.contains(said), "{words}");
    assert_eq!(streamed.differences.rows(), 0, "{}", streamed.words());
}
