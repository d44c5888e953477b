//! Topics in memory, a target in SQLite, and jobs on them that are started, asked and stopped.
//!
//! It cannot: be used for what a broker or a cluster does.

use headwater::embed::Embedded;
use headwater::error::Error;
use headwater::generation::request::{Body, Open, Outcome, Request};
use headwater::generation::{Answer, Stage};
use headwater::job::{Finish, Job, Shown, ShownGeneration};
use headwater::launch;
use headwater::topic::Assignment;
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) topics: MemoryTopics,
    pub(crate) more: &'static str,
    pub(crate) asked: AtomicU64,
}

pub(crate) struct Running {
    pub(crate) job: Arc<Job>,
    pub(crate) workers: JoinHandle<Result<(), Error>>,
}

pub(crate) fn now_ms() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_millis()
}

pub(crate) fn record(op: char, table: &str, id: u64, greeting: &str) -> OwnedRecord {
    let key = format!("{{\"id\":{id}}}");
    let (snapshot, now) = (op == 'r', now_ms());
    let value = format!(
        "{{\"before\":null,\"after\":{{\"id\":{id},\"greeting\":\"{greeting}\"}},\"op\":\"{op}\",\
         \"ts_ms\":{now},\"source\":{{\"ts_ms\":{now},\"snapshot\":\"{snapshot}\",\
         \"schema\":\"public\",\"table\":\"{table}\"}}}}"
    );
    OwnedRecord::new(Some(&key), Some(&value))
}

impl World {
    pub(crate) fn new(more: &'static str) -> World {
        let topics = MemoryTopics::default();
        for (topic, partitions) in [("ma", 2), ("mb", 1), ("sa", 2), ("sb", 1)] {
            topics.create(topic, partitions);
        }
        World {
            folder: tempfile::tempdir().expect("a folder"),
            topics,
            more,
            asked: AtomicU64::new(0),
        }
    }

    pub(crate) fn start(&self, workers: usize) -> Running {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let table = |name: &str| {
            format!(
                "[[table]]\nname = \"public.{name}\"\nmutations = \"m{name}\"\n\
                 snapshot = \"s{name}\"\n"
            )
        };
        let text = format!(
            "job = \"hello\"\n{}{}[checkpoint]\nstore = \"file:{}\"\ninterval = \"500ms\"\n\
             [quarantine]\npath = \"{}\"\n[dead_letter]\npath = \"{}\"\n\
             [sink]\nkind = \"sqlite\"\npath = \"{}\"\n\
             setup_sql = \"CREATE TABLE IF NOT EXISTS a(id INTEGER PRIMARY KEY, greeting TEXT); \
             CREATE TABLE IF NOT EXISTS b(id INTEGER PRIMARY KEY, greeting TEXT);\"\n{}",
            table("a"),
            table("b"),
            at("state"),
            at("quarantine"),
            at("dead_letter"),
            at("target.sqlite"),
            self.more,
        );
        let job = Embedded::new(text)
            .topics(self.topics.clone())
            .workers(workers)
            .finish(Finish::Never)
            .job()
            .unwrap_or_else(|error| panic!("{error}"));
        let of_workers = Arc::clone(&job);
        let workers = std::thread::spawn(move || launch::local(&of_workers, workers, || ()));
        Running { job, workers }
    }

    pub(crate) fn ask(&self, running: &Running, body: Body) -> Outcome {
        let id = format!("r{}", self.asked.fetch_add(1, Ordering::Relaxed));
        let outcome = running.job.panel.desk.ask(Request { id, body });
        outcome.recv_timeout(LIMIT).expect("an answer")
    }

    pub(crate) fn done(&self, running: &Running, body: Body) -> Answer {
        let asked = format!("{body:?}");
        self.ask(running, body)
            .unwrap_or_else(|refusal| panic!("{asked}: {refusal}"))
    }

    /// A second snapshot of a table, into a topic of its own.
    pub(crate) fn open(&self, running: &Running, table: u16, topic: &str) -> Answer {
        self.topics.create(topic, 1);
        let open = Open {
            topics: [(table, topic.to_owned())].into(),
            partitions: vec![Assignment {
                topic: topic.to_owned(),
                partition: 0,
                next_offset: 0,
            }],
            ..Open::default()
        };
        self.done(running, Body::Open(open))
    }

    pub(crate) fn rows(&self, table: &str) -> BTreeMap<u64, String> {
        let path = self.folder.path().join("target.sqlite");
        let database = rusqlite::Connection::open(path).expect("the target");
        let text = format!("SELECT id, greeting FROM {table}");
        let mut query = database.prepare(&text).expect("a table");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }

    pub(crate) fn end(&self, topic: &str, partitions: usize, generation: &str) {
        for partition in 0..partitions {
            let end = OwnedRecord::end_of_snapshot(generation);
            self.topics.append(topic, partition, end);
        }
    }

    /// READs of both tables, and the end of their snapshot.
    pub(crate) fn first_snapshot(&self) {
        for id in 0..6_u64 {
            let partition = usize::from(id % 2 == 1);
            let read = record('r', "a", id, "first");
            self.topics.append("sa", partition, read);
            self.topics.append("sb", 0, record('r', "b", id, "first"));
        }
        self.end("sa", 2, "g1");
        self.end("sb", 1, "g1");
    }
}

impl Running {
    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut(&Shown) -> Option<T>) -> T {
        let limit = Instant::now() + LIMIT;
        loop {
            let shown = self.job.panel.shown();
            if let Some(found) = look(&shown) {
                return found;
            }
            let failed = self.job.failures.first();
            assert!(
                Instant::now() < limit && failed.is_none(),
                "{what}: {:#?} {failed:?}",
                shown.generations
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn until_stage(&self, id: &str, stage: Stage) -> ShownGeneration {
        self.until(&format!("{id} {stage:?}"), |shown| {
            let found = shown.generations.iter().find(|of| of.state.id == id)?;
            (found.state.stage == stage).then(|| found.clone())
        })
    }

    /// What was asked of READs, once the job shows it.
    pub(crate) fn until_open(&self) -> (Option<Option<u64>>, Option<u64>) {
        self.until_stage("g1", Stage::Open);
        let control = self.job.panel.shown().read_control;
        (control.per_second_max, control.markers_max)
    }

    pub(crate) fn stop(self) {
        self.job.panel.stop();
        let ended = self.workers.join().expect("no panic");
        ended.unwrap_or_else(|error| panic!("{error}"));
    }
}

pub(crate) fn stages(of: &ShownGeneration) -> Vec<Stage> {
    of.state
        .reached
        .iter()
        .map(|reached| reached.stage)
        .collect()
}

pub(crate) const WAY: [Stage; 5] = [
    Stage::Open,
    Stage::SourceFinished,
    Stage::TopicConsumed,
    Stage::CaughtUp,
    Stage::Ready,
];
