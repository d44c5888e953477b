//! The feed of one role or one generation on one worker: its partitions, its reader, its ends.
//!
//! Invariant: what [`TopicFeed::states`] says is exact at the moment of the call: nothing is read
//! between a poll and the next.
//!
//! It cannot read two generations, nor know when one is opened or over: who owns it says so.

use super::ends::Ends;
use super::one::One;
use super::pace::Pace;
use super::reads::Reads;
use super::{FeedConfig, FeedCounters, PartitionRead, SourceTimes};
use crate::checkpoint::give_up::way_out;
use crate::checkpoint::manifest::PartitionState;
use crate::decode::unavailable::Placeholders;
use crate::decode::{Decoder, TopicId};
use crate::error::Error;
use crate::generation::ReadsSeen;
use crate::table::{Role, Table};
use crate::topic::{Assignment, Reader, Waker};
use headwater_operators::control::PartitionTarget;
use headwater_operators::record::RecordRef;
use headwater_operators::source::PartitionEnd;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// What one feed reads.
pub(super) struct Reading {
    /// The generation; 0 for mutations.
    pub(super) generation: u32,
    /// The id that its end-of-snapshot records must carry.
    pub(super) id: String,
    /// The tables, with its own topics.
    pub(super) tables: Vec<Table>,
    /// The partitions of this worker.
    pub(super) assignments: Vec<Assignment>,
    /// READs that were read before it are of an older run; 0: none is.
    pub(super) not_before_ms: i64,
}

/// See the module.
pub(super) struct TopicFeed {
    config: Rc<FeedConfig>,
    reading: Reading,
    /// Who it is in messages.
    name: String,
    topics: Vec<TopicId>,
    decoder: Decoder,
    waker: Waker,
    reader: Option<Box<dyn Reader>>,
    /// Frozen ends of the generation, or targets of generations.
    ends: BTreeMap<u32, Ends>,
    pace: Rc<RefCell<Pace>>,
    /// The generation is over: what goes wrong here ends no job.
    closed: bool,
    stopping: bool,
    stopped: bool,
    troubled: bool,
    behind: bool,
    placeholders: Placeholders,
    times: Vec<SourceTimes>,
    reads: Reads,
    /// What the target had seen before a restart, until it is read again.
    replays: Ends,
    replaying: bool,
}

impl TopicFeed {
    /// A feed that `waker` wakes and that reads from now on.
    pub(super) fn new(
        config: Rc<FeedConfig>,
        reading: Reading,
        pace: Rc<RefCell<Pace>>,
        waker: Waker,
    ) -> Self {
        let ends = Ends::new(&reading.assignments);
        let mut replays = ends.clone();
        replays.set(&config.replay);
        let (role, generation) = (config.role, reading.generation);
        let time = |a: &Assignment| {
            let place = (a.topic.clone(), a.partition);
            config.source_times.get(&place).copied().unwrap_or_default()
        };
        let mut feed = TopicFeed {
            name: match generation {
                0 | 1 => config.name.clone(),
                _ => format!("{}, generation {}", config.name, reading.id),
            },
            topics: Vec::new(),
            decoder: config.decoder(&reading.tables),
            waker,
            reader: None,
            ends: match role {
                Role::Snapshot => BTreeMap::from([(generation, ends)]),
                Role::Mutations => BTreeMap::new(),
            },
            pace,
            closed: false,
            stopping: false,
            stopped: false,
            troubled: false,
            behind: false,
            placeholders: Placeholders::default(),
            times: reading.assignments.iter().map(time).collect(),
            reads: Reads::default(),
            replaying: replays.waiting(),
            replays,
            reading,
            config,
        };
        feed.start();
        feed
    }

    /// Makes the reader.
    fn start(&mut self) {
        self.topics.clear();
        for assignment in &self.reading.assignments {
            match self.decoder.topic(self.config.role, &assignment.topic) {
                Some(topic) => self.topics.push(topic),
                None => return self.fail(unknown_topic(&self.reading.id, assignment)),
            }
        }
        self.reader = None;
        if self.reading.assignments.is_empty() {
            return self.show_offsets();
        }
        let topics = &self.config.topics;
        match topics.reader(&self.reading.assignments, Arc::clone(&self.waker)) {
            Ok(mut reader) => {
                if self.config.role == Role::Snapshot {
                    reader.want_runs();
                }
                self.reader = Some(reader);
            }
            Err(error) => return self.fail(error),
        }
        self.freeze_reader();
        self.show_offsets();
    }

