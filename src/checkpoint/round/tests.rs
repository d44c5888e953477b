//! A manifest is written only when every part is here and all before the cut is durable; and a
//! taken number ends the run.

use super::{Checkpointer, Checkpoints, CutState};
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{PartitionState, Ticks};
use crate::checkpoint::{self, Part, start_uploads};
use crate::error::Error;
use crate::failure::Failures;
use crate::generation::ReadsSeen;
use crate::job::{GenerationCounts, Panel};
use crate::sink::settings::{SinkKind, SinkSettings, build};
use crate::store::Store;
use crate::table::Role;
use crate::topic::Topics;
use crate::topic::memory::MemoryTopics;
use headwater_operators::control::Command;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

const WORKERS: usize = 2;

fn checkpointer(store: &Store) -> Checkpointer {
    let (panel, failures) = (Arc::new(Panel::default()), Arc::new(Failures::default()));
    let mut base = manifest();
    base.markers.runs.clear();
    let before = &mut base.generations[0];
    (before.unsafe_reads, before.late_reads) = (10, 20);
    before.reads = vec![ReadsSeen {
        run: "both".to_owned(),
        rows: 5,
        first_ms: 50,
        last_ms: 60,
        last_marker: true,
        ..ReadsSeen::default()
    }];
    let uploads = start_uploads(store.clone(), "hello", 3, Arc::clone(&panel), failures);
    let null = SinkSettings::new(SinkKind::Null);
    let sink = build(&null, &[], &BTreeMap::new(), 1).expect("no target");
    let checkpoints = Checkpoints {
        store: store.clone(),
        base,
        interval_ms: 100,
        kept: 2,
        sink,
        uploads: uploads.expect("a thread"),
        lease: None,
    };
    let topics: Arc<dyn Topics> = Arc::new(MemoryTopics::default());
    Checkpointer::new(&checkpoints, &topics, WORKERS, &panel).expect("a thread")
}

fn parts(number: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    for worker in 0..WORKERS {
        for role in [Role::Mutations, Role::Snapshot] {
            parts.push(Part::Read {
                number,
                worker,
                role,
                partitions: vec![PartitionState {
                    role,
                    topic: "t".to_owned(),
                    partition: worker as u32,
                    next_offset: 10 + worker as u64,
                    end: None,
                    first_source_ms: None,
                    last_source_ms: None,
                }],
                reads: reads(role, worker),
                shapes: Vec::new(),
            });
        }
        parts.push(Part::Markers {
            number,
            worker,
            runs: Vec::new(),
            ticks: Ticks::default(),
            bytes_new: 5,
        });
    }
    parts
}

/// Each worker has read some READs of generation 1, of a run of its own and of one of both.
fn reads(role: Role, worker: usize) -> BTreeMap<u32, Vec<ReadsSeen>> {
    let seen = |run: &str, rows| ReadsSeen {
        run: run.to_owned(),
        rows,
        first_ms: 100 + worker as i64,
        last_ms: 200 + worker as i64,
        ..ReadsSeen::default()
    };
    match role {
        Role::Mutations => BTreeMap::new(),
        Role::Snapshot => [(1, vec![seen(&format!("w{worker}"), 1), seen("both", 2)])].into(),
    }
}

static COUNTED: LazyLock<BTreeMap<u32, GenerationCounts>> = LazyLock::new(|| {
    let counts = GenerationCounts {
        unsafe_reads: 3,
        late: 4,
        ..GenerationCounts::default()
    };
    [(1, counts.clone()), (9, counts)].into()
});

fn counted(at: u64) -> (u64, &'static BTreeMap<u32, GenerationCounts>) {
    (at, &COUNTED)
}

