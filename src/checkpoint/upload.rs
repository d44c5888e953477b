//! Writes marker runs to the store, on a thread of the process that has a few helpers.
//!
//! Invariant: a run is written once an incarnation, under a name that no other run has; a part is
//! sent only when all its runs are durable. A store that fails is tried again for as long as the
//! job lives, and shown as trouble: data goes on meanwhile.
//!
//! Runs of one export are written side by side, as each waits for the store (a disk's sync, a
//! server's answer) far longer than it computes. It cannot do that for exports of two workers: they
//! queue up.

use super::manifest::{RunRef, Ticks};
use super::part::{Outbox, Part};
use crate::error::Error;
use crate::failure::Failures;
use crate::fault;
use crate::job::Panel;
use crate::store::{Put, Store};
use crossbeam_channel::{Receiver, Sender, unbounded};
use headwater_operators::marker::{MarkerExport, Run};
use headwater_operators::merge::Cut;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Runs that are written at a time; each is held a second time meanwhile, as bytes.
const WRITERS_MAX: usize = 4;
/// Pause before a failed write is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// Who is in trouble, as the panel shows it.
pub(super) const WHO: &str = "the checkpoint store";

enum Order {
    /// Runs of a restored checkpoint, which are in the store already.
    Known {
        worker: usize,
        runs: Vec<(u64, RunRef)>,
    },
    Export {
        worker: usize,
        cut: Cut,
        export: MarkerExport,
        outbox: Outbox,
    },
}

/// Takes exports; cheap to clone. Ends when all clones are gone.
#[derive(Clone, Debug)]
pub struct Uploads(Sender<Order>);

impl Uploads {
    /// Tells of runs that the store has.
    pub fn known(&self, worker: usize, runs: Vec<(u64, RunRef)>) {
        // The thread ends early only after a failure, which has been told.
        let _ = self.0.send(Order::Known { worker, runs });
    }

    /// Hands over what a worker exported; its part comes out of `outbox`.
    pub fn export(&self, worker: usize, cut: Cut, export: MarkerExport, outbox: &Outbox) {
        let _ = self.0.send(Order::Export {
            worker,
            cut,
            export,
            outbox: outbox.clone(),
        });
    }
}

/// Starts the thread.
///
/// # Errors
/// When there is none to be had.
pub fn start(
    store: Store,
    job: &str,
    incarnation: u32,
    panel: Arc<Panel>,
    failures: Arc<Failures>,
) -> Result<Uploads, Error> {
    let (sender, receiver) = unbounded();
    let prefix = format!("{job}/runs/{incarnation:010}");
    let uploader = Uploader {
        store,
        prefix,
        panel,
        failures,
        known: HashMap::new(),
        forgotten_before: HashMap::new(),
    };
    std::thread::Builder::new()
        .name("uploads".to_owned())
        .spawn(move || uploader.run(&receiver))
        .map_err(|error| Error::failed(format!("no thread for checkpoints: {error}")))?;
    Ok(Uploads(sender))
}

struct Uploader {
    store: Store,
    prefix: String,
    panel: Arc<Panel>,
    failures: Arc<Failures>,
    /// By worker and number of the run.
    known: HashMap<usize, HashMap<u64, RunRef>>,
    /// For a planted bug alone.
    forgotten_before: HashMap<usize, Option<u64>>,
}

