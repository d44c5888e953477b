//! Makes a small store with something in every member of a manifest, on a clock that a hand moves:
//! what `tests/fixtures/checkpoint-vN` are made by.
//!
//! ```text
//! incarnation 1, 2 workers   ids 0..40 at the start, forgotten after 10 s; ids 20..80 at 12 s;
//!                            READs, the end of snapshot partition 0        checkpoint 2
//! incarnation 2, 3 workers   takes over                                    checkpoint 3
//!                            ids 80..90; slices of the runs before         checkpoint 4
//! ```
//! It cannot make the same bytes twice: the secret and the wall clock differ.

use headwater::clock::ManualClock;
use headwater::embed::Embedded;
use headwater::error::Error;
use headwater::job::{Finish, Job, Shown};
use headwater::launch;
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use headwater::topic::{Assignment, OffsetRange, Reader, Start, Topics, Waker};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const JOB: &str = "hello";
const MUTATIONS: &str = "app.public.hello";
const SNAPSHOT: &str = "snap.public.hello";
const LIMIT: Duration = Duration::from_secs(120);

/// Topics in memory that have ids, as Kafka's.
#[derive(Clone)]
struct WithIds(MemoryTopics);

impl Topics for WithIds {
    fn ranges(&self, topic: &str) -> Result<Vec<OffsetRange>, Error> {
        self.0.ranges(topic)
    }

    fn partition_count(&self, topic: &str) -> Result<u32, Error> {
        self.0.partition_count(topic)
    }

    fn starts(&self, topic: &str, start: Start) -> Result<Vec<u64>, Error> {
        self.0.starts(topic, start)
    }

    fn topic_id(&self, topic: &str) -> Result<Option<String>, Error> {
        Ok(Some(format!("id-of-{topic}")))
    }

    fn reader(&self, partitions: &[Assignment], waker: Waker) -> Result<Box<dyn Reader>, Error> {
        self.0.reader(partitions, waker)
    }
}

/// Makes the store `state` in `folder`.
pub(crate) fn make(folder: &Path) {
    let topics = MemoryTopics::default();
    topics.create(MUTATIONS, 2);
    topics.create(SNAPSHOT, 2);
    let first = Run::start(folder, &topics, 2);
    append(&topics, MUTATIONS, 'u', 0..40);
    first.rest(40);
    first.pass(12_000);
    append(&topics, MUTATIONS, 'u', 20..80);
    append(&topics, SNAPSHOT, 'r', 30..34);
    topics.append(SNAPSHOT, 0, OwnedRecord::end_of_snapshot("g1"));
    first.rest(104);
    first.stop();
    let second = Run::start(folder, &topics, 3);
    append(&topics, MUTATIONS, 'u', 80..90);
    second.rest(10);
    second.stop();
}

fn append(topics: &MemoryTopics, topic: &str, op: char, ids: std::ops::Range<usize>) {
    for id in ids {
        let source = "{\"schema\":\"public\",\"table\":\"hello\",\"ts_ms\":1}";
        let value = format!(
            "{{\"op\":\"{op}\",\"before\":null,\"after\":{{\"id\":{id},\"greeting\":\"x\"}},\
             \"source\":{source},\"ts_ms\":2}}"
        );
        let key = format!("{{\"id\":{id}}}");
        topics.append(topic, id % 2, OwnedRecord::new(Some(&key), Some(&value)));
    }
}

fn configuration(folder: &Path) -> String {
    let place = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let store = format!("file:{}", place("state"));
    format!(
        "job = \"{JOB}\"\n\
         [[table]]\nname = \"public.hello\"\nmutations = \"{MUTATIONS}\"\n\
         snapshot = \"{SNAPSHOT}\"\n\
         [retention]\nkeep_markers = \"ttl\"\nttl = \"10s\"\nstart_margin = \"0s\"\n\
         [checkpoint]\nstore = {store:?}\ninterval = \"1h\"\nkept = 3\n\
         [quarantine]\npath = {:?}\n\
         [sink]\nkind = \"sqlite\"\npath = {:?}\n\
         setup_sql = \"CREATE TABLE IF NOT EXISTS hello (id INTEGER PRIMARY KEY, greeting TEXT)\"\n",
        place("quarantine"),
        place("hello.sqlite")
    )
}

/// A run of the job, and the hand on its clock.
struct Run {
    job: Arc<Job>,
    clock: Arc<ManualClock>,
    worker: thread::JoinHandle<Result<(), Error>>,
}

impl Run {
    fn start(folder: &Path, topics: &MemoryTopics, workers: usize) -> Run {
        let clock = Arc::new(ManualClock::default());
        let job = Embedded::new(configuration(folder))
            .topics(WithIds(topics.clone()))
            .clock(clock.clone())
            .workers(workers)
            .finish(Finish::Never);
        let job = job.job().unwrap_or_else(|error| panic!("{error}"));
        let running = Arc::clone(&job);
        let worker = thread::spawn(move || launch::local(&running, workers, || ()));
        Run { job, clock, worker }
    }

    fn shown(&self) -> Shown {
        if let Some(error) = self.job.failures.first() {
            panic!("{error}");
        }
        self.job.panel.shown()
    }

    /// Lets so much time pass, and everyone see it.
    fn pass(&self, ms: u64) {
        self.clock.advance(ms);
        let from_ms = self.shown().now_ms;
        self.until(|shown| shown.now_ms > from_ms && shown.durable_ms > from_ms);
    }

    /// Lets time pass until so many records are decided, and durable.
    fn rest(&self, records: u64) {
        self.until(|shown| {
            let counts = &shown.counts;
            let reads = counts.reads_emitted + counts.reads_dropped_marker;
            counts.mutations_emitted + reads + counts.reads_quarantined >= records
        });
        let at_ms = self.shown().now_ms;
        self.until(|shown| shown.durable_ms > at_ms);
    }

    fn until(&self, done: impl Fn(&Shown) -> bool) {
        let limit = Instant::now() + LIMIT;
        while !done(&self.shown()) {
            assert!(Instant::now() < limit, "{:?}", self.shown());
            self.clock.advance(20);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the job; its last checkpoint is in the store then.
    fn stop(self) {
        self.job.panel.stop();
        let limit = Instant::now() + LIMIT;
        while !self.worker.is_finished() {
            assert!(Instant::now() < limit, "{:?}", self.shown());
            self.clock.advance(20);
            thread::sleep(Duration::from_millis(1));
        }
        let ended = self.worker.join().expect("a worker never panics");
        ended.unwrap_or_else(|error| panic!("{error}"));
    }
}
