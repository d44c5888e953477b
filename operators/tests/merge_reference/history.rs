//! A simulated source table: its commits, the mutation topic they make, and its snapshots.
//!
//! Invariant: the mutation topic is the commit order, partitioned by key; a READ is the row as of
//! one moment of the commit order and never a row that was deleted at that moment.
//!
//! It cannot model TRUNCATE or a change of key.

use crate::random::Random;
use headwater_operators::fingerprint::Fingerprinter;
use headwater_operators::record::{Op, RecordRef};

/// A record as the tests keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Which key.
    pub(crate) key: usize,
    /// What it does.
    pub(crate) op: Op,
    /// The generation of a READ.
    pub(crate) generation: u32,
    /// Partition of its topic.
    pub(crate) partition: u32,
    /// Offset there.
    pub(crate) offset: u64,
    /// How many mutations of its key its row state includes.
    pub(crate) version: u64,
}

/// What happened to a source table.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Key to fingerprint.
    pub(crate) fingerprints: Vec<u128>,
    /// Every commit, in order. The first `unseen` are older than the mutation topic.
    pub(crate) commits: Vec<Row>,
    /// Commits that the mutation topic does not have.
    pub(crate) unseen: usize,
    /// Partitions of the mutation topic.
    pub(crate) partitions: usize,
}

/// Borrows a row as a record; `body` takes the value's bytes.
pub(crate) fn record<'a>(row: &Row, history: &History, body: &'a mut [u8; 16]) -> RecordRef<'a> {
    body[..8].copy_from_slice(&(row.key as u64).to_le_bytes());
    body[8..].copy_from_slice(&row.version.to_le_bytes());
    let (key, value) = body.split_at(8);
    RecordRef {
        fingerprint: history.fingerprints[row.key],
        op: row.op,
        table: 0,
        generation: row.generation,
        partition: row.partition,
        offset: row.offset,
        read_time_ms: 0,
        key,
        value,
    }
}

/// The row of a record.
pub(crate) fn row(record: RecordRef<'_>) -> Row {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    Row {
        key: word(record.key) as usize,
        op: record.op,
        generation: record.generation,
        partition: record.partition,
        offset: record.offset,
        version: word(record.value),
    }
}

impl History {
    /// A random history: inserts, updates, deletes, re-inserts, and some `r` in place.
    pub(crate) fn random(random: &mut Random) -> History {
        let keys = random.between(2, 14);
        let table = Fingerprinter::new([3; 16]).table("public.hello");
        let salt = random.bits();
        let fingerprints = (0..keys)
            .map(|key| table.of(&(salt ^ key as u64).to_be_bytes()))
            .collect();
        let partitions = random.between(1, 3);
        let count = random.between(10, 200);
        let unseen = random.below(count / 2 + 1);
        let mut offsets = vec![0; partitions];
        let mut versions = vec![0; keys];
        let mut present = vec![false; keys];
        let mut commits = Vec::new();
        for index in 0..count {
            let key = random.below(keys);
            let partition = key % partitions;
            let op = if present[key] && random.percent(8) {
                Op::ReadInPlace
            } else if present[key] && random.percent(40) {
                Op::Delete
            } else {
                Op::Upsert
            };
            if op != Op::ReadInPlace {
                versions[key] += 1;
                present[key] = op == Op::Upsert;
            }
            commits.push(Row {
                key,
                op,
                generation: 0,
                partition: partition as u32,
                offset: offsets[partition],
                version: versions[key],
            });
            offsets[partition] += u64::from(index >= unseen);
        }
        History {
            fingerprints,
            commits,
            unseen,
            partitions,
        }
    }

    /// The row of `key` after the first `moment` commits: its version, if it is there.
    pub(crate) fn row_at(&self, key: usize, moment: usize) -> Option<u64> {
        let last = self.commits[..moment]
            .iter()
            .rev()
            .find(|row| row.key == key && row.op.marks())?;
        (last.op == Op::Upsert).then_some(last.version)
    }

    /// The whole table at the end.
    pub(crate) fn final_table(&self) -> Vec<Option<u64>> {
        let rows = 0..self.fingerprints.len();
        rows.map(|key| self.row_at(key, self.commits.len()))
            .collect()
    }

    /// One partition of the mutation topic, each record with its index among the commits.
    pub(crate) fn mutations(&self, partition: usize) -> Vec<(usize, Row)> {
        let seen = self.commits.iter().enumerate().skip(self.unseen);
        seen.filter(|(_, row)| row.partition as usize == partition)
            .map(|(index, row)| (index, row.clone()))
            .collect()
    }

    /// A snapshot that began after the first `begin` commits: chunks of keys, each chunk as of one
    /// moment, in order; dealt to `partitions`.
    pub(crate) fn snapshot(
        &self,
        random: &mut Random,
        generation: u32,
        begin: usize,
        partitions: usize,
    ) -> Vec<Vec<Row>> {
        let mut keys: Vec<usize> = (0..self.fingerprints.len()).collect();
        random.shuffle(&mut keys);
        let one_view = random.percent(40);
        let mut moment = random.between(begin, self.commits.len());
        let mut topic = vec![Vec::new(); partitions];
        for chunk in keys.chunks(random.between(1, 3)) {
            if !one_view {
                moment = random.between(moment, self.commits.len());
            }
            for key in chunk {
                let Some(version) = self.row_at(*key, moment) else {
                    continue;
                };
                let partition = random.below(partitions);
                let late = random.percent(3);
                let offset = topic[partition].len() as u64;
                topic[partition].push(Row {
                    key: *key,
                    op: if late { Op::Late } else { Op::Read },
                    generation,
                    partition: partition as u32,
                    offset,
                    version,
                });
            }
        }
        topic
    }
}
