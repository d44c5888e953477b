//! Who may write the file: the tables of [`crate::sink::ledger`] in SQLite.
//!
//! A target table is known again by an index on it that holds nothing and goes when the table is
//! dropped: SQLite gives a table no number of its own.
//!
//! Invariant: rows of `headwater_target` change in a transaction that began IMMEDIATE, as do those
//! that write rows, so one comes wholly before the other.
//!
//! It cannot tell a table whose index was dropped by hand from one that was made anew, and refuses
//! both.

use super::{SqliteSink, broken};
use crate::error::Error;
use crate::fault;
use crate::sink::ledger::{
    self, APPLIED, CHECKPOINT, Case, Found, GENERATION, Guard, Holder, TARGET, incarnation, signed,
    token, unsigned,
};
use crate::sink::target::quoted;
use crate::sink::{Applied, Claim, Claimed, Fence, GenerationNote, WriteError};
use rusqlite::types::Value;
use rusqlite::{
    Connection, OptionalExtension, Result, Row, Transaction, TransactionBehavior, params,
    params_from_iter,
};
use std::time::{Duration, Instant};

/// How long a claim waits for whoever writes the file.
const CLAIM_WAIT: Duration = Duration::from_secs(30);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS headwater_target (
        target TEXT NOT NULL COLLATE NOCASE PRIMARY KEY, job TEXT NOT NULL, identity TEXT NOT NULL,
        incarnation INTEGER NOT NULL, claimant TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS headwater_applied (
        identity TEXT NOT NULL, role TEXT NOT NULL, topic TEXT NOT NULL,
        partition INTEGER NOT NULL, shard INTEGER NOT NULL, next_offset INTEGER NOT NULL,
        PRIMARY KEY (identity, role, topic, partition, shard)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS headwater_checkpoint (
        identity TEXT NOT NULL PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS headwater_generation (
        identity TEXT NOT NULL, number INTEGER NOT NULL, id TEXT NOT NULL, stage TEXT NOT NULL,
        since_ms INTEGER, PRIMARY KEY (identity, number)) WITHOUT ROWID;";

/// Rows of `headwater_target` whose table still has its index.
const HOLDERS: &str = "
    SELECT t.target, t.job, t.identity, t.incarnation, t.claimant
      FROM headwater_target t
      JOIN sqlite_master m
        ON m.type = 'index' AND m.tbl_name = t.target COLLATE NOCASE
       AND m.name = 'headwater_mark_' || t.target COLLATE NOCASE";

/// Takes the file for a run.
pub(super) fn claim(
    sink: &SqliteSink,
    connection: &Connection,
    claim: &Claim,
    claimant: &str,
) -> Result<Claimed, Error> {
    let failed = |error: rusqlite::Error| sink.failed(&error);
    let until = Instant::now() + CLAIM_WAIT;
    let transaction = loop {
        let begun = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        match begun.map_err(|error| (broken(error), Instant::now() < until)) {
            Ok(transaction) => break transaction,
            Err((WriteError::Retry(_), true)) => {}
            Err((WriteError::Retry(reason), false)) => {
                let file = sink.path.display();
                return Err(Error::failed(format!("the SQLite file {file} is locked"))
                    .line(reason)
                    .line("An older run of the job may be stopped amid a write, or another program")
                    .line("has a transaction open. End it, then start again."));
            }
            Err((WriteError::Fatal(error), _)) => return Err(error),
            Err((WriteError::Rejected(_), _)) => unreachable!("nothing is written"),
        }
    };
    transaction.execute_batch(TABLES).map_err(failed)?;
    let names = sink.target_names();
    let holders = holders(&transaction).map_err(failed)?;
    let of = |name: &&str| {
        let holder = holders
            .iter()
            .find(|(target, _)| target.eq_ignore_ascii_case(name));
        Found {
            table: format!("{name} in {}", sink.path.display()),
            holder: holder.map(|(_, holder)| holder.clone()),
        }
    };
    let found: Vec<Found> = names.iter().map(of).collect();
    let noted = noted(&transaction, claim.identity.as_deref()).map_err(failed)?;
    let case = Case {
        claim,
        claimant,
        found: &found,
        noted,
        ledger: TARGET,
    };
    let taking = case.judge(&token()?)?;
    take(&transaction, &names, claim, claimant, &taking.identity).map_err(failed)?;
    carry(&transaction, &taking.identity, &taking.carried).map_err(failed)?;
    let applied = applied(&transaction, &taking.identity).map_err(failed)?;
    fault::point("target.claim.before")?;
    transaction.commit().map_err(failed)?;
    fault::point("target.claim.after")?;
    Ok(Claimed {
        identity: Some(taking.identity),
        fence: Fence::Fenced,
        applied: ledger::applied(applied)?,
    })
}

fn holder(row: &Row<'_>) -> Result<(String, Holder)> {
    let holder = Holder {
        job: row.get(1)?,
        identity: row.get(2)?,
        incarnation: incarnation(row.get(3)?),
        claimant: row.get(4)?,
    };
    Ok((row.get(0)?, holder))
}

fn holders(connection: &Connection) -> Result<Vec<(String, Holder)>> {
    let mut statement = connection.prepare_cached(HOLDERS)?;
    statement.query_map([], holder)?.collect()
}

fn noted(connection: &Connection, identity: Option<&str>) -> Result<u64> {
    let sql = format!("SELECT number FROM {CHECKPOINT} WHERE identity = ?");
    let number = connection.query_row(&sql, [identity], |row| row.get(0));
    Ok(unsigned(number.optional()?.unwrap_or(0)))
}

/// Writes the rows of the tables, and marks the tables.
fn take(
    transaction: &Transaction<'_>,
    names: &[&str],
    claim: &Claim,
    claimant: &str,
    identity: &str,
) -> Result<()> {
    for name in names {
        let sql = format!(
            "INSERT INTO {TARGET} (target, job, identity, incarnation, claimant)
             VALUES (?, ?, ?, ?, ?)
             ON CONFLICT (target) DO UPDATE SET job = excluded.job, identity = excluded.identity,
               incarnation = excluded.incarnation, claimant = excluded.claimant"
        );
        let values = params![name, claim.job, identity, claim.incarnation, claimant];
        transaction.execute(&sql, values)?;
        let first = "SELECT name FROM pragma_table_xinfo(?) ORDER BY pk = 0, pk LIMIT 1";
        let column: String = transaction.query_row(first, [name], |row| row.get(0))?;
        let mark = quoted(&format!("headwater_mark_{name}"));
        let (name, column) = (quoted(name), quoted(&column));
        // Dropped first: it may have gone elsewhere with a table that was renamed.
        transaction.execute_batch(&format!(
            "DROP INDEX IF EXISTS {mark}; CREATE INDEX {mark} ON {name} ({column}) WHERE 0"
        ))?;
    }
    Ok(())
}

/// Gives the progress of earlier identities to this one.
fn carry(transaction: &Transaction<'_>, identity: &str, carried: &[String]) -> Result<()> {
    for old in carried {
        let sql = format!(
            "INSERT INTO {APPLIED}
             SELECT ?1, role, topic, partition, shard, next_offset FROM {APPLIED}
              WHERE identity = ?2
             ON CONFLICT DO UPDATE SET next_offset = max(next_offset, excluded.next_offset)"
        );
        transaction.execute(&sql, [identity, old])?;
    }
    // Nothing hangs on an identity that no table has any more.
    for table in [APPLIED, CHECKPOINT, GENERATION] {
        transaction.execute_batch(&format!(
            "DELETE FROM {table} WHERE identity NOT IN (SELECT identity FROM {TARGET})"
        ))?;
    }
    Ok(())
}

/// The farthest shard of each partition.
fn applied(
    transaction: &Transaction<'_>,
    identity: &str,
) -> Result<Vec<(String, String, i64, i64)>> {
    let sql = format!(
        "SELECT role, topic, partition, max(next_offset) FROM {APPLIED} WHERE identity = ?
          GROUP BY role, topic, partition ORDER BY role, topic, partition"
    );
    let mut statement = transaction.prepare(&sql)?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    statement.query_map([identity], row)?.collect()
}

/// Whether the run of the guard may write in this transaction; the identity of the target, or none
/// when a test has planted that nobody looks.
pub(super) fn look<'g>(
    transaction: &Transaction<'_>,
    guard: &'g mut Guard,
    names: &[impl AsRef<str>],
) -> Result<Option<&'g str>, WriteError> {
    if fault::planted("unfenced") {
        return Ok(None);
    }
    let there = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'headwater_target')";
    let is_there = || transaction.query_row(there, [], |row| row.get(0));
    let rows = match guard.has_seen() || is_there().map_err(broken)? {
        true => holders(transaction).map_err(broken)?,
        false => Vec::new(),
    };
    let own = |target: &str| {
        names
            .iter()
            .any(|name| name.as_ref().eq_ignore_ascii_case(target))
    };
    let rows: Vec<Holder> = rows
        .into_iter()
        .filter(|(target, _)| own(target))
        .map(|(_, holder)| holder)
        .collect();
    guard.check(&rows).map(Some)
}

