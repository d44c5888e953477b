//! How one record stands in a partition file.
//!
//! A frame is `body length | crc32 of the body | crc32 of those eight bytes` (u32, little endian),
//! then the body: `offset u64 | timestamp i64 | flags u8 | [key length u32, key] | [headers] |
//! value to the end`. Headers are `count u16`, each `name length u16, name, value length u32
//! (u32::MAX: null), value`.
//!
//! Invariant: a length is believed only with its own checksum, so a flipped bit never makes a
//! reader wait for bytes that will not come. What is cut off at the end of the file is [`Torn`],
//! what cannot be the cut of a good frame is [`Corrupt`].
//!
//! [`Torn`]: Parsed::Torn
//! [`Corrupt`]: Parsed::Corrupt

use crate::topic::{END_HEADER, RUN_HEADER, RawRecord};
use std::ops::Range;

/// Bytes before the body.
pub(super) const HEAD: usize = 12;
/// Offset, timestamp and flags: the least that a body holds.
const BODY_MIN: usize = 17;
/// Longest body: 1 GiB.
pub(super) const BODY_MAX: usize = 1 << 30;

const HAS_KEY: u8 = 1;
const HAS_VALUE: u8 = 2;
const HAS_HEADERS: u8 = 4;

/// A record to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// Its timestamp, ms since 1970.
    pub timestamp_ms: i64,
    /// Its key, if not null.
    pub key: Option<&'a [u8]>,
    /// Its value, if not null.
    pub value: Option<&'a [u8]>,
    /// Its headers: name and value, which may be null.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// Where things are in a whole frame; ranges are relative to the start of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) len: usize,
    pub(super) offset: u64,
    pub(super) timestamp_ms: i64,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    end_of_snapshot: Option<Range<usize>>,
    run_id: Option<Range<usize>>,
}

impl Frame {
    /// The record, out of the bytes that were parsed.
    pub(super) fn record<'a>(&self, frame: &'a [u8]) -> RawRecord<'a> {
        let part = |range: &Option<Range<usize>>| range.clone().map(|range| &frame[range]);
        RawRecord {
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: part(&self.key),
            value: part(&self.value),
            end_of_snapshot: part(&self.end_of_snapshot),
            run_id: part(&self.run_id),
        }
    }
}

/// What stands at the start of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A whole record with a good checksum.
    Whole(Frame),
    /// Bytes are missing: this many are needed, as far as can be told.
    Torn { needed: usize },
    /// The whole frame is there, its checksum is wrong; only the cut of a crash if it is the last.
    BadBody { len: usize },
    /// Not a frame, and no cut of one.
    Corrupt(&'static str),
}

/// Length of the frame whose head this is; the head must be whole.
fn body_len(bytes: &[u8]) -> Result<usize, &'static str> {
    if crc32fast::hash(&bytes[..8]) != u32_at(bytes, 8) {
        return Err("the checksum of the frame's head is wrong");
    }
    let len = u32_at(bytes, 0) as usize;
    if !(BODY_MIN..=BODY_MAX).contains(&len) {
        return Err("the frame's length is impossible");
    }
    Ok(len)
}

/// Parses the frame at the start of `bytes`.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    if bytes.len() < HEAD {
        return Parsed::Torn { needed: HEAD };
    }
    let len = match body_len(bytes) {
        Ok(len) => HEAD + len,
        Err(why) => return Parsed::Corrupt(why),
    };
    if bytes.len() < len {
        return Parsed::Torn { needed: len };
    }
    let frame = &bytes[..len];
    if crc32fast::hash(&frame[HEAD..]) != u32_at(frame, 4) {
        return Parsed::BadBody { len };
    }
    match body(frame) {
        Some(frame) => Parsed::Whole(frame),
        None => Parsed::Corrupt("the record does not fit its frame, though the checksum is right"),
    }
}

