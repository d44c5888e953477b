//! From records in order of arrival to at most one row a key.
//!
//! Invariant: writing the folded rows leaves what applying the records one by one would leave, and
//! each row has the version of its key's last record. Keys come in the order of their last touch.
//! A batch must be folded *before* it is split into upserts and deletes: an upsert after a delete
//! is an upsert.
//!
//! It cannot merge columns yet. `State::apply` is the one place where a partial row will meet what
//! the batch holds of its key; it goes forward over the records for that reason.

use super::batch::{Batch, Entry};
use super::{Change, Origin, Row};
use headwater_operators::record::Op;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads fingerprints, which are uniform already. Workers share the top bits of the high half and
/// shards those of the low one, so the low bits of both are taken.
#[derive(Default)]
pub struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, fingerprint: u128) {
        let low = fingerprint as u32;
        let high = (fingerprint >> 64) as u32;
        self.0 = u64::from(high) << 32 | u64::from(low);
    }
}

/// What the batch knows of one key so far.
struct State<'a> {
    row: Row<'a>,
    touched: usize,
}

impl<'a> State<'a> {
    /// The next record of the same key: a whole row replaces, a delete clears.
    fn apply(&mut self, row: Row<'a>, touched: usize) {
        self.row = row;
        self.touched = touched;
    }
}

/// Folds a batch.
pub fn fold(batch: &Batch) -> Vec<Row<'_>> {
    let hasher = BuildHasherDefault::<FingerprintHasher>::default();
    let mut slots: HashMap<u128, usize, _> = HashMap::with_capacity_and_hasher(batch.len(), hasher);
    let mut states: Vec<State<'_>> = Vec::with_capacity(batch.len());
    for (touched, entry) in batch.iter().enumerate() {
        let row = row_of(entry);
        match slots.entry(row.fingerprint) {
            Slot::Occupied(slot) => states[*slot.get()].apply(row, touched),
            Slot::Vacant(slot) => {
                slot.insert(states.len());
                states.push(State { row, touched });
            }
        }
    }
    states.sort_unstable_by_key(|state| state.touched);
    states.into_iter().map(|state| state.row).collect()
}

fn row_of(entry: Entry<'_>) -> Row<'_> {
    let record = entry.record;
    let change = match record.op {
        Op::Delete => Change::Delete,
        // The others leave no row, and come on other lanes.
        _ => Change::Upsert(record.value),
    };
    Row {
        table: usize::from(record.table),
        fingerprint: record.fingerprint,
        key: record.key,
        change,
        version: entry.version,
        origin: Origin::of(&record),
    }
}

#[cfg(test)]
mod tests;