impl Uploader {
    fn run(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Known { worker, runs } => {
                    self.known.entry(worker).or_default().extend(runs);
                }
                Order::Export {
                    worker,
                    cut,
                    export,
                    outbox,
                } => match self.export(worker, cut, export) {
                    Ok(part) => outbox.put(part),
                    Err(error) => return self.failures.report(error),
                },
            }
        }
    }

    fn export(&mut self, worker: usize, cut: Cut, export: MarkerExport) -> Result<Part, Error> {
        let known = self.known.remove(&worker).unwrap_or_default();
        let ids: Vec<u64> = export.runs.iter().map(|(id, _)| *id).collect();
        // Runs that are known are let go of at once: a merge may have replaced them meanwhile.
        let new = export.runs.into_iter();
        let new: Vec<_> = new.filter(|(id, _)| !known.contains_key(id)).collect();
        let written = self.write_all(worker, cut, &new)?;
        drop(new);
        let bytes_new = written.values().map(|run_ref| run_ref.bytes).sum();
        let (mut runs, mut now) = (Vec::new(), HashMap::new());
        for id in ids {
            let run_ref = known.get(&id).or_else(|| written.get(&id));
            let run_ref = run_ref
                .expect("a run that was not known was written")
                .clone();
            runs.push(run_ref.clone());
            now.insert(id, run_ref);
        }
        self.known.insert(worker, now);
        let mut forgotten = export.forgotten;
        if fault::planted("forgotten-at-f") {
            // What was forgotten since the export before is not told.
            forgotten = self
                .forgotten_before
                .insert(worker, forgotten)
                .unwrap_or_default();
        }
        Ok(Part::Markers {
            number: cut.number,
            worker,
            runs,
            ticks: Ticks {
                horizon: export.horizon,
                forgotten,
                spans: export.spans,
            },
            bytes_new,
        })
    }

    /// Writes runs that the store does not have; by the number of the run.
    fn write_all(
        &self,
        worker: usize,
        cut: Cut,
        new: &[(u64, Arc<Run>)],
    ) -> Result<HashMap<u64, RunRef>, Error> {
        let next = AtomicUsize::new(0);
        let write = || -> Result<Vec<(u64, RunRef)>, Error> {
            let mut written = Vec::new();
            while let Some((id, run)) = new.get(next.fetch_add(1, Ordering::Relaxed)) {
                written.push((*id, self.write(worker, *id, cut, run)?));
            }
            Ok(written)
        };
        std::thread::scope(|scope| {
            // This thread writes too, so most exports, of one small run, need no other.
            let helpers = new.len().min(WRITERS_MAX).saturating_sub(1);
            let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(write)).collect();
            let mut all: HashMap<u64, RunRef> = write()?.into_iter().collect();
            for helper in helpers {
                let written = helper.join();
                all.extend(written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(all)
        })
    }

    fn write(&self, worker: usize, id: u64, cut: Cut, run: &Run) -> Result<RunRef, Error> {
        let bytes = match fault::planted("markers-filtered") {
            true => filtered(run, cut).map_or_else(Vec::new, |run| run.encode()),
            false => run.encode(),
        };
        let range = run.range();
        let mut run_ref = RunRef {
            file: format!("{}.{worker}.{id}", self.prefix),
            first: *range.start(),
            last: *range.end(),
            markers: run.len() as u64,
            bytes: bytes.len() as u64,
        };
        if bytes.is_empty() {
            run_ref.markers = 0;
            return Ok(run_ref);
        }
        let put = || {
            fault::point("checkpoint.run.before")?;
            let put = self.store.put_new(&run_ref.file, &bytes)?;
            fault::point("checkpoint.run.after")?;
            Ok(put)
        };
        match insist(&self.panel, put) {
            Put::Written => Ok(run_ref),
            Put::Exists => Err(Error::failed(format!(
                "{} exists in {} with other contents",
                run_ref.file,
                self.store.place()
            ))
            .line("No two runs of a job have one incarnation, unless the store was copied back.")
            .line("Find out who else writes there; give this job another `checkpoint.store`.")),
        }
    }
}

/// What a checkpoint would hold if it left out what came after the cut.
fn filtered(run: &Run, cut: Cut) -> Option<Run> {
    let kept: Vec<_> = run
        .entries()
        .filter(|(_, tick)| *tick < cut.tick)
        .map(|(fingerprint, tick)| (fingerprint, headwater_operators::marker::Latest(tick)))
        .collect();
    Run::from_sorted(&kept, &run.range(), 1)
}

/// Tries until it works, and shows what is wrong meanwhile.
pub(super) fn insist<T>(panel: &Panel, mut attempt: impl FnMut() -> Result<T, Error>) -> T {
    let mut troubled = false;
    loop {
        match attempt() {
            Ok(done) => {
                if troubled {
                    panel.trouble(WHO, None);
                }
                return done;
            }
            Err(error) => {
                troubled = true;
                panel.trouble(WHO, Some(error.text));
                std::thread::sleep(RETRY);
            }
        }
    }
}
