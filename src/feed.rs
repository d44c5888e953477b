//! Feeds a source operator: reads one role's partitions on one worker, decodes, and knows when a
//! partition has been read to its end.
//!
//! Invariant: a READ is read only after the open of its generation has passed control here; a
//! record behind a frozen end leaves as late, never as a READ. After an error nothing more is read,
//! and the offset of the record at hand is not passed.
//!
//! It cannot block: pausing is not polling.

mod ends;
mod rate;

use crate::checkpoint::manifest::PartitionState;
use crate::checkpoint::{Outbox, Part};
use crate::decode::unavailable::Placeholders;
use crate::decode::{Decoded, Decoder, Ignored, TopicId};
use crate::error::Error;
use crate::failure::Failures;
use crate::fault;
use crate::job::Panel;
use crate::key::KeyGate;
use crate::table::Role;
use crate::topic::{Assignment, RawRecord, Reader, Topics, Waker};
use ends::Ends;
use headwater_operators::control::{Command, PartitionTarget};
use headwater_operators::record::{Op, RecordRef};
use headwater_operators::source::{Feed, PartitionEnd, Polled};
use rate::Rate;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// For a planted bug alone: offsets are taken so many polls after the cut, behind the markers.
const LATE_POLLS: u32 = 10;

/// What one feed has read.
#[derive(Clone, Debug, Default)]
pub struct FeedCounters {
    /// Rows given to the dataflow.
    pub rows: u64,
    /// Bytes of key and value read.
    pub bytes: u64,
    /// Whether more may be at hand than was read: throttled, or brokers are away.
    pub behind: bool,
    /// Records that are no row, by kind.
    pub ignored: BTreeMap<Ignored, u64>,
}

/// What a feed needs.
pub struct FeedConfig {
    /// Mutations or snapshot.
    pub role: Role,
    /// The partitions of this worker.
    pub assignments: Vec<Assignment>,
    /// The id that an end-of-snapshot record must carry.
    pub generation_id: String,
    /// READs a second of the whole job; `None`: as fast as they come. Mutations are never limited.
    pub reads_per_second_max: Option<u64>,
    /// Partitions of the role over all workers.
    pub partitions_of_role: usize,
    /// Where topics are read.
    pub topics: Arc<dyn Topics>,
    /// Whether a mutation with a placeholder of an unchanged column is passed on.
    pub pass_unavailable: bool,
    /// Decodes this worker's records.
    pub decoder: Decoder,
    /// Where errors go.
    pub failures: Arc<Failures>,
    /// Where trouble is shown that is no error.
    pub panel: Arc<Panel>,
    /// Who this feed is in messages.
    pub name: String,
    /// Where counts go.
    pub counters: Rc<RefCell<FeedCounters>>,
    /// The worker, for its parts of checkpoints.
    pub worker: usize,
    /// What this process knows of keys.
    pub gate: Arc<KeyGate>,
    /// Where its parts of checkpoints go.
    pub outbox: Outbox,
    /// How far the target had seen these partitions before a restart.
    pub replay: Vec<PartitionTarget>,
    /// Bytes that a replay may have in flight beyond the budget.
    pub replay_bytes_max: usize,
    /// Whether the sink holds the replay: then it is read to its end whatever else is asked.
    pub replay_held: bool,
}

/// See the module.
pub struct TopicFeed {
    config: FeedConfig,
    topics: Vec<TopicId>,
    waker: Waker,
    reader: Option<Box<dyn Reader>>,
    ends: Ends,
    generation: u32,
    rate: Option<Rate>,
    paused: bool,
    stopping: bool,
    stopped: bool,
    troubled: bool,
    placeholders: Placeholders,
    /// What the target had seen before a restart, until it is read again.
    replays: Ends,
    replaying: bool,
    /// For a planted bug alone: a cut whose offsets are taken too late.
    late_cut: Option<(u64, u32)>,
}

impl TopicFeed {
    /// A feed that `waker` wakes. A mutation feed reads at once, a snapshot feed when its
    /// generation opens.
    pub fn new(config: FeedConfig, waker: Waker) -> Self {
        let mut topics = Vec::new();
        for assignment in &config.assignments {
            let topic = config.decoder.topic(config.role, &assignment.topic);
            topics.push(topic.expect("assignments are made from the topics of the tables"));
        }
        let ends = Ends::new(&config.assignments);
        let mut replays = Ends::new(&config.assignments);
        replays.set(&config.replay);
        let rate = rate(&config, config.reads_per_second_max);
        let reader = None;
        let generation = 0;
        let mut feed = TopicFeed {
            config,
            topics,
            waker,
            reader,
            ends,
            generation,
            rate,
            paused: false,
            stopping: false,
            stopped: false,
            placeholders: Placeholders::default(),
            troubled: false,
            replaying: replays.waiting(),
            replays,
            late_cut: None,
        };
        if feed.config.role == Role::Mutations {
            feed.start();
        }
        feed
    }

