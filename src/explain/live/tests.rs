//! A job on topics in memory and a clock that a hand moves, asked while it runs and when it has
//! ended: both must say the same.

use super::{ask, explain};
use crate::checkpoint;
use crate::clock::ManualClock;
use crate::embed::Embedded;
use crate::error::Error;
use crate::explain::facts::{Explanation, Outcome, Source};
use crate::explain::key;
use crate::explain::saved::{self, Terms};
use crate::job::{Finish, Job, Shown};
use crate::launch;
use crate::store::Store;
use crate::topic::memory::{MemoryTopics, OwnedRecord};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const WALL_MS: u64 = 1_800_000_000_000;

struct Running {
    folder: tempfile::TempDir,
    topics: MemoryTopics,
    clock: Arc<ManualClock>,
    job: Arc<Job>,
    workers: JoinHandle<Result<(), Error>>,
}

fn configuration(folder: &Path, retention: &str) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let table = |name: &str, more: &str| {
        format!("[[table]]\nname = \"public.{name}\"\nmutations = \"m\"\nsnapshot = \"s\"\n{more}")
    };
    format!(
        "job = \"hello\"\n{}{}[retention]\n{retention}\n[checkpoint]\nstore = \"file:{}\"\n\
         interval = \"1000h\"\n[quarantine]\npath = \"{}\"\n[sink]\nkind = \"jsonl\"\n\
         path = \"{}\"\n",
        table("a", ""),
        table("b", "key = [\"region\", \"id\"]\n"),
        at("state"),
        at("quarantine"),
        at("out")
    )
}

fn mutation(table: &str, key: &str) -> OwnedRecord {
    let value = format!(
        "{{\"before\":null,\"after\":{key},\"op\":\"u\",\"ts_ms\":1,\"source\":{{\"ts_ms\":1,\
         \"snapshot\":\"false\",\"schema\":\"public\",\"table\":\"{table}\"}}}}"
    );
    OwnedRecord::new(Some(key), Some(&value))
}

impl Running {
    fn start(retention: &str, workers: usize) -> Running {
        let folder = tempfile::tempdir().expect("a folder");
        let topics = MemoryTopics::default();
        topics.create("m", 2);
        topics.create("s", 1);
        let clock = Arc::new(ManualClock::default());
        let job = Embedded::new(configuration(folder.path(), retention))
            .topics(topics.clone())
            .clock(clock.clone())
            .workers(workers)
            .finish(Finish::Never)
            .job()
            .unwrap_or_else(|error| panic!("{error}"));
        let of_workers = Arc::clone(&job);
        let workers = std::thread::spawn(move || launch::local(&of_workers, workers, || ()));
        Running {
            folder,
            topics,
            clock,
            job,
            workers,
        }
    }

    /// Moves the clock until it is so.
    fn until<T>(&self, mut done: impl FnMut(&Shown) -> Option<T>) -> T {
        let limit = Instant::now() + LIMIT;
        loop {
            let shown = self.job.panel.shown();
            if let Some(found) = done(&shown) {
                return found;
            }
            assert!(
                Instant::now() < limit,
                "{shown:?} {:?}",
                self.job.failures.first()
            );
            self.clock.advance(20);
            std::thread::yield_now();
        }
    }

    fn mutations(&self, count: u64) {
        self.until(|shown| (shown.counts.mutations_emitted >= count).then_some(()));
    }

    fn asked(&self, table: &str, text: &str) -> Explanation {
        let (asked, answer) = ask(&self.job, table, text).unwrap_or_else(|e| panic!("{e}"));
        let mut answer = answer.expect("nobody else asks");
        let looked = self.until(|_| answer.try_recv().ok());
        explain(&self.job, "hello", &asked, &looked, WALL_MS)
    }

    /// Stops it; what its last checkpoint says of these keys.
    fn saved(self, keys: &[(&str, &str)]) -> Vec<Explanation> {
        self.job.panel.stop();
        let ends = |_: &Shown| self.workers.is_finished().then_some(());
        self.until(ends);
        let ended = self.workers.join().expect("no panic");
        ended.unwrap_or_else(|error| panic!("{error}"));
        let place = format!("file:{}", self.folder.path().join("state").display());
        let store = Store::open(&place).expect("a folder");
        let manifest = checkpoint::latest(&store, "hello").expect("readable");
        let manifest = manifest.expect("the last checkpoint");
        let settings = &self.job.settings;
        let terms = Terms {
            tables: &self.job.tables,
            keep: settings.keep_markers,
            start_margin_ms: settings.start_margin_ms,
            on_forgotten: settings.on_forgotten,
        };
        let explained = keys.iter().map(|(table, text)| {
            let number = key::table_number(&self.job.tables, table).expect("a table");
            let shape = key::shape_of(&manifest.shapes, number);
            let key = key::read(&self.job.tables[number], shape, Default::default(), text);
            let key = key.unwrap_or_else(|error| panic!("{error}"));
            saved::explain(&store, &manifest, terms, number, &key, "it ended").expect("explained")
        });
        explained.collect()
    }
}

