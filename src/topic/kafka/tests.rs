//! Tests against librdkafka's mock brokers. What they cannot do (transactions, compression, log
//! start offsets) is tested with a real broker in `tests/kafka_topics.rs`.

use super::*;
use crate::error::ErrorKind;
use crate::topic::growth::watch_growth;
use crate::topic::{END_HEADER, RUN_HEADER, RawRecord};
use crossbeam_channel::bounded;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster(topics: &[(&str, i32)]) -> Cluster {
    let cluster = MockCluster::new(1).expect("mock brokers");
    for (topic, partitions) in topics {
        cluster
            .create_topic(topic, *partitions, 1)
            .expect("a topic");
    }
    cluster
}

fn topics_at(servers: &str) -> KafkaTopics {
    let settings = BTreeMap::from([("bootstrap.servers".to_string(), servers.to_string())]);
    KafkaTopics::open(&settings, "job", 2).expect("a client")
}

fn produce(cluster: &Cluster, topic: &str, partition: i32, numbers: std::ops::Range<u64>) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .create()
        .expect("a producer");
    for number in numbers {
        let (key, value) = (number.to_string(), vec![number as u8; 100]);
        let record = BaseRecord::to(topic)
            .partition(partition)
            .key(&key)
            .payload(&value)
            .timestamp(1_000 + number as i64);
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("queued");
    }
    producer.flush(Duration::from_secs(20)).expect("sent");
}

fn assignment(topic: &str, partition: u32, next_offset: u64) -> Assignment {
    Assignment {
        topic: topic.into(),
        partition,
        next_offset,
    }
}

/// A reader that counts its wakes.
fn reader(topics: &KafkaTopics, parts: &[Assignment]) -> (Box<dyn Reader>, Arc<AtomicUsize>) {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = wakes.clone();
    let waker: Waker = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    (topics.reader(parts, waker).expect("a reader"), wakes)
}

#[track_caller]
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn all_partitions_of_two_topics_come_whole_and_only_woken() {
    let cluster = cluster(&[("a", 4), ("b", 2)]);
    for partition in 0..4 {
        produce(&cluster, "a", partition, 0..500);
    }
    produce(&cluster, "b", 0, 0..300);
    let topics = topics_at(&cluster.bootstrap_servers());
    let parts = [
        assignment("a", 0, 0),
        assignment("a", 1, 0),
        assignment("a", 2, 100),
        assignment("a", 3, 500),
        assignment("b", 0, 0),
        assignment("b", 1, 0),
    ];
    let (mut reader, wakes) = reader(&topics, &parts);
    let ends = [500, 500, 500, 500, 300, 0];
    let mut found = vec![Vec::new(); parts.len()];
    let mut seen = 0;
    until(|| {
        let now = wakes.load(Ordering::SeqCst);
        if now != seen {
            seen = now;
            let mut take = |index: usize, record: RawRecord<'_>| {
                let key = record.offset.to_string();
                assert_eq!(record.key, Some(key.as_bytes()));
                assert_eq!(record.value.map(<[u8]>::len), Some(100));
                assert_eq!(record.timestamp_ms, 1_000 + record.offset as i64);
                found[index].push(record.offset);
                Ok(())
            };
            while reader.poll(5_000, &mut take).expect("read") > 0 {}
        }
        let done = |index: usize| reader.next_offset(index) == ends[index];
        (0..parts.len()).all(done).then_some(())
    });
    for (index, part) in parts.iter().enumerate() {
        let expected: Vec<u64> = (part.next_offset..ends[index]).collect();
        assert_eq!(found[index], expected, "{part:?}");
    }
    // It goes on behind the end, and wakes for it.
    produce(&cluster, "b", 1, 0..1);
    until(|| (wakes.load(Ordering::SeqCst) > seen).then_some(()));
    let mut late = 0;
    until(|| {
        let mut take = |index: usize, _: RawRecord<'_>| {
            late = index;
            Ok(())
        };
        (reader.poll(5_000, &mut take).expect("read") > 0).then_some(())
    });
    assert_eq!((late, reader.next_offset(5)), (5, 1));
}

#[test]
fn ranges_and_starts() {
    let cluster = cluster(&[("a", 3)]);
    produce(&cluster, "a", 1, 0..10);
    let topics = topics_at(&cluster.bootstrap_servers());
    let ranges = topics.ranges("a").expect("ranges");
    let high: Vec<_> = ranges.iter().map(|range| (range.low, range.high)).collect();
    assert_eq!(high, vec![(0, 0), (0, 10), (0, 0)]);
    assert_eq!(
        topics.starts("a", Start::Beginning).expect("starts"),
        vec![0, 0, 0]
    );
    assert_eq!(topics.partition_count("a").expect("a count"), 3);
}

#[test]
fn the_end_record_is_known_by_its_header() {
    let cluster = cluster(&[("a", 1)]);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .create()
        .expect("a producer");
    let header = |key, value| Header {
        key,
        value: Some(value),
    };
    let headers = OwnedHeaders::new()
        .insert(header("x", "1"))
        .insert(header(END_HEADER, "g1"))
        .insert(header(RUN_HEADER, "run 1"));
    for (key, headers) in [
        (Some("k"), headers.clone()),
        (None, headers),
        (None, OwnedHeaders::new()),
    ] {
        let mut record = BaseRecord::<str, [u8]>::to("a")
            .partition(0)
            .headers(headers);
        record.key = key;
        producer
            .send(record)
            .map_err(|(error, _)| error)
            .expect("queued");
    }
    producer.flush(Duration::from_secs(20)).expect("sent");
    let topics = topics_at(&cluster.bootstrap_servers());
    for runs in [false, true] {
        let (mut reader, _) = reader(&topics, &[assignment("a", 0, 0)]);
        if runs {
            reader.want_runs();
        }
        let mut found = Vec::new();
        until(|| {
            let mut take = |_: usize, record: RawRecord<'_>| {
                let text =
                    |value: Option<&[u8]>| value.map(|v| String::from_utf8_lossy(v).into_owned());
                found.push((text(record.end_of_snapshot), text(record.run_id)));
                Ok(())
            };
            reader.poll(1_000, &mut take).expect("read");
            (reader.next_offset(0) == 3).then_some(())
        });
        let run = runs.then(|| "run 1".to_owned());
        let end = Some("g1".to_owned());
        assert_eq!(found, [(None, run.clone()), (end, run), (None, None)]);
    }
}

