//! A source's history as it lies in the two topics, and the table it ends in.
//!
//! Every change of a key has an index, from 1; index 0 is the row (or its absence) before the log
//! began. Rows carry it as `seq`, and say in `origin` whether a mutation or a READ brought them, so
//! that each row of a target tells which change it shows. Each record has a `due`: the number of
//! changes (and, after the last one, of late READs) that the source must have made before it is
//! appended.
//!
//! Invariant: offsets are known before anything is written, and a partition's records are due in
//! the order of their offsets.
//!
//! It cannot change the key of a row, nor write half a row.

use crate::random::Random;

/// The table, and the names of its topics.
pub(crate) const TABLE: &str = "public.item";
pub(crate) const MUTATIONS: &str = "muts";
pub(crate) const SNAPSHOT: &str = "snap";

/// One record of a partition.
#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    /// How far the source must be.
    pub(crate) due: u64,
    pub(crate) offset: u64,
    pub(crate) what: What,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The change of a key with this index; `created`: there was no row before.
    Write { key: u32, index: u32, created: bool },
    /// A delete.
    Delete { key: u32, index: u32 },
    /// What follows a delete.
    Tombstone { key: u32 },
    /// A READ of the row as of this index.
    Read { key: u32, index: u32 },
    /// A heartbeat of the connector.
    Heartbeat,
    /// The end-of-snapshot record.
    End,
}

/// A key's changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Key {
    /// Whether there is a row after change `index`.
    pub(crate) exists: Vec<bool>,
    /// The partition of its mutations.
    pub(crate) partition: u32,
    /// The offsets of its mutations; that of change `index` is at `index - 1`.
    pub(crate) offsets: Vec<u64>,
    /// Its READ: the index, partition and offset.
    pub(crate) read: Option<(u32, u32, u64)>,
}

impl Key {
    /// How many of its mutations lie below an offset.
    pub(crate) fn changes_below(&self, next_offset: u64) -> u32 {
        self.offsets.partition_point(|offset| *offset < next_offset) as u32
    }

    /// The last change.
    pub(crate) fn last(&self) -> u32 {
        self.offsets.len() as u32
    }

    /// The first change at or after `index` that leaves no row.
    pub(crate) fn delete_from(&self, index: u32) -> Option<u32> {
        let from = index.max(1) as usize;
        let found = (from..self.exists.len()).find(|at| !self.exists[*at]);
        found.map(|at| at as u32)
    }
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) keys: Vec<Key>,
    pub(crate) mutations: Vec<Vec<LogRecord>>,
    pub(crate) snapshot: Vec<Vec<LogRecord>>,
    /// When all is appended.
    pub(crate) end: u64,
}

/// A row as a target shows it: (seq, origin).
pub(crate) type Seen = (u32, String);

impl History {
    /// The rows a target must hold in the end. A key with a mutation shows its last one: its READ
    /// comes before or is dropped.
    pub(crate) fn truth(&self) -> std::collections::BTreeMap<u32, Seen> {
        let rows = (0..).zip(&self.keys);
        rows.filter(|(_, key)| key.exists[key.last() as usize])
            .map(|(id, key)| {
                let origin = if key.last() == 0 { "read" } else { "live" };
                (id, (key.last(), origin.to_owned()))
            })
            .collect()
    }

    pub(crate) fn reads(&self) -> u64 {
        self.keys.iter().filter(|key| key.read.is_some()).count() as u64
    }

    pub(crate) fn changes(&self) -> u64 {
        self.keys.iter().map(|key| u64::from(key.last())).sum()
    }
}

/// Puts a history together, change by change.
pub(crate) struct Builder {
    history: History,
    reads: Vec<(u64, u32, u32)>,
    now: u64,
    random: Random,
}

impl Builder {
    /// A source with rows for the keys in `born`, and how many partitions each topic has.
    pub(crate) fn new(seed: u64, born: &[bool], mutations: u32, snapshot: u32) -> Self {
        let key = |(id, born): (usize, &bool)| Key {
            exists: vec![*born],
            partition: id as u32 % mutations,
            ..Key::default()
        };
        Builder {
            history: History {
                keys: born.iter().enumerate().map(key).collect(),
                mutations: vec![Vec::new(); mutations as usize],
                snapshot: vec![Vec::new(); snapshot as usize],
                end: 0,
            },
            reads: Vec::new(),
            now: 0,
            random: Random::new(seed),
        }
    }

    /// Changes made so far.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// The last change of a key, and whether it left a row.
    pub(crate) fn state(&self, key: u32) -> (u32, bool) {
        let key = &self.history.keys[key as usize];
        (key.last(), key.exists[key.last() as usize])
    }

