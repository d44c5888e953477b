//! The configuration: `headwater.toml`, `--set` over it, defaults under it.
//!
//! Invariant: nothing that was written is passed over in silence. An unknown key is an error, and a
//! key that means nothing yet becomes a notice. Secrets are not followed here (see
//! [`secret::Secret::resolve`]) and are redacted in every form that prints.
//!
//! It cannot tell whether a topic or a target exists: that is `headwater check`.

pub mod choices;
mod init;
mod nearest;
mod print;
mod read;
mod rules;
pub mod secret;
pub mod section;
pub mod sections;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod units;
pub mod value;

pub(crate) use init::sink_section;
pub use init::{Init, starter};

use crate::error::Error;
use crate::table::Table;
use section::Section;
use sections::{
    CheckpointConfig, ClusterConfig, ControlConfig, DeadLetterConfig, DecodeConfig, JobConfig,
    LimitsConfig, PromoteConfig, QuarantineConfig, RetentionConfig, SinkConfig, SourceConfig,
    TableConfig,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tree::{Entries, Node, Tree};
use value::Properties;

/// The file that is read and written when none is named.
pub const FILE: &str = "headwater.toml";

/// Where a configuration comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file; [`FILE`] when it was not named.
    pub path: Option<PathBuf>,
    /// The arguments of `--set`, in order; a later one wins.
    pub sets: Vec<String>,
}

/// Everything that a job is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The job's name.
    pub job: JobConfig,
    /// Properties of librdkafka, as they are.
    pub kafka: Properties,
    /// The tables, in order.
    pub tables: Vec<TableConfig>,
    /// Where mutations are read from.
    pub source: SourceConfig,
    /// How long markers live.
    pub retention: RetentionConfig,
    /// What promotion asks for.
    pub promote: PromoteConfig,
    /// How records are read.
    pub decode: DecodeConfig,
    /// Where merged rows go.
    pub sink: SinkConfig,
    /// Where READs go that may be stale.
    pub quarantine: QuarantineConfig,
    /// Where mutations go that cannot be decoded.
    pub dead_letter: DeadLetterConfig,
    /// Durable state.
    pub checkpoint: CheckpointConfig,
    /// HTTP.
    pub control: ControlConfig,
    /// Several processes.
    pub cluster: ClusterConfig,
    /// Memory and speed.
    pub limits: LimitsConfig,
}

/// A configuration and what must be said about it, once, before anything starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// One line each.
    pub notices: Vec<String>,
}

