//! Reads partitions of `file` topics while they are written.
//!
//! Invariant: nothing is given twice or left out: a cursor stands at the start of the next frame,
//! and only records at or past the assigned offset are given. A torn tail is waited for, unless
//! the partition's end was frozen before it.

use super::log::{Cursor, Next, failed};
use super::tail::Tail;
use crate::error::Error;
use crate::topic::sticky::Sticky;
use crate::topic::{Reader, Take, Waker};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of records before the assigned offset that one call passes over.
const SKIP_BYTES: usize = 8 << 20;
/// How long a torn tail at a frozen end may stand still: its writer may be in the middle of it.
const TORN_GRACE: Duration = Duration::from_millis(500);

/// Where one assignment is.
pub(super) struct Place {
    pub(super) cursor: Cursor,
    /// First offset to give, then 1 + the last given.
    pub(super) next_offset: u64,
    pub(super) frozen_end: Option<u64>,
    /// Since when the tail was seen torn, and the file's length then.
    pub(super) torn: Option<(Instant, u64)>,
}

impl Place {
    pub(super) fn new(cursor: Cursor, next_offset: u64) -> Self {
        Place {
            cursor,
            next_offset,
            frozen_end: None,
            torn: None,
        }
    }

    /// Gives records until `budget` bytes were given. Returns the bytes given, and whether more
    /// is known to be there.
    fn poll(
        &mut self,
        index: usize,
        budget: usize,
        take: &mut Take<'_>,
    ) -> Result<(usize, bool), Error> {
        let (mut given, mut skipped) = (0, 0);
        while given < budget && skipped < SKIP_BYTES {
            match self.cursor.next()? {
                Next::Record(frame) if frame.offset < self.next_offset => {
                    skipped += frame.len;
                    self.cursor.step(&frame);
                }
                Next::Record(frame) => {
                    let record = frame.record(self.cursor.bytes(&frame));
                    let (key, value) = (record.key.unwrap_or(&[]), record.value.unwrap_or(&[]));
                    // A record without key and value is something at hand all the same.
                    let bytes = (key.len() + value.len()).max(1);
                    take(index, record)?;
                    given += bytes;
                    self.next_offset = frame.offset + 1;
                    self.cursor.step(&frame);
                }
                Next::End => {
                    self.torn = None;
                    self.reached()?;
                    return Ok((given, false));
                }
                Next::Torn => {
                    self.torn_tail()?;
                    return Ok((given, false));
                }
            }
        }
        Ok((given, true))
    }

    /// At the end of the file the assigned offset must have been reached: Kafka, too, refuses an
    /// offset past the end.
    fn reached(&self) -> Result<(), Error> {
        let high = self.cursor.next_offset;
        if high >= self.next_offset {
            return Ok(());
        }
        Err(out_of_range(
            self.cursor.path(),
            self.next_offset,
            self.cursor.base,
            high,
        ))
    }

    /// A torn tail at a frozen end: no growth wakes the reader to say so.
    fn is_torn_at_end(&self) -> bool {
        self.frozen_end.is_some() && self.torn.is_some()
    }

    fn torn_tail(&mut self) -> Result<(), Error> {
        let Some(end) = self.frozen_end else {
            return Ok(());
        };
        let len = self.cursor.file_len()?;
        match self.torn {
            Some((since, seen)) if seen == len => {
                if since.elapsed() >= TORN_GRACE {
                    let why = format!(
                        "its end was frozen at offset {end}, and a record that was never written \
                         whole stands at its tail"
                    );
                    return Err(self.cursor.corrupt(&why));
                }
            }
            _ => self.torn = Some((Instant::now(), len)),
        }
        Ok(())
    }
}

/// The error about an offset that the file does not have.
pub(super) fn out_of_range(path: &Path, offset: u64, low: u64, high: u64) -> Error {
    Error::refused(format!(
        "topic file {} does not hold offset {offset}",
        path.display()
    ))
    .line(format!("it holds offsets {low} to {high} (the end)"))
    .line("records between were deleted, or the topic was made anew")
    .line("what to do: start from a position that the file still holds, with a new snapshot")
}

/// The reader of `file` topics.
pub(super) struct FileReader {
    places: Vec<Place>,
    /// The place that comes first in the next call, so that none starves.
    first: usize,
    waker: Waker,
    failed: Sticky,
    tail: Tail,
}

impl FileReader {
    pub(super) fn new(places: Vec<Place>, files: Vec<File>, waker: Waker) -> Result<Self, Error> {
        let tail = Tail::start(files, waker.clone());
        let tail = tail.map_err(|e| failed(Path::new("(all)"), "cannot be watched", &e))?;
        Ok(FileReader {
            places,
            first: 0,
            waker,
            failed: Sticky::default(),
            tail,
        })
    }

    fn poll_all(&mut self, budget: usize, take: &mut Take<'_>) -> Result<usize, Error> {
        let count = self.places.len();
        let (mut given, mut more) = (0, false);
        for turn in 0..count {
            let index = (self.first + turn) % count;
            // An equal share of what is left, so that a full partition leaves room for the others.
            let share = (budget - given).div_ceil(count - turn);
            let (bytes, there) = self.places[index].poll(index, share, take)?;
            given += bytes;
            more |= there;
            if given >= budget {
                self.first = (index + 1) % count;
                break;
            }
        }
        if given == 0 && more {
            (self.waker)();
        }
        self.tail
            .insist(self.places.iter().any(Place::is_torn_at_end));
        Ok(given)
    }
}

impl Reader for FileReader {
    fn poll(&mut self, budget_bytes: usize, take: &mut Take<'_>) -> Result<usize, Error> {
        self.failed.check()?;
        let given = self.poll_all(budget_bytes, take);
        self.failed.keep(given)
    }

    fn next_offset(&self, index: usize) -> u64 {
        self.places[index].next_offset
    }

    fn freeze(&mut self, index: usize, end: u64) {
        self.places[index].frozen_end = Some(end);
        (self.waker)();
    }
}
