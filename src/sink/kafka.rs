//! Upserts and tombstones to Kafka topics: key and value as they came, a null value for a delete.
//! The header `headwater.generation` is the id of the generation that a READ belongs to, or that is
//! open or ready for the table of a mutation.
//!
//! Invariant: a batch is acknowledged by all in-sync replicas, and by default committed in one
//! transaction, when `write` returns; a key always goes to the partition that Java's default
//! partitioner gives it, over one producer, in order. What an older run has not committed when a
//! newer one claims the target is never committed.
//!
//! It is a stream, not a table: after a restart rows since the checkpoint are written again, in
//! order, so a reader may see a key go back for a while. It cannot tell how far it is.

mod deliver;
mod fence;
mod log;
mod plain;
mod properties;
mod transaction;

use super::settings::SinkSettings;
use super::{
    Change, Claim, Claimed, Fence, GenerationNames, Place, ReplaySafety, Row, RowForm, Sink, Writer,
};
use crate::error::Error;
use crate::table::Table;
use crate::topic::kafka::ids::topic_ids;
use deliver::{Deliveries, Outgoing, hand_over};
use plain::PlainWriter;
use properties::Properties;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transaction::TransactionalWriter;

pub use deliver::GENERATION_HEADER;
pub(crate) use log::KafkaLog;
pub use log::{LogFailure, LogRecord, LogTopic};

const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a shard's producer may take to become the only one of its shard.
const INIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The target.
#[derive(Clone, Debug)]
pub struct KafkaSink {
    settings: SinkSettings,
    properties: Properties,
    /// A topic for each table.
    topics: Vec<String>,
    names: Arc<GenerationNames>,
}

impl KafkaSink {
    /// Topics of the cluster that `kafka` (and `sink.kafka` over it) names.
    ///
    /// # Errors
    /// When a topic would be written that a table is read from, no broker is named, or a property
    /// contradicts what the sink relies on.
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
        let properties = Properties::new(kafka, &settings.kafka, settings.transactional)?;
        if settings.transactional && settings.job.is_empty() {
            return Err(Error::usage("the job of a Kafka target has no name")
                .line("Transactional ids begin with it: give it a name of its own."));
        }
        Ok(KafkaSink {
            settings: settings.clone(),
            properties,
            topics,
            names: Arc::default(),
        })
    }

    fn brokers(&self) -> &str {
        &self.properties.brokers
    }

    fn failed(&self, error: impl std::fmt::Display) -> Error {
        Error::failed(format!("cannot use the Kafka target at {}", self.brokers()))
            .line(error)
            .line("Check that the brokers run and the properties in [kafka] and sink.kafka.")
    }

    fn create(&self, config: &ClientConfig) -> Result<BaseProducer<Deliveries>, Error> {
        let made = config.create_with_context(Deliveries::default());
        made.map_err(|error: KafkaError| self.failed(error))
    }

    /// A producer without transactions.
    fn producer(&self) -> Result<BaseProducer<Deliveries>, Error> {
        self.create(&self.properties.config)
    }

    /// A producer of a shard's transactional id, initialised: from here on the only one.
    fn only_producer(
        &self,
        shard: usize,
        incarnation: u32,
        until: Instant,
    ) -> Result<BaseProducer<Deliveries>, Error> {
        let id = fence::transactional_id(&self.settings.job, shard, incarnation);
        let mut config = self.properties.config.clone();
        config.set("transactional.id", &id);
        let producer = self.create(&config)?;
        fence::init(self, &producer, &id, until)?;
        Ok(producer)
    }

    /// Hands rows to librdkafka but those that are `skipped`.
    fn hand_over(
        &self,
        producer: &BaseProducer<Deliveries>,
        rows: &[Row<'_>],
        skipped: impl Fn(usize) -> bool,
    ) {
        let ids = self.names.of_rows(rows);
        let outgoing = rows.iter().zip(&ids).map(|(row, id)| Outgoing {
            topic: &self.topics[row.table],
            key: row.key,
            value: match row.change {
                Change::Upsert(value) => Some(value),
                Change::Delete => None,
            },
            generation: id.as_deref(),
        });
        let sent = outgoing.enumerate().filter(|(index, _)| !skipped(*index));
        hand_over(producer, sent);
    }

    /// Whether a topic holds records; it must be there.
    fn has_records(&self, producer: &BaseProducer<Deliveries>, topic: &str) -> Result<bool, Error> {
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
                Error::usage(format!("there is no topic {topic} at {}", self.brokers()))
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
        Ok(!is_empty)
    }

    /// The topics with their ids; `None` when the brokers have none.
    fn identity(&self) -> Result<Option<String>, Error> {
        let producer = self.producer()?;
        let names: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        let ids = topic_ids(producer.client(), &names, ASK_TIMEOUT);
        let ids =
            ids.map_err(|(code, text)| self.failed(format!("topic ids: {text} ({code:?})")))?;
        let named = names.iter().zip(ids);
        let named: Option<Vec<String>> = named
            .map(|(name, id)| id.map(|id| format!("{name}={id}")))
            .collect();
        Ok(named.map(|named| named.join(" ")))
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
            .try_for_each(|topic| self.has_records(&producer, topic).map(|_| ()))
    }

    fn holds_rows(&self) -> Result<Option<String>, Error> {
        let producer = self.producer()?;
        for topic in &self.topics {
            if self.has_records(&producer, topic)? {
                return Ok(Some(format!("target topic {topic}")));
            }
        }
        Ok(None)
    }

    fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let identity = self.identity()?;
        if let (Some(known), Some(found)) = (&claim.identity, &identity)
            && known != found
        {
            return Err(Error::refused(format!(
                "the target at {} is not the one that the checkpoint was made with",
                self.brokers()
            ))
            .line(format!("checkpoint  topic ids {known}"))
            .line(format!("found       topic ids {found}"))
            .line("A topic was deleted and made anew: rows written before are not in it.")
            .line("Start a new job with a new snapshot."));
        }
        let fence = if self.settings.transactional {
            fence::take(self, claim)?;
            Fence::Fenced
        } else {
            Fence::None(format!(
                "sink.transactional = false: an older run that is still alive can write to {}",
                self.topics.join(", ")
            ))
        };
        Ok(Claimed {
            identity,
            fence,
            applied: Vec::new(),
        })
    }

    fn names(&self) -> Option<Arc<GenerationNames>> {
        Some(Arc::clone(&self.names))
    }

    fn writer(&self, place: Place) -> Result<Box<dyn Writer>, Error> {
        if !self.settings.transactional {
            return Ok(Box::new(PlainWriter::new(self.clone(), self.producer()?)));
        }
        let until = Instant::now() + INIT_TIMEOUT;
        let producer = self.only_producer(place.shard, place.incarnation, until)?;
        Ok(Box::new(TransactionalWriter::new(self.clone(), producer)))
    }
}

#[cfg(test)]
mod tests;
