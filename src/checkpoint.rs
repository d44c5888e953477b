//! Checkpoints: the job's durable state, one atomic manifest at a time.
//!
//! ```text
//!  worker 0: Checkpoint at tick f ─▶ sources: next_offsets at f ────────┐
//!                                 └▶ merges: markers, once all before f ├─▶ worker 0 ─▶ manifest
//!                                    have marked ─▶ [uploads] new runs ─┘   (when all before f is
//!                                                                           durable in the sink)
//! ```
//! Exactly *at f*: next_offsets, ends, generations. *At export*, later: markers, all of them,
//! whatever their tick. A marker refreshed after f stands for a mutation before f that will not be
//! read again; one of a mutation that will be read again is harmless.
//!
//! Invariants: a manifest names only runs that are durable, and is created, never overwritten: the
//! numbered manifests are a chain, and whoever creates the next number owns it. An older
//! incarnation that still lives finds its next number taken, and ends.
//!
//! It cannot keep a Kafka topic from deleting what a restore would read again.

mod chain;
mod clean;
pub mod give_up;
pub mod manifest;
mod part;
pub mod reopen;
mod restore;
mod round;
mod upload;
mod writer;

pub use chain::{claim, latest, load, missing, name, numbers};
pub use manifest::Manifest;
pub use part::{Outbox, Part};
pub use restore::{BadReads, Resumed, resume};
pub(crate) use restore::{damaged, read_run};
pub use round::{Checkpointer, Checkpoints, CutState, Saved};
pub use upload::{Uploads, start as start_uploads};
