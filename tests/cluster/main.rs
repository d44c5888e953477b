//! Several processes, one dataflow: how they start together and how they end together.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it should be"
)]

mod common;
mod failure;
mod handshake;
