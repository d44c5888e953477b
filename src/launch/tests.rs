//! Whole runs on topics in memory and the wall's clock that end badly, or must not end well.

use super::local;
use crate::checkpoint::Resumed;
use crate::clock::{RunningTime, WallClock};
use crate::decode::DecodeSettings;
use crate::error::{Error, ErrorKind};
use crate::failure::Failures;
use crate::generation::Sources;
use crate::guard::GuardSettings;
use crate::job::{Finish, Job, Panel, Partitions, Readiness, Settings};
use crate::key::KeyGate;
use crate::outcome::judge;
use crate::sink::replay::Replay;
use crate::table::Table;
use crate::topic::Assignment;
use crate::topic::memory::{MemoryTopics, OwnedRecord};
use crate::topic::names::TopicNames;
use crate::worker;
use headwater_operators::decide::OnForgotten;
use headwater_operators::record::Records;
use headwater_operators::retention::KeepMarkers;
use headwater_operators::sink::Outlet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Durable at once, and nowhere.
struct Nowhere(u64);

impl Outlet for Nowhere {
    fn push(&mut self, _: Records) -> u64 {
        self.0 += 1;
        self.0 - 1
    }

    fn durable(&mut self) -> u64 {
        self.0
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        tick_ms: 5,
        inflight_bytes_max: 1 << 20,
        reads_inflight_bytes_max: 1 << 20,
        reads_per_second_max: None,
        keep_markers: KeepMarkers::UntilReady {
            open_late_max_ms: 1000,
        },
        start_margin_ms: 1000,
        guard: GuardSettings::default(),
        on_forgotten: OnForgotten::Quarantine,
        rule: true,
        finish: Finish::EndRecords,
        decode: DecodeSettings::default(),
        readiness: Readiness::default(),
    }
}

fn table(name: &str, mutations: &str, snapshot: &str) -> Table {
    Table {
        name: name.to_owned(),
        mutations: mutations.to_owned(),
        snapshot: snapshot.to_owned(),
        key: None,
    }
}

fn assigned(topics: &[(&str, u32)]) -> Vec<Assignment> {
    let of = |(topic, count): &(&str, u32)| {
        let topic = (*topic).to_owned();
        (0..*count).map(move |partition| Assignment {
            topic: topic.clone(),
            partition,
            next_offset: 0,
        })
    };
    topics.iter().flat_map(of).collect()
}

fn job(topics: &MemoryTopics, tables: Vec<Table>, of: Partitions, settings: Settings) -> Job {
    Job {
        gate: Arc::new(KeyGate::new(&tables)),
        names: Arc::new(TopicNames::new(tables.clone().into())),
        tables,
        partitions: of,
        generation_id: "g1".to_owned(),
        generation_names: Default::default(),
        topics: Arc::new(topics.clone()),
        outlet: Box::new(|_, _| Box::new(Nowhere(0))),
        clock: Arc::new(RunningTime::start()),
        settings,
        secret: [7; 16],
        failures: Arc::new(Failures::default()),
        panel: Arc::new(Panel::default()),
        resumed: Resumed::default(),
        replay: Arc::new(Replay::none()),
        checkpoints: None,
        first_worker: 0,
        wall: Arc::new(WallClock),
        sources: Sources::default(),
        witness: None,
        highs: None,
    }
}

/// One table, topics `m` and `s` of so many partitions.
pub(crate) fn one_table(topics: &MemoryTopics, partitions: u32, settings: Settings) -> Job {
    topics.create("m", partitions as usize);
    topics.create("s", partitions as usize);
    let of = Partitions {
        mutations: assigned(&[("m", partitions)]),
        snapshot: assigned(&[("s", partitions)]),
    };
    job(topics, vec![table("public.hello", "m", "s")], of, settings)
}

fn record(table: &str, snapshot: bool, key: &str) -> OwnedRecord {
    let op = if snapshot { "r" } else { "u" };
    let value = format!(
        r#"{{"before":null,"after":{key},"op":"{op}","ts_ms":1,"source":{{"name":"a","ts_ms":1,
        "snapshot":"{snapshot}","schema":"public","table":"{table}","lsn":1}}}}"#
    );
    OwnedRecord::new(Some(key), Some(&value))
}

/// Runs to the end; the error of the run, or of its judgement. A run that hangs fails the test.
fn end(job: Job, workers: usize) -> Result<(), Error> {
    let job = Arc::new(job);
    let (told, tells) = channel();
    std::thread::spawn(move || {
        let ended = local(&job, workers, || {});
        let judged = judge(&job.panel.shown(), &job.settings).map(|_| ());
        let _ = told.send(ended.and(judged));
    });
    tells
        .recv_timeout(Duration::from_secs(20))
        .expect("the run must end")
}

