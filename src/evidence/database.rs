//! The source database: its position, and how far the slot of the live connector is.
//!
//! Invariant: a position is one that every transaction committed before the question has passed
//! (the end of the log, on a primary), never a smaller one. What was running was asked before it.
//! A smaller one that is still safe, the end of the last commit, PostgreSQL does not tell: the
//! written log (`pg_current_wal_flush_lsn`) lacks commits that are visible with
//! `synchronous_commit = off`.
//!
//! It blocks some seconds at most and is used off the workers. It cannot speak TLS, and asks
//! PostgreSQL alone; a standby does not know how far its primary is.

use super::slot::end_of_log;
use crate::config::secret::Plain;
use crate::error::Error;
use crate::postgres_session;
use crate::sink::postgres::{reason, shown};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

/// Of a question and of a connect. It is asked again in a second.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Each transaction with an id holds a lock of it, from before its first record in the log to after
/// its commit is there; everyone may see them.
const RUNNING: &str = "
    SELECT transactionid::text FROM pg_locks
     WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted";

const NOW: &str = "
    SELECT pg_is_in_recovery(),
           CASE WHEN NOT pg_is_in_recovery()
                THEN (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::text END,
           (extract(epoch FROM clock_timestamp()) * 1000)::int8,
           current_setting('wal_block_size')::int8,
           pg_size_bytes(current_setting('wal_segment_size'))";

const SLOTS: &str = "
    SELECT slot_name::text, (confirmed_flush_lsn - '0/0'::pg_lsn)::text, active
      FROM pg_replication_slots
     WHERE slot_type = 'logical' AND database = current_database()
       AND confirmed_flush_lsn IS NOT NULL
     ORDER BY slot_name";

/// What the database has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Transactions that had an id, just before the position was asked for.
    pub running: BTreeSet<u32>,
    /// The end of its log, as a number; none on a standby.
    pub position: Option<u64>,
    /// Its clock, ms since 1970.
    pub clock_ms: i64,
    /// It is a standby.
    pub standby: bool,
    /// The connection that it came over, counted.
    pub connection: u64,
    /// The slot of the live connector.
    pub slot: Option<Slot>,
}

/// A logical slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// What its connector has said to be done with: in Kafka, and its offset written down.
    pub confirmed: u64,
    /// Its connector streams.
    pub active: bool,
}

/// A connection, made anew when it is lost.
pub(super) struct Database {
    config: Config,
    runtime: Runtime,
    client: Option<Client>,
    /// Counts connections: behind a new one there may be another server.
    connections: u64,
}

impl Database {
    /// For `source.database`; none when that is no PostgreSQL.
    ///
    /// # Errors
    /// Of usage, when the address cannot be read or asks for TLS.
    pub(super) fn new(url: &Plain) -> Result<Option<Database>, Error> {
        let url = url.expose();
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Ok(None);
        }
        let config = postgres_session::config("source.database", url, "headwater/evidence")?;
        let runtime = postgres_session::runtime()?;
        Ok(Some(Database {
            config,
            runtime,
            client: None,
            connections: 0,
        }))
    }

    /// Asks once. `slot`: the name of the live connector's slot, where that is known.
    ///
    /// # Errors
    /// When it does not answer in time; the next question connects again.
    pub(super) fn ask(&mut self, slot: Option<&str>) -> Result<Said, Error> {
        let Database {
            config,
            runtime,
            client,
            connections,
        } = self;
        let answered = runtime.block_on(async {
            let question = async {
                if client.as_ref().is_none_or(Client::is_closed) {
                    let (made, connection) = config.connect(NoTls).await?;
                    // Its end shows in the client's next call.
                    tokio::spawn(connection);
                    *client = Some(made);
                    *connections += 1;
                }
                let client = client.as_ref().expect("made above");
                let said = answer(client, slot).await?;
                Ok(Said {
                    connection: *connections,
                    ..said
                })
            };
            tokio::time::timeout(ANSWER_WAIT, question).await
        });
        let name = shown(&self.config);
        let failed = |why: String| {
            Error::failed(format!("cannot ask PostgreSQL at {name}"))
                .line(why)
                .line("Check that it runs, source.database, and the rights of its user.")
        };
        match answered {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(error)) => {
                self.client = None;
                Err(failed(reason(&error)))
            }
            Err(_) => {
                self.client = None;
                Err(failed(format!("no answer in {} s", ANSWER_WAIT.as_secs())))
            }
        }
    }
}

async fn answer(client: &Client, slot: Option<&str>) -> Result<Said, tokio_postgres::Error> {
    let running = client.query(RUNNING, &[]).await?;
    let running = running
        .iter()
        .filter_map(|row| row.get::<_, &str>(0).parse().ok());
    let now = client.query_one(NOW, &[]).await?;
    let position: Option<&str> = now.get(1);
    let position = position.and_then(|text| text.parse().ok());
    let size = |column| u64::try_from(now.get::<_, i64>(column)).unwrap_or(0);
    let rows = client.query(SLOTS, &[]).await?;
    let slots = rows.iter().filter_map(|row| {
        let confirmed: &str = row.get(1);
        Some(Slot {
            name: row.get(0),
            confirmed: confirmed.parse().ok()?,
            active: row.get::<_, Option<bool>>(2).unwrap_or(false),
        })
    });
    Ok(Said {
        connection: 0,
        standby: now.get(0),
        running: running.collect(),
        position: position.map(|insert| end_of_log(insert, size(3), size(4))),
        clock_ms: now.get(2),
        slot: chosen(slots.collect(), slot),
    })
}

/// The slot of the live connector: the one of that name; without a name the slowest of all, active
/// or not (that of a paused connector is not), which may be another connector's and is then too old
/// but never too young.
fn chosen(slots: Vec<Slot>, name: Option<&str>) -> Option<Slot> {
    let mut slots = slots.into_iter();
    match name {
        Some(name) => slots.find(|slot| slot.name == name),
        None => slots.min_by_key(|slot| slot.confirmed),
    }
}

#[cfg(test)]
mod tests {
    use super::{Database, Slot, chosen};
    use crate::config::secret::Secret;

    #[test]
    fn the_slot_that_is_meant() {
        let slot = |name: &str, confirmed, active| Slot {
            name: name.to_owned(),
            confirmed,
            active,
        };
        let slots = vec![slot("a", 5, false), slot("b", 9, true), slot("c", 7, true)];
        let found = |name| chosen(slots.clone(), name).map(|slot| slot.name);
        assert_eq!(found(Some("a")).as_deref(), Some("a"));
        assert_eq!(found(Some("z")), None);
        assert_eq!(found(None).as_deref(), Some("a"), "a paused one counts");
    }

    #[test]
    fn what_is_no_postgres_is_not_asked() {
        let new = |url: &str| {
            let secret = Secret::url("source.database", url);
            Database::new(&secret.resolve().expect("no reference"))
        };
        assert!(matches!(new("source.sqlite"), Ok(None)));
        let refused = new("postgres://me:hidden@host/db?sslmode=require").err();
        let refused = refused.expect("it asks for TLS").text;
        assert!(
            refused.contains("TLS") && !refused.contains("hidden"),
            "{refused}"
        );
        let secret = Secret::url("source.database", "postgres://me:hidden@127.0.0.1:1/db");
        let mut away = Database::new(&secret.resolve().expect("plain")).expect("an address");
        let away = away
            .as_mut()
            .expect("PostgreSQL")
            .ask(None)
            .expect_err("nobody");
        assert!(away.text.contains("127.0.0.1:1/db"), "{away}");
        assert!(!away.text.contains("hidden"), "{away}");
    }
}
