//! Readers of the view, and of blue's table beside it, all the time.
//!
//! Invariant: each look is one statement, with the times before and after it; a look that does not
//! find every row ends the reader, and with it the test.
//!
//! It cannot see what happens between two looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls, Row};

use super::KEYS;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// One look at all rows.
struct Look {
    begun: Instant,
    ended: Instant,
    /// The table that the view stood on.
    colour: String,
    /// Of each key.
    counters: Vec<u32>,
}

/// The readers.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    view: JoinHandle<Vec<Look>>,
    blue: JoinHandle<Vec<Look>>,
}

/// What they saw.
pub(crate) struct Seen {
    view: Vec<Look>,
    blue: Vec<Look>,
    /// How much older than blue's table the view was at most, by what it stood on.
    behind: BTreeMap<String, Duration>,
}

impl Watch {
    /// Starts both; the view is there.
    pub(crate) fn start(url: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let reader = |query: &'static str, points: bool| {
            let (url, stop) = (url.to_owned(), Arc::clone(&stop));
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(looks(&url, query, points, &stop))
            })
        };
        Self {
            view: reader("SELECT id, greeting, colour FROM hello_view", true),
            blue: reader("SELECT id, greeting, 'blue' FROM hello_blue", false),
            stop,
        }
    }

    /// Ends them; panics when one did not find a row.
    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let view = self.view.join().expect("each look found each row");
        let blue = self.blue.join().expect("each look found each row");
        let mut behind = BTreeMap::new();
        for look in &view {
            let most: &mut Duration = behind.entry(look.colour.clone()).or_default();
            *most = (*most).max(look.behind(&blue));
        }
        Seen { view, blue, behind }
    }
}

impl Look {
    /// For how long blue had held, at the begin of this look, a counter that it does not show.
    fn behind(&self, blue: &[Look]) -> Duration {
        let before = blue.partition_point(|look| look.ended <= self.begun);
        let ahead = blue[..before].iter().rev().take_while(|look| {
            let mut pairs = look.counters.iter().zip(&self.counters);
            pairs.any(|(blue, here)| blue > here)
        });
        let first = ahead.last().map(|look| self.begun - look.ended);
        first.unwrap_or_default()
    }
}

impl Seen {
    /// The counts.
    pub(crate) fn json(&self) -> Value {
        let of = |colour: &str| {
            self.view
                .iter()
                .filter(|look| look.colour == colour)
                .count()
        };
        let behind = self.behind.iter();
        let behind = behind.map(|(colour, most)| (colour.clone(), json!(most.as_secs_f64())));
        let gaps = self
            .view
            .windows(2)
            .map(|pair| pair[1].ended - pair[0].ended);
        let moves = self.view.windows(2);
        json!({
            "blue_table": self.blue.len(),
            "view_on_blue": of("blue"),
            "view_on_green": of("green"),
            "moves": moves.filter(|pair| pair[0].colour != pair[1].colour).count(),
            "seconds_between_looks_max": gaps.max().unwrap_or_default().as_secs_f64(),
            "seconds_behind_blue_max": behind.collect::<serde_json::Map<_, _>>(),
        })
    }

    /// How much older than blue's table the view was at most while it stood on this.
    pub(crate) fn behind(&self, colour: &str) -> Duration {
        self.behind.get(colour).copied().unwrap_or_default()
    }

    /// Asserts that the view stood on both, and was never older than blue by more than this.
    pub(crate) fn assert_fresh(&self, lag_max: Duration) {
        let said = self.json();
        let moves = self.view.windows(2);
        let moves = moves.filter(|pair| pair[0].colour != pair[1].colour);
        assert_eq!(moves.count(), 3, "to green, back, and again: {said:#}");
        assert!(self.blue.len() > 100, "{said:#}");
        for (colour, most) in &self.behind {
            assert!(*most <= lag_max, "on {colour}: {said:#}");
        }
        let (first, last) = (self.blue.first(), self.blue.last());
        let newest = |look: Option<&Look>| look.map(|look| look.counters.iter().max().copied());
        assert!(
            newest(first) < newest(last),
            "nothing was written: {said:#}"
        );
        for pair in self
            .view
            .windows(2)
            .filter(|pair| pair[0].colour == pair[1].colour)
        {
            let mut pairs = pair[0].counters.iter().zip(&pair[1].counters);
            assert!(
                pairs.all(|(before, after)| before <= after),
                "a row of {} went back",
                pair[0].colour
            );
        }
    }
}

async fn looks(url: &str, query: &str, points: bool, stop: &AtomicBool) -> Vec<Look> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("connected");
    let connection = tokio::spawn(connection);
    let mut looks = Vec::new();
    let mut random = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let rows = client.query(query, &[]).await.expect("it can be read");
        let ended = Instant::now();
        let (colour, counters) = read(&rows);
        looks.push(Look {
            begun,
            ended,
            colour,
            counters,
        });
        if points {
            point_reads(&client, &mut random).await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    drop(client);
    connection.await.expect("no panic").expect("a good end");
    looks
}

/// The counters of all rows, which must be there, and the table they are from.
fn read(rows: &[Row]) -> (String, Vec<u32>) {
    let mut counters = vec![None; KEYS as usize];
    let mut colours: Vec<&str> = rows.iter().map(|row| row.get(2)).collect();
    colours.dedup();
    assert_eq!(colours.len(), 1, "rows of {colours:?}");
    for row in rows {
        let (id, greeting): (i32, &str) = (row.get(0), row.get(1));
        let at = usize::try_from(id - 1).expect("keys begin at 1");
        counters[at] = Some(greeting.parse().expect("a counter"));
    }
    let missing = counters.iter().filter(|one| one.is_none()).count();
    assert_eq!(missing, 0, "rows of {KEYS} that {} lacks", colours[0]);
    (
        colours[0].to_owned(),
        counters.into_iter().flatten().collect(),
    )
}

/// Two keys at random, found by the primary key.
async fn point_reads(client: &Client, random: &mut u64) {
    for _ in 0..2 {
        // A generator of full period; its upper bits are good enough.
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let id = i32::try_from((*random >> 33) % u64::from(KEYS) + 1).expect("small");
        let query = "SELECT greeting FROM hello_view WHERE id = $1";
        let found = client.query(query, &[&id]).await.expect("it can be read");
        assert_eq!(found.len(), 1, "row {id}");
    }
}