#[test]
fn an_offset_past_the_end_is_refused_with_the_range() {
    let cluster = cluster(&[("a", 2)]);
    produce(&cluster, "a", 1, 0..7);
    let topics = topics_at(&cluster.bootstrap_servers());
    let (mut reader, _) = reader(&topics, &[assignment("a", 1, 99)]);
    let error = until(|| reader.poll(1_000, &mut |_, _| Ok(())).err());
    assert_eq!(error.kind, ErrorKind::Refused);
    for part in ["topic a partition 1 offset 99", "0 to 7", "what to do"] {
        assert!(error.text.contains(part), "{part} in: {error}");
    }
    assert_eq!(
        reader.poll(1_000, &mut |_, _| Ok(())).expect_err("again"),
        error
    );
}

#[test]
fn an_error_of_the_taker_leaves_the_record_ungiven() {
    let cluster = cluster(&[("a", 1)]);
    produce(&cluster, "a", 0, 0..5);
    let topics = topics_at(&cluster.bootstrap_servers());
    let (mut reader, _) = reader(&topics, &[assignment("a", 0, 0)]);
    let mut take = |_: usize, record: RawRecord<'_>| match record.offset {
        3 => Err(Error::failed("no room")),
        _ => Ok(()),
    };
    let error = until(|| reader.poll(1_000, &mut take).err());
    assert_eq!((error.text.as_str(), reader.next_offset(0)), ("no room", 3));
}

#[test]
fn brokers_that_are_away_are_named_in_time_and_never_fatal_to_a_reader() {
    // Nothing listens on port 1.
    let topics = topics_at("127.0.0.1:1").with_timeout(Duration::from_secs(1));
    let start = Instant::now();
    let error = topics.ranges("a").expect_err("no broker");
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(error.kind, ErrorKind::Failed);
    assert!(
        error.text.contains("bootstrap.servers = \"127.0.0.1:1\""),
        "{error}"
    );
    assert!(error.text.contains("refused"), "{error}");
    let (mut reader, _) = reader(&topics, &[assignment("a", 0, 0)]);
    let trouble = until(|| {
        assert_eq!(
            reader.poll(1_000, &mut |_, _| Ok(())).expect("not fatal"),
            0
        );
        reader.trouble()
    });
    assert!(trouble.contains("127.0.0.1:1"), "{trouble}");
    let start = Instant::now();
    drop(reader);
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "dropping does not wait"
    );
}

#[test]
fn a_wrong_property_is_named_and_its_value_is_not() {
    let settings = [("bootstrap.servers", "x:1"), ("sasl.pasword", "secret")];
    let settings = settings.map(|(name, value)| (name.to_string(), value.to_string()));
    let error = KafkaTopics::open(&BTreeMap::from(settings), "job", 1)
        .err()
        .expect("unknown");
    assert!(error.text.contains("sasl.pasword"), "{error}");
    assert!(!error.text.contains("secret"), "{error}");
}

#[test]
fn growth_is_seen_through_the_client() {
    let cluster = cluster(&[("a", 3)]);
    let topics = Arc::new(topics_at(&cluster.bootstrap_servers()));
    let (told, tells) = bounded(1);
    let grown = move |error| told.send(error).expect("the test waits");
    let known = BTreeMap::from([("a".to_string(), 2)]);
    let _watch = watch_growth(topics, known, Duration::from_millis(10), grown).expect("a thread");
    let error = tells.recv_timeout(Duration::from_secs(20)).expect("told");
    assert!(error.text.contains("grew from 2 to 3"), "{error}");
}

#[test]
fn a_broker_that_comes_back_is_read_on() {
    let cluster = cluster(&[("a", 1)]);
    produce(&cluster, "a", 0, 0..5);
    let topics = topics_at(&cluster.bootstrap_servers());
    let (mut reader, wakes) = reader(&topics, &[assignment("a", 0, 0)]);
    let poll_to = |reader: &mut dyn Reader, end: u64| {
        until(|| {
            reader.poll(1_000, &mut |_, _| Ok(())).expect("read");
            (reader.next_offset(0) == end).then_some(())
        });
    };
    poll_to(&mut *reader, 5);
    cluster.broker_down(1).expect("down");
    // Polled only when woken: that brokers are away wakes, too.
    let mut seen = 0;
    until(|| {
        let now = wakes.load(Ordering::SeqCst);
        if now != seen {
            seen = now;
            assert_eq!(
                reader.poll(1_000, &mut |_, _| Ok(())).expect("not fatal"),
                0
            );
        }
        reader.trouble()
    });
    cluster.broker_up(1).expect("up");
    // What comes right after an error may have been fetched before it.
    let mut next = 5;
    until(|| {
        produce(&cluster, "a", 0, next..next + 1);
        next += 1;
        poll_to(&mut *reader, next);
        std::thread::sleep(Duration::from_millis(100));
        reader.trouble().is_none().then_some(())
    });
}
