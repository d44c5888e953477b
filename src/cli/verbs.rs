//! The verbs that need no job: `config`, `init`, and printing itself.

use super::InitArgs;
use crate::config::{Config, FILE, Origin, starter};
use crate::error::Error;
use std::fs::OpenOptions;
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

/// `headwater init`: writes a first configuration, and never over a file that is there.
///
/// # Errors
/// Of usage: arguments that make no good configuration, or a file that exists already.
pub fn init(args: &InitArgs) -> Result<(), Error> {
    let text = starter(&args.init)?;
    let name = args.path.display();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&args.path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::usage(format!("{name} exists already"))
                .line("It is not replaced. Remove it, or write another with `-c FILE`."),
            _ => Error::failed(format!("{name} cannot be written"))
                .line(format!("found     {error}")),
        })?;
    file.write_all(text.as_bytes()).map_err(|error| {
        Error::failed(format!("{name} was not written to its end"))
            .line(format!("found     {error}"))
    })?;
    say(&format!(
        "{name} written. Next: `headwater check -c {name}`, then `headwater run -c {name}`.\n"
    ))
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
