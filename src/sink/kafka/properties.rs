//! The properties of the sink's producers: ours, the person's, and those that are not for choosing.
//!
//! Invariant: in transactions a record is given up no sooner than its transaction times out, unless
//! the person says so.

use crate::error::Error;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Ours unless the person sets them.
///
/// * Without transactions a delivery is given up, and the batch tried again, after
///   `message.timeout.ms`: from then on the status says that the target is waited for.
/// * The brokers end a transaction that is older than `transaction.timeout.ms`, and the job with
///   it: so brokers may be away for that long. When a run is killed and no other takes over,
///   readers of committed records wait for as long at its last, open transaction.
const DEFAULTS: [(&str, &str); 2] = [("compression.type", "lz4"), ("linger.ms", "5")];
const PLAIN_TIMEOUT: (&str, &str) = ("message.timeout.ms", "30000");
const TRANSACTION_TIMEOUT: (&str, &str) = ("transaction.timeout.ms", "300000");

/// Bounds of what the person sets, ms.
const BOUNDS_MS: [(&str, RangeInclusive<u64>); 2] = [
    ("message.timeout.ms", 1_000..=900_000),
    // 15 minutes are the brokers' own default bound, `transaction.max.timeout.ms`.
    ("transaction.timeout.ms", 5_000..=900_000),
];

/// What no person sets.
const FORCED: [(&str, &str); 3] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("partitioner", "murmur2_random"),
];

/// How producers are made.
#[derive(Clone, Debug)]
pub(super) struct Properties {
    /// Without a transactional id.
    pub(super) config: ClientConfig,
    /// Where the brokers are.
    pub(super) brokers: String,
    /// For messages, ms.
    pub(super) transaction_timeout_ms: String,
}

impl Properties {
    /// `sink` lies over `kafka`.
    pub(super) fn new(
        kafka: &BTreeMap<String, String>,
        sink: &BTreeMap<String, String>,
        transactional: bool,
    ) -> Result<Properties, Error> {
        let mut config = ClientConfig::new();
        for (name, value) in DEFAULTS {
            config.set(name, value);
        }
        if !transactional {
            config.set(PLAIN_TIMEOUT.0, PLAIN_TIMEOUT.1);
        }
        let mut timeout = TRANSACTION_TIMEOUT.1;
        for (name, value) in kafka.iter().chain(sink) {
            if name == "transactional.id" {
                return Err(Error::usage("\"transactional.id\" cannot be set")
                    .line("It is the name of the job and the number of the shard.")
                    .line("Remove the line from [kafka] or sink.kafka."));
            }
            bounded(name, value)?;
            if name == TRANSACTION_TIMEOUT.0 {
                timeout = value;
            } else {
                config.set(name, value);
            }
        }
        for (name, value) in FORCED {
            config.set(name, value);
        }
        if transactional {
            config.set(TRANSACTION_TIMEOUT.0, timeout);
        }
        config.set_log_level(RDKafkaLogLevel::Error);
        let brokers = config.get("bootstrap.servers").map(str::to_owned);
        let brokers = brokers.ok_or_else(|| {
            Error::usage("sink.kind = \"kafka\" has no broker")
                .line("Set \"bootstrap.servers\" in [kafka] or in sink.kafka.")
        })?;
        Ok(Properties {
            config,
            brokers,
            transaction_timeout_ms: timeout.to_owned(),
        })
    }
}

fn bounded(name: &str, value: &str) -> Result<(), Error> {
    let Some((_, bounds)) = BOUNDS_MS.iter().find(|(bounded, _)| *bounded == name) else {
        return Ok(());
    };
    let ms = value.trim().parse::<u64>().ok();
    if ms.is_some_and(|ms| bounds.contains(&ms)) {
        return Ok(());
    }
    Err(
        Error::usage(format!("\"{name}\" = \"{value}\" is out of bounds")).line(format!(
            "expected {} to {}, in ms",
            bounds.start(),
            bounds.end()
        )),
    )
}

#[cfg(test)]
mod tests {
    use super::Properties;
    use std::collections::BTreeMap;

    fn made(more: &[(&str, &str)], transactional: bool) -> Result<Properties, String> {
        let all = [("bootstrap.servers", "h:1")].iter().chain(more);
        let all: BTreeMap<String, String> = all
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Properties::new(&BTreeMap::new(), &all, transactional).map_err(|error| error.text)
    }

    #[test]
    fn timeouts_are_bounded_and_the_transactional_id_is_ours() {
        for (name, value) in [
            ("message.timeout.ms", "0"),
            ("message.timeout.ms", "soon"),
            ("transaction.timeout.ms", "4999"),
            ("transaction.timeout.ms", "3600000"),
            ("transactional.id", "mine"),
        ] {
            let error = made(&[(name, value)], true).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        let own = made(
            &[("transaction.timeout.ms", "5000"), ("linger.ms", "0")],
            true,
        )
        .unwrap();
        assert_eq!(own.config.get("transaction.timeout.ms"), Some("5000"));
        assert_eq!(own.config.get("linger.ms"), Some("0"));
        assert_eq!(own.config.get("acks"), Some("all"));
        // librdkafka warns of it where there are no transactions.
        let plain = made(&[("transaction.timeout.ms", "5000")], false).unwrap();
        assert_eq!(plain.config.get("transaction.timeout.ms"), None);
        assert_eq!(plain.config.get("message.timeout.ms"), Some("30000"));
        // librdkafka makes it that of the transaction.
        assert_eq!(own.config.get("message.timeout.ms"), None);
    }
}
