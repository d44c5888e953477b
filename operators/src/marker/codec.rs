//! Runs as bytes, for checkpoints.
//!
//! ```text
//! head    "HWMR"  version u32  first u64  last u64  tick_base u64  tick_unit_ms u64
//!         tick_first u64  tick_last u64  len u64  bucket_bits u32  tick_bits u32
//! index   u64 words: for each bucket a one an entry, then a zero; a word of zeros at the end
//! check   u64
//! chunks  CHUNK_ENTRIES entries each (the last has the rest), each chunk followed by its check u64
//! ```
//! All little-endian; a check is SipHash-1-3 of its part, keyed with the part's number, so that
//! swapped parts are found. Where an entry lies follows from head and index, so a reader of a slice
//! needs those and the chunks it overlaps.
//!
//! Invariant: decoding is total. Bytes that are not exactly an encoded run give an error; a run
//! that decodes has every invariant of a run. It cannot tell an older, intact run from the right
//! one.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::index::{BucketIndex, word_count};
use super::run::{CHUNK_ENTRIES, Run};
use super::shape::{PAD, Shape};

const MAGIC: &[u8; 4] = b"HWMR";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 72;
const CHECK_BYTES: usize = 8;
/// Bytes that were read are freed when there are so many.
const RELEASE_BYTES: usize = 4 << 20;

/// Why bytes are not a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The bytes do not begin like a marker run.
    NotARun,
    /// Written by another version of the format.
    Version {
        /// The version found.
        found: u32,
    },
    /// Bytes are missing or left over.
    Length {
        /// Bytes found.
        found: usize,
        /// Bytes that the head asks for, as far as it could be read.
        expected: usize,
    },
    /// A part does not match its check.
    Check {
        /// Part 0 is head and index, part n the n-th chunk.
        part: usize,
    },
    /// The parts match their checks and contradict each other.
    Inconsistent {
        /// What contradicts.
        what: &'static str,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARun => write!(f, "marker run: does not begin with \"HWMR\""),
            Self::Version { found } => {
                write!(
                    f,
                    "marker run: version {found} found, this program reads {VERSION}"
                )
            }
            Self::Length { found, expected } => {
                write!(f, "marker run: {found} bytes found, {expected} expected")
            }
            Self::Check { part } => write!(f, "marker run: part {part} does not match its check"),
            Self::Inconsistent { what } => write!(f, "marker run: inconsistent {what}"),
        }?;
        write!(f, "; restore from an older checkpoint")
    }
}

impl std::error::Error for RunError {}

impl Run {
    /// The run as bytes, in parts of a few megabytes at most; joined they are what `decode` reads.
    pub fn encode_parts(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        let chunks = self.chunks.iter().enumerate();
        let chunks = chunks.map(|(at, chunk)| seal(chunk[..chunk.len() - PAD].to_vec(), at + 1));
        std::iter::once_with(|| seal(self.encode_head(), 0)).chain(chunks)
    }

    /// The run as bytes, in one piece that is allocated once.
    pub fn encode(&self) -> Vec<u8> {
        let parts = 1 + self.chunks.len();
        let entries = self.len * self.shape.width();
        let len = HEAD_BYTES + self.index.words().len() * 8 + entries + parts * CHECK_BYTES;
        let mut bytes = Vec::with_capacity(len);
        for part in self.encode_parts() {
            bytes.extend_from_slice(&part);
        }
        debug_assert_eq!(bytes.len(), len);
        bytes
    }

    fn encode_head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES + self.index.words().len() * 8 + CHECK_BYTES);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        let shape = &self.shape;
        let longs = [shape.first, shape.last, shape.tick_base, shape.tick_unit_ms];
        for long in longs
            .into_iter()
            .chain([self.ticks.0, self.ticks.1, self.len as u64])
        {
            head.extend_from_slice(&long.to_le_bytes());
        }
        head.extend_from_slice(&shape.bucket_bits.to_le_bytes());
        head.extend_from_slice(&shape.tick_bits.to_le_bytes());
        for word in self.index.words() {
            head.extend_from_slice(&word.to_le_bytes());
        }
        head
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// Any difference from what an encoder writes; nothing is repaired.
    pub fn decode(bytes: &[u8]) -> Result<Self, RunError> {
        let head = Head::read(bytes)?;
        let index = head.index(bytes)?;
        let chunks = (0..head.chunks()).map(|chunk| head.chunk(bytes, chunk));
        let chunks = chunks.collect::<Result<_, _>>()?;
        head.run(index, chunks)
    }

    /// As [`Run::decode`], and lets go of the bytes as it reads them, so that the peak is one run
    /// and not two. Of several damaged parts the last is named.
    ///
    /// # Errors
    /// As [`Run::decode`].
    pub fn decode_owned(mut bytes: Vec<u8>) -> Result<Self, RunError> {
        let head = Head::read(&bytes)?;
        let index = head.index(&bytes)?;
        let mut chunks = Vec::with_capacity(head.chunks());
        // From the last to the first: a vector can be cut off at its end alone.
        for chunk in (0..head.chunks()).rev() {
            chunks.push(head.chunk(&bytes, chunk)?);
            bytes.truncate(head.chunk_start(chunk));
            if bytes.capacity() - bytes.len() > RELEASE_BYTES {
                bytes.shrink_to_fit();
            }
        }
        drop(bytes);
        chunks.reverse();
        head.run(index, chunks)
    }

    /// Whether the entries are ascending, in the range, and span exactly the run's ticks.
    fn check_entries(&self) -> Result<(), RunError> {
        let mut ticks = (u64::MAX, 0);
        let mut before = None;
        for (fingerprint, tick) in self.entries() {
            if before >= Some(fingerprint) || self.shape.place(fingerprint).is_none() {
                return Err(RunError::Inconsistent {
                    what: "order of fingerprints",
                });
            }
            before = Some(fingerprint);
            ticks = (ticks.0.min(tick), ticks.1.max(tick));
        }
        if ticks != self.ticks {
            return Err(RunError::Inconsistent { what: "ticks" });
        }
        Ok(())
    }
}

