//! What clap reads, and the checks between flags. Nothing outside this module sees it.

use super::{
    CheckArgs, CheckpointArgs, CheckpointVerb, ClusterArgs, Command, DemoArgs, EndSnapshotArgs,
    InitArgs, InitFrom, RunArgs, StatusArgs, WaitReadyArgs, generation, rows,
};
use crate::config::choices::SinkKind;
use crate::config::units::parse_duration;
use crate::config::value::Value;
use crate::config::{FILE, Init, Origin};
use crate::error::Error;
use crate::init::FromConnector;
use crate::run::FIRST_GENERATION;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

const EXIT_CODES: &str = "Exit codes:
  0    done, or ready
  1    failed: something broke or a service is away
  2    usage or configuration
  3    not ready in time
  4    refused: going on could give wrong rows
  130  interrupted, after a clean stop";

/// Merges a live mutation stream with a private snapshot topic, per primary key, without stale
/// rows.
#[derive(Parser)]
#[command(name = "headwater", version, after_help = EXIT_CODES)]
#[command(arg_required_else_help = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Merge both topics of each table into the target
    #[command(disable_help_flag = true, after_help = EXIT_CODES)]
    Run(Run),
    /// Say what would go wrong, and change nothing
    #[command(after_help = EXIT_CODES)]
    Check(Check),
    /// Say that the snapshot is complete: end every partition of the snapshot topics
    #[command(after_help = EXIT_CODES)]
    EndSnapshot(EndSnapshot),
    /// Compare the target with the source, row by row
    #[command(after_help = EXIT_CODES)]
    Verify(rows::Verify),
    /// Look at the READs that may be stale, and have them read again
    #[command(after_help = EXIT_CODES)]
    Quarantine(rows::Quarantine),
    /// Look at the checkpoints of the job, and change nothing
    #[command(subcommand, after_help = EXIT_CODES)]
    Checkpoint(Checkpoint),
    /// Say how the job does: the verdict first
    #[command(after_help = EXIT_CODES)]
    Status(Status),
    /// Say what is remembered of a key, and what becomes of a READ of it
    #[command(after_help = EXIT_CODES)]
    Explain(rows::Explain),
    /// Wait until a generation is ready
    #[command(after_help = EXIT_CODES)]
    WaitReady(WaitReady),
    /// Open, end, give up, promote generations of a running job; pause and throttle READs
    #[command(after_help = EXIT_CODES, arg_required_else_help = true)]
    Generation(generation::Generation),
    /// Set how long markers live, while the job runs
    #[command(after_help = EXIT_CODES)]
    Ttl(generation::Ttl),
    /// Set the number of markers at which READs wait, while the job runs
    #[command(after_help = EXIT_CODES)]
    MarkersMax(generation::MarkersMax),
    /// Write a commented headwater.toml
    Init(InitFlags),
    /// Print the effective configuration with every default, secrets redacted
    Config(Source),
    /// Show the whole job on embedded parts, with the rule and without
    Demo(Demo),
}

#[derive(Args)]
pub(super) struct Source {
    /// The configuration [default: headwater.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set a key over the file: retention.start_margin=30m, kafka."bootstrap.servers"=host:9092,
    /// table.public.hello.key=id
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    source: Source,
    /// End when the snapshot is merged
    #[arg(long)]
    once: bool,
    /// With --once: take the snapshot for finished when neither topic delivered for so long (5s)
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "once")]
    assume_finished_after_idle: Option<Duration>,
    /// Shows the disease: emit every READ, stale or not. Never for a target that matters
    #[arg(long)]
    without_markers: bool,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    json: bool,
    /// Tell the counts all the time, one JSON object a line on stdout (`demo` listens)
    #[arg(long, hide = true)]
    tell: bool,
    /// Worker threads in each process
    #[arg(short = 'w', long = "threads", value_name = "N", default_value_t = 1)]
    workers: usize,
    /// Number of processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    processes: usize,
    /// Number of this process, from 0
    #[arg(short = 'p', long, value_name = "P", default_value_t = 0)]
    process: usize,
    /// Addresses of the processes, one HOST:PORT a line
    #[arg(short = 'h', long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// The mutation topics were drained, and have then grown to N partitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    accept_partitions: Option<u32>,
    /// Go back to checkpoint N instead of the newest: what was read since is read again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    from_checkpoint: Option<u64>,
    /// Give a generation up whose snapshot cannot be read, and go on without it
    #[arg(long, value_name = "ID")]
    abort_generation: Option<String>,
    /// Print help (-h is the hostfile)
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Args)]
struct Check {
    #[command(flatten)]
    source: Source,
    /// Print the findings as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct EndSnapshot {
    #[command(flatten)]
    source: Source,
    /// Id of the generation
    #[arg(long, value_name = "ID", default_value = FIRST_GENERATION,
          value_parser = NonEmptyStringValueParser::new())]
    generation: String,
    /// Write although a partition has an end record already: an earlier call was cut off
    #[arg(long)]
    again: bool,
}