fn body(frame: &[u8]) -> Option<Frame> {
    let mut at = HEAD;
    let offset = u64::from_le_bytes(take(frame, &mut at, 8)?.try_into().ok()?);
    let timestamp_ms = i64::from_le_bytes(take(frame, &mut at, 8)?.try_into().ok()?);
    let flags = take(frame, &mut at, 1)?[0];
    let mut key = None;
    if flags & HAS_KEY != 0 {
        let len = take_u32(frame, &mut at)? as usize;
        take(frame, &mut at, len)?;
        key = Some(at - len..at);
    }
    let (mut end_of_snapshot, mut run_id) = (None, None);
    if flags & HAS_HEADERS != 0 {
        let count = u16::from_le_bytes(take(frame, &mut at, 2)?.try_into().ok()?);
        for _ in 0..count {
            let len = u16::from_le_bytes(take(frame, &mut at, 2)?.try_into().ok()?);
            let name = take(frame, &mut at, usize::from(len))?;
            let len = take_u32(frame, &mut at)?;
            let len = if len == u32::MAX { 0 } else { len as usize };
            take(frame, &mut at, len)?;
            if name == END_HEADER.as_bytes() {
                end_of_snapshot = Some(at - len..at);
            } else if name == RUN_HEADER.as_bytes() {
                run_id = Some(at - len..at);
            }
        }
    }
    let value = (flags & HAS_VALUE != 0).then_some(at..frame.len());
    if value.is_none() && at != frame.len() {
        return None;
    }
    // As in Kafka: the header ends a partition only without key and value.
    if key.is_some() || value.is_some() {
        end_of_snapshot = None;
    }
    Some(Frame {
        len: frame.len(),
        offset,
        timestamp_ms,
        key,
        value,
        end_of_snapshot,
        run_id,
    })
}

fn take<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Option<&'a [u8]> {
    let part = bytes.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(part)
}

fn take_u32(bytes: &[u8], at: &mut usize) -> Option<u32> {
    Some(u32::from_le_bytes(take(bytes, at, 4)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Appends a frame to `out`; on an error `out` is as it was.
pub(super) fn encode(
    out: &mut Vec<u8>,
    offset: u64,
    record: &NewRecord<'_>,
) -> Result<(), &'static str> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    if let Err(why) = encode_body(out, offset, record) {
        out.truncate(start);
        return Err(why);
    }
    let len = out.len() - start - HEAD;
    if len > BODY_MAX {
        out.truncate(start);
        return Err("the record is longer than 1 GiB");
    }
    let crc = crc32fast::hash(&out[start + HEAD..]);
    let len = u32::try_from(len).expect("at most 1 GiB");
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32fast::hash(&out[start..start + 8]);
    out[start + 8..start + HEAD].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

fn encode_body(out: &mut Vec<u8>, offset: u64, record: &NewRecord<'_>) -> Result<(), &'static str> {
    let mut flags = 0;
    flags |= if record.key.is_some() { HAS_KEY } else { 0 };
    flags |= if record.value.is_some() { HAS_VALUE } else { 0 };
    flags |= if record.headers.is_empty() {
        0
    } else {
        HAS_HEADERS
    };
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&record.timestamp_ms.to_le_bytes());
    out.push(flags);
    if let Some(key) = record.key {
        put_len(out, key.len())?;
        out.extend_from_slice(key);
    }
    if !record.headers.is_empty() {
        let count = u16::try_from(record.headers.len()).map_err(|_| "too many headers")?;
        out.extend_from_slice(&count.to_le_bytes());
        for (name, value) in record.headers {
            let len = u16::try_from(name.len()).map_err(|_| "a header's name is too long")?;
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            match value {
                Some(value) => {
                    put_len(out, value.len())?;
                    out.extend_from_slice(value);
                }
                None => out.extend_from_slice(&u32::MAX.to_le_bytes()),
            }
        }
    }
    out.extend_from_slice(record.value.unwrap_or_default());
    Ok(())
}

fn put_len(out: &mut Vec<u8>, len: usize) -> Result<(), &'static str> {
    if len > BODY_MAX {
        return Err("the record is longer than 1 GiB");
    }
    let len = u32::try_from(len).expect("at most 1 GiB");
    out.extend_from_slice(&len.to_le_bytes());
    Ok(())
}
