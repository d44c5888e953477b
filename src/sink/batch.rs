//! Records on their way to one shard: containers are shared, not copied, and a shard names the
//! records that are its own.
//!
//! Invariant: a batch holds records in the order in which they were pushed, each with its version.
//!
//! It cannot tell whether records belong together; the queue routes them.

use headwater_operators::record::{RecordRef, Records};
use std::sync::Arc;

/// Some records of one container.
#[derive(Clone, Debug)]
pub struct Piece {
    records: Arc<Records>,
    /// Those of the shard; `None` when it is all of them.
    indices: Option<Arc<[u32]>>,
    /// The version of the container's first record; the others count from it.
    version: u64,
    begin: usize,
    end: usize,
}

/// A record and its version.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The record.
    pub record: RecordRef<'a>,
    /// Its version.
    pub version: u64,
}

impl Piece {
    /// All records of a container whose first one has `version`.
    pub fn whole(records: Arc<Records>, version: u64) -> Piece {
        let end = records.len();
        Piece {
            records,
            indices: None,
            version,
            begin: 0,
            end,
        }
    }

    /// The records at `indices` of a container.
    pub fn some(records: Arc<Records>, version: u64, indices: Vec<u32>) -> Piece {
        let end = indices.len();
        Piece {
            records,
            indices: Some(indices.into()),
            version,
            begin: 0,
            end,
        }
    }

    /// Records in it.
    pub fn len(&self) -> usize {
        self.end - self.begin
    }

    /// Bytes of its records.
    pub fn bytes(&self) -> usize {
        let sizes = (0..self.len()).map(|index| self.entry(index).record.size_bytes());
        sizes.sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// The record at `index`, below [`Piece::len`].
    fn entry(&self, index: usize) -> Entry<'_> {
        let at = match &self.indices {
            Some(indices) => indices[self.begin + index] as usize,
            None => self.begin + index,
        };
        Entry {
            record: self.records.get(at),
            version: self.version + at as u64,
        }
    }

    /// Takes records off the front until `rows` or about `bytes` are reached, at least one.
    pub fn take(&mut self, rows: usize, bytes: usize) -> (Piece, usize) {
        let mut taken = 0;
        let mut taken_bytes = 0;
        while taken < self.len() && taken < rows.max(1) && (taken == 0 || taken_bytes < bytes) {
            taken_bytes += self.entry(taken).record.size_bytes();
            taken += 1;
        }
        let mut front = self.clone();
        front.end = front.begin + taken;
        self.begin += taken;
        (front, taken_bytes)
    }
}

/// Records to be folded and written at once.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pieces: Vec<Piece>,
}

impl Batch {
    /// Appends records.
    pub fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    /// Records in it.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(Piece::is_empty)
    }

    /// All records in order.
    pub fn iter<'a>(&'a self) -> impl Iterator<Item = Entry<'a>> + 'a {
        let entries = |piece: &'a Piece| (0..piece.len()).map(move |index| piece.entry(index));
        self.pieces.iter().flat_map(entries)
    }
}