#[derive(Subcommand)]
enum Checkpoint {
    /// List them: number, time, markers, bytes
    Ls(Look),
    /// Read everything that a restore would read, and compare the sums
    Verify {
        #[command(flatten)]
        one: LookAt,
        /// Verify all of them
        #[arg(long, conflicts_with = "number")]
        all: bool,
    },
    /// Say in words what one holds, and what a run would do with it
    Explain(LookAt),
}

#[derive(Args)]
struct LookAt {
    /// Number of the checkpoint [default: the newest]
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    #[command(flatten)]
    look: Look,
}

#[derive(Args)]
struct Look {
    #[command(flatten)]
    source: Source,
    /// Print what was found as JSON on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Status {
    #[command(flatten)]
    remote: generation::Remote,
    /// Print the status document
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct WaitReady {
    #[command(flatten)]
    remote: generation::Remote,
    /// The generation [default: all that go on]
    #[arg(long, value_name = "ID")]
    generation: Option<String>,
    /// How long to wait, then end with 3
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30m")]
    timeout: Duration,
}

#[derive(Args)]
struct InitFlags {
    /// The shared topic of live mutations: a Kafka name or file:PATH
    #[arg(long, value_name = "TOPIC", required_unless_present = "connect")]
    mutations: Option<String>,
    /// The private topic of READs: a Kafka name or file:PATH
    #[arg(long, value_name = "TOPIC", required_unless_present = "connect")]
    snapshot: Option<String>,
    /// Make it from a live connector instead: the URL of Kafka Connect, http://host:8083
    #[arg(long, value_name = "URL", requires = "connector",
          conflicts_with_all = ["mutations", "snapshot", "table"])]
    connect: Option<String>,
    /// With --connect: the name of the live connector
    #[arg(long, value_name = "NAME", requires = "connect",
          conflicts_with_all = ["mutations", "snapshot", "table"])]
    connector: Option<String>,
    /// With --connect: tables, with commas [default: those of the connector's include list]
    #[arg(
        long,
        value_name = "NAMES",
        requires = "connect",
        value_delimiter = ','
    )]
    tables: Vec<String>,
    /// schema.table [default: the last two parts of the mutation topic's name]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Name of the job [default: the table's name without its schema]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Kafka brokers
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    brokers: String,
    /// The target: sqlite, postgres, kafka, jsonl, null
    #[arg(long, value_name = "KIND", default_value = "sqlite", value_parser = sink_kind)]
    sink: SinkKind,
    /// The target's URL; "${ENV_VAR}" and "@file" keep the secret out of the file
    #[arg(long)]
    url: Option<String>,
    /// The target's file
    #[arg(long)]
    path: Option<String>,
    /// The target's topic
    #[arg(long)]
    topic: Option<String>,
    /// The file to write; never replaced
    #[arg(short, long, value_name = "FILE", default_value = FILE)]
    config: PathBuf,
}

#[derive(Args)]
struct Demo {
    /// Seconds of writes
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Keys of the source table
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Concurrent writers
    #[arg(long, value_name = "N", default_value_t = 4)]
    writers: usize,
    /// Workers of the job
    #[arg(short = 'w', long, value_name = "N", default_value_t = 2)]
    workers: usize,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    json: bool,
    /// Stay up at the end
    #[arg(long)]
    hold: bool,
    /// Shows the disease: run with the rule off, alone
    #[arg(long)]
    without_markers: bool,
    /// Keep its files here [default: a folder that is removed]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Cli {
    /// The command, with the checks that flags cannot express alone.
    pub(super) fn command(self) -> Result<Command, Error> {
        Ok(match self.verb {
            Verb::Run(run) => Command::Run(run.command()?),
            Verb::Check(check) => Command::Check(CheckArgs {
                origin: check.source.origin(),
                json: check.json,
            }),
            Verb::EndSnapshot(end) => Command::EndSnapshot(EndSnapshotArgs {
                origin: end.source.origin(),
                generation: end.generation,
                again: end.again,
            }),
            Verb::Verify(verify) => Command::Verify(verify.command()),
            Verb::Quarantine(quarantine) => Command::Quarantine(quarantine.command()),
            Verb::Checkpoint(checkpoint) => Command::Checkpoint(checkpoint.args()),
            Verb::Status(status) => Command::Status(StatusArgs {
                origin: status.remote.origin(),
                json: status.json,
            }),
            Verb::Explain(explain) => Command::Explain(explain.command()),
            Verb::WaitReady(wait) => Command::WaitReady(WaitReadyArgs {
                origin: wait.remote.origin(),
                timeout: wait.timeout,
                generation: wait.generation,
            }),
            Verb::Generation(generation) => Command::Generation(generation.command()),
            Verb::Ttl(ttl) => Command::Tune(ttl.command()),
            Verb::MarkersMax(max) => Command::Tune(max.command()),
            Verb::Init(init) => Command::Init(init.command()),
            Verb::Config(source) => Command::Config(source.origin()),
            Verb::Demo(demo) => Command::Demo(demo.command()?),
        })
    }
}

