//! The commented file that `headwater init` writes.
//!
//! Invariant: what is written loads, with the values that were asked for.

use super::Config;
use super::choices::SinkKind;
use super::value::quoted;
use crate::error::Error;

/// What a first configuration is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Name of the job.
    pub job: String,
    /// `schema.table`.
    pub table: String,
    /// Topic of mutations.
    pub mutations: String,
    /// Topic of READs.
    pub snapshot: String,
    /// `host:port`, several with commas.
    pub brokers: String,
    /// The target.
    pub sink: SinkKind,
    /// The target's URL.
    pub url: Option<String>,
    /// The target's file.
    pub path: Option<String>,
    /// The target's topic.
    pub topic: Option<String>,
}

/// The text of a first `headwater.toml`. Loaded once before it is given, so that a mistake in the
/// arguments is told now.
///
/// # Errors
/// Of usage: what the arguments make is refused by the configuration.
pub fn starter(init: &Init) -> Result<String, Error> {
    let text = text(init);
    Config::parse("the new configuration", &text, &[])?
        .config
        .check()?;
    Ok(text)
}

fn text(init: &Init) -> String {
    let (job, brokers) = (quoted(&init.job), quoted(&init.brokers));
    let topic = (init.topic.clone())
        .or_else(|| (init.sink == SinkKind::Kafka).then(|| format!("merged.{}", init.table)));
    let sink = sink_section(init.sink, &init.url, &init.path, &topic);
    let name = quoted(&init.table);
    let (mutations, snapshot) = (quoted(&init.mutations), quoted(&init.snapshot));
    format!(
        r#"# What a rebuild reads and where it writes. `headwater check` says what would go wrong,
# `headwater run` does it, `headwater config` prints every key with its default.
# Durations read 90s 15m 3d, sizes 512MiB. Every key can be set on the command line too:
# --set retention.start_margin=30m

job = {job} # names the job; one job = one rebuild target

# Any property of librdkafka, as it is (TLS, SASL); values may be "${{ENV_VAR}}" or "@file".
[kafka]
"bootstrap.servers" = {brokers}

# One for each table; topics may be shared by tables. A topic may be `file:PATH`.
[[table]]
name      = {name}
mutations = {mutations} # shared, live
snapshot  = {snapshot} # private: the READs of this rebuild
# key     = ["id"] # default: the record key's columns

# Mutations must be read from before the snapshot began.
[source]
start = "beginning" # or a time, as in 2026-11-29T10:00:00Z

[retention]
keep_markers = "until_ready" # or "ttl", with ttl = "3d"
start_margin = "15m" # covers the lag of the replica that the snapshot reads
on_forgotten = "quarantine" # or "fail", "emit"

[sink]
{sink}
target_not_empty = "refuse" # or "accept": rows that the source no longer has may stay

# READs that may be stale. Never written to the target.
[quarantine]
kind = "jsonl"

# Needed for several processes alone.
# [cluster]
# secret = "${{HEADWATER_SECRET}}"
"#
    )
}

/// The lines of `[sink]`, with a reference where a URL is needed and none was given.
pub(crate) fn sink_section(
    kind: SinkKind,
    url: &Option<String>,
    path: &Option<String>,
    topic: &Option<String>,
) -> String {
    let mut lines = vec![format!(
        "kind = {} # sqlite postgres kafka jsonl null",
        quoted(kind.word())
    )];
    let url = url
        .clone()
        .or_else(|| (kind == SinkKind::Postgres).then(|| "${HEADWATER_SINK_URL}".to_owned()));
    for (key, value) in [("url", &url), ("path", path), ("topic", topic)] {
        lines.extend(
            value
                .as_ref()
                .map(|value| format!("{key} = {}", quoted(value))),
        );
    }
    lines.join("\n")
}
