//! The three cases of the retained window on two processes of two workers, by the clock of the
//! real binary: a READ inside the window is dropped, one ahead of its mutation is emitted early,
//! one behind the window is kept from the target.
//!
//! Invariant: each case has keys on all four workers, so a worker with another idea of the time, or
//! of the ttl, would put some of them among another case.
//!
//! It cannot hold the clock: a machine that needs longer than [`TTL`] between a mutation and its
//! READ fails the test.

use crate::binary::{Bench, Ended, JSONL, Record, Running, hello};
use crate::both;
use crate::result::LIMIT;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

/// More than workers, so that all of them read.
const PARTITIONS: u64 = 5;
/// Of each case; so many that no worker is without.
const KEYS: u64 = 80;
const AHEAD: Range<u64> = 0..KEYS;
const INSIDE: Range<u64> = 1000..1000 + KEYS;
const BEHIND: Range<u64> = 2000..2000 + KEYS;
/// Seconds. Long against what a case takes, short against a test.
const TTL: f64 = 6.0;
const SHORT: &str = "keep_markers = \"ttl\"\nttl = \"6s\"";

/// A job that runs, and its topics.
struct Play {
    bench: Bench,
    running: [Running; 2],
    control: String,
}

impl Play {
    /// Starts both processes; returns when the generation is open.
    fn start(retention: &str) -> Play {
        use std::os::unix::fs::PermissionsExt;
        let bench = Bench::new();
        bench.hello(u32::try_from(PARTITIONS).expect("few"));
        let token = bench.path().join("control.token");
        fs::write(&token, "a-token-of-more-than-sixteen-bytes\n").expect("written");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("set");
        bench.config(&format!(
            "{JSONL}\n[quarantine]\npath = \"quarantine\"\n[checkpoint]\ninterval = \"200ms\"\n\
             [control]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"control.token\"\n\
             [retention]\n{retention}"
        ));
        let running = both(&bench, &["--once"]);
        let until = Instant::now() + LIMIT;
        let control = loop {
            let said = running[0].err();
            let told = said.split_once("control plane at ");
            if let Some((address, _)) = told.and_then(|(_, rest)| rest.split_once('\n')) {
                break address.to_owned();
            }
            assert!(Instant::now() < until, "{said}");
            std::thread::sleep(Duration::from_millis(10));
        };
        let play = Play {
            bench,
            running,
            control,
        };
        play.until("the open", |now| now["generations"][0]["stage"] == "open");
        play
    }

    fn ask(&self, verb: &[&str]) -> Ended {
        let arguments = [verb, &["--control", &self.control]].concat();
        self.bench.run(&arguments).with(0)
    }

    fn status(&self) -> Value {
        self.ask(&["status", "--json"]).json()
    }

    /// Waits until the status shows something.
    fn until(&self, what: &str, shows: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let now = self.status();
            if shows(&now) {
                return now;
            }
            let said: String = self.running.iter().map(Running::err).collect();
            assert!(
                Instant::now() < until,
                "{what} did not come:\n{now:#}\n{said}"
            );
        }
    }

    /// Appends a record for each key; returns what the status shows when all of them are decided.
    fn append(&self, topic: &str, op: char, keys: Range<u64>, greeting: &str) -> Value {
        let before = decided(&self.status());
        let count = keys.end - keys.start;
        for partition in 0..PARTITIONS {
            let here = keys
                .clone()
                .filter(|id| (id + count) % PARTITIONS == partition);
            let records: Vec<Record> = here.map(|id| hello(op, id, greeting)).collect();
            let partition = u32::try_from(partition).expect("few");
            self.bench.append(topic, partition, &records);
        }
        self.until("the decision", |now| decided(now) == before + count)
    }

    /// Waits until job time has gone on by more than a ttl since `then`.
    fn until_later(&self, then: &Value) -> Value {
        let seconds = |now: &Value| now["retention"]["window_seconds"].as_f64();
        let then = seconds(then).expect("an open window");
        self.until("the time", |now| seconds(now) > Some(then + TTL + 0.5))
    }

    /// Ends the snapshot; both processes end with this code, and so does the generation.
    fn end(self, code: i32, stage: &str) -> (Bench, String) {
        for partition in 0..u32::try_from(PARTITIONS).expect("few") {
            self.bench.append("snap", partition, &[Record::end()]);
        }
        let [first, second] = self.running.map(|child| child.end(LIMIT).with(code));
        assert_eq!(second.out, "", "{}", second.err);
        let down = ["status", "--json", "--control", &self.control];
        let now = self.bench.run(&down).with(0).json();
        assert_eq!(now["generations"][0]["stage"], stage, "{now:#}");
        (self.bench, first.err)
    }
}

/// Records that were decided.
fn decided(now: &Value) -> u64 {
    let sum = |counts: &Value| {
        let counts = counts.as_object().into_iter().flatten();
        counts.filter_map(|(_, count)| count.as_u64()).sum::<u64>()
    };
    let one = |count: &Value| count.as_u64().unwrap_or(0);
    let reads = &now["reads"];
    one(&now["mutations"]["emitted"])
        + one(&reads["emitted"])
        + sum(&reads["dropped"])
        + sum(&reads["quarantined"])
}

fn dropped(now: &Value) -> u64 {
    now["reads"]["dropped"]["marker"].as_u64().unwrap_or(0)
}

