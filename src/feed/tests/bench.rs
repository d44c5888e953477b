//! Feeds of so many workers on topics in memory, told and polled together.
//!
//! It cannot show what the dataflow does with a record.

use crate::checkpoint::manifest::PartitionState;
use crate::checkpoint::{Outbox, Part};
use crate::decode::DecodeSettings;
use crate::error::Error;
use crate::failure::Failures;
use crate::feed::{FeedConfig, FeedCounters, MutationFeed, SnapshotFeeds, SourceTimes};
use crate::generation::ReadsSeen;
use crate::job::Panel;
use crate::key::KeyGate;
use crate::table::{Role, Table};
use crate::topic::memory::{MemoryTopics, OwnedRecord};
use crate::topic::{Assignment, Topics};
use headwater_operators::control::{Command, PartitionStart, PartitionTarget};
use headwater_operators::record::Op;
use headwater_operators::source::{Feed, PartitionEnd};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A record that a feed has given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) op: Op,
    pub(super) table: u16,
    pub(super) generation: u32,
    pub(super) topic: String,
    pub(super) offset: u64,
}

/// What all snapshot feeds say at a cut.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) partitions: Vec<PartitionState>,
    pub(super) reads: BTreeMap<u32, Vec<ReadsSeen>>,
}

struct OfWorker {
    reads: SnapshotFeeds,
    mutations: MutationFeed,
    counters: Rc<RefCell<FeedCounters>>,
    outbox: Outbox,
}

/// See the module.
pub(super) struct Bench {
    pub(super) topics: MemoryTopics,
    workers: Vec<OfWorker>,
    failures: Arc<Failures>,
    /// The snapshot topics of open generations, by generation and table.
    names: BTreeMap<(u32, u16), String>,
    ends: Vec<PartitionEnd>,
    tick: u64,
}

pub(super) fn tables() -> Vec<Table> {
    let table = |name: &str| Table {
        name: format!("public.{name}"),
        mutations: "m".to_owned(),
        snapshot: format!("configured.{name}"),
        key: None,
    };
    vec![table("a"), table("b")]
}

impl Bench {
    /// On so many workers, and topics of so many partitions; `m` is the mutation topic.
    pub(super) fn new(workers: usize, topics: &[(&str, usize)]) -> Self {
        let made = MemoryTopics::default();
        for (topic, partitions) in topics {
            made.create(topic, *partitions);
        }
        Bench::on(made, workers, &BTreeMap::new())
    }

    /// On topics that are there.
    pub(super) fn on(
        topics: MemoryTopics,
        workers: usize,
        times: &BTreeMap<(String, u32), SourceTimes>,
    ) -> Self {
        let failures = Arc::new(Failures::default());
        let of = |worker| of_worker(&topics, (worker, workers), (times, Vec::new()), &failures);
        Bench {
            workers: (0..workers).map(of).collect(),
            topics,
            failures,
            names: BTreeMap::new(),
            ends: Vec::new(),
            tick: 0,
        }
    }

    /// One worker, whose target had seen a topic's partition 0 up to `end` before a restart.
    pub(super) fn replay(&mut self, topic: &str, end: u64) {
        let replay = vec![target(topic, 0, end)];
        let (times, failures) = (BTreeMap::new(), Arc::clone(&self.failures));
        let fresh = of_worker(&self.topics, (0, 1), (&times, replay), &failures);
        self.workers = vec![fresh];
    }

    /// What was reported as read again.
    pub(super) fn replayed(&mut self) -> Vec<(String, u64)> {
        let all = self.ends.drain(..).filter(|of| of.replayed);
        all.map(|of| (of.topic, of.end)).collect()
    }

    pub(super) fn append(&self, topic: &str, partition: usize, record: OwnedRecord) {
        self.topics.append(topic, partition, record);
    }

    pub(super) fn end_of_snapshot(&self, topic: &str, partition: usize, id: &str) {
        self.append(topic, partition, OwnedRecord::end_of_snapshot(id));
    }

    /// Tells all feeds.
    pub(super) fn tell(&mut self, command: Command) {
        if let Command::Open {
            generation, topics, ..
        } = &command
        {
            for (table, topic) in topics {
                self.names.insert((*generation, *table), topic.clone());
            }
        }
        for worker in &mut self.workers {
            worker.reads.command(self.tick, &command);
            worker.mutations.command(self.tick, &command);
        }
    }

