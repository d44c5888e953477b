//! The dataflow of Headwater: record container, fingerprints, markers, merge, control, progress.
//!
//! Pure by rule: no files, network, clock, threads, randomness, async or Kafka. Time arrives as the
//! frontier of the control stream, records as containers, and everything that waits lives outside.
//!
//! ```text
//!  mutations ─▶ Source ─┐ exchange(fingerprint)
//!                       ├─▶ Merge ──data──▶ Sink ──flushed──▶ probe
//!  READs ─────▶ Source ─┘    └─ READ progress (frontier only)
//!  control (worker 0) ── broadcast ──▶ sources and merge
//! ```
//!
//! It cannot: read topics, parse envelopes, write sinks or decide when a snapshot has ended; the
//! application crate does that and hands in closures.

#![forbid(unsafe_code)]

pub mod control;
pub mod decide;
pub mod exchange;
pub mod fingerprint;
pub mod gather;
pub mod marker;
pub mod merge;
pub mod poison;
pub mod record;
pub mod report;
pub mod retention;
pub mod route;
pub mod sink;
pub mod source;
pub mod time;
