//! `headwater config`, and printing itself.

use crate::config::{Config, FILE, Origin};
use crate::error::Error;
use std::io::{self, Write};
use std::path::Path;

/// `headwater config`: prints the effective configuration; the defaults when there is no file and
/// none was named. Notices go to stderr.
///
/// # Errors
/// As [`Config::load`].
pub fn config(origin: &Origin) -> Result<(), Error> {
    let loaded = if origin.path.is_none() && !Path::new(FILE).exists() {
        Config::parse(FILE, "", &origin.sets)?
    } else {
        Config::load(origin)?
    };
    for notice in &loaded.notices {
        note(notice);
    }
    say(&loaded.config.to_toml())
}

/// Prints to stdout. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// When stdout cannot be written.
pub fn say(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::failed("stdout cannot be written").line(format!("found     {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a notice to stderr, as `note: …`.
pub fn note(text: &str) {
    eprintln!("note: {text}");
}

/// Prints an error to stderr, as `error: …`, and gives the exit code.
pub fn report(error: &Error) -> i32 {
    eprintln!("error: {error}");
    error.kind.exit_code()
}
