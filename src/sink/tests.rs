//! The queue against sinks that stall, fail, refuse and panic.

use super::queue::{QueueOptions, SinkState, start, version};
use super::replay::Replay;
use super::settings::TargetNotEmpty;
use super::testing::{
    B21_BATCHES, Event, b21, event, options, options_with_failures, push_all, records, table, until,
};
use super::{
    Applied, Change, Place, Rejected, ReplaySafety, Row, RowForm, Sink, WriteError, Writer, admit,
};
use crate::error::Error;
use headwater_operators::record::Op;
use headwater_operators::route::shard_of;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Answer = dyn Fn(&Place, &[Row<'_>]) -> Result<(), WriteError> + Send + Sync;

/// Value and version by key.
type Rows = BTreeMap<String, (Option<String>, u64)>;

/// A map that checks that versions grow, and answers as it is told.
#[derive(Clone)]
struct Fake {
    rows: Arc<Mutex<Rows>>,
    places: Arc<Mutex<Vec<Place>>>,
    answer: Arc<Answer>,
    shards: usize,
    one: bool,
}

fn fake(
    answer: impl Fn(&Place, &[Row<'_>]) -> Result<(), WriteError> + Send + Sync + 'static,
) -> Fake {
    Fake {
        rows: Arc::default(),
        places: Arc::default(),
        answer: Arc::new(answer),
        shards: 1,
        one: false,
    }
}

impl Sink for Fake {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Unsafe("it appends".into())
    }
    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }
    fn one_writer_a_process(&self) -> bool {
        self.one
    }
    fn shards_a_worker(&self) -> usize {
        self.shards
    }
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
    fn writer(&self, place: Place) -> Result<Box<dyn Writer>, Error> {
        self.places.lock().unwrap().push(place);
        Ok(Box::new((place, self.clone())))
    }
}

impl Writer for (Place, Fake) {
    fn write(&mut self, batch: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        let answer = (self.1.answer)(&self.0, batch);
        if matches!(answer, Ok(()) | Err(WriteError::Rejected(_))) {
            let mut rows = self.1.rows.lock().unwrap();
            for row in batch {
                let value = match row.change {
                    Change::Upsert(value) => Some(String::from_utf8(value.to_vec()).unwrap()),
                    Change::Delete => None,
                };
                let key = String::from_utf8(row.key.to_vec()).unwrap();
                let before = rows.insert(key, (value, row.version));
                assert!(before.is_none_or(|(_, version)| version < row.version));
            }
        }
        answer
    }
}

fn numbered(ids: std::ops::Range<u32>) -> Vec<Event> {
    ids.map(|id| event(&format!("{{\"id\":{id}}}"), "{\"v\":1}"))
        .collect()
}

#[test]
fn b21_in_every_batch_size_and_any_number_of_shards() {
    let dir = tempfile::tempdir().unwrap();
    for batch_rows_max in B21_BATCHES {
        for shards in [1, 3] {
            let sink = Fake {
                shards,
                ..fake(|_, _| Ok(()))
            };
            let options = QueueOptions {
                batch_rows_max,
                ..options(&[table("public.hello")], dir.path())
            };
            super::testing::write_all(&sink, &options, &b21());
            let rows = sink.rows.lock().unwrap();
            let there = rows.iter().filter(|(_, (value, _))| value.is_some());
            let keys: Vec<&str> = there.map(|(key, _)| key.as_str()).collect();
            assert_eq!(keys, ["{\"id\":1}", "{\"id\":4}"]);
            assert!(rows["{\"id\":1}"].0.as_ref().unwrap().contains("again"));
        }
    }
}

#[test]
fn durable_waits_for_every_shard() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap();
    let inside = Arc::clone(&gate);
    let sink = Fake {
        shards: 2,
        ..fake(move |place, _| {
            if place.shard == 1 {
                drop(inside.lock().unwrap());
            }
            Ok(())
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let mut queue = start(&sink, &options(&[table("t")], dir.path()))
        .unwrap()
        .remove(0);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&woken);
    queue.set_waker(Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    for id in 0..20 {
        assert_eq!(queue.push(records(&numbered(id..id + 1), 0)), u64::from(id));
    }
    let of_shard_0 = |events: &[Event]| {
        let records = records(events, 0);
        headwater_operators::route::shard_of(records.get(0).fingerprint, 2) == 0
    };
    let events = numbered(0..20);
    let first_stuck = events.chunks(1).position(|one| !of_shard_0(one)).unwrap();
    let free = events.chunks(1).filter(|one| of_shard_0(one)).count();
    until("the free shard", || sink.rows.lock().unwrap().len() >= free);
    assert_eq!(queue.durable(), first_stuck as u64);
    drop(closed);
    until("all", || queue.durable() == 20);
    assert!(woken.load(Ordering::SeqCst) > 0);
    // Nothing to write is durable at once.
    assert_eq!(queue.push(records(&[], 0)), 20);
    assert_eq!(queue.durable(), 21);
}

#[test]
fn a_batch_is_tried_again_and_the_state_says_so() {
    let tries = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&tries);
    let sink = fake(move |_, rows| {
        assert_eq!(rows[0].key, b"{\"id\":0}", "the same batch again");
        match seen.fetch_add(1, Ordering::SeqCst) {
            0..4 => Err(WriteError::Retry("it is away".into())),
            _ => Ok(()),
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let mut queue = start(&sink, &options(&[table("t")], dir.path()))
        .unwrap()
        .remove(0);
    queue.push(records(&numbered(0..1), 0));
    let is_retrying = |state: SinkState| match state {
        SinkState::Retrying {
            attempts, reason, ..
        } => attempts > 1 && reason == "it is away",
        _ => false,
    };
    until("retrying", || is_retrying(queue.state()));
    assert_eq!(queue.durable(), 0);
    until("durable", || queue.durable() == 1);
    assert_eq!(queue.state(), SinkState::Running);
    assert_eq!(tries.load(Ordering::SeqCst), 5);
    assert_eq!(queue.rows_written(), 1);
}

fn failure_of(sink: &Fake) -> Error {
    let dir = tempfile::tempdir().unwrap();
    let (options, failures) = options_with_failures(&[table("public.hello")], dir.path());
    let mut queue = start(sink, &options).unwrap().remove(0);
    queue.push(records(&numbered(0..3), 70));
    until("failed", || !failures.lock().unwrap().is_empty());
    queue.push(records(&numbered(3..4), 73));
    until("state", || matches!(queue.state(), SinkState::Failed(_)));
    assert_eq!(queue.durable(), 0);
    assert_eq!(failures.lock().unwrap().len(), 1);
    failures.lock().unwrap().remove(0)
}

#[test]
fn failures_are_told_once_and_nothing_is_durable_after() {
    let fatal = failure_of(&fake(|_, _| Err(WriteError::Fatal(Error::failed("gone")))));
    assert_eq!(fatal.text, "gone");
    let panicked = failure_of(&fake(|_, _| panic!("planted")));
    assert!(panicked.text.contains("panicked"), "{panicked}");
    let refusing = fake(|_, _| {
        let reason = "too long".into();
        Err(WriteError::Rejected(vec![Rejected { index: 1, reason }]))
    });
    let refused = failure_of(&refusing).text;
    for part in [
        "public.hello",
        "app.public.hello (mutations) partition 3 offset 71",
        "id",
        "too",
    ] {
        assert!(refused.contains(part), "{part} is not in {refused}");
    }
    assert!(!refused.contains("{\"id\":1}"), "no values: {refused}");
}

#[test]
fn refused_rows_go_to_the_dead_letters() {
    let sink = fake(|_, rows| {
        let rows = rows
            .iter()
            .enumerate()
            .filter(|(_, row)| row.origin.offset % 2 == 1);
        let reject = |(index, _)| Rejected {
            index,
            reason: "odd".into(),
        };
        Err(WriteError::Rejected(rows.map(reject).collect()))
    });
    let dir = tempfile::tempdir().unwrap();
    let letters = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&letters);
    let mut options = options(&[table("t")], dir.path());
    options.dead_letter = Some(Arc::new(move |row: &Row<'_>, reason: &str| {
        seen.lock()
            .unwrap()
            .push((row.origin.offset, reason.to_owned()));
        Ok(())
    }));
    let mut queue = start(&sink, &options).unwrap().remove(0);
    push_all(&mut queue, &numbered(0..5));
    assert_eq!(
        *letters.lock().unwrap(),
        [(1, "odd".to_owned()), (3, "odd".to_owned())]
    );
    assert_eq!(queue.rows_written(), 3);
}

#[test]
fn quarantined_records_are_on_disk_before_they_are_durable() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("held");
    let sink = fake(|_, _| Ok(()));
    let mut queue = start(&sink, &options(&[table("public.hello")], &folder))
        .unwrap()
        .remove(0);
    let held = Event {
        op: Op::Quarantined,
        ..event("{\"id\":5}", "{\n\"after\":{}}")
    };
    let odd = Event {
        key: "raw".into(),
        ..held.clone()
    };
    push_all(
        &mut queue,
        &[event("{\"id\":1}", "{}"), held.clone(), held, odd],
    );
    let text = std::fs::read_to_string(folder.join("quarantine.1.0.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3, "not folded: {text}");
    let expected = serde_json::json!({
        "topic": "snap.public.hello", "role": "snapshot", "table": "public.hello",
        "partition": 3, "offset": 1, "generation": 1, "version": version(1, 2),
        "reason": "forgotten_markers", "key": {"id": 5}, "value": {"after": {}},
    });
    assert_eq!(lines[0], expected);
    assert_eq!(lines[2]["key_base64"], "cmF3");
    assert_eq!(
        sink.rows.lock().unwrap().len(),
        1,
        "none of them is in the target"
    );
}

#[test]
fn one_writer_serves_all_workers_of_a_process() {
    let sink = Fake {
        one: true,
        ..fake(|_, _| Ok(()))
    };
    let dir = tempfile::tempdir().unwrap();
    let options = QueueOptions {
        first_worker: 4,
        workers: 2,
        incarnation: 7,
        ..options(&[table("t")], dir.path())
    };
    let mut queues = start(&sink, &options).unwrap();
    push_all(&mut queues[0], &numbered(0..9));
    push_all(&mut queues[1], &numbered(9..12));
    // One worker that ends does not end the others.
    drop(queues.remove(0));
    push_all(&mut queues[0], &numbered(12..14));
    let place = Place {
        incarnation: 7,
        worker: 4,
        shard: 2,
    };
    assert_eq!(*sink.places.lock().unwrap(), [place]);
    assert_eq!(sink.rows.lock().unwrap().len(), 14);
}

#[test]
fn versions_grow_over_incarnations() {
    assert!(version(2, 1) > version(1, (1 << 40) - 1));
    let dir = tempfile::tempdir().unwrap();
    let options = QueueOptions {
        incarnation: 1 << 24,
        ..options(&[table("t")], dir.path())
    };
    let error = start(&fake(|_, _| Ok(())), &options).err().unwrap();
    assert!(error.text.contains("24 bits"), "{error}");
}

#[test]
fn an_unsafe_sink_needs_a_reason() {
    let sink = fake(|_, _| Ok(()));
    for because in [None, Some(" ")] {
        let error = admit::admit(&sink, because, true, TargetNotEmpty::Refuse).unwrap_err();
        assert!(
            error.text.contains("it appends") && error.kind.exit_code() == 4,
            "{error}"
        );
    }
    let because = Some("the index drops duplicates");
    admit::admit(&sink, because, true, TargetNotEmpty::Refuse).unwrap();
}

/// Sizes of the batches that a sink was given.
fn sizes(seen: &Arc<Mutex<Vec<usize>>>) -> Vec<usize> {
    seen.lock().unwrap().clone()
}

fn recording() -> (Fake, Arc<Mutex<Vec<usize>>>) {
    let seen = Arc::<Mutex<Vec<usize>>>::default();
    let into = Arc::clone(&seen);
    let sink = fake(move |_, batch| {
        into.lock().unwrap().push(batch.len());
        Ok(())
    });
    (sink, seen)
}

#[test]
fn a_replay_is_held_and_written_at_once_when_all_of_it_has_come() {
    let (mut sink, seen) = recording();
    sink.one = true;
    let dir = tempfile::tempdir().unwrap();
    let replay = Arc::new(Replay::new(true, 1 << 20, 1));
    let options = QueueOptions {
        workers: 2,
        // A batch of the stream would be smaller.
        batch_rows_max: 2,
        replay: Arc::clone(&replay),
        ..options(&[table("t")], dir.path())
    };
    let mut queues = start(&sink, &options).unwrap();
    let [one, two] = &mut queues[..] else {
        panic!("two queues");
    };
    one.push(records(&numbered(0..10), 0));
    one.push(records(&numbered(5..15), 10));
    two.push(records(&numbered(20..25), 0));
    one.passed(Some(1000));
    replay.ends_at(40);
    // A worker that has not got all of it holds the lane of the process.
    one.passed(Some(60));
    two.passed(Some(40));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((sizes(&seen), one.durable()), (vec![], 0));
    two.passed(Some(60));
    until("durable", || one.durable() == 2 && two.durable() == 1);
    // Folded: a row a key.
    assert_eq!(sizes(&seen), [20]);
    one.push(records(&numbered(0..3), 20));
    until("durable", || one.durable() == 3);
    assert_eq!(sizes(&seen), [20, 2, 1]);
}

#[test]
fn a_replay_that_is_too_large_is_a_stream_and_says_so() {
    let (sink, seen) = recording();
    let dir = tempfile::tempdir().unwrap();
    let replay = Arc::new(Replay::new(true, 200, 1));
    let options = QueueOptions {
        batch_rows_max: 4,
        replay: Arc::clone(&replay),
        ..options(&[table("t")], dir.path())
    };
    let mut queue = start(&sink, &options).unwrap().remove(0);
    assert!(!replay.streams());
    for id in 0..20 {
        queue.push(records(&numbered(id..id + 1), u64::from(id)));
    }
    until("durable", || queue.durable() == 20);
    assert!(replay.streams());
    assert!(sizes(&seen).len() > 1);
}

#[test]
fn a_replay_without_a_record_ends_too() {
    let (sink, _) = recording();
    let dir = tempfile::tempdir().unwrap();
    let replay = Arc::new(Replay::new(true, 200, 1));
    let options = QueueOptions {
        replay: Arc::clone(&replay),
        ..options(&[table("t")], dir.path())
    };
    let mut queue = start(&sink, &options).unwrap().remove(0);
    replay.ends_at(40);
    queue.passed(None);
    queue.push(records(&numbered(0..3), 0));
    until("durable", || queue.durable() == 1);
}

#[test]
fn a_quiet_shard_lets_go_when_another_one_makes_the_replay_a_stream() {
    let (mut sink, _) = recording();
    sink.shards = 2;
    let dir = tempfile::tempdir().unwrap();
    let replay = Arc::new(Replay::new(true, 400, 1));
    let options = QueueOptions {
        replay: Arc::clone(&replay),
        ..options(&[table("t")], dir.path())
    };
    let mut queue = start(&sink, &options).unwrap().remove(0);
    let shard = |id: &u32| {
        let key = format!("{{\"id\":{id}}}");
        shard_of(super::testing::fingerprint(0, &key), 2)
    };
    let quiet = (0..).find(|id| shard(id) == 0).unwrap();
    let busy = (0..).find(|id| shard(id) == 1).unwrap();
    queue.push(records(&numbered(quiet..quiet + 1), 0));
    // One hot key: all of the rest is for the other shard.
    for offset in 1..50 {
        queue.push(records(&numbered(busy..busy + 1), offset));
    }
    until("it streams", || replay.streams());
    // A source whose budget is spent sends nothing more before this is durable.
    until("durable", || queue.durable() == 50);
}

#[test]
fn a_replay_that_comes_to_a_halt_is_let_go_of() {
    let (sink, _) = recording();
    let dir = tempfile::tempdir().unwrap();
    let replay = Arc::new(Replay::new(true, 1 << 20, 1));
    let options = QueueOptions {
        replay: Arc::clone(&replay),
        ..options(&[table("t")], dir.path())
    };
    let mut queue = start(&sink, &options).unwrap().remove(0);
    queue.push(records(&numbered(0..3), 0));
    // The source has spent its budget on READs that the merge drops: nothing comes any more, and
    // nothing is durable before this is.
    until("durable", || queue.durable() == 1);
    assert!(replay.streams());
}
