//! SIGINT and SIGTERM: the first asks for a clean stop, the second ends the process with 130.
//!
//! Invariant: the handlers only set flags or exit, which is all that a signal handler may do. The
//! run loop must look at [`Stop::requested`] often (each tick); nothing here wakes it.

use crate::error::Error;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop; all clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A request that no signal makes; for tests and embedded jobs.
    pub fn new() -> Self {
        Stop::default()
    }

    /// A request that SIGINT or SIGTERM makes; a second signal ends the process at once with exit
    /// code 130. Call it once a process.
    ///
    /// # Errors
    /// When the system takes no handler.
    pub fn on_signals() -> Result<Self, Error> {
        let stop = Stop::new();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, and then sets it.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop.0))
                .and_then(|_| flag::register(signal, Arc::clone(&stop.0)))
                .map_err(|error| {
                    Error::failed("signals cannot be handled").line(format!("found     {error}"))
                })?;
        }
        Ok(stop)
    }

    /// Asks for the stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether somebody asked for it.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::Stop;
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::low_level::raise;
    use std::process::Command;

    const CHILD: &str = "HEADWATER_TEST_SIGNALS";

    #[test]
    fn a_request_reaches_all_clones() {
        let stop = Stop::new();
        let other = stop.clone();
        assert!(!other.requested());
        stop.request();
        assert!(other.requested());
    }

    /// Runs as a child of the test below; alone it does nothing.
    #[test]
    fn child() {
        let Ok(signals) = std::env::var(CHILD) else {
            return;
        };
        let stop = Stop::on_signals().expect("handlers");
        assert!(!stop.requested());
        for name in signals.split(' ') {
            raise(if name == "INT" { SIGINT } else { SIGTERM }).expect("raised");
            assert!(stop.requested());
        }
        std::process::exit(7);
    }

    #[test]
    fn the_first_signal_asks_and_the_second_ends() {
        for (signals, code) in [("INT", 7), ("TERM", 7), ("INT INT", 130), ("TERM INT", 130)] {
            let status = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "signals::tests::child", "--test-threads=1"])
                .env(CHILD, signals)
                .output()
                .expect("a child")
                .status;
            assert_eq!(status.code(), Some(code), "{signals}");
        }
    }
}
