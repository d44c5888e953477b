//! `headwater init`: a first configuration, from two topics or from a live connector.
//!
//! Reading the connector (`plan`) and writing what follows (`file`, `snapshot`, `tables`, `rights`)
//! are pure; only this module asks and writes.
//!
//! Invariant: a file that is there is never replaced, what is written loads, and no password of a
//! connector is written or printed.
//!
//! It cannot make anything: topics, the snapshot connector, the target table and rights are
//! printed, for the person who may.

mod file;
mod plan;
mod rights;
mod snapshot;
mod tables;

use crate::cli::{InitArgs, InitFrom, note, say};
use crate::config::secret::Secret;
use crate::config::starter;
use crate::connector::ask;
use crate::error::Error;
use crate::source_database::{SourceDatabase, SourceTable};
use plan::Plan;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

pub use plan::FromConnector;

/// Runs the verb.
///
/// # Errors
/// Of usage: arguments that make no good configuration, a connector that is not there, or a file
/// that exists already. Failed: Connect does not answer, or the file cannot be written.
pub fn init(args: &InitArgs) -> Result<(), Error> {
    // Before anybody is asked; the file is still made with `create_new`.
    if args.path.exists() {
        return Err(exists(&args.path));
    }
    let (text, more) = match &args.from {
        InitFrom::Topics(init) => (starter(init)?, String::new()),
        InitFrom::Connector(from) => from_connector(from)?,
    };
    write(&args.path, &text)?;
    let name = args.path.display();
    say(&format!(
        "{name} written. Next: `headwater check -c {name}`, then `headwater run -c {name}`.\n{more}"
    ))
}

/// The file, and what else there is to do.
fn from_connector(from: &FromConnector) -> Result<(String, String), Error> {
    let connectors = ask::connectors(&Secret::url("--connect", from.url.as_str()))?;
    let plan = Plan::make(from, &connectors)?;
    let found = match columns(&plan) {
        Ok(found) => found,
        Err(error) => {
            let why = error.text.lines().next().unwrap_or_default();
            note(&format!(
                "columns are not known, the tables are templates: {why}"
            ));
            vec![None; plan.tables.len()]
        }
    };
    let text = file::text(&plan)?;
    let more = [
        plan.notes(),
        snapshot::text(&plan, &found),
        tables::text(&plan, &found),
        rights::text(&plan),
    ];
    Ok((text, more.concat()))
}

/// What the source says of the tables.
fn columns(plan: &Plan) -> Result<Vec<Option<SourceTable>>, Error> {
    let Some(url) = &plan.database else {
        return Err(Error::usage("the connector names no PostgreSQL database"));
    };
    let url = Secret::url("source.database", url.as_str()).resolve()?;
    let database = SourceDatabase::open("source.database", url.expose())?;
    let names = plan.tables.iter();
    names.map(|table| database.table(&table.name)).collect()
}

fn exists(path: &Path) -> Error {
    Error::usage(format!("{} exists already", path.display()))
        .line("It is not replaced. Remove it, or write another with `-c FILE`.")
}

/// Writes a new file, never over one that is there.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let name = path.display();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => Error::failed(format!("{name} cannot be written"))
                .line(format!("found     {error}")),
        })?;
    file.write_all(text.as_bytes()).map_err(|error| {
        Error::failed(format!("{name} was not written to its end"))
            .line(format!("found     {error}"))
    })
}

#[cfg(test)]
mod tests;
