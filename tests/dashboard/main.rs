//! The page at `/` in headless Chromium: beside a real job, and beside a server that answers what a
//! test wants.
//!
//! Invariant: what looks for outside requests, for text that cannot be read and for complaints of
//! the browser finds each of them where it was planted.
//!
//! It knows one browser.

#[path = "../support/binary.rs"]
#[expect(dead_code, reason = "the tests of `run` use all of it")]
mod binary;
mod browser;
mod fake;
#[path = "../support/hosts.rs"]
mod free_hosts;
mod job;
mod looks;
mod outside;
#[path = "../control/schema.rs"]
mod schema;
mod screenshot;
mod server;
mod states;

use std::time::Duration;

/// For everything that is waited for; the machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);
