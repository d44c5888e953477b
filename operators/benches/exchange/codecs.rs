//! The forms of a record that are compared, all with the columns of ours.
//!
//! abomonation is here as the historical peer and nowhere else: it is what timely used for low-copy
//! exchange until 0.13, it is unsound (RUSTSEC-2021-0120), and no product code may use it.

use abomonation::Abomonation;
use headwater_operators::record::{Op, RecordRef, TARGET_BYTES};
use serde::{Deserialize, Serialize};
use std::io::Write;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::container::{DrainContainer, PushInto, SizableContainer};
use timely::dataflow::channels::ContainerBytes;

static VALUE: [u8; 500] = [7; 500];

/// The record of number `id`, its key spread evenly over the workers.
pub(crate) fn record<const N: usize>(id: u64) -> RecordRef<'static> {
    let high = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    let high = high.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    RecordRef {
        fingerprint: (u128::from(high) << 64) | u128::from(id),
        op: Op::Upsert,
        table: 1,
        generation: 0,
        partition: 3,
        offset: id,
        read_time_ms: 0,
        key: b"8 bytes.",
        value: &VALUE[..N],
    }
}

/// A record as one would write it first: timely serialises it byte by byte.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Plain {
    pub(crate) fingerprint: u128,
    pub(crate) offset: u64,
    read_time_ms: u64,
    generation: u32,
    partition: u32,
    table: u16,
    op: u8,
    key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl From<RecordRef<'_>> for Plain {
    fn from(record: RecordRef<'_>) -> Self {
        Plain {
            fingerprint: record.fingerprint,
            offset: record.offset,
            read_time_ms: record.read_time_ms,
            generation: record.generation,
            partition: record.partition,
            table: record.table,
            op: record.op.code(),
            key: record.key.to_vec(),
            value: record.value.to_vec(),
        }
    }
}

/// The same, told that its payloads are bytes.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Thin {
    pub(crate) fingerprint: u128,
    pub(crate) offset: u64,
    read_time_ms: u64,
    generation: u32,
    partition: u32,
    table: u16,
    op: u8,
    #[serde(with = "serde_bytes")]
    key: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub(crate) value: Vec<u8>,
}

impl From<RecordRef<'_>> for Thin {
    fn from(record: RecordRef<'_>) -> Self {
        let plain = Plain::from(record);
        Thin {
            fingerprint: plain.fingerprint,
            offset: plain.offset,
            read_time_ms: plain.read_time_ms,
            generation: plain.generation,
            partition: plain.partition,
            table: plain.table,
            op: plain.op,
            key: plain.key,
            value: plain.value,
        }
    }
}

/// A record of fixed size: abomonation's best case, and aligned to 8 (a `u128` would not be). No
/// padding for `N` of 4 more than a multiple of 8.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Fixed<const N: usize> {
    pub(crate) high: u64,
    low: u64,
    pub(crate) offset: u64,
    read_time_ms: u64,
    generation: u32,
    partition: u32,
    key: [u8; 8],
    pub(crate) value: [u8; N],
    table: u16,
    op: u8,
    fill: u8,
}

impl<const N: usize> Abomonation for Fixed<N> {}

impl<const N: usize> From<RecordRef<'_>> for Fixed<N> {
    fn from(record: RecordRef<'_>) -> Self {
        Fixed {
            high: (record.fingerprint >> 64) as u64,
            low: record.fingerprint as u64,
            offset: record.offset,
            read_time_ms: record.read_time_ms,
            generation: record.generation,
            partition: record.partition,
            key: record.key.try_into().expect("8 bytes"),
            value: record.value.try_into().expect("N bytes"),
            table: record.table,
            op: record.op.code(),
            fill: 0,
        }
    }
}

/// A vector that goes over the wire by abomonation.
#[derive(Clone)]
pub(crate) struct Abomonated<const N: usize>(pub(crate) Vec<Fixed<N>>);

impl<const N: usize> Default for Abomonated<N> {
    fn default() -> Self {
        Abomonated(Vec::new())
    }
}

impl<const N: usize> Accountable for Abomonated<N> {
    fn record_count(&self) -> i64 {
        i64::try_from(self.0.len()).expect("few records")
    }
}

impl<const N: usize> DrainContainer for Abomonated<N> {
    type Item<'a> = Fixed<N>;
    type DrainIter<'a> = std::vec::Drain<'a, Fixed<N>>;
    fn drain(&mut self) -> Self::DrainIter<'_> {
        self.0.drain(..)
    }
}

impl<const N: usize> SizableContainer for Abomonated<N> {
    fn at_capacity(&self) -> bool {
        self.0.len() * size_of::<Fixed<N>>() >= TARGET_BYTES
    }

    fn ensure_capacity(&mut self, stash: &mut Option<Self>) {
        if self.0.capacity() == 0 {
            *self = stash.take().unwrap_or_default();
            self.0.clear();
            self.0.reserve(TARGET_BYTES / size_of::<Fixed<N>>() + 1);
        }
    }
}

impl<const N: usize> PushInto<Fixed<N>> for Abomonated<N> {
    fn push_into(&mut self, record: Fixed<N>) {
        self.0.push(record);
    }
}

impl<const N: usize> ContainerBytes for Abomonated<N> {
    fn from_bytes(bytes: Bytes) -> Self {
        // Decoding writes into the bytes, which timely lends for reading only: they are copied, to
        // a buffer that is aligned to 8.
        let mut words = vec![0_u64; bytes.len().div_ceil(8)];
        // SAFETY: the words are initialised, `u8` has no alignment, and the length is that of the
        // allocation; the borrow of `words` lasts as long as `buffer`.
        let buffer = unsafe {
            std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), words.len() * 8)
        };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        // SAFETY: none that holds for bytes of a stranger; here both ends are this binary, the
        // buffer is aligned for `Fixed`, and every bit pattern is one. The result is cloned before
        // the buffer goes, and never dropped itself.
        let decoded = unsafe { abomonation::decode::<Vec<Fixed<N>>>(buffer) };
        let (records, _) = decoded.expect("the peer is this same binary");
        Abomonated(records.clone())
    }

    fn length_in_bytes(&self) -> usize {
        abomonation::measure(&self.0).next_multiple_of(8)
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let padding = self.length_in_bytes() - abomonation::measure(&self.0);
        // SAFETY: `Fixed` has no padding (see there). The `Vec` itself is written with its pointer,
        // which is what makes abomonation unfit for anything but this comparison.
        unsafe { abomonation::encode(&self.0, writer) }.expect("timely hands enough room");
        writer
            .write_all(&[0; 8][..padding])
            .expect("timely hands enough room");
    }
}
