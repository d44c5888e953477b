//! Verbs that change a running job: `generation`, `ttl`, `markers-max`, their flags and what they
//! mean.

use super::args::Source;
use crate::config::Origin;
use crate::config::units::{parse_duration, parse_instant};
use clap::{Args, Subcommand};
use headwater_operators::control::PartitionTarget;
use std::path::PathBuf;
use std::time::Duration;

/// `headwater generation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationArgs {
    /// The configuration: whom to ask, and with which token.
    pub origin: Origin,
    /// What was answered is JSON on stdout.
    pub json: bool,
    /// What to do.
    pub verb: GenerationVerb,
}

/// What to do with generations. An id that is not given is that of the only one that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GenerationVerb {
    /// Open one; returns when that is durable.
    Open(OpenArgs),
    /// List them.
    List,
    /// Show one.
    Show(Option<String>),
    /// Its peaks, checkpoints, counts and evidence.
    Report(Option<String>),
    /// The snapshot of one is complete.
    Finish {
        /// Its id.
        id: Option<String>,
        /// One past the last READ of each partition; none: the ends of now.
        ends: Vec<PartitionTarget>,
    },
    /// Give one up.
    Abort {
        /// Its id.
        id: Option<String>,
        /// Why.
        reason: String,
    },
    /// One goes on without a table.
    DropTable {
        /// Its id.
        id: Option<String>,
        /// The table's name.
        table: String,
    },
    /// Accept that nothing proves that the live connector has passed the cutoff.
    AcceptLag(Option<String>),
    /// Accept the loss of the mutations that could not be decoded so far.
    AcceptDeadLetters(Option<String>),
    /// Read no READs, or read them again.
    Pause(bool),
    /// READs a second; none is no limit.
    Rate(Option<u64>),
    /// Promote one.
    Promote {
        /// Its id.
        id: Option<String>,
        /// Who asks; by default the user.
        by: Option<String>,
        /// What is accepted.
        accept: Vec<String>,
    },
    /// Take a promotion back.
    Demote {
        /// Its id.
        id: Option<String>,
        /// Who asks; by default the user.
        by: Option<String>,
        /// Why.
        reason: String,
    },
}

/// `headwater generation open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenArgs {
    /// Its tables and their snapshot topics.
    pub snapshot: Vec<(String, String)>,
    /// Its id; by default `g` and its number.
    pub id: Option<String>,
    /// When its snapshot began, RFC 3339.
    pub started_at: Option<String>,
    /// The snapshot connector in Kafka Connect.
    pub connector: Option<String>,
    /// The topic of its notifications.
    pub notifications: Option<String>,
}

/// `headwater ttl` and `headwater markers-max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuneArgs {
    /// The configuration: whom to ask, and with which token.
    pub origin: Origin,
    /// What is set.
    pub tune: Tune,
}

/// What is set while a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    /// How long a marker lives, with `keep_markers = "ttl"`.
    Ttl(Duration),
    /// At so many markers READs wait.
    MarkersMax(u64),
}

/// Whom to ask.
#[derive(Args)]
pub(super) struct Remote {
    #[command(flatten)]
    source: Source,
    /// The control plane of the job: http://HOST:PORT [default: `control.listen`]
    #[arg(long, value_name = "URL", value_parser = address)]
    control: Option<String>,
}

impl Remote {
    pub(super) fn origin(self) -> Origin {
        at(self.source.origin(), self.control)
    }
}

/// The address of a URL wins over the configured one.
fn at(mut origin: Origin, control: Option<String>) -> Origin {
    let listen = control.map(|at| format!("control.listen={at}"));
    origin.sets.extend(listen);
    origin
}

/// `HOST:PORT` of a URL.
fn address(url: &str) -> Result<String, String> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains("://") || rest.contains('/') || !rest.contains(':') {
        return Err("expected http://HOST:PORT; a job's control plane has no TLS".to_owned());
    }
    Ok(rest.to_owned())
}

#[derive(Args)]
pub(super) struct Generation {
    /// The configuration [default: headwater.toml]
    #[arg(short, long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Set a key over the file
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    set: Vec<String>,
    /// The control plane of the job: http://HOST:PORT [default: `control.listen`]
    #[arg(long, value_name = "URL", value_parser = address, global = true)]
    control: Option<String>,
    #[command(subcommand)]
    verb: Verb,
    /// Print what was answered as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Open one, and return when that is durable; then start the snapshot connector
    Open {
        /// A table and the new topic of its READs
        #[arg(long, value_name = "TABLE=TOPIC", required = true, value_parser = pair)]
        snapshot: Vec<(String, String)>,
        /// Its id [default: g and its number]
        #[arg(long)]
        id: Option<String>,
        /// When its snapshot began, if it has begun: 2026-11-29T10:00:03Z
        #[arg(long, value_name = "TIME", value_parser = instant)]
        started_at: Option<String>,
        /// The snapshot connector's name in Kafka Connect
        #[arg(long, value_name = "NAME")]
        connector: Option<String>,
        /// The topic of its notifications
        #[arg(long, value_name = "TOPIC")]
        notifications: Option<String>,
    },
    /// List them
    Ls,
    /// Show one: its stages with their evidence, and what it waits for
    Show(One),
    /// Peaks, checkpoints, counts, evidence and timeline of one
    Report(One),
    /// Say that its snapshot is complete
    Finish {
        #[command(flatten)]
        one: One,
        /// One past the last READ of a partition [default: the ends of now]
        #[arg(long = "end", value_name = "TOPIC[P]=N", value_parser = end)]
        ends: Vec<PartitionTarget>,
    },
    /// Give it up: its READs are dropped
    Abort {
        #[command(flatten)]
        one: One,
        /// Why
        #[arg(long, default_value = "a person gave it up")]
        reason: String,
    },
    /// Go on without a table
    DropTable {
        #[command(flatten)]
        one: One,
        /// The table
        #[arg(long)]
        table: String,
    },
    /// Accept that nothing proves that the live connector has passed the cutoff
    AcceptLag(One),
    /// Accept the loss of the mutations that could not be decoded so far
    AcceptDeadLetters(One),
    /// Read no READs until `resume`; mutations go on
    Pause,
    /// Read READs again
    Resume,
    /// Read so many READs a second, or `off` for as many as come
    Rate {
        /// READs a second of the whole job, or `off`
        #[arg(value_name = "N|off", value_parser = rate)]
        rate: Rate,
    },
    /// Check every criterion, run the hook, and record it
    Promote {
        #[command(flatten)]
        one: One,
        /// Who asks [default: the user]
        #[arg(long)]
        by: Option<String>,
        /// Accept that rows which were in the target before may be wrong
        #[arg(long)]
        accept_ghosts: bool,
        /// Accept that a criterion is not met: live_lag
        #[arg(long, value_name = "WHAT")]
        accept: Vec<String>,
    },
    /// Record that a promotion was taken back
    Demote {
        #[command(flatten)]
        one: One,
        /// Who asks [default: the user]
        #[arg(long)]
        by: Option<String>,
        /// Why
        #[arg(long, default_value = "a person asked for it")]
        reason: String,
    },
}

