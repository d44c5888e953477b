//! The healthy job's life: started, killed half way through the snapshot, restored on another
//! number of workers, run to its end.
//!
//! Invariant: it is killed only when a checkpoint is there and mutations came after it, so that the
//! restore has something to read again; what it had counted itself is known up to 0.3 s before its
//! death, the checkpoint exactly.

use super::child::{Child, Said};
use super::jobs;
use super::stage::Stage;
use crate::checkpoint::{self, Manifest};
use crate::cli::DemoArgs;
use crate::error::Error;
use crate::progress::{Display, Progress};
use crate::signals::Stop;
use crate::store::Store;
use crate::summary::Summary;
use crate::table::Role;
use std::path::Path;
use std::time::{Duration, Instant};

const LISTEN: Duration = Duration::from_millis(50);

/// What the job's two runs have come to.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// What the killed run had told last.
    pub(super) killed: Progress,
    /// Since the start of the demo.
    pub(super) killed_after: Duration,
    /// What the second run went on from.
    pub(super) from: Base,
    /// Workers of the second run.
    pub(super) workers: usize,
    /// From the kill until the second run ran.
    pub(super) down: Duration,
    /// What the second run said at its end.
    pub(super) last: Summary,
    /// Checkpoints of both runs.
    pub(super) checkpoints: u64,
}

/// A checkpoint, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    /// Its number in the chain.
    pub(super) number: u64,
    /// Records of the mutation topic in it.
    pub(super) mutations: u64,
    /// READs in it.
    pub(super) reads: u64,
    /// Its markers.
    pub(super) markers: u64,
    /// The run that wrote it.
    incarnation: u32,
    /// Whether it is more than a run's claim on the job.
    whole: bool,
}

impl Base {
    fn of(manifest: &Manifest) -> Base {
        let read = |role| manifest.of(role).map(|state| state.next_offset).sum();
        Base {
            number: manifest.number,
            mutations: read(Role::Mutations),
            reads: read(Role::Snapshot),
            markers: manifest.markers.runs.iter().map(|run| run.markers).sum(),
            incarnation: manifest.incarnation,
            whole: manifest.time.cut_ms > 0,
        }
    }
}

/// Lives it.
pub(super) struct Healthy<'a> {
    pub(super) folder: &'a Path,
    pub(super) args: &'a DemoArgs,
    pub(super) stage: &'a Stage,
    pub(super) stop: &'a Stop,
    pub(super) started: Instant,
    pub(super) display: Display,
}

impl Healthy<'_> {
    /// To the end; none when the demo was stopped.
    ///
    /// # Errors
    /// What the job ends with, and an end before it could be killed.
    pub(super) fn live(mut self) -> Result<Option<Life>, Error> {
        let store = self.folder.join(jobs::STORE);
        let store = Store::open(&format!("file:{}", store.display()))?;
        let Some(killed) = self.run_and_kill(&store)? else {
            return Ok(None);
        };
        let (killed_at, killed_after) = (Instant::now(), self.started.elapsed());
        let from = newest(&store)?.unwrap_or_default();
        let workers = self.args.workers + 1;
        self.display.say(&format!(
            "killed (SIGKILL) on {} workers, to be restored on {workers} from checkpoint {}",
            self.args.workers, from.number
        ));
        let mut child = self.start(workers)?;
        let (mut told, mut summary, mut down) = (Progress::default(), None, None);
        loop {
            match child.said(LISTEN) {
                Said::Counts(counts) => {
                    self.stage.restored();
                    down = down.or(Some(killed_at.elapsed()));
                    told = counts;
                }
                Said::Summary(last) => summary = Some(*last),
                Said::Note(line) => self.display.say(&line),
                Said::Nothing => {}
                Said::Ended => break,
            }
            self.show(&sum(&killed, &from, &told));
            if self.stop.requested() {
                return Ok(None);
            }
        }
        child.end()?;
        let last = summary.ok_or_else(|| Error::failed("the demo's job ended without a word"))?;
        let written = newest(&store)?.unwrap_or_default();
        let mut end = sum(&killed, &from, &told);
        end.elapsed_ms = ms(self.started.elapsed());
        end.snapshot_total = Some(self.args.keys);
        self.display.finish(&end);
        Ok(Some(Life {
            killed,
            killed_after,
            from,
            workers,
            down: down.unwrap_or_default(),
            last,
            // Each run's first manifest is its claim on the job.
            checkpoints: written
                .number
                .saturating_sub(u64::from(written.incarnation)),
        }))
    }

    /// The first run, to its death; what it told last.
    fn run_and_kill(&mut self, store: &Store) -> Result<Option<Progress>, Error> {
        let mut child = self.start(self.args.workers)?;
        let mut told = Progress::default();
        let mut base: Option<(Base, Instant)> = None;
        while !self.due(&told, base) {
            match child.said(LISTEN) {
                Said::Counts(counts) => told = counts,
                Said::Note(line) => self.display.say(&line),
                Said::Summary(_) | Said::Nothing => {}
                Said::Ended => {
                    child.end()?;
                    return Err(Error::failed("the job ended before it could be killed")
                        .line("Run longer, or with more keys: --seconds, --keys."));
                }
            }
            self.show(&told);
            if self.stop.requested() {
                return Ok(None);
            }
            let found = newest(store)?.filter(|found| found.whole);
            if found != base.map(|(base, _)| base) {
                base = found.map(|found| (found, Instant::now()));
            }
        }
        child.kill()?;
        loop {
            // What it had said before its death.
            match child.said(LISTEN) {
                Said::Counts(counts) => told = counts,
                Said::Note(line) => self.display.say(&line),
                Said::Ended => return Ok(Some(told)),
                Said::Summary(_) | Said::Nothing => {}
            }
        }
    }

    /// Half way, and in the midst of what no checkpoint holds.
    fn due(&self, told: &Progress, base: Option<(Base, Instant)>) -> bool {
        let half = self.stage.half();
        let half = half.is_some_and(|reads| told.snapshot_consumed >= reads);
        base.is_some_and(|(base, seen)| {
            half && told.mutations_emitted > base.mutations
                && seen.elapsed() >= jobs::interval(self.args) / 2
        })
    }

    fn start(&self, workers: usize) -> Result<Child, Error> {
        Child::start(self.folder, workers, !self.args.without_markers)
    }

    fn show(&mut self, counts: &Progress) {
        self.display.show(&Progress {
            elapsed_ms: ms(self.started.elapsed()),
            snapshot_total: Some(self.args.keys),
            ..*counts
        });
    }
}

/// The newest manifest, in numbers.
fn newest(store: &Store) -> Result<Option<Base>, Error> {
    let newest = checkpoint::latest(store, jobs::HEALTHY)?;
    Ok(newest.as_ref().map(Base::of))
}

/// Both runs together; what was read again counts once where that is known.
fn sum(killed: &Progress, from: &Base, now: &Progress) -> Progress {
    Progress {
        mutations_emitted: killed.mutations_emitted + now.mutations_emitted,
        reads_emitted: killed.reads_emitted + now.reads_emitted,
        reads_dropped_marker: killed.reads_dropped_marker + now.reads_dropped_marker,
        reads_quarantined: killed.reads_quarantined + now.reads_quarantined,
        snapshot_consumed: from.reads + now.snapshot_consumed,
        ..*now
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
