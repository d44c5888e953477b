//! From a manifest to what the workers of one process start from, on any number of workers.
//!
//! Invariant: every marker of the manifest is on exactly the worker that owns its fingerprint now;
//! nothing is left out by tick. A missing or damaged run is an error that names it.
//!
//! It cannot read a part of an object: a process reads every run that overlaps one of its workers,
//! whole and once, one a thread at a time.

use super::manifest::{GenerationState, Manifest, RunRef, Ticks};
use super::reopen;
use crate::error::Error;
use crate::feed::SourceTimes;
use crate::sink::Applied;
use crate::store::Store;
use crate::table::{Role, Table};
use headwater_operators::control::{Command, PartitionTarget};
use headwater_operators::marker::Run;
use headwater_operators::poison::PoisonMark;
use headwater_operators::route::range_of;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Threads that read runs.
const READERS_MAX: usize = 4;

type WorkerRuns = Vec<(RunRef, Arc<Run>)>;

/// READs that keep a generation from being ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadReads {
    /// They may be stale.
    pub unsafe_reads: u64,
    /// They lie behind the frozen end of their partition.
    pub late_reads: u64,
}

/// What a run of the job goes on from. The default is a fresh job.
#[derive(Debug, Default)]
pub struct Resumed {
    /// Commands that had taken effect, in order; see [`reopen`].
    pub commands: Vec<Command>,
    /// The generations, as the manifest has them.
    pub generations: Vec<GenerationState>,
    /// Source times of mutations, by topic and partition.
    pub source_times: BTreeMap<(String, u32), SourceTimes>,
    /// What the end of the snapshot stands on, when it was frozen.
    pub evidence: Option<String>,
    /// READs that may be stale, and late ones, of the generation that is open.
    pub bad_reads: BadReads,
    /// What the workers knew of marked and forgotten ticks.
    pub ticks: Vec<Ticks>,
    /// Keys whose last mutation could not be decoded, of all workers.
    pub poison: Vec<PoisonMark>,
    /// How far the target is beyond the checkpoint: readers have seen rows of up to here.
    pub replay: Vec<Applied>,
    /// By worker of this process, until it takes them.
    runs: Mutex<Vec<WorkerRuns>>,
}

impl Resumed {
    /// What is replayed of a role's partitions.
    pub fn replay_of(&self, role: Role) -> Vec<PartitionTarget> {
        let of_role = self.replay.iter().filter(|applied| applied.role == role);
        of_role
            .map(|applied| PartitionTarget {
                topic: applied.topic.clone(),
                partition: applied.partition,
                end: applied.next_offset,
            })
            .collect()
    }

    /// The runs of worker `local` of this process, once.
    pub fn take_runs(&self, local: usize) -> WorkerRuns {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get_mut(local).map(std::mem::take).unwrap_or_default()
    }
}

