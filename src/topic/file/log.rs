//! A cursor over one partition file, for scans, writers and readers alike.
//!
//! Invariant: the cursor stands at the start of a frame, and everything before it was whole, with a
//! good checksum and growing offsets. Bytes of a torn tail are never kept: a writer that opens the
//! file later cuts them off and writes others in their place.

use super::frame::{Frame, HEAD, Parsed, parse};
use crate::error::Error;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What a partition file begins with: magic, base offset, crc32 of both.
pub(super) const FILE_HEAD: usize = 20;
const MAGIC: &[u8; 8] = b"HWTOPIC1";
/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// The head of a partition file whose first offset is `base`.
pub(super) fn file_head(base: u64) -> [u8; FILE_HEAD] {
    let mut head = [0; FILE_HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&base.to_le_bytes());
    let crc = crc32fast::hash(&head[..16]);
    head[16..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// What stands at the cursor.
#[derive(Debug)]
pub(super) enum Next {
    /// A record; read it with [`Cursor::bytes`], then call [`Cursor::step`].
    Record(Frame),
    /// The end of the file, exactly after a record.
    End,
    /// The end of the file in the middle of a record.
    Torn,
}

/// A place in a partition file.
#[derive(Debug)]
pub(super) struct Cursor {
    path: PathBuf,
    file: File,
    /// First offset of the file.
    pub(super) base: u64,
    /// Byte position of the frame at hand.
    pub(super) position: u64,
    /// One past the last offset that was stepped over; the base at first.
    pub(super) next_offset: u64,
    buffer: Vec<u8>,
    /// Start of the frame at hand in `buffer`.
    at: usize,
}

impl Cursor {
    /// A cursor at the first record.
    pub(super) fn open(path: &Path, file: File) -> Result<Self, Error> {
        let mut head = [0; FILE_HEAD];
        file.read_exact_at(&mut head, 0)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => corrupt(path, 0, 0, "the file's head is cut off"),
                _ => failed(path, "could not be read", &error),
            })?;
        let base = u64::from_le_bytes(head[8..16].try_into().expect("eight bytes"));
        if head != file_head(base) {
            return Err(corrupt(
                path,
                0,
                0,
                "the file's head is not one of a partition file",
            ));
        }
        Ok(Cursor {
            path: path.to_path_buf(),
            file,
            base,
            position: FILE_HEAD as u64,
            next_offset: base,
            buffer: Vec::new(),
            at: 0,
        })
    }

    /// Goes to a place where a cursor of the same file once stood.
    pub(super) fn jump(&mut self, position: u64, next_offset: u64) {
        self.position = position;
        self.next_offset = next_offset;
        self.buffer.clear();
        self.at = 0;
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file now.
    pub(super) fn file_len(&self) -> Result<u64, Error> {
        let meta = self.file.metadata();
        let meta = meta.map_err(|e| failed(&self.path, "could not be read", &e))?;
        if meta.nlink() == 0 {
            return Err(self.corrupt("the file was removed"));
        }
        Ok(meta.len())
    }

    /// The bytes of the frame that [`Cursor::next`] gave.
    pub(super) fn bytes(&self, frame: &Frame) -> &[u8] {
        &self.buffer[self.at..self.at + frame.len]
    }

    /// Steps over the frame that [`Cursor::next`] gave.
    pub(super) fn step(&mut self, frame: &Frame) {
        self.at += frame.len;
        self.position += frame.len as u64;
        self.next_offset = frame.offset + 1;
    }

    /// What stands at the cursor. Reads a chunk when the buffer does not hold a whole frame.
    ///
    /// # Errors
    /// What cannot be a torn tail: a bad checksum with bytes after it, an offset that does not
    /// grow, a file that shrank.
    pub(super) fn next(&mut self) -> Result<Next, Error> {
        loop {
            let at_hand = &self.buffer[self.at..];
            let wanted = match (at_hand.len() >= HEAD).then(|| parse(at_hand)) {
                None => HEAD,
                Some(Parsed::Whole(frame)) => return self.checked(frame).map(Next::Record),
                Some(Parsed::Torn { needed }) => needed,
                Some(Parsed::BadBody { len }) if at_hand.len() == len => len + 1,
                Some(Parsed::BadBody { .. }) => {
                    return Err(self.corrupt("the checksum of the record is wrong"));
                }
                Some(Parsed::Corrupt(_)) if self.is_zero_to_end()? => return Ok(self.cut()),
                Some(Parsed::Corrupt(why)) => return Err(self.corrupt(why)),
            };
            let there = self.bytes_there()?;
            if there == 0 {
                self.cut();
                return Ok(Next::End);
            }
            if there < wanted {
                return Ok(self.cut());
            }
            self.fill(there.min(wanted.max(CHUNK)))?;
        }
    }

    /// Forgets what was read of a torn tail.
    fn cut(&mut self) -> Next {
        self.buffer.clear();
        self.buffer.shrink_to(4 * CHUNK);
        self.at = 0;
        Next::Torn
    }

    fn checked(&self, frame: Frame) -> Result<Frame, Error> {
        if frame.offset < self.next_offset || frame.offset == u64::MAX {
            let why = format!("the record's offset {} does not grow", frame.offset);
            return Err(self.corrupt(&why));
        }
        Ok(frame)
    }

    /// How many bytes the file has from the cursor on.
    fn bytes_there(&self) -> Result<usize, Error> {
        let len = self.file_len()?;
        let Some(there) = len.checked_sub(self.position) else {
            let why = format!("the file shrank to {len} bytes: it was replaced or cut");
            return Err(self.corrupt(&why));
        };
        Ok(usize::try_from(there).unwrap_or(usize::MAX))
    }

    /// Reads on until the buffer holds `get` bytes from the cursor on, or the file ends.
    fn fill(&mut self, get: usize) -> Result<(), Error> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let mut have = self.buffer.len();
        self.buffer.resize(get.max(have), 0);
        while have < get {
            let at = self.position + have as u64;
            match self.file.read_at(&mut self.buffer[have..], at) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(&self.path, "could not be read", &e)),
            }
        }
        self.buffer.truncate(have);
        Ok(())
    }

    /// Whether there is nothing but zeros from the cursor on: what a crash of the machine leaves.
    fn is_zero_to_end(&self) -> Result<bool, Error> {
        let mut chunk = vec![0; CHUNK];
        let mut at = self.position;
        loop {
            let read = self.file.read_at(&mut chunk, at);
            let read = read.map_err(|e| failed(&self.path, "could not be read", &e))?;
            if read == 0 {
                return Ok(true);
            }
            if !is_zero(&chunk[..read]) {
                return Ok(false);
            }
            at += read as u64;
        }
    }

    /// An error about the frame at the cursor.
    pub(super) fn corrupt(&self, why: &str) -> Error {
        corrupt(&self.path, self.next_offset, self.position, why)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn corrupt(path: &Path, next_offset: u64, position: u64, why: &str) -> Error {
    Error::refused(format!("topic file {} is damaged: {why}", path.display()))
        .line(format!(
            "at byte {position}, where offset {next_offset} or a later one is due"
        ))
        .line("a job that goes on would lose records")
        .line("what to do: restore the file from a copy, or write the topic anew")
}

/// An error of the operating system about a file.
pub(super) fn failed(path: &Path, what: &str, error: &io::Error) -> Error {
    Error::failed(format!("topic file {} {what}: {error}", path.display()))
}
