//! When a feed takes its offsets for a checkpoint: at the command, before anything is read behind
//! it.
//!
//! It cannot take them itself; and only a planted bug makes it wait.

use crate::fault;

/// For a planted bug alone: offsets are taken so many polls after the cut, behind the markers.
const LATE_POLLS: u32 = 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    late: Option<(u64, u32)>,
}

impl Cuts {
    /// The checkpoint whose offsets are to be taken now, at its command.
    pub(super) fn command(&mut self, number: u64) -> Option<u64> {
        if fault::planted("offsets-ahead") {
            self.late = Some((number, LATE_POLLS));
            return None;
        }
        Some(number)
    }

    /// For a planted bug alone: the one whose offsets are to be taken now, at a poll.
    pub(super) fn polled(&mut self, stopped: bool) -> Option<u64> {
        let (_, polls) = self.late.as_mut()?;
        if *polls > 0 && !stopped {
            *polls -= 1;
            return None;
        }
        self.late.take().map(|(number, _)| number)
    }
}
