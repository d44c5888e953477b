//! Rules between settings, checked before anything is opened.
//!
//! Pure: it looks at the configuration alone.

use super::Config;
use super::choices::{KeepMarkers, SinkKind, SnapshotFrom};
use crate::control::Listen;
use crate::error::Error;
use crate::store::Place;
use std::collections::BTreeMap;
use std::time::Duration;

/// Shorter, and a slow write of the store would look like a death.
const LEASE_MIN: Duration = Duration::from_secs(1);

/// Names of objects and of Kafka's transactions begin with it.
const JOB_BYTES_MAX: usize = 100;

/// The first rule that is broken.
pub(super) fn check(config: &Config) -> Result<(), Error> {
    job(&config.job.job)?;
    tables(config)?;
    topics(config)?;
    start_offsets(config)?;
    retention(config)?;
    brokers(config)?;
    sink(config)?;
    let (quarantine, letters) = (&config.quarantine, &config.dead_letter);
    let (stale, bad) = (quarantine.topic.as_deref(), letters.topic.as_deref());
    aside(config, "quarantine", (quarantine.kind, stale), bad)?;
    aside(config, "dead_letter", (letters.kind, bad), stale)?;
    checkpoint(config)?;
    control(config)?;
    limits(config)
}

/// A job names a folder of the store, objects in it, transactions of Kafka and sessions of
/// PostgreSQL: what means the same in all of them is taken.
fn job(job: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !job.is_empty()
        && job.len() <= JOB_BYTES_MAX
        && !job.starts_with('.')
        && job.chars().all(plain)
    {
        return Ok(());
    }
    let shown: String = job.chars().take(JOB_BYTES_MAX + 1).collect();
    Err(Error::usage("`job` cannot be this name")
        .line(format!("found     {shown:?}"))
        .line(format!(
            "expected  1 to {JOB_BYTES_MAX} letters a to z or A to Z, digits, `-`, `_`, or `.` but \
             not as the first"
        ))
        .line("It names the job's objects in `checkpoint.store`."))
}

fn tables(config: &Config) -> Result<(), Error> {
    if config.tables.is_empty() {
        return Err(Error::usage("no table is configured")
            .line("expected  at least one `[[table]]` with `name`, `mutations` and `snapshot`"));
    }
    let tables_max = usize::from(u16::MAX) + 1;
    if config.tables.len() > tables_max {
        return Err(Error::usage("too many tables are configured")
            .line(format!("found     {}", config.tables.len()))
            .line(format!("expected  {tables_max} at most in one job")));
    }
    for (index, table) in config.tables.iter().enumerate() {
        if config.tables[..index]
            .iter()
            .any(|other| other.name == table.name)
        {
            return Err(
                Error::usage(format!("table `{}` is configured twice", table.name))
                    .line("expected  one `[[table]]` for each table"),
            );
        }
        if table.key.as_ref().is_some_and(Vec::is_empty) {
            return Err(
                Error::usage(format!("table `{}` has an empty `key`", table.name))
                    .line("expected  the key columns, as in key = [\"id\"], or no `key` at all"),
            );
        }
    }
    Ok(())
}

/// A topic is read in one role: the role decides what a record is.
fn topics(config: &Config) -> Result<(), Error> {
    let mut live: BTreeMap<&str, &str> = BTreeMap::new();
    for table in &config.tables {
        live.entry(&table.mutations).or_insert(&table.name);
    }
    for table in &config.tables {
        if let Some(other) = live.get(table.snapshot.as_str()) {
            return Err(
                Error::usage(format!("topic `{}` has two roles", table.snapshot))
                    .line(format!(
                        "found     `mutations` of `{other}`, `snapshot` of `{}`",
                        table.name
                    ))
                    .line("expected  a shared topic of mutations and a private topic of READs"),
            );
        }
    }
    for topic in config
        .tables
        .iter()
        .flat_map(|table| [&table.mutations, &table.snapshot])
    {
        if topic == "file:" {
            return Err(Error::usage("a `file:` topic has no path")
                .line("expected  `file:PATH`, the folder of its partition files"));
        }
    }
    Ok(())
}

fn start_offsets(config: &Config) -> Result<(), Error> {
    for (topic, offsets) in &config.source.start_offsets {
        if !config.tables.iter().any(|table| table.mutations == *topic) {
            let known: Vec<&str> = config.tables.iter().map(|t| t.mutations.as_str()).collect();
            return Err(
                Error::usage(format!("`source.start_offsets` names `{topic}`"))
                    .line(format!("expected  a mutation topic: {}", known.join(", "))),
            );
        }
        if offsets.is_empty() {
            return Err(
                Error::usage(format!("`source.start_offsets` of `{topic}` is empty"))
                    .line("expected  one offset for each partition, in order"),
            );
        }
    }
    Ok(())
}

