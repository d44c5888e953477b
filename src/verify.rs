//! `headwater verify`: the set difference of the source's tables and the target's.
//!
//! Both sides are read in pages by key; digests of ranges are compared, then rows of ranges that
//! differ, then the keys that differed again and again until the lag has passed (`compare`,
//! `settle`). Values are brought into one form first (`value`).
//!
//! Invariant: it reads and never writes, and says equal only when every row of every table was
//! compared. What it leaves out it names.
//!
//! It cannot compare with a Kafka topic or JSON lines, and sees only what is committed. Between two
//! reads of a live table rows move: only what stays different counts.

mod compare;
mod postgres;
mod report;
mod settle;
mod side;
mod sqlite;
mod value;

use crate::cli::{self, VerifyArgs};
use crate::config::Config;
use crate::config::choices::SinkKind;
use crate::error::Error;
use crate::run::settings;
use crate::sink::settings::SinkSettings;
use crate::table::Table;
use compare::{Comparison, Wanted};
use report::{Report, TableReport};
use side::{Described, Flavor, Side};
use std::path::Path;

/// Runs the verb.
///
/// # Errors
/// A refusal when rows differ; of usage when a side is not configured or has not the table; a
/// failure when a side cannot be read.
pub fn verify(args: &VerifyArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let report = compare(&loaded.config, args)?;
    cli::say(&match args.json {
        true => report.json() + "\n",
        false => report.table(),
    })?;
    report.verdict()
}

fn compare(config: &Config, args: &VerifyArgs) -> Result<Report, Error> {
    let tables = chosen(config, args)?;
    let sink = settings::sink(config)?;
    let (mut source, flavor) = source(config)?;
    let mut target = target(config, &sink)?;
    let wanted = Wanted {
        lag: args.lag,
        keys_max: args.keys_max,
        show_values: args.show_values,
    };
    let mut reports = Vec::new();
    for table in &tables {
        let name = match (flavor, table.name.rsplit_once('.')) {
            (Flavor::Sqlite, Some((_, name))) => name,
            _ => table.name.as_str(),
        };
        let at = sink.target_name(table);
        let ours = there(&mut *source, "source", "source.database", name)?;
        let theirs = there(&mut *target, "target", "[sink]", at)?;
        let pair = side::pair(&table.name, &ours, &theirs, table.key.as_deref())?;
        let report = TableReport {
            table: table.name.clone(),
            target: at.to_owned(),
            left_out: pair.left_out.clone(),
            ..TableReport::default()
        };
        let comparison = Comparison::new(&mut *source, &mut *target, &pair, wanted, report);
        reports.push(comparison.run()?);
    }
    let lag_seconds = args.lag.as_secs_f64();
    Ok(Report::new(
        source.name(),
        target.name(),
        lag_seconds,
        reports,
    ))
}

/// The tables that were asked for; all when none was.
fn chosen(config: &Config, args: &VerifyArgs) -> Result<Vec<Table>, Error> {
    let mut tables = config.tables();
    for name in &args.tables {
        if !tables.iter().any(|table| table.name == *name) {
            let known: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            return Err(Error::usage(format!("`{name}` is no table"))
                .line(format!("expected  one of: {}", known.join(", "))));
        }
    }
    tables.retain(|table| args.tables.is_empty() || args.tables.contains(&table.name));
    Ok(tables)
}

fn source(config: &Config) -> Result<(Box<dyn Side>, Flavor), Error> {
    let Some(database) = &config.source.database else {
        return Err(Error::usage("`source.database` is not set")
            .line("Rows of the target are compared with those of the source.")
            .line("expected  database = \"postgres://user:${PASSWORD}@host/database\" in [source],")
            .line("          or the path of an SQLite file"));
    };
    let plain = database.resolve()?;
    let at = plain.expose();
    if at.starts_with("postgres://") || at.starts_with("postgresql://") {
        let side = postgres::Postgres::open("source.database", at)?;
        return Ok((Box::new(side), Flavor::Postgres));
    }
    let side = sqlite::Sqlite::open("source.database", Path::new(at))?;
    Ok((Box::new(side), Flavor::Sqlite))
}

fn target(config: &Config, sink: &SinkSettings) -> Result<Box<dyn Side>, Error> {
    Ok(match (config.sink.kind, &sink.url, &sink.path) {
        (SinkKind::Postgres, Some(url), _) => Box::new(postgres::Postgres::open("sink.url", url)?),
        (SinkKind::Sqlite, _, Some(path)) => Box::new(sqlite::Sqlite::open("sink.path", path)?),
        (kind, _, _) => {
            return Err(Error::usage("this kind of target cannot be verified")
                .line(format!("found     sink.kind = \"{}\"", kind.word()))
                .line("expected  postgres or sqlite"));
        }
    })
}

/// A table that must be there.
fn there(side: &mut dyn Side, which: &str, setting: &str, name: &str) -> Result<Described, Error> {
    side.describe(name)?.ok_or_else(|| {
        Error::usage(format!("the {which} has no table `{name}`"))
            .line(format!("found     {} ({setting})", side.name()))
            .line("Does the user see its schema? Another name at the target: sink.names.")
    })
}

#[cfg(test)]
mod tests;
