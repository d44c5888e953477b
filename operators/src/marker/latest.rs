//! The difference type of markers: the latest tick.
//!
//! Invariant: `plus_equals` is the maximum, so it is associative, commutative and idempotent, and
//! batches may be consolidated and merged in any order. It has no zero: a marker never cancels out.

use differential_dataflow::difference::{IsZero, Semigroup};

/// The tick (ms of job time) of a key's latest mutation, added up by taking the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Latest(pub u64);

impl IsZero for Latest {
    fn is_zero(&self) -> bool {
        false
    }
}

impl Semigroup for Latest {
    fn plus_equals(&mut self, other: &Self) {
        self.0 = self.0.max(other.0);
    }
}
