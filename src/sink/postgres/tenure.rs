//! Who may write the database: takes it for a run, and lets the writers of that run alone write.
//!
//! A target table is known by its `regclass`: a table that was dropped and made anew has another
//! one, while a dump restores it by name.
//!
//! Invariant: a transaction that writes rows holds its rows of `headwater_target` FOR SHARE, and a
//! claim changes them, so one comes wholly before the other.
//!
//! It cannot end sessions of another database user; it then waits for them.

use super::home::{self, Home};
use super::{Target, reason};
use crate::error::Error;
use crate::fault;
use crate::sink::ledger::{
    self, APPLIED, CHECKPOINT, Case, Found, GENERATION, Guard, Holder, TARGET, Taking, incarnation,
    signed, token, unsigned,
};
use crate::sink::{Claim, Claimed, Fence, GenerationNote, WriteError};
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::{
    Client, Error as PgError, GenericClient, IsolationLevel, Row, SimpleQueryMessage, Transaction,
};

/// How long a claim goes on ending the sessions of older runs.
const CLAIM_WAIT: Duration = Duration::from_secs(30);
/// How long it waits for a lock before it looks for older sessions again.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '1s'";
/// Claims of a database come one after the other.
const CLAIMS: i64 = i64::from_be_bytes(*b"headwatr");

/// Why a transaction came to nothing.
pub(super) enum Halt {
    Database(PgError),
    Verdict(WriteError),
}

impl From<PgError> for Halt {
    fn from(error: PgError) -> Self {
        Halt::Database(error)
    }
}

impl From<WriteError> for Halt {
    fn from(error: WriteError) -> Self {
        Halt::Verdict(error)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Verdict(WriteError::Fatal(error))
    }
}

impl Halt {
    /// At a fault on order.
    pub(super) fn ordered(error: std::io::Error) -> Halt {
        Halt::Verdict(WriteError::Retry(error.to_string()))
    }
}

impl Target {
    /// What a start says of what it does not try again.
    pub(super) fn given_up(&self, halt: Halt) -> Error {
        match self.halted(halt) {
            WriteError::Fatal(error) => error,
            WriteError::Retry(reason) => {
                Error::failed(format!("cannot use the PostgreSQL target {}", self.name))
                    .line(reason)
                    .line("Check that it runs, sink.url, and the rights of its user.")
            }
            WriteError::Rejected(_) => unreachable!("no rows are written"),
        }
    }
}

/// Takes the target for a run.
pub(super) async fn claim(
    target: &Target,
    claim: &Claim,
    claimant: &str,
) -> Result<Claimed, Error> {
    let place = format!("{}/claim", claim.incarnation);
    let connected = target.connect(&place).await;
    let mut client = connected.map_err(|error| target.unreachable(&error))?;
    let taker = Taker {
        target,
        claim,
        claimant,
        names: target.sql_names(),
    };
    // Whoever is refused must not end the sessions of the run that has the target.
    let found = home::find(target, &client).await;
    if let Some(home) = found.map_err(|halt| target.given_up(halt))? {
        let judged = taker.judge(&client, &home).await;
        judged.map_err(|halt| target.given_up(halt))?;
    }
    let until = Instant::now() + CLAIM_WAIT;
    loop {
        taker.end_older(&client).await?;
        match taker.take(&mut client).await {
            Ok(claimed) => return Ok(claimed),
            Err(Halt::Database(error)) if is_locked(&error) => {
                if Instant::now() > until {
                    return Err(taker.locked(&error));
                }
            }
            Err(halt) => return Err(target.given_up(halt)),
        }
    }
}

fn is_locked(error: &PgError) -> bool {
    let states = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    error.code().is_some_and(|code| states.contains(code))
}

struct Taker<'a> {
    target: &'a Target,
    claim: &'a Claim,
    claimant: &'a str,
    names: Vec<String>,
}

