//! The configuration of a plan.
//!
//! Invariant: what is given has been loaded once, with its rules.

use super::plan::Plan;
use crate::config::choices::SinkKind;
use crate::config::value::quoted;
use crate::config::{Config, sink_section};
use crate::error::Error;

/// The text of the file.
pub(super) fn text(plan: &Plan) -> Result<String, Error> {
    let text = write(plan);
    Config::parse("the new configuration", &text, &[])?
        .config
        .check()?;
    Ok(text)
}

fn write(plan: &Plan) -> String {
    let (job, brokers) = (quoted(&plan.job), quoted(&plan.from.brokers));
    let live = &plan.live.name;
    let tables: String = plan
        .tables
        .iter()
        .map(|table| {
            format!(
                "[[table]]\nname      = {}\nmutations = {} # shared, live\n\
             snapshot  = {} # private: the READs of this rebuild\n\n",
                quoted(&table.name),
                quoted(&table.mutations),
                quoted(&table.snapshot)
            )
        })
        .collect();
    format!(
        r#"# Made from connector {live}. `headwater check` says what would go wrong, `headwater run`
# does it, `headwater config` prints every key with its default.

job = {job} # names the job; one job = one rebuild target

# Any property of librdkafka, as it is (TLS, SASL); values may be "${{ENV_VAR}}" or "@file".
[kafka]
"bootstrap.servers" = {brokers}

{tables}# What lets readiness be proven instead of declared.
[source]
start         = "beginning" # or a time, as in 2026-11-29T10:00:00Z
notifications = {notifications}
{heartbeat}
connect       = {{ url = {url}, live = {name}, snapshot = {snapshot} }}
{database}

{decode}[retention]
keep_markers = "until_ready" # or "ttl", with ttl = "3d"
start_margin = "15m" # covers the lag of the replica that the snapshot reads
on_forgotten = "quarantine" # or "fail", "emit"

[sink]
{sink}
target_not_empty = "refuse" # or "accept": rows that the source no longer has may stay

# READs that may be stale. Never written to the target.
[quarantine]
kind = "jsonl"
"#,
        notifications = quoted(&plan.notifications),
        heartbeat = heartbeat(plan),
        url = quoted(&plan.from.url),
        name = quoted(live),
        snapshot = quoted(&plan.snapshot),
        database = match &plan.database {
            Some(url) => format!("database      = {}", quoted(url)),
            None => "# database    = \"postgres://user:${PGPASSWORD}@host/database\"".to_owned(),
        },
        decode = match &plan.signal_table {
            Some(table) => format!("[decode]\nsignal_table = {}\n\n", quoted(table)),
            None => String::new(),
        },
        sink = sink(plan),
    )
}

fn heartbeat(plan: &Plan) -> String {
    match &plan.heartbeat {
        Some(topic) => format!("heartbeat     = {}", quoted(topic)),
        None => format!(
            "# heartbeat   = {} # when {} has heartbeat.interval.ms=10000",
            quoted(&format!("__debezium-heartbeat.{}", plan.live.prefix())),
            plan.live.name
        ),
    }
}

fn sink(plan: &Plan) -> String {
    let from = &plan.from;
    // Several tables go to topics of their own names.
    let merged = match plan.tables.as_slice() {
        [one] if from.sink == SinkKind::Kafka => Some(format!("merged.{}", one.name)),
        _ => None,
    };
    let topic = from.topic.clone().or(merged);
    sink_section(from.sink, &from.target, &from.path, &topic)
}
