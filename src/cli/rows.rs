//! Verbs about rows: `verify`, `quarantine` and `explain`, their flags and what they mean.

use super::args::Source;
use crate::config::Origin;
use crate::config::units::parse_duration;
use crate::config::value::Value;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

/// `headwater verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyArgs {
    /// The configuration.
    pub origin: Origin,
    /// The tables to compare; all when there is none.
    pub tables: Vec<String>,
    /// How long a difference must stay.
    pub lag: Duration,
    /// Keys that are told of each kind of difference.
    pub keys_max: usize,
    /// Whether the rows of these keys are shown.
    pub show_values: bool,
    /// The report is one JSON object on stdout.
    pub json: bool,
}

/// `headwater explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainArgs {
    /// The configuration.
    pub origin: Origin,
    /// The table's name.
    pub table: String,
    /// The key, as JSON.
    pub key: String,
    /// Whether the topics are read for its records.
    pub search: bool,
    /// How far from the time of the marker they are read.
    pub around: Duration,
    /// Whether the values of these records are shown.
    pub values: bool,
    /// The explanation is one JSON object on stdout.
    pub json: bool,
}

/// `headwater quarantine`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineArgs {
    /// The configuration.
    pub origin: Origin,
    /// The one table to look at.
    pub table: Option<String>,
    /// The one key to look at, as JSON.
    pub key: Option<String>,
    /// What to do with what is there.
    pub what: QuarantineVerb,
}

/// What `headwater quarantine` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuarantineVerb {
    /// Counts and keys.
    List {
        /// Keys that are told.
        keys_max: usize,
        /// One JSON object on stdout.
        json: bool,
    },
    /// Every record once, as JSON lines.
    Export,
    /// What lets Debezium read the keys again.
    Signal(SignalArgs),
}

/// `headwater quarantine signal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalArgs {
    /// How the signal reaches the connector.
    pub via: Via,
    /// How the connector reads the rows.
    pub snapshot: SnapshotType,
    /// The signalling table; by default `decode.signal_table`.
    pub signal_table: Option<String>,
    /// The connector's `topic.prefix`; by default what stands before the table's name in the name
    /// of its snapshot topic.
    pub topic_prefix: Option<String>,
    /// Keys in one signal, at most.
    pub keys_max: usize,
    /// Characters of the data of one signal, at most.
    pub data_chars_max: Option<usize>,
}

/// How a signal reaches the connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// Statements for the signalling table.
    Sql,
    /// Records for the signal topic: key, tab, value.
    Kafka,
}

/// How the connector reads the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SnapshotType {
    /// In chunks, beside its streaming.
    Incremental,
    /// In one go; streaming waits.
    Blocking,
}

impl SnapshotType {
    /// The word in a signal.
    pub fn word(self) -> &'static str {
        match self {
            SnapshotType::Incremental => "incremental",
            SnapshotType::Blocking => "blocking",
        }
    }
}

#[derive(Args)]
pub(super) struct Verify {
    #[command(flatten)]
    source: Source,
    /// Compare this table alone; may be given several times
    #[arg(long = "table", value_name = "NAME")]
    tables: Vec<String>,
    /// How long a difference must stay: the target follows the source with a lag
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    lag: Duration,
    /// Keys that are told of each kind of difference
    #[arg(long, value_name = "N", default_value_t = 10)]
    keys: usize,
    /// Show the rows of these keys
    #[arg(long)]
    show_values: bool,
    /// Print the report as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(super) fn command(self) -> VerifyArgs {
        VerifyArgs {
            origin: self.source.origin(),
            tables: self.tables,
            lag: self.lag,
            keys_max: self.keys,
            show_values: self.show_values,
            json: self.json,
        }
    }
}

#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Quarantine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Count by table, reason and generation, and show the keys
    Ls {
        #[command(flatten)]
        which: Which,
        /// Keys that are told
        #[arg(long, value_name = "N", default_value_t = 20)]
        keys: usize,
        /// Print one JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print every record once, as JSON lines
    Export {
        #[command(flatten)]
        which: Which,
    },
    /// Print the signal that makes Debezium read just these keys again
    Signal(Signal),
}

#[derive(Args)]
struct Which {
    #[command(flatten)]
    source: Source,
    /// This table alone
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// This key alone, as JSON: {"id":5}
    #[arg(long, value_name = "JSON")]
    key: Option<String>,
}

#[derive(Args)]
struct Signal {
    #[command(flatten)]
    which: Which,
    /// sql: statements for the signalling table; kafka: records for the signal topic
    #[arg(long, value_enum, value_name = "HOW", default_value = "sql")]
    via: Via,
    /// How the connector reads the rows
    #[arg(
        long = "type",
        value_enum,
        value_name = "TYPE",
        default_value = "incremental"
    )]
    snapshot: SnapshotType,
    /// The signalling table [default: decode.signal_table]
    #[arg(long, value_name = "NAME")]
    signal_table: Option<String>,
    /// The connector's topic.prefix [default: from the snapshot topic's name]
    #[arg(long, value_name = "PREFIX")]
    topic_prefix: Option<String>,
    /// Keys in one signal, at most
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = at_least_one)]
    keys_max: usize,
    /// Characters of a signal's data, at most [default: 2048 for sql, the size of the column that
    /// Debezium's manual gives; 262144 for kafka]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    data_chars_max: Option<usize>,
}

#[derive(Args)]
pub(super) struct Explain {
    /// The table, as the configuration names it
    #[arg(value_name = "TABLE")]
    table: String,
    /// The key: a JSON object of its columns, or the bare value of its one column
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key: String,
    #[command(flatten)]
    source: Source,
    /// Read the topics, and show the records of the key
    #[arg(long)]
    search: bool,
    /// With --search: how far before and after the time of the marker mutations are looked for
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15m",
          requires = "search")]
    around: Duration,
    /// With --search: show their values, too
    #[arg(long, requires = "search")]
    values: bool,
    /// Print the explanation as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn command(self) -> ExplainArgs {
        ExplainArgs {
            origin: self.source.origin(),
            table: self.table,
            key: self.key,
            search: self.search,
            around: self.around,
            values: self.values,
            json: self.json,
        }
    }
}

impl Quarantine {
    pub(super) fn command(self) -> QuarantineArgs {
        match self.verb {
            Verb::Ls { which, keys, json } => which.then(QuarantineVerb::List {
                keys_max: keys,
                json,
            }),
            Verb::Export { which } => which.then(QuarantineVerb::Export),
            Verb::Signal(signal) => signal.which.then(QuarantineVerb::Signal(SignalArgs {
                via: signal.via,
                snapshot: signal.snapshot,
                signal_table: signal.signal_table,
                topic_prefix: signal.topic_prefix,
                keys_max: signal.keys_max,
                data_chars_max: signal.data_chars_max,
            })),
        }
    }
}

impl Which {
    fn then(self, what: QuarantineVerb) -> QuarantineArgs {
        QuarantineArgs {
            origin: self.source.origin(),
            table: self.table,
            key: self.key,
            what,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("expected {}", Duration::expected()))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected 1 or more".to_owned()),
        Ok(number) => Ok(number),
    }
}
