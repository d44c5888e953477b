//! Looks at the target for `headwater check`: as `run` would at its start, then with sampled rows.
//!
//! It cannot look without touching at all: a `jsonl` target's folder is made, and SQLite opens its
//! file as it would for writing.

use super::sample::KeptRow;
use crate::config::Config;
use crate::config::choices::SinkKind;
use crate::error::Error;
use crate::run::settings;
use crate::sink::admit::admit;
use crate::sink::{Row, WriteError, settings as sink_settings};
use crate::table::{Role, Table};
use std::path::PathBuf;

/// What was found at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind and name.
    pub name: String,
    /// Whether the job may start with it.
    pub admitted: Result<(), Error>,
    /// Rows that were laid over its columns, or what does not fit.
    pub fits: Result<usize, Error>,
    /// Whether `setup_sql` was left out, so that what is missing may still come.
    pub setup_skipped: bool,
}

pub(super) fn look(config: &Config, tables: &[Table], rows: &[KeptRow]) -> Target {
    let sink = &config.sink;
    let path = sink.path.as_ref().map(|path| path.display().to_string());
    let mut name = format!("target {}", sink.kind.word());
    if let Some(at) = path.as_ref().or(sink.topic.as_ref()) {
        name.push_str(&format!(" {at}"));
    }
    let mut target = Target {
        name,
        admitted: Ok(()),
        fits: Ok(0),
        setup_skipped: false,
    };
    let built = settings::sink(config).and_then(|mut settings| {
        if sink.kind == SinkKind::Sqlite && settings.setup_sql.is_some() {
            match sink.path.as_ref().is_some_and(|path| path.is_file()) {
                true => {
                    settings.setup_sql = None;
                    target.setup_skipped = true;
                }
                false => settings.path = Some(PathBuf::from(":memory:")),
            }
        }
        sink_settings::build(&settings, tables, &config.kafka_properties()?, 1)
    });
    let sink = match built {
        Ok(sink) => sink,
        Err(error) => {
            target.admitted = Err(error);
            return target;
        }
    };
    target.admitted = admit(
        &*sink,
        config.sink.replay_unsafe_because.as_deref(),
        true,
        settings::target_not_empty(config),
    );
    if target.admitted.is_ok() {
        let rows: Vec<Row<'_>> = rows.iter().map(KeptRow::row).collect();
        target.fits = match sink.fit(&rows) {
            Ok(()) => Ok(rows.len()),
            Err(error) => Err(misfit(error, &rows, tables)),
        };
    }
    target
}

fn misfit(error: WriteError, rows: &[Row<'_>], tables: &[Table]) -> Error {
    let rejected = match error {
        WriteError::Fatal(error) => return error,
        WriteError::Retry(reason) => {
            return Error::failed("the target went away").line(reason);
        }
        WriteError::Rejected(rejected) => rejected,
    };
    let count = rejected.len();
    let what = format!(
        "{count} of {} sampled rows do not fit the target",
        rows.len()
    );
    let mut told = Error::failed(what);
    for one in rejected.iter().take(3) {
        let Some(row) = rows.get(one.index) else {
            continue;
        };
        let table = &tables[row.table];
        let topic = match row.origin.role {
            Role::Mutations => &table.mutations,
            Role::Snapshot => &table.snapshot,
        };
        let (partition, offset) = (row.origin.partition, row.origin.offset);
        told = told.line(format!("{topic}[{partition}]@{offset}  {}", one.reason));
    }
    told.line("Make the target take such rows: column type, size, constraint.")
}
