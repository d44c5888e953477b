//! The Kafka sink against librdkafka's own mock cluster.

use super::{GENERATION_HEADER, LogTopic};
use crate::dead_letter::letter::Letter;
use crate::sink::queue::{AsidePlace, QueueOptions, SinkState, start};
use crate::sink::settings::{SinkKind, SinkSettings, TargetNotEmpty, build};
use crate::sink::testing::{
    B21_BATCHES, Event, b21, event, options, options_with_failures, place, push_all, records, row,
    settings, table, until, write_unclaimed,
};
use crate::sink::{Place, Sink, WriteError, admit};
use headwater_operators::control::Command;
use headwater_operators::record::Op;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster() -> Cluster {
    MockCluster::new(1).unwrap()
}

fn kafka(cluster: &Cluster, topic: &str) -> SinkSettings {
    let servers = ("bootstrap.servers".to_owned(), cluster.bootstrap_servers());
    SinkSettings {
        job: "job".into(),
        topic: Some(topic.into()),
        kafka: BTreeMap::from([servers]),
        ..settings(SinkKind::Kafka)
    }
}

fn sink(settings: &SinkSettings) -> Arc<dyn Sink> {
    build(settings, &[table("public.hello")], &BTreeMap::new(), 2).unwrap()
}

/// Partition, key and value of all records, partition by partition.
fn read(cluster: &Cluster, topic: &str, partitions: i32) -> Vec<(i32, String, Option<String>)> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    let mut expected = 0;
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
        let (low, high) = consumer
            .fetch_watermarks(topic, partition, Duration::from_secs(10))
            .unwrap();
        expected += high - low;
    }
    consumer.assign(&list).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = Vec::new();
    while (found.len() as i64) < expected {
        let Some(message) = consumer.poll(Duration::from_secs(10)) else {
            break;
        };
        let message = message.unwrap();
        let key = text(message.key().unwrap());
        found.push((message.partition(), key, message.payload().map(text)));
    }
    assert_eq!(found.len() as i64, expected);
    found.sort_by_key(|(partition, ..)| *partition);
    found
}

#[test]
fn b21_in_every_batch_size() {
    let cluster = cluster();
    let dir = tempfile::tempdir().unwrap();
    for batch_rows_max in B21_BATCHES {
        let topic = format!("out.{batch_rows_max}");
        cluster.create_topic(&topic, 3, 1).unwrap();
        let sink = sink(&kafka(&cluster, &topic));
        sink.check().unwrap();
        let options = QueueOptions {
            batch_rows_max,
            ..options(&[table("public.hello")], dir.path())
        };
        write_unclaimed(sink.as_ref(), &options, &b21());
        // What a reader of a compacted topic has at the end.
        let records = read(&cluster, &topic, 3);
        let left: BTreeMap<String, Option<String>> = records
            .into_iter()
            .map(|(_, key, value)| (key, value))
            .collect();
        assert_eq!(left.len(), 4);
        assert!(left["{\"id\":1}"].as_ref().unwrap().contains("again"));
        assert_eq!(left["{\"id\":2}"], None);
        assert_eq!(left["{\"id\":3}"], None);
        assert!(left["{\"id\":4}"].as_ref().unwrap().contains("stays"));
    }
}

