//! Appends records to one topic that is not a target: quarantined READs, events of generations.
//!
//! Invariant: all in-sync replicas have what was appended when [`KafkaLog::append`] returns `Ok`;
//! records of one call keep their order within a partition.
//!
//! It is not fenced, and what is tried again may be there twice: keys tell.

use super::deliver::{Deliveries, Outgoing, Verdict, hand_over, verdict, wait};
use super::properties::Properties;
use crate::error::Error;
use rdkafka::producer::{BaseProducer, Producer};
use std::collections::BTreeMap;
use std::time::Duration;

/// A topic, and how it is written.
#[derive(Clone, Debug)]
pub struct LogTopic {
    /// Its name.
    pub name: String,
    properties: Properties,
}

impl LogTopic {
    /// `key` is the setting that names it; `kafka` is `[kafka]` of the configuration.
    ///
    /// # Errors
    /// When no broker is named or a property contradicts what is relied on.
    pub fn new(key: &str, name: &str, kafka: &BTreeMap<String, String>) -> Result<LogTopic, Error> {
        let properties = Properties::new(kafka, &BTreeMap::new(), false);
        let properties = properties.map_err(|error| {
            Error::usage(format!("topic {name} of `{key}` cannot be written")).line(error.text)
        })?;
        Ok(LogTopic {
            name: name.to_owned(),
            properties,
        })
    }
}

/// A record for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Records of one key are in one partition.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The id of the generation that it is about.
    pub generation: Option<String>,
}

/// Why records were not appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFailure {
    /// Trying again may help.
    Retry(String),
    /// Trying again does not help before somebody has changed something.
    Fatal(String),
    /// The brokers refuse this record of the call, whatever is tried.
    Record(usize, String),
}

/// Writes a [`LogTopic`].
pub(crate) struct KafkaLog {
    topic: LogTopic,
    producer: Option<BaseProducer<Deliveries>>,
}

impl KafkaLog {
    pub(crate) fn new(topic: LogTopic) -> KafkaLog {
        KafkaLog {
            topic,
            producer: None,
        }
    }

    /// Where it writes, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{} at {}", self.topic.name, self.topic.properties.brokers)
    }

    /// Appends records; durable when it returns `Ok`. Waits for brokers for
    /// `message.timeout.ms` (30 s) at most.
    ///
    /// # Errors
    /// See [`LogFailure`]; some of the records may be there.
    pub(crate) fn append(&mut self, records: &[LogRecord]) -> Result<(), LogFailure> {
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => {
                let config = &self.topic.properties.config;
                let made = config.create_with_context(Deliveries::default());
                made.map_err(|error| LogFailure::Fatal(format!("{}: {error}", self.place())))?
            }
        };
        let outgoing = records.iter().map(|record| Outgoing {
            topic: &self.topic.name,
            key: &record.key,
            value: Some(&record.value),
            generation: record.generation.as_deref(),
        });
        hand_over(&producer, outgoing.enumerate());
        wait(&producer, Duration::MAX);
        let failures = producer.context().take();
        if let Some((_, reason)) = producer.client().fatal_error() {
            // An idempotent producer that has lost its place goes on only as a new one.
            return Err(LogFailure::Retry(format!("{}: {reason}", self.place())));
        }
        self.producer = Some(producer);
        let Some((index, error)) = failures.into_iter().next() else {
            return Ok(());
        };
        let text = format!("{}: {error}", self.place());
        Err(match verdict(&error) {
            Verdict::Retry => LogFailure::Retry(text),
            Verdict::Fatal => LogFailure::Fatal(text),
            Verdict::Row => LogFailure::Record(index, text),
        })
    }
}
