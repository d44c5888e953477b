//! What follows from a live connector: tables, topics, the names of a snapshot connector. Pure.
//!
//! Invariant: what the connector leaves open (a pattern, an unknown transform) is noted or refused,
//! never guessed in silence.

use crate::config::choices::SinkKind;
use crate::connector::Connector;
use crate::error::Error;

/// What `headwater init --connect` was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromConnector {
    /// Kafka Connect's REST interface.
    pub url: String,
    /// The live connector.
    pub connector: String,
    /// Tables; by default those of its include list.
    pub tables: Vec<String>,
    /// Name of the job; by default the connector's name.
    pub job: Option<String>,
    /// `host:port`, several with commas.
    pub brokers: String,
    /// The target.
    pub sink: SinkKind,
    /// The target's URL.
    pub target: Option<String>,
    /// The target's file.
    pub path: Option<String>,
    /// The target's topic.
    pub topic: Option<String>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedTable {
    pub(super) name: String,
    pub(super) mutations: String,
    pub(super) snapshot: String,
}

/// All that is written and printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) from: FromConnector,
    pub(super) live: Connector,
    pub(super) job: String,
    pub(super) tables: Vec<PlannedTable>,
    /// Name of the snapshot connector, and the first part of its topics' names.
    pub(super) snapshot: String,
    pub(super) notifications: String,
    pub(super) heartbeat: Option<String>,
    /// With `${PGPASSWORD}` for the password.
    pub(super) database: Option<String>,
    /// The signal table that the live connector captures.
    pub(super) signal_table: Option<String>,
    open: Vec<String>,
}

impl Plan {
    pub(super) fn make(from: &FromConnector, connectors: &[Connector]) -> Result<Plan, Error> {
        let live = find(from, connectors)?;
        let snapshot = new_name(connectors);
        let names = match from.tables.is_empty() {
            false => from.tables.clone(),
            true => live.tables().map_err(|pattern| {
                Error::usage(format!(
                    "the tables of connector {} are not known by name",
                    live.name
                ))
                .line(format!("found     `{pattern}` in its table.include.list"))
                .line("expected  --tables public.hello,public.wide")
            })?,
        };
        let signals = live.get("signal.data.collection").map(schema_and_table);
        let mut open = Vec::new();
        let mut tables = Vec::new();
        for name in names
            .into_iter()
            .filter(|name| Some(name) != signals.as_ref())
        {
            if live.reads(&name) == Some(false) {
                return Err(
                    Error::usage(format!("connector {} does not read {name}", live.name))
                        .line(format!(
                            "found     table.include.list={}",
                            live.or("table.include.list", "")
                        ))
                        .line("expected  tables of its list"),
                );
            }
            let topic = live.topic_of(&name);
            for transform in &topic.open {
                let told = format!("{transform} may give {name} another topic");
                if !open.contains(&told) {
                    open.push(told);
                }
            }
            tables.push(PlannedTable {
                snapshot: format!("{snapshot}.{name}"),
                mutations: topic.name,
                name,
            });
        }
        if tables.is_empty() {
            return Err(
                Error::usage(format!("connector {} has no table", live.name))
                    .line("expected  --tables SCHEMA.TABLE"),
            );
        }
        let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
        let job = match (&from.job, tables.as_slice()) {
            (Some(job), _) => job.clone(),
            (None, [one]) => short(&one.name),
            (None, _) => live.name.clone(),
        };
        Ok(Plan {
            job,
            tables,
            notifications: format!("{snapshot}.notifications"),
            heartbeat: live.heartbeat_topic().map(|topic| topic.name),
            database: database(live),
            signal_table: signals,
            from: from.clone(),
            live: live.clone(),
            snapshot,
            open,
        })
    }

    /// What a person should know before the rest.
    pub(super) fn notes(&self) -> String {
        let mut notes = Vec::new();
        for (name, class) in self.live.transforms() {
            notes.push(format!(
                "transform `{name}` ({class}) of {}",
                self.live.name
            ));
        }
        notes.extend(self.open.iter().cloned());
        if self.heartbeat.is_none() {
            notes.push(format!(
                "{} sends no heartbeats: set heartbeat.interval.ms=10000, then source.heartbeat",
                self.live.name
            ));
        }
        let list = notes.iter().map(|text| format!("note: {text}\n"));
        list.collect()
    }
}

fn find<'c>(from: &FromConnector, connectors: &'c [Connector]) -> Result<&'c Connector, Error> {
    let wanted = &from.connector;
    let found = connectors.iter().find(|one| one.name == *wanted);
    found.ok_or_else(|| {
        let names: Vec<&str> = connectors.iter().map(|one| one.name.as_str()).collect();
        Error::usage(format!("there is no connector `{wanted}`"))
            .line(format!("found     {}", names.join(", ")))
            .line("expected  the name of the live connector, in --connector")
    })
}

/// A name that no connector has.
fn new_name(connectors: &[Connector]) -> String {
    let mut names = (1..).map(|number| format!("snap_g{number}"));
    names
        .find(|name| !connectors.iter().any(|one| one.name == *name))
        .expect("numbers do not end")
}

/// Debezium names the signal table with its database for some sources.
fn schema_and_table(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    parts[parts.len().saturating_sub(2)..].join(".")
}

fn database(live: &Connector) -> Option<String> {
    if !live.is_postgres() {
        return None;
    }
    let (host, name) = (live.get("database.hostname")?, live.get("database.dbname")?);
    let (user, port) = (live.get("database.user")?, live.or("database.port", "5432"));
    // References of Connect mean nothing here.
    let plain = [host, name, user, port]
        .iter()
        .all(|text| !text.contains("${"));
    let [user, name] = [user, name].map(encoded);
    plain.then(|| format!("postgres://{user}:${{PGPASSWORD}}@{host}:{port}/{name}"))
}

/// A part of a URL.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