    fn start(&mut self) {
        if self.reader.is_some() || self.config.assignments.is_empty() {
            return;
        }
        match self
            .config
            .topics
            .reader(&self.config.assignments, Arc::clone(&self.waker))
        {
            Ok(reader) => self.reader = Some(reader),
            Err(error) => self.fail(error),
        }
    }

    /// For a planted bug alone: the cut, some polls after its command.
    fn cut_late(&mut self) {
        match &mut self.late_cut {
            Some((_, polls)) if *polls > 0 => *polls -= 1,
            Some((number, _)) => {
                let number = *number;
                self.late_cut = None;
                self.cut(number);
            }
            None => {}
        }
    }

    /// How far every partition is: called at a cut, before anything is read behind it.
    fn cut(&mut self, number: u64) {
        let states = self.config.assignments.iter().enumerate();
        let partitions = states.map(|(index, assignment)| PartitionState {
            role: self.config.role,
            topic: assignment.topic.clone(),
            partition: assignment.partition,
            next_offset: match &self.reader {
                Some(reader) => reader.next_offset(index),
                None => assignment.next_offset,
            },
            end: match self.config.role {
                Role::Snapshot => self.ends.end(index),
                // Targets are sampled anew by each run.
                Role::Mutations => None,
            },
        });
        self.config.outbox.put(Part::Read {
            number,
            worker: self.config.worker,
            role: self.config.role,
            partitions: partitions.collect(),
            shapes: self.config.gate.shapes(),
        });
    }

    fn fail(&mut self, error: Error) {
        self.stopped = true;
        self.config.failures.report(error);
    }

    /// Shows what keeps the reader from reading, or that nothing does any more.
    fn show_trouble(&mut self) {
        let trouble = self.reader.as_ref().and_then(|reader| reader.trouble());
        if trouble.is_some() || self.troubled {
            self.troubled = trouble.is_some();
            self.config.panel.trouble(&self.config.name, trouble);
        }
    }

