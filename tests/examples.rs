//! Runs every example as a person would and looks at what it says. cargo builds the examples with
//! the tests, beside this test's own folder.
//!
//! It cannot tell whether what an example prints is clear, only that the facts are in it.

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

#[path = "support/kafka.rs"]
#[expect(dead_code, reason = "the end-to-end test uses all of it")]
mod kafka;
#[path = "support/services.rs"]
#[expect(dead_code, reason = "Kafka alone is started here")]
mod services;

use kafka::Kafka;
use services::Services;

/// The folder of the built examples: `target/PROFILE/examples`, this test is in `…/deps`.
fn folder() -> PathBuf {
    let exe = std::env::current_exe().expect("this test is a file");
    let profile = exe.parent().and_then(Path::parent).expect("cargo's layout");
    profile.join("examples")
}

fn example(name: &str, flags: &[&str], dir: &Path) -> Output {
    Command::new(folder().join(name))
        .args(flags)
        .current_dir(dir)
        .env("TMPDIR", dir)
        .output()
        .unwrap_or_else(|error| panic!("example {name}: {error}"))
}

/// What it said on stdout, after a good end.
fn said(name: &str, flags: &[&str], dir: &Path) -> String {
    let output = example(name, flags, dir);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name}: {}\n{text}\n{errors}",
        output.status
    );
    println!("== {name}\n{text}");
    text
}

#[test]
fn every_example_is_run_here() {
    let own = include_str!("examples.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(root).expect("there are examples") {
        let path = entry.expect("listed").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        assert!(own.contains(&format!("\"{name}\",")), "{name} is not run");
    }
}

#[test]
fn retained_window_shows_three_cases_and_refuses_the_third() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = said("retained_window", &[], dir.path());
    let (ttl, until_ready) = text
        .split_once("keep_markers = \"until_ready\"\n")
        .expect("both policies are played");
    for part in [ttl, until_ready] {
        let inside = part.split(" ahead of").next().expect("it begins with it");
        assert!(inside.contains("dropped: "), "{part}");
        assert!(!inside.contains("is \"old\""), "{part}");
        let early = part.find("{\"id\":2} is \"early\"").expect("emitted early");
        let later = part.find("{\"id\":2} is \"later\"").expect("brought again");
        assert!(early < later, "{part}");
    }
    assert_eq!(ttl.matches("quarantined: ").count(), 1, "{ttl}");
    assert!(ttl.contains("exit code 4"), "{ttl}");
    assert!(ttl.contains("the generation is unsafe"), "{ttl}");
    assert_eq!(until_ready.matches("dropped: ").count(), 2, "{until_ready}");
    assert!(until_ready.contains("exit code 0"), "{until_ready}");
}

#[test]
fn custom_sink_keeps_the_newest_version() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = said("custom_sink", &[], dir.path());
    for row in [
        "1} \"changed\"",
        "2} deleted",
        "3} \"hello 3\"",
        "4} \"hello 4\"",
    ] {
        assert!(text.contains(&format!("{{\"id\":{row}")), "{row} in {text}");
    }
}

/// The last row of each key in JSON lines.
fn rows<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<u64, Value> {
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    lines
        .map(|line| {
            (
                line["key"]["id"].as_u64().expect("a key"),
                line["row"].clone(),
            )
        })
        .collect()
}

#[test]
fn merge_folders_gives_the_sources_state() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = said("merge_folders", &[], dir.path());
    assert!(text.contains("operator_said"), "{text}");
    let row = |id: u64, greeting: &str| (id, json!({"id": id, "greeting": greeting}));
    let mut expected = BTreeMap::from([row(1, "changed"), (2, Value::Null), row(7, "new")]);
    expected.extend((3..=6).map(|id| row(id, &format!("hello {id}"))));
    let merged = rows(text.lines().filter(|line| line.starts_with('{')));
    assert_eq!(merged, expected);

    // The same folders, as a person would name them, into a new one.
    let made = std::fs::read_dir(dir.path()).expect("listed").next();
    let made = made.expect("its own input").expect("listed").path();
    let flags = [
        "--mutations",
        "mutations",
        "--snapshot",
        "snapshot",
        "--out",
        "again",
    ];
    let text = said("merge_folders", &flags, &made);
    let again = rows(text.lines().filter(|line| line.starts_with('{')));
    assert_eq!(again, expected);
}

