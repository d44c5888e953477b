//! Worker 0's part of checkpoints: when one begins, what it waits for, when it is durable.
//!
//! One round at a time: the command goes out at tick f; every source and every merge answers;
//! everything before f becomes durable in the sink; then the manifest is written, on a thread.
//!
//! Invariant: a manifest is written only when all parts of its number are here and the frontier
//! behind the sink has passed f.
//!
//! It cannot give up a round: a target that is away holds the checkpoint, not the data.

use super::manifest::{
    Done, GenerationState, Manifest, Markers, PartitionState, PoisonState, ReadControl,
    RetentionState,
};
use super::part::Part;
use super::upload::Uploads;
use super::writer::{self, Draft, Written};
use crate::dead_letter::{self, Counted};
use crate::error::Error;
use crate::events::Events;
use crate::feed::add_up;
use crate::generation::ReadsSeen;
use crate::guard::start::PartitionStart;
use crate::job::{GenerationCounts, Panel};
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
    /// Every generation. What is counted of its READs (`unsafe_reads`, `late_reads`, `reads`) is
    /// put in when everything before the cut was decided.
    pub generations: Vec<GenerationState>,
    /// Requests that were answered, or will be when this is durable.
    pub requests: Vec<Done>,
    /// How READs are read.
    pub read_control: ReadControl,
    /// How long markers are kept.
    pub retention: RetentionState,
    /// Ids of topics that generations have brought, beside those of the manifest before.
    pub topic_ids: BTreeMap<String, String>,
    /// Where each mutation partition was read from when the job began.
    pub starts: Vec<PartitionStart>,
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
    offsets: BTreeMap<(Role, usize), Vec<PartitionState>>,
    /// READs of this run, by generation.
    reads: BTreeMap<u32, Vec<ReadsSeen>>,
    shapes: Vec<KnownShape>,
    markers: BTreeMap<usize, (Markers, u64)>,
    /// Of this run.
    dead_letters: Vec<Counted>,
    poisoned: BTreeMap<usize, Vec<(u128, u64)>>,
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
    durable: Manifest,
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
            durable: checkpoints.base.clone(),
        })
    }

    /// The last durable checkpoint of this run.
    pub fn saved(&self) -> Option<&Saved> {
        self.saved.as_ref()
    }

    /// The last durable manifest; that of the claim, until this run has made one.
    pub fn durable(&self) -> &Manifest {
        &self.durable
    }

    /// Time between two of them.
    pub fn interval_ms(&self) -> u64 {
        self.interval_ms
    }

    /// The number of the checkpoint that is begun next.
    pub fn next_number(&self) -> u64 {
        self.next
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
            offsets: BTreeMap::new(),
            reads: BTreeMap::new(),
            shapes: Vec::new(),
            markers: BTreeMap::new(),
            dead_letters: Vec::new(),
            poisoned: BTreeMap::new(),
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

    /// Moves on; `durable(f)` says whether everything before tick f is durable in the sink. The
    /// counts are what all workers had counted in this run at a tick: only a count from after the
    /// moment at which everything before the cut was durable has every READ before the cut in it.
    /// Returns whether a manifest has become durable.
    ///
    /// # Errors
    /// When this run does not own the job any more, or the target says so.
    pub fn step(
        &mut self,
        (tick, now_ms): (u64, u64),
        durable: impl Fn(u64) -> bool,
        (counted_at, counts): (u64, &BTreeMap<u32, GenerationCounts>),
    ) -> Result<bool, Error> {
        let Some(round) = &mut self.round else {
            return Ok(false);
        };
        if round.durable_at.is_none() && durable(round.tick) {
            round.durable_at = Some(tick);
        }
        let counted = round.durable_at.is_some_and(|at| counted_at >= at);
        if !round.writing && counted && round.complete(self.workers) {
            round.writing = true;
            self.writer.write(round.draft(&self.base, now_ms, counts));
        }
        let answer = self.writer.answer();
        let written = answer.is_some();
        if let Some(answer) = answer {
            let Written {
                bytes_new,
                bytes,
                manifest,
            } = answer?;
            self.durable = *manifest;
            self.saved = Some(Saved {
                number: round.number,
                bytes_new,
                bytes,
                took_ms: now_ms.saturating_sub(round.begun_ms),
                at_ms: now_ms,
            });
            self.round = None;
        }
        Ok(written)
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
                reads,
                dead_letters,
                shapes,
            } if number == self.number => {
                self.offsets.insert((role, worker), partitions);
                for (generation, seen) in reads {
                    add_up(self.reads.entry(generation).or_default(), &seen);
                }
                dead_letter::add_up(&mut self.dead_letters, &dead_letters);
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
            Part::Poisoned {
                number,
                worker,
                marks,
            } if number == self.number => {
                self.poisoned.insert(worker, marks);
            }
            // Of a round that this run did not begin: nobody sends that. Of no round at all.
            Part::Read { .. } | Part::Markers { .. } | Part::Poisoned { .. } | Part::Looked(_) => {}
        }
    }

    /// Two sources and a merge on each worker have answered.
    fn complete(&self, workers: usize) -> bool {
        let merged = self.markers.len() == workers && self.poisoned.len() == workers;
        self.offsets.len() == 2 * workers && merged
    }

    fn draft(
        &self,
        base: &Manifest,
        now_ms: u64,
        counts: &BTreeMap<u32, GenerationCounts>,
    ) -> Draft {
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
        manifest.offsets = self.offsets.values().flatten().cloned().collect();
        manifest.offsets.sort_by(|a, b| {
            let place = |s: &PartitionState| (s.role, s.topic.clone(), s.partition);
            place(a).cmp(&place(b))
        });
        manifest.markers = markers;
        let marks = self.poisoned.values().flatten();
        let mark = |(fingerprint, tick_ms): &(u128, u64)| PoisonState::of(*fingerprint, *tick_ms);
        manifest.poison_marks = marks.map(mark).collect();
        dead_letter::add_up(&mut manifest.dead_letters, &self.dead_letters);
        manifest.topic_ids.extend(self.state.topic_ids.clone());
        manifest.generations = self.state.generations.clone();
        for generation in &mut manifest.generations {
            self.count(generation, base, counts);
        }
        manifest.requests = self.state.requests.clone();
        manifest.read_control = self.state.read_control.clone();
        manifest.retention = self.state.retention.clone();
        manifest.starts = self.state.starts.clone();
        manifest.shapes = self.shapes.clone();
        manifest
            .shapes
            .sort_by_key(|known| (known.table, known.role));
        Draft {
            manifest,
            bytes_new,
        }
    }

    /// Puts into a generation what was counted of its READs: before this run, and in it.
    fn count(
        &self,
        generation: &mut GenerationState,
        base: &Manifest,
        counts: &BTreeMap<u32, GenerationCounts>,
    ) {
        let number = generation.number;
        let before = base.generations.iter().find(|of| of.number == number);
        let before = before.cloned().unwrap_or_default();
        let now = counts.get(&number).cloned().unwrap_or_default();
        generation.unsafe_reads = before.unsafe_reads + now.unsafe_reads;
        generation.late_reads = before.late_reads + now.late;
        generation.reads = before.reads;
        if let Some(seen) = self.reads.get(&number) {
            add_up(&mut generation.reads, seen);
        }
        let place = |one: &ReadsSeen| (one.table, one.run.clone());
        generation.reads.sort_by_key(place);
    }
}

#[cfg(test)]
mod tests;