    /// Reads once; `Ok(bytes)`.
    fn read(
        &mut self,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<usize, Error> {
        let Some(reader) = self.reader.as_mut() else {
            return Ok(0);
        };
        let mut counters = self.config.counters.borrow_mut();
        let mut one = One {
            config: (
                self.config.role,
                &self.config.assignments,
                &self.config.generation_id,
            ),
            topics: &self.topics,
            ends: &mut self.ends,
            decoder: &mut self.config.decoder,
            placeholders: (!self.config.pass_unavailable).then_some(&self.placeholders),
            generation: self.generation,
            counters: &mut counters,
        };
        reader.poll(budget_bytes, &mut |index, raw| {
            one.record(index, &raw, give)
        })
    }

    fn read_limited(
        &mut self,
        tick: u64,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<usize, Error> {
        let Some(rate) = self.rate.as_mut() else {
            let bytes = self.read(budget_bytes, give)?;
            self.config.counters.borrow_mut().behind = bytes > 0;
            return Ok(bytes);
        };
        let mut behind = true;
        let mut allowed = rate.allow(tick);
        let mut total_bytes = 0;
        while allowed > 0 && total_bytes < budget_bytes {
            // A budget of one byte gives one record.
            let rows = self.config.counters.borrow().rows;
            let bytes = self.read(1, give)?;
            let given = self.config.counters.borrow().rows - rows;
            if bytes == 0 && given == 0 {
                behind = false;
                break;
            }
            total_bytes += bytes.max(1);
            allowed = allowed.saturating_sub(given);
            if let Some(rate) = self.rate.as_mut() {
                rate.used(given);
            }
        }
        self.config.counters.borrow_mut().behind = behind;
        // What is left waits for the next tick, which activates the operator.
        Ok(0)
    }
}

impl Feed for TopicFeed {
    fn command(&mut self, _tick: u64, command: &Command) {
        match command {
            Command::Open { generation, .. } if self.config.role == Role::Snapshot => {
                self.generation = *generation;
                self.start();
            }
            Command::Freeze { ends: targets, .. } if self.config.role == Role::Snapshot => {
                self.ends.set(targets);
                if let Some(reader) = self.reader.as_mut() {
                    for (index, end) in self.ends.known() {
                        reader.freeze(index, end);
                    }
                }
            }
            Command::Target { targets, .. } if self.config.role == Role::Mutations => {
                self.ends.set(targets);
            }
            Command::ReadRate {
                per_second_max,
                paused,
            } if self.config.role == Role::Snapshot => {
                self.rate = rate(&self.config, *per_second_max);
                self.paused = *paused;
            }
            Command::Checkpoint { number } => match fault::planted("offsets-ahead") {
                true => self.late_cut = Some((*number, LATE_POLLS)),
                false => self.cut(*number),
            },
            Command::Replayed { .. } => self.replaying = false,
            Command::Stop => self.stopping = true,
            _ => {}
        }
    }

    fn extra_bytes(&self) -> usize {
        if self.replaying {
            self.config.replay_bytes_max
        } else {
            0
        }
    }

    fn poll(
        &mut self,
        tick: u64,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
        ends: &mut Vec<PartitionEnd>,
    ) -> Polled {
        // A replay is read to its end first: what the sink holds of it would never be written.
        let held = self.config.replay_held && self.replays.waiting();
        self.stopped |= self.stopping && !held;
        if self.stopped {
            if let Some((number, _)) = self.late_cut.take() {
                self.cut(number);
            }
            return Polled::Idle;
        }
        // A replay goes on: what the sink holds of it would wait for it.
        if self.paused && !held {
            self.config.counters.borrow_mut().behind = true;
            return Polled::Idle;
        }
        match self.read_limited(tick, budget_bytes, give) {
            Ok(bytes) => {
                self.cut_late();
                if let Some(reader) = &self.reader {
                    let mutations = self.config.role == Role::Mutations;
                    let at = (mutations, tick);
                    self.ends.reached(&**reader, at, false, ends);
                    self.replays.reached(&**reader, at, true, ends);
                }
                if bytes > 0 {
                    Polled::More
                } else {
                    self.show_trouble();
                    self.config.counters.borrow_mut().behind |= self.troubled;
                    Polled::Idle
                }
            }
            Err(error) => {
                self.fail(error);
                Polled::Idle
            }
        }
    }
}

/// This feed's share of a rate.
fn rate(config: &FeedConfig, per_second_max: Option<u64>) -> Option<Rate> {
    let limited = per_second_max.filter(|_| config.role == Role::Snapshot);
    limited.map(|all| Rate::share(all, config.assignments.len(), config.partitions_of_role))
}

/// The parts of a feed that one record needs.
struct One<'f> {
    config: (Role, &'f [Assignment], &'f str),
    topics: &'f [TopicId],
    ends: &'f mut Ends,
    decoder: &'f mut Decoder,
    /// What no mutation may hold; none when it is passed on.
    placeholders: Option<&'f Placeholders>,
    generation: u32,
    counters: &'f mut FeedCounters,
}

impl One<'_> {
    fn record(
        &mut self,
        index: usize,
        raw: &RawRecord<'_>,
        give: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(), Error> {
        let (role, assignments, generation_id) = self.config;
        let assignment = &assignments[index];
        let at = || {
            format!(
                "{}[{}]@{}",
                assignment.topic, assignment.partition, raw.offset
            )
        };
        self.counters.bytes +=
            (raw.key.map_or(0, <[u8]>::len) + raw.value.map_or(0, <[u8]>::len)) as u64;
        if let (Role::Snapshot, Some(id)) = (role, raw.end_of_snapshot) {
            return end_record(self.ends, index, raw.offset, id, generation_id, &at());
        }
        let topic = self.topics[index];
        match self.decoder.decode(topic, raw) {
            Ok(Decoded::Row {
                table,
                op,
                fingerprint,
                key,
                value,
                read_time_ms,
            }) => {
                if op == Op::Upsert && self.placeholders.is_some_and(|p| p.are_in(value)) {
                    return Err(unavailable(&at()));
                }
                let late = op == Op::Read && self.ends.is_late(index, raw.offset);
                self.counters.rows += 1;
                give(RecordRef {
                    fingerprint,
                    op: if late { Op::Late } else { op },
                    table: u16::try_from(table).expect("a job has fewer than 65,536 tables"),
                    generation: if role == Role::Snapshot {
                        self.generation
                    } else {
                        0
                    },
                    partition: assignment.partition,
                    offset: raw.offset,
                    read_time_ms,
                    key,
                    value,
                });
                Ok(())
            }
            Ok(Decoded::Ignored(kind)) => {
                *self.counters.ignored.entry(kind).or_default() += 1;
                Ok(())
            }
            Ok(Decoded::Truncate { .. }) => Err(truncated(&at())),
            Err(error) => Err(error.at(&assignment.topic, assignment.partition, raw.offset)),
        }
    }
}

fn end_record(
    ends: &mut Ends,
    index: usize,
    offset: u64,
    id: &[u8],
    generation_id: &str,
    at: &str,
) -> Result<(), Error> {
    if id != generation_id.as_bytes() {
        return Err(Error::refused(format!(
            "{at}: an end-of-snapshot record of another generation"
        ))
        .line(format!("found     {}", String::from_utf8_lossy(id)))
        .line(format!("expected  {generation_id}"))
        .line("A snapshot topic belongs to one generation: give this one a topic of its own."));
    }
    ends.end_record(index, offset);
    Ok(())
}

fn unavailable(at: &str) -> Error {
    Error::refused(format!("{at}: a mutation without all its columns"))
        .line("found     Debezium's unavailable value: a large column that the UPDATE left alone")
        .line("expected  whole rows: the READ that holds the column would be dropped for this key")
        .line("ALTER TABLE … REPLICA IDENTITY FULL, and start a new snapshot; or pass the")
        .line("placeholder on to the target with `sink.unavailable = \"pass\"`.")
}

fn truncated(at: &str) -> Error {
    Error::refused(format!("{at}: TRUNCATE"))
        .line("It has no key and stands in one partition only, so no order against the mutations")
        .line("of other partitions is known, and markers cannot stand for it.")
        .line("Truncate the target, start a new snapshot, and run the job anew on both topics")
        .line("from behind this offset.")
}