    /// Leaves topics alone from now on. What the target had seen of them before a restart and was
    /// not read again is given back.
    pub(super) fn leave(&mut self, topics: &BTreeSet<String>) -> Vec<PartitionTarget> {
        let stays: Vec<bool> = self
            .reading
            .assignments
            .iter()
            .map(|assignment| !topics.contains(&assignment.topic))
            .collect();
        if stays.iter().all(|stays| *stays) {
            return Vec::new();
        }
        let unread = self.replays.unreported();
        let unread = unread.filter(|target| topics.contains(&target.topic));
        let unread = unread.collect();
        for (index, assignment) in self.reading.assignments.iter_mut().enumerate() {
            assignment.next_offset = next_offset(self.reader.as_deref(), index, assignment);
        }
        keep(&mut self.reading.assignments, &stays);
        keep(&mut self.times, &stays);
        self.replays.keep(&stays);
        for ends in self.ends.values_mut() {
            ends.keep(&stays);
        }
        self.start();
        unread
    }

    /// The topics that it reads.
    pub(super) fn topics(&self) -> BTreeSet<String> {
        let topics = self.reading.assignments.iter();
        topics.map(|assignment| assignment.topic.clone()).collect()
    }

    /// How far every partition is.
    pub(super) fn states(&self) -> Vec<PartitionState> {
        let states = self.reading.assignments.iter().enumerate();
        let state = |(index, assignment): (usize, &Assignment)| PartitionState {
            role: self.config.role,
            topic: assignment.topic.clone(),
            partition: assignment.partition,
            next_offset: next_offset(self.reader.as_deref(), index, assignment),
            end: match self.config.role {
                Role::Snapshot => self.ends.values().find_map(|ends| ends.end(index)),
                // Those are of generations, and not of the partition.
                Role::Mutations => None,
            },
            first_source_ms: self.times[index].first_ms,
            last_source_ms: self.times[index].last_ms,
        };
        states.map(state).collect()
    }

    /// The READs that were read.
    pub(super) fn reads(&self) -> &[ReadsSeen] {
        self.reads.seen()
    }

    /// Partitions that it reads.
    pub(super) fn partitions(&self) -> usize {
        self.reading.assignments.len()
    }

    /// Takes the frozen ends, or the mutation targets, of a generation.
    pub(super) fn set_ends(&mut self, generation: u32, targets: &[PartitionTarget]) {
        let assignments = &self.reading.assignments;
        let ends = self.ends.entry(generation);
        ends.or_insert_with(|| Ends::new(assignments)).set(targets);
        if self.config.role == Role::Snapshot {
            self.freeze_reader();
        }
    }

    /// Nobody waits for the targets of a generation any more.
    pub(super) fn forget_ends(&mut self, generation: u32) {
        self.ends.remove(&generation);
    }

    fn freeze_reader(&mut self) {
        let Some(reader) = self.reader.as_mut() else {
            return;
        };
        if self.config.role == Role::Snapshot {
            for (index, end) in self.ends.values().flat_map(Ends::known) {
                reader.freeze(index, end);
            }
        }
    }

    /// The generation is over; late READs are still looked for.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Nothing is read from the next poll on.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Everything that was replayed, by all workers, is behind.
    pub(super) fn replayed(&mut self) {
        self.replaying = false;
        self.replays = Ends::new(&self.reading.assignments);
    }

    /// Whether what the target had seen is still read again, somewhere.
    pub(super) fn replaying(&self) -> bool {
        self.replaying
    }

    /// Whether more may be at hand than was read.
    pub(super) fn behind(&self) -> bool {
        self.behind && !self.closed
    }

