//! Fills the topics: mutations uniform over half as many keys, one READ for each of its keys.
//!
//! It cannot be slow to read: one producer a topic, batches of about 1 MB.

use crate::{MUTATIONS, PARTITIONS, SNAPSHOT};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;

/// Writes both topics; returns the bytes of keys and values.
pub(crate) fn fill(servers: &str, mutations: u64, reads: u64) -> u64 {
    let keys = (mutations / 2).max(1);
    std::thread::scope(|scope| {
        let live = scope.spawn(move || {
            let mut state = 7;
            write(servers, MUTATIONS, mutations, |_| random(&mut state) % keys)
        });
        let snapshot = write(servers, SNAPSHOT, reads, |number| number);
        snapshot + live.join().expect("the other producer did not panic")
    })
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn write(servers: &str, topic: &str, count: u64, mut id: impl FnMut(u64) -> u64) -> u64 {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .set("linger.ms", "50")
        .set("acks", "1")
        .set("batch.num.messages", "100000")
        .set("batch.size", "900000")
        .set("queue.buffering.max.messages", "300000")
        .set("queue.buffering.max.kbytes", "200000")
        .create()
        .expect("the producer's settings are right");
    let snapshot = topic == SNAPSHOT;
    let mut bytes = 0;
    for number in 0..count {
        let id = id(number);
        let (key, value) = (format!(r#"{{"id":{id}}}"#), value(id, number, snapshot));
        bytes += (key.len() + value.len()) as u64;
        let partition = i32::try_from(id % PARTITIONS as u64).expect("a small number");
        let mut record = BaseRecord::to(topic)
            .partition(partition)
            .key(&key)
            .payload(&value);
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    producer.poll(Duration::from_millis(10));
                }
                Err((error, _)) => panic!("{topic}: {error}"),
            }
        }
        if number % 4096 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    let flushed = producer.flush(Duration::from_secs(120));
    flushed.expect("the broker takes the records");
    bytes
}

/// What Debezium 3.6 writes for a row of `public.hello`, without the schema.
fn value(id: u64, number: u64, snapshot: bool) -> String {
    let (op, snapshot) = if snapshot {
        ("r", "true")
    } else {
        ("u", "false")
    };
    format!(
        concat!(
            r#"{{"before":null,"after":{{"id":{id},"greeting":"hello {number:050}"}},"#,
            r#""source":{{"version":"3.6.1.Final","connector":"postgresql","name":"app","#,
            r#""ts_ms":1795967579304,"snapshot":"{snapshot}","db":"postgres","#,
            r#""sequence":"[\"31683632\",\"31683632\"]","ts_us":1795967579304223,"#,
            r#""ts_ns":1795967579304223000,"schema":"public","table":"hello","txId":21859,"#,
            r#""lsn":31683632,"xmin":null}},"transaction":null,"op":"{op}","#,
            r#""ts_ms":1795967579510,"ts_us":1795967579510659}}"#
        ),
        id = id,
        number = number,
        snapshot = snapshot,
        op = op
    )
}
