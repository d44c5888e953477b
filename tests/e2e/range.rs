//! A range of keys that no snapshot contains, its writer, and a reader that polls the sink for it
//! all the time.
//!
//! Invariant: the writer's numbers grow with each commit, so a row that shows a smaller number
//! than before, or the number that it had before it was deleted, went back.
//!
//! It cannot tell a delete that was seen twice from two deletes, nor blame the sink for a key that
//! went back in the topic itself: [`Topic::went_back`] says which did, as Debezium repeats itself
//! after some restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::{Client, Error, NoTls};

use crate::benchmark::Benchmark;
use crate::postgres::Load;
use crate::records;

/// The first key of the range; those of the snapshot are below.
const FIRST: u64 = 10_001;
const KEYS: u64 = 40;
const WRITES_PER_SECOND: u64 = 150;
const PAUSE: Duration = Duration::from_millis(5);
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Makes what the writer counts with.
pub(crate) fn prepare(benchmark: &Benchmark) {
    benchmark.sql("create sequence public.hello_number");
}

/// The writer: one session, so that numbers are committed in their order.
pub(crate) fn load(seconds: u64, deletes_percent: u64) -> Load {
    Load {
        first: FIRST,
        keys: KEYS,
        greeting: "'number ' || nextval('public.hello_number')",
        clients: 1,
        seconds,
        rate_per_second: WRITES_PER_SECOND,
        deletes_percent,
    }
}

/// Writes one row, on a key that the writer leaves alone; returns its number.
pub(crate) fn write_one(benchmark: &Benchmark) -> u64 {
    let id = FIRST + KEYS;
    benchmark.sql(&format!(
        "insert into public.hello values ({id}, 'number ' || nextval('public.hello_number'))
         on conflict (id) do update set greeting = excluded.greeting"
    ));
    let greeting = benchmark.sql(&format!(
        "select greeting from public.hello where id = {id}"
    ));
    number(&greeting).expect("written above")
}

fn number(greeting: &str) -> Option<u64> {
    greeting.strip_prefix("number ")?.parse().ok()
}

/// Where a key is in its history: twice its number, and one more once it was seen to be gone.
type Place = u64;

/// A row that went back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Back {
    /// Its key.
    pub(crate) id: u64,
    /// The starts of the job until it was seen.
    starts: u64,
    from: Place,
    to: Place,
}

impl Back {
    /// For the report.
    pub(crate) fn json(&self) -> Value {
        json!({
            "id": self.id,
            "after_starts": self.starts,
            "from_number": self.from / 2,
            "and_deleted": self.from % 2 == 1,
            "to_number": self.to / 2,
        })
    }
}

/// What the reader has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Times that it read the range.
    pub(crate) polls: u64,
    /// Times that it had to connect anew.
    pub(crate) reconnects: u64,
    /// Changes of rows.
    pub(crate) changes: u64,
    /// The greatest number.
    pub(crate) number: u64,
    /// Rows that went back, each time.
    pub(crate) backs: Vec<Back>,
    /// Set by the test: how often it has started the job.
    pub(crate) starts: u64,
    places: BTreeMap<u64, Place>,
}

impl Seen {
    /// Takes the rows of one poll.
    fn take(&mut self, rows: &BTreeMap<u64, u64>) {
        self.polls += 1;
        for (id, place) in &mut self.places {
            if !rows.contains_key(id) {
                *place |= 1;
            }
        }
        for (&id, &number) in rows {
            self.number = self.number.max(number);
            let to = number * 2;
            let before = self.places.insert(id, to);
            match before {
                Some(from) if to < from => self.backs.push(Back {
                    id,
                    starts: self.starts,
                    from,
                    to,
                }),
                Some(from) if to == from => {}
                _ => self.changes += 1,
            }
        }
    }

    /// Keys that went back.
    pub(crate) fn keys_back(&self) -> BTreeSet<u64> {
        self.backs.iter().map(|back| back.id).collect()
    }

    /// Keys that were ever seen.
    pub(crate) fn keys(&self) -> usize {
        self.places.len()
    }
}

/// The reader; it ends when dropped.
pub(crate) struct Reader {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Begins to read the range in a database.
    pub(crate) fn start(url: String) -> Self {
        let (seen, stop) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let (see, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                while !stopped.load(Ordering::Relaxed) {
                    // It ends when the server is restarted, and when it is told to.
                    let ended = poll(&url, &see, &stopped).await;
                    lock(&see).reconnects += u64::from(ended.is_err());
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                }
            });
        });
        Self {
            seen,
            stop,
            thread: Some(thread),
        }
    }

    /// What it has seen so far.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if ended.is_err() && !thread::panicking() {
                panic!("the reader of the range panicked");
            }
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn poll(url: &str, seen: &Mutex<Seen>, stopped: &AtomicBool) -> Result<(), Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    while !stopped.load(Ordering::Relaxed) {
        let rows = rows(&client).await?;
        lock(seen).take(&rows);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Numbers by key, of one moment.
async fn rows(client: &Client) -> Result<BTreeMap<u64, u64>, Error> {
    let query = format!("select id::int8, greeting from public.hello where id >= {FIRST}");
    let rows = client.query(&query, &[]).await?;
    let row = |row: &tokio_postgres::Row| {
        let (id, greeting): (i64, &str) = (row.get(0), row.get(1));
        let number = number(greeting).unwrap_or_else(|| panic!("not ours: `{greeting}`"));
        (id.unsigned_abs(), number)
    };
    Ok(rows.iter().map(row).collect())
}

/// What the mutation topic holds of the range.
#[derive(Debug, Default)]
pub(crate) struct Topic {
    /// Records with a row.
    pub(crate) upserts: u64,
    /// Records that say that a row is gone.
    pub(crate) deletes: u64,
    /// Keys whose numbers went back in the topic.
    pub(crate) went_back: BTreeSet<u64>,
}

impl Topic {
    /// Reads it.
    pub(crate) fn read(benchmark: &Benchmark) -> Self {
        let mut topic = Self::default();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        records::values(&benchmark.kafka, &benchmark.mutations(), |key, value| {
            let key: Value = serde_json::from_slice(key).expect("Debezium writes JSON");
            let Some(id) = key["id"].as_u64().filter(|&id| id >= FIRST) else {
                return;
            };
            if value.is_empty() {
                return;
            }
            let value: Value = serde_json::from_slice(value).expect("Debezium writes JSON");
            match value["after"]["greeting"].as_str().and_then(number) {
                None => topic.deletes += 1,
                Some(number) => {
                    topic.upserts += 1;
                    // Equal is a repetition, too: a delete may lie between.
                    if last.insert(id, number).is_some_and(|last| number <= last) {
                        topic.went_back.insert(id);
                    }
                }
            }
        });
        topic
    }
}

#[test]
fn a_row_that_goes_back_is_seen() {
    let mut seen = Seen::default();
    let rows = |rows: &[(u64, u64)]| rows.iter().copied().collect();
    for poll in [
        &[(1, 5), (2, 6)][..],
        &[(1, 7), (2, 6)],
        &[(1, 7)],
        &[(2, 8)],
    ] {
        seen.take(&rows(poll));
    }
    assert!(seen.backs.is_empty(), "{seen:?}");
    assert_eq!((seen.keys(), seen.number, seen.changes), (2, 8, 4));
    // An older row; and a row as it was before it was deleted.
    seen.take(&rows(&[(2, 6)]));
    seen.take(&rows(&[(1, 7), (2, 9)]));
    assert_eq!(seen.keys_back(), BTreeSet::from([1, 2]), "{seen:?}");
}