impl Config {
    /// Reads the file of `origin` and lays its `--set`s over it. Secrets are not followed yet.
    ///
    /// # Errors
    /// Of usage: a file that cannot be read, and all that is wrong in it.
    pub fn load(origin: &Origin) -> Result<Loaded, Error> {
        let path = origin.path.as_deref().unwrap_or(Path::new(FILE));
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::usage(format!(
                "the configuration {} cannot be read",
                path.display()
            ))
            .line(format!("found     {error}"))
            .line("`headwater init` writes one; `-c FILE` names another.")
        })?;
        let loaded = Config::parse(&path.display().to_string(), &text, &origin.sets)?;
        loaded.config.check()?;
        Ok(loaded)
    }

    /// Reads text called `name` in messages, without the rules between settings
    /// ([`Config::check`]).
    ///
    /// # Errors
    /// Of usage: an unknown key, a wrong type, a missing key.
    pub fn parse(name: &str, text: &str, sets: &[String]) -> Result<Loaded, Error> {
        let mut entries = tree::parse(name, text)?;
        for (index, argument) in sets.iter().enumerate() {
            tree::set(&mut entries, index + 1, argument)?;
        }
        Config::from_entries(&entries)
    }

    fn from_entries(entries: &Entries) -> Result<Loaded, Error> {
        let mut config = Config::default();
        let mut later = Vec::new();
        let mut top = Entries::new();
        for (name, node) in entries {
            if name == "kafka" {
                config.read_kafka(node)?;
            } else if name == "table" {
                config.read_tables(node)?;
            } else if let Some((path, section)) = config
                .sections_mut()
                .into_iter()
                .find(|(path, _)| path == name)
            {
                let entries = read::table(path, node)?;
                read::section(section, path, entries)?;
                later.extend(read::later(section, path, entries));
            } else if config.job.keys().iter().any(|key| key.name == name) {
                top.insert(name.clone(), node.clone());
            } else {
                return Err(read::unknown(name, name, node, &config.top_names()));
            }
        }
        read::section(&mut config.job, "", &top)?;
        config.derive();
        let mut notices = Vec::new();
        if !later.is_empty() {
            notices.push(format!("not built yet: {} ignored", ticked(&later)));
        }
        Ok(Loaded { config, notices })
    }

    /// The rules between settings.
    ///
    /// # Errors
    /// Of usage: names the settings that do not go together.
    pub fn check(&self) -> Result<(), Error> {
        rules::check(self)
    }

    /// The tables as the job sees them; the index is a table's number.
    pub fn tables(&self) -> Vec<Table> {
        self.tables.iter().map(TableConfig::table).collect()
    }

    /// The properties of librdkafka, with secrets followed. For the client alone, never for a
    /// message.
    ///
    /// # Errors
    /// Of usage: an environment variable or a file that is missing.
    pub fn kafka_properties(&self) -> Result<BTreeMap<String, String>, Error> {
        self.kafka.resolve()
    }

    /// The effective configuration as commented TOML, secrets redacted.
    pub fn to_toml(&self) -> String {
        print::config(self)
    }

    /// What all processes of a cluster must agree on: the effective settings without
    /// `[control]` and without secrets. Hash it to compare.
    pub fn agreement(&self) -> String {
        print::agreement(self)
    }

    /// Defaults that follow from other settings.
    fn derive(&mut self) {
        use choices::SinkKind::{Jsonl, Sqlite};
        let job = self.job.job.clone();
        let path = |kind, name: &str| match kind {
            Sqlite => Some(PathBuf::from(format!("{name}.sqlite"))),
            Jsonl => Some(PathBuf::from(name)),
            _ => None,
        };
        let fill = |kind, at: &mut Option<PathBuf>, name: &str| {
            if at.is_none() {
                *at = path(kind, name);
            }
        };
        fill(self.sink.kind, &mut self.sink.path, &job);
        fill(
            self.quarantine.kind,
            &mut self.quarantine.path,
            &format!("{job}.quarantine"),
        );
        fill(
            self.dead_letter.kind,
            &mut self.dead_letter.path,
            &format!("{job}.dead_letter"),
        );
    }

    fn read_kafka(&mut self, node: &Node) -> Result<(), Error> {
        for (name, value) in read::table("kafka", node)? {
            self.kafka
                .put("kafka", name, value)
                .map_err(|fault| match fault {
                    value::Fault::Told(error) => error,
                    value::Fault::Mismatch { place, found } => {
                        Error::usage(format!("wrong value for `kafka.\"{name}\"`"))
                            .line(format!("found     {found} ({place})"))
                            .line("expected  text, \"${ENV_VAR}\" or \"@file\"; the name in quotes")
                            .line("example   \"bootstrap.servers\" = \"127.0.0.1:9092\"")
                    }
                })?;
        }
        Ok(())
    }

    fn read_tables(&mut self, node: &Node) -> Result<(), Error> {
        let Tree::List(nodes) = &node.tree else {
            return Err(Error::usage("`table` is not a list of tables")
                .line(format!("found     {} ({})", node.tree.sort(), node.place))
                .line("expected  `[[table]]` with two brackets, one for each table"));
        };
        for (index, node) in nodes.iter().enumerate() {
            let path = format!("table.{index}");
            let mut table = TableConfig::default();
            read::section(&mut table, &path, read::table(&path, node)?)?;
            self.tables.push(table);
        }
        Ok(())
    }

    fn top_names(&self) -> Vec<&'static str> {
        let names = self.sections().into_iter().map(|(name, _)| name);
        ["job", "kafka", "table"].into_iter().chain(names).collect()
    }

    /// The sections by name, except `kafka` and `table`.
    fn sections(&self) -> [(&'static str, &dyn Section); 11] {
        [
            ("source", &self.source),
            ("retention", &self.retention),
            ("promote", &self.promote),
            ("decode", &self.decode),
            ("sink", &self.sink),
            ("quarantine", &self.quarantine),
            ("dead_letter", &self.dead_letter),
            ("checkpoint", &self.checkpoint),
            ("control", &self.control),
            ("cluster", &self.cluster),
            ("limits", &self.limits),
        ]
    }

    fn sections_mut(&mut self) -> [(&'static str, &mut dyn Section); 11] {
        [
            ("source", &mut self.source),
            ("retention", &mut self.retention),
            ("promote", &mut self.promote),
            ("decode", &mut self.decode),
            ("sink", &mut self.sink),
            ("quarantine", &mut self.quarantine),
            ("dead_letter", &mut self.dead_letter),
            ("checkpoint", &mut self.checkpoint),
            ("control", &mut self.control),
            ("cluster", &mut self.cluster),
            ("limits", &mut self.limits),
        ]
    }
}

fn ticked(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}