#[test]
fn cluster_merges_on_two_processes() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = said("cluster", &[], dir.path());
    assert!(text.contains("on 4 workers"), "{text}");
    assert!(text.contains("headwater run --once -w 2 -n 2 -p 1 -h hosts.txt"));
    let files: Vec<PathBuf> = text
        .lines()
        .filter_map(|line| Some(line.strip_suffix(" lines")?.rsplit_once(": ")?.0.into()))
        .collect();
    assert_eq!(files.len(), 4, "one file a worker: {text}");
    let mut seen = BTreeSet::new();
    for file in files {
        let lines = std::fs::read_to_string(file).expect("it was named");
        for (id, row) in rows(lines.lines()) {
            let greeting = if id % 10 == 0 {
                "mutations"
            } else {
                "snapshot"
            };
            assert_eq!(row["greeting"], greeting, "{id}");
            assert!(seen.insert(id), "{id} is on two workers");
        }
    }
    assert_eq!(seen.len(), 1000);
}

#[test]
fn kafka_to_kafka_writes_rows_and_tombstones() {
    let services = Services::start_kafka();
    let brokers = services.bootstrap_servers();
    let kafka = Kafka::new(&brokers);
    let (mutations, snapshot) = ("app.public.hello", "snap_g1.public.hello");
    kafka.create_topics(&[(mutations, 2), (snapshot, 2), ("merged.public.hello", 2)]);
    let greeting = |id: u32| format!("hello {id}");
    for id in 1..=5 {
        produce(&brokers, snapshot, "r", id, &greeting(id));
    }
    produce(&brokers, mutations, "u", 1, "changed");
    produce(&brokers, mutations, "d", 2, "gone");
    kafka.end_snapshot(snapshot, "g1");

    let text = said(
        "kafka_to_kafka",
        &["--brokers", &brokers],
        services.folder(),
    );
    assert!(text.contains("merged into merged.public.hello"), "{text}");
    let merged = consume(&brokers, &kafka, "merged.public.hello");
    let found = |id: u32| merged[&format!("{{\"id\":{id}}}")].as_ref();
    assert_eq!(merged.len(), 5);
    assert_eq!(found(2), None, "a tombstone");
    for (id, expected) in [
        (1, "changed".to_owned()),
        (3, greeting(3)),
        (5, greeting(5)),
    ] {
        let value = found(id).unwrap_or_else(|| panic!("{id} has a row"));
        assert_eq!(value["after"]["greeting"], expected);
    }

    // Again: it goes on where it was, and there is nothing new.
    let text = said(
        "kafka_to_kafka",
        &["--brokers", &brokers],
        services.folder(),
    );
    assert!(text.contains("mutations emitted  0"), "{text}");
    assert_eq!(consume(&brokers, &kafka, "merged.public.hello"), merged);

    // Afresh: the target is not empty now.
    let afresh = example(
        "kafka_to_kafka",
        &["--brokers", &brokers, "--state", "afresh"],
        services.folder(),
    );
    let errors = String::from_utf8_lossy(&afresh.stderr);
    assert_eq!(afresh.status.code(), Some(4), "{errors}");
    assert!(errors.contains("is not empty"), "{errors}");
}

fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        .set("group.id", "examples");
    config
}

fn produce(brokers: &str, topic: &str, op: &str, id: u32, greeting: &str) {
    let producer: BaseProducer = client(brokers).create().expect("settings are right");
    let row = json!({"id": id, "greeting": greeting});
    let source = json!({"schema": "public", "table": "hello"});
    let (before, after) = if op == "d" {
        (row, Value::Null)
    } else {
        (Value::Null, row)
    };
    let value = json!({"op": op, "before": before, "after": after, "source": source}).to_string();
    let key = json!({"id": id}).to_string();
    producer
        .send(BaseRecord::to(topic).key(&key).payload(&value))
        .expect("the queue is empty");
    producer
        .flush(Duration::from_secs(30))
        .expect("the broker takes it");
}

/// The last value of each key, `None` after a tombstone.
fn consume(brokers: &str, kafka: &Kafka, topic: &str) -> BTreeMap<String, Option<Value>> {
    let mut settings = client(brokers);
    settings.set("enable.partition.eof", "true");
    let consumer: BaseConsumer = settings.create().expect("settings are right");
    let mut assigned = TopicPartitionList::new();
    let ends = kafka.high_watermarks(topic);
    for (partition, _) in (0..).zip(&ends) {
        assigned
            .add_partition_offset(topic, partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&assigned).expect("partitions are there");
    let mut rows = BTreeMap::new();
    // The end of a transaction takes an offset that no record has, so records cannot be counted.
    let mut open = ends.iter().filter(|end| **end > 0).count();
    while open > 0 {
        let polled = consumer.poll(Duration::from_secs(30));
        let record = match polled.expect("a record or an end") {
            Ok(record) => record,
            Err(KafkaError::PartitionEOF(partition)) => {
                open -= usize::from(ends[partition as usize] > 0);
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let key = String::from_utf8_lossy(record.key().expect("a key")).into_owned();
        let value = record.payload();
        rows.insert(key, value.map(|v| serde_json::from_slice(v).expect("JSON")));
    }
    rows
}
