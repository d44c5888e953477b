//! Shows the three cases of the retained window as they happen, on a clock that is moved by hand:
//! * inside: a READ behind a newer mutation of its key meets that mutation's marker and is dropped;
//! * ahead: a READ before the mutation is emitted early, and the mutation brings the row again;
//! * behind: the READ comes when the marker is forgotten. Nothing can tell that it is stale, so it
//!   goes to the quarantine and the run ends as refused. Kept until ready, no marker is forgotten.
//!
//! `cargo run --release --example retained_window`

use headwater::clock::ManualClock;
use headwater::embed::Embedded;
use headwater::error::Error;
use headwater::job::{Job, Shown};
use headwater::launch;
use headwater::outcome::judge;
use headwater::sink::{
    Applied, Change, Place, ReplaySafety, Row, RowForm, Sink, WriteError, Writer, row,
};
use headwater::topic::memory::{MemoryTopics, OwnedRecord};
use headwater_operators::time::Clock;
use std::sync::Arc;
use std::thread::{sleep, spawn};
use std::time::Duration;

/// Says what reaches the target.
struct Printed;

impl Sink for Printed {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn writer(&self, _place: Place) -> Result<Box<dyn Writer>, Error> {
        Ok(Box::new(Printed))
    }
}

impl Writer for Printed {
    fn write(&mut self, rows: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        for row in rows {
            let key = String::from_utf8_lossy(row.key);
            if let Change::Upsert(value) = row.change {
                let columns = row::columns(value).ok().flatten();
                let greeting = columns.and_then(|columns| columns.get("greeting"));
                println!("           target: {key} is {}", greeting.unwrap_or("?"));
            }
        }
        Ok(())
    }
}

/// A running job and the hand on its clock.
struct Play {
    topics: MemoryTopics,
    clock: Arc<ManualClock>,
    job: Arc<Job>,
    appended: u64,
}

impl Play {
    /// Appends a record, then lets time pass until the job has decided and written it.
    fn append(&mut self, topic: &str, op: &str, id: u32, greeting: &str) -> Result<(), Error> {
        let minutes = self.clock.now_ms() / 60_000;
        let what = if op == "r" { "READ" } else { "mutation" };
        println!("  {minutes:>3} min  {what} of {id}: \"{greeting}\"");
        let (key, row) = (
            format!(r#"{{"id":{id}}}"#),
            format!(r#"{{"greeting":"{greeting}"}}"#),
        );
        let source = r#"{"schema":"public","table":"hello"}"#;
        let value = format!(r#"{{"op":"{op}","before":null,"after":{row},"source":{source}}}"#);
        let before = self.job.panel.shown();
        self.topics
            .append(topic, 0, OwnedRecord::new(Some(&key), Some(&value)));
        self.appended += 1;
        let after = self.rest()?;
        let more = |count: fn(&Shown) -> u64| count(&after) > count(&before);
        if more(|shown| shown.counts.reads_dropped_marker) {
            println!("           dropped: its key has a marker of a newer mutation");
        }
        if more(|shown| shown.counts.reads_quarantined) {
            println!("           quarantined: a marker of its key may have been forgotten");
        }
        Ok(())
    }

    /// Moves the clock in small steps until everything appended is decided, and written.
    fn rest(&self) -> Result<Shown, Error> {
        let begun_at = self.clock.now_ms();
        let mut decided_at = None;
        loop {
            self.clock.advance(20);
            sleep(Duration::from_millis(1));
            if let Some(error) = self.job.failures.first() {
                return Err(error);
            }
            let shown = self.job.panel.shown();
            let counts = &shown.counts;
            let decided = counts.mutations_emitted
                + counts.reads_emitted
                + counts.reads_dropped_marker
                + counts.reads_quarantined;
            match decided_at {
                None if decided == self.appended && shown.now_ms > begun_at => {
                    decided_at = Some(self.clock.now_ms());
                }
                Some(at) if shown.durable_ms > at => return Ok(shown),
                _ => {}
            }
        }
    }
}

/// Plays the three cases under one policy.
fn play(retention: &str) -> Result<(), Error> {
    println!("[retention] {retention}");
    let (topics, clock) = (MemoryTopics::default(), Arc::new(ManualClock::default()));
    topics.create("mutations", 1);
    topics.create("snapshot", 1);
    let folder = std::env::temp_dir().join(format!("headwater-window-{}", std::process::id()));
    let config = format!(
        "[[table]]
         name = \"public.hello\"
         mutations = \"mutations\"
         snapshot = \"snapshot\"
         [quarantine]
         path = {folder:?}
         [retention]
         {retention}"
    );
    let job = Embedded::new(config)
        .topics(topics.clone())
        .clock(clock.clone());
    let job = job.sink(Printed).without_checkpoints().job()?;
    let running = Arc::clone(&job);
    let worker = spawn(move || launch::local(&running, 1, || ()));
    let mut play = Play {
        topics,
        clock,
        job,
        appended: 0,
    };

    println!(" inside the window");
    play.append("mutations", "u", 1, "new")?;
    play.append("snapshot", "r", 1, "old")?;
    println!(" ahead of the mutations");
    play.append("snapshot", "r", 2, "early")?;
    play.append("mutations", "u", 2, "later")?;
    println!(" behind the window");
    play.clock.advance(2 * 3_600_000);
    play.rest()?;
    play.append("snapshot", "r", 1, "old")?;

    play.topics
        .append("snapshot", 0, OwnedRecord::end_of_snapshot("g1"));
    while !worker.is_finished() {
        play.clock.advance(20);
        sleep(Duration::from_millis(1));
    }
    worker.join().expect("a worker never panics")?;
    match judge(&play.job.panel.shown(), &play.job.settings) {
        Ok(_) => println!(" the run ends ready, exit code 0\n"),
        Err(error) => println!(
            " the run ends with exit code {}\n{error}\n",
            error.kind.exit_code()
        ),
    }
    // The quarantined READ is in there; a real job keeps it.
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

fn main() -> Result<(), Error> {
    play("keep_markers = \"ttl\"\n         ttl = \"1h\"")?;
    play("keep_markers = \"until_ready\"")
}