    /// Whether nothing will be read any more.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    fn fail(&mut self, error: Error) {
        self.stopped = true;
        if !self.closed {
            let error = match self.config.role {
                Role::Snapshot => error.line(way_out(&self.reading.id)),
                Role::Mutations => error,
            };
            self.config.failures.report(error);
            return;
        }
        // Its topic may be deleted or unreadable: the generation stands without it.
        let text = format!("late READs are not looked for any more: {}", error.text);
        self.config.panel.trouble(&self.name, Some(text));
    }

    /// Shows what keeps the reader from reading, or that nothing does any more.
    fn show_trouble(&mut self) {
        let trouble = self.reader.as_ref().and_then(|reader| reader.trouble());
        if trouble.is_some() || self.troubled {
            self.troubled = trouble.is_some();
            self.config.panel.trouble(&self.name, trouble);
        }
    }

    /// Shows how far it is; called after each poll.
    fn show_offsets(&self) {
        let mut counters = self.config.counters.borrow_mut();
        let shown = counters.partitions.entry(self.reading.generation);
        let shown = shown.or_default();
        if shown.len() != self.reading.assignments.len() {
            let fresh = |assignment: &Assignment| PartitionRead {
                topic: assignment.topic.as_str().into(),
                partition: assignment.partition,
                next_offset: assignment.next_offset,
                times: SourceTimes::default(),
            };
            *shown = self.reading.assignments.iter().map(fresh).collect();
        }
        for (index, partition) in shown.iter_mut().enumerate() {
            if let Some(reader) = &self.reader {
                partition.next_offset = reader.next_offset(index);
            }
            partition.times = self.times[index];
        }
    }

    /// Reads once: bytes, and the rows that were given.
    fn read(
        &mut self,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(usize, u64), Error> {
        let Some(reader) = self.reader.as_mut() else {
            return Ok((0, 0));
        };
        let mut counters = self.config.counters.borrow_mut();
        let counters: &mut FeedCounters = &mut counters;
        let Reading { generation, id, .. } = &self.reading;
        let mut one = One {
            role: self.config.role,
            dead_letters: self.config.decode.dead_letters,
            assignments: &self.reading.assignments,
            topics: &self.topics,
            generation: (*generation, id),
            not_before_ms: self.reading.not_before_ms,
            closed: self.closed,
            ends: match self.config.role {
                Role::Snapshot => self.ends.get_mut(generation),
                Role::Mutations => None,
            },
            decoder: &mut self.decoder,
            placeholders: (!self.config.pass_unavailable).then_some(&self.placeholders),
            times: &mut self.times,
            reads: &mut self.reads,
            counters,
            rows: 0,
        };
        let bytes = reader.poll(budget_bytes, &mut |index, raw| {
            one.record(index, &raw, give)
        });
        let rows = one.rows;
        counters.rows += rows;
        *counters.generations.entry(*generation).or_default() += rows;
        Ok((bytes?, rows))
    }

    /// Reads as much as the pace allows; whether more may be at hand now, and the bytes.
    fn read_limited(
        &mut self,
        tick: u64,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<(bool, usize), Error> {
        let allowed = self.pace.borrow_mut().allow(tick);
        let Some(mut allowed) = allowed else {
            let (bytes, _) = self.read(budget_bytes, give)?;
            self.behind = bytes > 0;
            return Ok((bytes > 0, bytes));
        };
        self.behind = true;
        let mut total_bytes = 0;
        while allowed > 0 && total_bytes < budget_bytes {
            // A budget of one byte gives one record.
            let (bytes, given) = self.read(1, give)?;
            if bytes == 0 && given == 0 {
                self.behind = false;
                break;
            }
            total_bytes += bytes.max(1);
            allowed = allowed.saturating_sub(given);
            self.pace.borrow_mut().used(given);
        }
        // What is left waits for the next tick, which activates the operator.
        Ok((false, total_bytes))
    }

    /// Reads about `budget_bytes` of what is at hand; whether there may be more now, and the bytes
    /// that were read.
    pub(super) fn poll(
        &mut self,
        tick: u64,
        budget_bytes: usize,
        give: &mut dyn FnMut(RecordRef<'_>),
        reached: &mut Vec<PartitionEnd>,
    ) -> (bool, usize) {
        // A replay is read to its end first: what the sink holds of it would never be written.
        let held = self.config.replay_held && self.replays.waiting();
        self.stopped |= self.stopping && !held;
        if self.stopped {
            if self.closed {
                // Its reader has failed, and nobody may wait for what it will not read.
                self.replays
                    .give_up(tick, &mut |of| reached.push(replayed(of)));
            }
            return (false, 0);
        }
        // A replay goes on: what the sink holds of it would wait for it.
        if self.pace.borrow().paused() && !held {
            self.behind = true;
            return (false, 0);
        }
        let read = self.read_limited(tick, budget_bytes, give);
        self.show_offsets();
        match read {
            Ok((more, bytes)) => {
                self.report_ends(tick, reached);
                if !more {
                    self.show_trouble();
                    self.behind |= self.troubled;
                }
                (more, bytes)
            }
            Err(error) => {
                self.fail(error);
                (false, 0)
            }
        }
    }

    fn report_ends(&mut self, tick: u64, reached: &mut Vec<PartitionEnd>) {
        let Some(reader) = &self.reader else { return };
        let mutations = self.config.role == Role::Mutations;
        for (generation, ends) in &mut self.ends {
            let end = |end: PartitionEnd| PartitionEnd {
                mutations,
                generation: *generation,
                ..end
            };
            ends.reached(&**reader, tick, &mut |of| reached.push(end(of)));
        }
        let end = |of: PartitionEnd| PartitionEnd {
            mutations,
            ..replayed(of)
        };
        let replays = &mut self.replays;
        replays.reached(&**reader, tick, &mut |of| reached.push(end(of)));
    }
}

fn replayed(end: PartitionEnd) -> PartitionEnd {
    PartitionEnd {
        replayed: true,
        ..end
    }
}

/// Where an assignment goes on.
fn next_offset(reader: Option<&dyn Reader>, index: usize, assignment: &Assignment) -> u64 {
    reader.map_or(assignment.next_offset, |reader| reader.next_offset(index))
}

/// Leaves out what does not stay.
fn keep<T>(list: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    list.retain(|_| stays.next().copied().unwrap_or(true));
}

fn unknown_topic(id: &str, assignment: &Assignment) -> Error {
    Error::failed(format!(
        "generation {id} was opened with a partition of a topic that none of its tables has"
    ))
    .line(format!(
        "found     topic {} partition {}",
        assignment.topic, assignment.partition
    ))
    .line("this is a bug: please report it")
}
