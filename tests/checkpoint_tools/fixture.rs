//! The committed stores, one for each format and each member that came later: read for ever.
//!
//! `tests/fixtures/checkpoint-vN[.M]/` holds `state/`, made by `making`, and `markers.txt`: what a
//! restore of each of its checkpoints must give. `HEADWATER_FIXTURE=FOLDER` makes a new one:
//!
//! ```sh
//! HEADWATER_FIXTURE=tests/fixtures/checkpoint-v2 tests/run --test checkpoint_tools today
//! ```
//! Invariant: a fixture is never changed. It cannot replay one into a target: its topics are gone.

use crate::binary::Bench;
use crate::making::{JOB, make};
use crate::store::copy;
use headwater::checkpoint::manifest::FORMAT;
use headwater::checkpoint::{Manifest, load, numbers, resume};
use headwater::checkpoint_cli::verify;
use headwater::store::Store;
use headwater::table::Role;
use headwater_operators::route::worker_of;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

type Markers = BTreeMap<u128, u64>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Every committed store, by name.
fn fixtures() -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(folder()).expect("there are fixtures");
    let entries = entries.map(|entry| entry.expect("listed"));
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.path())
        })
        .filter(|(name, _)| name.starts_with("checkpoint-v"))
        .collect()
}

fn store(folder: &Path) -> Store {
    let path = folder.join("state");
    Store::open(&format!("file:{}", path.display())).expect("a folder")
}

/// What workers have after a restore, each marker on its owner.
fn restored(store: &Store, manifest: &Manifest, workers: usize) -> Markers {
    let resumed = resume(store, manifest, &[], 0..workers, workers);
    let resumed = resumed.unwrap_or_else(|error| panic!("{error}"));
    let mut markers = Markers::new();
    for worker in 0..workers {
        for (_, run) in resumed.take_runs(worker) {
            for (fingerprint, tick) in run.entries() {
                assert_eq!(worker_of(fingerprint, workers), worker as u64);
                let latest = markers.entry(fingerprint).or_insert(tick);
                *latest = tick.max(*latest);
            }
        }
    }
    markers
}

/// `checkpoint N`, `forgotten_through MS`, then a fingerprint and a tick a line.
fn written(store: &Store) -> String {
    let mut text = String::new();
    for number in numbers(store, JOB).expect("listed") {
        let manifest = load(store, JOB, number).expect("readable");
        let forgotten = manifest.forgotten_through();
        let forgotten = forgotten.map_or("none".to_owned(), |tick| tick.to_string());
        writeln!(text, "checkpoint {number}\nforgotten_through {forgotten}").expect("a string");
        for (fingerprint, tick) in restored(store, &manifest, 1) {
            writeln!(text, "{fingerprint:032x} {tick}").expect("a string");
        }
    }
    text
}

/// By checkpoint: `forgotten_through` and all markers.
fn expected(folder: &Path) -> BTreeMap<u64, (Option<u64>, Markers)> {
    let text = fs::read_to_string(folder.join("markers.txt")).expect("the list");
    let mut all: BTreeMap<u64, (Option<u64>, Markers)> = BTreeMap::new();
    for line in text.lines() {
        let (name, value) = line.split_once(' ').expect("two words");
        if name == "checkpoint" {
            all.insert(value.parse().expect("a number"), Default::default());
            continue;
        }
        let mut last = all.last_entry().expect("a checkpoint comes first");
        let of = last.get_mut();
        match name {
            "forgotten_through" => of.0 = value.parse().ok(),
            _ => {
                let fingerprint = u128::from_str_radix(name, 16).expect("in hex");
                of.1.insert(fingerprint, value.parse().expect("a tick"));
            }
        }
    }
    all
}

#[test]
fn every_fixture_is_read_for_ever() {
    let fixtures = fixtures();
    assert!(!fixtures.is_empty());
    for (name, folder) in fixtures {
        let (store, expected) = (store(&folder), expected(&folder));
        let found = numbers(&store, JOB).expect("listed");
        assert_eq!(
            found,
            expected.keys().copied().collect::<Vec<_>>(),
            "{name}"
        );
        for (number, (forgotten, markers)) in &expected {
            let manifest = load(&store, JOB, *number).expect("readable");
            let again = Manifest::decode(&manifest.encode());
            assert_eq!(again.as_ref(), Ok(&manifest), "{name}");
            assert_eq!(manifest.forgotten_through(), *forgotten, "{name} {number}");
            let verified = verify(&store, JOB, *number).expect("asked");
            let verified = verified.expect("it is there");
            assert_eq!(verified.damage, [], "{name}");
            assert_eq!(verified.keys, markers.len() as u64, "{name}");
            for workers in 1..=3 {
                let found = restored(&store, &manifest, workers);
                assert_eq!(found, *markers, "{name}, {number} on {workers} workers");
            }
        }
    }
}

