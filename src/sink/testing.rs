//! Records, tables and queues for the tests of sinks.

use super::queue::{QueueOptions, SinkQueue};
use super::replay::Replay;
use super::settings::{SinkKind, SinkSettings};
use super::{
    Applied, Change, Claim, GenerationNote, Origin, Place, Role, Row, Sink, WriteError, Writer,
    queue,
};
use crate::error::Error;
use crate::generation::Stage;
use crate::table::Table;
use crate::topic::names::TopicNames;
use headwater_operators::record::{Op, RecordRef, Records};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) fn table(name: &str) -> Table {
    Table {
        name: name.into(),
        mutations: format!("app.{name}"),
        snapshot: format!("snap.{name}"),
        key: None,
    }
}

/// One record of a history, with owned bytes.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) table: u16,
    pub(super) op: Op,
    pub(super) key: String,
    pub(super) value: String,
}

/// An event of table 0; a value that is empty is a delete.
pub(super) fn event(key: &str, value: &str) -> Event {
    Event {
        table: 0,
        op: if value.is_empty() {
            Op::Delete
        } else {
            Op::Upsert
        },
        key: key.into(),
        value: value.into(),
    }
}

/// A stand-in for the real fingerprint: spread, and equal for equal keys.
pub(super) fn fingerprint(table: usize, key: &str) -> u128 {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d ^ table as u128;
    for byte in key.bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    hash ^ hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(64)
}

pub(super) fn records(events: &[Event], first_offset: u64) -> Records {
    let mut records = Records::default();
    for (offset, event) in (first_offset..).zip(events) {
        records.push(RecordRef {
            fingerprint: fingerprint(usize::from(event.table), &event.key),
            op: event.op,
            table: event.table,
            generation: if event.op.marks() { 0 } else { 1 },
            partition: 3,
            offset,
            read_time_ms: 0,
            key: event.key.as_bytes(),
            value: event.value.as_bytes(),
        });
    }
    records
}

/// A row of table 0 for a writer; a value that is empty is a delete.
pub(super) fn row<'a>(key: &'a str, value: &'a str) -> Row<'a> {
    Row {
        table: 0,
        fingerprint: fingerprint(0, key),
        key: key.as_bytes(),
        change: match value.is_empty() {
            true => Change::Delete,
            false => Change::Upsert(value.as_bytes()),
        },
        version: 1,
        origin: Origin {
            role: Role::Mutations,
            partition: 0,
            offset: 0,
            generation: 0,
        },
    }
}

pub(super) fn options(tables: &[Table], quarantine_dir: &Path) -> QueueOptions {
    QueueOptions {
        incarnation: 1,
        first_worker: 0,
        workers: 1,
        batch_rows_max: 1000,
        batch_bytes_max: 1 << 20,
        tables: tables.into(),
        names: Arc::new(TopicNames::new(tables.into())),
        quarantine_dir: quarantine_dir.into(),
        quarantine_topic: None,
        dead_letters: None,
        dead_letter: None,
        on_failure: Arc::new(|_| ()),
        replay: Arc::new(Replay::none()),
    }
}

/// Options whose failures are collected.
pub(super) fn options_with_failures(
    tables: &[Table],
    dir: &Path,
) -> (QueueOptions, Arc<Mutex<Vec<Error>>>) {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&failures);
    let mut options = options(tables, dir);
    options.on_failure = Arc::new(move |error| seen.lock().unwrap().push(error));
    (options, failures)
}

pub(super) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes the target for a run, as a fresh job does.
pub(super) fn claim(sink: &dyn Sink, incarnation: u32) {
    let job = SinkSettings::new(SinkKind::Null).job;
    sink.claim(&Claim::fresh(&job, incarnation)).unwrap();
}

/// Takes the target, writes a history through a queue in containers of 5 and waits until it is
/// durable.
pub(super) fn write_all(sink: &dyn Sink, options: &QueueOptions, events: &[Event]) {
    claim(sink, options.incarnation);
    write_unclaimed(sink, options, events);
}

/// As [`write_all`], without taking the target: the mock cluster cannot answer for topic ids.
pub(super) fn write_unclaimed(sink: &dyn Sink, options: &QueueOptions, events: &[Event]) {
    let mut queue = queue::start(sink, options).unwrap().remove(0);
    push_all(&mut queue, events);
}

