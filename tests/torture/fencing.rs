//! Fencing (case B44): one live incarnation a job. A second one is refused while the first lives,
//! and takes over when its lease has run out; a first that was only paused can write nothing then.
//!
//! Invariant: what is compared is the target and the manifests, byte by byte, before the paused
//! process goes on and after it has ended.
//!
//! It cannot pause a process between two given instructions but at named points.

use crate::child::{Children, Start};
use crate::history::{Builder, History, Seen};
use crate::lanes::in_lanes;
use crate::manifest;
use crate::outputs;
use crate::scenario::{Scenario, Settings, Target, Verdict};
use crate::writers::Writers;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(40);
/// How long a lease is, and how soon a newcomer must have taken over or given up.
const LEASE: &str = "--set=checkpoint.lease=2s";
const LEASE_OVER: Duration = Duration::from_secs(12);

/// Every key is written again and again and many are deleted at last, with READs ahead of it all:
/// whoever goes on from the middle puts old rows over new ones.
fn history() -> History {
    let keys = 1_000;
    let mut builder = Builder::new(9, &vec![true; keys as usize], 2, 2);
    (0..keys).for_each(|key| builder.read(key, 1));
    for _ in 0..40 {
        (0..keys).for_each(|key| builder.change(key, false));
    }
    (0..keys)
        .filter(|key| key % 3 == 0)
        .for_each(|key| builder.change(key, true));
    builder.build()
}

fn start(once: bool, sets: &[&str]) -> Start {
    let mut arguments = vec![
        LEASE.to_owned(),
        "--set=checkpoint.interval=100ms".to_owned(),
    ];
    arguments.extend(sets.iter().map(|set| format!("--set={set}")));
    Start {
        processes: 1,
        workers: 2,
        once,
        arguments,
        ..Start::default()
    }
}

/// The first instance: slow, so that it is in the middle for long.
fn slow() -> Start {
    start(
        false,
        &[
            "limits.inflight_bytes_max=32KiB",
            "limits.reads_inflight_bytes_max=8KiB",
            "sink.batch_rows_max=20",
        ],
    )
}

fn scenario(history: &History) -> Scenario<'_> {
    let scenario = Scenario::new(history, &Settings::new(Target::Sqlite));
    Writers::backlog(scenario.path(), history, 0, history.end + 1);
    scenario
}

