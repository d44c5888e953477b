//! What a record does to its row. The codes are part of the wire form of the container.
//!
//! It cannot say whether a record is applied; that is the merge's decision.

/// The outputs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The sink.
    Target,
    /// READs that must not be emitted as truth.
    Quarantine,
    /// Mutations that cannot be decoded.
    DeadLetters,
}

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
    /// A mutation that cannot be decoded, though its key can: it marks its key, poisons it, and
    /// passes the merge for the dead letters.
    Poisoned = 8,
    /// A mutation of which the key cannot be decoded either; passes for the dead letters.
    Undecodable = 9,
    /// A READ of a poisoned key; leaves the merge for the quarantine output.
    ReadPoisoned = 10,
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
            8 => Some(Op::Poisoned),
            9 => Some(Op::Undecodable),
            10 => Some(Op::ReadPoisoned),
            _ => None,
        }
    }

    /// Whether a record of this kind writes a marker.
    pub fn marks(self) -> bool {
        match self {
            Op::Upsert | Op::Delete | Op::Poisoned => true,
            Op::ReadInPlace
            | Op::Read
            | Op::Quarantined
            | Op::Late
            | Op::TooOld
            | Op::Undecodable
            | Op::ReadPoisoned => false,
        }
    }

    /// Where a record of this kind leaves the dataflow.
    pub fn leaves_for(self) -> Exit {
        match self {
            Op::Upsert | Op::Delete | Op::ReadInPlace | Op::Read => Exit::Target,
            Op::Quarantined | Op::Late | Op::TooOld | Op::ReadPoisoned => Exit::Quarantine,
            Op::Poisoned | Op::Undecodable => Exit::DeadLetters,
        }
    }
}
