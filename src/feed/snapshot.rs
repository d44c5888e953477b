//! The feed of the snapshot topics on one worker: a feed for each generation, opened and closed
//! while the job runs.
//!
//! Invariant: a partition is read for one generation at a time, the newest that names its topic; a
//! topic that no open has named stays unread. A cut says how far all generations are at once.
//!
//! It cannot tell whether a READ is superseded: the merge drops those.

use super::FeedConfig;
use super::cuts::Cuts;
use super::pace::Pace;
use super::reads::add_up;
use super::topic::{Reading, TopicFeed};
use crate::checkpoint::Part;
use crate::generation::ReadsSeen;
use crate::table::Table;
use crate::topic::{Assignment, Waker};
use headwater_operators::control::{Command, PartitionStart, PartitionTarget};
use headwater_operators::record::RecordRef;
use headwater_operators::source::{Feed, PartitionEnd, Polled};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// See the module.
pub struct SnapshotFeeds {
    config: Rc<FeedConfig>,
    waker: Waker,
    feeds: BTreeMap<u32, TopicFeed>,
    /// Partitions of each of them, over all workers, by topic.
    partitions: BTreeMap<u32, BTreeMap<String, usize>>,
    /// The topics of their tables.
    topics: BTreeMap<u32, BTreeMap<u16, String>>,
    /// READs of generations that are not read any more.
    gone: BTreeMap<u32, Vec<ReadsSeen>>,
    pace: Rc<RefCell<Pace>>,
    cuts: Cuts,
    /// What the target had seen before a restart of topics that nobody reads any more.
    given_up: Vec<PartitionTarget>,
    /// Whether everything was read again that the target had seen.
    replayed: bool,
    /// Which feed reads first: another one at each poll.
    turn: usize,
    stopping: bool,
}

impl SnapshotFeeds {
    /// A feed that `waker` wakes and that reads nothing before an open.
    pub fn new(config: FeedConfig, waker: Waker) -> Self {
        SnapshotFeeds {
            pace: Rc::new(RefCell::new(Pace::new(config.reads_per_second_max))),
            config: Rc::new(config),
            waker,
            feeds: BTreeMap::new(),
            partitions: BTreeMap::new(),
            topics: BTreeMap::new(),
            gone: BTreeMap::new(),
            cuts: Cuts::default(),
            given_up: Vec::new(),
            replayed: false,
            turn: 0,
            stopping: false,
        }
    }

    fn open(&mut self, opened: Opened<'_>) {
        let generation = opened.generation;
        if self.stopping || self.feeds.contains_key(&generation) {
            return;
        }
        let tables = opened.tables_with_topics(&self.config.tables);
        let all = opened.assignments(&tables, &self.config.partitions);
        let mut counts = BTreeMap::new();
        for assignment in &all {
            *counts.entry(assignment.topic.clone()).or_default() += 1;
        }
        let topics: BTreeSet<String> = counts.keys().cloned().collect();
        let older: Vec<u32> = self.feeds.keys().copied().collect();
        for older in older {
            // Replays of them go over to the newer one.
            drop(self.leave(older, &topics));
        }
        let own = opened.tables.iter().filter_map(|table| {
            let topic = &tables.get(usize::from(*table))?.snapshot;
            Some((*table, topic.clone()))
        });
        self.topics.insert(generation, own.collect());
        let reading = Reading {
            generation,
            id: opened.id.to_owned(),
            tables,
            assignments: self.config.share(all),
            not_before_ms: opened.not_before_ms,
        };
        let (config, pace) = (Rc::clone(&self.config), Rc::clone(&self.pace));
        let mut feed = TopicFeed::new(config, reading, pace, self.waker.clone());
        if self.replayed {
            feed.replayed();
        }
        self.feeds.insert(generation, feed);
        self.partitions.insert(generation, counts);
        self.share();
    }

    /// A generation leaves topics alone from now on.
    fn leave(&mut self, generation: u32, topics: &BTreeSet<String>) -> Vec<PartitionTarget> {
        if let Some(counts) = self.partitions.get_mut(&generation) {
            counts.retain(|topic, _| !topics.contains(topic));
        }
        let feed = self.feeds.get_mut(&generation);
        feed.map_or_else(Vec::new, |feed| feed.leave(topics))
    }

    /// A generation goes on without a table, whose topic may be what is wrong with it.
    fn drop_table(&mut self, generation: u32, table: u16) {
        let Some(topics) = self.topics.get_mut(&generation) else {
            return;
        };
        let Some(dropped) = topics.remove(&table) else {
            return;
        };
        // Tables may share a topic.
        if topics.values().all(|topic| *topic != dropped) {
            let unread = self.leave(generation, &BTreeSet::from([dropped]));
            self.given_up.extend(unread);
            self.share();
        }
    }

    fn close(&mut self, generation: u32, aborted: bool) {
        if !aborted {
            if let Some(feed) = self.feeds.get_mut(&generation) {
                feed.close();
            }
            return;
        }
        let Some(mut feed) = self.feeds.remove(&generation) else {
            return;
        };
        self.partitions.remove(&generation);
        self.topics.remove(&generation);
        let topics = feed.topics();
        self.given_up.extend(feed.leave(&topics));
        self.gone.insert(generation, feed.reads().to_vec());
        let mut counters = self.config.counters.borrow_mut();
        counters.partitions.remove(&generation);
        drop(counters);
        self.share();
    }

