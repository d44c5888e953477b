//! Worker 0's part of checkpoints: when one begins, what it waits for, when it is durable.
//!
//! One round at a time: the command goes out at tick f; every source and every merge answers;
//! everything before f becomes durable in the sink; then the manifest is written, on a thread.
//!
//! Invariant: a manifest is written only when all parts of its number are here and the frontier
//! behind the sink has passed f.
//!
//! It cannot give up a round: a target that is away holds the checkpoint, not the data.

use super::manifest::{GenerationState, Manifest, Markers, PartitionState};
use super::part::Part;
use super::restore::BadReads;
use super::upload::Uploads;
use super::writer::{self, Draft, Written};
use crate::error::Error;
use crate::events::Events;
use crate::job::Panel;
use crate::key::KnownShape;
use crate::lease::Lease;
use crate::sink::Sink;
use crate::store::Store;
use crate::table::Role;
use crate::topic::Topics;
use headwater_operators::control::Command;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a job's checkpoints go, and what stays the same in all of them.
pub struct Checkpoints {
    /// Where.
    pub store: Store,
    /// The manifest by which this run owns the job.
    pub base: Manifest,
    /// Time between two of them.
    pub interval_ms: u64,
    /// How many are kept.
    pub kept: usize,
    /// Told of each before it is made.
    pub sink: Arc<dyn Sink>,
    /// Takes the marker runs of this process.
    pub uploads: Uploads,
    /// Shows others that this run lives; only process 0 has it.
    pub lease: Option<Lease>,
    /// Tells of transitions once they are durable; only process 0 has it.
    pub events: Option<Arc<Events>>,
}

/// What the coordinator knows at the cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutState {
    /// Every generation.
    pub generations: Vec<GenerationState>,
}

/// A durable checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Its number.
    pub number: u64,
    /// Bytes that it had to write.
    pub bytes_new: u64,
    /// Bytes of all objects that it names.
    pub bytes: u64,
    /// Job time from its command to its manifest.
    pub took_ms: u64,
    /// Job time at which it was durable.
    pub at_ms: u64,
}

struct Round {
    number: u64,
    tick: u64,
    begun_ms: u64,
    state: CutState,
    reads: BTreeMap<(Role, usize), Vec<PartitionState>>,
    shapes: Vec<KnownShape>,
    markers: BTreeMap<usize, (Markers, u64)>,
    /// The tick at which everything before the cut was seen to be durable.
    durable_at: Option<u64>,
    writing: bool,
}

/// See the module.
pub struct Checkpointer {
    base: Manifest,
    interval_ms: u64,
    workers: usize,
    writer: writer::Writer,
    next: u64,
    last_ms: u64,
    round: Option<Round>,
    saved: Option<Saved>,
}