#[test]
fn keys_go_where_java_puts_them_and_bytes_are_as_they_came() {
    let cluster = cluster();
    cluster.create_topic("out", 4, 1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = options(&[table("public.hello")], dir.path());
    let mut queue = start(sink(&kafka(&cluster, "out")).as_ref(), &options)
        .unwrap()
        .remove(0);
    let keys = [1, 2, 3, 7].map(|id| format!("{{\"id\":{id}}}"));
    let events: Vec<_> = keys
        .iter()
        .map(|key| event(key, " {\"odd\" :1}\n"))
        .collect();
    push_all(&mut queue, &events);
    // wire.md W16, vectors of murmur2 for four partitions.
    let found: Vec<(i32, String)> = read(&cluster, "out", 4)
        .into_iter()
        .map(|(partition, key, value)| {
            assert_eq!(value.as_deref(), Some(" {\"odd\" :1}\n"));
            (partition, key)
        })
        .collect();
    let expected: Vec<(i32, String)> = [(0, 0), (0, 1), (1, 3), (3, 2)]
        .into_iter()
        .map(|(partition, key): (i32, usize)| (partition, keys[key].clone()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_broker_that_is_away_is_waited_for() {
    let cluster = cluster();
    cluster.create_topic("out", 1, 1).unwrap();
    let mut settings = kafka(&cluster, "out");
    settings
        .kafka
        .insert("message.timeout.ms".into(), "1000".into());
    let sink = sink(&settings);
    let place = Place {
        incarnation: 1,
        worker: 0,
        shard: 0,
    };
    let mut writer = sink.writer(place).unwrap();
    until("written", || writer.write(&[row("a", "1")], &[]).is_ok());
    cluster.broker_down(1).unwrap();
    let rows = [row("a", "2"), row("b", "2")];
    let away = writer.write(&rows, &[]);
    assert!(matches!(away, Err(WriteError::Retry(_))), "{away:?}");
    cluster.broker_up(1).unwrap();
    until("written again", || writer.write(&rows, &[]).is_ok());
    writer.write(&[row("a", "3")], &[]).unwrap();
    let found = read(&cluster, "out", 1);
    let last = |key: &str| {
        found
            .iter()
            .rfind(|record| record.1 == key)
            .unwrap()
            .2
            .clone()
    };
    assert_eq!((last("a"), last("b")), (Some("3".into()), Some("2".into())));
}

#[test]
fn what_is_wrong_at_the_start_is_said() {
    let cluster = cluster();
    cluster.create_topic("out", 1, 1).unwrap();
    let mut settings = kafka(&cluster, "out");
    let dir = tempfile::tempdir().unwrap();
    let options = options(&[table("public.hello")], dir.path());
    write_unclaimed(sink(&settings).as_ref(), &options, &[event("a", "1")]);
    let admitted = |accept| admit::admit(sink(&settings).as_ref(), None, true, accept);
    let error = admitted(TargetNotEmpty::Refuse).unwrap_err();
    assert!(
        error.text.contains("target topic out is not empty"),
        "{error}"
    );
    admitted(TargetNotEmpty::Accept).unwrap();
    settings
        .kafka
        .insert("bootstrap.servers".into(), "127.0.0.1:1".into());
    settings
        .kafka
        .insert("socket.connection.setup.timeout.ms".into(), "1000".into());
    let error = sink(&settings).check().unwrap_err();
    assert!(error.text.contains("127.0.0.1:1"), "{error}");
    settings.kafka.insert("no.such.property".into(), "1".into());
    let error = sink(&settings).check().unwrap_err();
    assert!(error.text.contains("no.such.property"), "{error}");
}

/// Key and generation of all records of partition 0, in order.
fn generations(cluster: &Cluster, topic: &str) -> Vec<(String, Option<String>)> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test")
        .set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning)
        .unwrap();
    consumer.assign(&list).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = Vec::new();
    while let Ok(message) = consumer.poll(Duration::from_secs(10)).unwrap() {
        let headers = message.headers();
        let id = headers.map(|headers| {
            assert_eq!(headers.count(), 1);
            assert_eq!(headers.get(0).key, GENERATION_HEADER);
            text(headers.get(0).value.unwrap())
        });
        found.push((text(message.key().unwrap()), id));
    }
    found
}

#[test]
fn a_header_names_the_generation() {
    let cluster = cluster();
    for transactional in [true, false] {
        let topic = format!("out.{transactional}");
        cluster.create_topic(&topic, 1, 1).unwrap();
        let mut settings = kafka(&cluster, &topic);
        settings.transactional = transactional;
        let sink = sink(&settings);
        let mut writer = sink.writer(place(1, 0)).unwrap();
        let rows = |generation: u32| {
            let mut read = row("read", "1");
            read.origin.generation = generation;
            [read, row("upsert", "1"), row("delete", "")]
        };
        writer.write(&rows(1), &[]).unwrap();
        for number in [1, 2] {
            sink.names().unwrap().told(&Command::Open {
                generation: number,
                tables: vec![0],
                opened_at_ms: 0,
                id: format!("g{number}"),
                topics: Vec::new(),
                partitions: Vec::new(),
                not_before_ms: 0,
            });
        }
        writer.write(&rows(1), &[]).unwrap();
        let of = |ids: [Option<&str>; 3]| {
            let keys = ["read", "upsert", "delete"].map(str::to_owned);
            keys.into_iter().zip(ids.map(|id| id.map(str::to_owned)))
        };
        let expected = of([None; 3]).chain(of([Some("g1"), Some("g2"), Some("g2")]));
        assert_eq!(generations(&cluster, &topic), expected.collect::<Vec<_>>());
    }
}

#[test]
fn quarantined_reads_are_in_the_topic_before_they_are_durable() {
    let cluster = cluster();
    cluster.create_topic("out", 1, 1).unwrap();
    cluster.create_topic("quarantine", 1, 1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let settings = kafka(&cluster, "out");
    let mut properties = settings.kafka.clone();
    properties.insert("message.timeout.ms".into(), "1000".into());
    let topic = LogTopic::new("quarantine.topic", "quarantine", &properties).unwrap();
    let options = QueueOptions {
        quarantine_topic: Some(topic),
        ..options(&[table("public.hello")], dir.path())
    };
    let mut queue = start(sink(&settings).as_ref(), &options).unwrap().remove(0);
    let of = |op, id: u32| Event {
        op,
        ..event(&format!("{{\"id\":{id}}}"), "{\"after\":{}}")
    };
    let events = [of(Op::Quarantined, 1), of(Op::Late, 2)];
    cluster.broker_down(1).unwrap();
    let ticket = queue.push(records(&events, 40));
    until("it is in trouble", || {
        matches!(queue.state(), SinkState::Retrying { reason, .. }
            if reason.contains("quarantine topic quarantine at"))
    });
    assert_eq!(queue.durable(), ticket);
    cluster.broker_up(1).unwrap();
    until("durable", || queue.durable() > ticket);
    // By its key a record counts once, however often it was tried.
    let found: BTreeMap<String, String> = read(&cluster, "quarantine", 1)
        .into_iter()
        .map(|(_, key, value)| (key, value.unwrap()))
        .collect();
    let keys: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(keys, ["snap.public.hello[3]@40", "snap.public.hello[3]@41"]);
    let line: serde_json::Value = serde_json::from_str(&found[keys[1]]).unwrap();
    assert_eq!(line["reason"], "late");
    assert_eq!(
        (&line["offset"], &line["key"]["id"]),
        (&41.into(), &2.into())
    );
    assert_eq!(line["table"], "public.hello");
    assert!(!dir.path().join("quarantine.1.0.jsonl").exists());
}

#[test]
fn dead_letters_are_in_their_topic_before_they_are_durable() {
    let cluster = cluster();
    cluster.create_topic("out", 1, 1).unwrap();
    cluster.create_topic("lost", 1, 1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let settings = kafka(&cluster, "out");
    let topic = LogTopic::new("dead_letter.topic", "lost", &settings.kafka).unwrap();
    let options = QueueOptions {
        dead_letters: Some(AsidePlace::Topic(topic)),
        ..options(&[table("public.hello")], dir.path())
    };
    let mut queue = start(sink(&settings).as_ref(), &options).unwrap().remove(0);
    let letter = Letter {
        reason: "the value is not JSON",
        has_key: true,
        has_table: true,
        value: Some(b"{\"op\":"),
    };
    let bad = Event {
        op: Op::Poisoned,
        value: String::from_utf8(letter.encode()).unwrap(),
        ..event("{\"id\":1}", "")
    };
    let ticket = queue.push(records(&[bad], 40));
    until("durable", || queue.durable() > ticket);
    let found = read(&cluster, "lost", 1);
    let [(_, key, Some(line))] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(key.ends_with("[3]@40"), "{key}");
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["reason"], "the value is not JSON", "{line}");
    assert_eq!(line["offset"], 40, "{line}");
    assert!(read(&cluster, "out", 1).is_empty(), "it is no row");
}

#[test]
fn a_quarantined_read_that_brokers_refuse_ends_the_job() {
    let cluster = cluster();
    cluster.create_topic("out", 1, 1).unwrap();
    cluster.create_topic("quarantine", 1, 1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let settings = kafka(&cluster, "out");
    let topic = LogTopic::new("quarantine.topic", "quarantine", &settings.kafka).unwrap();
    let (options, failures) = options_with_failures(&[table("public.hello")], dir.path());
    let options = QueueOptions {
        quarantine_topic: Some(topic),
        ..options
    };
    let mut queue = start(sink(&settings).as_ref(), &options).unwrap().remove(0);
    let read = Event {
        op: Op::Late,
        ..event("{\"id\":1}", &"x".repeat(2_000_000))
    };
    let ticket = queue.push(records(&[read], 7));
    until("a failure", || !failures.lock().unwrap().is_empty());
    let error = failures.lock().unwrap()[0].text.clone();
    assert!(error.contains("does not take a READ"), "{error}");
    assert!(error.contains("snap.public.hello[3]@7"), "{error}");
    assert_eq!(queue.durable(), ticket, "it would be lost");
}
