//! Kafka as tests use it: create topics, count records, write end-of-snapshot records, and read a
//! topic when a test must know what was in it.
//!
//! Invariant: a topic exists with the partitions asked for before anything writes to it, so that
//! nothing depends on automatic creation.
//!
//! It cannot follow a topic: [`Kafka::values`] reads what is there and ends.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const TIMEOUT: Duration = Duration::from_secs(30);

/// One broker.
#[derive(Clone, Debug)]
pub(crate) struct Kafka {
    /// Of its clients.
    pub(crate) config: ClientConfig,
}

impl Kafka {
    /// A broker by its address.
    pub(crate) fn new(bootstrap_servers: &str) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap_servers);
        Self { config }
    }

    /// Creates topics, each as (name, partitions). One that exists already is an error.
    pub(crate) fn create_topics(&self, topics: &[(&str, i32)]) {
        let admin: AdminClient<DefaultClientContext> = self
            .config
            .create()
            .expect("the client's settings are right");
        let topics: Vec<NewTopic<'_>> = topics
            .iter()
            .map(|&(name, partitions)| NewTopic::new(name, partitions, TopicReplication::Fixed(1)))
            .collect();
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        let created = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime without I/O")
            .block_on(admin.create_topics(&topics, &options))
            .expect("the broker answers");
        for topic in created {
            topic.unwrap_or_else(|(name, code)| panic!("topic {name} not created: {code}"));
        }
    }

    /// Offsets written to a topic so far, per partition: the high watermarks, read uncommitted.
    pub(crate) fn high_watermarks(&self, topic: &str) -> Vec<i64> {
        let consumer: BaseConsumer = self
            .config
            .create()
            .expect("the client's settings are right");
        let metadata = consumer
            .fetch_metadata(Some(topic), TIMEOUT)
            .expect("the broker answers");
        let mut ids: Vec<i32> = metadata.topics()[0]
            .partitions()
            .iter()
            .map(|found| found.id())
            .collect();
        ids.sort_unstable();
        ids.into_iter()
            .map(|id| {
                let ends = consumer.fetch_watermarks(topic, id, TIMEOUT);
                ends.unwrap_or_else(|error| panic!("{topic}[{id}]: {error}"))
                    .1
            })
            .collect()
    }

    /// Records written to a topic so far, all partitions.
    pub(crate) fn count(&self, topic: &str) -> i64 {
        self.high_watermarks(topic).iter().sum()
    }

    /// Writes the end-of-snapshot record of a generation to every partition of a snapshot topic:
    /// no key, no value, header `headwater.end` with the generation's id.
    pub(crate) fn end_snapshot(&self, topic: &str, generation: &str) {
        let producer: BaseProducer = self
            .config
            .create()
            .expect("the client's settings are right");
        for (partition, _) in (0..).zip(self.high_watermarks(topic)) {
            let header = Header {
                key: "headwater.end",
                value: Some(generation),
            };
            let record = BaseRecord::<'_, (), ()>::to(topic)
                .partition(partition)
                .headers(OwnedHeaders::new().insert(header));
            producer
                .send(record)
                .unwrap_or_else(|(error, _)| panic!("{topic}[{partition}]: {error}"));
        }
        producer
            .flush(TIMEOUT)
            .expect("the broker takes the records");
    }
}
