//! Kafka topics on a real broker: what mock brokers cannot do.

#[path = "support/services.rs"]
#[expect(dead_code, reason = "Kafka alone is started here")]
mod services;

use headwater::error::{Error, ErrorKind};
use headwater::topic::kafka::KafkaTopics;
use headwater::topic::{Assignment, OffsetRange, RawRecord, Reader, Start, TopicSettings, Topics};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use services::Services;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(60);

/// A running broker; stops when dropped.
struct Broker {
    /// Kept until the end.
    _services: Services,
    servers: String,
}

impl Broker {
    fn start() -> Self {
        let services = Services::start_kafka();
        let servers = services.bootstrap_servers();
        Broker {
            _services: services,
            servers,
        }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config
    }

    fn topics(&self) -> KafkaTopics {
        self.topics_with(&[])
    }

    fn topics_with(&self, more: &[(&str, &str)]) -> KafkaTopics {
        let all = [("bootstrap.servers", self.servers.as_str())];
        let all = all
            .iter()
            .chain(more)
            .map(|(name, value)| (name.to_string(), value.to_string()));
        KafkaTopics::open(&all.collect(), "job", 1).expect("a client")
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("an admin client")
    }

    fn create(&self, topic: &str, partitions: i32) {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let (admin, options) = (self.admin(), AdminOptions::new());
        let results = wait(admin.create_topics([&new], &options)).expect("asked");
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    fn producer(&self, settings: &[(&str, &str)]) -> BaseProducer {
        let mut config = self.config();
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config.create().expect("a producer")
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let (key, value) = (number.to_string(), format!("value {number} ").repeat(20));
        let record = BaseRecord::to(topic)
            .partition(partition)
            .key(&key)
            .payload(&value)
            .timestamp(1_000_000 + 1_000 * number as i64);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("queued");
    }
    producer.flush(WAIT).expect("sent");
}

fn reader(topics: &KafkaTopics, topic: &str, partition: u32, next_offset: u64) -> Box<dyn Reader> {
    let topic = topic.to_string();
    let assignment = Assignment {
        topic,
        partition,
        next_offset,
    };
    topics
        .reader(&[assignment], Arc::new(|| {}))
        .expect("a reader")
}

/// Keys of all records until the partition's `next_offset` is `end`.
fn read_to(reader: &mut dyn Reader, end: u64) -> Vec<String> {
    let (mut keys, start) = (Vec::new(), Instant::now());
    while reader.next_offset(0) < end {
        assert!(
            start.elapsed() < WAIT,
            "stuck at {} of {end}",
            reader.next_offset(0)
        );
        let mut take = |_: usize, record: RawRecord<'_>| {
            keys.push(String::from_utf8_lossy(record.key.expect("a key")).into_owned());
            Ok(())
        };
        if reader.poll(1 << 20, &mut take).expect("read") == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(reader.next_offset(0), end);
    keys
}

/// The error that ends a reader which gives nothing.
fn error_of(reader: &mut dyn Reader) -> Error {
    let start = Instant::now();
    loop {
        match reader.poll(1 << 20, &mut |_, _| Ok(())) {
            Ok(given) => assert!(given == 0 && start.elapsed() < WAIT, "no error was told"),
            Err(error) => return error,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn names(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

fn every_codec_is_read(broker: &Broker) {
    let topics = broker.topics();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("codec-{codec}");
        broker.create(&topic, 1);
        let producer = broker.producer(&[("compression.type", codec), ("linger.ms", "20")]);
        send(&producer, &topic, 0, 0..2_000);
        let found = read_to(&mut *reader(&topics, &topic, 0, 0), 2_000);
        assert_eq!(found, names(0..2_000), "{codec}");
        // From the middle of a batch.
        let found = read_to(&mut *reader(&topics, &topic, 0, 777), 2_000);
        assert_eq!(found, names(777..2_000), "{codec}");
    }
}

fn transactions_end_in_control_records(broker: &Broker) {
    let topics = broker.topics();
    broker.create("tx", 2);
    let producer = broker.producer(&[("transactional.id", "t")]);
    producer.init_transactions(WAIT).expect("init");
    let transaction = |partition, numbers, commit: bool| {
        producer.begin_transaction().expect("begin");
        send(&producer, "tx", partition, numbers);
        if commit {
            producer.commit_transaction(WAIT).expect("commit");
        } else {
            producer.abort_transaction(WAIT).expect("abort");
        }
    };
    transaction(0, 0..100, true);
    transaction(0, 100..150, false);
    transaction(0, 150..160, true);
    transaction(1, 0..70, false);
    let highs: Vec<_> = topics
        .ranges("tx")
        .expect("ranges")
        .iter()
        .map(|r| r.high)
        .collect();
    assert_eq!(
        highs,
        vec![163, 71],
        "each end of a transaction takes an offset"
    );
    let mut committed = reader(&topics, "tx", 0, 0);
    assert_eq!(
        read_to(&mut *committed, 163),
        names((0..100).chain(150..160))
    );
    assert!(
        read_to(&mut *reader(&topics, "tx", 1, 0), 71).is_empty(),
        "all aborted"
    );
    // An open transaction: its end is beyond what a committed reader may see.
    producer.begin_transaction().expect("begin");
    send(&producer, "tx", 0, 200..220);
    assert_eq!(
        topics.ranges("tx").expect("ranges")[0].high,
        183,
        "the high watermark"
    );
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(700) {
        let given = committed.poll(1 << 20, &mut |_, _| Ok(())).expect("read");
        assert_eq!((given, committed.next_offset(0)), (0, 163));
    }
    producer.commit_transaction(WAIT).expect("commit");
    assert_eq!(read_to(&mut *committed, 184), names(200..220));
}

fn deleted_records_are_refused_and_an_empty_log_is_complete(broker: &Broker) {
    let topics = broker.topics();
    broker.create("gone", 1);
    send(&broker.producer(&[]), "gone", 0, 0..500);
    let mut before = TopicPartitionList::new();
    before
        .add_partition_offset("gone", 0, Offset::Offset(500))
        .expect("a partition");
    let (admin, options) = (broker.admin(), AdminOptions::new());
    wait(admin.delete_records(&before, &options)).expect("deleted");
    let range = OffsetRange {
        low: 500,
        high: 500,
    };
    assert_eq!(topics.ranges("gone").expect("ranges"), vec![range]);
    assert_eq!(
        topics.starts("gone", Start::Beginning).expect("starts"),
        vec![500]
    );
    let mut at_end = reader(&topics, "gone", 0, 500);
    assert!(read_to(&mut *at_end, 500).is_empty());
    let error = error_of(&mut *reader(&topics, "gone", 0, 100));
    assert_eq!(error.kind, ErrorKind::Refused);
    for part in [
        "topic gone partition 0 offset 100",
        "500 to 500",
        "what to do",
    ] {
        assert!(error.text.contains(part), "{part} in: {error}");
    }
    send(&broker.producer(&[]), "gone", 0, 500..503);
    assert_eq!(read_to(&mut *at_end, 503), names(500..503));
}

fn starts_by_time(broker: &Broker) {
    let topics = broker.topics();
    broker.create("times", 3);
    send(&broker.producer(&[]), "times", 0, 0..10);
    send(&broker.producer(&[]), "times", 1, 0..5);
    let starts = |time| topics.starts("times", Start::Time(time)).expect("starts");
    assert_eq!(starts(0), vec![0, 0, 0]);
    assert_eq!(
        starts(1_004_001),
        vec![5, 5, 0],
        "no record that young: the end"
    );
}

fn a_missing_topic_is_named_and_not_made(broker: &Broker) {
    for _ in 0..2 {
        let error = broker.topics().ranges("no-such").expect_err("missing");
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(
            error.text.contains("topic no-such does not exist"),
            "{error}"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn what_is_not_there_ends_a_reader(broker: &Broker) {
    let topics = broker.topics_with(&[("topic.metadata.propagation.max.ms", "500")]);
    for (topic, partition) in [("no-such", 0), ("times", 9)] {
        let error = error_of(&mut *reader(&topics, topic, partition, 0));
        assert_eq!(error.kind, ErrorKind::Failed);
        let place = format!("topic {topic} partition {partition}");
        assert!(error.text.contains(&place), "{error}");
        assert!(error.text.contains("does not exist"), "{error}");
    }
}

fn a_broker_that_speaks_otherwise_is_named_in_time(broker: &Broker) {
    let topics = broker.topics_with(&[("security.protocol", "ssl")]);
    let start = Instant::now();
    let error = topics.with_timeout(Duration::from_secs(3)).ranges("times");
    let error = error.expect_err("a plaintext broker");
    assert!(
        start.elapsed() < Duration::from_secs(9),
        "too late: {error}"
    );
    assert_eq!(error.kind, ErrorKind::Failed);
    assert!(error.text.contains(&broker.servers), "{error}");
    assert!(error.text.contains("SSL handshake failed"), "{error}");
}

fn growth_changes_the_count(broker: &Broker) {
    let topics = broker.topics();
    broker.create("grows", 2);
    assert_eq!(topics.partition_count("grows").expect("a count"), 2);
    let (admin, options) = (broker.admin(), AdminOptions::new());
    let results = wait(admin.create_partitions([&NewPartitions::new("grows", 5)], &options));
    assert!(results.expect("asked").iter().all(Result::is_ok));
    let start = Instant::now();
    while topics.partition_count("grows").expect("a count") != 5 {
        assert!(start.elapsed() < WAIT, "the growth is not seen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a lag tool sees of the group `job`.
fn committed(broker: &Broker, topic: &str, partitions: i32) -> Vec<Offset> {
    let tool: BaseConsumer = broker
        .config()
        .set("group.id", "job")
        .create()
        .expect("a client");
    let mut list = TopicPartitionList::new();
    list.add_partition_range(topic, 0, partitions - 1);
    let found = tool.committed_offsets(list, WAIT).expect("asked");
    found
        .elements()
        .iter()
        .map(|found| found.offset())
        .collect()
}

fn offsets_are_committed_for_lag_tools_alone(broker: &Broker) {
    let topics = broker.topics();
    broker.create("lag", 3);
    send(&broker.producer(&[]), "lag", 0, 0..10);
    let place = |partition, next_offset| ("lag".to_string(), partition, next_offset);
    let commit = |offsets: &[_]| topics.commit_for_lag_tools(offsets).expect("committed");
    commit(&[place(0, 7), place(2, 0)]);
    let expected = [Offset::Offset(7), Offset::Invalid, Offset::Offset(0)];
    assert_eq!(committed(broker, "lag", 3), expected);
    // Readers of the group do not stand in the way, nor do they start there.
    let mut reader = reader(&topics, "lag", 0, 0);
    assert_eq!(read_to(&mut *reader, 10), names(0..10));
    let next = Assignment {
        topic: "lag".into(),
        partition: 0,
        next_offset: reader.next_offset(0),
    };
    assert_eq!(topics.committed(&[next]), None);
    assert_eq!(committed(broker, "lag", 3)[0], Offset::Offset(10));
    let starts = topics.starts("lag", Start::Beginning).expect("starts");
    assert_eq!(starts, vec![0, 0, 0]);
    assert_eq!(topics.committed(&[]), None);
    // A note, in time, when it cannot be told.
    let (away, start) = ([("bootstrap.servers", "127.0.0.1:1")], Instant::now());
    let away = away.map(|(name, value)| (name.to_string(), value.to_string()));
    let away = KafkaTopics::open(&away.into(), "job", 1).expect("a client");
    let error = away.commit_for_lag_tools(&[place(0, 1)]).expect_err("away");
    assert!(start.elapsed() < Duration::from_secs(20), "too late");
    for part in ["group job", "127.0.0.1:1", "lag"] {
        assert!(error.text.contains(part), "{part} in: {error}");
    }
}

fn a_topic_made_anew_has_another_id(broker: &Broker) {
    let topics = broker.topics();
    broker.create("ids", 1);
    let id = || topics.topic_id("ids");
    let first = id().expect("asked").expect("brokers of today have ids");
    assert_eq!(id().expect("asked"), Some(first.clone()));
    let (admin, options) = (broker.admin(), AdminOptions::new());
    let results = wait(admin.delete_topics(&["ids"], &options)).expect("asked");
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let start = Instant::now();
    while let Ok(found) = id() {
        assert!(start.elapsed() < WAIT, "still {found:?}");
    }
    let error = id().expect_err("gone");
    let missing = "topic ids does not exist";
    assert!(error.text.contains(missing), "{error}");
    broker.create("ids", 1);
    let second = id().expect("asked");
    assert!(second.is_some() && second != Some(first), "{second:?}");
}

fn settings_are_described(broker: &Broker) {
    let topics = broker.topics();
    let new = NewTopic::new("kept", 1, TopicReplication::Fixed(1))
        .set("cleanup.policy", "compact,delete")
        .set("retention.ms", "3600000")
        .set("retention.bytes", "-1")
        .set("delete.retention.ms", "7200000");
    let (admin, options) = (broker.admin(), AdminOptions::new());
    let results = wait(admin.create_topics([&new], &options)).expect("asked");
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let expected = TopicSettings {
        compacted: true,
        deleted: true,
        retention_ms: Some(3_600_000),
        retention_bytes: None,
        delete_retention_ms: Some(7_200_000),
    };
    assert_eq!(topics.settings("kept").expect("asked"), Some(expected));
    assert_eq!(expected.deletes_after_ms(), Some(3_600_000));
    broker.create("by-default", 1);
    let found = topics.settings("by-default").expect("asked");
    let found = found.expect("allowed");
    assert!(found.deleted && !found.compacted, "{found:?}");
    assert!(found.retention_ms.is_some() && found.delete_retention_ms == Some(86_400_000));
    let error = topics.settings("no-such-topic").expect_err("missing");
    assert!(error.text.contains("does not exist"), "{error}");
}

#[test]
fn kafka_topics_on_a_real_broker() {
    let broker = Broker::start();
    every_codec_is_read(&broker);
    transactions_end_in_control_records(&broker);
    deleted_records_are_refused_and_an_empty_log_is_complete(&broker);
    starts_by_time(&broker);
    a_missing_topic_is_named_and_not_made(&broker);
    what_is_not_there_ends_a_reader(&broker);
    // tests/asan builds without TLS.
    if cfg!(feature = "tls") {
        a_broker_that_speaks_otherwise_is_named_in_time(&broker);
    }
    growth_changes_the_count(&broker);
    offsets_are_committed_for_lag_tools_alone(&broker);
    a_topic_made_anew_has_another_id(&broker);
    settings_are_described(&broker);
}
