//! A manifest is written only when every part is here and all before the cut is durable; and a
//! taken number ends the run.

use super::{Checkpointer, Checkpoints, CutState};
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{GenerationState, Manifest, PartitionState, PoisonState, Ticks};
use crate::checkpoint::{self, Part, start_uploads};
use crate::dead_letter::{self, Counted};
use crate::error::Error;
use crate::events::{Event, Events, Place as Listener};
use crate::failure::Failures;
use crate::generation::{Reached, ReadsSeen, Stage};
use crate::job::{GenerationCounts, Panel};
use crate::sink::settings::{SinkKind, SinkSettings, build};
use crate::sink::{GenerationNote, Place, ReplaySafety, RowForm, Sink, WriteError, Writer};
use crate::store::Store;
use crate::table::Role;
use crate::topic::file::FileTopics;
use crate::topic::memory::MemoryTopics;
use crate::topic::{Assignment, Topics};
use headwater_operators::control::Command;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

const WORKERS: usize = 2;

/// A target that keeps what it is told of generations, and may be away.
#[derive(Default)]
struct Noting {
    away: AtomicBool,
    noted: Mutex<Vec<Vec<GenerationNote>>>,
}

impl Sink for Noting {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn generations(&self, generations: &[GenerationNote]) -> Result<(), WriteError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(WriteError::Retry("away".to_owned()));
        }
        let mut noted = self.noted.lock().expect("no panic");
        noted.push(generations.to_vec());
        Ok(())
    }

    fn writer(&self, _place: Place) -> Result<Box<dyn Writer>, Error> {
        Err(Error::failed("no rows"))
    }
}

fn checkpointer(store: &Store) -> Checkpointer {
    let null = SinkSettings::new(SinkKind::Null);
    let sink = build(&null, &[], &BTreeMap::new(), 1).expect("no target");
    checkpointer_with(store, sink, None)
}

fn checkpointer_with(
    store: &Store,
    sink: Arc<dyn Sink>,
    events: Option<Arc<Events>>,
) -> Checkpointer {
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
    let checkpoints = Checkpoints {
        store: store.clone(),
        base,
        interval_ms: 100,
        kept: 2,
        sink,
        uploads: uploads.expect("a thread"),
        lease: None,
        events,
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
                dead_letters: letters(role, worker),
                shapes: Vec::new(),
            });
        }
        parts.push(Part::Poisoned {
            number,
            worker,
            marks: vec![(u128::MAX - worker as u128, 20)],
        });
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

/// Each worker has given one letter, in the same minute.
fn letters(role: Role, worker: usize) -> Vec<Counted> {
    let mut letters = Vec::new();
    if role == Role::Mutations {
        dead_letter::count(&mut letters, "t", &[0], worker == 0);
    }
    letters
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
    round_of(checkpointer, now_ms, manifest().generations)
}

fn round_of(
    checkpointer: &mut Checkpointer,
    now_ms: u64,
    generations: Vec<GenerationState>,
) -> u64 {
    let state = CutState {
        generations,
        topic_ids: [("new".to_owned(), "id".to_owned())].into(),
        ..CutState::default()
    };
    let command = checkpointer.begin(now_ms, now_ms, state);
    let Command::Checkpoint { number } = command else {
        panic!("{command:?}");
    };
    number
}

/// What workers said of dead letters and poisoned keys is in it.
fn assert_letters(written: &Manifest) {
    let letters = dead_letter::total(&written.dead_letters);
    let before = dead_letter::total(&manifest().dead_letters);
    assert_eq!(letters, (before.0 + WORKERS as u64, before.1 + 1));
    let marks = written.poison_marks.iter().filter_map(PoisonState::mark);
    let marks: Vec<_> = marks.map(|mark| (mark.fingerprint, mark.tick_ms)).collect();
    // Those of the manifest before are told again by who has them.
    assert_eq!(marks, [(u128::MAX, 20), (u128::MAX - 1, 20)]);
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
    assert_letters(&written);
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

/// Generation 1 after so many transitions.
fn after(transitions: usize) -> Vec<GenerationState> {
    let stages = [Stage::Open, Stage::SourceFinished, Stage::TopicConsumed];
    let reached = |(at, stage): (u64, &Stage)| Reached {
        stage: *stage,
        at_ms: at,
        tick_ms: at,
        ..Reached::default()
    };
    vec![GenerationState {
        number: 1,
        id: "g1".to_owned(),
        stage: stages[transitions - 1],
        reached: (1..).zip(&stages[..transitions]).map(reached).collect(),
        ..GenerationState::default()
    }]
}

/// Makes a checkpoint with these generations.
fn save(run: &mut Checkpointer, at: u64, generations: Vec<GenerationState>) -> u64 {
    let number = round_of(run, at, generations);
    run.take(parts(number));
    finish(run, at).expect("written");
    number
}

#[test]
fn generations_are_told_when_a_manifest_says_so_and_the_next_one_counts_them() {
    let (store, folder) = (Store::memory(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("events");
    let listener = Listener::Folder(path.clone());
    let panel = Arc::new(Panel::default());
    let base = (7, &[][..], 0);
    let events = Events::start(listener, "hello", Vec::new(), base, panel).expect("a thread");
    let events = Arc::new(events);
    let mut run = checkpointer_with(
        &store,
        Arc::new(Noting::default()),
        Some(Arc::clone(&events)),
    );
    let mut counted = Vec::new();
    for (at, transitions) in [(2000, 1), (2200, 3), (2400, 3)] {
        let generations = after(transitions);
        let number = save(&mut run, at, generations.clone());
        let manifest = checkpoint::load(&store, "hello", number).expect("there");
        counted.push(manifest.events_sent);
        let until = Instant::now() + Duration::from_secs(10);
        while events.sent(&generations) < transitions as u64 {
            assert!(Instant::now() < until, "not told");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(counted, [0, 1, 3]);
    let assignment = Assignment {
        topic: format!("file:{}", path.display()),
        partition: 0,
        next_offset: 0,
    };
    let topics = FileTopics::default();
    let mut reader = topics
        .reader(&[assignment], Arc::new(|| ()))
        .expect("there");
    let (mut told, mut bytes) = (Vec::new(), 1);
    while bytes > 0 {
        let read = reader.poll(usize::MAX, &mut |_, record| {
            let value = record.value.expect("a value");
            let event: Event = serde_json::from_slice(value).expect("JSON");
            told.push((event.seq, event.manifest));
            Ok(())
        });
        bytes = read.expect("readable");
    }
    assert_eq!(told, [(1, 8), (2, 9), (3, 9)]);
}

#[test]
fn a_target_is_told_of_what_changed_and_again_when_it_was_away() {
    let (store, sink) = (Store::memory(), Arc::new(Noting::default()));
    let of_run: Arc<dyn Sink> = Arc::clone(&sink) as _;
    let mut run = checkpointer_with(&store, of_run, None);
    for (at, transitions, away) in [
        (2000, 1, false),
        (2200, 1, false),
        (2400, 2, true),
        (2600, 2, false),
        (2800, 2, false),
    ] {
        sink.away.store(away, Ordering::Relaxed);
        save(&mut run, at, after(transitions));
    }
    let noted = sink.noted.lock().expect("no panic");
    let noted: Vec<(Stage, Option<u64>)> = noted
        .iter()
        .map(|notes| (notes[0].stage, notes[0].since_ms))
        .collect();
    let expected = [(Stage::Open, Some(1)), (Stage::SourceFinished, Some(2))];
    assert_eq!(noted, expected);
}