    /// Tells the pace which share of the READs is this worker's.
    fn share(&mut self) {
        let mine = self.feeds.values().map(TopicFeed::partitions).sum();
        let all = self.partitions.values().flat_map(BTreeMap::values).sum();
        self.pace.borrow_mut().share(mine, all);
    }

    /// How far every partition is: called at a cut, before anything is read behind it.
    fn cut(&mut self, number: u64) {
        let mut reads = self.gone.clone();
        for (generation, feed) in &self.feeds {
            add_up(reads.entry(*generation).or_default(), feed.reads());
        }
        self.config.outbox.put(Part::Read {
            number,
            worker: self.config.worker,
            role: self.config.role,
            partitions: self.feeds.values().flat_map(TopicFeed::states).collect(),
            reads,
            dead_letters: Vec::new(),
            shapes: self.config.gate.shapes(),
        });
    }
}

impl Feed for SnapshotFeeds {
    fn command(&mut self, _tick: u64, command: &Command) {
        match command {
            Command::Open {
                generation,
                tables,
                id,
                topics,
                partitions,
                not_before_ms,
                ..
            } => self.open(Opened {
                generation: *generation,
                tables,
                id,
                topics,
                partitions,
                not_before_ms: *not_before_ms,
            }),
            Command::Freeze { generation, ends } => {
                if let Some(feed) = self.feeds.get_mut(generation) {
                    feed.set_ends(*generation, ends);
                }
            }
            Command::Close {
                generation,
                aborted,
            } => self.close(*generation, *aborted),
            Command::ReadRate {
                per_second_max,
                paused,
            } => self.pace.borrow_mut().set(*per_second_max, *paused),
            Command::Checkpoint { number } => {
                if let Some(number) = self.cuts.command(*number) {
                    self.cut(number);
                }
            }
            Command::Replayed { .. } => {
                self.replayed = true;
                self.feeds.values_mut().for_each(TopicFeed::replayed);
            }
            Command::Stop => {
                self.stopping = true;
                self.feeds.values_mut().for_each(TopicFeed::stop);
            }
            Command::DropTable { generation, table } => self.drop_table(*generation, *table),
            Command::SetTtl { .. }
            | Command::Target { .. }
            | Command::Look { .. }
            | Command::Shutdown
            | Command::Verdict { .. } => {}
        }
    }

    fn extra_bytes(&self) -> usize {
        if self.feeds.values().any(TopicFeed::replaying) {
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
        ends.extend(self.given_up.drain(..).map(|of| unread(of, tick)));
        let count = self.feeds.len();
        let first = self.turn.checked_rem(count).unwrap_or(0);
        self.turn = self.turn.wrapping_add(1);
        let (mut left_bytes, mut more, mut stopped) = (budget_bytes, false, true);
        // Everyone gets an equal share of what those before it have left.
        for turn in 0..count {
            let place = (first + turn) % count;
            let Some(feed) = self.feeds.values_mut().nth(place) else {
                continue;
            };
            let share_bytes = left_bytes.div_ceil(count - turn).max(1);
            let (has_more, bytes) = feed.poll(tick, share_bytes, give, ends);
            left_bytes = left_bytes.saturating_sub(bytes);
            more |= has_more;
            stopped &= feed.stopped();
        }
        let behind = self.feeds.values().any(TopicFeed::behind);
        self.config.counters.borrow_mut().behind = behind;
        if let Some(number) = self.cuts.polled(stopped) {
            self.cut(number);
        }
        if more { Polled::More } else { Polled::Idle }
    }
}

/// Nobody waits for what is not read any more.
fn unread(target: PartitionTarget, tick: u64) -> PartitionEnd {
    PartitionEnd {
        mutations: false,
        replayed: true,
        generation: 0,
        topic: target.topic,
        partition: target.partition,
        end: target.end,
        tick,
    }
}

/// An open, as it was told.
struct Opened<'c> {
    generation: u32,
    tables: &'c [u16],
    id: &'c str,
    topics: &'c [(u16, String)],
    partitions: &'c [PartitionStart],
    not_before_ms: i64,
}

impl Opened<'_> {
    /// The tables of the job, with the topics of this generation.
    fn tables_with_topics(&self, configured: &[Table]) -> Vec<Table> {
        let mut tables = configured.to_vec();
        for (table, topic) in self.topics {
            if let Some(table) = tables.get_mut(usize::from(*table)) {
                table.snapshot.clone_from(topic);
            }
        }
        tables
    }

    /// Every partition that is read; those of the configuration when it names no topics.
    fn assignments(&self, tables: &[Table], configured: &[Assignment]) -> Vec<Assignment> {
        if !self.topics.is_empty() {
            let assignment = |start: &PartitionStart| Assignment {
                topic: start.topic.clone(),
                partition: start.partition,
                next_offset: start.next_offset,
            };
            return self.partitions.iter().map(assignment).collect();
        }
        let own = self.tables.iter().copied().map(usize::from);
        let own = own.filter_map(|table| tables.get(table));
        let own: BTreeSet<&str> = own.map(|table| table.snapshot.as_str()).collect();
        let of_own = |assignment: &&Assignment| own.contains(assignment.topic.as_str());
        configured.iter().filter(of_own).cloned().collect()
    }
}
