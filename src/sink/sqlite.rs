//! Upserts and deletes in an SQLite file: the embedded target.
//!
//! Invariant: a batch is one transaction, on disk when it is committed (WAL, synchronous FULL), and
//! in it the file says that this run may write. One thread of one process writes; others may read
//! meanwhile.
//!
//! It cannot keep decimals of more than 15 digits in a column of numeric affinity, because SQLite
//! cannot: declare such a column TEXT. It cannot end a process that was stopped amid a transaction:
//! a takeover waits for it.

pub(crate) mod catalogue;
mod tenure;

use super::column::{Cell, cell};
use super::ledger::{Guard, Held, signed};
use super::row::Field;
use super::settings::SinkSettings;
use super::target::{self, Binder, Bound, Problem, TargetColumn, quoted};
use super::{
    Applied, Claim, Claimed, GenerationNote, Place, Rejected, ReplaySafety, Row, RowForm, Sink,
    WriteError, Writer, admit,
};
use crate::error::Error;
use crate::fault;
use crate::table::Table;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, TransactionBehavior, params_from_iter};
use std::path::PathBuf;
use std::time::Duration;

/// The target.
pub struct SqliteSink {
    settings: SinkSettings,
    path: PathBuf,
    tables: Vec<Table>,
    held: Held,
}

impl SqliteSink {
    /// The file at `path`.
    pub(super) fn new(settings: &SinkSettings, path: PathBuf, tables: &[Table]) -> SqliteSink {
        SqliteSink {
            settings: settings.clone(),
            path,
            tables: tables.to_vec(),
            held: Held::default(),
        }
    }

    /// Names of the target tables.
    fn target_names(&self) -> Vec<&str> {
        let name = |table| self.settings.target_name(table);
        self.tables.iter().map(name).collect()
    }

    fn guard(&self, incarnation: u32) -> Guard {
        let file = self.path.display().to_string();
        let (job, tables) = (&self.settings.job, self.tables.len());
        self.held.guard(job, incarnation, file, tables)
    }

    fn failed(&self, error: &rusqlite::Error) -> Error {
        Error::failed(format!(
            "cannot use the SQLite file {}",
            self.path.display()
        ))
        .line(error)
    }

    fn open(&self) -> Result<Connection, Error> {
        if self.settings.setup_sql.is_none() && !self.path.is_file() {
            let what = format!("the SQLite file {} does not exist", self.path.display());
            return Err(Error::usage(what)
                .line("Make it with its tables, or set sink.setup_sql, which runs at each start:")
                .line("setup_sql = \"CREATE TABLE IF NOT EXISTS …\"."));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_timeout(Duration::from_secs(1))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.set_prepared_statement_cache_capacity(64);
            if let Some(sql) = &self.settings.setup_sql {
                connection.execute_batch(sql)?;
            }
            Ok(connection)
        };
        open().map_err(|error| self.failed(&error))
    }

    fn binders(&self, connection: &Connection) -> Result<Vec<Binder<Value>>, Error> {
        let binder = |table: &Table| {
            let name = self.settings.target_name(table);
            let found = catalogue::read(connection, &table.name, name);
            let found = found.map_err(|error| self.failed(&error))?;
            let found = found.ok_or_else(|| {
                let file = self.path.display();
                Error::usage(format!(
                    "there is no table `{name}` in the SQLite file {file}"
                ))
                .line(format!(
                    "It is the target of `{}`. Make it, or name",
                    table.name
                ))
                .line(format!(
                    "another one: sink.names = {{ \"{}\" = \"…\" }}.",
                    table.name
                ))
            })?;
            let unknown = self.settings.unknown_columns;
            Ok(Binder::new(found, table.key.clone(), unknown, value))
        };
        self.tables.iter().map(binder).collect()
    }
}

impl Sink for SqliteSink {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Partial
    }

    fn keeps_progress(&self) -> bool {
        true
    }

    fn one_writer_a_process(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Error> {
        let connection = self.open()?;
        for (binder, table) in self.binders(&connection)?.iter().zip(&self.tables) {
            admit::sql_table(&self.settings, &binder.table, table.key.as_deref())?;
        }
        if connection
            .is_readonly(MAIN_DB)
            .map_err(|error| self.failed(&error))?
        {
            let what = format!("the SQLite file {} can only be read", self.path.display());
            return Err(Error::usage(what).line("Give this process the right to write it."));
        }
        Ok(())
    }

    fn holds_rows(&self) -> Result<Option<String>, Error> {
        let binders = self.binders(&self.open()?)?;
        Ok(admit::sql_rows(binders.iter().map(|binder| &binder.table)))
    }

    fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.held.claim(claim.incarnation, |claimant| {
            tenure::claim(self, &self.open()?, claim, claimant)
        })
    }

    fn note_checkpoint(&self, number: u64) -> Result<(), WriteError> {
        let guard = self.guard(self.held.incarnation()?);
        let mut connection = self.open().map_err(|error| WriteError::Retry(error.text))?;
        tenure::note(&mut connection, guard, &self.target_names(), signed(number))
    }

    fn generations(&self, generations: &[GenerationNote]) -> Result<(), WriteError> {
        let guard = self.guard(self.held.incarnation()?);
        let mut connection = self.open().map_err(|error| WriteError::Retry(error.text))?;
        tenure::generations(&mut connection, guard, &self.target_names(), generations)
    }

    fn fit(&self, rows: &[Row<'_>]) -> Result<(), WriteError> {
        let found = self.open().and_then(|connection| self.binders(&connection));
        target::fit(&mut found.map_err(WriteError::Fatal)?, rows)
    }

    fn writer(&self, place: Place) -> Result<Box<dyn Writer>, Error> {
        let connection = self.open()?;
        let binders = self.binders(&connection)?;
        Ok(Box::new(SqliteWriter {
            guard: self.guard(place.incarnation),
            shard: signed(place.shard as u64),
            names: self.target_names().into_iter().map(str::to_owned).collect(),
            connection,
            statements: binders.iter().map(|_| Statements::default()).collect(),
            binders,
        }))
    }
}

