//! What a topic holds now.
//!
//! Invariant: every record below the high watermarks of the call is given, once.

use crate::kafka::Kafka;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The keys and values in a topic now, in the order of each partition.
pub(crate) fn values(kafka: &Kafka, topic: &str, mut each: impl FnMut(&[u8], &[u8])) {
    records(kafka, topic, |record| {
        each(
            record.key().unwrap_or_default(),
            record.payload().unwrap_or_default(),
        );
    });
}

/// The records in a topic now, in the order of each partition.
pub(crate) fn records(kafka: &Kafka, topic: &str, mut each: impl FnMut(&BorrowedMessage<'_>)) {
    let mut config = kafka.config.clone();
    config.set("group.id", "test");
    config.set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().expect("the client's settings are right");
    for (partition, end) in (0..).zip(kafka.high_watermarks(topic)) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .expect("a valid offset");
        consumer.assign(&list).expect("a partition that exists");
        let mut next_offset = 0;
        while next_offset < end {
            let record = consumer
                .poll(TIMEOUT)
                .unwrap_or_else(|| panic!("{topic}[{partition}] ends before {end}"))
                .unwrap_or_else(|error| panic!("{topic}[{partition}]: {error}"));
            next_offset = record.offset() + 1;
            each(&record);
        }
    }
}
