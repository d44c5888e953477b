//! Writes manifests, on a thread of worker 0's process.
//!
//! Steps, each durable before the next: the target is told the number; the manifest is created; it
//! is read back with the sizes of all its runs; what no kept manifest names is deleted. What the
//! manifest says of generations is told to the target and to the world outside after it: neither
//! may know of a stage that no durable manifest has.
//!
//! Invariant: nothing is deleted before a newer manifest was verified readable, and nothing at all
//! once another run owns the chain.
//!
//! It cannot decide whether a manifest may be written; [`super::round`] does.

use super::clean::clean;
use super::manifest::Manifest;
use super::round::Checkpoints;
use super::upload::insist;
use super::{load, name, numbers};
use crate::error::Error;
use crate::events::Events;
use crate::fault;
use crate::job::Panel;
use crate::sink::{GenerationNote, Sink, WriteError};
use crate::store::{Put, Store};
use crate::table::Role;
use crate::topic::{Assignment, Topics};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime};

const RETRY: Duration = Duration::from_millis(200);
/// Entries of the table of logical and wall time are at least so far apart.
const WALL_EVERY_MS: u64 = 60_000;
/// Entries that are kept: 30 days of minutes would be too many, so older ones are thinned out.
const WALL_ENTRIES_MAX: usize = 1024;

/// A manifest that may be written.
pub(super) struct Draft {
    pub(super) manifest: Manifest,
    pub(super) bytes_new: u64,
}

/// What a durable manifest has cost.
pub(super) struct Written {
    pub(super) bytes_new: u64,
    pub(super) bytes: u64,
    pub(super) manifest: Box<Manifest>,
}

/// The two ends of the thread.
pub(super) struct Writer {
    drafts: Sender<Draft>,
    answers: Receiver<Result<Written, Error>>,
}

impl Writer {
    pub(super) fn write(&self, draft: Draft) {
        // It ends only when this end is gone.
        let _ = self.drafts.send(draft);
    }

    pub(super) fn answer(&self) -> Option<Result<Written, Error>> {
        self.answers.try_recv().ok()
    }
}

pub(super) fn start(
    checkpoints: &Checkpoints,
    topics: Arc<dyn Topics>,
    panel: Arc<Panel>,
) -> Result<Writer, Error> {
    let (drafts, waiting) = channel::<Draft>();
    let (told, answers) = channel();
    let thread = Thread {
        store: checkpoints.store.clone(),
        kept: checkpoints.kept.max(1),
        sink: Arc::clone(&checkpoints.sink),
        topics,
        panel,
        wall: checkpoints.base.time.wall.clone(),
        events: checkpoints.events.clone(),
        noted: Vec::new(),
    };
    std::thread::Builder::new()
        .name("manifests".to_owned())
        .spawn(move || thread.run(&waiting, &told))
        .map_err(|error| Error::failed(format!("no thread for checkpoints: {error}")))?;
    Ok(Writer { drafts, answers })
}

struct Thread {
    store: Store,
    kept: usize,
    sink: Arc<dyn Sink>,
    topics: Arc<dyn Topics>,
    panel: Arc<Panel>,
    wall: Vec<(u64, u64)>,
    events: Option<Arc<Events>>,
    /// What the target was told of generations last.
    noted: Vec<GenerationNote>,
}

impl Thread {
    fn run(mut self, drafts: &Receiver<Draft>, told: &Sender<Result<Written, Error>>) {
        while let Ok(draft) = drafts.recv() {
            if told.send(self.write(draft)).is_err() {
                return;
            }
        }
    }

    fn write(&mut self, draft: Draft) -> Result<Written, Error> {
        let Draft {
            mut manifest,
            bytes_new,
        } = draft;
        self.note_wall(manifest.time.now_ms);
        manifest.time.wall = self.wall.clone();
        self.note_target(manifest.number)?;
        manifest.target_note = manifest.number;
        if let Some(events) = &self.events {
            manifest.events_sent = events.sent(&manifest.generations);
        }
        let bytes = manifest.encode();
        let object = name(&manifest.job, manifest.number);
        insist(&self.panel, || self.still_ours(&manifest))?;
        let put = insist(&self.panel, || {
            fault::point("checkpoint.manifest.before")?;
            let put = self.store.put_new(&object, &bytes)?;
            fault::point("checkpoint.manifest.after")?;
            Ok(put)
        });
        if put == Put::Exists {
            return Err(self.fenced(&manifest, manifest.number));
        }
        // The number may be free because a successor has made it, gone on, and deleted it again.
        if let Err(fenced) = insist(&self.panel, || self.still_ours(&manifest)) {
            if !insist(&self.panel, || self.is_gone_on_from(&manifest)) {
                insist(&self.panel, || self.store.delete(&object));
            }
            return Err(fenced);
        }
        insist(&self.panel, || self.verify(&manifest));
        if let Some(events) = &self.events {
            events.durable(manifest.number, &manifest.generations);
        }
        self.note_generations(&manifest)?;
        insist(&self.panel, || clean(&self.store, &manifest, self.kept));
        let note = self.topics.committed(&mutation_offsets(&manifest));
        self.panel.trouble("the consumer group for lag tools", note);
        let runs: u64 = manifest.markers.runs.iter().map(|run| run.bytes).sum();
        Ok(Written {
            bytes_new: bytes_new + bytes.len() as u64,
            bytes: runs + bytes.len() as u64,
            manifest: Box::new(manifest),
        })
    }

