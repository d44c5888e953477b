//! `headwater generation`, `ttl` and `markers-max`: asks a running job, or tells its last
//! checkpoint where nothing is changed.
//!
//! Invariant: what changes the job returns only when that is durable, and asks again with the same
//! id while it is not.

use super::ask::{Answer, Asker, Reply};
use super::document::Generation;
use super::explain::encoded;
use super::requests::{Done, random_id};
use super::{human, report, verbs};
use crate::cli::{self, GenerationArgs, GenerationVerb, OpenArgs, Tune, TuneArgs};
use crate::config::Config;
use crate::config::units::print_duration;
use crate::error::Error;
use crate::summary::grouped;
use serde_json::{Value, json};

/// How often a request that is not durable is asked again; each waits a minute.
const AGAIN_MAX: usize = 10;

/// `headwater generation`.
///
/// # Errors
/// Refused when it does not fit the state of the job; of usage when it names what is not there;
/// failed when the job does not answer.
pub fn generation(args: &GenerationArgs) -> Result<(), Error> {
    let config = Config::load(&args.origin)?.config;
    let asker = Asker::new(&config)?;
    let (path, body) = match &args.verb {
        GenerationVerb::List => return list(&known(&config, &asker)?, args.json),
        GenerationVerb::Show(id) => {
            return show(&one(known(&config, &asker)?, id.as_ref())?, args.json);
        }
        GenerationVerb::Report(id) => return report_of(&config, &asker, id.as_ref(), args.json),
        GenerationVerb::Open(open) => ("/v1/generations".to_owned(), open_body(open)),
        GenerationVerb::Pause(paused) => ("/v1/reads".to_owned(), json!({"paused": paused})),
        GenerationVerb::Rate(rate) => {
            let body = json!({"per_second_max": rate});
            ("/v1/reads".to_owned(), body)
        }
        verb => {
            let (id, word, body) = of_one(verb);
            let id = match id {
                Some(id) => id.clone(),
                None => one(known(&config, &asker)?, None)?.id,
            };
            (format!("/v1/generations/{}/{word}", encoded(&id)), body)
        }
    };
    change(&asker, &path, &body, args.json)
}

/// `headwater ttl` and `headwater markers-max`.
///
/// # Errors
/// As [`generation`].
pub fn tune(args: &TuneArgs) -> Result<(), Error> {
    let config = Config::load(&args.origin)?.config;
    let asker = Asker::new(&config)?;
    let (path, body) = match args.tune {
        Tune::Ttl(ttl) => ("/v1/retention", json!({"ttl": print_duration(ttl)})),
        Tune::MarkersMax(max) => ("/v1/limits", json!({"markers_max": max})),
    };
    change(&asker, path, &body, false)
}

fn open_body(open: &OpenArgs) -> Value {
    let snapshot: serde_json::Map<String, Value> = open
        .snapshot
        .iter()
        .map(|(table, topic)| (table.clone(), json!(topic)))
        .collect();
    json!({
        "id": open.id,
        "snapshot": snapshot,
        "started_at": open.started_at,
        "connector": open.connector,
        "notifications": open.notifications,
    })
}

/// The id, if it was given, the last part of the path and the body.
fn of_one(verb: &GenerationVerb) -> (Option<&String>, &'static str, Value) {
    match verb {
        GenerationVerb::Finish { id, ends } => {
            let ends: Vec<Value> = ends
                .iter()
                .map(|end| json!({"topic": end.topic, "partition": end.partition, "end": end.end}))
                .collect();
            (id.as_ref(), "finish", json!({"ends": ends}))
        }
        GenerationVerb::Abort { id, reason } => (id.as_ref(), "abort", json!({"reason": reason})),
        GenerationVerb::DropTable { id, table } => {
            (id.as_ref(), "drop-table", json!({"table": table}))
        }
        GenerationVerb::AcceptLag(id) => (id.as_ref(), "accept-lag", json!({})),
        GenerationVerb::AcceptDeadLetters(id) => (id.as_ref(), "accept-dead-letters", json!({})),
        GenerationVerb::Promote { id, by, accept } => {
            let body = json!({"by": by.clone().unwrap_or_else(user), "accept": accept});
            (id.as_ref(), "promote", body)
        }
        GenerationVerb::Demote { id, by, reason } => {
            let body = json!({"by": by.clone().unwrap_or_else(user), "reason": reason});
            (id.as_ref(), "demote", body)
        }
        GenerationVerb::Open(_)
        | GenerationVerb::List
        | GenerationVerb::Show(_)
        | GenerationVerb::Report(_)
        | GenerationVerb::Pause(_)
        | GenerationVerb::Rate(_) => unreachable!("it is not of one generation"),
    }
}

/// Who runs the program.
fn user() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(std::env::var_os);
    let name = name.and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Asks for a change until it is durable.
