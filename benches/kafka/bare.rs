//! Bare readers of both topics: two threads, a client of four partitions each, bytes copied once.
//!
//! It cannot decode: what comes out is a number of bytes.

use crate::{MUTATIONS, PARTITIONS, SNAPSHOT};
use headwater::topic::kafka::KafkaTopics;
use headwater::topic::{Assignment, Topics};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const CLIENTS: i32 = 2;
/// Bytes of records kept at once, as a container of the dataflow does.
const ARENA_BYTES: usize = 64 << 10;
const BUDGET_BYTES: usize = 1 << 20;
/// No record for so long: the broker is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Takes the bytes of records as a container does.
#[derive(Default)]
struct Arena {
    bytes: Vec<u8>,
    total: u64,
}

impl Arena {
    fn push(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        if self.bytes.len() >= ARENA_BYTES {
            std::hint::black_box(&self.bytes);
            self.bytes.clear();
        }
        let before = self.bytes.len();
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.total += (self.bytes.len() - before) as u64;
    }
}

/// The partitions of a client: half of either topic.
fn partitions(client: i32) -> impl Iterator<Item = (&'static str, i32)> {
    let mine = move |topic| {
        (0..PARTITIONS)
            .filter(move |partition| partition % CLIENTS == client)
            .map(move |partition| (topic, partition))
    };
    mine(MUTATIONS).chain(mine(SNAPSHOT))
}

/// Runs a reader a client, each to the end of its partitions; returns the bytes of all.
fn on_threads(read: impl Fn(i32) -> u64 + Sync) -> u64 {
    let read = &read;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || read(client)))
            .collect();
        readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader did not panic"))
            .sum()
    })
}

/// With rdkafka's own `poll`.
pub(crate) fn poll(servers: &str) -> u64 {
    on_threads(|client| {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", servers)
            .set("group.id", "bare")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("fetch.queue.backoff.ms", "5")
            .set("queued.max.messages.kbytes", "32768")
            .create()
            .expect("the settings are right");
        let mut list = TopicPartitionList::new();
        for (topic, partition) in partitions(client) {
            list.add_partition_offset(topic, partition, Offset::Beginning)
                .expect("a valid offset");
        }
        consumer.assign(&list).expect("a valid assignment");
        let mut arena = Arena::default();
        let mut ends = list.count();
        while ends > 0 {
            match consumer.poll(SILENCE) {
                Some(Ok(message)) => arena.push(message.key(), message.payload()),
                Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ends -= 1,
                Some(Err(error)) => panic!("{error}"),
                None => panic!("no record for a minute"),
            }
        }
        arena.total
    })
}

/// With Headwater's reader of the same partitions.
pub(crate) fn queue(servers: &str) -> u64 {
    let settings = [("bootstrap.servers".to_owned(), servers.to_owned())];
    let topics = KafkaTopics::open(&settings.into(), "bare", CLIENTS as usize);
    let topics = topics.expect("the settings are right");
    let ends = [MUTATIONS, SNAPSHOT].map(|topic| topics.ranges(topic).expect("the topics exist"));
    on_threads(|client| {
        let assignments: Vec<Assignment> = partitions(client)
            .map(|(topic, partition)| Assignment {
                topic: topic.to_owned(),
                partition: partition as u32,
                next_offset: 0,
            })
            .collect();
        let (sender, woken) = mpsc::channel();
        let waker = Arc::new(move || {
            let _ = sender.send(());
        });
        let mut reader = topics.reader(&assignments, waker).expect("a client");
        let end =
            |of: &Assignment| ends[usize::from(of.topic == SNAPSHOT)][of.partition as usize].high;
        let mut arena = Arena::default();
        loop {
            let mut take = |_: usize, raw: headwater::topic::RawRecord<'_>| {
                arena.push(raw.key, raw.value);
                Ok(())
            };
            let given = reader.poll(BUDGET_BYTES, &mut take).expect("good records");
            let all = assignments.iter().enumerate();
            if given == 0 && all.clone().all(|(i, a)| reader.next_offset(i) >= end(a)) {
                break;
            }
            if given == 0 {
                woken.recv_timeout(SILENCE).expect("no record for a minute");
            }
        }
        arena.total
    })
}
