//! Writes a shard without transactions: nothing keeps an older run from doing the same.
//!
//! It cannot take back what it wrote of a batch that failed; the batch is written again.

use super::KafkaSink;
use super::deliver::{Deliveries, Verdict, verdict, wait};
use crate::error::Error;
use crate::sink::{Applied, Rejected, Row, WriteError, Writer};
use rdkafka::producer::{BaseProducer, Producer};
use std::time::Duration;

pub(super) struct PlainWriter {
    sink: KafkaSink,
    producer: BaseProducer<Deliveries>,
}

impl PlainWriter {
    pub(super) fn new(sink: KafkaSink, producer: BaseProducer<Deliveries>) -> PlainWriter {
        PlainWriter { sink, producer }
    }
}

impl Writer for PlainWriter {
    fn write(&mut self, rows: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        self.sink.hand_over(&self.producer, rows, |_| false);
        wait(&self.producer, Duration::MAX);
        let failures = self.producer.context().take();
        if let Some((_, reason)) = self.producer.client().fatal_error() {
            // An idempotent producer that has lost its place goes on only as a new one.
            self.producer = self.sink.producer().map_err(WriteError::Fatal)?;
            return Err(WriteError::Retry(format!(
                "{}: {reason}",
                self.sink.brokers()
            )));
        }
        let mut rejected = Vec::new();
        let mut retry = None;
        for (index, error) in failures {
            match verdict(&error) {
                Verdict::Retry => retry = Some(format!("{}: {error}", self.sink.brokers())),
                Verdict::Row => rejected.push(Rejected {
                    index,
                    reason: error.to_string(),
                }),
                Verdict::Fatal => {
                    let topic = &self.sink.topics[rows[index].table];
                    let error: Error = self.sink.failed(format!("topic {topic}: {error}"));
                    return Err(WriteError::Fatal(error));
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