/// Stores how far a shard is; never less than before.
pub(super) fn apply(
    transaction: &Transaction<'_>,
    identity: &str,
    shard: i64,
    applied: &[Applied],
) -> Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO headwater_applied (identity, role, topic, partition, shard, next_offset)
         VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET next_offset = max(next_offset, excluded.next_offset)",
    )?;
    for one in applied {
        let values = [
            Value::Text(identity.to_owned()),
            Value::Text(one.role.word().to_owned()),
            Value::Text(one.topic.clone()),
            Value::Integer(i64::from(one.partition)),
            Value::Integer(shard),
            Value::Integer(signed(one.next_offset)),
        ];
        statement.execute(params_from_iter(values))?;
    }
    Ok(())
}

/// Raises the number of the last checkpoint.
pub(super) fn note(
    connection: &mut Connection,
    mut guard: Guard,
    names: &[&str],
    number: i64,
) -> Result<(), WriteError> {
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = begun.map_err(broken)?;
    if let Some(identity) = look(&transaction, &mut guard, names)? {
        let sql = format!(
            "INSERT INTO {CHECKPOINT} (identity, number) VALUES (?, ?)
             ON CONFLICT DO UPDATE SET number = max(number, excluded.number)"
        );
        let raised = transaction.execute(&sql, params![identity, number]);
        raised.map_err(broken)?;
    }
    let halted = |error: std::io::Error| WriteError::Retry(error.to_string());
    fault::io_point("target.note.before").map_err(halted)?;
    transaction.commit().map_err(broken)?;
    fault::io_point("target.note.after").map_err(halted)
}

/// Replaces what is told of generations.
pub(super) fn generations(
    connection: &mut Connection,
    mut guard: Guard,
    names: &[&str],
    generations: &[GenerationNote],
) -> Result<(), WriteError> {
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = begun.map_err(broken)?;
    if let Some(identity) = look(&transaction, &mut guard, names)? {
        replace(&transaction, identity, generations).map_err(broken)?;
    }
    transaction.commit().map_err(broken)
}

fn replace(
    transaction: &Transaction<'_>,
    identity: &str,
    generations: &[GenerationNote],
) -> Result<()> {
    let old = format!("DELETE FROM {GENERATION} WHERE identity = ?");
    transaction.execute(&old, [identity])?;
    let new = format!(
        "INSERT INTO {GENERATION} (identity, number, id, stage, since_ms) VALUES (?, ?, ?, ?, ?)"
    );
    for note in generations {
        let since_ms = note.since_ms.map(signed);
        let values = params![identity, note.number, note.id, note.stage.word(), since_ms];
        transaction.execute(&new, values)?;
    }
    Ok(())
}