impl Taker<'_> {
    fn locked(&self, error: &PgError) -> Error {
        let prefix = self.target.session_prefix();
        Error::failed(format!(
            "an older run of job `{}` holds the target {}",
            self.claim.job, self.target.name
        ))
        .line(reason(error))
        .line("Its sessions could not be ended (another database user?). End them, then start")
        .line("again: SELECT pg_terminate_backend(pid) FROM pg_stat_activity")
        .line(format!("WHERE application_name LIKE '{prefix}%';"))
    }

    /// Ends the sessions of older runs of the job, as far as this user may. One of them may be
    /// stopped in the middle of a transaction for ever.
    async fn end_older(&self, client: &Client) -> Result<(), Error> {
        let prefix = self.target.session_prefix();
        let sessions = "
            SELECT pid, application_name FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()
               AND left(application_name, length($1)) = $1";
        let found = client.query(sessions, &[&prefix]).await;
        let found = found.map_err(|error| self.target.unreachable(&error))?;
        for row in found {
            let (pid, name): (i32, &str) = (row.get(0), row.get(1));
            let rest = name.get(prefix.len()..).unwrap_or_default();
            let number = rest.split('/').next().unwrap_or_default();
            if number
                .parse()
                .is_ok_and(|other: u32| other < self.claim.incarnation)
            {
                let end = "SELECT pg_terminate_backend($1)";
                // Of another user: then its locks are waited for.
                let _ = client.execute(end, &[&pid]).await;
            }
        }
        Ok(())
    }

    /// Whether the claim is good, by what the tables say now.
    async fn judge(&self, client: &impl GenericClient, home: &Home) -> Result<Taking, Halt> {
        let ledger = home.table(TARGET);
        let rows = format!(
            "SELECT n.name, t.job, t.identity, t.incarnation, t.claimant
               FROM unnest($1::text[]) WITH ORDINALITY AS n(name, place)
               LEFT JOIN {ledger} t ON t.relation = to_regclass(n.name) ORDER BY n.place"
        );
        let rows = client.query(&rows, &[&self.names]).await?;
        let found: Vec<Found> = rows.iter().map(|row| self.found(row)).collect();
        let noted = format!(
            "SELECT number FROM {} WHERE identity = $1",
            home.table(CHECKPOINT)
        );
        let noted = client.query_opt(&noted, &[&self.claim.identity]).await?;
        let case = Case {
            claim: self.claim,
            claimant: self.claimant,
            found: &found,
            noted: noted.map_or(0, |row| unsigned(row.get(0))),
            ledger: &ledger,
        };
        Ok(case.judge(&token()?)?)
    }

    fn found(&self, row: &Row) -> Found {
        let name: &str = row.get(0);
        let job: Option<String> = row.get(1);
        Found {
            table: format!("{name} in {}", self.target.name),
            holder: job.map(|job| Holder {
                job,
                identity: row.get(2),
                incarnation: incarnation(row.get(3)),
                claimant: row.get(4),
            }),
        }
    }

    /// One try; it waits for a lock no longer than a second.
    async fn take(&self, client: &mut Client) -> Result<Claimed, Halt> {
        let builder = client.build_transaction();
        let transaction = builder
            .isolation_level(IsolationLevel::ReadCommitted)
            .start()
            .await?;
        transaction.batch_execute(LOCK_TIMEOUT).await?;
        let alone = "SELECT pg_advisory_xact_lock($1)";
        transaction.execute(alone, &[&CLAIMS]).await?;
        let home = home::ensure(self.target, &transaction, &self.names).await?;
        let lock = format!(
            "SELECT 1 FROM {} WHERE relation IN
                (SELECT to_regclass(n) FROM unnest($1::text[]) AS n) FOR UPDATE",
            home.table(TARGET)
        );
        transaction.execute(&lock, &[&self.names]).await?;
        let taking = self.judge(&transaction, &home).await?;
        self.put(&transaction, &home, &taking).await?;
        let applied = applied(&transaction, &home, &taking.identity).await?;
        fault::point("target.claim.before")?;
        transaction.commit().await?;
        fault::point("target.claim.after")?;
        Ok(Claimed {
            identity: Some(taking.identity),
            fence: Fence::Fenced,
            applied: ledger::applied(applied)?,
        })
    }

    async fn put(
        &self,
        transaction: &Transaction<'_>,
        home: &Home,
        taking: &Taking,
    ) -> Result<(), PgError> {
        let [target, applied, checkpoint, generation] =
            [TARGET, APPLIED, CHECKPOINT, GENERATION].map(|name| home.table(name));
        let claim = self.claim;
        let gone = format!(
            "DELETE FROM {target} AS t
              WHERE job = $1 AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.relation)"
        );
        transaction.execute(&gone, &[&claim.job]).await?;
        let put = format!(
            "INSERT INTO {target} (relation, job, identity, incarnation, claimant)
             SELECT DISTINCT to_regclass(n), $2, $3, $4::bigint, $5 FROM unnest($1::text[]) AS n
             ON CONFLICT (relation) DO UPDATE SET job = excluded.job,
               identity = excluded.identity, incarnation = excluded.incarnation,
               claimant = excluded.claimant"
        );
        let number = i64::from(claim.incarnation);
        transaction
            .execute(
                &put,
                &[
                    &self.names,
                    &claim.job,
                    &taking.identity,
                    &number,
                    &self.claimant,
                ],
            )
            .await?;
        let carry = format!(
            "INSERT INTO {applied} (identity, role, topic, partition, shard, next_offset)
             SELECT $1, role, topic, partition, shard, max(next_offset) FROM {applied}
              WHERE identity = ANY($2) GROUP BY role, topic, partition, shard"
        );
        transaction
            .execute(&carry, &[&taking.identity, &taking.carried])
            .await?;
        // Nothing hangs on an identity that no table has any more.
        for table in [&applied, &checkpoint, &generation] {
            let orphans = format!(
                "DELETE FROM {table} WHERE identity NOT IN (SELECT identity FROM {target})"
            );
            transaction.execute(&orphans, &[]).await?;
        }
        Ok(())
    }
}

