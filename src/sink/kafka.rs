//! Upserts and tombstones to Kafka topics: key and value as they came, a null value for a delete.
//!
//! Invariant: a batch is acknowledged by all in-sync replicas when `write` returns; a key always
//! goes to the partition that Java's default partitioner gives it, over one producer, in order.
//!
//! It cannot keep a row from being written twice after a restart, and does not fence an older
//! process yet.

mod deliver;

use super::settings::SinkSettings;
use super::{
    Applied, Change, Place, Rejected, ReplaySafety, Row, RowForm, Sink, WriteError, Writer, admit,
};
use crate::error::Error;
use crate::table::Table;
use deliver::{Deliveries, Verdict, verdict};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::BTreeMap;
use std::time::Duration;

const ASK_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// The target.
#[derive(Clone, Debug)]
pub struct KafkaSink {
    settings: SinkSettings,
    config: ClientConfig,
    brokers: String,
    /// A topic for each table.
    topics: Vec<String>,
}

impl KafkaSink {
    /// Topics of the cluster that `kafka` (and `sink.kafka` over it) names.
    ///
    /// # Errors
    /// When a topic would be written that a table is read from, or no broker is named.
    pub(super) fn new(
        settings: &SinkSettings,
        kafka: &BTreeMap<String, String>,
        tables: &[Table],
    ) -> Result<KafkaSink, Error> {
        let mut topics = Vec::new();
        for table in tables {
            let topic = settings.target_name(table).to_owned();
            let read = |other: &Table| other.mutations == topic || other.snapshot == topic;
            let same_cluster = !settings.kafka.contains_key("bootstrap.servers");
            if same_cluster && let Some(other) = tables.iter().find(|other| read(other)) {
                return Err(Error::usage(format!(
                    "the sink of `{}` would write topic {topic}, which `{}` is read from",
                    table.name, other.name
                ))
                .line(format!(
                    "Set another topic: sink.names = {{ \"{}\" = \"…\" }}.",
                    table.name
                )));
            }
            topics.push(topic);
        }
        let mut config = ClientConfig::new();
        // Whoever needs other values states them; what follows below is not for choosing.
        config.set("compression.type", "lz4").set("linger.ms", "5");
        for (name, value) in kafka.iter().chain(&settings.kafka) {
            config.set(name, value);
        }
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("partitioner", "murmur2_random")
            .set_log_level(RDKafkaLogLevel::Error);
        let brokers = config.get("bootstrap.servers").map(str::to_owned);
        let brokers = brokers.ok_or_else(|| {
            Error::usage("sink.kind = \"kafka\" has no broker")
                .line("Set \"bootstrap.servers\" in [kafka] or in sink.kafka.")
        })?;
        Ok(KafkaSink {
            settings: settings.clone(),
            config,
            brokers,
            topics,
        })
    }

    fn failed(&self, error: impl std::fmt::Display) -> Error {
        Error::failed(format!("cannot use the Kafka target at {}", self.brokers))
            .line(error)
            .line("Check that the brokers run and the properties in [kafka] and sink.kafka.")
    }

    fn producer(&self) -> Result<BaseProducer<Deliveries>, Error> {
        let made = self.config.create_with_context(Deliveries::default());
        made.map_err(|error: KafkaError| self.failed(error))
    }

    fn check_topic(&self, producer: &BaseProducer<Deliveries>, topic: &str) -> Result<(), Error> {
        let client = producer.client();
        let metadata = client.fetch_metadata(Some(topic), ASK_TIMEOUT);
        let metadata = metadata.map_err(|error| self.failed(error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let partitions = match found {
            Some(found) if found.error().is_none() => found.partitions(),
            _ => &[],
        };
        if partitions.is_empty() {
            return Err(
                Error::usage(format!("there is no topic {topic} at {}", self.brokers))
                    .line(
                        "It is a target. Create it, with cleanup.policy=compact, or name another:",
                    )
                    .line("sink.topic or sink.names."),
            );
        }
        let mut is_empty = true;
        for partition in partitions {
            let range = client.fetch_watermarks(topic, partition.id(), ASK_TIMEOUT);
            let (low, high) = range.map_err(|error| self.failed(error))?;
            is_empty &= low == high;
        }
        admit::not_empty(&self.settings, is_empty, &format!("target topic {topic}"))
    }
}

impl Sink for KafkaSink {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn shards_a_worker(&self) -> usize {
        self.settings.connections.unwrap_or(1)
    }

    fn check(&self) -> Result<(), Error> {
        let producer = self.producer()?;
        self.topics
            .iter()
            .try_for_each(|topic| self.check_topic(&producer, topic))
    }

    fn writer(&self, _place: Place) -> Result<Box<dyn Writer>, Error> {
        Ok(Box::new(KafkaWriter {
            producer: self.producer()?,
            sink: self.clone(),
        }))
    }
}

struct KafkaWriter {
    sink: KafkaSink,
    producer: BaseProducer<Deliveries>,
}

impl KafkaWriter {
    /// Hands a record to librdkafka, waiting while its queue is full.
    fn send(&self, index: usize, topic: &str, key: &[u8], value: Option<&[u8]>) {
        let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, index).key(key);
        if let Some(value) = value {
            record = record.payload(value);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => return,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    self.producer.poll(POLL);
                    record = again;
                }
                Err((error, _)) => {
                    self.producer.context().failed(index, error);
                    return;
                }
            }
        }
    }
}

impl Writer for KafkaWriter {
    fn write(&mut self, rows: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        for (index, row) in rows.iter().enumerate() {
            let value = match row.change {
                Change::Upsert(value) => Some(value),
                Change::Delete => None,
            };
            self.send(index, &self.sink.topics[row.table], row.key, value);
        }
        // Every record is delivered or fails by message.timeout.ms, so this ends.
        while self.producer.in_flight_count() > 0 {
            self.producer.poll(POLL);
        }
        let failures = self.producer.context().take();
        if let Some((_, reason)) = self.producer.client().fatal_error() {
            // An idempotent producer that has lost its place goes on only as a new one.
            self.producer = self.sink.producer().map_err(WriteError::Fatal)?;
            return Err(WriteError::Retry(format!(
                "{}: {reason}",
                self.sink.brokers
            )));
        }
        let mut rejected = Vec::new();
        let mut retry = None;
        for (index, error) in failures {
            match verdict(&error) {
                Verdict::Retry => retry = Some(format!("{}: {error}", self.sink.brokers)),
                Verdict::Row => rejected.push(Rejected {
                    index,
                    reason: error.to_string(),
                }),
                Verdict::Fatal => {
                    let topic = &self.sink.topics[rows[index].table];
                    return Err(WriteError::Fatal(
                        self.sink.failed(format!("topic {topic}: {error}")),
                    ));
                }
            }
        }
        match (retry, rejected.is_empty()) {
            (Some(reason), _) => Err(WriteError::Retry(reason)),
            (None, true) => Ok(()),
            (None, false) => Err(WriteError::Rejected(rejected)),
        }
    }
}

#[cfg(test)]
mod tests;
