//! `headwater run` as a process of its own: started, listened to, killed.
//!
//! Invariant: the process does not outlive its [`Child`], and what it said before its end is all
//! heard.

use super::jobs;
use crate::error::{Error, ErrorKind};
use crate::progress::Progress;
use crate::summary::Summary;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What the process says.
#[derive(Debug)]
pub(super) enum Said {
    /// Its counts of this moment.
    Counts(Progress),
    /// Its last word on stdout.
    Summary(Box<Summary>),
    /// A line on stderr.
    Note(String),
    /// Nothing in the time given.
    Nothing,
    /// Both of its outputs are closed.
    Ended,
}

/// See the module.
pub(super) struct Child {
    process: std::process::Child,
    said: Receiver<Said>,
    /// Lines of its error, told at its end.
    error: Vec<String>,
}

impl Child {
    /// Runs the healthy job in `folder`.
    pub(super) fn start(folder: &Path, workers: usize, rule: bool) -> Result<Child, Error> {
        let failed = |error: std::io::Error| {
            Error::failed("the demo cannot start this program a second time")
                .line(format!("found     {error}"))
        };
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["run", "--once", "--json", "--tell", "-c", jobs::CONFIG]);
        command.args(["-w", &workers.to_string()]);
        if !rule {
            command.arg("--without-markers");
        }
        command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
        let (say, said) = channel();
        let outputs = (process.stdout.take(), process.stderr.take());
        let child = Child {
            process,
            said,
            error: Vec::new(),
        };
        if let (Some(out), Some(err)) = outputs {
            listen(out, say.clone(), counts).map_err(failed)?;
            listen(err, say, |line| Some(Said::Note(line))).map_err(failed)?;
        }
        Ok(child)
    }

    /// The next thing that it says, or that it says nothing for `wait`.
    pub(super) fn said(&mut self, wait: Duration) -> Said {
        loop {
            match self.said.recv_timeout(wait) {
                // An error is its last word on stderr.
                Ok(Said::Note(line)) if line.starts_with("error: ") || !self.error.is_empty() => {
                    self.error.push(line);
                }
                Ok(said) => return said,
                Err(RecvTimeoutError::Timeout) => return Said::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Said::Ended,
            }
        }
    }

    /// Kills it with SIGKILL: it can do nothing about it.
    pub(super) fn kill(&mut self) -> Result<(), Error> {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed.map(|_| ()).map_err(|error| {
            Error::failed("the demo's job cannot be killed").line(format!("found     {error}"))
        })
    }

    /// What it ended with, once it has [`Said::Ended`].
    pub(super) fn end(mut self) -> Result<(), Error> {
        let status = self.process.wait().map_err(|error| {
            Error::failed("the demo's job is lost").line(format!("found     {error}"))
        })?;
        if status.success() {
            return Ok(());
        }
        let text = std::mem::take(&mut self.error).join("\n");
        let text = text.strip_prefix("error: ").unwrap_or(&text).to_owned();
        Err(Error::new(kind(status), text).line(format!("(it ended with {status})")))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both fail when it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn kind(status: ExitStatus) -> ErrorKind {
    let all = [
        ErrorKind::Usage,
        ErrorKind::NotReady,
        ErrorKind::Refused,
        ErrorKind::Interrupted,
    ];
    let known = all
        .into_iter()
        .find(|kind| Some(kind.exit_code()) == status.code());
    known.unwrap_or(ErrorKind::Failed)
}

fn counts(line: String) -> Option<Said> {
    if let Ok(summary) = serde_json::from_str(&line) {
        return Some(Said::Summary(Box::new(summary)));
    }
    // A line that was cut off by a kill is none.
    serde_json::from_str(&line).ok().map(Said::Counts)
}

/// Passes lines on, on a thread, until the output is closed.
fn listen(
    output: impl Read + Send + 'static,
    say: Sender<Said>,
    of: impl Fn(String) -> Option<Said> + Send + 'static,
) -> std::io::Result<()> {
    let lines = BufReader::new(output).lines();
    let listen = move || {
        let said = lines.map_while(Result::ok).filter_map(of);
        // Nobody listens any more when the demo is ending.
        for said in said {
            if say.send(said).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("child".to_owned());
    thread.spawn(listen).map(|_| ())
}