#[test]
fn a_forgotten_marker_at_one_worker_ends_all_of_them() {
    let topics = MemoryTopics::default();
    let mut settings = settings();
    settings.keep_markers = KeepMarkers::Ttl { ttl_ms: 20 };
    settings.on_forgotten = OnForgotten::Fail;
    let job = one_table(&topics, 2, settings);
    topics.append("m", 0, record("hello", false, r#"{"id":1}"#));
    let later = topics.clone();
    let snapshot = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        later.append("s", 0, record("hello", true, r#"{"id":1}"#));
    });
    let error = end(job, 3).expect_err("the READ may be stale");
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    snapshot.join().expect("it only appends");
}

/// A source stamps with the tick before the first one: that mutation is of the window, too.
#[test]
fn the_first_generation_knows_what_was_read_before_its_first_tick() {
    let topics = MemoryTopics::default();
    let mut settings = settings();
    settings.start_margin_ms = 0;
    settings.finish = Finish::EndRecords;
    let mut job = one_table(&topics, 1, settings);
    job.clock = Arc::new(RunningTime::from(400));
    let key = r#"{"id":1}"#;
    topics.append("m", 0, record("hello", false, key));
    let (panel, later) = (Arc::clone(&job.panel), topics.clone());
    let snapshot = std::thread::spawn(move || {
        // Long enough for the mutation to be read first.
        std::thread::sleep(Duration::from_millis(300));
        later.append("s", 0, record("hello", true, key));
        later.append("s", 0, OwnedRecord::end_of_snapshot("g1"));
    });
    end(job, 2).expect("it ends well");
    snapshot.join().expect("it only appends");
    let counts = panel.shown().counts;
    assert_eq!((counts.reads_dropped_marker, counts.reads_emitted), (1, 0));
}

#[test]
fn a_partition_that_came_after_the_start_is_not_lost() {
    for (grown, word) in [("s", "snapshot topic s"), ("m", "mutation topic m")] {
        let topics = MemoryTopics::default();
        let job = one_table(&topics, 1, settings());
        let key = r#"{"id":2}"#;
        topics.append(grown, 1, record("hello", grown == "s", key));
        topics.append("s", 0, OwnedRecord::end_of_snapshot("g1"));
        let error = end(job, 2).expect_err("partition 1 is read by nobody");
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.text.contains(word), "{error}");
    }
}

#[test]
fn a_throttled_source_is_not_an_idle_topic() {
    let topics = MemoryTopics::default();
    let mut settings = settings();
    settings.reads_per_second_max = Some(2);
    settings.finish = Finish::Idle { idle_ms: 300 };
    let job = one_table(&topics, 1, settings);
    for id in 0..3 {
        topics.append("s", 0, record("hello", true, &format!(r#"{{"id":{id}}}"#)));
    }
    let later = topics.clone();
    // The topic is never silent for as long as 300 ms, the throttled source is.
    let writer = std::thread::spawn(move || {
        for id in 3..6 {
            std::thread::sleep(Duration::from_millis(200));
            later.append("s", 0, record("hello", true, &format!(r#"{{"id":{id}}}"#)));
        }
    });
    let panel = Arc::clone(&job.panel);
    end(job, 1).expect("nothing came late");
    assert_eq!(panel.shown().counts.reads_emitted, 6);
    writer.join().expect("it only appends");
}

/// Two workers with a job each stand for two processes, which share no gate.
#[test]
fn keys_that_differ_are_seen_when_two_processes_read_the_two_topics() {
    let topics = MemoryTopics::default();
    let tables = || vec![table("public.a", "ma", "sa"), table("public.b", "mb", "sb")];
    // Table b: mutations are read by worker 1, READs by worker 0.
    let of = Partitions {
        mutations: assigned(&[("ma", 1), ("mb", 1)]),
        snapshot: assigned(&[("sa", 2), ("sb", 1)]),
    };
    for (topic, partitions) in [("ma", 1), ("mb", 1), ("sa", 2), ("sb", 1)] {
        topics.create(topic, partitions);
    }
    topics.append("mb", 0, record("b", false, r#"{"id":1}"#));
    topics.append("sb", 0, record("b", true, r#"{"id":1,"region":2}"#));
    for (topic, partition) in [("sa", 0), ("sa", 1), ("sb", 0)] {
        topics.append(topic, partition, OwnedRecord::end_of_snapshot("g1"));
    }
    let jobs = [(); 2].map(|()| Arc::new(job(&topics, tables(), of.clone(), settings())));
    let (told, tells) = channel();
    let of_workers = jobs.clone();
    let guards = timely::execute(timely::Config::process(2), move |worker| {
        let ended = worker::run(worker, &of_workers[worker.index()]);
        let error = || Error::failed("the other process has ended");
        of_workers
            .iter()
            .for_each(|job| job.failures.report(error()));
        if ended.is_err() {
            for dataflow in worker.installed_dataflows() {
                worker.drop_dataflow(dataflow);
            }
        }
        let _ = told.send((worker.index(), ended));
    });
    let guards = guards.expect("threads");
    let ends = [(); 2].map(|()| tells.recv_timeout(Duration::from_secs(20)).expect("an end"));
    let first = ends.into_iter().find(|(worker, _)| *worker == 0);
    let error = first.expect("worker 0").1.expect_err("no marker can match");
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.text.contains("public.b"), "{error}");
    drop(guards);
}
