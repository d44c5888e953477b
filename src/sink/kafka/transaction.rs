//! Writes a shard in transactions, one a flush: a reader of committed records sees a whole batch
//! or nothing of it, and nothing of a run that was fenced.
//!
//! Invariant: the end of a transaction is known before the next one begins. A commit whose answer
//! did not come is asked for again, not done again: the batch is then in the topic once. Records
//! that brokers do not take for a while stay in their transaction: an abort whose beginning the
//! brokers never heard of can make librdkafka's producer useless (INVALID_TXN_STATE).
//!
//! A producer that was fenced never becomes usable again (see [`super::fence`]).

use super::KafkaSink;
use super::deliver::{Deliveries, Verdict, verdict, wait};
use super::fence;
use crate::error::Error;
use crate::fault;
use crate::sink::{Applied, Rejected, Row, WriteError, Writer};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long deliveries, a commit or an abort are waited for before the status tells of it.
const CALL: Duration = Duration::from_secs(10);
/// The same when the job ends.
const LAST_CALL: Duration = Duration::from_secs(1);

/// What the last call has left.
enum Open {
    Nothing,
    /// A transaction that must be aborted.
    Transaction,
    /// Records on their way, and the rows of the batch that are not among them.
    Sending(BTreeMap<usize, String>),
    /// A commit without an answer, and the rows of the batch that are not in it.
    Commit(Vec<Rejected>),
}

pub(super) struct TransactionalWriter {
    sink: KafkaSink,
    producer: BaseProducer<Deliveries>,
    open: Open,
}

impl TransactionalWriter {
    /// `producer` has initialised its transactional id.
    pub(super) fn new(sink: KafkaSink, producer: BaseProducer<Deliveries>) -> TransactionalWriter {
        TransactionalWriter {
            sink,
            producer,
            open: Open::Nothing,
        }
    }

    fn retry(&self, reason: impl std::fmt::Display) -> WriteError {
        WriteError::Retry(format!("{}: {reason}", self.sink.brokers()))
    }

    /// The error of a producer that is of no use any more.
    fn check_alive(&self) -> Result<(), WriteError> {
        match self.producer.client().fatal_error() {
            Some((code, reason)) => {
                let error = fence::ended(&self.sink, Some(code), &reason);
                Err(WriteError::Fatal(error))
            }
            None => Ok(()),
        }
    }

    /// Sends the rows in a new transaction; the failures that are the rows' own.
    fn send(
        &mut self,
        rows: &[Row<'_>],
        without: &BTreeMap<usize, String>,
    ) -> Result<Vec<(usize, String)>, WriteError> {
        let begun = self.producer.begin_transaction();
        begun.map_err(|error| self.ended(&error))?;
        self.open = Open::Transaction;
        let skipped = |index| without.contains_key(&index);
        self.sink.hand_over(&self.producer, rows, skipped);
        self.delivered(rows, without)
    }

    /// Waits for what was sent; the failures that are the rows' own.
    fn delivered(
        &mut self,
        rows: &[Row<'_>],
        without: &BTreeMap<usize, String>,
    ) -> Result<Vec<(usize, String)>, WriteError> {
        if !wait(&self.producer, CALL) {
            self.open = Open::Sending(without.clone());
            return Err(self.retry("no broker has taken the records yet"));
        }
        self.open = Open::Transaction;
        let failures = self.producer.context().take();
        self.check_alive()?;
        let mut own = Vec::new();
        let mut retry = None;
        for (index, error) in failures {
            match verdict(&error) {
                Verdict::Retry => retry = Some(self.retry(&error)),
                Verdict::Row => own.push((index, error.to_string())),
                Verdict::Fatal => {
                    let topic = &self.sink.topics[rows[index].table];
                    let error = self.sink.failed(format!("topic {topic}: {error}"));
                    return Err(WriteError::Fatal(error));
                }
            }
        }
        match retry {
            // The other failures of a transaction may follow from one that is a row's own.
            Some(retry) if own.is_empty() => Err(retry),
            _ => Ok(own),
        }
    }

    /// What an error means that neither asks for a repetition nor for an abort.
    fn ended(&self, error: &KafkaError) -> WriteError {
        match self.check_alive() {
            Err(ended) => ended,
            Ok(()) => {
                let code = error.rdkafka_error_code();
                WriteError::Fatal(fence::ended(&self.sink, code, &error.to_string()))
            }
        }
    }

    fn abort(&mut self, within: Duration) -> Result<(), WriteError> {
        self.open = Open::Transaction;
        match self.producer.abort_transaction(within) {
            Ok(()) => {
                // Whatever was reported belongs to the transaction that is gone.
                wait(&self.producer, within);
                self.producer.context().take();
                self.open = Open::Nothing;
                Ok(())
            }
            Err(error) if retriable(&error) => {
                Err(self.retry(format!("a transaction is not aborted yet: {error}")))
            }
            Err(error) => Err(self.ended(&error)),
        }
    }

    fn commit(&mut self, rejected: Vec<Rejected>) -> Result<(), WriteError> {
        let error = match self.producer.commit_transaction(CALL) {
            Ok(()) => {
                self.open = Open::Nothing;
                return match rejected.is_empty() {
                    true => Ok(()),
                    false => Err(WriteError::Rejected(rejected)),
                };
            }
            Err(error) => error,
        };
        if retriable(&error) {
            self.open = Open::Commit(rejected);
            return Err(self.retry(format!("a transaction is not committed yet: {error}")));
        }
        self.open = Open::Transaction;
        match &error {
            KafkaError::Transaction(aborts) if aborts.txn_requires_abort() => {
                self.abort(CALL)?;
                Err(self.retry(format!("a transaction was aborted: {error}")))
            }
            _ => Err(self.ended(&error)),
        }
    }
}

fn retriable(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(error) => error.is_retriable(),
        // Records that are still in flight.
        KafkaError::Flush(_) => true,
        _ => false,
    }
}

fn at_point(result: Result<(), Error>) -> Result<(), WriteError> {
    result.map_err(|error| WriteError::Retry(error.text))
}

impl Writer for TransactionalWriter {
    fn write(&mut self, rows: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        let mut without = BTreeMap::new();
        // After a retry the same batch is given.
        let mut refused = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => self.send(rows, &without)?,
            Open::Transaction => {
                self.abort(CALL)?;
                self.send(rows, &without)?
            }
            Open::Sending(before) => {
                without = before;
                self.delivered(rows, &without)?
            }
            Open::Commit(rejected) => return self.commit(rejected),
        };
        while !refused.is_empty() {
            // A transaction is whole or not at all: again, without them.
            self.abort(CALL)?;
            without.extend(refused);
            refused = self.send(rows, &without)?;
        }
        at_point(fault::point("kafka.commit.before"))?;
        let rejected = without.into_iter();
        self.commit(
            rejected
                .map(|(index, reason)| Rejected { index, reason })
                .collect(),
        )?;
        at_point(fault::point("kafka.commit.after"))
    }
}

impl Drop for TransactionalWriter {
    /// Readers need not wait for the brokers to end what was given up.
    fn drop(&mut self) {
        if let Open::Transaction | Open::Sending(_) = self.open {
            let _ = self.abort(LAST_CALL);
        }
    }
}
