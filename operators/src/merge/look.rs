//! A question about one fingerprint, and what the merge that owns it knows.
//!
//! Invariant: the answer holds what [`crate::decide::decide`] would be given for a READ of that key
//! that came now, so nobody needs a copy of the rule.
//!
//! It cannot say what a READ that is under way will meet: a mutation may come before it.

use super::Cut;
use crate::control::Command;
use crate::poison::PoisonMark;
use crate::retention::{Retention, Window};
use serde::{Deserialize, Serialize};

/// What is known of one fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Of the question.
    pub id: u64,
    /// The tick of its marker.
    pub marker: Option<u64>,
    /// The tick of its last mutation, if that could not be decoded.
    #[serde(default)]
    pub poison: Option<u64>,
    /// The latest tick of a marker that was forgotten on the worker that owns it.
    pub forgotten_through: Option<u64>,
    /// The generations that are open for its table, by number, oldest first.
    pub windows: Vec<(u32, Window)>,
}

/// Who is told what the merge has to say beside its outputs. A closure that takes exports is one
/// that nobody asks anything.
pub trait Told<E> {
    /// The markers at a cut.
    fn exported(&mut self, cut: Cut, export: E);

    /// The poisoned keys at a cut; told before its markers.
    fn poisoned(&mut self, cut: Cut, marks: Vec<PoisonMark>) {
        let _ = (cut, marks);
    }

    /// What a [`Command::Look`] has found.
    fn looked(&mut self, looked: Looked) {
        let _ = looked;
    }
}

impl<E, F: FnMut(Cut, E)> Told<E> for F {
    fn exported(&mut self, cut: Cut, export: E) {
        self(cut, export);
    }
}

/// A question that waits for the mutations of its activation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    id: u64,
    pub(super) fingerprint: u128,
    table: u16,
}

impl Look {
    pub(super) fn of(command: &Command) -> Option<Look> {
        match *command {
            Command::Look {
                id,
                fingerprint,
                table,
            } => Some(Look {
                id,
                fingerprint,
                table,
            }),
            _ => None,
        }
    }

    pub(super) fn answer(
        self,
        (marker, poison): (Option<u64>, Option<u64>),
        forgotten_through: Option<u64>,
        retention: &Retention,
    ) -> Looked {
        Looked {
            id: self.id,
            marker,
            poison,
            forgotten_through,
            windows: retention.windows(self.table),
        }
    }
}

#[cfg(test)]
mod tests;
