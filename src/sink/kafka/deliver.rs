//! Records of a batch on their way, and what became of them, as librdkafka reports it.
//!
//! It cannot tell whether a record that timed out was written; it is then written again.

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, NoCustomPartitioner, Producer, ProducerContext,
};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// `BaseProducer::poll` always takes all of its time, however soon something comes.
const POLL: Duration = Duration::from_millis(1);

/// Collects the failures of a batch, by index of the row.
#[derive(Debug, Default)]
pub(super) struct Deliveries(Mutex<Vec<(usize, KafkaError)>>);

impl Deliveries {
    /// Row `index` was not delivered.
    pub(super) fn failed(&self, index: usize, error: KafkaError) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((index, error));
    }

    /// The failures since the last call, in order of the rows.
    pub(super) fn take(&self) -> Vec<(usize, KafkaError)> {
        let mut failures =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        failures.sort_by_key(|(index, _)| *index);
        failures
    }
}

impl ClientContext for Deliveries {
    // Errors of connections come back as errors of deliveries; without a row there is nothing to
    // tell.
    fn error(&self, _error: KafkaError, _reason: &str) {}
}

impl ProducerContext<NoCustomPartitioner> for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        if let Err((error, _)) = result {
            self.failed(index, error.clone());
        }
    }
}

/// The header that names the generation of a record.
pub const GENERATION_HEADER: &str = "headwater.generation";

/// A record that is to be sent.
pub(super) struct Outgoing<'a> {
    pub(super) topic: &'a str,
    pub(super) key: &'a [u8],
    /// None for a tombstone.
    pub(super) value: Option<&'a [u8]>,
    /// The id of its generation.
    pub(super) generation: Option<&'a str>,
}

/// Hands records to librdkafka, each with its number among those of the batch, waiting while its
/// queue is full.
pub(super) fn hand_over<'a>(
    producer: &BaseProducer<Deliveries>,
    records: impl IntoIterator<Item = (usize, Outgoing<'a>)>,
) {
    for (index, outgoing) in records {
        let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(outgoing.topic, index);
        record = record.key(outgoing.key);
        if let Some(value) = outgoing.value {
            record = record.payload(value);
        }
        if let Some(id) = outgoing.generation {
            let header = Header {
                key: GENERATION_HEADER,
                value: Some(id),
            };
            record = record.headers(OwnedHeaders::new_with_capacity(1).insert(header));
        }
        send(producer, index, record);
    }
}

fn send(
    producer: &BaseProducer<Deliveries>,
    index: usize,
    mut record: BaseRecord<'_, [u8], [u8], usize>,
) {
    loop {
        match producer.send(record) {
            Ok(()) => return,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                producer.poll(POLL);
                record = again;
            }
            Err((error, _)) => {
                producer.context().failed(index, error);
                return;
            }
        }
    }
}

/// Waits until every record is delivered or has failed, or `limit` is over; whether all have ended.
/// `message.timeout.ms` bounds it, too.
pub(super) fn wait(producer: &BaseProducer<Deliveries>, limit: Duration) -> bool {
    let begun = Instant::now();
    while producer.in_flight_count() > 0 {
        if begun.elapsed() > limit {
            return false;
        }
        producer.poll(POLL);
    }
    true
}

/// What to do about a record that was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Retry,
    Row,
    Fatal,
}

/// Whose fault an error is.
pub(super) fn verdict(error: &KafkaError) -> Verdict {
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::InvalidRecord,
        ) => Verdict::Row,
        Some(
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::PolicyViolation
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::UnsupportedSASLMechanism,
        ) => Verdict::Fatal,
        _ => Verdict::Retry,
    }
}
