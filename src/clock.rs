//! The job's clocks: the wall for a run, a hand for tests.

use headwater_operators::time::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

/// Running time of the job: it stands still between two runs.
#[derive(Debug)]
pub struct RunningTime {
    started: Instant,
    from_ms: u64,
}

impl RunningTime {
    /// Starts at 0.
    pub fn start() -> Self {
        RunningTime::from(0)
    }

    /// Goes on from where the run before stood.
    pub fn from(from_ms: u64) -> Self {
        RunningTime {
            started: Instant::now(),
            from_ms,
        }
    }
}

impl Clock for RunningTime {
    fn now_ms(&self) -> u64 {
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.from_ms.saturating_add(elapsed_ms)
    }
}

/// Another clock, later by what earlier runs have counted.
pub struct Continued {
    /// What they have.
    pub from_ms: u64,
    /// This run's.
    pub clock: Arc<dyn Clock + Send + Sync>,
}

impl Clock for Continued {
    fn now_ms(&self) -> u64 {
        self.from_ms.saturating_add(self.clock.now_ms())
    }
}

/// The wall: ms since 1970. It may jump; nothing of the dataflow depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
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
