//! The named points at which a process can be made to fail, as the random runs use them.
//!
//! Invariant: a point stands here with whether it is a write to the store, which can also be full
//! or short.

/// (name, whether it writes to the store)
pub(crate) const POINTS: &[(&str, bool)] = &[];