pub(super) fn push_all(queue: &mut SinkQueue, events: &[Event]) {
    let mut ticket = 0;
    for (index, chunk) in events.chunks(5).enumerate() {
        ticket = queue.push(records(chunk, 5 * index as u64));
    }
    until("durable", || {
        if let queue::SinkState::Failed(error) = queue.state() {
            panic!("{error}");
        }
        queue.durable() > ticket
    });
}

pub(super) fn envelope(after: &str) -> String {
    format!(r#"{{"before":null,"after":{after},"source":{{"name":"app"}},"op":"c"}}"#)
}

/// The history of case B21: `d`, tombstone and `c` of one key within a batch, and `c` then `d`.
pub(super) fn b21() -> Vec<Event> {
    let hello =
        |id: u32, greeting: &str| envelope(&format!(r#"{{"id":{id},"greeting":"{greeting}"}}"#));
    let read = Event {
        op: Op::Read,
        ..event(r#"{"id":1}"#, &hello(1, "r"))
    };
    vec![
        read,
        event(r#"{"id":1}"#, ""),
        event(r#"{"id":1}"#, ""),
        event(r#"{"id":1}"#, &hello(1, "again")),
        event(r#"{"id":2}"#, &hello(2, "x")),
        event(r#"{"id":2}"#, ""),
        event(r#"{"id":2}"#, ""),
        event(r#"{"id":3}"#, ""),
        event(r#"{"id":4}"#, &hello(4, "stays")),
    ]
}

/// What B21 leaves.
pub(super) const B21_ROWS: [&str; 2] = ["1|again", "4|stays"];

/// Batch sizes that B21 must not depend on.
pub(super) const B21_BATCHES: [usize; 4] = [1, 2, 7, 1000];

pub(super) fn settings(kind: SinkKind) -> SinkSettings {
    SinkSettings::new(kind)
}

/// The rows that a writer refused, with their reasons.
pub(super) fn rejected(result: Result<(), WriteError>) -> Vec<(usize, String)> {
    match result {
        Err(WriteError::Rejected(rejected)) => rejected
            .into_iter()
            .map(|rejected| (rejected.index, rejected.reason))
            .collect(),
        other => panic!("nothing was refused: {other:?}"),
    }
}

/// The text of a fatal error.
pub(super) fn fatal(result: Result<(), WriteError>) -> String {
    match result {
        Err(WriteError::Fatal(error)) => error.text,
        other => panic!("no fatal error: {other:?}"),
    }
}

/// Whether a test of this binary holds in a process of its own with these variables; faults and
/// plants are read once a process.
pub(super) fn holds_with(test: &str, variables: &[(&str, &str)]) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", test])
        .envs(variables.iter().copied());
    let output = child.output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(words.contains("running 1 test"), "no test {test}: {words}");
    output.status.success()
}

/// How far a partition was applied.
pub(super) fn applied(role: Role, partition: u32, next_offset: u64) -> Applied {
    Applied {
        role,
        topic: role.word().to_owned(),
        partition,
        next_offset,
    }
}

/// A claim by a run that has a checkpoint.
pub(super) fn claim_at(incarnation: u32, checkpoint: u64, identity: &Option<String>) -> Claim {
    let job = SinkSettings::new(SinkKind::Null).job;
    Claim {
        checkpoint,
        identity: identity.clone(),
        ..Claim::fresh(&job, incarnation)
    }
}

/// The place of a shard of a run.
pub(super) fn place(incarnation: u32, shard: usize) -> Place {
    Place {
        incarnation,
        worker: shard,
        shard,
    }
}

/// Writes until it is not to be tried again; how often it was, or the last word.
pub(super) fn until_written(
    writer: &mut dyn Writer,
    rows: &[Row<'_>],
    applied: &[Applied],
) -> Result<u32, WriteError> {
    for retries in 0.. {
        match writer.write(rows, applied) {
            Ok(()) => return Ok(retries),
            Err(WriteError::Retry(reason)) => {
                assert!(retries < 100, "tried in vain: {reason}");
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("it was written or has failed")
}

/// How far a generation is.
pub(super) fn note(number: u32, stage: Stage, since_ms: Option<u64>) -> GenerationNote {
    GenerationNote {
        number,
        id: format!("g{number}"),
        stage,
        since_ms,
    }
}