fn retention(config: &Config) -> Result<(), Error> {
    let source = &config.source;
    if source.replica_lag_max > Duration::ZERO && source.snapshot_from != SnapshotFrom::Replica {
        return Err(
            Error::usage("`source.replica_lag_max` is not a key of this snapshot")
                .line("found     snapshot_from = \"primary\"")
                .line("expected  snapshot_from = \"replica\", if the snapshot reads a standby"),
        );
    }
    if config.retention.rows_per_second_min == 0 {
        return Err(Error::usage("`retention.rows_per_second_min` is 0")
            .line("expected  1 or more: the budget divides by it"));
    }
    if config.retention.rebuild_alarm_after == Duration::ZERO {
        return Err(Error::usage("`retention.rebuild_alarm_after` is 0")
            .line("expected  longer than a rebuild takes, as in rebuild_alarm_after = \"3d\""));
    }
    Ok(())
}

fn brokers(config: &Config) -> Result<(), Error> {
    let named = ["bootstrap.servers", "metadata.broker.list"]
        .iter()
        .any(|name| config.kafka.0.contains_key(*name));
    let topics = config
        .tables
        .iter()
        .flat_map(|table| [&table.mutations, &table.snapshot]);
    let needs = topics
        .filter(|topic| !topic.starts_with("file:"))
        .map(|topic| format!("topic `{topic}`"))
        .chain((config.sink.kind == SinkKind::Kafka).then(|| "`sink.kind`".to_owned()))
        .chain(
            (config.dead_letter.kind == SinkKind::Kafka).then(|| "`dead_letter.kind`".to_owned()),
        )
        .chain((config.quarantine.kind == SinkKind::Kafka).then(|| "`quarantine.kind`".to_owned()))
        .next();
    match needs {
        Some(what) if !named => Err(Error::usage("no Kafka broker is configured")
            .line(format!("found     {what} is in Kafka"))
            .line("expected  [kafka] with \"bootstrap.servers\" = \"host:9092\"")
            .line("A topic in a folder is written `file:PATH`.")),
        _ => Ok(()),
    }
}

/// A sink has all keys that its kind needs and none that it does not have.
fn sink(config: &Config) -> Result<(), Error> {
    use SinkKind::{Jsonl, Kafka, Postgres, Sqlite};
    let sink = &config.sink;
    let kind = sink.kind.word();
    if sink.kind == Postgres && sink.url.is_none() {
        return Err(Error::usage("`sink.url` is not set")
            .line("found     kind = \"postgres\"")
            .line("expected  url = \"postgres://user:${PASSWORD}@host/database\" in [sink]"));
    }
    let settings: [(&str, bool, &[SinkKind]); 7] = [
        ("url", sink.url.is_some(), &[Postgres]),
        ("path", sink.path.is_some(), &[Sqlite, Jsonl]),
        ("topic", sink.topic.is_some(), &[Kafka]),
        ("names", !sink.names.is_empty(), &[Postgres, Sqlite, Kafka]),
        ("kafka", !sink.kafka.0.is_empty(), &[Kafka]),
        ("setup_sql", sink.setup_sql.is_some(), &[Sqlite]),
        (
            "connections",
            sink.connections.is_some(),
            &[Postgres, Kafka],
        ),
    ];
    for (key, set, kinds) in settings {
        if set && !kinds.contains(&sink.kind) {
            let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
            return Err(
                Error::usage(format!("`sink.{key}` is not a key of this kind of sink"))
                    .line(format!("found     kind = \"{kind}\""))
                    .line(format!("expected  `{key}` with {} alone", words.join(", "))),
            );
        }
    }
    for table in sink.names.keys() {
        if !config.tables.iter().any(|known| known.name == *table) {
            let known: Vec<&str> = config.tables.iter().map(|t| t.name.as_str()).collect();
            return Err(
                Error::usage(format!("`sink.names` has `{table}`, which is no table"))
                    .line(format!("expected  one of: {}", known.join(", "))),
            );
        }
    }
    for (key, value) in [
        ("batch_rows_max", sink.batch_rows_max),
        ("batch_bytes_max", sink.batch_bytes_max.0),
        ("connections", sink.connections.unwrap_or(1)),
    ] {
        if value == 0 {
            return Err(Error::usage(format!("`sink.{key}` is 0")).line("expected  1 or more"));
        }
    }
    Ok(())
}