/// Reads what `workers` (of `peers` in all) start from; `tables` are those of the job.
///
/// # Errors
/// When a run is missing or damaged.
pub fn resume(
    store: &Store,
    manifest: &Manifest,
    tables: &[Table],
    workers: Range<usize>,
    peers: usize,
) -> Result<Resumed, Error> {
    let owned: Vec<(u64, u64)> = workers.map(|worker| range_of(worker, peers)).collect();
    let runs: Mutex<Vec<WorkerRuns>> = Mutex::new(vec![Vec::new(); owned.len()]);
    let objects = by_object(&manifest.markers.runs);
    let next = AtomicUsize::new(0);
    let read = || -> Result<(), Error> {
        while let Some(parts) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            let overlaps = |part: &&RunRef| owned.iter().any(|of| overlap(part, *of).is_some());
            let Some(run_ref) = parts.iter().find(overlaps) else {
                continue;
            };
            let run = Arc::new(read_run(store, manifest.number, run_ref)?);
            for part in parts {
                for (local, range) in owned.iter().enumerate() {
                    let taken = overlap(part, *range).and_then(|range| take(&run, part, range));
                    let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
                    runs[local].extend(taken);
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let readers = objects.len().min(READERS_MAX);
        let readers: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        let read = readers.into_iter().map(|reader| {
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        read.collect::<Result<(), Error>>()
    })?;
    let times = manifest.of(Role::Mutations).map(|state| {
        let place = (state.topic.clone(), state.partition);
        (place, SourceTimes::of(state))
    });
    let last = manifest.generations.last();
    Ok(Resumed {
        commands: reading(manifest)
            .chain(reopen::commands(manifest, tables))
            .collect(),
        generations: manifest.generations.clone(),
        source_times: times.collect(),
        evidence: last.and_then(|generation| generation.evidence.clone()),
        bad_reads: last.map_or_else(BadReads::default, |generation| BadReads {
            unsafe_reads: generation.unsafe_reads,
            late_reads: generation.late_reads,
        }),
        ticks: manifest.markers.ticks.clone(),
        poison: poison(manifest)?,
        replay: Vec::new(),
        runs,
    })
}

/// The poisoned keys.
fn poison(manifest: &Manifest) -> Result<Vec<PoisonMark>, Error> {
    let marks = manifest.poison_marks.iter().map(|state| {
        state.mark().ok_or_else(|| {
            let number = manifest.number;
            Error::refused(format!("checkpoint {number} cannot be used"))
                .line(format!(
                    "found     a poison mark of \"{}\"",
                    state.fingerprint
                ))
                .line("expected  a fingerprint: 16 bytes in hex")
        })
    });
    marks.collect()
}

/// A pause, or a rate, that a person has set: before anything is read.
fn reading(manifest: &Manifest) -> impl Iterator<Item = Command> {
    let control = &manifest.read_control;
    let rate = Command::ReadRate {
        per_second_max: control.per_second_max.flatten(),
        paused: control.paused,
    };
    let set = control.paused || control.per_second_max.is_some();
    set.then_some(rate).into_iter()
}

/// The parts of each object that count, the largest object first. Parts that several workers took
/// over are one again where they touch.
fn by_object(runs: &[RunRef]) -> Vec<Vec<RunRef>> {
    let mut sorted: Vec<&RunRef> = runs.iter().filter(|run_ref| run_ref.markers > 0).collect();
    sorted.sort_by_key(|run_ref| (Reverse(run_ref.bytes), &run_ref.file, run_ref.first));
    let mut objects: Vec<Vec<RunRef>> = Vec::new();
    for run_ref in sorted {
        let same = objects
            .last_mut()
            .filter(|parts| parts[0].file == run_ref.file);
        let Some(parts) = same else {
            objects.push(vec![run_ref.clone()]);
            continue;
        };
        match parts.last_mut() {
            Some(before) if before.last.checked_add(1) == Some(run_ref.first) => {
                before.last = run_ref.last;
                before.markers += run_ref.markers;
            }
            _ => parts.push(run_ref.clone()),
        }
    }
    objects
}

/// The part of a run that lies in a worker's range.
fn overlap(run_ref: &RunRef, (first, last): (u64, u64)) -> Option<(u64, u64)> {
    let part = (run_ref.first.max(first), run_ref.last.min(last));
    (part.0 <= part.1).then_some(part)
}

/// A worker's part: the run itself when it is all of it, a copy of the slice otherwise.
fn take(run: &Arc<Run>, run_ref: &RunRef, (first, last): (u64, u64)) -> Option<(RunRef, Arc<Run>)> {
    let whole = run.range();
    if (first, last) == (*whole.start(), *whole.end()) {
        return Some((run_ref.clone(), Arc::clone(run)));
    }
    let slice = run.slice(&(first..=last))?;
    let markers = slice.len() as u64;
    let run_ref = RunRef {
        first,
        last,
        markers,
        ..run_ref.clone()
    };
    Some((run_ref, Arc::new(slice)))
}

/// The error about a run that is not what its manifest says.
pub(crate) fn damaged(store: &Store, number: u64, run_ref: &RunRef, found: &str) -> Error {
    Error::refused(format!("checkpoint {number} lacks some of its markers"))
        .line(format!("object    {} in {}", run_ref.file, store.place()))
        .line(format!("found     {found}"))
        .line(format!("expected  {} bytes", run_ref.bytes))
        .line("Without them stale rows could be emitted. Restore the object from a copy, or")
        .line("go back to an older checkpoint with --from-checkpoint N.")
}

/// Reads a run of checkpoint `number`, whole.
pub(crate) fn read_run(store: &Store, number: u64, run_ref: &RunRef) -> Result<Run, Error> {
    let damaged = |found: String| damaged(store, number, run_ref, &found);
    let bytes = store.get(&run_ref.file)?;
    let bytes = bytes.ok_or_else(|| damaged("nothing".to_owned()))?;
    if bytes.len() as u64 != run_ref.bytes {
        return Err(damaged(format!("{} bytes", bytes.len())));
    }
    Run::decode_owned(bytes).map_err(|error| damaged(error.to_string()))
}

#[cfg(test)]
mod tests;