#[derive(Args)]
struct One {
    /// Its id [default: that of the only one that goes on]
    #[arg(value_name = "ID")]
    id: Option<String>,
}

#[derive(Args)]
pub(super) struct Ttl {
    /// How long a marker lives after its key's last mutation: 5d
    #[arg(value_name = "DURATION", value_parser = duration)]
    ttl: Duration,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args)]
pub(super) struct MarkersMax {
    /// Markers of the whole job
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    markers_max: u64,
    #[command(flatten)]
    remote: Remote,
}

impl Generation {
    pub(super) fn command(self) -> GenerationArgs {
        let verb = match self.verb {
            Verb::Open {
                snapshot,
                id,
                started_at,
                connector,
                notifications,
            } => GenerationVerb::Open(OpenArgs {
                snapshot,
                id,
                started_at,
                connector,
                notifications,
            }),
            Verb::Ls => GenerationVerb::List,
            Verb::Show(One { id }) => GenerationVerb::Show(id),
            Verb::Report(One { id }) => GenerationVerb::Report(id),
            Verb::Finish { one, ends } => GenerationVerb::Finish { id: one.id, ends },
            Verb::Abort { one, reason } => GenerationVerb::Abort { id: one.id, reason },
            Verb::DropTable { one, table } => GenerationVerb::DropTable { id: one.id, table },
            Verb::AcceptLag(One { id }) => GenerationVerb::AcceptLag(id),
            Verb::AcceptDeadLetters(One { id }) => GenerationVerb::AcceptDeadLetters(id),
            Verb::Pause => GenerationVerb::Pause(true),
            Verb::Resume => GenerationVerb::Pause(false),
            Verb::Rate { rate } => GenerationVerb::Rate(rate.0),
            Verb::Promote {
                one,
                by,
                accept_ghosts,
                mut accept,
            } => {
                accept.extend(accept_ghosts.then(|| crate::promote::GHOSTS.to_owned()));
                let id = one.id;
                GenerationVerb::Promote { id, by, accept }
            }
            Verb::Demote { one, by, reason } => {
                let id = one.id;
                GenerationVerb::Demote { id, by, reason }
            }
        };
        let origin = Origin {
            path: self.config,
            sets: self.set,
        };
        GenerationArgs {
            origin: at(origin, self.control),
            json: self.json,
            verb,
        }
    }
}

impl Ttl {
    pub(super) fn command(self) -> TuneArgs {
        TuneArgs {
            origin: self.remote.origin(),
            tune: Tune::Ttl(self.ttl),
        }
    }
}

impl MarkersMax {
    pub(super) fn command(self) -> TuneArgs {
        TuneArgs {
            origin: self.remote.origin(),
            tune: Tune::MarkersMax(self.markers_max),
        }
    }
}

/// READs a second, if they are limited.
#[derive(Clone)]
struct Rate(Option<u64>);

fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || "expected 1 or more READs a second, or `off`".to_owned();
    match text {
        "off" => Ok(Rate(None)),
        number => match number.parse() {
            Ok(0) | Err(_) => Err(wrong()),
            Ok(rate) => Ok(Rate(Some(rate))),
        },
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((table, topic)) if !table.is_empty() && !topic.is_empty() => {
            Ok((table.to_owned(), topic.to_owned()))
        }
        _ => Err("expected TABLE=TOPIC, as in public.hello=snap_g2.public.hello".to_owned()),
    }
}

fn end(text: &str) -> Result<PartitionTarget, String> {
    let parts = || {
        let (partition, end) = text.rsplit_once('=')?;
        let (topic, partition) = partition.strip_suffix(']')?.rsplit_once('[')?;
        Some(PartitionTarget {
            topic: Some(topic).filter(|topic| !topic.is_empty())?.to_owned(),
            partition: partition.parse().ok()?,
            end: end.parse().ok()?,
        })
    };
    parts().ok_or_else(|| "expected TOPIC[PARTITION]=OFFSET, one past the last READ".to_owned())
}

fn instant(text: &str) -> Result<String, String> {
    match parse_instant(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected RFC 3339, as in 2026-11-29T10:00:03Z".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).filter(|duration| *duration > Duration::ZERO);
    duration.ok_or_else(|| "expected a duration, as in 90s, 15m, 5d".to_owned())
}

#[cfg(test)]
mod tests;
