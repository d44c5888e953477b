//! Tests of names and of a reader over both kinds.

use super::*;
use crate::topic::RawRecord;
use crate::topic::file::{FileTopicWriter, NewRecord, create};
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn write(dir: &Path, values: &[&str]) {
    create(dir, 1).expect("made");
    let mut writer = FileTopicWriter::open(dir, 0).expect("opened");
    for value in values {
        let value = Some(value.as_bytes());
        writer
            .append(&NewRecord {
                value,
                ..NewRecord::default()
            })
            .expect("appended");
    }
    writer.flush().expect("written");
}

fn assignment(topic: &str) -> Assignment {
    Assignment {
        topic: topic.into(),
        partition: 0,
        next_offset: 0,
    }
}

#[test]
fn a_name_tells_its_kind_and_kafka_must_be_configured() {
    assert_eq!(kind("file:/tmp/x"), TopicKind::File);
    assert_eq!(kind("app.public.file"), TopicKind::Kafka);
    let error = MixedTopics::default()
        .ranges("app.public.hello")
        .expect_err("no brokers");
    assert!(error.text.contains("app.public.hello"), "{error}");
    assert!(error.text.contains("bootstrap.servers"), "{error}");
}

#[test]
fn one_reader_gives_both_kinds_by_their_own_numbers() {
    let cluster = MockCluster::new(1).expect("mock brokers");
    cluster.create_topic("k", 1, 1).expect("a topic");
    let servers = cluster.bootstrap_servers();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &servers)
        .create()
        .expect("a producer");
    let record = BaseRecord::<[u8], str>::to("k")
        .partition(0)
        .payload("kafka");
    producer
        .send(record)
        .map_err(|(error, _)| error)
        .expect("queued");
    producer.flush(Duration::from_secs(20)).expect("sent");
    let dir = tempfile::tempdir().expect("a folder");
    let names = ["one", "two"].map(|name| dir.path().join(name));
    write(&names[0], &["a", "b"]);
    write(&names[1], &["c"]);
    let names = names.map(|path| format!("{PREFIX}{}", path.display()));
    let settings = BTreeMap::from([("bootstrap.servers".to_string(), servers)]);
    let kafka = KafkaTopics::open(&settings, "job", 1).expect("a client");
    let topics = MixedTopics::new(Some(kafka));
    assert_eq!(topics.ranges(&names[0]).expect("ranges")[0].high, 2);
    assert_eq!(topics.ranges("k").expect("ranges")[0].high, 1);
    let parts = [
        assignment(&names[0]),
        assignment("k"),
        assignment(&names[1]),
    ];
    let mut reader = topics.reader(&parts, Arc::new(|| {})).expect("a reader");
    let (mut found, start) = (vec![String::new(); 3], Instant::now());
    while (0..3).map(|index| reader.next_offset(index)).ne([2, 1, 1]) {
        assert!(start.elapsed() < Duration::from_secs(30), "stuck");
        let mut take = |index: usize, record: RawRecord<'_>| {
            found[index].push_str(&String::from_utf8_lossy(record.value.expect("a value")));
            Ok(())
        };
        reader.poll(1_000, &mut take).expect("read");
    }
    assert_eq!(found, ["ab", "kafka", "c"]);
}
