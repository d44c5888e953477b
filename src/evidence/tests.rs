//! The collector on topics in memory and a Kafka Connect of canned answers; captures for others.

use super::collector::{Collector, Settings};
use super::offsets::{LiveOffsets, Proof, SnapshotOffsets};
use super::{DatabaseSeen, Evidence, LiveSeen, Watched};
use crate::config::secret::Secret;
use crate::connect::{Connect, Offsets};
use crate::generation::{Cutoff, Sources};
use crate::topic::memory::{MemoryTopics, OwnedRecord};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

fn lines(name: &str) -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let text = std::fs::read_to_string(folder.join(name)).expect("a capture");
    let line = |line| serde_json::from_str(line).expect("a capture has JSON lines");
    text.lines().map(line).collect()
}

/// The values of the records of a captured topic.
pub(super) fn captured(topic: &str) -> Vec<Vec<u8>> {
    let records = lines(&format!("{topic}.jsonl")).into_iter();
    let value = |record: Value| {
        record["value"]
            .as_str()
            .map(|text| text.as_bytes().to_vec())
    };
    records.filter_map(value).collect()
}

/// The offsets of a connector at a moment that was captured.
pub(super) fn captured_offsets(when: &str) -> Offsets {
    let found = lines("connect_offsets.jsonl")
        .into_iter()
        .find(|line| line["when"] == when);
    let found = found.expect("a moment of the capture");
    let pairs = found["offsets"]["offsets"]
        .as_array()
        .expect("a list")
        .iter();
    Offsets(
        pairs
            .map(|pair| (pair["partition"].clone(), pair["offset"].clone()))
            .collect(),
    )
}

/// Answers by path; what is not set is not there.
#[derive(Clone, Default)]
struct Fake {
    answers: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Fake {
    fn serve(&self) -> Connect {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let answers = Arc::clone(&self.answers);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a client");
                let mut head = (BufReader::new(&stream).lines())
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty());
                let first = head.next().unwrap_or_default();
                head.for_each(drop);
                let path = first.split(' ').nth(1).unwrap_or_default();
                let found = answers.lock().expect("no panic").get(path).cloned();
                let none = r#"{"error_code":404,"message":"Connector not found"}"#.to_owned();
                let code = if found.is_some() { 200 } else { 404 };
                let body = found.unwrap_or(none);
                let length = body.len();
                let _ = write!(
                    &stream,
                    "HTTP/1.1 {code} x\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{body}"
                );
            }
        });
        let url = Secret::url("source.connect", url).resolve();
        Connect::new(&url.expect("no reference")).expect("an address")
    }

    fn set(&self, path: &str, body: impl Into<String>) {
        let path = format!("/connectors/{path}");
        self.answers
            .lock()
            .expect("no panic")
            .insert(path, body.into());
    }

    /// A connector in a state with offsets of a moment.
    fn connector(&self, name: &str, mode: &str, state: &str, when: &str) {
        let status = format!(
            r#"{{"connector":{{"state":"{state}"}},"tasks":[{{"id":0,"state":"{state}",
            "trace":"Boom: no\n\tat x"}}]}}"#
        );
        self.set(&format!("{name}/status"), status);
        self.set(
            &format!("{name}/config"),
            format!(r#"{{"snapshot.mode":"{mode}"}}"#),
        );
        let pairs = captured_offsets(when).0.into_iter();
        let pair = |(partition, offset)| serde_json::json!({"partition":partition,"offset":offset});
        let offsets: Vec<Value> = pairs.map(pair).collect();
        let body = serde_json::json!({ "offsets": offsets }).to_string();
        self.set(&format!("{name}/offsets"), body);
    }
}

fn settings(connect: Option<Connect>) -> Settings {
    Settings {
        connect,
        live: Some("app".to_owned()),
        heartbeat: Some("beats".to_owned()),
        database: None,
        clock_skew_max_ms: 5_000,
        every: Duration::from_millis(10),
    }
}

