//! Writes one partition of a `file` topic.
//!
//! Invariant: a partition has one writer at a time (a locked file beside it), and the file only
//! grows by whole frames: a torn tail of an earlier writer is cut off before anything is added, and
//! a writer that could not write refuses to go on.

use super::frame::{NewRecord, encode};
use super::log::{Cursor, FILE_HEAD, Next, failed};
use super::{lock_path, log_path, read_meta};
use crate::error::Error;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes gathered before they are written without being asked.
const BUFFER: usize = 256 << 10;
/// A child that another thread of a writer's process has forked holds its lock until it is another
/// program, a moment after the writer let go.
const PATIENCE: Duration = Duration::from_millis(250);

/// Appends records to one partition. What was appended is seen by readers after
/// [`FileTopicWriter::flush`] at the latest; dropping the writer flushes too, but tells no error.
#[derive(Debug)]
pub struct FileTopicWriter {
    path: PathBuf,
    file: File,
    /// Locked until it is dropped.
    _lock: File,
    buffer: Vec<u8>,
    next_offset: u64,
    broken: bool,
}

impl FileTopicWriter {
    /// Opens a partition of the topic in `dir` for appending; cuts off a torn tail.
    ///
    /// # Errors
    /// When the topic or partition does not exist, another writer has it, or the file is damaged
    /// before its end.
    pub fn open(dir: &Path, partition: u32) -> Result<Self, Error> {
        let partitions = read_meta(dir)?.partitions;
        if partition >= partitions {
            let text = format!("topic file:{} has no partition {partition}", dir.display());
            return Err(
                Error::usage(text).line(format!("it has partitions 0 to {}", partitions - 1))
            );
        }
        let lock = lock(dir, partition)?;
        let path = log_path(dir, partition);
        let open = |append: bool| {
            let mut options = OpenOptions::new();
            let file = options
                .read(!append)
                .write(!append)
                .append(append)
                .open(&path);
            file.map_err(|e| failed(&path, "could not be opened", &e))
        };
        let mut cursor = Cursor::open(&path, open(false)?)?;
        let torn = loop {
            match cursor.next()? {
                Next::Record(frame) => cursor.step(&frame),
                Next::End => break false,
                Next::Torn => break true,
            }
        };
        debug_assert!(cursor.position >= FILE_HEAD as u64);
        if torn {
            let cut = open(false)?.set_len(cursor.position);
            cut.map_err(|e| failed(&path, "could not be cut at its torn tail", &e))?;
        }
        Ok(FileTopicWriter {
            file: open(true)?,
            path,
            _lock: lock,
            buffer: Vec::new(),
            next_offset: cursor.next_offset,
            broken: false,
        })
    }

    /// Appends a record and returns its offset.
    ///
    /// # Errors
    /// When the record is too long, or the file cannot be written.
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<u64, Error> {
        self.usable()?;
        let offset = self.next_offset;
        if offset == u64::MAX {
            return Err(Error::failed("no offset is left"));
        }
        encode(&mut self.buffer, offset, record)
            .map_err(|why| Error::failed(format!("topic file {}: {why}", self.path.display())))?;
        self.next_offset += 1;
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(offset)
    }

    /// The offset that the next record gets.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Leaves a gap, as compaction and control records do in Kafka: the next record gets `offset`.
    ///
    /// # Errors
    /// When `offset` is below the next one.
    pub fn skip_to(&mut self, offset: u64) -> Result<(), Error> {
        if offset < self.next_offset {
            let text = format!(
                "topic file {}: offset {offset} is taken",
                self.path.display()
            );
            return Err(Error::usage(text).line(format!("the next one is {}", self.next_offset)));
        }
        self.next_offset = offset;
        Ok(())
    }

    /// Hands everything to the operating system; readers see it from now on.
    ///
    /// # Errors
    /// When the file cannot be written; the writer is of no use then, open it again.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.usable()?;
        if let Err(error) = self.file.write_all(&self.buffer) {
            self.broken = true;
            return Err(failed(&self.path, "could not be written", &error));
        }
        self.buffer.clear();
        self.buffer.shrink_to(4 * BUFFER);
        Ok(())
    }

    /// Flushes, then waits until the data is on the disk.
    ///
    /// # Errors
    /// As [`FileTopicWriter::flush`].
    pub fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.file.sync_data().map_err(|error| {
            self.broken = true;
            failed(&self.path, "could not be synced", &error)
        })
    }

    fn usable(&self) -> Result<(), Error> {
        if self.broken {
            let text = format!(
                "topic file {}: an earlier write failed",
                self.path.display()
            );
            return Err(Error::failed(text).line("what to do: open the writer again"));
        }
        Ok(())
    }
}

impl Drop for FileTopicWriter {
    fn drop(&mut self) {
        if !self.broken {
            // Nobody is left to be told; who wants to know flushes first.
            let _ = self.flush();
        }
    }
}

fn lock(dir: &Path, partition: u32) -> Result<File, Error> {
    let path = lock_path(dir, partition);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.map_err(|e| failed(&path, "could not be opened", &e))?;
    let since = Instant::now();
    let mut locked = file.try_lock();
    while matches!(locked, Err(TryLockError::WouldBlock)) && since.elapsed() < PATIENCE {
        std::thread::sleep(PATIENCE / 50);
        locked = file.try_lock();
    }
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let text = format!(
                "partition {partition} of topic file:{} has another writer",
                dir.display()
            );
            Err(Error::failed(text)
                .line(format!("it holds the lock on {}", path.display()))
                .line("what to do: stop it, or write to another partition"))
        }
        Err(TryLockError::Error(error)) => Err(failed(&path, "could not be locked", &error)),
    }
}
