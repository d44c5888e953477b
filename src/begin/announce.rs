//! How process 0 tells the others, through the store, what this start of the cluster goes on from.
//!
//! Invariant: a process that reads it has the store of process 0.

use super::Begun;
use crate::checkpoint::{self, Manifest};
use crate::error::Error;
use crate::sink::Applied;
use crate::store::Store;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How long a process waits for what process 0 leaves in the store after the cluster is up.
const FOLLOW_WAIT: Duration = Duration::from_secs(10);

/// What process 0 leaves for the others.
#[derive(Serialize, Deserialize)]
struct Announced {
    manifest: u64,
    replay: Vec<Applied>,
}

fn up(job: &str, start: &str) -> String {
    format!("{job}/up/{start}")
}

/// Process 0 tells the others, through the store, which manifest this start of the cluster goes on
/// from; `start` is what the handshake drew.
///
/// # Errors
/// When the store cannot be written.
pub fn announce(store: &Store, begun: &Begun, start: &str) -> Result<(), Error> {
    let job = &begun.manifest.job;
    for old in store.list(&up(job, ""))? {
        store.delete(&old.name)?;
    }
    crate::fault::point("claim.announce.before")?;
    let announced = Announced {
        manifest: begun.manifest.number,
        replay: begun.replay.clone(),
    };
    let text = serde_json::to_vec(&announced).expect("plain data");
    store.put(&up(job, start), &text)
}

/// A process other than 0 reads it back: proof that all have one store.
///
/// # Errors
/// When it is not there in time: a store that only this host has.
pub fn follow(store: &Store, job: &str, start: &str) -> Result<(Manifest, Vec<Applied>), Error> {
    let until = Instant::now() + FOLLOW_WAIT;
    let object = up(job, start);
    loop {
        if let Some(text) = store.get(&object)? {
            let announced: Announced = serde_json::from_slice(&text).map_err(|error| {
                Error::failed(format!("{object} in {} cannot be read", store.place())).line(error)
            })?;
            let manifest = checkpoint::load(store, job, announced.manifest)?;
            return Ok((manifest, announced.replay));
        }
        if Instant::now() >= until {
            return Err(
                Error::usage("this process has another store than process 0")
                    .line(format!("missing   {object} in {}", store.place()))
                    .line("expected  what process 0 has just written there")
                    .line("`checkpoint.store` must be one place that all hosts reach: a shared")
                    .line("folder, s3://, gs:// or az://."),
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
