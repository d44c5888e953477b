//! How long to wait before a batch is tried again, and a switch that ends the wait at once.
//!
//! It cannot give up by itself: a target that is away is retried until it is back or the job ends.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

const FIRST_MS: u64 = 50;
const MAX_MS: u64 = 5_000;

/// The pause before attempt `attempts + 1`: doubled each time, at most 5 s.
pub(super) fn pause(attempts: u32) -> Duration {
    let doubled = FIRST_MS.saturating_mul(1_u64 << attempts.saturating_sub(1).min(16));
    Duration::from_millis(doubled.min(MAX_MS))
}

/// Set once; whoever waits on it wakes.
#[derive(Debug, Default)]
pub(super) struct Stop {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub(super) fn set(&self) {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    pub(super) fn is_set(&self) -> bool {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so long or until it is set; whether it is.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let guard = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(guard, timeout, |set| !*set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::pause;

    #[test]
    fn pauses_grow_to_the_cap() {
        let ms: Vec<u128> = (1..10)
            .map(|attempts| pause(attempts).as_millis())
            .collect();
        assert_eq!(ms, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pause(u32::MAX).as_millis(), 5000);
    }
}
