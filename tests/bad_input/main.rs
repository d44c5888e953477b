//! Bad input through the real binary: one clear error, the documented exit code, nothing half done.
//!
//! Invariant of every test here: the target holds what it held before, or whole batches of records
//! that stand before the bad one; the bad record is never applied.

#[path = "../support/binary.rs"]
mod binary;
mod check;
mod give_up;
mod records;
mod restart;
mod setup;
