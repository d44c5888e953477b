//! A signal before the workers run ends the process at once: nothing was read or written, and
//! nobody else looks (a bring-up may wait for a minute).
//!
//! Invariant: from the moment that [`Setup::over`] has returned, a signal only asks for a stop.

use crate::cli;
use crate::error::{Error, ErrorKind};
use crate::signals::Stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const GOING_ON: u8 = 0;
const OVER: u8 = 1;
const ENDING: u8 = 2;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Watches until it is [over](Setup::over).
pub(super) struct Setup(Arc<AtomicU8>);

impl Setup {
    /// Starts to watch.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(super) fn watch(stop: &Stop) -> Result<Self, Error> {
        let state = Arc::new(AtomicU8::new(GOING_ON));
        let (of_thread, stop) = (Arc::clone(&state), stop.clone());
        let watch = move || {
            while of_thread.load(Ordering::Acquire) == GOING_ON {
                if stop.requested() && moved(&of_thread, ENDING) {
                    let error = Error::new(
                        ErrorKind::Interrupted,
                        "interrupted before the start; nothing was read or written",
                    );
                    std::process::exit(cli::report(&error));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("setup".to_owned());
        thread
            .spawn(watch)
            .map_err(|error| Error::failed(format!("no thread could be started: {error}")))?;
        Ok(Setup(state))
    }

    /// The workers may start.
    pub(super) fn over(self) {
        while !moved(&self.0, OVER) {
            // The process is about to end.
            std::thread::park();
        }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // An error has ended the setup, or it is over.
        moved(&self.0, OVER);
    }
}

fn moved(state: &AtomicU8, to: u8) -> bool {
    state
        .compare_exchange(GOING_ON, to, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}
