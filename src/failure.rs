//! The first thing that went wrong in this process, told once.
//!
//! Operators and threads never end the process themselves: they report here, keep their
//! capabilities, and the worker loops see it at their next step.

use crate::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shared by all threads of a process.
#[derive(Debug, Default)]
pub struct Failures {
    any: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl Failures {
    /// Keeps `error` if it is the first.
    pub fn report(&self, error: Error) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.any.store(true, Ordering::Release);
    }

    /// Whether anything was reported; cheap enough for every step.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// What was reported first.
    pub fn first(&self) -> Option<Error> {
        self.first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
