//! The wire form of [`Records`]: little-endian columns, widest first, then the arena.
//!
//! ```text
//! [count u64][arena bytes u64][fingerprints 16n][offsets 8n][read times 8n][generations 4n]
//! [partitions 4n][key ends 4n][value ends 4n][tables 2n][ops n][arena][zeros to a multiple of 8]
//! ```
//! A received container stays a view of the bytes; every column is checked once on arrival, so that
//! reading can neither panic nor leave the arena.
//!
//! It cannot recover: `ContainerBytes::from_bytes` has no error, so bytes that are no container end
//! the process (a peer of another version is refused by the handshake before this).

use super::{COLUMN_BYTES, Op, RecordRef, Records};
use std::io::Write;
use timely::bytes::arc::Bytes;
use timely::dataflow::channels::ContainerBytes;

const HEAD_BYTES: usize = 16;

/// Where each column of a received container begins.
#[derive(Clone, Copy, Debug)]
struct Layout {
    count: usize,
    arena_bytes: usize,
}

impl Layout {
    fn offsets(self) -> usize {
        HEAD_BYTES + 16 * self.count
    }
    fn read_times(self) -> usize {
        HEAD_BYTES + 24 * self.count
    }
    fn generations(self) -> usize {
        HEAD_BYTES + 32 * self.count
    }
    fn partitions(self) -> usize {
        HEAD_BYTES + 36 * self.count
    }
    fn key_ends(self) -> usize {
        HEAD_BYTES + 40 * self.count
    }
    fn value_ends(self) -> usize {
        HEAD_BYTES + 44 * self.count
    }
    fn tables(self) -> usize {
        HEAD_BYTES + 48 * self.count
    }
    fn ops(self) -> usize {
        HEAD_BYTES + 50 * self.count
    }
    fn arena(self) -> usize {
        HEAD_BYTES + 51 * self.count
    }
    fn padded_bytes(self) -> usize {
        (self.arena() + self.arena_bytes).next_multiple_of(8)
    }
}

/// A received container: validated bytes and their layout.
#[derive(Clone)]
pub(super) struct View {
    bytes: Bytes,
    layout: Layout,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..]
        .first_chunk()
        .expect("columns were checked when the container arrived")
}

impl View {
    /// Checks `bytes`; `None` when they are no container.
    fn checked(bytes: Bytes) -> Option<View> {
        let count = usize::try_from(u64::from_le_bytes(*bytes.first_chunk()?)).ok()?;
        let arena_bytes =
            usize::try_from(u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?)).ok()?;
        let columns = count
            .checked_mul(51)?
            .checked_add(HEAD_BYTES)?
            .checked_add(arena_bytes)?;
        if bytes.len() != columns.checked_next_multiple_of(8)? {
            return None;
        }
        let layout = Layout { count, arena_bytes };
        let mut last = 0;
        for index in 0..count {
            let key_end = u32::from_le_bytes(word(&bytes, layout.key_ends() + 4 * index));
            let value_end = u32::from_le_bytes(word(&bytes, layout.value_ends() + 4 * index));
            if key_end < last || value_end < key_end {
                return None;
            }
            last = value_end;
        }
        if last as usize != arena_bytes {
            return None;
        }
        let ops = &bytes[layout.ops()..layout.ops() + count];
        if ops.iter().any(|code| Op::from_code(*code).is_none()) {
            return None;
        }
        Some(View { bytes, layout })
    }

    pub(super) fn len(&self) -> usize {
        self.layout.count
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.layout.count * COLUMN_BYTES + self.layout.arena_bytes
    }

    pub(super) fn fingerprint(&self, index: usize) -> u128 {
        assert!(
            index < self.layout.count,
            "record {index} of {}",
            self.layout.count
        );
        u128::from_le_bytes(word(&self.bytes, HEAD_BYTES + 16 * index))
    }

    pub(super) fn op(&self, index: usize) -> Op {
        assert!(
            index < self.layout.count,
            "record {index} of {}",
            self.layout.count
        );
        Op::from_code(self.bytes[self.layout.ops() + index]).expect("ops were checked on arrival")
    }

    pub(super) fn get(&self, index: usize) -> RecordRef<'_> {
        let (bytes, layout) = (&self.bytes[..], self.layout);
        let end = |column: usize, index: usize| {
            layout.arena() + u32::from_le_bytes(word(bytes, column + 4 * index)) as usize
        };
        let start = match index {
            0 => layout.arena(),
            _ => end(layout.value_ends(), index - 1),
        };
        let key_end = end(layout.key_ends(), index);
        RecordRef {
            fingerprint: self.fingerprint(index),
            op: self.op(index),
            table: u16::from_le_bytes(word(bytes, layout.tables() + 2 * index)),
            generation: u32::from_le_bytes(word(bytes, layout.generations() + 4 * index)),
            partition: u32::from_le_bytes(word(bytes, layout.partitions() + 4 * index)),
            offset: u64::from_le_bytes(word(bytes, layout.offsets() + 8 * index)),
            read_time_ms: u64::from_le_bytes(word(bytes, layout.read_times() + 8 * index)),
            key: &bytes[start..key_end],
            value: &bytes[key_end..end(layout.value_ends(), index)],
        }
    }
}

fn put<W: Write, const N: usize>(writer: &mut W, column: impl Iterator<Item = [u8; N]>) {
    // A stack buffer turns many tiny writes into few: `W` is often a cursor, sometimes a socket.
    let mut chunk = [0_u8; 1024];
    let mut filled = 0;
    for value in column {
        chunk[filled..filled + N].copy_from_slice(&value);
        filled += N;
        if filled + N > chunk.len() {
            write(writer, &chunk[..filled]);
            filled = 0;
        }
    }
    write(writer, &chunk[..filled]);
}

fn write<W: Write>(writer: &mut W, bytes: &[u8]) {
    writer
        .write_all(bytes)
        .expect("timely hands a writer of length_in_bytes() bytes");
}

impl ContainerBytes for Records {
    fn from_bytes(bytes: Bytes) -> Self {
        let view = View::checked(bytes).expect("the bytes a peer sent are no record container");
        Records {
            received: Some(view),
            ..Records::default()
        }
    }

    fn length_in_bytes(&self) -> usize {
        match &self.received {
            Some(view) => view.bytes.len(),
            None => Layout {
                count: self.ops.len(),
                arena_bytes: self.arena.len(),
            }
            .padded_bytes(),
        }
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        if let Some(view) = &self.received {
            return write(writer, &view.bytes);
        }
        let layout = Layout {
            count: self.ops.len(),
            arena_bytes: self.arena.len(),
        };
        write(writer, &(layout.count as u64).to_le_bytes());
        write(writer, &(layout.arena_bytes as u64).to_le_bytes());
        put(writer, self.fingerprints.iter().map(|x| x.to_le_bytes()));
        put(writer, self.offsets.iter().map(|x| x.to_le_bytes()));
        put(writer, self.read_times_ms.iter().map(|x| x.to_le_bytes()));
        put(writer, self.generations.iter().map(|x| x.to_le_bytes()));
        put(writer, self.partitions.iter().map(|x| x.to_le_bytes()));
        put(writer, self.key_ends.iter().map(|x| x.to_le_bytes()));
        put(writer, self.value_ends.iter().map(|x| x.to_le_bytes()));
        put(writer, self.tables.iter().map(|x| x.to_le_bytes()));
        put(writer, self.ops.iter().map(|x| [x.code()]));
        write(writer, &self.arena);
        let padding = layout.padded_bytes() - layout.arena() - layout.arena_bytes;
        write(writer, &[0; 8][..padding]);
    }
}
