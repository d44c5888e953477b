//! The command line: from arguments to a [`Command`] whose values are checked, without any I/O.
//!
//! Invariant: [`parse`] touches nothing outside its arguments. What it refuses ends with exit code
//! 2 before anything was opened.

mod args;
mod generation;
mod rows;
mod verbs;

pub use generation::{GenerationArgs, GenerationVerb, OpenArgs, Tune, TuneArgs};
pub use rows::{
    ExplainArgs, QuarantineArgs, QuarantineVerb, SignalArgs, SnapshotType, VerifyArgs, Via,
};
pub use verbs::{config, note, report, say};

use crate::config::{Init, Origin};
use crate::error::Error;
use crate::init::FromConnector;
use clap::Parser;
use clap::error::ErrorKind as ClapKind;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Print this (help or version) and end with 0.
    Say(String),
    /// Merge.
    Run(RunArgs),
    /// Say what would go wrong.
    Check(CheckArgs),
    /// End the snapshot.
    EndSnapshot(EndSnapshotArgs),
    /// Compare the target with the source.
    Verify(VerifyArgs),
    /// Look at READs that may be stale.
    Quarantine(QuarantineArgs),
    /// Look at the checkpoints.
    Checkpoint(CheckpointArgs),
    /// Write a first configuration.
    Init(InitArgs),
    /// Print the effective configuration.
    Config(Origin),
    /// Show the invariant on embedded parts.
    Demo(DemoArgs),
    /// Say how the job does.
    Status(StatusArgs),
    /// Say what becomes of a READ of a key.
    Explain(ExplainArgs),
    /// Wait until a generation is ready.
    WaitReady(WaitReadyArgs),
    /// Open, end, give up, promote generations; pause and throttle READs.
    Generation(GenerationArgs),
    /// Set a limit of a running job.
    Tune(TuneArgs),
}

/// `headwater run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunArgs {
    /// The configuration.
    pub origin: Origin,
    /// Whether it ends when the snapshot is merged.
    pub once: bool,
    /// Take the snapshot for finished when neither topic delivered for so long; only with `once`.
    pub assume_finished_after_idle: Option<Duration>,
    /// The rule is off: stale READs are emitted.
    pub without_markers: bool,
    /// The summary is one JSON object on stdout.
    pub json: bool,
    /// Counts are told all the time, one JSON object a line on stdout; for a parent process.
    pub tell: bool,
    /// Threads and processes.
    pub cluster: ClusterArgs,
    /// The partition count of the mutation topics that the person has agreed to.
    pub accept_partitions: Option<u32>,
    /// An older checkpoint to go back to.
    pub from_checkpoint: Option<u64>,
    /// A generation to give up before anything is read.
    pub abort_generation: Option<String>,
}

/// timely's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterArgs {
    /// Workers in each process, at least 1.
    pub workers: usize,
    /// Processes, at least 1.
    pub processes: usize,
    /// This process, below `processes`.
    pub process: usize,
    /// Addresses, one a line; always there with several processes.
    pub hostfile: Option<PathBuf>,
}

/// `headwater end-snapshot`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSnapshotArgs {
    /// The configuration.
    pub origin: Origin,
    /// The id of the generation whose snapshot is complete.
    pub generation: String,
    /// Write although there is an end-of-snapshot record already.
    pub again: bool,
}

/// `headwater check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckArgs {
    /// The configuration.
    pub origin: Origin,
    /// The findings are one JSON object on stdout.
    pub json: bool,
}

/// `headwater checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointArgs {
    /// The configuration: its job and its store.
    pub origin: Origin,
    /// What was found is one JSON value on stdout.
    pub json: bool,
    /// What to do.
    pub verb: CheckpointVerb,
}

/// What to do with checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointVerb {
    /// Which are there.
    List,
    /// Read everything.
    Verify {
        /// Of which one; the newest when not said.
        number: Option<u64>,
        /// Of every one.
        all: bool,
    },
    /// Say in words what one holds.
    Explain {
        /// Which one; the newest when not said.
        number: Option<u64>,
    },
}

/// `headwater status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusArgs {
    /// The configuration.
    pub origin: Origin,
    /// The status document on stdout.
    pub json: bool,
}

/// `headwater wait-ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitReadyArgs {
    /// The configuration.
    pub origin: Origin,
    /// For how long.
    pub timeout: Duration,
    /// The generation; by default all that go on.
    pub generation: Option<String>,
}

/// `headwater init`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitArgs {
    /// The file to write; never replaced.
    pub path: PathBuf,
    /// What it is made of.
    pub from: InitFrom,
}

/// What a first configuration is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitFrom {
    /// Two topics.
    Topics(Init),
    /// A live connector.
    Connector(FromConnector),
}

/// `headwater demo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoArgs {
    /// Seconds of writes, at least 1.
    pub seconds: u64,
    /// Keys of the source table, at least 1.
    pub keys: u64,
    /// Concurrent writers, at least 1.
    pub writers: usize,
    /// Workers of the job, at least 1.
    pub workers: usize,
    /// The summary is one JSON object on stdout.
    pub json: bool,
    /// Stay up at the end.
    pub hold: bool,
    /// Run with the rule off, alone.
    pub without_markers: bool,
    /// Where its files go and stay; a folder that is removed when not named.
    pub dir: Option<PathBuf>,
}

/// Reads the arguments; the first is the name of the program.
///
/// # Errors
/// Of usage, with what was found and expected.
pub fn parse<I, T>(arguments: I) -> Result<Command, Error>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    match args::Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command(),
        Err(error) => match error.kind() {
            ClapKind::DisplayHelp | ClapKind::DisplayVersion => {
                Ok(Command::Say(format!("{}\n", error.to_string().trim_end())))
            }
            ClapKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Err(Error::usage(format!("a command is missing\n\n{error}")))
            }
            _ => {
                let text = error.to_string();
                Err(Error::usage(text.trim_start_matches("error: ").trim_end()))
            }
        },
    }
}

#[cfg(test)]
mod tests;
