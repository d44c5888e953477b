//! The writer of one connection.
//!
//! Invariant: a batch is one transaction, with the look whether this run may write and how far its
//! records go. When a row is refused, the batch is halved within savepoints until the row stands
//! alone, so all others are written.
//!
//! It cannot tell a commit that was lost on the way back from one that was not made: the batch is
//! then written again, which does no harm.

use super::home::{self, Home};
use super::tenure::{self, Halt};
use super::{Target, reason, run, sql};
use crate::error::Error;
use crate::fault;
use crate::sink::column::{Cell, array_literal, cell, hex};
use crate::sink::ledger::{Guard, signed};
use crate::sink::row::Field;
use crate::sink::target::{self, Binder, Bound, Problem, TargetColumn};
use crate::sink::{Applied, Place, Rejected, Row, WriteError, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

/// Text for a cast, or NULL.
type Text = Option<String>;

fn text(raw: &str, column: &TargetColumn, schema: Option<&Field>) -> Result<Text, String> {
    Ok(match cell(raw, &column.kind, schema)? {
        Cell::Null => None,
        Cell::Text(text) | Cell::Number(text) => Some(text.into_owned()),
        Cell::Bool(value) => Some(value.to_string()),
        Cell::Bytes(bytes) => Some(hex(&bytes)),
        Cell::Array(cells) => Some(array_literal(&cells)),
    })
}

/// An open connection and what was found and prepared over it.
struct Session {
    client: Client,
    tables: Vec<Prepared>,
    /// Of the tables that say who may write; none before the first claim.
    home: Option<Home>,
    apply: Option<Statement>,
}

struct Prepared {
    binder: Binder<Text>,
    upserts: Vec<Option<Statement>>,
    delete: Option<Statement>,
}

/// A row of the batch, laid over its table's columns.
struct Work {
    /// Index in the batch.
    index: usize,
    table: usize,
    bound: Bound<Text>,
}

pub(super) struct PostgresWriter {
    runtime: Runtime,
    target: Arc<Target>,
    /// Shard, and what is written in the application name.
    shard: i64,
    place: String,
    names: Vec<String>,
    guard: Guard,
    session: Option<Session>,
}

impl PostgresWriter {
    /// Without a place it only lays out rows.
    pub(super) fn new(
        runtime: Runtime,
        target: Arc<Target>,
        place: Option<Place>,
    ) -> PostgresWriter {
        let (incarnation, shard) = place.map_or((0, 0), |place| (place.incarnation, place.shard));
        PostgresWriter {
            runtime,
            shard: signed(shard as u64),
            place: match place {
                Some(_) => format!("{incarnation}/{shard}"),
                None => "check".to_owned(),
            },
            names: target.sql_names(),
            guard: target.guard(incarnation),
            target,
            session: None,
        }
    }

    /// Connects and reads the catalogue.
    pub(super) fn open(&mut self) -> Result<(), Error> {
        let target = &self.target;
        let session = run(&self.runtime, async {
            let client = target
                .connect(&self.place)
                .await
                .map_err(|error| target.unreachable(&error))?;
            let tables = target.tables(&client).await?;
            let prepared = tables
                .into_iter()
                .zip(&target.tables)
                .map(|(found, table)| Prepared {
                    binder: Binder::new(
                        found,
                        table.key.clone(),
                        target.settings.unknown_columns,
                        text,
                    ),
                    upserts: Vec::new(),
                    delete: None,
                });
            let tables = prepared.collect();
            Ok(Session {
                client,
                tables,
                home: None,
                apply: None,
            })
        });
        self.session = Some(session?);
        Ok(())
    }

    /// See [`crate::sink::Sink::fit`]; of an open writer.
    pub(super) fn fit(self, rows: &[Row<'_>]) -> Result<(), WriteError> {
        let tables = self.session.into_iter().flat_map(|session| session.tables);
        let mut binders: Vec<_> = tables.map(|prepared| prepared.binder).collect();
        target::fit(&mut binders, rows)
    }
}

impl Writer for PostgresWriter {
    fn write(&mut self, rows: &[Row<'_>], applied: &[Applied]) -> Result<(), WriteError> {
        if self
            .session
            .as_ref()
            .is_none_or(|session| session.client.is_closed())
        {
            self.session = None;
            // The target was there once: whatever keeps it away now may end.
            self.open().map_err(|error| WriteError::Retry(error.text))?;
        }
        let session = self.session.as_mut().expect("opened above");
        let mut rejected = Vec::new();
        let mut work = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let table = row.table;
            match session.tables[table].binder.bind(row) {
                Ok(bound) => work.push(Work {
                    index,
                    table,
                    bound,
                }),
                Err(Problem::Row(reason)) => rejected.push(Rejected { index, reason }),
                Err(Problem::Table(error)) => return Err(WriteError::Fatal(error)),
            }
        }
        let batch = Batch {
            target: &self.target,
            names: &self.names,
            shard: self.shard,
            work: &work,
            applied,
        };
        let done = session.transaction(&batch, &mut self.guard, &mut rejected);
        if let Err(halt) = run(&self.runtime, done) {
            let error = self.target.halted(halt);
            if matches!(error, WriteError::Retry(_)) {
                self.session = None;
            }
            return Err(error);
        }
        rejected.sort_by_key(|rejected| rejected.index);
        match rejected.is_empty() {
            true => Ok(()),
            false => Err(WriteError::Rejected(rejected)),
        }
    }
}

impl Target {
    /// What is to be done about a transaction that came to nothing.
    pub(super) fn halted(&self, halt: Halt) -> WriteError {
        match halt {
            Halt::Database(error) => self.classified(&error),
            Halt::Verdict(error) => error,
        }
    }

    fn classified(&self, error: &tokio_postgres::Error) -> WriteError {
        let text = format!("{}: {}", self.name, reason(error));
        let Some(state) = error.code() else {
            return WriteError::Retry(text);
        };
        let may_help = ["08", "40", "53", "55", "57", "58"];
        match may_help.iter().any(|class| state.code().starts_with(class)) {
            true => WriteError::Retry(text),
            false => WriteError::Fatal(self.unreachable(error)),
        }
    }
}

/// Why a row is refused, when it is the row's fault. Messages of class 22 quote the value, so only
/// their code is told.
fn refused(error: &tokio_postgres::Error) -> Option<String> {
    let found = error.as_db_error()?;
    let code = found.code().code();
    let reason = match code.get(..2)? {
        "22" => match *found.code() {
            SqlState::INVALID_TEXT_REPRESENTATION => "the text of a value is not of the type",
            SqlState::STRING_DATA_RIGHT_TRUNCATION => "a text is too long for its column",
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE => "a number is out of range for its column",
            SqlState::DATETIME_FIELD_OVERFLOW => "a time is out of range for its column",
            SqlState::CHARACTER_NOT_IN_REPERTOIRE | SqlState::UNTRANSLATABLE_CHARACTER => {
                "a text holds a character that the database cannot (U+0000?)"
            }
            _ => "a value does not fit its column",
        },
        "23" => found.message(),
        _ => return None,
    };
    Some(format!("{reason} ({code})"))
}

/// What one transaction writes.
struct Batch<'a> {
    target: &'a Target,
    names: &'a [String],
    shard: i64,
    work: &'a [Work],
    applied: &'a [Applied],
}

impl Session {
    async fn transaction(
        &mut self,
        batch: &Batch<'_>,
        guard: &mut Guard,
        rejected: &mut Vec<Rejected>,
    ) -> Result<(), Halt> {
        if batch.work.is_empty() {
            return Ok(());
        }
        let done = self.fill(batch, guard, rejected).await;
        if done.is_err() && !self.client.is_closed() {
            // Whatever it says: the first error is the one to tell.
            let _ = self.client.batch_execute("ROLLBACK").await;
        }
        done?;
        self.client.batch_execute("COMMIT").await?;
        fault::io_point("postgres.commit.after").map_err(Halt::ordered)
    }

    /// All of a transaction but its end.
    async fn fill(
        &mut self,
        batch: &Batch<'_>,
        guard: &mut Guard,
        rejected: &mut Vec<Rejected>,
    ) -> Result<(), Halt> {
        if self.home.is_none() {
            self.home = home::find(batch.target, &self.client).await?;
        }
        let Some(home) = &self.home else {
            guard.check(&[])?;
            return Ok(());
        };
        let identity = tenure::begin(&self.client, home, batch.names, guard).await?;
        self.all(batch.work, rejected).await?;
        if let Some(identity) = identity {
            self.apply(identity, batch.shard, batch.applied).await?;
        }
        fault::io_point("postgres.commit.before").map_err(Halt::ordered)
    }

    /// Stores how far the records of the batch go.
    async fn apply(
        &mut self,
        identity: &str,
        shard: i64,
        applied: &[Applied],
    ) -> Result<(), tokio_postgres::Error> {
        if applied.is_empty() {
            return Ok(());
        }
        let statement = match (&self.apply, &self.home) {
            (Some(statement), _) => statement.clone(),
            (None, Some(home)) => self.client.prepare(&tenure::apply(home)).await?,
            (None, None) => return Ok(()),
        };
        let roles: Vec<&str> = applied.iter().map(|one| one.role.word()).collect();
        let topics: Vec<&str> = applied.iter().map(|one| one.topic.as_str()).collect();
        let partitions: Vec<i64> = applied.iter().map(|one| one.partition.into()).collect();
        let offsets: Vec<i64> = applied.iter().map(|one| signed(one.next_offset)).collect();
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&identity, &shard, &roles, &topics, &partitions, &offsets];
        self.client.execute(&statement, &parameters).await?;
        self.apply = Some(statement);
        Ok(())
    }

    /// Writes all after the savepoint `batch`, or halves until what is refused stands alone.
    async fn all(
        &mut self,
        work: &[Work],
        rejected: &mut Vec<Rejected>,
    ) -> Result<(), tokio_postgres::Error> {
        let mut waiting = vec![work];
        while let Some(work) = waiting.pop() {
            let Err(error) = self.write(work).await else {
                if !waiting.is_empty() {
                    let next = "RELEASE batch; SAVEPOINT batch";
                    self.client.batch_execute(next).await?;
                }
                continue;
            };
            let Some(reason) = refused(&error) else {
                return Err(error);
            };
            self.client.batch_execute("ROLLBACK TO batch").await?;
            if let [only] = work {
                rejected.push(Rejected {
                    index: only.index,
                    reason,
                });
                continue;
            }
            let (first, second) = work.split_at(work.len() / 2);
            waiting.push(second);
            waiting.push(first);
        }
        Ok(())
    }

    async fn write(&mut self, work: &[Work]) -> Result<(), tokio_postgres::Error> {
        let mut groups: BTreeMap<(usize, Option<usize>), Vec<&[Text]>> = BTreeMap::new();
        for row in work {
            // Deletes, which have no shape, come first in each table: they free unique values.
            groups
                .entry((row.table, row.bound.shape))
                .or_default()
                .push(&row.bound.values);
        }
        for ((table, shape), rows) in groups {
            let statement = self.statement(table, shape).await?;
            let columns = rows[0].len();
            let column = |index: usize| -> Vec<Option<&str>> {
                rows.iter().map(|values| values[index].as_deref()).collect()
            };
            let arrays: Vec<Vec<Option<&str>>> = (0..columns).map(column).collect();
            let parameters: Vec<&(dyn ToSql + Sync)> = arrays
                .iter()
                .map(|array| array as &(dyn ToSql + Sync))
                .collect();
            self.client.execute(&statement, &parameters).await?;
        }
        Ok(())
    }

    async fn statement(
        &mut self,
        table: usize,
        shape: Option<usize>,
    ) -> Result<Statement, tokio_postgres::Error> {
        let prepared = &mut self.tables[table];
        let target = &prepared.binder.table;
        let (slot, text) = match shape {
            None => (&mut prepared.delete, sql::delete(target)),
            Some(shape) => {
                if prepared.upserts.len() <= shape {
                    prepared.upserts.resize(shape + 1, None);
                }
                let text = sql::upsert(target, prepared.binder.shape(shape));
                (&mut prepared.upserts[shape], text)
            }
        };
        if let Some(statement) = slot {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&text).await?;
        *slot = Some(statement.clone());
        Ok(statement)
    }
}
