//! What a person is told when something cannot go on, and the exit code that goes with it.
//!
//! An error is a headline that names the thing, then lines with what was found, what was expected
//! and what to do. Row values never appear in one.

use std::fmt;

/// What the person or the supervisor must do; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Something broke or a service is away: look, then start again. Exit code 1.
    Failed,
    /// The command line or the configuration is wrong. Exit code 2.
    Usage,
    /// What was waited for did not come in time. Exit code 3.
    NotReady,
    /// Going on could give wrong rows. Exit code 4.
    Refused,
    /// A person stopped it. Exit code 130.
    Interrupted,
}

impl ErrorKind {
    /// The exit code of the process.
    pub fn exit_code(self) -> i32 {
        match self {
            ErrorKind::Failed => 1,
            ErrorKind::Usage => 2,
            ErrorKind::NotReady => 3,
            ErrorKind::Refused => 4,
            ErrorKind::Interrupted => 130,
        }
    }
}

/// An error as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What must be done about it.
    pub kind: ErrorKind,
    /// Headline first, then one detail a line.
    pub text: String,
}

impl Error {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error {
            kind,
            text: text.into(),
        }
    }

    /// Something broke.
    pub fn failed(text: impl Into<String>) -> Self {
        Error::new(ErrorKind::Failed, text)
    }

    /// The command line or the configuration is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage, text)
    }

    /// Going on could give wrong rows.
    pub fn refused(text: impl Into<String>) -> Self {
        Error::new(ErrorKind::Refused, text)
    }

    /// Adds a detail line.
    #[must_use]
    pub fn line(mut self, text: impl fmt::Display) -> Self {
        self.text.push_str(&format!("\n  {text}"));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}