/// Steps until the manifest is durable.
fn finish(checkpointer: &mut Checkpointer, now_ms: u64) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_secs(10);
    while checkpointer.busy() {
        assert!(Instant::now() < until, "no answer");
        checkpointer.step((now_ms, now_ms), |_| true, counted(now_ms))?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn round(checkpointer: &mut Checkpointer, now_ms: u64) -> u64 {
    let state = CutState {
        generations: manifest().generations,
        topic_ids: [("new".to_owned(), "id".to_owned())].into(),
        ..CutState::default()
    };
    let command = checkpointer.begin(now_ms, now_ms, state);
    let Command::Checkpoint { number } = command else {
        panic!("{command:?}");
    };
    number
}

#[test]
fn every_part_and_durability_are_waited_for() {
    let store = Store::memory();
    for missing in 0..parts(8).len() {
        let mut run = checkpointer(&store);
        let number = round(&mut run, 2000);
        assert_eq!(number, 8);
        let mut some = parts(number);
        some.remove(missing);
        // A part of another round counts for nothing.
        some.extend(parts(number - 1));
        run.take(some);
        run.step((2100, 2100), |_| true, counted(2100))
            .expect("waits");
        std::thread::sleep(Duration::from_millis(5));
        run.step((2100, 2100), |_| true, counted(2100))
            .expect("waits");
        assert!(run.busy());
    }
    let mut run = checkpointer(&store);
    let number = round(&mut run, 2000);
    run.take(parts(number));
    run.step((2100, 2100), |tick| tick < 2000, counted(2100))
        .expect("waits for the sink");
    let none = checkpoint::numbers(&store, "hello").expect("listed");
    assert!(none.is_empty());
    // What was counted before may lack READs before the cut.
    run.step((2100, 2100), |_| true, counted(2080))
        .expect("waits");
    std::thread::sleep(Duration::from_millis(5));
    run.step((2120, 2120), |_| true, counted(2080))
        .expect("waits");
    let none = checkpoint::numbers(&store, "hello").expect("listed");
    assert!(none.is_empty());
    finish(&mut run, 2100).expect("written");
    let written = checkpoint::latest(&store, "hello")
        .expect("read")
        .expect("there");
    assert_eq!(written.number, 8);
    assert_eq!((written.time.cut_ms, written.time.now_ms), (2000, 2100));
    assert_eq!(written.offsets.len(), 4);
    let generation = &written.generations[0];
    assert_eq!((generation.unsafe_reads, generation.late_reads), (13, 24));
    let seen = |run: &str, rows, first_ms, last_ms, last_marker| ReadsSeen {
        table: 0,
        run: run.to_owned(),
        rows,
        first_ms,
        last_ms,
        last_marker,
    };
    assert_eq!(
        generation.reads,
        [
            seen("both", 5 + 2 * WORKERS as u64, 50, 201, true),
            seen("w0", 1, 100, 200, false),
            seen("w1", 1, 101, 201, false)
        ]
    );
    assert_eq!(written.topic_ids["new"], "id");
    assert_eq!(
        run.saved().expect("saved").bytes_new,
        written.encode().len() as u64 + 10
    );
}

#[test]
fn a_number_that_is_taken_ends_the_run() {
    let store = Store::memory();
    let mut run = checkpointer(&store);
    let number = round(&mut run, 2000);
    let mut successor = manifest();
    successor.number = number;
    successor.incarnation = 4;
    checkpoint::claim(&store, &successor).expect("the number is free");
    run.take(parts(number));
    let error = finish(&mut run, 2100).expect_err("fenced");
    assert!(error.text.contains("fenced"), "{error}");
    let kept = checkpoint::latest(&store, "hello")
        .expect("read")
        .expect("there");
    assert_eq!(kept.incarnation, 4);
}

#[test]
fn old_manifests_and_their_runs_go_and_no_others() {
    let store = Store::memory();
    let mut run = checkpointer(&store);
    for orphan in ["hello/runs/0000000002.0.9", "hello/runs/0000000004.0.1"] {
        store.put(orphan, b"x").expect("written");
    }
    for at in [2000, 2200, 2400] {
        let number = round(&mut run, at);
        run.take(parts(number));
        finish(&mut run, at).expect("written");
    }
    assert_eq!(
        checkpoint::numbers(&store, "hello").expect("listed"),
        [9, 10]
    );
    let left: Vec<String> = store
        .list("hello/runs/")
        .expect("listed")
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    // That of a later incarnation is not ours to judge.
    assert_eq!(left, ["hello/runs/0000000004.0.1"]);
}

#[test]
fn a_number_that_a_successor_has_made_and_deleted_is_no_free_one() {
    let store = Store::memory();
    let mut run = checkpointer(&store);
    let number = round(&mut run, 2000);
    let mut successor = manifest();
    successor.number = number + 5;
    checkpoint::claim(&store, &successor).expect("the number is free");
    run.take(parts(number));
    let error = finish(&mut run, 2100).expect_err("fenced");
    assert!(error.text.contains("fenced"), "{error}");
    let left = checkpoint::numbers(&store, "hello").expect("listed");
    assert_eq!(left, [number + 5]);
}

#[test]
fn a_manifest_that_a_successor_goes_on_from_stays() {
    let store = Store::memory();
    let mut run = checkpointer(&store);
    let number = round(&mut run, 2000);
    let mut successor = manifest();
    successor.number = number + 1;
    checkpoint::claim(&store, &successor).expect("the number is free");
    let mut ours = manifest();
    ours.number = number;
    checkpoint::claim(&store, &ours).expect("the number is free");
    run.take(parts(number));
    let error = finish(&mut run, 2100).expect_err("fenced");
    assert!(error.text.contains("fenced"), "{error}");
    let left = checkpoint::numbers(&store, "hello").expect("listed");
    assert_eq!(left, [number, number + 1]);
}