    fn append(&mut self, partition: u32, what: What) -> u64 {
        let log = &mut self.history.mutations[partition as usize];
        // Gaps, as control records and compaction leave them.
        let gap = u64::from(self.random.percent(2)) * self.random.below(3);
        let offset = log.last().map_or(0, |last| last.offset + 1) + gap;
        log.push(LogRecord {
            due: self.now,
            offset,
            what,
        });
        offset
    }

    /// The next change of the source: a write, or a delete of a row that is there.
    pub(crate) fn change(&mut self, key: u32, delete: bool) {
        self.now += 1;
        let (last, existed) = self.state(key);
        let (index, partition) = (last + 1, self.history.keys[key as usize].partition);
        if self.random.percent(1) {
            self.append(partition, What::Heartbeat);
        }
        let delete = delete && existed;
        let offset = if delete {
            let offset = self.append(partition, What::Delete { key, index });
            self.append(partition, What::Tombstone { key });
            offset
        } else {
            let created = !existed;
            self.append(
                partition,
                What::Write {
                    key,
                    index,
                    created,
                },
            )
        };
        let key = &mut self.history.keys[key as usize];
        key.offsets.push(offset);
        key.exists.push(!delete);
    }

    /// Reads a row for the snapshot as it is now, if it is there; appended when the source is at
    /// `due`, which may be before now: the live topic may lag.
    pub(crate) fn read(&mut self, key: u32, due: u64) {
        let (index, exists) = self.state(key);
        if exists {
            self.reads.push((due, key, index));
        }
    }

    /// Ends the snapshot after everything else.
    pub(crate) fn build(mut self) -> History {
        let mut reads = std::mem::take(&mut self.reads);
        reads.sort_unstable();
        let latest = reads.last().map_or(0, |read| read.0);
        let end = self.now.max(latest) + 1;
        for (due, key, index) in reads {
            // Another partitioner than the live connector's.
            let partition = (key / 7 + key % 3) % self.history.snapshot.len() as u32;
            let log = &mut self.history.snapshot[partition as usize];
            let offset = log.len() as u64;
            let what = What::Read { key, index };
            log.push(LogRecord { due, offset, what });
            self.history.keys[key as usize].read = Some((index, partition, offset));
        }
        for log in &mut self.history.snapshot {
            let offset = log.len() as u64;
            let what = What::End;
            log.push(LogRecord {
                due: end,
                offset,
                what,
            });
        }
        self.history.end = end;
        self.history
    }
}

/// How large a random history is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) keys: u32,
    pub(crate) changes: u64,
    pub(crate) mutation_partitions: u32,
    pub(crate) snapshot_partitions: u32,
}

/// A few hot keys and many cold ones under writes, deletes and inserts, read chunk by chunk while
/// that goes on. Of the READs a third comes early (also before the mutations that they show), a
/// third late, and a third after the last write: later mutations would hide a stale row.
pub(crate) fn random(seed: u64, shape: Shape) -> History {
    let mut random = Random::new(seed);
    let born: Vec<bool> = (0..shape.keys).map(|_| random.percent(80)).collect();
    let mut builder = Builder::new(
        random.next(),
        &born,
        shape.mutation_partitions,
        shape.snapshot_partitions,
    );
    let hot: Vec<u32> = (0..8)
        .map(|_| random.below(shape.keys.into()) as u32)
        .collect();
    let (first, span) = (shape.changes / 10, shape.changes / 2);
    let mut next_read = 0;
    for change in 0..shape.changes {
        // A chunk is a moment; they are spread over half of the time.
        let reading = change.saturating_sub(first) * u64::from(shape.keys) / span;
        while change >= first && u64::from(next_read) < reading.min(shape.keys.into()) {
            let chunk = next_read + 1 + random.below(40) as u32;
            for key in next_read..chunk.min(shape.keys) {
                let due = due(&mut random, builder.now(), shape.changes);
                builder.read(key, due);
            }
            next_read = chunk.min(shape.keys);
        }
        let key = if random.percent(25) {
            random.pick(&hot)
        } else {
            random.below(shape.keys.into()) as u32
        };
        let delete = random.percent(20);
        builder.change(key, delete);
    }
    builder.build()
}

fn due(random: &mut Random, now: u64, changes: u64) -> u64 {
    match random.below(3) {
        0 => now.saturating_sub(random.below(changes / 20)),
        1 => now + random.below(changes - now),
        _ => changes + 1 + random.below(changes / 5),
    }
}