#[test]
fn the_first_format_holds_what_it_was_made_with() {
    let store = store(&folder().join("checkpoint-v1"));
    let [before, start, after] = [2, 3, 4].map(|n| load(&store, JOB, n).expect("readable"));
    assert_eq!(before.markers.ticks.len(), 2, "of 2 workers");
    assert_eq!(after.markers.ticks.len(), 3, "of 3 workers");
    assert!(start.starts_a_run() && !before.starts_a_run() && !after.starts_a_run());
    assert_eq!((start.incarnation, start.time), (2, before.time.clone()));
    // Ids 0 to 40 were marked and forgotten, 20 to 80 marked again, later 80 to 90.
    let forgotten = before.forgotten_through().expect("some are");
    assert!(forgotten < 3_600_000, "{forgotten}");
    let live = |manifest: &Manifest| {
        let markers = restored(&store, manifest, 1);
        markers.values().filter(|tick| **tick > forgotten).count()
    };
    assert_eq!((live(&before), live(&after)), (60, 70));
    // A third of what was a half is a part of a run.
    let parts = after.markers.runs.iter().filter(|run| {
        let of_before = run.file.contains("/runs/0000000001.");
        of_before && run.last - run.first < u64::MAX / 2
    });
    assert!(parts.count() > 0, "{:?}", after.markers.runs);
    for manifest in [&before, &after] {
        let ends: Vec<_> = manifest.of(Role::Snapshot).map(|state| state.end).collect();
        assert_eq!(ends, [Some(3), None]);
        assert_eq!(
            manifest.topic_ids["app.public.hello"],
            "id-of-app.public.hello"
        );
        assert_eq!(manifest.shapes.len(), 2);
        assert_eq!(manifest.shapes[0].shape.to_string(), "{id: number}");
        assert!(manifest.target.is_some());
    }
    let offsets: Vec<u64> = after
        .offsets
        .iter()
        .map(|state| state.next_offset)
        .collect();
    assert_eq!(offsets, [56, 55, 3, 2]);
}

#[test]
fn the_tools_read_a_fixture() {
    let bench = Bench::new();
    bench.config("[sink]\nkind = \"sqlite\"\n[retention]\nstart_margin = \"0s\"");
    for (_, folder) in fixtures() {
        copy(&folder.join("state"), &bench.path().join("state"));
        bench.run(&["checkpoint", "verify", "--all"]).with(0);
        let explained = bench.run(&["checkpoint", "explain"]).with(0);
        for part in [
            "unsafe: ",
            "topic ids",
            "read to its frozen end 3",
            "id-of-snap",
        ] {
            assert!(explained.out.contains(part), "{part} in\n{}", explained.out);
        }
        fs::remove_dir_all(bench.path().join("state")).expect("removed");
    }
}

/// The names of all members of a store's manifests, without keys that are data.
fn members(store: &Store) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for number in numbers(store, JOB).expect("listed") {
        let bytes = load(store, JOB, number).expect("readable").encode();
        let text = String::from_utf8(bytes).expect("text");
        let (_, json) = text.split_once('\n').expect("a first line");
        collect("", &serde_json::from_str(json).expect("JSON"), &mut all);
    }
    all
}

fn collect(path: &str, value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = match path {
                    "/identity" | "/topic_ids" => "*",
                    _ => name,
                };
                collect(&format!("{path}/{name}"), value, all);
            }
        }
        Value::Array(values) => {
            let path = format!("{path}[]");
            values.iter().for_each(|value| collect(&path, value, all));
        }
        // What is null in one manifest may have members in another.
        Value::Null => {}
        _ => {
            all.insert(path.to_owned());
        }
    }
}

/// A change of what is written needs a fixture of its own, beside the older ones.
#[test]
fn what_is_written_today_has_a_fixture() {
    let made = tempfile::tempdir().expect("a folder");
    make(made.path());
    let today = store(made.path());
    if let Some(folder) = std::env::var_os("HEADWATER_FIXTURE") {
        let folder = PathBuf::from(folder);
        for part in ["manifest", "runs"] {
            let inner = Path::new("state").join(JOB).join(part);
            copy(&made.path().join(&inner), &folder.join(&inner));
        }
        fs::write(folder.join("markers.txt"), written(&today)).expect("written");
    }
    let prefix = format!("checkpoint-v{FORMAT}");
    let of_format = fixtures().into_iter().filter(|(name, _)| {
        let rest = name.strip_prefix(&prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    let known: Vec<_> = of_format
        .map(|(_, folder)| members(&store(&folder)))
        .collect();
    assert!(!known.is_empty(), "no fixture of format {FORMAT}");
    let today = members(&today);
    assert!(
        known.contains(&today),
        "no fixture of format {FORMAT} has exactly these members: {today:?}"
    );
}