fn watched(since_ms: i64) -> Watched {
    Watched {
        sources: Sources {
            connector: Some("snap".to_owned()),
            notifications: Some("notes".to_owned()),
        },
        since_ms: Some(since_ms),
        ..Watched::default()
    }
}

/// Looks until something is so.
fn until(collector: &Collector, what: &str, so: impl Fn(&Evidence) -> bool) -> Evidence {
    let begun = Instant::now();
    loop {
        let seen = collector.seen();
        if so(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < LIMIT, "{what}: {seen:#?}");
        std::thread::yield_now();
    }
}

fn note(topics: &MemoryTopics, kind: &str, sent_ms: i64) {
    let value =
        format!(r#"{{"type":"{kind}","aggregate_type":"Initial Snapshot","timestamp":{sent_ms}}}"#);
    topics.append("notes", 0, OwnedRecord::new(None, Some(&value)));
}

#[test]
fn notifications_early_lost_and_repeated() {
    let topics = MemoryTopics::default();
    let collector = Collector::start(settings(None), Arc::new(topics.clone())).expect("threads");
    collector.watch("g1", watched(100));
    let notices =
        |evidence: &Evidence| evidence.generations["g1"].notices.clone().expect("watched");
    // It does not exist yet.
    let seen = until(&collector, "trouble", |e| notices(e).trouble.is_some());
    assert!(
        notices(&seen)
            .trouble
            .expect("so")
            .contains("does not exist")
    );
    topics.create("notes", 1);
    note(&topics, "STARTED", 50);
    note(&topics, "COMPLETED", 110);
    let early = until(&collector, "early", |e| notices(e).scan.completed_early);
    assert_eq!(notices(&early).scan.completed_ms, None);
    assert_eq!(notices(&early).trouble, None);
    note(&topics, "STARTED", 120);
    note(&topics, "COMPLETED", 110);
    note(&topics, "PAUSED", 125);
    let paused = until(&collector, "paused", |e| {
        notices(e).last.is_some_and(|l| l.1 == 125)
    });
    let scan = notices(&paused).scan;
    assert_eq!(
        (scan.starts, scan.completed_ms),
        (1, None),
        "its COMPLETED is lost"
    );
    note(&topics, "COMPLETED", 130);
    let done = until(&collector, "done", |e| {
        notices(e).scan.completed_ms.is_some()
    });
    assert_eq!(notices(&done).completed_at, Some((0, 5)));
    // After a restart: on top of what is remembered, and from a log that was trimmed.
    let kept = notices(&done).scan;
    topics.trim_to("notes", 0, 6);
    let again = Collector::start(settings(None), Arc::new(topics.clone())).expect("threads");
    let remembered = Watched {
        scan: kept.clone(),
        ..watched(100)
    };
    again.watch("g1", remembered);
    note(&topics, "SKIPPED", 140);
    let seen = until(&again, "skipped", |e| notices(e).scan.skipped_ms.is_some());
    assert_eq!(notices(&seen).scan.completed_ms, kept.completed_ms);
    topics.create("notes", 2);
    again.unwatch("g1");
    again.watch("g1", watched(100));
    let grown = until(&again, "grown", |e| notices(e).partitions == 2);
    assert!(
        notices(&grown)
            .trouble
            .expect("two")
            .contains("lose their order")
    );
}

#[test]
fn heartbeats_and_a_cutoff_without_a_database() {
    let topics = MemoryTopics::default();
    topics.create("beats", 1);
    let collector = Collector::start(settings(None), Arc::new(topics.clone())).expect("threads");
    for value in [
        r#"{"ts_ms":7}"#,
        r#"{"schema":null,"payload":{"ts_ms":5}}"#,
        "junk",
    ] {
        topics.append("beats", 0, OwnedRecord::new(None, Some(value)));
    }
    until(&collector, "a heartbeat", |evidence| {
        evidence
            .heartbeat
            .as_ref()
            .is_some_and(|seen| seen.sent_ms == Some(7))
    });
    assert_eq!(collector.seen().live, None, "nothing to ask it of");
    let before_ms = super::wall_ms();
    collector.want_cutoff("g1");
    let cutoff = collector.seen().cutoffs["g1"].clone();
    assert!(cutoff.time_ms >= before_ms + 5_000 && cutoff.position.is_none());
    collector.unwatch("g1");
    assert!(collector.seen().cutoffs.is_empty());
}

#[test]
fn connectors_that_fail_pause_and_finish() {
    let fake = Fake::default();
    let topics = MemoryTopics::default();
    let settings = settings(Some(fake.serve()));
    let collector = Collector::start(settings, Arc::new(topics)).expect("threads");
    collector.watch("g1", watched(100));
    let snap = |evidence: &Evidence| {
        evidence.generations["g1"]
            .connector
            .clone()
            .expect("watched")
    };
    let seen = until(&collector, "asked", |e| snap(e).proof.is_some());
    assert_eq!(snap(&seen).proof, Some(Proof::NotBegun));
    assert_eq!(snap(&seen).state, None);
    assert!(
        snap(&seen)
            .stopped
            .expect("so")
            .contains("no connector `snap`")
    );
    fake.connector("snap", "initial_only", "FAILED", "initial_only: under way");
    fake.connector("app", "no_data", "PAUSED", "live: after it");
    let failed = until(&collector, "failed", |e| {
        snap(e).state.is_some() && snap(e).before.ran
    });
    assert_eq!(snap(&failed).proof, Some(Proof::Running));
    assert_eq!(
        snap(&failed).stopped.as_deref(),
        Some("task 0 is FAILED: Boom: no")
    );
    let paused = until(&collector, "paused", |e| {
        e.live.as_ref().is_some_and(|l| l.state.is_some())
    });
    let live = paused.live.expect("asked");
    assert!(live.stopped.expect("so").contains("PAUSED"));
    assert_eq!(live.offsets.position, Some(66_443_512));
    fake.connector("snap", "initial_only", "RUNNING", "initial_only: finished");
    let done = until(&collector, "done", |e| {
        snap(e).proof == Some(Proof::Finished)
    });
    assert_eq!(snap(&done).offsets, SnapshotOffsets::Finished);
    // An answer that is none: trouble, and what was seen stays.
    fake.set("snap/offsets", r#"{"offsets":7}"#);
    let odd = until(&collector, "odd", |e| snap(e).trouble.is_some());
    assert_eq!(snap(&odd).proof, Some(Proof::Finished));
    // Another generation of the same connector: these offsets are old.
    fake.connector("snap", "initial_only", "RUNNING", "initial_only: finished");
    collector.watch("g2", watched(200));
    let second = |e: &Evidence| e.generations["g2"].connector.clone().expect("watched");
    let old = until(&collector, "old", |e| second(e).proof.is_some());
    assert_eq!(second(&old).proof, Some(Proof::NotNewer));
}

#[test]
fn what_passes_a_cutoff() {
    let evidence = |position, time_ms, proven| Evidence {
        live: Some(LiveSeen {
            offsets: LiveOffsets { position, time_ms },
            ..LiveSeen::default()
        }),
        database: Some(DatabaseSeen {
            proven,
            ..DatabaseSeen::default()
        }),
        ..Evidence::default()
    };
    let cutoff = Cutoff {
        time_ms: 50,
        position: Some(90),
    };
    let timed = Cutoff {
        position: None,
        ..cutoff.clone()
    };
    for (evidence, cutoff, word) in [
        (evidence(Some(90), None, None), &cutoff, "offset"),
        (evidence(Some(89), None, Some(90)), &cutoff, "slot"),
        (evidence(None, Some(51), None), &cutoff, "time"),
        (evidence(Some(89), Some(50), Some(89)), &cutoff, ""),
        (evidence(Some(99), Some(50), Some(99)), &timed, ""),
        (evidence(Some(1), Some(51), None), &timed, "time"),
        (Evidence::default(), &cutoff, ""),
    ] {
        let found = evidence.live_passed(cutoff);
        assert_eq!(found.is_some(), !word.is_empty(), "{evidence:?}");
        assert!(found.unwrap_or("").contains(word), "{found:?}");
    }
}