    /// Polls every snapshot feed once.
    pub(super) fn poll(&mut self, tick: u64, budget_bytes: usize) -> Vec<Given> {
        let mut rows = Vec::new();
        let names = &self.names;
        for worker in &mut self.workers {
            let mut give = |record: headwater_operators::record::RecordRef<'_>| {
                let place = (record.generation, record.table);
                rows.push(Given {
                    op: record.op,
                    table: record.table,
                    generation: record.generation,
                    topic: names.get(&place).cloned().unwrap_or_default(),
                    offset: record.offset,
                });
            };
            let ends = &mut self.ends;
            worker.reads.poll(tick, budget_bytes, &mut give, ends);
        }
        rows
    }

    /// Polls all feeds until nothing more comes; the READs that came.
    pub(super) fn drain(&mut self) -> Vec<Given> {
        let mut all = Vec::new();
        loop {
            let rows = self.poll(self.tick, 1 << 20);
            let mut mutations = 0;
            for worker in &mut self.workers {
                let mut give = |_: headwater_operators::record::RecordRef<'_>| mutations += 1;
                let ends = &mut self.ends;
                worker.mutations.poll(self.tick, 1 << 20, &mut give, ends);
            }
            if rows.is_empty() && mutations == 0 {
                return all;
            }
            all.extend(rows);
        }
    }

    fn parts(&mut self) -> Vec<Part> {
        self.tell(Command::Checkpoint { number: 1 });
        let mut parts = Vec::new();
        for worker in &self.workers {
            worker.outbox.drain(&mut parts);
        }
        parts
    }

    /// What a checkpoint would have of READs.
    pub(super) fn cut(&mut self) -> Cut {
        let mut cut = Cut::default();
        for part in self.parts() {
            if let Part::Read {
                role: Role::Snapshot,
                partitions,
                reads,
                ..
            } = part
            {
                cut.partitions.extend(partitions);
                for (generation, seen) in reads {
                    crate::feed::add_up(cut.reads.entry(generation).or_default(), &seen);
                }
            }
        }
        cut
    }

    /// What it would have of mutation partitions.
    pub(super) fn mutation_cut(&mut self) -> Vec<PartitionState> {
        let mut states = Vec::new();
        for part in self.parts() {
            if let Part::Read {
                role: Role::Mutations,
                partitions,
                ..
            } = part
            {
                states.extend(partitions);
            }
        }
        states.sort_by_key(|state| state.partition);
        states
    }

    /// How far the counters say that snapshot topics were read.
    pub(super) fn offsets(&mut self) -> Vec<(&'static str, u32, u64)> {
        let mut offsets = Vec::new();
        for worker in &self.workers {
            for of in worker.counters.borrow().partitions.values().flatten() {
                let topic: &'static str = Box::leak(of.topic.to_string().into());
                offsets.push((topic, of.partition, of.next_offset));
            }
        }
        offsets.sort_unstable();
        let mut cut: Vec<_> = self.cut().partitions;
        cut.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        let of_cut = cut.iter().map(|s| (&*s.topic, s.partition, s.next_offset));
        assert!(of_cut.eq(offsets.iter().copied()), "{cut:?} {offsets:?}");
        offsets
    }

    pub(super) fn reads_of(&self, topic: &str) -> Option<u64> {
        self.workers.iter().find_map(|worker| {
            let counters = worker.counters.borrow();
            let mut all = counters.partitions.values().flatten();
            all.find(|of| &*of.topic == topic).map(|of| of.next_offset)
        })
    }

    pub(super) fn counted(&self, generation: u32) -> u64 {
        let of = |w: &OfWorker| w.counters.borrow().generations.get(&generation).copied();
        self.workers.iter().filter_map(of).sum()
    }

    fn ends_of(&mut self, mutations: bool) -> Vec<(u32, String, u32, u64)> {
        let all = self.ends.drain(..).filter(|of| of.mutations == mutations);
        let mut ends: Vec<_> = all
            .map(|of| (of.generation, of.topic, of.partition, of.end))
            .collect();
        ends.sort();
        ends
    }

    pub(super) fn ends(&mut self) -> Vec<(u32, String, u32, u64)> {
        self.ends_of(false)
    }

    pub(super) fn mutation_ends(&mut self) -> Vec<(u32, String, u32, u64)> {
        self.ends_of(true)
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.failures.any().then(|| self.failures.first()).flatten()
    }

    pub(super) fn bytes_of_one(&self) -> usize {
        let record = read("a", 10, "", 0);
        record.key.map_or(0, |key| key.len()) + record.value.map_or(0, |value| value.len())
    }
}

