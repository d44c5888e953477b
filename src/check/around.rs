//! What is around the topics and the target: how long topics keep, the connectors, the source
//! database. `look` asks; `judge` is pure.
//!
//! Invariant: what cannot be asked is a finding of its own and hides nothing else.

use super::database::{self, Database};
use super::finding::Finding;
use super::judge::truncate_hint;
use super::kept::{self, Need};
use super::lint::{Lint, lint};
use super::times;
use crate::config::Config;
use crate::config::choices::{SnapshotFrom, Unavailable};
use crate::connector::{Connector, ask};
use crate::error::Error;
use crate::error::ErrorKind::Usage;
use crate::guard::{fresh, margin_ms};
use crate::job::{Partitions, topic_names};
use crate::source_database::wall_ms;
use crate::table::{Role, Table};
use crate::topic::{TopicSettings, Topics};
use std::time::Duration;

/// What was found.
#[derive(Clone, Debug)]
pub struct Around {
    /// The tables of the job.
    pub tables: Vec<Table>,
    /// Settings of topics that have some.
    pub settings: Vec<(Role, String, Result<TopicSettings, Error>)>,
    /// How long they must keep.
    pub need: Need,
    /// What a first start says or refuses beside them; nothing when starts are not known.
    pub guard: Option<Result<Vec<String>, Error>>,
    /// Partition counts of `source.notifications` and `source.heartbeat`.
    pub side_topics: Vec<(&'static str, String, Result<u32, Error>)>,
    /// Connectors of the worker; nothing when `source.connect` is not set.
    pub connectors: Option<Result<Vec<Connector>, Error>>,
    /// `source.connect.live` and `source.connect.snapshot`.
    pub named: [Option<String>; 2],
    /// `decode.signal_table`.
    pub signal_table: Option<String>,
    /// A standby is declared.
    pub replica: bool,
    /// `sink.unavailable`.
    pub unavailable: Unavailable,
    /// The source; nothing when `source.database` is not set or is no PostgreSQL.
    pub database: Option<Result<Database, Error>>,
}

/// Asks whom the configuration names. `start` is where mutations are read from, if that is known;
/// `readable` says which topics are worth asking about.
pub(super) fn look(
    config: &Config,
    tables: &[Table],
    topics: &dyn Topics,
    start: Option<&Partitions>,
    readable: &dyn Fn(&str) -> bool,
) -> Around {
    let mut settings = Vec::new();
    for role in [Role::Mutations, Role::Snapshot] {
        for topic in topic_names(tables, role) {
            if readable(&topic)
                && let Some(found) = topics.settings(&topic).transpose()
            {
                settings.push((role, topic, found));
            }
        }
    }
    let source = &config.source;
    let named = [
        ("source.notifications", &source.notifications),
        ("source.heartbeat", &source.heartbeat),
    ];
    let side = |(key, topic): (&'static str, &Option<String>)| {
        let topic = topic.clone()?;
        let count = topics.partition_count(&topic);
        Some((key, topic, count))
    };
    let side_topics = named.into_iter().filter_map(side).collect();
    let connect = source.connect.as_ref();
    let url = connect.and_then(|connect| connect.url.as_ref());
    let connectors = url.map(ask::connectors);
    let named = [
        connect.and_then(|connect| connect.live.clone()),
        connect.and_then(|connect| connect.snapshot.clone()),
    ];
    let known = connectors.as_ref().and_then(|all| all.as_ref().ok());
    let live = known.and_then(|all| all.iter().find(|one| Some(&one.name) == named[0].as_ref()));
    let retention = &config.retention;
    let guard = start.map(|start| {
        let fresh = fresh::look(topics, tables, config, start, wall_ms());
        fresh.map(|fresh| fresh.notes)
    });
    Around {
        tables: tables.to_vec(),
        settings,
        need: Need {
            margin: Duration::from_millis(margin_ms(config)),
            rebuild: retention.rebuild_alarm_after,
            rebuild_key: "retention.rebuild_alarm_after",
        },
        guard,
        side_topics,
        database: database::look(config, tables, live),
        connectors,
        named,
        signal_table: config.decode.signal_table.clone(),
        replica: config.source.snapshot_from == SnapshotFrom::Replica,
        unavailable: config.sink.unavailable,
    }
}

/// What follows.
pub(super) fn judge(around: &Around, findings: &mut Vec<Finding>) {
    for (role, topic, settings) in &around.settings {
        match settings {
            Ok(settings) => kept::judge(*role, topic, settings, around.need, findings),
            Err(error) => findings.push(Finding::warning(
                format!("{} {topic}", role.word()),
                "how long it keeps its records cannot be asked",
                &[error.text.lines().next().unwrap_or_default()],
            )),
        }
    }
    match &around.guard {
        None => {}
        // Compaction is refused by both: told once, for every topic that has it.
        Some(Err(_))
            if findings
                .iter()
                .any(|one| one.found.starts_with("compacted")) => {}
        Some(Err(error)) => findings.push(Finding::error("start", error)),
        Some(Ok(notes)) => {
            let others = notes.iter().filter(|note| !note.contains("(retention.ms)"));
            findings.extend(others.map(|note| Finding::warning("start", note.as_str(), &[])));
        }
    }
    for side in &around.side_topics {
        side_topic(side, findings);
    }
    let (mut decimals, mut generated) = (None, Vec::new());
    match &around.database {
        Some(Ok(found)) => {
            let (server, margin) = (&found.server, around.need.margin);
            findings.extend(times::database(server.now_ms, server.asked_ms, margin));
            database::judge(found, &around.tables, around.unavailable, findings);
            decimals = Some(found.columns(&around.tables, |column| column.decimal));
            generated = found.columns(&around.tables, |column| column.generated);
        }
        Some(Err(error)) => findings.push(Finding::error("source.database", error)),
        None => {}
    }
    let [live, snapshot] = &around.named;
    match &around.connectors {
        None => findings.push(truncate_hint()),
        Some(Err(error)) => findings.push(Finding::error("source.connect", error)),
        Some(Ok(connectors)) => findings.extend(lint(&Lint {
            connectors,
            live: live.as_deref(),
            snapshot: snapshot.as_deref(),
            tables: &around.tables,
            notifications: around.side_name("source.notifications"),
            heartbeat: around.side_name("source.heartbeat"),
            signal_table: around.signal_table.as_deref(),
            replica: around.replica,
            decimals: decimals.as_deref(),
            generated: &generated,
        })),
    }
}

impl Around {
    fn side_name(&self, key: &str) -> Option<&str> {
        let found = self.side_topics.iter().find(|(known, ..)| *known == key);
        found.map(|(_, topic, _)| topic.as_str())
    }
}

fn side_topic(
    (key, topic, count): &(&'static str, String, Result<u32, Error>),
    findings: &mut Vec<Finding>,
) {
    let thing = format!("{key} {topic}");
    match count {
        Ok(1) => findings.push(Finding::ok(thing, "1 partition")),
        Ok(count) if *key == "source.notifications" => findings.push(
            Finding::bad(Usage, thing, format!("{count} partitions"))
                .expected("1 partition")
                .to_do(
                    "Notifications have lost their order. Make the topic anew with 1 partition.",
                ),
        ),
        Ok(count) => findings.push(Finding::ok(thing, format!("{count} partitions"))),
        // Connect makes it with the first record.
        Err(error) => findings.push(
            Finding::warning(
                thing,
                "it cannot be asked",
                &[
                    error.text.lines().next().unwrap_or_default(),
                    "Connect makes it with its first record; make it now, with 1 partition.",
                ],
            )
            .expected("a topic with 1 partition"),
        ),
    }
}

#[cfg(test)]
mod tests;
