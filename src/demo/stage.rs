//! What the parts of the demo tell each other: half of the snapshot is delivered, the job is back.
//!
//! It cannot be undone: each is said once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// READs of the first half; 0 until all are delivered.
    half: AtomicU64,
    restored: AtomicBool,
}

impl Stage {
    /// All of the first half are in the snapshot topic, so many.
    pub(super) fn half_delivered(&self, reads: u64) {
        self.half.store(reads, Ordering::Release);
    }

    /// READs of the first half, once they are delivered.
    pub(super) fn half(&self) -> Option<u64> {
        Some(self.half.load(Ordering::Acquire)).filter(|reads| *reads > 0)
    }

    /// The job goes on from its checkpoint.
    pub(super) fn restored(&self) {
        self.restored.store(true, Ordering::Release);
    }

    /// Whether it does.
    pub(super) fn is_restored(&self) -> bool {
        self.restored.load(Ordering::Acquire)
    }
}