fn wait(children: &mut Children, what: &str, mut done: impl FnMut() -> bool) -> Result<(), String> {
    let until = Instant::now() + LIMIT;
    while !done() {
        if children.any_ended() || Instant::now() > until {
            return Err(format!("not seen: {what}\n{}", children.said()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Everything that the paused one must leave alone.
type State = (BTreeMap<u32, Seen>, Vec<(u64, Vec<u8>)>);

fn state(scenario: &Scenario<'_>) -> State {
    let path = scenario.path();
    (outputs::sqlite(path), manifest::bytes(path))
}

/// Runs the job to its end beside a first instance that was paused, lets that one go on, and
/// judges what it did. `paused` waits until it has paused.
fn taken_over(
    scenario: &mut Scenario<'_>,
    first: &Start,
    paused: impl Fn(&Scenario<'_>, &mut Children) -> Result<(), String>,
) -> Result<(), String> {
    let mut first = scenario.start(first)?;
    paused(scenario, &mut first)?;
    let incarnation = manifest::incarnation(scenario.path());
    let asked = Instant::now();
    let mut second = start(true, &[]);
    second.plant.clone_from(&scenario.plant);
    scenario.once(&second)?;
    let took = asked.elapsed();
    if took > LIMIT || manifest::incarnation(scenario.path()) == incarnation {
        return Err(format!("the second did not take over, after {took:?}"));
    }
    let before = state(scenario);
    let woken = Instant::now();
    go_on(&mut first)?;
    let ended = woken.elapsed();
    println!("taken over in {took:?}; the first ended {ended:?} after it woke");
    let after = state(scenario);
    if before.1 != after.1 {
        return Err("the first has changed the manifests".to_owned());
    }
    if before.0 != after.0 {
        return Err("the first has written rows".to_owned());
    }
    Ok(())
}

/// Wakes the paused one, which must end badly.
fn go_on(first: &mut Children) -> Result<(), String> {
    first.signal(0, "CONT");
    let ended = first.end(LEASE_OVER);
    let ended = ended.ok_or_else(|| format!("the first goes on\n{}", first.said()))?;
    match ended[0].code {
        Some(1..) if !ended[0].err.contains("PANIC") => Ok(()),
        _ => Err(format!("the first ended with {}", ended[0].words())),
    }
}

/// Stops the process at a moment when it does not hold SQLite's lock: the second would only wait.
fn stop_outside_of_transactions(children: &mut Children, path: &Path) -> Result<(), String> {
    let until = Instant::now() + LIMIT;
    loop {
        children.signal(0, "STOP");
        // It is stopped a moment after the signal was sent.
        std::thread::sleep(Duration::from_millis(5));
        if !outputs::is_locked(path) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err("it is always amid a transaction".to_owned());
        }
        children.signal(0, "CONT");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Stopped from outside, in the middle of its rows.
fn stopped(plant: Option<&str>) -> Verdict {
    let history = history();
    let mut scenario = scenario(&history);
    scenario.plant = plant.map(str::to_owned);
    let mut first = slow();
    first.plant.clone_from(&scenario.plant);
    let result = taken_over(&mut scenario, &first, |scenario, children| {
        let path = scenario.path();
        wait(children, "rows and a manifest", || {
            manifest::covers_some(path) && !outputs::sqlite(path).is_empty()
        })?;
        stop_outside_of_transactions(children, path)
    });
    match result {
        Ok(()) => scenario.verdict(),
        Err(words) => Verdict {
            trouble: Some(words),
            ..scenario.verdict()
        },
    }
}

#[test]
fn a_paused_first_writes_nothing_after_the_takeover() {
    let verdict = stopped(None);
    assert!(verdict.clean(), "{}", verdict.words());
}

#[test]
fn a_sink_that_is_not_fenced_is_found() {
    let verdict = stopped(Some("unfenced"));
    assert!(!verdict.clean(), "the paused one wrote nothing");
    assert!(verdict.differences.rows() > 0, "{}", verdict.words());
}

/// A first instance that pauses by itself. Not slow: amid a transaction it would lock the second
/// out, see [`amid_a_transaction`].
fn pausing(point: &str) -> Start {
    let mut first = start(false, &[]);
    first.fault = Some((0, point.to_owned()));
    first
}

fn has_paused(children: &mut Children) -> Result<(), String> {
    let until = Instant::now() + LIMIT;
    while !children.err(0).contains(": pause") {
        if children.any_ended() || Instant::now() > until {
            return Err(format!("it did not pause\n{}", children.said()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs `judge` for each point in a scenario of its own, which must then hold the right rows.
fn at_each(points: &[&str], judge: impl Fn(&mut Scenario<'_>, &str) -> Result<(), String> + Sync) {
    let history = history();
    let findings = in_lanes(points, |point| {
        let mut scenario = scenario(&history);
        let trouble = judge(&mut scenario, point).err();
        let verdict = Verdict {
            trouble,
            ..scenario.verdict()
        };
        (!verdict.clean()).then(|| format!("{point}: {}", verdict.words()))
    });
    let findings: Vec<String> = findings.into_iter().flatten().collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Paused by itself, between two durable steps.
#[test]
fn paused_between_two_durable_steps_it_writes_nothing_after_the_takeover() {
    let points = [
        "checkpoint.manifest.before=pause@2",
        "checkpoint.manifest.after=pause@2",
        "target.note.after=pause@2",
        "sqlite.commit.after=pause@2",
        "claim.target.before=pause",
        "target.claim.after=pause",
        "claim.target.after=pause",
    ];
    at_each(&points, |scenario, point| {
        taken_over(scenario, &pausing(point), |_, first| has_paused(first))
    });
}

/// Paused with SQLite's lock in its hands. The second waits, and changes nothing but its claim on
/// the job; when the first wakes, it ends what it has begun, and the second takes over.
fn amid_a_transaction(scenario: &mut Scenario<'_>, point: &str) -> Result<(), String> {
    let mut first = scenario.start(&pausing(point))?;
    has_paused(&mut first)?;
    let path = scenario.path().to_path_buf();
    let incarnation = manifest::incarnation(&path);
    let before = outputs::sqlite(&path);
    let mut second = Children::start(&path, "second", &start(true, &[]));
    wait(&mut second, "the second's claim", || {
        manifest::incarnation(&path) > incarnation
    })?;
    std::thread::sleep(Duration::from_secs(1));
    if second.any_ended() || outputs::sqlite(&path) != before {
        return Err(format!("the second did not wait\n{}", second.said()));
    }
    go_on(&mut first)?;
    let ended = second.end(LIMIT);
    let ended = ended.ok_or_else(|| format!("the second hangs\n{}", second.said()))?;
    match ended[0].code {
        Some(0) => Ok(()),
        _ => Err(format!("the second: {}", ended[0].words())),
    }
}

#[test]
fn paused_amid_a_transaction_it_ends_that_one_and_no_other() {
    let points = [
        "target.claim.before=pause",
        "target.note.before=pause@2",
        "sqlite.commit.before=pause@2",
    ];
    at_each(&points, amid_a_transaction);
}

/// It goes on, and what it holds is told.
#[test]
fn a_second_is_refused_while_the_first_lives() {
    let history = history();
    let mut scenario = scenario(&history);
    let mut first = scenario.start(&slow()).expect("started");
    let path = scenario.path().to_path_buf();
    wait(&mut first, "a manifest", || manifest::covers_some(&path)).expect("it works");
    let incarnation = manifest::incarnation(&path);
    let mut second = Children::start(&path, "second", &start(true, &[]));
    let ended = second.end(LEASE_OVER);
    let ended = ended.unwrap_or_else(|| panic!("it waits for ever\n{}", second.said()));
    assert!(
        !matches!(ended[0].code, Some(0) | None),
        "{}",
        ended[0].words()
    );
    assert!(
        ended[0].err.contains("torture"),
        "the job: {}",
        ended[0].words()
    );
    assert!(!first.any_ended(), "the first has ended\n{}", first.said());
    let newest = manifest::numbers(&path).last().copied();
    wait(&mut first, "another manifest", || {
        manifest::numbers(&path).last().copied() > newest
    })
    .expect("the first goes on");
    assert_eq!(manifest::incarnation(&path), incarnation, "its own");
    // Killed on the same host, the job is free at once.
    first.kill_all();
    first.end(LIMIT).expect("killed");
    let free = Instant::now();
    scenario.once(&start(true, &[])).expect("it takes over");
    assert!(free.elapsed() < LIMIT, "{:?}", free.elapsed());
    let verdict = scenario.verdict();
    assert!(verdict.clean(), "{}", verdict.words());
}
