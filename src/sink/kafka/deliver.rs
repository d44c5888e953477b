//! What became of the records of a batch, as librdkafka reports it.
//!
//! It cannot tell whether a record that timed out was written; it is then written again.

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, NoCustomPartitioner, ProducerContext};
use std::sync::{Mutex, PoisonError};

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
