//! An immutable sorted run of markers.
//!
//! Invariant: entries are strictly ascending by fingerprint, one a fingerprint; there is at least
//! one; the first and last tick are those of entries. Runs are shared (`Arc`) with a checkpoint
//! while lookups and merges go on, so nothing here changes after `RunWriter::finish`.
//!
//! Entries lie in chunks of a fixed number, so that a large run is written and freed in small
//! steps and no single call touches hundreds of megabytes.

use std::fmt;
use std::ops::RangeInclusive;

use super::index::{BucketIndex, IndexWalk, IndexWriter};
use super::latest::Latest;
use super::shape::{PAD, Shape, common_unit};

/// Entries of a chunk; all but the last are full.
pub(crate) const CHUNK_ENTRIES: usize = 1 << 15;

/// An immutable sorted run of markers.
pub struct Run {
    pub(crate) shape: Shape,
    pub(crate) len: usize,
    /// First and last tick of the entries.
    pub(crate) ticks: (u64, u64),
    pub(crate) index: BucketIndex,
    pub(crate) chunks: Vec<Vec<u8>>,
}

impl Run {
    /// A run of strictly ascending markers; `None` when there are none.
    ///
    /// The run is laid out for `range` (high halves of fingerprints), or a wider one if a marker
    /// lies outside, and for ticks that are multiples of `tick_ms`, or of a smaller unit if not.
    pub fn from_sorted(
        markers: &[(u128, Latest)],
        range: &RangeInclusive<u64>,
        tick_ms: u64,
    ) -> Option<Self> {
        let (lowest, highest) = (markers.first()?.0, markers.last()?.0);
        let (mut unit, mut first, mut last) = (tick_ms.max(1), u64::MAX, 0);
        for (_, Latest(tick)) in markers {
            (first, last) = (first.min(*tick), last.max(*tick));
            if tick % unit != 0 {
                unit = common_unit(unit, *tick);
            }
        }
        let start = (*range.start()).min((lowest >> 64) as u64);
        let end = (*range.end()).max((highest >> 64) as u64);
        let shape = Shape::fit((start, end), (first, last), unit, markers.len());
        let mut writer = RunWriter::new(shape, markers.len());
        for (fingerprint, Latest(tick)) in markers {
            writer.push(*fingerprint, *tick);
        }
        writer.finish()
    }

    /// Number of markers; never 0.
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The earliest tick of a marker, in ms of job time.
    pub fn tick_first(&self) -> u64 {
        self.ticks.0
    }

    /// The latest tick of a marker, in ms of job time.
    pub fn tick_last(&self) -> u64 {
        self.ticks.1
    }

    /// The range of high halves of fingerprints that the run was laid out for.
    pub fn range(&self) -> RangeInclusive<u64> {
        self.shape.first..=self.shape.last
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        chunk_bytes(&self.chunks) + self.index.bytes()
    }

    /// All markers, ascending by fingerprint.
    pub fn entries(&self) -> RunEntries<'_> {
        RunEntries {
            run: self,
            cursor: Cursor::new(self),
        }
    }

    /// The markers whose high half lies in `range`, laid out for it; `None` when there are none.
    ///
    /// For a restore on another number of workers: each takes its slice of every run.
    pub fn slice(&self, range: &RangeInclusive<u64>) -> Option<Self> {
        let first = (*range.start()).max(self.shape.first);
        let last = (*range.end()).min(self.shape.last);
        if first > last {
            return None;
        }
        let (bucket, _) = self.shape.place(u128::from(first) << 64)?;
        let (bucket_last, _) = self
            .shape
            .place((u128::from(last) << 64) | u128::from(u64::MAX))?;
        let (start, _) = self.index.entries(bucket, self.index.sample(bucket));
        let (_, end) = self
            .index
            .entries(bucket_last, self.index.sample(bucket_last));
        if start == end {
            return None;
        }
        let target = (*range.start(), *range.end());
        let shape = Shape::fit(target, self.ticks, self.shape.tick_unit_ms, end - start);
        let mut writer = RunWriter::new(shape, end - start);
        let (walk, entry) = self.index.walk_from(bucket);
        let entries = RunEntries {
            run: self,
            cursor: Cursor { walk, entry },
        };
        for (fingerprint, tick) in entries.take(end - start) {
            if range.contains(&((fingerprint >> 64) as u64)) {
                writer.push(fingerprint, tick);
            }
        }
        writer.finish()
    }

    /// The chunk of an entry and where the entry begins in it.
    #[inline]
    pub(crate) fn entry(&self, entry: usize) -> (&[u8], usize) {
        let at = (entry % CHUNK_ENTRIES) * self.shape.width();
        (&self.chunks[entry / CHUNK_ENTRIES], at)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("len", &self.len)
            .field("ticks", &self.ticks)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

pub(crate) fn chunk_bytes(chunks: &[Vec<u8>]) -> usize {
    chunks.iter().map(Vec::capacity).sum::<usize>() + size_of_val(chunks)
}

/// The markers of a run, ascending by fingerprint.
#[derive(Debug)]
pub struct RunEntries<'a> {
    run: &'a Run,
    cursor: Cursor,
}

