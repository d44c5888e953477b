//! Writes end-of-snapshot records to Kafka.
//!
//! Invariant: it succeeds only when the brokers have acknowledged every record.

use crate::error::Error;
use crate::topic::END_HEADER;
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::Message;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, NoCustomPartitioner, Producer, ProducerContext,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long the brokers may take to acknowledge.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What was not acknowledged, in words.
#[derive(Default)]
struct Failures(Mutex<Vec<String>>);

impl Failures {
    fn add(&self, topic: &str, partition: i32, error: &KafkaError) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push(format!("{topic}[{partition}]: {error}"));
    }
}

impl ClientContext for Failures {
    // Errors of connections come back as those of records.
    fn error(&self, _error: KafkaError, _reason: &str) {}
}

impl ProducerContext<NoCustomPartitioner> for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            self.add(message.topic(), message.partition(), error);
        }
    }
}

/// Writes a record to each of these partitions, with librdkafka properties as a person writes them.
///
/// # Errors
/// When a record was not acknowledged, with the partitions that have none.
pub(super) fn write(
    properties: &BTreeMap<String, String>,
    topics: &[(String, Range<u32>)],
    generation: &str,
) -> Result<(), Error> {
    let mut config = ClientConfig::new();
    for (name, value) in properties {
        config.set(name, value);
    }
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("message.timeout.ms", TIMEOUT.as_millis().to_string())
        .set_log_level(RDKafkaLogLevel::Error);
    let made = config.create_with_context(Failures::default());
    let producer: BaseProducer<Failures> = made.map_err(|error: KafkaError| {
        Error::usage("no Kafka producer could be made of [kafka]").line(error)
    })?;
    let failures = producer.context();
    for (topic, partitions) in topics {
        for partition in partitions.clone() {
            let partition = i32::try_from(partition).expect("a partition of Kafka");
            let header = Header {
                key: END_HEADER,
                value: Some(generation),
            };
            let record = BaseRecord::<'_, (), ()>::to(topic)
                .partition(partition)
                .headers(OwnedHeaders::new().insert(header));
            if let Err((error, _)) = producer.send(record) {
                failures.add(topic, partition, &error);
            }
        }
    }
    // Longer than a record's own limit, so that each has come to its end.
    let flushed = producer.flush(2 * TIMEOUT);
    let failures = failures.0.lock().unwrap_or_else(PoisonError::into_inner);
    if failures.is_empty() && flushed.is_ok() {
        return Ok(());
    }
    let error = Error::failed("not every partition has got its end-of-snapshot record");
    let error = failures.iter().fold(error, Error::line);
    let error = match flushed {
        Ok(()) => error,
        Err(why) => error.line(why),
    };
    Err(error.line("Mend it, then call again with --again: a second record does no harm."))
}
