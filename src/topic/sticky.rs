//! The first error of a reader, said again at every later call.

use crate::error::Error;

/// Nothing, until a result is an error.
#[derive(Debug, Default)]
pub(super) struct Sticky(Option<Error>);

impl Sticky {
    /// The error that was kept.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.0.clone().map_or(Ok(()), Err)
    }

    /// Keeps the error of a result, if it is one.
    pub(super) fn keep<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &result {
            self.0 = Some(error.clone());
        }
        result
    }
}
