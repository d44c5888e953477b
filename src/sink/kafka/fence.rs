//! Who may write: each shard has a transactional id, the same for all runs of a job, and the
//! brokers let only the producer write that has initialised it last.
//!
//! Invariant: a producer initialises its id once, when it is made, and never again: one that was
//! fenced could fence its successor. A run that makes its writers must look *afterwards* whether
//! its incarnation is still the newest: if it was paused before, it has just fenced the newer one.
//!
//! It cannot tell two jobs of one name apart: they fence each other.

use super::KafkaSink;
use super::deliver::Deliveries;
use crate::error::Error;
use crate::fault;
use crate::sink::Claim;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, Producer};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Ids initialised at once; each takes a client with connections of its own.
const AT_ONCE: usize = 16;
/// Time limit of a claim.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest single call, so that a refusal is noticed before the time limit.
const CALL: Duration = Duration::from_secs(10);

/// The id of a shard, counted over all workers of all processes.
pub(super) fn transactional_id(job: &str, shard: usize, incarnation: u32) -> String {
    if fault::planted("unfenced") {
        return format!("{job}/{shard}/{incarnation}");
    }
    format!("{job}/{shard}")
}

/// Makes every producer of earlier runs one that cannot write, also those of shards that this run
/// does not have. What they had not committed is aborted.
pub(super) fn take(sink: &KafkaSink, claim: &Claim) -> Result<(), Error> {
    let until = Instant::now() + CLAIM_TIMEOUT;
    let next = AtomicUsize::new(0);
    let take_some = || {
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= claim.shards_before {
                return Ok(());
            }
            sink.only_producer(shard, claim.incarnation, until)?;
        }
    };
    std::thread::scope(|scope| {
        let threads = AT_ONCE.min(claim.shards_before);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take_some)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), Error>>| {
            let panicked = |_| Err(Error::failed("a claim of the Kafka target panicked"));
            thread.join().unwrap_or_else(panicked)
        };
        // All end before an error is told.
        let ended: Vec<_> = threads.into_iter().map(join).collect();
        ended.into_iter().collect()
    })
}

/// Initialises a producer's id.
pub(super) fn init(
    sink: &KafkaSink,
    producer: &BaseProducer<Deliveries>,
    id: &str,
    until: Instant,
) -> Result<(), Error> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let error = match producer.init_transactions(left.min(CALL)) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let retry = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
        if retry && Instant::now() < until {
            continue;
        }
        let failed = sink.failed(format!("transactional.id {id}: {error}"));
        return Err(match error.rdkafka_error_code() {
            Some(Code::TransactionalIdAuthorizationFailed | Code::ClusterAuthorizationFailed) => {
                failed
                    .line(format!(
                        "Grant WRITE and DESCRIBE on transactional ids that begin with {}/,",
                        sink.settings.job
                    ))
                    .line("or set sink.transactional = false (not fenced).")
            }
            Some(Code::InvalidTransactionTimeout) => failed
                .line("Set \"transaction.timeout.ms\" to transaction.max.timeout.ms of the brokers")
                .line("or less."),
            Some(Code::UnsupportedFeature) => failed
                .line("These brokers have no transactions: set sink.transactional = false")
                .line("(not fenced)."),
            _ => failed,
        });
    }
}

/// The error that ends a producer for good.
pub(super) fn ended(sink: &KafkaSink, code: Option<Code>, reason: &str) -> Error {
    match code {
        Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch) => {
            let job = &sink.settings.job;
            Error::refused(format!(
                "fenced: another run of job {job} has taken over the Kafka target at {}",
                sink.brokers()
            ))
            .line(format!("found  {reason}"))
            .line(
                "It is also said when this process stood still, or the brokers were away, inside a",
            )
            .line(format!(
                "transaction for longer than transaction.timeout.ms = {}.",
                sink.properties.transaction_timeout_ms
            ))
            .line("If no other run is alive, start the job again. A job's name must be its own.")
        }
        _ => sink.failed(reason),
    }
}