impl Source {
    pub(super) fn origin(self) -> Origin {
        Origin {
            path: self.config,
            sets: self.set,
        }
    }
}

impl Checkpoint {
    fn args(self) -> CheckpointArgs {
        let (look, verb) = match self {
            Checkpoint::Ls(look) => (look, CheckpointVerb::List),
            Checkpoint::Verify { one, all } => {
                let number = one.number;
                (one.look, CheckpointVerb::Verify { number, all })
            }
            Checkpoint::Explain(one) => {
                let number = one.number;
                (one.look, CheckpointVerb::Explain { number })
            }
        };
        CheckpointArgs {
            origin: look.source.origin(),
            json: look.json,
            verb,
        }
    }
}

impl Run {
    fn command(self) -> Result<RunArgs, Error> {
        at_least_one("--threads", self.workers)?;
        at_least_one("--processes", self.processes)?;
        if self.process >= self.processes {
            return Err(Error::usage("`--process` is not below `--processes`")
                .line(format!(
                    "found     -p {} -n {}",
                    self.process, self.processes
                ))
                .line("expected  -p from 0 to n - 1, another for each process"));
        }
        if self.processes > 1 && self.hostfile.is_none() {
            return Err(
                Error::usage(format!("{} processes need a hostfile", self.processes)).line(
                    "expected  -h FILE with one HOST:PORT a line, the same for every process",
                ),
            );
        }
        Ok(RunArgs {
            origin: self.source.origin(),
            once: self.once,
            assume_finished_after_idle: self.assume_finished_after_idle,
            without_markers: self.without_markers,
            json: self.json,
            tell: self.tell,
            cluster: ClusterArgs {
                workers: self.workers,
                processes: self.processes,
                process: self.process,
                hostfile: self.hostfile,
            },
            accept_partitions: self.accept_partitions,
            from_checkpoint: self.from_checkpoint,
            abort_generation: self.abort_generation,
        })
    }
}

impl InitFlags {
    fn command(self) -> InitArgs {
        let path = self.config.clone();
        let from = match (&self.connect, &self.connector) {
            (Some(url), Some(connector)) => InitFrom::Connector(FromConnector {
                url: url.clone(),
                connector: connector.clone(),
                tables: self.tables,
                job: self.job,
                brokers: self.brokers,
                sink: self.sink,
                target: self.url,
                path: self.path,
                topic: self.topic,
            }),
            _ => InitFrom::Topics(self.topics()),
        };
        InitArgs { path, from }
    }

    fn topics(self) -> Init {
        let mutations = self.mutations.unwrap_or_default();
        let table = self.table.unwrap_or_else(|| table_of(&mutations));
        let short = || table.rsplit('.').next().unwrap_or(&table).to_owned();
        Init {
            job: self.job.unwrap_or_else(short),
            table,
            mutations,
            snapshot: self.snapshot.unwrap_or_default(),
            brokers: self.brokers,
            sink: self.sink,
            url: self.url,
            path: self.path,
            topic: self.topic,
        }
    }
}

/// Debezium names a topic `prefix.schema.table`; a folder may be named like one.
fn table_of(topic: &str) -> String {
    let name = topic.strip_prefix("file:").map_or(topic, |path| {
        path.trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(path)
    });
    let parts: Vec<&str> = name.split('.').collect();
    parts[parts.len().saturating_sub(2)..].join(".")
}

impl Demo {
    fn command(self) -> Result<DemoArgs, Error> {
        at_least_one("--writers", self.writers)?;
        at_least_one("--workers", self.workers)?;
        Ok(DemoArgs {
            seconds: self.seconds,
            keys: self.keys,
            writers: self.writers,
            workers: self.workers,
            json: self.json,
            hold: self.hold,
            without_markers: self.without_markers,
            dir: self.dir,
        })
    }
}

fn at_least_one(flag: &str, value: usize) -> Result<(), Error> {
    if value == 0 {
        return Err(Error::usage(format!("`{flag}` is 0")).line("expected  1 or more"));
    }
    Ok(())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("expected {}", Duration::expected()))
}

fn sink_kind(word: &str) -> Result<SinkKind, String> {
    SinkKind::from_word(word).ok_or_else(|| format!("expected {}", SinkKind::expected()))
}
