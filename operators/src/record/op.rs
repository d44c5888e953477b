//! What a record does to its row. The codes are part of the wire form of the container.
//!
//! It cannot say whether a record is applied; that is the merge's decision.

/// The kinds of record that the dataflow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// A mutation that leaves a row: INSERT or UPDATE.
    Upsert = 1,
    /// A mutation that leaves none: DELETE, or a tombstone by itself.
    Delete = 2,
    /// An `r` on the mutation topic: emitted in place, marks nothing.
    ReadInPlace = 3,
    /// One READ of the private snapshot topic.
    Read = 4,
    /// A READ that must not be emitted as truth; leaves the merge for the quarantine output.
    Quarantined = 5,
    /// A READ at or past its partition's frozen end; passes the merge for the quarantine output.
    Late = 6,
    /// A READ of an older run that a late producer has appended; passes the merge likewise.
    TooOld = 7,
}

impl Op {
    /// The wire code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The op of a wire code, if there is one.
    pub fn from_code(code: u8) -> Option<Op> {
        match code {
            1 => Some(Op::Upsert),
            2 => Some(Op::Delete),
            3 => Some(Op::ReadInPlace),
            4 => Some(Op::Read),
            5 => Some(Op::Quarantined),
            6 => Some(Op::Late),
            7 => Some(Op::TooOld),
            _ => None,
        }
    }

    /// Whether a record of this kind writes a marker.
    pub fn marks(self) -> bool {
        match self {
            Op::Upsert | Op::Delete => true,
            Op::ReadInPlace | Op::Read | Op::Quarantined | Op::Late | Op::TooOld => false,
        }
    }
}
