//! The live side: threads that append a history to `file` topics while jobs run and die.
//!
//! Invariant: a record is appended when the source has come to its `due`, in offset order, by the
//! one writer of its partition.
//!
//! It cannot tear a record: torn tails are the topic's own tests.

use crate::history::{History, LogRecord, MUTATIONS, SNAPSHOT, What};
use crate::random::Random;
use headwater::topic::END_HEADER;
use headwater::topic::file::{self, FileTopicWriter, NewRecord};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the writers share with the one who drives them.
#[derive(Debug, Default)]
struct Pace {
    /// Where the source is to be.
    target: AtomicU64,
    /// Changes in a millisecond.
    rate: AtomicU64,
    /// Where it is.
    now: AtomicU64,
    stop: AtomicBool,
}

/// Running writers; they stop when this is dropped.
#[derive(Debug)]
pub(crate) struct Writers {
    pace: Arc<Pace>,
    threads: Vec<JoinHandle<()>>,
    end: u64,
}

impl Writers {
    /// Makes the topics in `folder` and starts writers, which wait for [`Writers::advance`].
    pub(crate) fn start(folder: &Path, history: &Arc<History>, seed: u64) -> Self {
        let pace = Arc::new(Pace::default());
        let mut random = Random::new(seed);
        let mut threads = Vec::new();
        for (topic, snapshot) in [(MUTATIONS, false), (SNAPSHOT, true)] {
            let path = folder.join(topic);
            let count = logs(history, snapshot).len();
            file::create(&path, count as u32).expect("a topic");
            // Partitions are dealt out among so many writers.
            let writers = (1 + random.below(3) as usize).min(count);
            for first in 0..writers {
                let mine: Vec<usize> = (first..count).step_by(writers).collect();
                let (history, path) = (Arc::clone(history), path.clone());
                let (pace, random) = (Arc::clone(&pace), Random::new(random.next()));
                threads.push(std::thread::spawn(move || {
                    write(&path, logs(&history, snapshot), &mine, &pace, random);
                }));
            }
        }
        let driver = Arc::clone(&pace);
        threads.push(std::thread::spawn(move || drive(&driver)));
        Writers {
            pace,
            threads,
            end: history.end,
        }
    }

    /// Lets the source go on to `target` with so many changes in a millisecond.
    pub(crate) fn advance(&self, target: u64, rate: u64) {
        self.pace.rate.store(rate.max(1), Ordering::SeqCst);
        self.pace
            .target
            .store(target.min(self.end), Ordering::SeqCst);
    }

    /// Where the source is; appended soon, not yet.
    pub(crate) fn now(&self) -> u64 {
        self.pace.now.load(Ordering::SeqCst)
    }

    /// Appends everything up to `target` before it returns, as a backlog.
    pub(crate) fn backlog(folder: &Path, history: &History, from: u64, target: u64) {
        for (topic, snapshot) in [(MUTATIONS, false), (SNAPSHOT, true)] {
            let path = folder.join(topic);
            let logs = logs(history, snapshot);
            if from == 0 {
                file::create(&path, logs.len() as u32).expect("a topic");
            }
            for (partition, log) in (0..).zip(logs) {
                let mut writer = FileTopicWriter::open(&path, partition).expect("a partition");
                let due = |record: &&LogRecord| (from..target).contains(&record.due);
                log.iter()
                    .filter(due)
                    .for_each(|record| append(&mut writer, record));
                writer.flush().expect("written");
            }
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.pace.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a writer failed");
        }
    }
}

fn logs(history: &History, snapshot: bool) -> &[Vec<LogRecord>] {
    if snapshot {
        &history.snapshot
    } else {
        &history.mutations
    }
}

/// Moves the source on.
fn drive(pace: &Pace) {
    while !pace.stop.load(Ordering::SeqCst) {
        let target = pace.target.load(Ordering::SeqCst);
        let now = pace.now.load(Ordering::SeqCst);
        let next = (now + 2 * pace.rate.load(Ordering::SeqCst)).min(target);
        pace.now.store(next.max(now), Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Appends what is due in some partitions, in bursts.
fn write(path: &Path, logs: &[Vec<LogRecord>], mine: &[usize], pace: &Pace, mut random: Random) {
    let open = |partition: &usize| {
        let writer = FileTopicWriter::open(path, *partition as u32).expect("a partition");
        (writer, &logs[*partition][..])
    };
    let mut left: Vec<(FileTopicWriter, &[LogRecord])> = mine.iter().map(open).collect();
    while left.iter().any(|(_, log)| !log.is_empty()) && !pace.stop.load(Ordering::SeqCst) {
        let now = pace.now.load(Ordering::SeqCst);
        for (writer, log) in &mut left {
            let due = log.partition_point(|record| record.due <= now);
            let burst = due.min(1 + random.below(200) as usize);
            log[..burst]
                .iter()
                .for_each(|record| append(writer, record));
            *log = &log[burst..];
            writer.flush().expect("written");
        }
        std::thread::sleep(Duration::from_micros(random.below(4_000)));
    }
}

fn append(writer: &mut FileTopicWriter, record: &LogRecord) {
    writer.skip_to(record.offset).expect("offsets grow");
    let (key, value) = text(record.what);
    let end = (record.what == What::End).then_some((END_HEADER, Some(&b"g1"[..])));
    let new = NewRecord {
        timestamp_ms: 1_700_000_000_000 + record.due as i64,
        key: key.as_deref().map(str::as_bytes),
        value: value.as_deref().map(str::as_bytes),
        headers: end.as_slice(),
    };
    writer.append(&new).expect("appended");
}

/// A row as JSON; its text is of a length of its own.
fn row(key: u32, index: u32, origin: &str) -> String {
    let pad = "x".repeat((key.wrapping_mul(31).wrapping_add(index * 17) % 90) as usize);
    format!("{{\"id\":{key},\"seq\":{index},\"origin\":\"{origin}\",\"text\":\"{pad}\"}}")
}

/// Key and value as Debezium writes them.
fn text(what: What) -> (Option<String>, Option<String>) {
    let envelope = |op: &str, before: &str, after: &str| {
        let snapshot = op == "r";
        format!(
            "{{\"before\":{before},\"after\":{after},\"source\":{{\"connector\":\"postgresql\",\
             \"snapshot\":\"{snapshot}\",\"schema\":\"public\",\"table\":\"item\",\"ts_ms\":1}},\
             \"op\":\"{op}\",\"ts_ms\":2}}"
        )
    };
    let id = |key: u32| Some(format!("{{\"id\":{key}}}"));
    match what {
        What::Write {
            key,
            index,
            created,
        } => {
            let op = if created { "c" } else { "u" };
            let after = row(key, index, "live");
            (id(key), Some(envelope(op, "null", &after)))
        }
        What::Delete { key, index } => {
            let before = row(key, index - 1, "live");
            (id(key), Some(envelope("d", &before, "null")))
        }
        What::Tombstone { key } => (id(key), None),
        What::Read { key, index } => {
            let after = row(key, index, "read");
            (id(key), Some(envelope("r", "null", &after)))
        }
        What::Heartbeat => (
            Some("{\"serverName\":\"app\"}".to_owned()),
            Some("{\"ts_ms\":1}".to_owned()),
        ),
        What::End => (None, None),
    }
}
