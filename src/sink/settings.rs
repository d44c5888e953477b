//! `[sink]` of the configuration, and the sink that it means.
//!
//! Invariant: a setting that the kind does not have is refused, never ignored.
//!
//! It cannot reach the target: making a sink never waits, [`super::admit::admit`] does.

use super::Sink;
use super::jsonl::JsonLines;
use super::kafka::KafkaSink;
use super::null::Null;
use super::postgres::PostgresSink;
use super::sqlite::SqliteSink;
use crate::error::Error;
use crate::table::Table;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The kinds of targets that are built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinkKind {
    /// Upserts and tombstones to a topic.
    Kafka,
    /// Upserts and deletes in PostgreSQL.
    Postgres,
    /// Upserts and deletes in an SQLite file.
    Sqlite,
    /// Files of JSON lines, the last line of a key counts.
    Jsonl,
    /// Counts only.
    Null,
}

impl SinkKind {
    fn word(self) -> &'static str {
        match self {
            SinkKind::Kafka => "kafka",
            SinkKind::Postgres => "postgres",
            SinkKind::Sqlite => "sqlite",
            SinkKind::Jsonl => "jsonl",
            SinkKind::Null => "null",
        }
    }
}

/// What to do with a target that holds rows at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetNotEmpty {
    /// Refuse to start.
    #[default]
    Refuse,
    /// Go on; rows absent from the source may stay.
    Accept,
}

/// What to do with a column that the target lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownColumns {
    /// Stop and name it.
    #[default]
    Refuse,
    /// Leave it out.
    Drop,
}

/// What to do with a target table that is unique in more than its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UniqueConstraints {
    /// Refuse to start.
    #[default]
    Refuse,
    /// Write through one connection; needs one process.
    OneConnection,
}

/// What to do with a row that the target refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Stop and name its record.
    #[default]
    Stop,
}

/// `[sink]`. Names of tables are those of `[[table]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkSettings {
    /// The kind of target.
    pub kind: SinkKind,
    /// The job that writes it; not of `[sink]`.
    #[serde(skip, default = "job")]
    pub job: String,
    /// `postgres://user:password@host/database`, for `postgres`.
    #[serde(default)]
    pub url: Option<String>,
    /// The database file of `sqlite`; for `jsonl` the folder and the first part of the file names.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// The topic of `kafka`, when there is one table.
    #[serde(default)]
    pub topic: Option<String>,
    /// Target table (or topic) of a table; by default its own name, for `sqlite` without schema.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// librdkafka properties for `kafka`, over those of `[kafka]`.
    #[serde(default)]
    pub kafka: BTreeMap<String, String>,
    /// Whether `kafka` is written in transactions, which fence older runs.
    #[serde(default = "transactional")]
    pub transactional: bool,
    /// SQL run on the `sqlite` file before it is checked, such as `CREATE TABLE IF NOT EXISTS …`.
    /// The file is then made when it is not there.
    #[serde(default)]
    pub setup_sql: Option<String>,
    /// Records folded and written at once, at most.
    #[serde(default = "batch_rows_max")]
    pub batch_rows_max: usize,
    /// Bytes of records folded and written at once, about, at most.
    #[serde(default = "batch_bytes_max")]
    pub batch_bytes_max: usize,
    /// Connections of each worker, for `postgres` (2) and `kafka` (1).
    #[serde(default)]
    pub connections: Option<usize>,
    /// What to do with a target that holds rows.
    #[serde(default)]
    pub target_not_empty: TargetNotEmpty,
    /// What to do with columns that the target lacks.
    #[serde(default)]
    pub unknown_columns: UnknownColumns,
    /// What to do with unique constraints beyond the key.
    #[serde(default)]
    pub unique_constraints: UniqueConstraints,
    /// What to do with a row that the target refuses.
    #[serde(default)]
    pub on_error: OnError,
    /// Why a sink that is not replay-safe is safe after all.
    #[serde(default)]
    pub replay_unsafe_because: Option<String>,
}

fn transactional() -> bool {
    true
}

fn job() -> String {
    "headwater".to_owned()
}

fn batch_rows_max() -> usize {
    10_000
}

fn batch_bytes_max() -> usize {
    8 << 20
}

impl SinkSettings {
    /// The defaults of a kind.
    pub fn new(kind: SinkKind) -> SinkSettings {
        SinkSettings {
            kind,
            job: job(),
            url: None,
            path: None,
            topic: None,
            names: BTreeMap::new(),
            kafka: BTreeMap::new(),
            transactional: transactional(),
            setup_sql: None,
            batch_rows_max: batch_rows_max(),
            batch_bytes_max: batch_bytes_max(),
            connections: None,
            target_not_empty: TargetNotEmpty::Refuse,
            unknown_columns: UnknownColumns::Refuse,
            unique_constraints: UniqueConstraints::Refuse,
            on_error: OnError::Stop,
            replay_unsafe_because: None,
        }
    }

