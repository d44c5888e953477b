//! Generations: one run of a snapshot each, from its open to its promotion. Pure: no I/O, no clock.
//!
//! ```text
//!  requests ──┐
//!  evidence ──┼─▶ step (pure) ─▶ what to do ─▶ commands, cutoff, checkpoint ─▶ manifest
//!  frontiers ─┘
//! ```
//! Invariant: a stage is never taken back by a restart, and `ready` is read off one durable
//! manifest alone. Source: design.md section 9.
//!
//! It cannot make a READ good that came late or met a forgotten marker: such a generation ends.

pub mod admit;
pub mod finished;
pub mod live;
pub mod ready;
pub mod record;
pub mod request;
pub mod stage;
pub mod step;
pub mod waits;
pub mod witness;

pub use record::{Cutoff, Promotion, Reached, ReadsSeen, Scan, Scanned, Sources};
pub use request::{Answer, Body, Desk, Refusal, Request};
pub use stage::Stage;
