//! The properties of a librdkafka client: the person's, ours, and those nobody may change.
//!
//! Invariant: no client ever jumps to another offset on its own, commits one on its own, or makes a
//! topic.

use crate::error::Error;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use std::collections::BTreeMap;

/// What must hold, whatever the person sets, and why.
const FORCED: [(&str, &str, &str); 5] = [
    (
        "auto.offset.reset",
        "error",
        "an offset that is gone must stop the job, not skip records",
    ),
    (
        "enable.auto.commit",
        "false",
        "offsets belong in the job's own checkpoint",
    ),
    (
        "enable.auto.offset.store",
        "false",
        "offsets belong in the job's own checkpoint",
    ),
    (
        "enable.partition.eof",
        "true",
        "the end of a partition is told by this event alone",
    ),
    (
        "allow.auto.create.topics",
        "false",
        "a misspelt topic must not be made",
    ),
];

/// Other names of librdkafka for the same things.
const ALIASES: [(&str, &str); 2] = [
    ("auto.commit.enable", "enable.auto.commit"),
    ("metadata.broker.list", "bootstrap.servers"),
];

/// Bytes that all readers of a process together may hold fetched and unread, unless
/// `queued.max.messages.kbytes` says it for each.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Ours unless the person sets them. The pause after a full queue is 1 s by default, which would
/// starve a job that reads faster than that.
const DEFAULTS: [(&str, &str); 3] = [
    ("isolation.level", "read_committed"),
    ("fetch.queue.backoff.ms", "5"),
    ("socket.keepalive.enable", "true"),
];

/// Where the brokers are, as the person wrote it.
pub(super) fn servers(settings: &BTreeMap<String, String>) -> Result<String, Error> {
    let servers = |name| settings.get(name).filter(|servers| !servers.is_empty());
    servers("bootstrap.servers")
        .or_else(|| servers("metadata.broker.list"))
        .cloned()
        .ok_or_else(|| {
            Error::usage("Kafka needs \"bootstrap.servers\"")
                .line("found: no such setting in [kafka]")
                .line("what to do: bootstrap.servers = \"host:9092,host:9092\"")
        })
}

/// The configuration of a client that reads, one of `readers` in this process.
pub(super) fn reader(
    settings: &BTreeMap<String, String>,
    job: &str,
    readers: usize,
) -> Result<ClientConfig, Error> {
    servers(settings)?;
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Warning);
    for (name, value) in DEFAULTS {
        config.set(name, value);
    }
    let kbytes = (QUEUED_BYTES_MAX / readers.max(1) / 1024).max(1024);
    config.set("queued.max.messages.kbytes", kbytes.to_string());
    config.set("client.id", job);
    for (name, value) in settings {
        allowed(name, value, job)?;
        config.set(name, value);
    }
    for (name, value, _) in FORCED {
        config.set(name, value);
    }
    config.set("group.id", job);
    Ok(config)
}

/// The configuration of the client that asks for offsets. It must be told the high watermark, and
/// a `read_committed` one is told the last stable offset instead.
pub(super) fn asker(reader: &ClientConfig) -> ClientConfig {
    let mut config = reader.clone();
    config.remove("group.id");
    config.set("isolation.level", "read_uncommitted");
    config
}

/// The configuration of the client that commits offsets for tools that show lag: it reads nothing,
/// and gives up soon when no broker answers.
pub(super) fn committer(reader: &ClientConfig) -> ClientConfig {
    let mut config = reader.clone();
    for (name, value) in [
        // How long a commit waits for the group's coordinator, and a request for its answer.
        ("session.timeout.ms", "6000"),
        ("heartbeat.interval.ms", "2000"),
        ("socket.timeout.ms", "6000"),
    ] {
        config.set(name, value);
    }
    config
}

fn allowed(name: &str, value: &str, job: &str) -> Result<(), Error> {
    let real = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, real)| real);
    let (must, why) = match FORCED.iter().find(|(forced, _, _)| *forced == real) {
        Some((_, must, why)) => (*must, *why),
        None if real == "group.id" => (job, "it is the name of the job"),
        None => return Ok(()),
    };
    if value.trim().eq_ignore_ascii_case(must) {
        return Ok(());
    }
    Err(Error::usage(format!("[kafka] \"{name}\" cannot be set"))
        .line(format!("found: {value:?}"))
        .line(format!("expected: {must:?}, because {why}"))
        .line("what to do: remove the line"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn settings(more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let all = [("bootstrap.servers", "localhost:9092")]
            .into_iter()
            .chain(more.iter().copied());
        all.map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn forced_settings_hold_and_contradictions_are_refused_by_name() {
        for (name, value) in [
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "true"),
            ("auto.commit.enable", "true"),
            ("enable.auto.offset.store", "1"),
            ("enable.partition.eof", "false"),
            ("allow.auto.create.topics", "true"),
            ("group.id", "another"),
        ] {
            let error = reader(&settings(&[(name, value)]), "job", 1).expect_err(name);
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(
                error.text.contains(name) && error.text.contains(value),
                "{error}"
            );
        }
        let same = [("auto.offset.reset", "error"), ("group.id", "job")];
        let config = reader(&settings(&same), "job", 1).expect("not contradicted");
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
        assert_eq!(config.get("group.id"), Some("job"));
    }

    #[test]
    fn defaults_give_way_to_the_person() {
        let config = reader(&settings(&[]), "job", 4).expect("good");
        assert_eq!(config.get("queued.max.messages.kbytes"), Some("16384"));
        assert_eq!(config.get("isolation.level"), Some("read_committed"));
        let own = [
            ("queued.max.messages.kbytes", "77"),
            ("isolation.level", "read_uncommitted"),
        ];
        let config = reader(&settings(&own), "job", 4).expect("good");
        assert_eq!(config.get("queued.max.messages.kbytes"), Some("77"));
        assert_eq!(config.get("isolation.level"), Some("read_uncommitted"));
        assert_eq!(asker(&config).get("group.id"), None);
    }

    #[test]
    fn brokers_must_be_named() {
        let error = reader(&BTreeMap::new(), "job", 1).expect_err("no brokers");
        assert!(error.text.contains("bootstrap.servers"), "{error}");
    }
}
