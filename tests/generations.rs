//! Generations of a running job: opened, paused, aborted, replaced, restarted, on topics in memory.
//!
//! Invariant: what is asserted was told by a durable manifest, or stands in the target.

use headwater::embed::Embedded;
use headwater::error::Error;
use headwater::generation::request::{Body, Open, Outcome, Request};
use headwater::generation::{Answer, Refusal, Stage};
use headwater::job::{Finish, Job, Shown, ShownGeneration};
use headwater::launch;
use headwater::topic::Assignment;
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const LIMIT: Duration = Duration::from_secs(60);

struct World {
    folder: tempfile::TempDir,
    topics: MemoryTopics,
    more: &'static str,
    asked: AtomicU64,
}

struct Running {
    job: Arc<Job>,
    workers: JoinHandle<Result<(), Error>>,
}

fn now_ms() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("after 1970").as_millis()
}

fn record(op: char, table: &str, id: u64, greeting: &str) -> OwnedRecord {
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
    fn new(more: &'static str) -> World {
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

    fn start(&self, workers: usize) -> Running {
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

    fn ask(&self, running: &Running, body: Body) -> Outcome {
        let id = format!("r{}", self.asked.fetch_add(1, Ordering::Relaxed));
        let outcome = running.job.panel.desk.ask(Request { id, body });
        outcome.recv_timeout(LIMIT).expect("an answer")
    }

    fn done(&self, running: &Running, body: Body) -> Answer {
        let asked = format!("{body:?}");
        self.ask(running, body)
            .unwrap_or_else(|refusal| panic!("{asked}: {refusal}"))
    }

    /// A second snapshot of a table, into a topic of its own.
    fn open(&self, running: &Running, table: u16, topic: &str) -> Answer {
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

    fn rows(&self, table: &str) -> BTreeMap<u64, String> {
        let path = self.folder.path().join("target.sqlite");
        let database = rusqlite::Connection::open(path).expect("the target");
        let text = format!("SELECT id, greeting FROM {table}");
        let mut query = database.prepare(&text).expect("a table");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }

    fn end(&self, topic: &str, partitions: usize, generation: &str) {
        for partition in 0..partitions {
            let end = OwnedRecord::end_of_snapshot(generation);
            self.topics.append(topic, partition, end);
        }
    }

    /// READs of both tables, and the end of their snapshot.
    fn first_snapshot(&self) {
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
    fn until<T>(&self, what: &str, mut look: impl FnMut(&Shown) -> Option<T>) -> T {
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

    fn until_stage(&self, id: &str, stage: Stage) -> ShownGeneration {
        self.until(&format!("{id} {stage:?}"), |shown| {
            let found = shown.generations.iter().find(|of| of.state.id == id)?;
            (found.state.stage == stage).then(|| found.clone())
        })
    }

    fn stop(self) {
        self.job.panel.stop();
        let ended = self.workers.join().expect("no panic");
        ended.unwrap_or_else(|error| panic!("{error}"));
    }
}

fn stages(of: &ShownGeneration) -> Vec<Stage> {
    of.state
        .reached
        .iter()
        .map(|reached| reached.stage)
        .collect()
}

const WAY: [Stage; 5] = [
    Stage::Open,
    Stage::SourceFinished,
    Stage::TopicConsumed,
    Stage::CaughtUp,
    Stage::Ready,
];

#[test]
fn a_restart_takes_no_stage_back() {
    let world = World::new("");
    let first = world.start(2);
    first.until_stage("g1", Stage::Open);
    first.stop();
    world.topics.append("ma", 0, record('u', "a", 0, "newer"));
    world.first_snapshot();
    // Stopped at any moment on its way, on other numbers of workers.
    for workers in [1, 3, 2] {
        let running = world.start(workers);
        running.until("a step", |shown| {
            (shown.generations.first()?.state.reached.len() > 1).then_some(())
        });
        running.stop();
    }
    let running = world.start(2);
    let ready = running.until_stage("g1", Stage::Ready);
    assert_eq!(stages(&ready), WAY, "each stage once");
    let durable = running.until("a checkpoint", |shown| shown.saved.clone());
    running.stop();
    let again = world.start(1);
    let still = again.until_stage("g1", Stage::Ready);
    assert_eq!(still.state.reached, ready.state.reached);
    assert!(durable.number > 0);
    again.stop();
    assert_eq!(world.rows("a")[&0], "newer");
    assert_eq!((world.rows("a").len(), world.rows("b").len()), (6, 6));
}

#[test]
fn two_generations_of_different_tables_go_on_at_once_and_a_newer_one_replaces_an_older() {
    let world = World::new("");
    let running = world.start(2);
    world.first_snapshot();
    running.until_stage("g1", Stage::Ready);
    let answer = world.open(&running, 0, "sa2");
    assert_eq!(answer.generation.as_deref(), Some("g2"));
    assert!(answer.manifest > 0, "it is durable: {answer:?}");
    world.open(&running, 1, "sb2");
    // Unread before its open; decided against markers that came after it.
    world.topics.append("ma", 0, record('u', "a", 1, "live"));
    running.until("the mutation", |shown| {
        (shown.counts.mutations_emitted == 1).then_some(())
    });
    for id in 0..4 {
        world
            .topics
            .append("sa2", 0, record('r', "a", id, "second"));
        world
            .topics
            .append("sb2", 0, record('r', "b", id, "second"));
    }
    world.end("sb2", 1, "g3");
    let third = running.until_stage("g3", Stage::Ready);
    assert_eq!(third.counts.emitted, 4);
    running.until_stage("g2", Stage::Open);
    // A newer one of table a takes over; READs of the older one are dropped from then on.
    world.open(&running, 0, "sa3");
    let over = running.until_stage("g2", Stage::Superseded);
    assert_eq!(
        over.state
            .reached
            .last()
            .and_then(|r| r.evidence.as_deref()),
        Some("g4")
    );
    world
        .topics
        .append("sa2", 0, record('r', "a", 5, "too late"));
    world.topics.append("sa3", 0, record('r', "a", 2, "third"));
    world.end("sa3", 1, "g4");
    running.until_stage("g4", Stage::Ready);
    let second = running.until_stage("g2", Stage::Superseded);
    assert_eq!(second.counts.read, 4, "a superseded topic is read no more");
    running.stop();
    let rows = world.rows("a");
    assert_eq!(rows[&0], "second");
    assert_eq!(rows[&1], "live");
    assert_eq!(rows[&2], "third");
    assert_eq!(rows[&5], "first", "a superseded READ was written");
}

#[test]
fn an_aborted_generation_is_read_no_more_and_its_id_is_taken() {
    let world = World::new("");
    let running = world.start(2);
    world.first_snapshot();
    running.until_stage("g1", Stage::Ready);
    world.open(&running, 0, "sa2");
    let abort = || Body::Abort {
        generation: "g2".to_owned(),
        reason: "a wrong topic".to_owned(),
    };
    world.done(&running, abort());
    world
        .topics
        .append("sa2", 0, record('r', "a", 0, "aborted"));
    assert!(matches!(
        world.ask(&running, abort()),
        Err(Refusal::Conflict(_))
    ));
    let unknown = Body::AcceptLag {
        generation: "g9".to_owned(),
    };
    assert!(matches!(
        world.ask(&running, unknown),
        Err(Refusal::Unknown(_))
    ));
    running.stop();
    let again = world.start(3);
    let aborted = again.until_stage("g2", Stage::Aborted);
    let why = aborted
        .state
        .reached
        .last()
        .and_then(|r| r.evidence.clone());
    assert_eq!(why.as_deref(), Some("a wrong topic"));
    assert_eq!(
        world.open(&again, 0, "sa3").generation.as_deref(),
        Some("g3")
    );
    again.stop();
    assert_eq!(world.rows("a")[&0], "first");
}

#[test]
fn reads_are_paused_and_resumed_and_mutations_go_on() {
    let world = World::new("");
    let running = world.start(2);
    let reads = |paused, per_second_max| Body::Reads {
        paused,
        per_second_max,
    };
    world.done(&running, reads(Some(true), None));
    running.stop();
    // The pause is durable.
    let running = world.start(1);
    world.first_snapshot();
    world.topics.append("mb", 0, record('u', "b", 3, "live"));
    running.until("the mutation", |shown| {
        (shown.counts.mutations_emitted == 1).then_some(())
    });
    running.until("some time", |shown| (shown.now_ms > 600).then_some(()));
    let shown = running.job.panel.shown();
    assert_eq!(shown.counts.reads_read, 0, "READs are paused");
    let wait = shown.generations[0].waits.clone().expect("it waits");
    assert_eq!(wait.command.as_deref(), Some("headwater generation resume"));
    world.done(&running, reads(Some(false), Some(Some(1_000))));
    running.until_stage("g1", Stage::Ready);
    running.stop();
    assert_eq!(world.rows("b")[&3], "live");
}

#[test]
fn a_table_is_dropped_so_that_the_others_go_on() {
    let world = World::new("");
    let running = world.start(2);
    world.topics.append("sa", 0, record('r', "a", 0, "first"));
    world.end("sa", 2, "g1");
    running.until("the ends of a", |shown| {
        (shown.generations.first()?.partitions_at_end == (2, 3)).then_some(())
    });
    let drop_table = Body::DropTable {
        generation: "g1".to_owned(),
        table: 1,
    };
    world.done(&running, drop_table);
    let ready = running.until_stage("g1", Stage::Ready);
    assert_eq!(ready.state.dropped_tables, [1]);
    running.stop();
}

#[test]
fn a_late_read_takes_ready_away_before_promotion() {
    let world = World::new("");
    let running = world.start(2);
    world.first_snapshot();
    running.until_stage("g1", Stage::Ready);
    world.topics.append("sb", 0, record('r', "b", 9, "late"));
    let back = running.until_stage("g1", Stage::CaughtUp);
    let wait = back.waits.expect("it is not ready");
    assert!(wait.text.contains("behind the end"), "{wait:?}");
    running.stop();
    let again = world.start(1);
    let still = again.until_stage("g1", Stage::CaughtUp);
    assert_eq!(still.state.late_reads, 1);
    again.stop();
    assert!(!world.rows("b").contains_key(&9), "a late READ was written");
}

#[test]
fn the_ttl_is_set_at_one_tick_and_outlives_a_restart() {
    let world = World::new("[retention]\nkeep_markers = \"ttl\"\nttl = \"1h\"\n");
    let running = world.start(3);
    world.done(&running, Body::Ttl { ttl_ms: 7_200_000 });
    running.stop();
    let again = world.start(1);
    let ttl = again.until("a look", |shown| shown.retention.ttl_ms);
    assert_eq!(ttl, 7_200_000);
    again.stop();
}

#[test]
fn the_same_request_twice_is_done_once() {
    let world = World::new("");
    let running = world.start(2);
    let request = || Request {
        id: "once".to_owned(),
        body: Body::Reads {
            paused: Some(true),
            per_second_max: None,
        },
    };
    let ask = |running: &Running| {
        let outcome = running.job.panel.desk.ask(request());
        outcome.recv_timeout(LIMIT).expect("an answer")
    };
    let first = ask(&running).expect("done");
    assert_eq!(ask(&running), Ok(first.clone()));
    running.stop();
    let again = world.start(2);
    assert_eq!(ask(&again), Ok(first), "after a restart");
    again.stop();
}

/// A dead letter keeps a generation from ready, or takes it back, until a person accepts it, over
/// restarts on any number of workers.
#[test]
fn a_dead_letter_waits_for_a_person() {
    let world = World::new("[decode]\non_error = \"dead_letter\"\n");
    let running = world.start(2);
    let bad = |id: u64| OwnedRecord::new(Some(&format!("{{\"id\":{id}}}")), Some("{"));
    world.topics.append("ma", 0, bad(0));
    world.topics.append("ma", 0, bad(2));
    world.topics.append("ma", 0, record('u', "a", 2, "mended"));
    world.first_snapshot();
    let waits = |running: &Running, letters| {
        running.until("a person is waited for", |shown| {
            let of = shown.generations.first()?;
            let command = of.waits.as_ref()?.command.clone()?;
            let asked = command == "headwater generation accept-dead-letters g1";
            let there = of.state.stage == Stage::CaughtUp && of.dead_letters == letters;
            (asked && there).then(|| shown.dead_letters())
        })
    };
    assert_eq!(waits(&running, 2), 2);
    running.stop();
    assert_eq!(world.rows("a").get(&0), None, "its READ is no truth");
    assert_eq!(world.rows("a")[&2], "mended");
    let running = world.start(3);
    assert_eq!(waits(&running, 2), 2);
    let accept = || Body::AcceptDeadLetters {
        generation: "g1".to_owned(),
    };
    let answer = world.done(&running, accept());
    assert_eq!(answer.text, "the loss of 2 mutations is accepted");
    running.until_stage("g1", Stage::Ready);
    // One more, of the other table.
    world.topics.append("mb", 0, bad(1));
    assert_eq!(waits(&running, 1), 1);
    running.stop();
    let running = world.start(1);
    assert_eq!(waits(&running, 1), 1);
    world.done(&running, accept());
    let ready = running.until_stage("g1", Stage::Ready);
    assert_eq!(ready.state.dead_letters_accepted, 3);
    assert_eq!(
        world.done(&running, accept()).text,
        "there is no dead letter to accept"
    );
    running.stop();
    let running = world.start(2);
    running.until_stage("g1", Stage::Ready);
    running.stop();
}
