//! The job's clocks: the wall for a run, a hand for tests.

use headwater_operators::time::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Running time since the process started the job.
#[derive(Debug)]
pub struct RunningTime {
    started: Instant,
}

impl RunningTime {
    /// Starts at 0.
    pub fn start() -> Self {
        RunningTime {
            started: Instant::now(),
        }
    }
}

impl Clock for RunningTime {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves when told.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicU64,
}

impl ManualClock {
    /// Moves on by `ms`.
    pub fn advance(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}
