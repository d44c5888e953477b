//! The demo's snapshot: reads the table in chunks while writes go on, and delivers late.
//!
//! The first half of the READs is delivered as it is read; the rest is held back, and the last
//! third comes only after the writers have stopped and the job was killed and restored, so that
//! many are stale on arrival, by mutations that only a checkpoint remembers.

use super::source::Source;
use super::stage::Stage;
use super::topics::{self, Envelope, PartitionWriters};
use crate::cli::DemoArgs;
use crate::error::Error;
use crate::run::FIRST_GENERATION;
use crate::signals::Stop;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const CHUNK: u64 = 500;

/// Reads and delivers.
pub(super) struct Snapshot<'a> {
    source: &'a Source,
    stage: &'a Stage,
    /// Of the writers.
    time: Duration,
    keys: u64,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(source: &'a Source, stage: &'a Stage, args: &DemoArgs) -> Self {
        Snapshot {
            source,
            stage,
            time: Duration::from_secs(args.seconds),
            keys: args.keys,
        }
    }

    /// Waits a moment, then reads chunk by chunk and delivers, and ends the snapshot topic.
    pub(super) fn run(&self, stop: &Stop) -> Result<(), Error> {
        let started = Instant::now();
        pause(self.time.mul_f64(0.1), stop);
        let db = self.source.connect()?;
        let mut topic = PartitionWriters::open(&topics::snapshot(self.source.folder()))?;
        let mut held: VecDeque<(u64, String)> = VecDeque::new();
        let failed = |error: rusqlite::Error| {
            Error::failed("the demo's snapshot").line(format!("found     {error}"))
        };
        let mut chunk = db
            .prepare("SELECT id, greeting FROM hello WHERE id > ?1 AND id <= ?2 ORDER BY id")
            .map_err(failed)?;
        let (mut from, mut delivered) = (0, 0);
        while from < self.keys && !stop.requested() {
            // Each chunk is a moment of its own; all are read by two thirds of the time.
            let part = from as f64 / self.keys as f64;
            let due = self.time.mul_f64(0.1 + 0.4 * part);
            pause(due.saturating_sub(started.elapsed()), stop);
            let rows = chunk
                .query_map([from, from + CHUNK], |row| Ok((row.get(0)?, row.get(1)?)))
                .map_err(failed)?;
            for row in rows {
                let (id, greeting): (u64, String) = row.map_err(failed)?;
                // The first half of the keys at once, the rest late.
                if id <= self.keys / 2 {
                    read(&mut topic, id, &greeting)?;
                    delivered += 1;
                } else {
                    held.push_back((id, greeting));
                }
            }
            topic.flush()?;
            from += CHUNK;
        }
        self.stage.half_delivered(delivered);
        // A sixth of the keys before the writers stop, the last third after.
        pause(
            self.time.mul_f64(0.8).saturating_sub(started.elapsed()),
            stop,
        );
        let after = held.len() * 2 / 3;
        while held.len() > after {
            deliver(&mut topic, &mut held)?;
        }
        topic.flush()?;
        while !(self.source.log_done() && self.stage.is_restored() || stop.requested()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        while !held.is_empty() {
            deliver(&mut topic, &mut held)?;
        }
        topic.end_of_snapshot(FIRST_GENERATION)
    }
}

fn deliver(topic: &mut PartitionWriters, held: &mut VecDeque<(u64, String)>) -> Result<(), Error> {
    match held.pop_front() {
        Some((id, greeting)) => read(topic, id, &greeting),
        None => Ok(()),
    }
}

fn read(topic: &mut PartitionWriters, id: u64, greeting: &str) -> Result<(), Error> {
    topic.read(&Envelope {
        op: "r",
        id,
        greeting: Some(greeting),
    })
}

fn pause(time: Duration, stop: &Stop) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.requested() {
        std::thread::sleep(Duration::from_millis(5).min(until - Instant::now()));
    }
}