struct Head {
    shape: Shape,
    ticks: (u64, u64),
    len: usize,
}

impl Head {
    /// Reads the head and checks that the whole is as long as it says, before allocating anything.
    fn read(bytes: &[u8]) -> Result<Self, RunError> {
        if !bytes.starts_with(MAGIC) {
            return Err(RunError::NotARun);
        }
        let found = bytes.len();
        if found < HEAD_BYTES {
            return Err(RunError::Length {
                found,
                expected: HEAD_BYTES,
            });
        }
        let version = short(&bytes[4..8]);
        if version != VERSION {
            return Err(RunError::Version { found: version });
        }
        let mut longs = [0; 7];
        for (value, bytes) in longs.iter_mut().zip(bytes[8..64].chunks_exact(8)) {
            *value = long(bytes);
        }
        let [
            first,
            last,
            tick_base,
            tick_unit_ms,
            tick_first,
            tick_last,
            len,
        ] = longs;
        let (bucket_bits, tick_bits) = (short(&bytes[64..68]), short(&bytes[68..72]));
        let shape = Shape::from_parts(
            (first, last),
            tick_base,
            tick_unit_ms,
            bucket_bits,
            tick_bits,
        )
        .filter(|shape| shape.tick_base.is_multiple_of(shape.tick_unit_ms))
        .ok_or(RunError::Inconsistent { what: "head" })?;
        // An entry takes more than a byte, so a length that fits the bytes fits all arithmetic.
        let len = usize::try_from(len)
            .ok()
            .filter(|len| (1..=found).contains(len));
        let len = len.ok_or(RunError::Inconsistent {
            what: "number of markers",
        })?;
        let parts = 1 + len.div_ceil(CHUNK_ENTRIES);
        let expected = HEAD_BYTES
            + word_count(len, shape.buckets()) * 8
            + len * shape.width()
            + parts * CHECK_BYTES;
        if found != expected {
            return Err(RunError::Length { found, expected });
        }
        Ok(Self {
            shape,
            ticks: (tick_first, tick_last),
            len,
        })
    }

    fn chunks(&self) -> usize {
        self.len.div_ceil(CHUNK_ENTRIES)
    }

    /// Where the index ends.
    fn end(&self) -> usize {
        HEAD_BYTES + word_count(self.len, self.shape.buckets()) * 8
    }

    fn chunk_start(&self, chunk: usize) -> usize {
        let full = CHUNK_ENTRIES * self.shape.width() + CHECK_BYTES;
        self.end() + CHECK_BYTES + chunk * full
    }

    fn index(&self, bytes: &[u8]) -> Result<BucketIndex, RunError> {
        check(bytes, 0, self.end(), 0)?;
        let words = bytes[HEAD_BYTES..self.end()].chunks_exact(8).map(long);
        let words: Vec<u64> = words.collect();
        BucketIndex::from_words(&words, self.len, self.shape.buckets()).ok_or(
            RunError::Inconsistent {
                what: "bucket index",
            },
        )
    }

    fn chunk(&self, bytes: &[u8], chunk: usize) -> Result<Vec<u8>, RunError> {
        let entries = (self.len - chunk * CHUNK_ENTRIES).min(CHUNK_ENTRIES);
        let start = self.chunk_start(chunk);
        let end = start + entries * self.shape.width();
        check(bytes, start, end, chunk + 1)?;
        let mut read = Vec::with_capacity(end - start + PAD);
        read.extend_from_slice(&bytes[start..end]);
        read.extend_from_slice(&[0; PAD]);
        Ok(read)
    }

    fn run(self, index: BucketIndex, chunks: Vec<Vec<u8>>) -> Result<Run, RunError> {
        let run = Run {
            shape: self.shape,
            len: self.len,
            ticks: self.ticks,
            index,
            chunks,
        };
        run.check_entries()?;
        Ok(run)
    }
}

fn seal(mut part: Vec<u8>, number: usize) -> Vec<u8> {
    let sum = sum(&part, number);
    part.extend_from_slice(&sum.to_le_bytes());
    part
}

fn check(bytes: &[u8], from: usize, to: usize, part: usize) -> Result<(), RunError> {
    let expected = long(&bytes[to..to + CHECK_BYTES]);
    if sum(&bytes[from..to], part) == expected {
        Ok(())
    } else {
        Err(RunError::Check { part })
    }
}

fn sum(bytes: &[u8], part: usize) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(part as u64, u64::from(VERSION));
    hasher.write(bytes);
    hasher.finish()
}

fn long(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("callers pass eight bytes"))
}

fn short(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("callers pass four bytes"))
}

/// Recomputes the checks of encoded bytes as far as their head allows, so that tests get past them.
#[cfg(test)]
pub(crate) fn forge_checks(bytes: &[u8]) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    let Ok(head) = Head::read(bytes) else {
        return forged;
    };
    let mut from = 0;
    let mut end = HEAD_BYTES + word_count(head.len, head.shape.buckets()) * 8;
    for part in 0..=head.len.div_ceil(CHUNK_ENTRIES) {
        let check = sum(&forged[from..end], part);
        forged[end..end + CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
        from = end + CHECK_BYTES;
        let entries = head
            .len
            .saturating_sub(part * CHUNK_ENTRIES)
            .min(CHUNK_ENTRIES);
        end = from + entries * head.shape.width();
    }
    forged
}
