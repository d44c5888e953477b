//! `[control] events`: tells the world outside of every transition of every generation.
//!
//! ```text
//!  durable manifest ─▶ timelines ─▶ what was not told (pure) ─▶ a topic, or a webhook
//!         ▲                                                            │
//!         └────────── `events_sent` of the next manifest ◀─────────────┘
//! ```
//! Invariant: a transition is told only after a manifest that says so is durable, at least once,
//! and in the order in which transitions came about; one that was told again has the same id.
//!
//! It cannot hold up the job: whoever listens may be away for as long as it likes.

mod event;
mod outlet;
mod place;
mod publisher;
mod told;

pub use event::Event;
pub use place::Place;
pub use publisher::Events;
pub use told::{Step, Told};
