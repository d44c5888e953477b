//! The flat record container that every data edge of the dataflow carries.
//!
//! Columns beside one byte arena: no heap object a record. A container is either *built* (growable
//! columns) or *received* (a validated view of the bytes a peer sent, not copied). The order of the
//! records is the order of arrival and nothing here changes it.
//!
//! It cannot: sort, parse a payload, or tell a missing value from an empty one; [`Op`] does that.

mod bytes;
mod op;
#[cfg(test)]
mod tests;

use bytes::View;
pub use op::{Exit, Op};
use timely::Accountable;
use timely::container::{DrainContainer, PushInto, SizableContainer};

/// A container is shipped when it holds about so many bytes.
pub const TARGET_BYTES: usize = 64 << 10;
/// Bytes of the fixed columns of one record.
pub const COLUMN_BYTES: usize = 51;

/// One record, borrowed from a container or about to be pushed into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Keyed hash of table and canonical key; the identity of the row everywhere in the dataflow.
    pub fingerprint: u128,
    /// What the record does to its row.
    pub op: Op,
    /// Index of the table in the configuration.
    pub table: u16,
    /// The generation a READ belongs to; 0 for mutations.
    pub generation: u32,
    /// Partition of the topic that the table and the role name.
    pub partition: u32,
    /// Offset in that partition.
    pub offset: u64,
    /// When the source read the row, ms since 1970, for READs that say so; else 0.
    pub read_time_ms: u64,
    /// The key as it came (or the configured key columns as a JSON object when it came without).
    pub key: &'a [u8],
    /// The value as it came; empty for a tombstone.
    pub value: &'a [u8],
}

impl RecordRef<'_> {
    /// Bytes this record takes in a container.
    pub fn size_bytes(&self) -> usize {
        COLUMN_BYTES + self.key.len() + self.value.len()
    }
}

/// Columns of records in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Records {
    fingerprints: Vec<u128>,
    offsets: Vec<u64>,
    read_times_ms: Vec<u64>,
    generations: Vec<u32>,
    partitions: Vec<u32>,
    key_ends: Vec<u32>,
    value_ends: Vec<u32>,
    tables: Vec<u16>,
    ops: Vec<Op>,
    arena: Vec<u8>,
    received: Option<View>,
}

impl Records {
    /// Records held.
    pub fn len(&self) -> usize {
        self.received.as_ref().map_or(self.ops.len(), View::len)
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of columns and payloads together.
    pub fn size_bytes(&self) -> usize {
        match &self.received {
            Some(view) => view.size_bytes(),
            None => self.ops.len() * COLUMN_BYTES + self.arena.len(),
        }
    }

    /// Appends a record.
    ///
    /// # Panics
    /// If the arena would pass 4 GiB, or on a received container (a broken caller in both cases).
    pub fn push(&mut self, record: RecordRef<'_>) {
        assert!(self.received.is_none(), "a received container is read-only");
        let full = self.arena.len() + record.key.len() + record.value.len();
        if full > self.arena.capacity() && full >= TARGET_BYTES / 4 {
            // It fills up, most likely: in one step, not by copying it all twice again.
            let target = TARGET_BYTES + TARGET_BYTES / 8;
            self.arena.reserve(target.max(full) - self.arena.len());
        }
        self.arena.extend_from_slice(record.key);
        self.key_ends.push(arena_end(self.arena.len()));
        self.arena.extend_from_slice(record.value);
        self.value_ends.push(arena_end(self.arena.len()));
        self.fingerprints.push(record.fingerprint);
        self.offsets.push(record.offset);
        self.read_times_ms.push(record.read_time_ms);
        self.generations.push(record.generation);
        self.partitions.push(record.partition);
        self.tables.push(record.table);
        self.ops.push(record.op);
    }

    /// The record at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Records::len`].
    pub fn get(&self, index: usize) -> RecordRef<'_> {
        if let Some(view) = &self.received {
            return view.get(index);
        }
        let start = match index {
            0 => 0,
            _ => self.value_ends[index - 1] as usize,
        };
        let key_end = self.key_ends[index] as usize;
        RecordRef {
            fingerprint: self.fingerprints[index],
            op: self.ops[index],
            table: self.tables[index],
            generation: self.generations[index],
            partition: self.partitions[index],
            offset: self.offsets[index],
            read_time_ms: self.read_times_ms[index],
            key: &self.arena[start..key_end],
            value: &self.arena[key_end..self.value_ends[index] as usize],
        }
    }

    /// The fingerprint at `index`, without touching the other columns.
    pub fn fingerprint(&self, index: usize) -> u128 {
        match &self.received {
            Some(view) => view.fingerprint(index),
            None => self.fingerprints[index],
        }
    }

    /// The op at `index`, without touching the other columns.
    pub fn op(&self, index: usize) -> Op {
        match &self.received {
            Some(view) => view.op(index),
            None => self.ops[index],
        }
    }

    /// All records, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RecordRef<'_>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Empties the container and keeps its allocations.
    pub fn clear(&mut self) {
        self.received = None;
        self.fingerprints.clear();
        self.offsets.clear();
        self.read_times_ms.clear();
        self.generations.clear();
        self.partitions.clear();
        self.key_ends.clear();
        self.value_ends.clear();
        self.tables.clear();
        self.ops.clear();
        self.arena.clear();
    }
}

fn arena_end(len: usize) -> u32 {
    u32::try_from(len).expect("a container is shipped long before 4 GiB")
}

impl Accountable for Records {
    fn record_count(&self) -> i64 {
        i64::try_from(self.len()).expect("a container holds far fewer than 2^63 records")
    }
}

impl DrainContainer for Records {
    type Item<'a> = RecordRef<'a>;
    type DrainIter<'a> = Drain<'a>;
    fn drain(&mut self) -> Drain<'_> {
        Drain {
            records: self,
            next: 0,
        }
    }
}

/// Walks a container that is about to be cleared or dropped.
#[derive(Debug)]
pub struct Drain<'a> {
    records: &'a Records,
    next: usize,
}

impl<'a> Iterator for Drain<'a> {
    type Item = RecordRef<'a>;
    fn next(&mut self) -> Option<RecordRef<'a>> {
        let index = self.next;
        self.next += 1;
        (index < self.records.len()).then(|| self.records.get(index))
    }
}

impl SizableContainer for Records {
    fn at_capacity(&self) -> bool {
        self.size_bytes() >= TARGET_BYTES
    }

    fn ensure_capacity(&mut self, stash: &mut Option<Self>) {
        if self.ops.capacity() == 0
            && let Some(mut spare) = stash.take()
        {
            spare.clear();
            *self = spare;
        }
    }
}

impl<'a> PushInto<RecordRef<'a>> for Records {
    fn push_into(&mut self, record: RecordRef<'a>) {
        self.push(record);
    }
}
