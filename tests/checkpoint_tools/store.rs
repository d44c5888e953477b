//! A real store: a job on `file` topics that was stopped twice and has made checkpoints meanwhile.
//!
//! Invariant: what is in the target at the end of the job is known, whatever checkpoint it goes on
//! from.

use crate::binary::{Bench, HELLO, Record, SQLITE, hello};
use crate::signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Workers of both runs.
const WORKERS: &str = "2";

/// The folder of the job's objects.
pub(crate) fn objects(bench: &Bench) -> PathBuf {
    bench.path().join("state/hello")
}

/// The JSON of a manifest, behind its first line.
pub(crate) fn manifest(bench: &Bench, number: u64) -> Value {
    let path = objects(bench).join(format!("manifest/{number:010}"));
    let text = fs::read_to_string(path).expect("a manifest is text");
    let (_, json) = text.split_once('\n').expect("a first line");
    serde_json::from_str(json).expect("JSON")
}

/// The numbers of all manifests.
pub(crate) fn numbers(bench: &Bench) -> Vec<u64> {
    let entries = fs::read_dir(objects(bench).join("manifest"));
    let entries = entries.into_iter().flatten();
    let names = entries.map(|entry| entry.expect("listed").file_name());
    let mut numbers: Vec<u64> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The run objects that a manifest names.
pub(crate) fn runs(bench: &Bench, number: u64) -> Vec<String> {
    let manifest = manifest(bench, number);
    let runs = manifest["markers"]["runs"].as_array().expect("runs");
    let name = |run: &Value| run["file"].as_str().expect("a name").to_owned();
    let mut names: Vec<String> = runs.iter().map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// A job that was stopped twice, and the newest checkpoint of each run.
pub(crate) struct Made {
    pub(crate) bench: Bench,
    pub(crate) first: u64,
    pub(crate) second: u64,
    /// What the target must hold when the job has ended.
    pub(crate) rows: BTreeMap<i64, String>,
}

/// Makes one.
pub(crate) fn made() -> Made {
    let bench = Bench::new();
    bench.hello(2);
    bench.sqlite(HELLO);
    bench.config(&format!(
        "{SQLITE}\n[checkpoint]\nstore = \"file:state\"\ninterval = \"100ms\"\nkept = 100"
    ));
    let mut rows = BTreeMap::new();
    let reads: Vec<Record> = (0..120).map(|id| hello('r', id, "old")).collect();
    rows.extend((0..120).map(|id| (id, "old".to_owned())));
    bench.append("snap", 0, &reads[..60]);
    bench.append("snap", 1, &reads[60..]);
    mutate(&bench, 0..100, "one", &mut rows);
    run_until(&bench, "first", 100 + 120);
    let first = *numbers(&bench).last().expect("a checkpoint");
    mutate(&bench, 50..180, "two", &mut rows);
    run_until(&bench, "second", 100 + 120 + 130);
    let second = *numbers(&bench).last().expect("a checkpoint");
    Made {
        bench,
        first,
        second,
        rows,
    }
}

fn mutate(
    bench: &Bench,
    ids: std::ops::Range<u64>,
    greeting: &str,
    rows: &mut BTreeMap<i64, String>,
) {
    for partition in 0..2 {
        let of_partition = ids.clone().filter(|id| id % 2 == u64::from(partition));
        let mutations: Vec<Record> = of_partition.map(|id| hello('u', id, greeting)).collect();
        bench.append("muts", partition, &mutations);
    }
    let of = |id: u64| (id.cast_signed(), greeting.to_owned());
    rows.extend(ids.map(of));
}

/// Runs the job until a checkpoint has so many records behind it, and stops it.
fn run_until(bench: &Bench, name: &str, records: u64) {
    let child = bench.start(name, &["run", "-w", WORKERS]);
    let until = Instant::now() + Duration::from_secs(60);
    let behind = |number: u64| -> u64 {
        let manifest = manifest(bench, number);
        let offsets = manifest["offsets"].as_array().expect("offsets");
        let next = offsets
            .iter()
            .map(|state| state["next_offset"].as_u64().expect("one"));
        next.sum()
    };
    while numbers(bench)
        .last()
        .is_none_or(|last| behind(*last) < records)
    {
        assert!(Instant::now() < until, "{}", child.err());
        std::thread::sleep(Duration::from_millis(20));
    }
    signal::send(&child, "TERM");
    child.end(Duration::from_secs(60)).with(130);
}

impl Made {
    /// Another one with the same files, to be damaged.
    pub(crate) fn copy(&self) -> Bench {
        let bench = Bench::new();
        copy(self.bench.path(), bench.path());
        bench
    }

    /// A run that the newest checkpoint needs and that of the run before does not.
    pub(crate) fn newer_run(&self) -> String {
        let older = runs(&self.bench, self.first);
        let newer = runs(&self.bench, self.second);
        let mut only = newer.into_iter().filter(|run| !older.contains(run));
        only.next().expect("the second run has marked keys anew")
    }
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("listed");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("known").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copied")),
        }
    }
}
