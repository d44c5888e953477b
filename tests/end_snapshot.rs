//! `headwater end-snapshot` on `file` topics and on a real broker.

#[path = "support/binary.rs"]
#[expect(dead_code, reason = "the tests of `run` use all of it")]
mod binary;
#[path = "support/kafka.rs"]
#[expect(dead_code, reason = "end records are written by the product here")]
mod kafka;
#[path = "support/services.rs"]
#[expect(dead_code, reason = "Kafka alone is started here")]
mod services;

use binary::{Bench, JSONL, Record, hello};
use headwater::topic::Topics;
use headwater::topic::file::{FileTopicWriter, FileTopics};
use kafka::Kafka;
use services::Services;

/// Records in each partition of a `file` topic.
fn counts(bench: &Bench, topic: &str) -> Vec<u64> {
    let ranges = FileTopics::new().ranges(&bench.path().join(topic).to_string_lossy());
    let ranges = ranges.expect("a topic");
    ranges.iter().map(|range| range.high - range.low).collect()
}

fn filled() -> Bench {
    let bench = Bench::new();
    bench.hello(3);
    bench.config(JSONL);
    bench.append("muts", 0, &[hello('u', 1, "new")]);
    bench.append("snap", 0, &[hello('r', 1, "old"), hello('r', 2, "two")]);
    bench.append("snap", 2, &[hello('r', 3, "three")]);
    bench
}

#[test]
fn every_partition_is_ended_once_and_the_job_ends() {
    let bench = filled();
    let ended = bench.run(&["end-snapshot"]).with(0);
    assert_eq!(ended.out, "g1 ended in all 3 partitions of file:snap\n");
    assert_eq!(counts(&bench, "snap"), [3, 1, 2]);
    assert_eq!(counts(&bench, "muts"), [1, 0, 0]);
    let refused = bench.run(&["end-snapshot"]).with(4);
    refused.says(&["file:snap[0]", "g1 at offset 2", "--again"]);
    assert_eq!(counts(&bench, "snap"), [3, 1, 2], "nothing was written");
    let summary = bench.run(&["run", "--once", "--json"]).with(0).json();
    assert_eq!(summary["outcome"], "ready", "{summary}");
    assert_eq!(summary["evidence"], "operator_said", "{summary}");
    assert_eq!(bench.jsonl().len(), 3);
}

#[test]
fn a_call_that_was_cut_off_is_made_again() {
    let bench = filled();
    bench.append("snap", 1, &[Record::end()]);
    bench.run(&["end-snapshot"]).with(4).says(&["file:snap[1]"]);
    assert_eq!(counts(&bench, "snap"), [2, 1, 1]);
    bench.run(&["end-snapshot", "--again"]).with(0);
    assert_eq!(counts(&bench, "snap"), [3, 2, 2]);
    bench.run(&["run", "--once"]).with(0);
    assert_eq!(bench.jsonl().len(), 3);
}

#[test]
fn a_partition_that_is_still_written_is_not_ended() {
    let bench = filled();
    let writer = FileTopicWriter::open(&bench.path().join("snap"), 2).expect("a partition");
    let refused = bench.run(&["end-snapshot"]).with(1);
    refused.says(&["partition 2", "has another writer"]);
    assert_eq!(counts(&bench, "snap"), [2, 0, 1], "not even the others");
    drop(writer);
    bench.run(&["end-snapshot"]).with(0);
}

#[test]
fn another_generation_is_one_that_the_job_refuses() {
    let bench = filled();
    bench.run(&["end-snapshot", "--generation", "g7"]).with(0);
    let refused = bench.run(&["run", "--once"]).with(4);
    refused.says(&["another generation", "g7"]);
}

#[test]
fn kafka_topics_are_ended_once_and_the_job_ends() {
    let services = Services::start_kafka();
    let brokers = services.bootstrap_servers();
    let kafka = Kafka::new(&brokers);
    kafka.create_topics(&[("app.public.hello", 2), ("snap.public.hello", 3)]);
    let bench = Bench::new();
    // A property of consumers alone must not disturb the producer.
    bench.config(&format!(
        "{JSONL}\n[kafka]\n\"bootstrap.servers\" = \"{brokers}\"\n\"fetch.wait.max.ms\" = \"100\""
    ));
    let sets = [
        "--set",
        "table.public.hello.mutations=app.public.hello",
        "--set",
        "table.public.hello.snapshot=snap.public.hello",
        // There is no live connector.
        "--set",
        "promote.caught_up=unproven",
    ];
    let run = |words: &[&str]| bench.run(&[words, &sets].concat());
    let ended = run(&["end-snapshot"]).with(0);
    assert_eq!(
        ended.out,
        "g1 ended in all 3 partitions of snap.public.hello\n"
    );
    assert_eq!(kafka.high_watermarks("snap.public.hello"), [1, 1, 1]);
    assert_eq!(kafka.count("app.public.hello"), 0);
    let refused = run(&["end-snapshot"]).with(4);
    refused.says(&["snap.public.hello[", "g1 at offset 0", "--again"]);
    assert_eq!(kafka.high_watermarks("snap.public.hello"), [1, 1, 1]);
    let summary = run(&["run", "--once", "--json"]).with(0).json();
    assert_eq!(summary["evidence"], "operator_said", "{summary}");
    run(&["end-snapshot", "--again"]).with(0);
    assert_eq!(kafka.high_watermarks("snap.public.hello"), [2, 2, 2]);
    // What does not exist is named, and not made.
    let missing = "table.public.hello.snapshot=no.such";
    let refused = bench.run(&["end-snapshot", "--set", missing]).with(2);
    refused.says(&["topic no.such does not exist"]);
}