impl Checkpointer {
    /// For a job on `workers` workers in all, at the start of a run.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn new(
        checkpoints: &Checkpoints,
        topics: &Arc<dyn Topics>,
        workers: usize,
        panel: &Arc<Panel>,
    ) -> Result<Checkpointer, Error> {
        Ok(Checkpointer {
            base: checkpoints.base.clone(),
            interval_ms: checkpoints.interval_ms,
            workers,
            writer: writer::start(checkpoints, Arc::clone(topics), Arc::clone(panel))?,
            next: checkpoints.base.number + 1,
            last_ms: checkpoints.base.time.now_ms,
            round: None,
            saved: None,
        })
    }

    /// The last durable checkpoint of this run.
    pub fn saved(&self) -> Option<&Saved> {
        self.saved.as_ref()
    }

    /// Whether a round is under way.
    pub fn busy(&self) -> bool {
        self.round.is_some()
    }

    /// Whether the next checkpoint is due.
    pub fn due(&self, now_ms: u64) -> bool {
        !self.busy() && now_ms.saturating_sub(self.last_ms) >= self.interval_ms
    }

    /// Begins one at `tick`: send the command at this very tick. Not while [`Checkpointer::busy`].
    pub fn begin(&mut self, tick: u64, now_ms: u64, state: CutState) -> Command {
        let number = self.next;
        self.next += 1;
        self.last_ms = now_ms;
        self.round = Some(Round {
            number,
            tick,
            begun_ms: now_ms,
            state,
            reads: BTreeMap::new(),
            shapes: Vec::new(),
            markers: BTreeMap::new(),
            durable_at: None,
            writing: false,
        });
        Command::Checkpoint { number }
    }

    /// Takes in what workers have sent.
    pub fn take(&mut self, parts: impl IntoIterator<Item = Part>) {
        let Some(round) = &mut self.round else {
            return;
        };
        for part in parts {
            round.take(part);
        }
    }

    /// Moves on; `durable(f)` says whether everything before tick f is durable in the sink. `bad`
    /// is what all workers had counted at a tick: only a count from after the moment at which
    /// everything before the cut was durable has every READ before the cut in it.
    ///
    /// # Errors
    /// When this run does not own the job any more, or the target says so.
    pub fn step(
        &mut self,
        (tick, now_ms): (u64, u64),
        durable: impl Fn(u64) -> bool,
        (counted_at, bad): (u64, BadReads),
    ) -> Result<(), Error> {
        let Some(round) = &mut self.round else {
            return Ok(());
        };
        if round.durable_at.is_none() && durable(round.tick) {
            round.durable_at = Some(tick);
        }
        let counted = round.durable_at.is_some_and(|at| counted_at >= at);
        if !round.writing && counted && round.complete(self.workers) {
            round.writing = true;
            self.writer.write(round.draft(&self.base, now_ms, bad));
        }
        if let Some(answer) = self.writer.answer() {
            let Written { bytes_new, bytes } = answer?;
            self.saved = Some(Saved {
                number: round.number,
                bytes_new,
                bytes,
                took_ms: now_ms.saturating_sub(round.begun_ms),
                at_ms: now_ms,
            });
            self.round = None;
        }
        Ok(())
    }
}

impl Round {
    fn take(&mut self, part: Part) {
        match part {
            Part::Read {
                number,
                worker,
                role,
                partitions,
                shapes,
            } if number == self.number => {
                self.reads.insert((role, worker), partitions);
                for shape in shapes {
                    if !self.shapes.contains(&shape) {
                        self.shapes.push(shape);
                    }
                }
            }
            Part::Markers {
                number,
                worker,
                runs,
                ticks,
                bytes_new,
            } if number == self.number => {
                let markers = Markers {
                    runs,
                    ticks: vec![ticks],
                };
                self.markers.insert(worker, (markers, bytes_new));
            }
            // Of a round that this run did not begin: nobody sends that.
            Part::Read { .. } | Part::Markers { .. } => {}
        }
    }

    /// Two sources and a merge on each worker have answered.
    fn complete(&self, workers: usize) -> bool {
        self.reads.len() == 2 * workers && self.markers.len() == workers
    }

    fn draft(&self, base: &Manifest, now_ms: u64, bad: BadReads) -> Draft {
        let mut markers = Markers::default();
        let mut bytes_new = 0;
        for (of_worker, new) in self.markers.values() {
            markers.runs.extend_from_slice(&of_worker.runs);
            markers.ticks.extend_from_slice(&of_worker.ticks);
            bytes_new += new;
        }
        let mut manifest = base.clone();
        manifest.number = self.number;
        manifest.time.cut_ms = self.tick;
        manifest.time.now_ms = now_ms;
        manifest.offsets = self.reads.values().flatten().cloned().collect();
        manifest.offsets.sort_by(|a, b| {
            let place = |s: &PartitionState| (s.role, s.topic.clone(), s.partition);
            place(a).cmp(&place(b))
        });
        manifest.markers = markers;
        manifest.generations = self.state.generations.clone();
        if let Some(generation) = manifest.generations.last_mut() {
            generation.unsafe_reads = bad.unsafe_reads;
            generation.late_reads = bad.late_reads;
        }
        manifest.shapes = self.shapes.clone();
        manifest
            .shapes
            .sort_by_key(|known| (known.table, known.role));
        Draft {
            manifest,
            bytes_new,
        }
    }
}

#[cfg(test)]
mod tests;
