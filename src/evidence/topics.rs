//! The thread that reads notification and heartbeat topics.
//!
//! Invariant: a topic is read from its first offset on, each time anew, on top of what is
//! remembered: what comes again does nothing (`scan`). What cannot be read is looked for again.
//!
//! It reads a topic that holds READs too, wholly, beside the workers that do: it passes them over.

use super::collector::{Shared, WatchedBySerial};
use super::notice::{self, Event};
use super::scan::{Told, fold};
use super::{Evidence, NoticesSeen, heartbeat, wall_ms};
use crate::error::Error;
use crate::topic::{Assignment, RawRecord, Reader, Start, Topics, Waker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that one poll gives, about.
const BUDGET_BYTES: usize = 1 << 20;
/// Polls of one follower in a turn, so that none keeps the others waiting.
const POLLS_MAX: u32 = 64;
/// A topic that is not there, or has failed, is looked for again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// Whether a topic has grown is looked for so often.
const GROWN: Duration = Duration::from_secs(30);

/// What is followed: the notifications of a generation, or heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    /// By its id and the serial number of its watch: each watch reads from the first offset.
    Generation(String, u64),
    Heartbeat,
}

/// A topic that is read.
struct Follower {
    topic: String,
    since_ms: Option<i64>,
    /// The snapshot topics of the generation.
    snapshot: Vec<String>,
    reader: Option<Box<dyn Reader>>,
    partitions: u32,
    /// When it is looked for, or looked at, again.
    next: Instant,
}

/// Follows topics until the collector is gone.
pub(super) fn run(shared: &Arc<Shared>, topics: &dyn Topics, heartbeat: Option<String>) {
    let mut followers: BTreeMap<Whose, Follower> = BTreeMap::new();
    let mut known = 0;
    while let Some(watched) = shared.watched() {
        let wanted = wanted(&watched, heartbeat.as_ref());
        followers.retain(|whose, _| wanted.contains_key(whose));
        for (whose, (topic, since_ms, snapshot)) in wanted {
            followers.entry(whose).or_insert_with(|| Follower {
                topic,
                since_ms,
                snapshot,
                reader: None,
                partitions: 0,
                next: Instant::now(),
            });
        }
        let mut more = false;
        for (whose, follower) in &mut followers {
            follower.open(shared, topics, whose);
            more |= follower.read(shared, whose);
        }
        if !more {
            shared.wait_news(&mut known);
        }
    }
}

fn wanted(
    watched: &WatchedBySerial,
    heartbeat: Option<&String>,
) -> BTreeMap<Whose, (String, Option<i64>, Vec<String>)> {
    let notices = watched
        .iter()
        .filter_map(|(generation, (serial, watched))| {
            let topic = watched.sources.notifications.clone()?;
            let whose = Whose::Generation(generation.clone(), *serial);
            Some((whose, (topic, watched.since_ms, watched.topics.clone())))
        });
    let heartbeat = heartbeat.map(|topic| (Whose::Heartbeat, (topic.clone(), None, Vec::new())));
    notices.chain(heartbeat).collect()
}

impl Follower {
    /// Makes a reader where there is none, or one of more partitions than the one there is.
    fn open(&mut self, shared: &Arc<Shared>, topics: &dyn Topics, whose: &Whose) {
        if Instant::now() < self.next {
            return;
        }
        match self.reader_of(shared, topics) {
            Ok(Some(reader)) => {
                self.reader = Some(reader);
                self.note(shared, whose, None);
            }
            Ok(None) => {}
            Err(error) if self.reader.is_none() => self.note(shared, whose, Some(error.text)),
            // What is open goes on.
            Err(_) => {}
        }
        let pause = if self.reader.is_some() { GROWN } else { AGAIN };
        self.next = Instant::now() + pause;
    }

    fn reader_of(
        &mut self,
        shared: &Arc<Shared>,
        topics: &dyn Topics,
    ) -> Result<Option<Box<dyn Reader>>, Error> {
        let count = topics.partition_count(&self.topic)?;
        if self.reader.is_some() && count == self.partitions {
            return Ok(None);
        }
        let starts = topics.starts(&self.topic, Start::Beginning)?;
        let assigned: Vec<Assignment> = (0..)
            .zip(&starts)
            .map(|(partition, next_offset)| Assignment {
                topic: self.topic.clone(),
                partition,
                next_offset: *next_offset,
            })
            .collect();
        let woken = Arc::downgrade(shared);
        let waker: Waker = Arc::new(move || {
            if let Some(shared) = woken.upgrade() {
                shared.news();
            }
        });
        let reader = topics.reader(&assigned, waker)?;
        self.partitions = u32::try_from(starts.len()).unwrap_or(u32::MAX);
        Ok(Some(reader))
    }

