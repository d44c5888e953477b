//! A run takes a target: who may write, how far the target is, and whether it is the same one.
//!
//! Invariant: after [`super::Sink::claim`] has returned, nothing that a writer of an older
//! incarnation does can reach the target any more (or [`Fence::None`] says that it can).
//!
//! It cannot compare a target with a checkpoint by offsets: the target may lack the last offsets of
//! a partition because their READs were dropped. So each checkpoint leaves its number in the target
//! before it is made; a target with a lower number than the checkpoint is an older copy.

use crate::table::Role;
use serde::{Deserialize, Serialize};

/// What a run says of itself when it takes a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The job; a target has one.
    pub job: String,
    /// This run of it.
    pub incarnation: u32,
    /// The checkpoint that the run starts from; 0 for a fresh job.
    pub checkpoint: u64,
    /// What that checkpoint knows the target by.
    pub identity: Option<String>,
    /// Shards of all earlier runs, at most: numbers below this may have had a writer.
    pub shards_before: usize,
}

impl Claim {
    /// The claim of a job that has no checkpoint.
    pub fn fresh(job: &str, incarnation: u32) -> Claim {
        Claim {
            job: job.to_owned(),
            incarnation,
            checkpoint: 0,
            identity: None,
            shards_before: 0,
        }
    }
}

/// What a target answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// What later checkpoints know it by; kept as long as the target is not made anew.
    pub identity: Option<String>,
    /// Whether older runs are kept out.
    pub fence: Fence,
    /// How far it is, for each partition the farthest shard: readers have seen rows of up to here.
    pub applied: Vec<Applied>,
}

/// Whether older incarnations are kept from writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fence {
    /// They are.
    Fenced,
    /// They are not; the reason is for the person.
    None(String),
}

impl Default for Fence {
    fn default() -> Self {
        Fence::None("this kind of target has no fence".to_owned())
    }
}

/// How far records of a partition were applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Applied {
    /// What the topic is for.
    pub role: Role,
    /// Its name.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// One past the last offset of it that was applied.
    pub next_offset: u64,
}