/// A value for a column of SQLite, whose affinity does the rest.
fn value(raw: &str, column: &TargetColumn, schema: Option<&Field>) -> Result<Value, String> {
    Ok(match cell(raw, &column.kind, schema)? {
        Cell::Null => Value::Null,
        Cell::Text(text) => Value::Text(text.into_owned()),
        Cell::Bool(value) => Value::Integer(i64::from(value)),
        Cell::Bytes(bytes) => Value::Blob(bytes),
        Cell::Number(digits) => match digits.parse::<i64>() {
            Ok(whole) => Value::Integer(whole),
            Err(_) => Value::Text(digits.into_owned()),
        },
        Cell::Array(_) => return Err("an array; declare the column JSON or TEXT".into()),
    })
}

#[derive(Default)]
struct Statements {
    upserts: Vec<Option<String>>,
    delete: Option<String>,
}

struct SqliteWriter {
    guard: Guard,
    shard: i64,
    /// Of the target tables.
    names: Vec<String>,
    connection: Connection,
    binders: Vec<Binder<Value>>,
    statements: Vec<Statements>,
}

impl SqliteWriter {
    /// The statement for a bound row, made once.
    fn sql(&mut self, table: usize, bound: &Bound<Value>) -> String {
        let binder = &self.binders[table];
        let statements = &mut self.statements[table];
        let slot = match bound.shape {
            None => &mut statements.delete,
            Some(shape) => {
                if statements.upserts.len() <= shape {
                    statements.upserts.resize(shape + 1, None);
                }
                &mut statements.upserts[shape]
            }
        };
        let make = || match bound.shape {
            None => delete_sql(binder),
            Some(shape) => upsert_sql(binder, binder.shape(shape)),
        };
        slot.get_or_insert_with(make).clone()
    }
}

fn names(binder: &Binder<Value>, columns: &[usize]) -> Vec<String> {
    columns
        .iter()
        .map(|index| quoted(&binder.table.columns[*index].name))
        .collect()
}

fn upsert_sql(binder: &Binder<Value>, shape: &[usize]) -> String {
    let key = &binder.table.key;
    let set: Vec<usize> = shape
        .iter()
        .copied()
        .filter(|index| !key.contains(index))
        .collect();
    let set: Vec<String> = names(binder, &set)
        .iter()
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    let action = match set.is_empty() {
        true => "NOTHING".to_owned(),
        false => format!("UPDATE SET {}", set.join(", ")),
    };
    format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO {action}",
        binder.table.sql,
        names(binder, shape).join(", "),
        vec!["?"; shape.len()].join(", "),
        names(binder, key).join(", "),
    )
}

fn delete_sql(binder: &Binder<Value>) -> String {
    let equal: Vec<String> = names(binder, &binder.table.key)
        .iter()
        .map(|name| format!("{name} = ?"))
        .collect();
    format!(
        "DELETE FROM {} WHERE {}",
        binder.table.sql,
        equal.join(" AND ")
    )
}

/// What to do about an error of a statement: `Ok` holds the reason for refusing its row.
fn refused(error: rusqlite::Error) -> Result<String, WriteError> {
    let code = error.sqlite_error_code();
    match code {
        Some(
            ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::TooBig
            | ErrorCode::ParameterOutOfRange,
        ) => Ok(error.to_string()),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory,
        ) => Err(WriteError::Retry(error.to_string())),
        _ => Err(WriteError::Fatal(
            Error::failed("the SQLite target failed").line(error),
        )),
    }
}

fn broken(error: rusqlite::Error) -> WriteError {
    match refused(error) {
        Ok(reason) => WriteError::Fatal(Error::failed("the SQLite target failed").line(reason)),
        Err(error) => error,
    }
}

impl Writer for SqliteWriter {
    fn write(&mut self, rows: &[Row<'_>], applied: &[Applied]) -> Result<(), WriteError> {
        let mut rejected = Vec::new();
        let mut work = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            match self.binders[row.table].bind(row) {
                Ok(bound) => work.push((index, self.sql(row.table, &bound), bound.values)),
                Err(Problem::Row(reason)) => rejected.push(Rejected { index, reason }),
                Err(Problem::Table(error)) => return Err(WriteError::Fatal(error)),
            }
        }
        let behavior = TransactionBehavior::Immediate;
        let transaction = self
            .connection
            .transaction_with_behavior(behavior)
            .map_err(broken)?;
        let identity = tenure::look(&transaction, &mut self.guard, &self.names)?;
        for (index, sql, values) in work {
            let done = transaction
                .prepare_cached(&sql)
                .and_then(|mut statement| statement.execute(params_from_iter(values)));
            if let Err(error) = done {
                let reason = refused(error)?;
                rejected.push(Rejected { index, reason });
            }
        }
        if let Some(identity) = identity {
            tenure::apply(&transaction, identity, self.shard, applied).map_err(broken)?;
        }
        let halted = |error: std::io::Error| WriteError::Retry(error.to_string());
        fault::io_point("sqlite.commit.before").map_err(halted)?;
        transaction.commit().map_err(broken)?;
        fault::io_point("sqlite.commit.after").map_err(halted)?;
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::Rejected(rejected)),
        }
    }
}

#[cfg(test)]
mod tests;
