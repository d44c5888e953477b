//! The Kafka sink on a real broker: fencing by transactions, restarts of runs and of the broker;
//! and events of generations.
//!
//! A run that is paused inside a transaction is a process of its own: this test binary again, told
//! by its environment to be [`a_run_of_its_own`]. Needs the service scripts, as
//! `tests/kafka_topics.rs`.

#[path = "support/broker.rs"]
mod broker;

use broker::Broker;
use headwater::checkpoint::manifest::GenerationState;
use headwater::error::ErrorKind;
use headwater::events::{Event, Events, Place as Listener};
use headwater::generation::{Reached, Stage};
use headwater::job::Panel;
use headwater::sink::kafka::{GENERATION_HEADER, LogTopic};
use headwater::sink::settings::{SinkKind, SinkSettings, build};
use headwater::sink::{
    Change, Claim, Claimed, Fence, Origin, Place, Role, Row, Sink, WriteError, Writer,
};
use headwater::table::Table;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(60);
/// What tells this binary to be a run; its value is the broker's address.
const CHILD: &str = "HEADWATER_TEST_KAFKA_RUN";
/// The fault points of this target; each is visited in error and in abort mode.
const POINTS: [&str; 2] = ["kafka.commit.before", "kafka.commit.after"];
const CHILD_SHARDS: usize = 3;

fn settings(servers: &str, job: &str) -> SinkSettings {
    SinkSettings {
        job: job.into(),
        topic: Some(job.into()),
        kafka: BTreeMap::from([("bootstrap.servers".to_owned(), servers.to_owned())]),
        ..SinkSettings::new(SinkKind::Kafka)
    }
}

fn sink(settings: &SinkSettings) -> Arc<dyn Sink> {
    let table = Table {
        name: "public.hello".into(),
        mutations: "app".into(),
        snapshot: "snap".into(),
        key: None,
    };
    build(settings, &[table], &BTreeMap::new(), 2).expect("the broker is there")
}

fn claim(job: &str, incarnation: u32, shards_before: usize) -> Claim {
    Claim {
        job: job.into(),
        incarnation,
        checkpoint: 0,
        identity: None,
        shards_before,
    }
}

fn writer(sink: &dyn Sink, incarnation: u32, shard: usize) -> Box<dyn Writer> {
    let worker = shard;
    let place = Place {
        incarnation,
        worker,
        shard,
    };
    sink.writer(place).expect("the broker is there")
}

fn row<'a>(key: &'a str, value: &'a str) -> Row<'a> {
    Row {
        table: 0,
        fingerprint: 0,
        key: key.as_bytes(),
        change: Change::Upsert(value.as_bytes()),
        version: 1,
        origin: Origin {
            role: Role::Mutations,
            partition: 0,
            offset: 0,
            generation: 0,
        },
    }
}

/// Writes rows as a lane does; how often it had to try again.
fn write(writer: &mut dyn Writer, rows: &[(&str, &str)]) -> Result<usize, WriteError> {
    let rows: Vec<_> = rows.iter().map(|(key, value)| row(key, value)).collect();
    for attempts in 0.. {
        match writer.write(&rows, &[]) {
            Ok(()) => return Ok(attempts),
            Err(WriteError::Retry(reason)) => {
                eprintln!("tried again: {reason}");
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(other) => return Err(other),
        }
    }
    unreachable!("the loop ends by returning")
}

/// What a reader sees now of a topic with one partition, up to where it may read.
fn read(broker: &Broker, topic: &str, isolation: &str) -> Vec<(String, String)> {
    let text = |bytes: Option<&[u8]>| {
        String::from_utf8(bytes.expect("the broker is there").to_vec())
            .expect("the broker is there")
    };
    let mut found = Vec::new();
    each(broker, topic, isolation, &mut |record| {
        found.push((text(record.key()), text(record.payload())));
    });
    found
}

fn each(broker: &Broker, topic: &str, isolation: &str, take: &mut dyn FnMut(&BorrowedMessage<'_>)) {
    let mut config = broker.config();
    config
        .set("group.id", "test")
        .set("enable.partition.eof", "true")
        .set("isolation.level", isolation);
    let consumer: BaseConsumer = config.create().expect("the broker is there");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning)
        .expect("the broker is there");
    consumer.assign(&list).expect("the broker is there");
    let until = Instant::now() + WAIT;
    loop {
        assert!(Instant::now() < until, "no end of {topic}");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) => take(&record),
            Some(Err(KafkaError::PartitionEOF(_))) => return,
            Some(Err(error)) => eprintln!("reading {topic}: {error}"),
            None => {}
        }
    }
}

