//! The demo's source: a SQLite table under concurrent writers, with a change log.
//!
//! Triggers write the log in the same transaction as the row, and SQLite lets one transaction
//! write at a time, so the log's sequence is the commit order; one reader appends it to the
//! mutation topic in that order.

use super::topics::{self, Envelope, PartitionWriters};
use crate::cli::DemoArgs;
use crate::error::Error;
use crate::signals::Stop;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SCHEMA: &str = "
    CREATE TABLE hello (id INTEGER PRIMARY KEY, greeting TEXT NOT NULL);
    CREATE TABLE change_log (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL, id INTEGER NOT NULL,
        greeting TEXT);
    CREATE TRIGGER hello_c AFTER INSERT ON hello BEGIN
        INSERT INTO change_log (op, id, greeting) VALUES ('c', NEW.id, NEW.greeting);
    END;
    CREATE TRIGGER hello_u AFTER UPDATE ON hello BEGIN
        INSERT INTO change_log (op, id, greeting) VALUES ('u', NEW.id, NEW.greeting);
    END;
    CREATE TRIGGER hello_d AFTER DELETE ON hello BEGIN
        INSERT INTO change_log (op, id, greeting) VALUES ('d', OLD.id, NULL);
    END;";
const LOG_POLL: Duration = Duration::from_millis(5);
/// One write in so many is a delete.
const DELETE_EVERY: u64 = 10;
/// Writes in all, in halves of a key: 1.5 for each.
const WRITES_PER_TWO_KEYS: u64 = 3;

/// The source and how far its writers are.
pub(super) struct Source {
    folder: PathBuf,
    keys: u64,
    writers_done: AtomicBool,
    logged: AtomicU64,
    log_done: AtomicBool,
}

fn failed(what: &str) -> impl Fn(rusqlite::Error) -> Error + '_ {
    move |error| {
        Error::failed(format!("the demo's source: {what}")).line(format!("found     {error}"))
    }
}

impl Source {
    /// Makes the table with all keys; they are older than the change log.
    pub(super) fn create(folder: &Path, args: &DemoArgs) -> Result<Source, Error> {
        let source = Source {
            folder: folder.to_path_buf(),
            keys: args.keys,
            writers_done: AtomicBool::new(false),
            logged: AtomicU64::new(0),
            log_done: AtomicBool::new(false),
        };
        let mut db = source.connect()?;
        db.execute_batch("PRAGMA journal_mode = WAL")
            .map_err(failed("WAL"))?;
        let transaction = db.transaction().map_err(failed("filling"))?;
        transaction
            .execute_batch("CREATE TABLE filler (id INTEGER PRIMARY KEY, greeting TEXT NOT NULL)")
            .map_err(failed("filling"))?;
        {
            let mut insert = transaction
                .prepare("INSERT INTO filler (id, greeting) VALUES (?1, 'first ' || ?1)")
                .map_err(failed("filling"))?;
            for id in 1..=args.keys {
                insert.execute([id]).map_err(failed("filling"))?;
            }
        }
        // Filled before the triggers exist: the log knows nothing of these rows.
        transaction
            .execute_batch(&format!(
                "{SCHEMA} DROP TRIGGER hello_c; INSERT INTO hello SELECT * FROM filler;
                 DROP TABLE filler;
                 CREATE TRIGGER hello_c AFTER INSERT ON hello BEGIN
                     INSERT INTO change_log (op, id, greeting) VALUES ('c', NEW.id, NEW.greeting);
                 END;"
            ))
            .map_err(failed("filling"))?;
        transaction.commit().map_err(failed("filling"))?;
        Ok(source)
    }

    /// A connection that waits for its turn to write.
    pub(super) fn connect(&self) -> Result<Connection, Error> {
        let db = Connection::open(self.folder.join("source.db")).map_err(failed("opening"))?;
        db.busy_timeout(Duration::from_secs(30))
            .map_err(failed("opening"))?;
        db.execute_batch("PRAGMA synchronous = OFF")
            .map_err(failed("opening"))?;
        Ok(db)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn writers_done(&self) -> bool {
        self.writers_done.load(Ordering::Acquire)
    }

    /// Whether every change is in the mutation topic.
    pub(super) fn log_done(&self) -> bool {
        self.log_done.load(Ordering::Acquire)
    }

    /// Writes for the time given: upserts of random keys, one in ten a delete.
    pub(super) fn write(&self, args: &DemoArgs, stop: &Stop) -> Result<(), Error> {
        let writes = args.keys * WRITES_PER_TWO_KEYS / 2;
        let time = Duration::from_secs(args.seconds);
        let writers = args.writers.max(1) as u64;
        let result = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..writers)
                .map(|writer| {
                    scope.spawn(move || self.writer(writer, writes / writers, time, stop))
                })
                .collect();
            threads.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::failed("a writer panicked")))
            })
        });
        self.writers_done.store(true, Ordering::Release);
        result
    }

    fn writer(&self, writer: u64, writes: u64, time: Duration, stop: &Stop) -> Result<(), Error> {
        let db = self.connect()?;
        let mut upsert = db
            .prepare(
                "INSERT INTO hello (id, greeting) VALUES (?1, ?2)
                 ON CONFLICT (id) DO UPDATE SET greeting = excluded.greeting",
            )
            .map_err(failed("writing"))?;
        let mut delete = db
            .prepare("DELETE FROM hello WHERE id = ?1")
            .map_err(failed("writing"))?;
        let mut random = Random(writer + 1);
        let started = Instant::now();
        for number in 0..writes {
            if stop.requested() {
                break;
            }
            // Spread over the whole time, whatever a write takes.
            let due = time.mul_f64(number as f64 / writes as f64);
            std::thread::sleep(due.saturating_sub(started.elapsed()));
            let id = 1 + random.next() % self.keys;
            let result = if random.next().is_multiple_of(DELETE_EVERY) {
                delete.execute([id])
            } else {
                upsert.execute(rusqlite::params![
                    id,
                    format!("writer {writer} write {number}")
                ])
            };
            result.map_err(failed("writing"))?;
        }
        Ok(())
    }

    /// Appends the change log to the mutation topic until the writers are done and it is whole.
    pub(super) fn follow_log(&self, stop: &Stop) -> Result<(), Error> {
        let db = self.connect()?;
        let mut topic = PartitionWriters::open(&topics::mutations(&self.folder))?;
        let mut next = db
            .prepare("SELECT seq, op, id, greeting FROM change_log WHERE seq > ?1 ORDER BY seq")
            .map_err(failed("reading the change log"))?;
        let mut last = 0_i64;
        while !stop.requested() {
            let whole = self.writers_done();
            let mut rows = next
                .query([last])
                .map_err(failed("reading the change log"))?;
            let mut any = false;
            while let Some(row) = rows.next().map_err(failed("reading the change log"))? {
                any = true;
                let get = failed("reading the change log");
                last = row.get(0).map_err(&get)?;
                let (op, id): (String, u64) =
                    (row.get(1).map_err(&get)?, row.get(2).map_err(&get)?);
                let greeting: Option<String> = row.get(3).map_err(&get)?;
                topic.mutation(
                    &Envelope {
                        op: &op,
                        id,
                        greeting: greeting.as_deref(),
                    },
                    last,
                )?;
                self.logged.fetch_add(1, Ordering::Relaxed);
            }
            topic.flush()?;
            if whole && !any {
                break;
            }
            std::thread::sleep(LOG_POLL);
        }
        self.log_done.store(true, Ordering::Release);
        Ok(())
    }
}

/// A small generator (splitmix64), so that a demo repeats its choices.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