    /// The name of a table at the target.
    pub fn target_name<'a>(&'a self, table: &'a Table) -> &'a str {
        if let Some(name) = self.names.get(&table.name) {
            return name;
        }
        match self.kind {
            SinkKind::Kafka => self.topic.as_deref().unwrap_or(&table.name),
            SinkKind::Sqlite => match table.name.rsplit_once('.') {
                Some((_, name)) => name,
                None => &table.name,
            },
            SinkKind::Postgres | SinkKind::Jsonl | SinkKind::Null => &table.name,
        }
    }

    /// Refuses what the kind does not have.
    fn validate(&self, tables: &[Table]) -> Result<(), Error> {
        let sql = [SinkKind::Postgres, SinkKind::Sqlite];
        let named = [SinkKind::Postgres, SinkKind::Sqlite, SinkKind::Kafka];
        let unknown = self.unknown_columns != UnknownColumns::Refuse;
        let unique = self.unique_constraints != UniqueConstraints::Refuse;
        let settings: [(&str, bool, &[SinkKind]); 10] = [
            ("url", self.url.is_some(), &[SinkKind::Postgres]),
            (
                "path",
                self.path.is_some(),
                &[SinkKind::Sqlite, SinkKind::Jsonl],
            ),
            ("topic", self.topic.is_some(), &[SinkKind::Kafka]),
            ("names", !self.names.is_empty(), &named),
            ("kafka", !self.kafka.is_empty(), &[SinkKind::Kafka]),
            ("transactional", !self.transactional, &[SinkKind::Kafka]),
            ("setup_sql", self.setup_sql.is_some(), &[SinkKind::Sqlite]),
            (
                "connections",
                self.connections.is_some(),
                &[SinkKind::Postgres, SinkKind::Kafka],
            ),
            ("unknown_columns", unknown, &sql),
            ("unique_constraints", unique, &sql),
        ];
        for (name, set, kinds) in settings {
            if set && !kinds.contains(&self.kind) {
                let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
                return Err(Error::usage(format!(
                    "sink.{name} is not a setting of sink.kind = \"{}\"",
                    self.kind.word()
                ))
                .line(format!("It belongs to {}.", words.join(", "))));
            }
        }
        for (name, value) in [
            ("batch_rows_max", self.batch_rows_max),
            ("batch_bytes_max", self.batch_bytes_max),
            ("connections", self.connections.unwrap_or(1)),
        ] {
            if value == 0 {
                return Err(Error::usage(format!(
                    "sink.{name} is 0, it must be at least 1"
                )));
            }
        }
        self.validate_names(tables)
    }

    fn validate_names(&self, tables: &[Table]) -> Result<(), Error> {
        for name in self.names.keys() {
            if !tables.iter().any(|table| table.name == *name) {
                let known: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
                return Err(
                    Error::usage(format!("sink.names has `{name}`, which is no table"))
                        .line(format!("tables  {}", known.join(", "))),
                );
            }
        }
        let mut seen = BTreeMap::new();
        for table in tables {
            let target = self.target_name(table);
            if let Some(other) = seen.insert(target, &table.name) {
                return Err(Error::usage(format!(
                    "`{other}` and `{}` have the same target `{target}`",
                    table.name
                ))
                .line("Keys of one would overwrite those of the other.")
                .line("Give each table a target of its own in sink.names."));
            }
        }
        Ok(())
    }

    /// A setting that the kind needs.
    fn needed<T: Clone>(&self, name: &str, value: &Option<T>) -> Result<T, Error> {
        value.clone().ok_or_else(|| {
            let kind = self.kind.word();
            Error::usage(format!("sink.kind = \"{kind}\" needs sink.{name}"))
        })
    }
}

/// The sink that the settings mean. `kafka` is `[kafka]` of the configuration.
///
/// # Errors
/// Settings that are missing, do not belong together, or need a single process.
pub fn build(
    settings: &SinkSettings,
    tables: &[Table],
    kafka: &BTreeMap<String, String>,
    processes: usize,
) -> Result<Arc<dyn Sink>, Error> {
    settings.validate(tables)?;
    let one_connection = settings.unique_constraints == UniqueConstraints::OneConnection;
    if processes > 1 && (settings.kind == SinkKind::Sqlite || one_connection) {
        let what = match settings.kind {
            SinkKind::Sqlite => "an SQLite target",
            _ => "sink.unique_constraints = \"one_connection\"",
        };
        return Err(
            Error::usage(format!("{what} needs one process, there are {processes}"))
                .line("Run with -n 1 (more workers with -w are fine), or take another sink."),
        );
    }
    Ok(match settings.kind {
        SinkKind::Null => Arc::new(Null::default()),
        SinkKind::Jsonl => {
            let path = settings.needed("path", &settings.path)?;
            Arc::new(JsonLines::new(path, tables))
        }
        SinkKind::Sqlite => {
            let path = settings.needed("path", &settings.path)?;
            Arc::new(SqliteSink::new(settings, path, tables))
        }
        SinkKind::Postgres => {
            let url = settings.needed("url", &settings.url)?;
            Arc::new(PostgresSink::new(settings, &url, tables)?)
        }
        SinkKind::Kafka => Arc::new(KafkaSink::new(settings, kafka, tables)?),
    })
}

#[cfg(test)]
mod tests;
