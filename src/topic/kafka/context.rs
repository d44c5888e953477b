//! What librdkafka tells beside records: its log and its errors of brokers.
//!
//! Nothing of it goes to stderr. The last error is kept for whoever asks why nothing comes; it
//! counts until something comes, or until librdkafka, which repeats itself every 30 s while it
//! lasts, has been silent for [`STALE`].

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long an error counts that is not told again.
const STALE: Duration = Duration::from_secs(45);

/// How long an error counts although something comes.
const FRESH: Duration = Duration::from_secs(1);

/// What the last errors were.
#[derive(Debug, Default)]
struct Told {
    /// The last one that names a cause, and when.
    cause: Option<(String, Instant)>,
    /// The last one about who we are or how we speak.
    denied: Option<String>,
    /// Whether something was told that may mean that a partition is not there.
    doubt: bool,
}

/// The context of all our clients.
#[derive(Debug, Default)]
pub(super) struct Context {
    told: Mutex<Told>,
    /// Events that were handed over.
    heard: AtomicU64,
}

impl Context {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("no panic under this lock")
    }

    /// Takes all log lines and errors of brokers out of the client's own queue, so that its next
    /// event finds it empty and wakes. A line of the log looks like an empty queue to the caller
    /// of `poll`, hence the count. False when a record was among them, which must not be.
    pub(super) fn serve(client: &BaseConsumer<Context>) -> bool {
        let heard = || client.context().heard.load(Ordering::Relaxed);
        loop {
            let before = heard();
            match client.poll(Duration::ZERO) {
                None if heard() == before => return true,
                Some(Ok(_)) => return false,
                None | Some(Err(_)) => {}
            }
        }
    }

    /// A broker answered: what was wrong is over.
    pub(super) fn clear(&self) {
        let mut told = self.told();
        (told.cause, told.denied) = (None, None);
    }

    /// Records or an end came. They may have been fetched before the last error was told, so that
    /// one stays if it is new.
    pub(super) fn came(&self) {
        let mut told = self.told();
        if told
            .cause
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() > FRESH)
        {
            (told.cause, told.denied) = (None, None);
        }
    }

    /// Something is wrong that may pass.
    pub(super) fn note(&self, text: &str) {
        self.told().cause = Some((text.to_string(), Instant::now()));
    }

    /// The last error that still counts.
    pub(super) fn trouble(&self) -> Option<String> {
        let told = self.told();
        let (text, since) = told.cause.as_ref()?;
        (since.elapsed() < STALE).then(|| text.clone())
    }

    /// Whether a partition may be missing; only once for each time that it was told.
    pub(super) fn take_doubt(&self) -> bool {
        std::mem::take(&mut self.told().doubt)
    }

    /// Why the brokers do not let us in, if that is what is wrong.
    pub(super) fn denied(&self) -> Option<String> {
        self.told().denied.clone()
    }
}

impl ClientContext for Context {
    /// An error about a missing topic or partition reaches a queue that is read in batches only
    /// as a line of the log, so such a line is a reason to look, not more.
    fn log(&self, _level: RDKafkaLogLevel, fac: &str, message: &str) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        if fac == "ERROR" {
            self.note(message);
            self.told().doubt = true;
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        let code = error.rdkafka_error_code();
        let mut told = self.told();
        match code {
            Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SSL) => {
                told.denied = Some(reason.to_string());
            }
            // It says only how many are down; the cause came before it.
            Some(RDKafkaErrorCode::AllBrokersDown) if told.cause.is_some() => return,
            _ => {}
        }
        drop(told);
        self.note(reason);
    }

    fn stats_raw(&self, _statistics: &[u8]) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }
}

impl ConsumerContext for Context {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_is_told_apart_until_something_comes() {
        let context = Context::default();
        context.error(
            KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure),
            "away",
        );
        assert_eq!(
            (context.trouble(), context.denied()),
            (Some("away".into()), None)
        );
        context.error(
            KafkaError::Global(RDKafkaErrorCode::AllBrokersDown),
            "1/1 down",
        );
        assert_eq!(
            context.trouble(),
            Some("away".into()),
            "the cause is more than the count"
        );
        context.error(
            KafkaError::Global(RDKafkaErrorCode::Authentication),
            "bad password",
        );
        assert_eq!(context.denied(), Some("bad password".into()));
        context.clear();
        assert_eq!((context.trouble(), context.denied()), (None, None));
    }
}