/// What does not depend on who is asked, and when.
fn essence(found: &Explanation) -> impl PartialEq + std::fmt::Debug + use<> {
    let marked = found.marked.as_ref().map(|at| at.job_ms);
    let generations: Vec<_> = found
        .generations
        .iter()
        .map(|of| {
            let flags = (of.open, of.marker_in_window, of.at_risk);
            (of.id.clone(), of.window_from.job_ms, flags, of.outcome)
        })
        .collect();
    let forgotten = found.forgotten_through.as_ref().map(|at| at.job_ms);
    (
        found.key.clone(),
        found.columns.clone(),
        marked,
        forgotten,
        generations,
    )
}

#[test]
fn a_job_and_its_last_checkpoint_say_the_same() {
    let running = Running::start("start_margin = \"0s\"", 3);
    let keys = [
        ("a", "{\"name\":\"x\\u0079\"}", "\"xy\""),
        ("a", "{\"name\":\"never\"}", "{\"name\":\"never\"}"),
        (
            "b",
            "{\"region\":\"eu\",\"id\":7}",
            "{\"id\":7.0,\"region\":\"eu\"}",
        ),
        (
            "b",
            "{\"region\":\"us\",\"id\":7}",
            "{\"id\":7,\"region\":\"us\"}",
        ),
    ];
    running.mutations(0);
    for (index, (table, record, _)) in keys.iter().enumerate() {
        if index % 2 == 0 {
            running
                .topics
                .append("m", index / 2, mutation(table, record));
        }
    }
    running.mutations(2);
    let names = ["public.a", "public.a", "public.b", "public.b"];
    let asked: Vec<(&str, &str)> = names.into_iter().zip(keys.map(|(_, _, key)| key)).collect();
    let live: Vec<Explanation> = asked
        .iter()
        .map(|(table, key)| running.asked(table, key))
        .collect();
    let outcomes: Vec<Outcome> = live.iter().map(|f| f.generations[0].outcome).collect();
    use Outcome::{DroppedMarker, Emitted};
    assert_eq!(outcomes, [DroppedMarker, Emitted, DroppedMarker, Emitted]);
    assert!(live.iter().all(|found| found.source == Source::Live));
    // The wall is that of now, less what has passed since.
    let at = live[0].marked.as_ref().expect("marked");
    let wall = crate::config::units::parse_instant(at.wall_earliest.as_ref().expect("known"));
    let expected = WALL_MS - (live[0].as_of.job_ms - at.job_ms);
    assert_eq!(wall, i64::try_from(expected).ok());
    for (table, key, part) in [
        ("a", "1", "one of: public.a, public.b"),
        ("public.a", "1", "column `name`"),
        ("public.b", "{\"id\":1}", "{id: number, region: text}"),
    ] {
        let error = ask(&running.job, table, key).map(|_| ()).expect_err(key);
        assert!(error.text.contains(part), "{part} in {error}");
    }
    let saved = running.saved(&asked);
    for (live, saved) in live.iter().zip(&saved) {
        assert_eq!(essence(live), essence(saved));
        assert!(matches!(saved.source, Source::Checkpoint { .. }));
    }
}

#[test]
fn a_forgotten_marker_may_have_been_there() {
    let retention = "keep_markers = \"ttl\"\nttl = \"100h\"\nstart_margin = \"0s\"";
    let running = Running::start(retention, 1);
    running.mutations(0);
    running
        .topics
        .append("m", 0, mutation("a", "{\"name\":\"old\"}"));
    running.mutations(1);
    let key = "{\"name\":\"old\"}";
    let before = running.asked("public.a", key);
    assert_eq!(before.generations[0].outcome, Outcome::DroppedMarker);
    // Far: the hand moves on while an answer is waited for.
    let hours_ms = 3_600_000;
    let passed = running.job.panel.shown().now_ms + 101 * hours_ms;
    running.clock.advance(102 * hours_ms);
    running.until(|shown| (shown.now_ms > passed && shown.durable_ms > passed).then_some(()));
    let after = running.asked("public.a", key);
    assert_eq!(after.marked, None);
    assert_eq!(after.generations[0].outcome, Outcome::Quarantined);
    let text = crate::explain::words::text(&after, None);
    assert!(text.contains("may be stale and is quarantined"), "{text}");
    let saved = running.saved(&[("public.a", key)]);
    assert_eq!(essence(&saved[0]), essence(&after));
}
