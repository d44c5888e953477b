//! Logical time: `u64` milliseconds of the job's own running time, in whole ticks.
//!
//! Worker 0 alone reads the clock; everyone else learns time as the frontier of the control stream.
//! Arithmetic saturates at 0. It stands still while the job is down, so an outage ages nothing.

use timely::progress::frontier::MutableAntichain;

/// Gives the job's running time. Handed in, so that a simulator can own it.
pub trait Clock {
    /// Milliseconds since the job first started, outages left out.
    fn now_ms(&self) -> u64;
}

/// The tick that holds `now_ms`.
pub fn tick_at(now_ms: u64, tick_ms: u64) -> u64 {
    now_ms - now_ms % tick_ms
}

/// The last tick that a control frontier has passed: no command of it can still arrive. `None`
/// before the first tick has passed, and when the frontier is empty (the control stream has ended,
/// which proves nothing about time).
pub fn last_passed(frontier: &MutableAntichain<u64>, tick_ms: u64) -> Option<u64> {
    frontier
        .frontier()
        .first()
        .and_then(|next| next.checked_sub(tick_ms))
}

#[cfg(test)]
mod tests {
    use super::{last_passed, tick_at};
    use timely::progress::frontier::MutableAntichain;

    #[test]
    fn a_tick_is_passed_when_the_next_one_is_first() {
        assert_eq!(tick_at(59, 20), 40);
        let at = |time: u64| MutableAntichain::from_elem(time);
        assert_eq!(last_passed(&at(0), 20), None);
        assert_eq!(last_passed(&at(20), 20), Some(0));
        assert_eq!(last_passed(&at(60), 20), Some(40));
        assert_eq!(last_passed(&MutableAntichain::new(), 20), None);
    }
}