fn committed(broker: &Broker, topic: &str) -> Vec<(String, String)> {
    read(broker, topic, "read_committed")
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Not a test: the first run, which writes three batches through its last shard. It is told to
/// pause, to fail or to die within the second.
#[test]
fn a_run_of_its_own() {
    let Ok(servers) = std::env::var(CHILD) else {
        return;
    };
    let job = std::env::var("HEADWATER_TEST_JOB").expect("the broker is there");
    let sink = sink(&settings(&servers, &job));
    sink.claim(&claim(&job, 1, 0)).expect("the broker is there");
    let mut writers: Vec<_> = (0..CHILD_SHARDS)
        .map(|shard| writer(&*sink, 1, shard))
        .collect();
    let last = &mut *writers[CHILD_SHARDS - 1];
    for key in ["a", "b", "c"] {
        match write(last, &[(key, "old")]) {
            Ok(_) => println!("wrote {key}"),
            Err(WriteError::Fatal(error)) => {
                println!("{:?} {error}", error.kind);
                return;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn first_run(broker: &Broker, job: &str, fault: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["--exact", "a_run_of_its_own", "--nocapture"])
        .env(CHILD, &broker.servers)
        .env("HEADWATER_TEST_JOB", job)
        .env("HEADWATER_FAULT", fault);
    command
}

/// The first run, already paused inside its second transaction.
fn paused_run(broker: &Broker, job: &str, plant: &str) -> Child {
    let child = first_run(broker, job, "kafka.commit.before=pause@2")
        .env("HEADWATER_PLANT", plant)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the broker is there");
    let (stat, until) = (format!("/proc/{}/stat", child.id()), Instant::now() + WAIT);
    let is_paused = || {
        std::fs::read_to_string(&stat)
            .expect("the broker is there")
            .contains(") T ")
    };
    while !is_paused() {
        assert!(Instant::now() < until, "it did not pause");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Lets it go on to its end; what it said.
fn go_on(child: Child) -> String {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-CONT", &pid]).status();
    assert!(sent.expect("the broker is there").success());
    let output = child.wait_with_output().expect("the broker is there");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("the broker is there")
}

/// A run that was paused, its successor on fewer shards, and what a reader saw at the end.
fn takeover(broker: &Broker, job: &str, plant: &str) -> (String, Vec<(String, String)>) {
    broker.create(job, 1);
    let old = paused_run(broker, job, plant);
    let sink = sink(&settings(&broker.servers, job));
    let claimed = sink
        .claim(&claim(job, 2, CHILD_SHARDS))
        .expect("the broker is there");
    assert_eq!(claimed.fence, Fence::Fenced);
    let mut first = writer(&*sink, 2, 0);
    write(&mut *first, &[("b", "new"), ("c", "new")]).expect("the broker is there");
    let said = go_on(old);
    write(&mut *first, &[("d", "new")]).expect("the broker is there");
    (said, committed(broker, job))
}

fn a_paused_run_cannot_write_after_its_successor(broker: &Broker) {
    let (said, seen) = takeover(broker, "fenced", "");
    let expected = [("a", "old"), ("b", "new"), ("c", "new"), ("d", "new")];
    assert_eq!(seen, pairs(&expected));
    assert!(
        said.contains("wrote a") && !said.contains("wrote b"),
        "{said}"
    );
    let fenced = "Refused fenced: another run of job fenced has taken over";
    assert!(said.contains(fenced), "{said}");
    // It was inside a transaction: what it had sent is in the log.
    let sent = read(broker, "fenced", "read_uncommitted");
    assert!(sent.contains(&("b".into(), "old".into())), "{sent:?}");
}

fn without_the_fence_the_stale_write_is_seen(broker: &Broker) {
    let (said, seen) = takeover(broker, "planted", "unfenced");
    assert!(said.contains("wrote c"), "{said}");
    let last = |key: &str| {
        seen.iter()
            .rfind(|row| row.0 == key)
            .expect("the broker is there")
            .1
            .clone()
    };
    // It had sent `b` before the new run did; `c` came after, and stays.
    assert_eq!((last("b"), last("c")), ("new".into(), "old".into()));
    assert!(seen.contains(&("b".into(), "old".into())), "{seen:?}");
}

fn a_killed_run_holds_no_reader_up(broker: &Broker) {
    broker.create("killed", 1);
    let mut old = paused_run(broker, "killed", "");
    old.kill().expect("the broker is there");
    old.wait().expect("the broker is there");
    let sink = sink(&settings(&broker.servers, "killed"));
    sink.claim(&claim("killed", 2, CHILD_SHARDS))
        .expect("the broker is there");
    let mut first = writer(&*sink, 2, 0);
    write(&mut *first, &[("b", "new")]).expect("the broker is there");
    // Not after transaction.timeout.ms, but now.
    assert_eq!(
        committed(broker, "killed"),
        pairs(&[("a", "old"), ("b", "new")])
    );
}

fn a_fault_at_a_commit_loses_nothing(broker: &Broker) {
    const SIGABRT: i32 = 6;
    // What the first run has committed; what is tried again after its commit comes twice.
    let left: [&[&str]; 4] = [&["a", "b", "c"], &["a"], &["a", "b", "b", "c"], &["a", "b"]];
    let visits = POINTS.map(|point| ["error", "abort"].map(|action| (point, action)));
    for ((point, action), left) in visits.into_iter().flatten().zip(left) {
        let job = format!("{}-{action}", point.replace('.', "-"));
        broker.create(&job, 1);
        let fault = format!("{point}={action}@2");
        let output = first_run(broker, &job, &fault).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let proof = format!("fault: {point}: {action}");
        assert!(said.contains(&proof), "{fault}: not visited: {said}");
        match action {
            "abort" => assert_eq!(output.status.signal(), Some(SIGABRT), "{said}"),
            _ => assert!(output.status.success(), "{said}"),
        }
        let sink = sink(&settings(&broker.servers, &job));
        sink.claim(&claim(&job, 2, CHILD_SHARDS))
            .expect("taken over");
        let mut first = writer(&*sink, 2, 0);
        write(&mut *first, &[("b", "new"), ("c", "new")]).expect("written");
        let old = left.iter().map(|key| (*key, "old"));
        let expected: Vec<_> = old.chain([("b", "new"), ("c", "new")]).collect();
        assert_eq!(committed(broker, &job), pairs(&expected), "{fault}");
    }
}

fn a_restart_loses_nothing_and_repeats_in_order(broker: &Broker) {
    broker.create("again", 1);
    let settings = settings(&broker.servers, "again");
    let batches = [
        [("a", "1"), ("b", "1")],
        [("a", "2"), ("c", "2")],
        [("b", "3"), ("c", "3")],
    ];
    let old = sink(&settings);
    old.claim(&claim("again", 1, 0))
        .expect("the broker is there");
    let mut writers = [0, 1].map(|shard| writer(&*old, 1, shard));
    write(&mut *writers[0], &batches[0]).expect("the broker is there");
    write(&mut *writers[1], &batches[1]).expect("the broker is there");
    drop(writers);
    // The checkpoint was made after the first batch; there are three shards now.
    let new = sink(&settings);
    new.claim(&claim("again", 2, 2))
        .expect("the broker is there");
    let mut writers = [0, 1, 2].map(|shard| writer(&*new, 2, shard));
    write(&mut *writers[2], &batches[1]).expect("the broker is there");
    write(&mut *writers[0], &batches[2]).expect("the broker is there");
    let expected = [batches[0], batches[1], batches[1], batches[2]].concat();
    assert_eq!(committed(broker, "again"), pairs(&expected));
}

fn a_broker_restart_inside_a_transaction_is_survived(broker: &Broker) {
    const BATCHES: usize = 400;
    broker.create("restart", 1);
    let sink = sink(&settings(&broker.servers, "restart"));
    sink.claim(&claim("restart", 1, 0))
        .expect("the broker is there");
    let (written, mut retries) = (AtomicUsize::new(0), 0);
    let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
    let mut write_all = || {
        let mut writer = writer(&*sink, 1, 0);
        for batch in 0..BATCHES {
            let value = batch.to_string();
            let rows: Vec<_> = keys.iter().map(|key| (key.as_str(), &*value)).collect();
            retries += write(&mut *writer, &rows).expect("the broker is there");
            written.store(batch + 1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let writing = scope.spawn(&mut write_all);
        for at in [50, 200] {
            while written.load(Ordering::Relaxed) < at && !writing.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            broker.stop();
            broker.launch();
        }
        writing.join().expect("the broker is there");
    });
    let seen = committed(broker, "restart");
    // Each batch once and whole: an open commit is asked for again, an aborted batch is not seen.
    let expected = (0..BATCHES).flat_map(|batch| {
        let row = move |key: &String| (key.clone(), batch.to_string());
        keys.iter().map(row)
    });
    assert_eq!(seen, expected.collect::<Vec<_>>());
    eprintln!("broker restarts: {retries} retries");
}

fn a_row_that_is_too_large_is_refused_alone(broker: &Broker) {
    broker.create("large", 1);
    let sink = sink(&settings(&broker.servers, "large"));
    let mut writer = writer(&*sink, 1, 0);
    let large = "x".repeat(3_000_000);
    let rows = [row("a", "1"), row("b", &large), row("c", "1")];
    let Err(WriteError::Rejected(rejected)) = writer.write(&rows, &[]) else {
        panic!("nothing was refused");
    };
    let indices: Vec<_> = rejected.iter().map(|rejected| rejected.index).collect();
    assert_eq!(indices, [1]);
    assert_eq!(committed(broker, "large"), pairs(&[("a", "1"), ("c", "1")]));
}

fn a_topic_made_anew_is_not_the_target(broker: &Broker) {
    broker.create("anew", 1);
    let mut settings = settings(&broker.servers, "anew");
    let identity = |settings: &SinkSettings, known: Option<String>| {
        let claim = Claim {
            identity: known,
            ..claim("anew", 1, 0)
        };
        sink(settings).claim(&claim)
    };
    let known = identity(&settings, None)
        .expect("the broker is there")
        .identity;
    assert!(
        known
            .as_ref()
            .expect("the broker is there")
            .starts_with("anew="),
        "{known:?}"
    );
    let again = identity(&settings, known.clone()).expect("the broker is there");
    assert_eq!(again.identity, known);
    broker.delete("anew");
    let until = Instant::now() + WAIT;
    while identity(&settings, None).is_ok() {
        assert!(Instant::now() < until, "not deleted");
    }
    broker.create("anew", 1);
    let error = identity(&settings, known.clone()).expect_err("another topic");
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(
        error
            .text
            .contains(known.as_ref().expect("the broker is there")),
        "{error}"
    );
    // Without transactions the claim says so, and the identity counts all the same.
    settings.transactional = false;
    assert!(identity(&settings, known).is_err());
    let Claimed { fence, .. } = identity(&settings, None).expect("the broker is there");
    assert!(matches!(fence, Fence::None(reason) if reason.contains("transactional = false")));
}

/// Key and value of each record, with the id of its generation.
fn with_generations(broker: &Broker, topic: &str) -> Vec<(String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut found = Vec::new();
    each(broker, topic, "read_committed", &mut |record| {
        let header = record.headers().map(|headers| {
            assert_eq!(headers.get(0).key, GENERATION_HEADER);
            text(headers.get(0).value.expect("an id"))
        });
        found.push((text(record.payload().expect("a value")), header));
    });
    found
}

fn a_record_says_its_generation(broker: &Broker) {
    broker.create("generations", 1);
    let sink = sink(&settings(&broker.servers, "generations"));
    sink.claim(&claim("generations", 1, 0)).expect("claimed");
    let names = sink.names().expect("it puts them on its rows");
    names.restore(&[1, 2].map(|number| GenerationState {
        number,
        id: format!("g{number}"),
        tables: vec![0],
        ..GenerationState::default()
    }));
    let mut writer = writer(&*sink, 1, 0);
    let mut read = row("a", "READ");
    (read.origin.role, read.origin.generation) = (Role::Snapshot, 1);
    writer
        .write(&[read, row("b", "mutation")], &[])
        .expect("written");
    let expected = [("READ", "g1"), ("mutation", "g2")]
        .map(|(value, id)| (value.to_owned(), Some(id.to_owned())));
    assert_eq!(with_generations(broker, "generations"), expected);
}

fn events_are_told_in_order_though_the_broker_was_away(broker: &Broker) {
    broker.create("events", 1);
    let servers = ("bootstrap.servers".to_owned(), broker.servers.clone());
    let kafka = BTreeMap::from([
        servers,
        ("message.timeout.ms".to_owned(), "1000".to_owned()),
    ]);
    let place = Listener::Kafka(LogTopic::new("control.events", "events", &kafka).expect("named"));
    let stages = [Stage::Open, Stage::SourceFinished, Stage::Aborted];
    let after = |transitions: usize| {
        let reached = stages[..transitions].iter().map(|stage| Reached {
            stage: *stage,
            ..Reached::default()
        });
        [GenerationState {
            number: 1,
            id: "g1".to_owned(),
            reached: reached.collect(),
            ..GenerationState::default()
        }]
    };
    let panel = Arc::new(Panel::default());
    let base = (1, &after(1)[..], 0);
    let events = Events::start(place, "job", Vec::new(), base, Arc::clone(&panel));
    let events = events.expect("a thread");
    until("the first is told", || events.sent(&after(3)) == 1);
    broker.stop();
    events.durable(2, &after(2));
    until("trouble", || !panel.troubles().is_empty());
    events.durable(3, &after(3));
    assert_eq!(events.sent(&after(3)), 1);
    broker.launch();
    assert!(events.close(WAIT), "{:?}", panel.troubles());
    let mut told = with_generations(broker, "events");
    // One whose answer did not come may be there again.
    told.dedup();
    let stages_told = told.iter().map(|(value, id)| {
        assert_eq!(id.as_deref(), Some("g1"));
        serde_json::from_str::<Event>(value)
            .expect("an event")
            .stage
    });
    let mut stages_told: Vec<Stage> = stages_told.collect();
    stages_told.dedup();
    assert_eq!(stages_told, stages);
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + WAIT;
    while !done() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn kafka_sink_on_a_real_broker() {
    let broker = Broker::start();
    a_paused_run_cannot_write_after_its_successor(&broker);
    without_the_fence_the_stale_write_is_seen(&broker);
    a_killed_run_holds_no_reader_up(&broker);
    a_fault_at_a_commit_loses_nothing(&broker);
    a_restart_loses_nothing_and_repeats_in_order(&broker);
    a_row_that_is_too_large_is_refused_alone(&broker);
    a_record_says_its_generation(&broker);
    events_are_told_in_order_though_the_broker_was_away(&broker);
    a_topic_made_anew_is_not_the_target(&broker);
    a_broker_restart_inside_a_transaction_is_survived(&broker);
}