/// Records that are kept from the target must not land anywhere but where they were sent.
fn aside(
    config: &Config,
    section: &str,
    (kind, topic): (SinkKind, Option<&str>),
    other: Option<&str>,
) -> Result<(), Error> {
    let wrong = |what: String| {
        let kind = kind.word();
        Error::usage(what).line(format!("found     {section}.kind = \"{kind}\""))
    };
    match (kind, topic) {
        (SinkKind::Jsonl, None) => Ok(()),
        (SinkKind::Jsonl, Some(_)) => Err(wrong(format!(
            "`{section}.topic` is not a key of this kind"
        ))
        .line("expected  `topic` with kafka alone")),
        (SinkKind::Kafka, None) => Err(wrong(format!("`{section}.topic` is not set")).line(
            format!("expected  topic = \"…\" in [{section}], a topic of its own"),
        )),
        (SinkKind::Kafka, Some(topic)) => {
            let tables = config.tables.iter();
            let mut taken = tables
                .flat_map(|table| [table.mutations.as_str(), table.snapshot.as_str()])
                .chain(config.sink.topic.iter().map(String::as_str))
                .chain(config.sink.names.values().map(String::as_str))
                .chain(other);
            if topic.starts_with("file:") || taken.any(|taken| taken == topic) {
                return Err(wrong(format!("`{section}.topic` cannot be this topic"))
                    .line(format!("          topic = \"{topic}\""))
                    .line("expected  a Kafka topic of its own"));
            }
            Ok(())
        }
        _ => Err(wrong(format!("this kind of {section} is not built yet"))
            .line("expected  kind = \"jsonl\" or \"kafka\"")),
    }
}

fn checkpoint(config: &Config) -> Result<(), Error> {
    let checkpoint = &config.checkpoint;
    Place::parse(&checkpoint.store)?;
    if checkpoint.lease < LEASE_MIN {
        return Err(Error::usage("`checkpoint.lease` is too short")
            .line(format!(
                "found     {}",
                super::units::print_duration(checkpoint.lease)
            ))
            .line("expected  1s or more: it is renewed three times in that time"));
    }
    if checkpoint.kept == 0 {
        return Err(Error::usage("`checkpoint.kept` is 0").line("expected  1 or more"));
    }
    Ok(())
}

/// Others reach an address that is not loopback: they need the token.
fn control(config: &Config) -> Result<(), Error> {
    let control = &config.control;
    match Listen::parse(&control.listen)? {
        Listen::At(address) if !address.is_loopback() && control.token_file.is_none() => {
            Err(Error::usage("`control.token_file` is not set")
                .line(format!(
                    "found     control.listen = \"{}\", which other machines may reach",
                    control.listen
                ))
                .line("expected  a file with a token that clients must show, or an address on")
                .line("loopback, as in listen = \"127.0.0.1:7070\"")
                .line("(umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one."))
        }
        Listen::At(_) | Listen::Off => Ok(()),
    }
}

fn limits(config: &Config) -> Result<(), Error> {
    let limits = &config.limits;
    let wrong = |key: &str, found: String, expected: &str| {
        Err(Error::usage(format!("`limits.{key}` is out of range"))
            .line(format!("found     {found}"))
            .line(format!("expected  {expected}")))
    };
    if !(1..=1000).contains(&limits.tick_ms) {
        return wrong("tick_ms", limits.tick_ms.to_string(), "1 to 1000");
    }
    if limits.reads_per_second_max == Some(0) {
        return wrong(
            "reads_per_second_max",
            "0".to_owned(),
            "1 or more, or no such key",
        );
    }
    if limits.markers_max == 0 {
        return wrong("markers_max", "0".to_owned(), "1 or more");
    }
    let (all, reads) = (limits.inflight_bytes_max, limits.reads_inflight_bytes_max);
    if reads.0 == 0 || reads > all {
        let expected = "more than 0B, and no more than `limits.inflight_bytes_max`";
        return wrong(
            "reads_inflight_bytes_max",
            super::units::print_size(reads),
            expected,
        );
    }
    if config.retention.keep_markers == KeepMarkers::Ttl && config.retention.ttl == Duration::ZERO {
        return Err(
            Error::usage("`retention.ttl` is 0: every marker would be forgotten at once")
                .line("expected  longer than a rebuild takes, as in ttl = \"3d\""),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::job;
    use crate::error::ErrorKind;

    #[test]
    fn a_job_is_a_name_for_objects() {
        let longest = "x".repeat(100);
        for name in ["a", "hello-2_b.C", "0", "-", &longest] {
            assert_eq!(job(name), Ok(()), "{name}");
        }
        let too_long = "x".repeat(101);
        for name in [
            "", "..", ".hidden", "a/b", "a b", "jöb", "a\\b", "a:b", &too_long,
        ] {
            let error = job(name).expect_err(name);
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.text.contains(&format!("{name:?}")), "{error}");
            assert!(error.text.contains("1 to 100 letters"), "{error}");
        }
    }
}