fn of_worker(
    topics: &MemoryTopics,
    (worker, workers): (usize, usize),
    (times, replay): (&BTreeMap<(String, u32), SourceTimes>, Vec<PartitionTarget>),
    failures: &Arc<Failures>,
) -> OfWorker {
    let outbox = Outbox::default();
    let tables = tables();
    let gate = Arc::new(KeyGate::new(&tables));
    let config = |role, counters: &Rc<RefCell<FeedCounters>>| FeedConfig {
        role,
        partitions: match (role, topics.ranges("m")) {
            (Role::Mutations, Ok(ranges)) => (0..)
                .zip(ranges)
                .map(|(partition, _)| Assignment {
                    topic: "m".to_owned(),
                    partition,
                    next_offset: 0,
                })
                .collect(),
            _ => Vec::new(),
        },
        reads_per_second_max: None,
        topics: Arc::new(topics.clone()),
        pass_unavailable: false,
        tables: tables.clone(),
        secret: [7; 16],
        decode: DecodeSettings::default(),
        failures: Arc::clone(failures),
        panel: Arc::new(Panel::default()),
        name: role.word().to_owned(),
        counters: Rc::clone(counters),
        worker,
        workers,
        gate: Arc::clone(&gate),
        outbox: outbox.clone(),
        replay: replay.clone(),
        replay_bytes_max: 0,
        replay_held: false,
        source_times: times.clone(),
    };
    let counters = Rc::default();
    let waker = || Arc::new(|| ());
    OfWorker {
        reads: SnapshotFeeds::new(config(Role::Snapshot, &counters), waker()),
        mutations: MutationFeed::new(config(Role::Mutations, &Rc::default()), waker()),
        counters,
        outbox,
    }
}

pub(super) fn open(
    generation: u32,
    topics: &[(u16, &str)],
    partitions: &[(&str, u32, u64)],
) -> Command {
    let topic = |(table, topic): &(u16, &str)| (*table, (*topic).to_owned());
    let start = |(topic, partition, next_offset): &(&str, u32, u64)| PartitionStart {
        topic: (*topic).to_owned(),
        partition: *partition,
        next_offset: *next_offset,
    };
    Command::Open {
        generation,
        tables: topics.iter().map(|(table, _)| *table).collect(),
        opened_at_ms: 0,
        id: format!("g{generation}"),
        topics: topics.iter().map(topic).collect(),
        partitions: partitions.iter().map(start).collect(),
        not_before_ms: 0,
    }
}

pub(super) fn target(topic: &str, partition: u32, end: u64) -> PartitionTarget {
    PartitionTarget {
        topic: topic.to_owned(),
        partition,
        end,
    }
}

pub(super) fn end(
    generation: u32,
    topic: &str,
    partition: u32,
    end: u64,
) -> (u32, String, u32, u64) {
    (generation, topic.to_owned(), partition, end)
}

/// A READ of `public.TABLE`, read at the source at `time_ms`.
pub(super) fn read(table: &str, id: i64, run: &str, time_ms: i64) -> OwnedRecord {
    let mut record = envelope(table, ("r", "incremental"), id, time_ms);
    record.run_id = Some(run.as_bytes().to_vec());
    record
}

/// A mutation of table a.
pub(super) fn mutation(id: i64, time_ms: i64) -> OwnedRecord {
    envelope("a", ("u", "false"), id, time_ms)
}

/// A value that is no JSON.
pub(super) fn broken() -> OwnedRecord {
    OwnedRecord::new(Some(r#"{"id":1}"#), Some("{"))
}

fn envelope(table: &str, (op, snapshot): (&str, &str), id: i64, time_ms: i64) -> OwnedRecord {
    let key = format!(r#"{{"id":{id}}}"#);
    let value = format!(
        r#"{{"before":null,"after":{key},"op":"{op}","source":{{"name":"x","ts_ms":{time_ms},
        "snapshot":"{snapshot}","schema":"public","table":"{table}","lsn":1}}}}"#
    );
    OwnedRecord::new(Some(&key), Some(&value))
}
