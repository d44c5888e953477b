//! `headwater demo`: the whole job for real on embedded parts, and the invariant shown.
//!
//! ```text
//!  writers ─▶ source.db (SQLite, triggers write a change log in the same transaction)
//!                │ └─ log reader ─▶ mutation topic (`file`)─┐
//!                └─ snapshot, in chunks, while writes go on │
//!                     └─ READs, many deliberately late ─────┼─▶ job ─▶ sink.db
//!                                                           └─▶ rule switched off ─▶ sick.db
//! ```
//! Both jobs read the same two topics at the same time, so the disease and the cure have one
//! schedule. The job is `headwater run` in a process of its own. Half way through the snapshot it
//! is killed (SIGKILL), and started again on one worker more. At the end both sinks are compared
//! with the source, row by row, in SQL.
//!
//! Invariant: it succeeds only when the sink equals the source *and* the sick copy is really sick.

mod child;
mod compare;
mod healthy;
mod jobs;
mod report;
mod snapshot;
mod source;
mod stage;
mod topics;

use crate::cli::{self, DemoArgs};
use crate::cluster;
use crate::error::{Error, ErrorKind};
use crate::job::Job;
use crate::launch;
use crate::progress::Display;
use crate::signals::Stop;
use compare::Differences;
use healthy::{Healthy, Life};
use report::Report;
use snapshot::Snapshot;
use source::Source;
use stage::Stage;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Partitions of the mutation topic and of the snapshot topic.
pub(crate) const PARTITIONS: u32 = 4;

/// Runs the verb.
///
/// # Errors
/// When a part fails, when rows differ, or when the sick copy is not sick.
pub fn demo(args: &DemoArgs) -> Result<(), Error> {
    cluster::install_abort_on_panic();
    let stop = Stop::on_signals()?;
    let folder = Folder::make(args.dir.as_deref())?;
    let started = Instant::now();
    let source = Source::create(folder.path(), args)?;
    topics::create(folder.path())?;
    jobs::write_healthy(folder.path(), args)?;
    let sick = jobs::sick(folder.path(), args)?;
    let life = play(&source, args, &sick, &stop, started)?.ok_or_else(|| {
        let text = "the demo was interrupted";
        Error::new(ErrorKind::Interrupted, text)
    })?;
    let report = Report {
        life,
        elapsed: started.elapsed(),
        workers: args.workers,
        sink: compare::compare(folder.path(), "sink")?,
        sick: compare::compare(folder.path(), "sick")?,
        without_markers: args.without_markers,
    };
    cli::say(&if args.json {
        report.json() + "\n"
    } else {
        report.text()
    })?;
    if args.hold {
        cli::note(&format!(
            "held: the files are in {}; end with ^C",
            folder.path().display()
        ));
        while !stop.requested() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    verdict(&report.sink, &report.sick)
}

/// Runs writers, log reader, snapshot and both jobs, each on threads of their own; none when the
/// demo was stopped.
fn play(
    source: &Source,
    args: &DemoArgs,
    sick: &Arc<Job>,
    stop: &Stop,
    started: Instant,
) -> Result<Option<Life>, Error> {
    let stage = Stage::default();
    let healthy = Healthy {
        folder: source.folder(),
        args,
        stage: &stage,
        stop,
        started,
        display: Display::new(),
    };
    let watch_sick = || {
        if stop.requested() {
            sick.panel.stop();
        }
    };
    std::thread::scope(|scope| {
        let parts = [
            scope.spawn(|| part(stop, source.follow_log(stop))),
            scope.spawn(|| part(stop, Snapshot::new(source, &stage, args).run(stop))),
            scope.spawn(|| part(stop, launch::local(sick, 1, watch_sick))),
            scope.spawn(|| part(stop, source.write(args, stop))),
        ];
        let life = part(stop, healthy.live());
        let parts = parts.map(ended);
        // The parts that were only stopped have no error.
        parts.into_iter().collect::<Result<(), Error>>()?;
        life
    })
}

/// What goes wrong in one part stops the others.
fn part<T>(stop: &Stop, ended: Result<T, Error>) -> Result<T, Error> {
    ended.inspect_err(|_| stop.request())
}

fn ended(thread: ScopedJoinHandle<'_, Result<(), Error>>) -> Result<(), Error> {
    thread
        .join()
        .unwrap_or_else(|_| Err(Error::failed("a thread of the demo panicked")))
}

/// Zero differences, and a sick copy that is sick.
fn verdict(sink: &Differences, sick: &Differences) -> Result<(), Error> {
    if sink.rows() > 0 {
        return Err(Error::refused(format!("{} rows differ", sink.rows()))
            .line("The invariant is broken. Please report this with the seed and the machine."));
    }
    if sick.stale_rows + sick.resurrected_rows == 0 {
        return Err(
            Error::failed("the copy without the marker rule is not sick")
                .line("Every READ came before the mutations of its key, so nothing was shown.")
                .line("Run longer, or with more keys: --seconds, --keys."),
        );
    }
    Ok(())
}

/// Where the demo's files are; removed at the end unless a person named it.
struct Folder {
    path: PathBuf,
    remove: bool,
}

impl Folder {
    fn make(named: Option<&Path>) -> Result<Folder, Error> {
        let path = match named {
            Some(path) => path.to_path_buf(),
            None => std::env::temp_dir().join(format!("headwater-demo-{}", std::process::id())),
        };
        let failed = |error: std::io::Error| {
            Error::failed(format!("the folder {} cannot be used", path.display()))
                .line(format!("found     {error}"))
                .line("Name another with --dir.")
        };
        std::fs::create_dir_all(&path).map_err(failed)?;
        if std::fs::read_dir(&path).map_err(failed)?.next().is_some() {
            return Err(
                Error::usage(format!("the folder {} is not empty", path.display()))
                    .line("The demo writes databases and topics: name an empty or a new folder."),
            );
        }
        Ok(Folder {
            path,
            remove: named.is_none(),
        })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.remove {
            // Left behind in the temporary folder at worst.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