fn change(asker: &Asker, path: &str, body: &Value, as_json: bool) -> Result<(), Error> {
    let id = random_id().map_err(|refused| Error::failed(refused.text))?;
    let mut left = AGAIN_MAX;
    loop {
        match asker.change(path, body, &id)? {
            Reply::Away(why) => {
                return Err(Error::failed(
                    "the job does not answer, and nothing is known to be done",
                )
                .line(format!("found     {why}"))
                .line("expected  `headwater run`, with the same `control.listen`"));
            }
            Reply::Came(200, body) => return said(body, as_json),
            Reply::Came(504, _) if left > 0 => {
                left -= 1;
                cli::note("not durable yet: a checkpoint is waited for; asking again");
            }
            Reply::Came(code, body) => return Err(asker.not_done(code, &body)),
        }
    }
}

fn said(body: Value, as_json: bool) -> Result<(), Error> {
    if as_json {
        return print(&body);
    }
    let done: Done = serde_json::from_value(body)
        .map_err(|error| Error::failed(format!("the answer is none: {error}")))?;
    let of = done.generation.map(|id| format!("generation {id}: "));
    cli::say(&format!(
        "{}{} (in checkpoint {})\n",
        of.unwrap_or_default(),
        done.text,
        done.manifest
    ))
}

fn print(value: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).expect("plain data");
    cli::say(&(text + "\n"))
}

/// All generations: of the running job, or of its last checkpoint.
fn known(config: &Config, asker: &Asker) -> Result<Vec<Generation>, Error> {
    let status = match asker.status()? {
        Answer::Status(status) => *status,
        Answer::Away(why) => {
            let down = verbs::down(config, &why)?;
            cli::note(&down.verdict.text);
            down
        }
    };
    Ok(status.generations)
}

/// The one of an id, or the only one that goes on.
fn one(all: Vec<Generation>, id: Option<&String>) -> Result<Generation, Error> {
    let ids: Vec<String> = all.iter().map(|one| one.id.clone()).collect();
    let wanted = |one: &Generation| match id {
        Some(id) => one.id == *id,
        None => !one.stage.is_over(),
    };
    let mut found: Vec<Generation> = all.into_iter().filter(wanted).collect();
    match (found.pop(), found.is_empty(), id) {
        (Some(one), true, _) => Ok(one),
        (_, _, Some(id)) => Err(Error::usage(format!("there is no generation {id}"))
            .line(format!("found     {}", ids.join(", ")))),
        (last, _, None) => {
            let several = if last.is_some() {
                "several go"
            } else {
                "none goes"
            };
            Err(
                Error::usage(format!("{several} on; which generation is meant?"))
                    .line(format!("found     {}", ids.join(", ")))
                    .line("expected  its id as an argument"),
            )
        }
    }
}

fn list(all: &[Generation], as_json: bool) -> Result<(), Error> {
    if as_json {
        return print(&all);
    }
    let line = |one: &Generation| {
        format!(
            "{:<12} {:<16} {:<24} {}\n",
            one.id,
            one.stage.word(),
            one.opened_at.as_deref().unwrap_or("–"),
            one.tables.join(", ")
        )
    };
    let lines: String = all.iter().map(line).collect();
    match lines.is_empty() {
        true => cli::say("no generation\n"),
        false => cli::say(&lines),
    }
}

fn show(one: &Generation, as_json: bool) -> Result<(), Error> {
    if as_json {
        return print(one);
    }
    cli::say(&(human::of_generation(one).join("\n") + "\n"))
}

fn report_of(
    config: &Config,
    asker: &Asker,
    id: Option<&String>,
    as_json: bool,
) -> Result<(), Error> {
    let one = one(known(config, asker)?, id)?;
    let path = format!("/v1/generations/{}/report", encoded(&one.id));
    let report: report::Report = match asker.get(&path)? {
        Reply::Came(200, body) => serde_json::from_value(body)
            .map_err(|error| Error::failed(format!("the report is none: {error}")))?,
        Reply::Came(code, body) => return Err(asker.not_done(code, &body)),
        Reply::Away(_) => report::saved(&config.job.job, one),
    };
    if as_json {
        return print(&report);
    }
    let mut lines = human::of_generation(&report.generation);
    if let Some(peaks) = &report.peaks {
        lines.push(format!(
            "peaks      {} markers   {} bytes   {} bytes of checkpoint",
            grouped(peaks.markers),
            grouped(peaks.marker_bytes),
            grouped(peaks.checkpoint_bytes)
        ));
    }
    let made = &report.checkpoints;
    for (when, made) in [
        ("before", &made.before),
        ("during", &made.during),
        ("after", &made.after),
    ] {
        let Some(made) = made else { continue };
        lines.push(format!(
            "{when:<10} {} checkpoints   {} bytes new   {:.2} s, {:.2} s at most",
            made.count,
            grouped(made.bytes_new),
            made.seconds,
            made.seconds_max
        ));
    }
    lines.push(format!(
        "of this run alone: {}",
        report.of_this_run.join(", ")
    ));
    cli::say(&(lines.join("\n") + "\n"))
}

#[cfg(test)]
mod tests;