    /// Reads what is at hand. Whether there may be more.
    fn read(&mut self, shared: &Shared, whose: &Whose) -> bool {
        let Some(reader) = &mut self.reader else {
            return false;
        };
        let (since_ms, snapshot) = (self.since_ms, &self.snapshot);
        for _ in 0..POLLS_MAX {
            let mut found = Vec::new();
            let polled = reader.poll(BUDGET_BYTES, &mut |partition, record| {
                found.extend(Found::of(whose, partition, record));
                Ok(())
            });
            shared.tell(|evidence| {
                let told = |found: Found| found.tell(evidence, whose, (since_ms, snapshot));
                found.into_iter().for_each(told);
            });
            match polled {
                Ok(0) => {
                    let trouble = reader.trouble();
                    self.note(shared, whose, trouble);
                    return false;
                }
                Ok(_) => {}
                Err(error) => {
                    self.reader = None;
                    self.next = Instant::now() + AGAIN;
                    self.note(shared, whose, Some(error.text));
                    return false;
                }
            }
        }
        true
    }

    /// Notes that the topic was looked at, and what is wrong with it.
    fn note(&self, shared: &Shared, whose: &Whose, trouble: Option<String>) {
        let read_ms = self.reader.as_ref().map(|_| wall_ms());
        let order = format!(
            "the topic has {} partitions, so that notifications lose their order: give it one",
            self.partitions
        );
        shared.tell(|evidence| match whose {
            Whose::Heartbeat => {
                let seen = evidence.heartbeat.get_or_insert_default();
                seen.read_ms = read_ms.unwrap_or(seen.read_ms);
                seen.trouble = trouble;
            }
            Whose::Generation(generation, serial) => {
                let Some(seen) = notices(evidence, generation, *serial) else {
                    return;
                };
                seen.read_ms = read_ms.unwrap_or(seen.read_ms);
                seen.partitions = self.partitions;
                seen.trouble = trouble.or((self.partitions > 1).then_some(order));
            }
        });
    }
}

/// Of that watch of a generation: a later one reads by itself.
fn notices<'e>(
    evidence: &'e mut Evidence,
    generation: &str,
    serial: u64,
) -> Option<&'e mut NoticesSeen> {
    let seen = evidence.generations.get_mut(generation);
    seen.filter(|seen| seen.serial == serial)?.notices.as_mut()
}

/// What a record tells.
enum Found {
    Notice(notice::Notice, i64, (u32, u64)),
    Heartbeat(i64),
}

impl Found {
    fn of(whose: &Whose, partition: usize, record: RawRecord<'_>) -> Option<Found> {
        let value = record.value?;
        match whose {
            Whose::Heartbeat => heartbeat::parse(value).map(Found::Heartbeat),
            Whose::Generation(..) => {
                let notice = notice::parse(value)?;
                let sent_ms = notice.sent_ms.unwrap_or(record.timestamp_ms);
                let partition = u32::try_from(partition).unwrap_or(u32::MAX);
                Some(Found::Notice(notice, sent_ms, (partition, record.offset)))
            }
        }
    }

    fn tell(
        self,
        evidence: &mut Evidence,
        whose: &Whose,
        (since_ms, topics): (Option<i64>, &[String]),
    ) {
        match (self, whose) {
            (Found::Heartbeat(sent_ms), _) => {
                let seen = evidence.heartbeat.get_or_insert_default();
                seen.sent_ms = seen.sent_ms.max(Some(sent_ms));
            }
            (Found::Notice(notice, sent_ms, place), Whose::Generation(generation, serial)) => {
                let Some(seen) = notices(evidence, generation, *serial) else {
                    return;
                };
                let told = fold(&mut seen.scan, &notice, (sent_ms, since_ms), topics);
                if told == Told::LeftOut {
                    return;
                }
                match (&notice.event, seen.scan.completed_ms) {
                    (Event::Completed, Some(completed_ms)) if completed_ms == sent_ms => {
                        seen.completed_at = Some(place);
                    }
                    (_, None) => seen.completed_at = None,
                    _ => {}
                }
                seen.last = Some((notice.event.word().to_owned(), sent_ms));
            }
            (Found::Notice(..), Whose::Heartbeat) => {}
        }
    }
}