    /// Whether no later manifest than ours is there; the outer error is the store's.
    fn still_ours(&self, manifest: &Manifest) -> Result<Result<(), Error>, Error> {
        let last = numbers(&self.store, &manifest.job)?.last().copied();
        Ok(match last {
            Some(last) if last > manifest.number => Err(self.fenced(manifest, last)),
            _ => Ok(()),
        })
    }

    /// Whether a successor has begun from this manifest: the next number is then its claim, which
    /// holds the same markers. One that cannot be read may be it.
    fn is_gone_on_from(&self, manifest: &Manifest) -> Result<bool, Error> {
        let next = name(&manifest.job, manifest.number + 1);
        let Some(bytes) = self.store.get(&next)? else {
            return Ok(false);
        };
        let same = |next: Manifest| next.markers == manifest.markers;
        Ok(Manifest::decode(&bytes).map_or(true, same))
    }

    fn fenced(&self, manifest: &Manifest, found: u64) -> Error {
        let object = name(&manifest.job, found);
        Error::refused(format!(
            "fenced: another run of job {} has taken over",
            manifest.job
        ))
        .line(format!("found     {object} in {}", self.store.place()))
        .line("This run writes nothing any more. One job has one live run.")
    }

    /// Leaves the number in the target before the manifest is there, so that a target with a lower
    /// number than the manifest is an older copy.
    fn note_target(&self, number: u64) -> Result<(), Error> {
        loop {
            match self.sink.note_checkpoint(number) {
                Ok(()) => {
                    self.panel.trouble("the target's checkpoint note", None);
                    return Ok(());
                }
                Err(WriteError::Retry(reason)) => {
                    self.panel
                        .trouble("the target's checkpoint note", Some(reason));
                    std::thread::sleep(RETRY);
                }
                Err(WriteError::Fatal(error)) => return Err(error),
                Err(WriteError::Rejected(_)) => {
                    return Err(Error::failed("a sink rejected rows where there were none"));
                }
            }
        }
    }

    /// Leaves in the target how far generations are, when that has changed. A target that is away
    /// is told by the next checkpoint: this one does not depend on it.
    fn note_generations(&mut self, manifest: &Manifest) -> Result<(), Error> {
        const WHO: &str = "the target's note of generations";
        let notes: Vec<_> = manifest
            .generations
            .iter()
            .map(GenerationNote::of)
            .collect();
        if notes == self.noted {
            return Ok(());
        }
        match self.sink.generations(&notes) {
            Ok(()) => {
                self.panel.trouble(WHO, None);
                self.noted = notes;
                Ok(())
            }
            Err(WriteError::Retry(reason)) => {
                self.panel.trouble(WHO, Some(reason));
                Ok(())
            }
            Err(WriteError::Fatal(error)) => Err(error),
            Err(WriteError::Rejected(_)) => {
                Err(Error::failed("a sink rejected rows where there were none"))
            }
        }
    }

    /// Reads back what was written, and looks whether its runs are there, whole.
    fn verify(&self, manifest: &Manifest) -> Result<(), Error> {
        let found = load(&self.store, &manifest.job, manifest.number)?;
        // Not compared as values: some members are of this run alone.
        if found.encode() != manifest.encode() {
            return Err(Error::failed(format!(
                "checkpoint {} was read back different from what was written",
                manifest.number
            )));
        }
        let mut seen = BTreeSet::new();
        for run in manifest.markers.runs.iter().filter(|run| run.markers > 0) {
            if !seen.insert(&run.file) {
                continue;
            }
            let size = self.store.size(&run.file)?;
            if size != Some(run.bytes) {
                return Err(Error::failed(format!(
                    "{} in {} has {size:?} bytes, expected {}",
                    run.file,
                    self.store.place(),
                    run.bytes
                )));
            }
        }
        Ok(())
    }

    fn note_wall(&mut self, now_ms: u64) {
        let wall_ms = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
        let far = |last: &(u64, u64)| {
            now_ms >= last.0.saturating_add(WALL_EVERY_MS)
                || wall_ms >= last.1.saturating_add(WALL_EVERY_MS)
        };
        if self.wall.last().is_none_or(far) {
            self.wall.push((now_ms, wall_ms));
        }
        if self.wall.len() > WALL_ENTRIES_MAX {
            let mut index = 0;
            // The older half is thinned out to every second entry.
            self.wall.retain(|_| {
                index += 1;
                index > WALL_ENTRIES_MAX / 2 || index % 2 == 1
            });
        }
    }
}

fn mutation_offsets(manifest: &Manifest) -> Vec<Assignment> {
    let mutations = manifest.of(Role::Mutations);
    mutations
        .map(|state| Assignment {
            topic: state.topic.clone(),
            partition: state.partition,
            next_offset: state.next_offset,
        })
        .collect()
}
