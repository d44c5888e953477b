//! The feed of the mutation topics on one worker.
//!
//! Invariant: it reads from the start, and never waits for a READ; a partition may have targets of
//! several generations, each of which is reported once.
//!
//! It cannot be paused or limited.

use super::FeedConfig;
use super::cuts::Cuts;
use super::pace::Pace;
use super::topic::{Reading, TopicFeed};
use crate::checkpoint::Part;
use crate::topic::Waker;
use headwater_operators::control::Command;
use headwater_operators::record::RecordRef;
use headwater_operators::source::{Feed, PartitionEnd, Polled};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// See the module.
pub struct MutationFeed {
    config: Rc<FeedConfig>,
    feed: TopicFeed,
    cuts: Cuts,
}

impl MutationFeed {
    /// A feed that `waker` wakes.
    pub fn new(config: FeedConfig, waker: Waker) -> Self {
        let config = Rc::new(config);
        let reading = Reading {
            generation: 0,
            id: String::new(),
            tables: config.tables.clone(),
            assignments: config.share(config.partitions.clone()),
            not_before_ms: 0,
        };
        let pace = Rc::new(RefCell::new(Pace::new(None)));
        MutationFeed {
            feed: TopicFeed::new(Rc::clone(&config), reading, pace, waker),
            config,
            cuts: Cuts::default(),
        }
    }

    /// How far every partition is: called at a cut, before anything is read behind it.
    fn cut(&mut self, number: u64) {
        self.config.outbox.put(Part::Read {
            number,
            worker: self.config.worker,
            role: self.config.role,
            partitions: self.feed.states(),
            reads: BTreeMap::new(),
            dead_letters: self.config.counters.borrow().dead_letters.clone(),
            shapes: self.config.gate.shapes(),
        });
    }
}

impl Feed for MutationFeed {
    fn command(&mut self, _tick: u64, command: &Command) {
        match command {
            Command::Target {
                generation,
                targets,
            } => self.feed.set_ends(*generation, targets),
            Command::Close { generation, .. } => self.feed.forget_ends(*generation),
            Command::Checkpoint { number } => {
                if let Some(number) = self.cuts.command(*number) {
                    self.cut(number);
                }
            }
            Command::Replayed { .. } => self.feed.replayed(),
            Command::Stop => self.feed.stop(),
            _ => {}
        }
    }

    fn extra_bytes(&self) -> usize {
        if self.feed.replaying() {
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
        let (more, _) = self.feed.poll(tick, budget_bytes, give, ends);
        self.config.counters.borrow_mut().behind = self.feed.behind();
        if let Some(number) = self.cuts.polled(self.feed.stopped()) {
            self.cut(number);
        }
        if more { Polled::More } else { Polled::Idle }
    }
}