/// The farthest shard of each partition.
async fn applied(
    transaction: &Transaction<'_>,
    home: &Home,
    identity: &str,
) -> Result<Vec<(String, String, i64, i64)>, PgError> {
    let farthest = format!(
        "SELECT role, topic, partition, max(next_offset) FROM {} WHERE identity = $1
          GROUP BY role, topic, partition ORDER BY role, topic, partition",
        home.table(APPLIED)
    );
    let rows = transaction.query(&farthest, &[&identity]).await?;
    let row = |row: &Row| (row.get(0), row.get(1), row.get(2), row.get(3));
    Ok(rows.iter().map(row).collect())
}

/// Begins a transaction, with the savepoint `batch`, and looks whether the run of the guard may
/// write in it: one round trip. The identity, or none when a test has planted that nobody looks.
pub(super) async fn begin<'g>(
    client: &Client,
    home: &Home,
    names: &[String],
    guard: &'g mut Guard,
) -> Result<Option<&'g str>, Halt> {
    const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
    if fault::planted("unfenced") {
        let begin = format!("{BEGIN}; SAVEPOINT batch");
        client.batch_execute(&begin).await?;
        return Ok(None);
    }
    // By name: a table made anew while the job writes has another regclass, and so no row.
    let relations: Vec<String> = names
        .iter()
        .map(|name| format!("to_regclass({})", literal(name)))
        .collect();
    let begin = format!(
        "{BEGIN}; SELECT job, identity, incarnation, claimant FROM {} WHERE relation IN ({}) \
         FOR SHARE; SAVEPOINT batch",
        home.table(TARGET),
        relations.join(", "),
    );
    let answers = client.simple_query(&begin).await?;
    let holder = |answer: &SimpleQueryMessage| {
        let SimpleQueryMessage::Row(row) = answer else {
            return None;
        };
        let text = |index| row.get(index).unwrap_or_default().to_owned();
        Some(Holder {
            job: text(0),
            identity: text(1),
            incarnation: text(2).parse().map_or(u32::MAX, incarnation),
            claimant: text(3),
        })
    };
    let holders: Vec<Holder> = answers.iter().filter_map(holder).collect();
    Ok(guard.check(&holders).map(Some)?)
}

/// A text in SQL, whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The statement that stores how far a shard is; never less than before. Takes the identity, the
/// shard, and arrays of role, topic, partition and next offset.
pub(super) fn apply(home: &Home) -> String {
    format!(
        "INSERT INTO {} AS a (identity, role, topic, partition, shard, next_offset)
         SELECT $1::text, r, t, p, $2::bigint, n
           FROM unnest($3::text[], $4::text[], $5::bigint[], $6::bigint[]) AS v(r, t, p, n)
         ON CONFLICT (identity, role, topic, partition, shard)
         DO UPDATE SET next_offset = greatest(a.next_offset, excluded.next_offset)",
        home.table(APPLIED)
    )
}

/// Raises the number of the last checkpoint.
pub(super) async fn note(target: &Target, mut guard: Guard, number: u64) -> Result<(), Halt> {
    let place = format!("{}/note", guard.incarnation());
    let client = target.connect(&place).await?;
    let Some(home) = home::find(target, &client).await? else {
        return Err(guard.check(&[]).map(|_| ()).expect_err("no row").into());
    };
    let identity = begin(&client, &home, &target.sql_names(), &mut guard).await?;
    if let Some(identity) = identity {
        let raise = format!(
            "INSERT INTO {} AS c (identity, number) VALUES ($1, $2)
             ON CONFLICT (identity) DO UPDATE SET number = greatest(c.number, excluded.number)",
            home.table(CHECKPOINT)
        );
        client
            .execute(&raise, &[&identity, &signed(number)])
            .await?;
    }
    fault::io_point("target.note.before").map_err(Halt::ordered)?;
    client.batch_execute("COMMIT").await?;
    fault::io_point("target.note.after").map_err(Halt::ordered)
}

/// Replaces what is told of generations.
pub(super) async fn generations(
    target: &Target,
    mut guard: Guard,
    generations: &[GenerationNote],
) -> Result<(), Halt> {
    let place = format!("{}/note", guard.incarnation());
    let client = target.connect(&place).await?;
    let Some(home) = home::find(target, &client).await? else {
        return Err(guard.check(&[]).map(|_| ()).expect_err("no row").into());
    };
    let identity = begin(&client, &home, &target.sql_names(), &mut guard).await?;
    if let Some(identity) = identity {
        let table = home.table(GENERATION);
        let old = format!("DELETE FROM {table} WHERE identity = $1");
        client.execute(&old, &[&identity]).await?;
        let new = format!(
            "INSERT INTO {table} (identity, number, id, stage, since_ms) \
             VALUES ($1, $2, $3, $4, $5)"
        );
        for note in generations {
            let (number, since_ms) = (i64::from(note.number), note.since_ms.map(signed));
            let stage = note.stage.word();
            client
                .execute(&new, &[&identity, &number, &note.id, &stage, &since_ms])
                .await?;
        }
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}