/// What was written of each key, oldest first, and by which workers.
fn written(bench: &Bench, keys: Range<u64>) -> (BTreeMap<u64, Vec<String>>, BTreeSet<u64>) {
    let mut rows: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
    let mut workers = BTreeSet::new();
    for worker in 0..4 {
        let path = bench.path().join(format!("out.1.{worker}.jsonl"));
        for line in fs::read_to_string(path).expect("its file").lines() {
            let line: Value = serde_json::from_str(line).expect("a whole line");
            let id = line["key"]["id"].as_u64().expect("a number");
            if keys.contains(&id) {
                let version = line["version"].as_u64().expect("a version");
                let greeting = line["row"]["greeting"].as_str().expect("text");
                let of = rows.entry(id).or_default();
                of.push((version, greeting.to_owned()));
                workers.insert(worker);
            }
        }
    }
    let rows = rows.into_iter().map(|(id, mut of)| {
        of.sort();
        (id, of.into_iter().map(|(_, greeting)| greeting).collect())
    });
    (rows.collect(), workers)
}

/// All keys of a case were written by all workers, and of each exactly these rows.
fn assert_written(bench: &Bench, keys: Range<u64>, greetings: &[&str]) {
    let (rows, workers) = written(bench, keys);
    assert_eq!(workers.len(), 4, "{workers:?}");
    assert_eq!(rows.len() as u64, KEYS);
    for (id, found) in rows {
        assert_eq!(found, greetings, "row {id}");
    }
}

/// The keys in quarantine, each with the reason that is expected.
fn quarantine(bench: &Bench) -> BTreeSet<u64> {
    let lines = bench.run(&["quarantine", "export"]).with(0).out;
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["reason"], "forgotten_markers", "{line}");
        line["key"]["id"].as_u64().expect("a number")
    };
    lines.lines().map(line).collect()
}

/// The cases inside and ahead, and the mutations of the one behind; returns when its time has come.
fn until_behind(retention: &str) -> Play {
    let play = Play::start(retention);
    let now = play.append("snap", 'r', AHEAD, "early");
    assert_eq!(now["reads"]["emitted"], KEYS, "{now:#}");
    play.append("muts", 'u', AHEAD, "later");
    play.append("muts", 'u', INSIDE, "new");
    let now = play.append("snap", 'r', INSIDE, "old");
    assert_eq!(dropped(&now), KEYS, "{now:#}");
    assert_eq!(now["reads"]["emitted"], KEYS, "{now:#}");
    let now = play.append("muts", 'u', BEHIND, "new");
    play.until_later(&now);
    play
}

#[test]
fn behind_the_window_the_generation_is_unsafe_and_no_row_is_stale() {
    let play = until_behind(SHORT);
    let now = play.until("the end of the markers", |now| now["markers"]["count"] == 0);
    assert!(now["retention"]["forgotten_through"].is_string(), "{now:#}");
    let now = play.append("snap", 'r', BEHIND, "old");
    assert_eq!(now["reads"]["quarantined"]["forgotten"], KEYS);
    assert_eq!(now["generations"][0]["stage"], "unsafe", "{now:#}");
    let (bench, said) = play.end(4, "unsafe");
    assert!(said.contains("80 READs may be stale"), "{said}");
    assert_written(&bench, AHEAD, &["early", "later"]);
    assert_written(&bench, INSIDE, &["new"]);
    assert_written(&bench, BEHIND, &["new"]);
    assert_eq!(quarantine(&bench), BEHIND.collect());
}

#[test]
fn kept_until_ready_no_read_is_behind() {
    let play = until_behind("keep_markers = \"until_ready\"");
    let now = play.append("snap", 'r', BEHIND, "old");
    assert_eq!(dropped(&now), 2 * KEYS, "{now:#}");
    assert_eq!(now["markers"]["count"], 3 * KEYS, "{now:#}");
    let (bench, _) = play.end(0, "ready");
    assert_written(&bench, AHEAD, &["early", "later"]);
    assert_written(&bench, INSIDE, &["new"]);
    assert_written(&bench, BEHIND, &["new"]);
    assert!(quarantine(&bench).is_empty());
}

/// What is behind a ttl of 6 s is inside one of an hour, for the keys of all workers; lowered
/// again, it is behind for all of them.
#[test]
fn a_ttl_is_raised_and_lowered_for_all_workers_of_both_processes() {
    let play = Play::start(SHORT);
    let first = play.append("muts", 'u', BEHIND, "new");
    play.ask(&["ttl", "1h"]);
    let now = play.until_later(&first);
    assert_eq!(now["retention"]["ttl_seconds"], 3600.0, "{now:#}");
    assert_eq!(now["retention"]["forgotten_through"], Value::Null);
    let now = play.append("snap", 'r', BEHIND, "old");
    assert_eq!(dropped(&now), KEYS, "{now:#}");
    play.ask(&["ttl", "1s"]);
    let now = play.until("the end of the markers", |now| now["markers"]["count"] == 0);
    assert!(now["retention"]["forgotten_through"].is_string(), "{now:#}");
    let now = play.append("snap", 'r', BEHIND, "old again");
    assert_eq!(now["reads"]["quarantined"]["forgotten"], KEYS);
    assert_eq!(dropped(&now), KEYS, "{now:#}");
    let (bench, _) = play.end(4, "unsafe");
    assert_written(&bench, BEHIND, &["new"]);
    assert_eq!(quarantine(&bench), BEHIND.collect());
}