impl Iterator for RunEntries<'_> {
    type Item = (u128, u64);

    fn next(&mut self) -> Option<Self::Item> {
        self.cursor.next(self.run)
    }
}

/// A place between two entries of a run that someone else holds.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    walk: IndexWalk,
    entry: usize,
}

impl Cursor {
    pub(crate) fn new(run: &Run) -> Self {
        let (walk, entry) = run.index.walk_from(0);
        Self { walk, entry }
    }

    /// Fingerprint and tick of the next entry.
    #[inline]
    pub(crate) fn next(&mut self, run: &Run) -> Option<(u128, u64)> {
        if self.entry == run.len {
            return None;
        }
        let bucket = self.walk.next(&run.index);
        let (bytes, at) = run.entry(self.entry);
        self.entry += 1;
        let fingerprint = run.shape.fingerprint(bucket, run.shape.residual(bytes, at));
        Some((fingerprint, run.shape.tick(bytes, at)))
    }

    /// Reads the next entries into `out`, as many as fit and there are.
    pub(crate) fn read(&mut self, run: &Run, out: &mut [(u128, u64)]) -> usize {
        let count = out.len().min(run.len - self.entry);
        for out in &mut out[..count] {
            let bucket = self.walk.next(&run.index);
            let (bytes, at) = run.entry(self.entry);
            self.entry += 1;
            let fingerprint = run.shape.fingerprint(bucket, run.shape.residual(bytes, at));
            *out = (fingerprint, run.shape.tick(bytes, at));
        }
        count
    }
}

/// Writes a run from ascending markers.
pub(crate) struct RunWriter {
    shape: Shape,
    index: IndexWriter,
    chunks: Vec<Vec<u8>>,
    len: usize,
    len_max: usize,
    ticks: (u64, u64),
}

impl RunWriter {
    /// For up to `len_max` markers that `shape` can hold.
    pub(crate) fn new(shape: Shape, len_max: usize) -> Self {
        let index = IndexWriter::new(len_max, shape.buckets());
        Self {
            shape,
            index,
            chunks: Vec::new(),
            len: 0,
            len_max,
            ticks: (u64::MAX, 0),
        }
    }

    /// Appends a marker, greater than all before it and within the shape.
    #[inline]
    pub(crate) fn push(&mut self, fingerprint: u128, tick: u64) {
        let (bucket, residual) = self
            .shape
            .place(fingerprint)
            .expect("a run is laid out for all its markers");
        self.index.push(bucket);
        let at = self.len % CHUNK_ENTRIES * self.shape.width();
        if at == 0 {
            let entries = (self.len_max - self.len).min(CHUNK_ENTRIES);
            self.chunks
                .push(vec![0; entries * self.shape.width() + PAD]);
        }
        let chunk = self
            .chunks
            .last_mut()
            .expect("a chunk was pushed at entry 0");
        self.shape.put(residual, tick, chunk, at);
        self.len += 1;
        self.ticks = (self.ticks.0.min(tick), self.ticks.1.max(tick));
    }

    /// The run; `None` when nothing was pushed.
    pub(crate) fn finish(mut self) -> Option<Run> {
        let entries_last = self.len.checked_sub(1)? % CHUNK_ENTRIES + 1;
        let chunk = self.chunks.last_mut()?;
        chunk.truncate(entries_last * self.shape.width() + PAD);
        chunk.shrink_to_fit();
        let index = self.index.finish(self.len);
        let (shape, len, ticks, chunks) = (self.shape, self.len, self.ticks, self.chunks);
        Some(Run {
            shape,
            len,
            ticks,
            index,
            chunks,
        })
    }

    pub(crate) fn into_chunks(self) -> Vec<Vec<u8>> {
        self.chunks
    }

    pub(crate) fn bytes(&self) -> usize {
        chunk_bytes(&self.chunks) + self.index.bytes()
    }
}
