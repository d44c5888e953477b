//! What each worker contributes to a checkpoint, or has found, on its way to worker 0.

use super::manifest::{PartitionState, RunRef, Ticks};
use crate::dead_letter::Counted;
use crate::generation::ReadsSeen;
use crate::key::KnownShape;
use crate::table::Role;
use headwater_operators::merge::Looked;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One worker's share of checkpoint `number`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// How far a source had read at the cut.
    Read {
        /// Of the checkpoint.
        number: u64,
        /// Who.
        worker: usize,
        /// Of which topics.
        role: Role,
        /// Its partitions.
        partitions: Vec<PartitionState>,
        /// READs that it had read since the start of this run, by generation.
        reads: BTreeMap<u32, Vec<ReadsSeen>>,
        /// Mutations that it had given as dead letters since the start of this run.
        dead_letters: Vec<Counted>,
        /// The key shapes that its process knew.
        shapes: Vec<KnownShape>,
    },
    /// Markers, durable in the store.
    Markers {
        /// Of the checkpoint.
        number: u64,
        /// Who.
        worker: usize,
        /// The runs.
        runs: Vec<RunRef>,
        /// Marked and forgotten ticks.
        ticks: Ticks,
        /// Bytes that had to be written.
        bytes_new: u64,
    },
    /// The poisoned keys of a merge, at the export of its markers.
    Poisoned {
        /// Of the checkpoint.
        number: u64,
        /// Who.
        worker: usize,
        /// Fingerprints, and the ticks of their mutations.
        marks: Vec<(u128, u64)>,
    },
    /// The answer to a question about a fingerprint: of no checkpoint, on the same way.
    Looked(Looked),
}

/// Parts of one worker that worker 0 has not been sent yet.
#[derive(Clone, Debug, Default)]
pub struct Outbox(Arc<Mutex<Vec<Part>>>);

impl Outbox {
    /// Adds a part.
    pub fn put(&self, part: Part) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(part);
    }

    /// Moves all parts to `out`.
    pub fn drain(&self, out: &mut Vec<Part>) {
        out.append(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
