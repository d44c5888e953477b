//! The marker arrangement: a memtable and immutable runs, merged in the background.
//!
//! Marks go to a hash table of fixed size; when it is full it becomes a run. Two runs of one size
//! class are merged into one, so there are about as many runs as doublings of the memtable, and a
//! marker is rewritten once a doubling. Merging is done by [`MarkerStore::work`] alone, with fuel,
//! shared among all merges so that a large one does not keep the small ones waiting.
//!
//! Invariant: the memtable and `runs` together hold every marker above the horizon, at all times;
//! a merge replaces its inputs in one step. So no answer depends on how far merges are.
//!
//! What it costs: both inputs of a merge are in memory until it ends, so the peak is twice the two
//! largest runs. A caller that gives too little fuel gets more and more runs and slower lookups,
//! never wrong ones; [`MarkerStats::owed`] says how much is owed.

use std::cmp::Reverse;
use std::ops::RangeInclusive;
use std::sync::Arc;

use differential_dataflow::consolidation::consolidate_slice;

use super::deal::Deal;
use super::latest::Latest;
use super::merge::Merge;
use super::run::{CHUNK_ENTRIES, Run};
use super::table::Table;
use super::ticks::MarkedTicks;
use super::{MarkerStats, MarkerStore};

/// Runs up to this many markers are one size class, so that seals of a few markers do not pile up.
const SMALL_RUN_MARKERS: usize = 4096;
/// No merge makes a run longer than this: positions within a run are 32 bits.
const RUN_MARKERS_MAX: usize = 1 << 30;

/// What an arrangement is made for.
#[derive(Clone, Debug)]
pub struct MarkerConfig {
    /// High halves of the fingerprints that this worker owns. Others are held too, less compactly.
    pub range: RangeInclusive<u64>,
    /// Length of a tick in ms; greater than zero.
    pub tick_ms: u64,
    /// Markers of the memtable; 64 bytes of heap each, 32 at least.
    pub memtable_markers_max: usize,
    /// Spans of marked ticks that are kept exactly, see [`MarkedTicks`]; 16 bytes each.
    pub tick_spans_max: usize,
}

impl MarkerConfig {
    /// The defaults for a range of high halves and a tick length.
    pub fn new(range: RangeInclusive<u64>, tick_ms: u64) -> Self {
        Self {
            range,
            tick_ms,
            memtable_markers_max: 32 * 1024,
            tick_spans_max: 4096,
        }
    }
}

struct Held {
    id: u64,
    run: Arc<Run>,
    merging: bool,
}

/// Everything that an arrangement holds, for a checkpoint. Runs are shared, not copied.
#[derive(Clone, Debug)]
pub struct MarkerExport {
    /// The runs, each with a number that no other run of this arrangement has or had: a run that a
    /// checkpoint has written once need not be written again.
    pub runs: Vec<(u64, Arc<Run>)>,
    /// Everything at or below it is forgotten.
    pub horizon: Option<u64>,
    /// The latest tick of a marker that was forgotten.
    pub forgotten: Option<u64>,
    /// First and last tick of each span of marked ticks above the horizon.
    pub spans: Vec<(u64, u64)>,
}

/// The markers of one worker.
pub struct MarkerArrangement {
    config: MarkerConfig,
    table: Table,
    ticks: MarkedTicks,
    /// Latest tick first.
    runs: Vec<Held>,
    merges: Vec<Merge>,
    /// Memory to be freed, a little each call.
    garbage: Vec<Vec<u8>>,
    run_id_next: u64,
    /// Buffers, kept.
    deal: Deal,
    dealt: Vec<u128>,
    found: Vec<Option<u64>>,
}

impl MarkerArrangement {
    /// An empty arrangement. Allocates the memtable, which never grows.
    pub fn new(config: MarkerConfig) -> Self {
        Self {
            table: Table::new(config.memtable_markers_max),
            ticks: MarkedTicks::new(config.tick_ms, config.tick_spans_max),
            config,
            runs: Vec::new(),
            merges: Vec::new(),
            garbage: Vec::new(),
            run_id_next: 0,
            deal: Deal::default(),
            dealt: Vec::new(),
            found: Vec::new(),
        }
    }

    /// The immutable runs. After `seal` they hold every live marker, for a checkpoint.
    pub fn runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.runs.iter().map(|held| &held.run)
    }

    /// Makes a run of the memtable. Costs a sort of at most `memtable_markers_max` markers.
    pub fn seal(&mut self) {
        let sorted = self.drain_sorted();
        if let Some(run) = Run::from_sorted(&sorted, &self.config.range, self.config.tick_ms) {
            self.hold(Arc::new(run));
            self.schedule();
        }
    }

    /// Adds a run of a checkpoint, sliced to this worker's range ([`Run::slice`]). Returns its
    /// number in [`MarkerExport::runs`]; `None` when all of it is forgotten.
    ///
    /// A run knows only the ticks of the markers it has; the others come by `restore_ticks`.
    pub fn insert_run(&mut self, run: Arc<Run>) -> Option<u64> {
        self.ticks.mark(run.tick_first());
        self.ticks.mark(run.tick_last());
        if Some(run.tick_last()) <= self.ticks.horizon() {
            return None;
        }
        let id = self.run_id_next;
        self.hold(run);
        self.schedule();
        Some(id)
    }

    /// The ticks marked, for a checkpoint.
    pub fn marked_ticks(&self) -> &MarkedTicks {
        &self.ticks
    }

    /// Adds ticks that a checkpoint had: its horizon, its `forgotten`, its spans.
    ///
    /// From several workers' checkpoints, call it for each: the result is their union.
    pub fn restore_ticks(
        &mut self,
        horizon: Option<u64>,
        forgotten: Option<u64>,
        spans: impl IntoIterator<Item = (u64, u64)>,
    ) {
        if let Some(horizon) = horizon {
            self.forget_through(horizon);
        }
        for (first, last) in forgotten.map(|tick| (tick, tick)).into_iter().chain(spans) {
            self.ticks.mark_span(first, last);
        }
    }

    /// The markers of the memtable above the horizon, ascending, one a fingerprint.
    fn drain_sorted(&mut self) -> Vec<(u128, Latest)> {
        let mut drained = Vec::with_capacity(self.table.len());
        self.table.drain(self.ticks.horizon(), &mut drained);
        self.deal
            .deal(&self.config.range, drained.iter().map(|marker| &marker.0));
        let mut sorted = vec![(0, Latest(0)); drained.len()];
        for (marker, place) in drained.into_iter().zip(&self.deal.places) {
            sorted[*place as usize] = marker;
        }
        let mut kept = 0;
        for part in self.deal.starts.windows(2) {
            let (start, end) = (part[0] as usize, part[1] as usize);
            let len = consolidate_slice(&mut sorted[start..end]);
            sorted.copy_within(start..start + len, kept);
            kept += len;
        }
        sorted.truncate(kept);
        sorted
    }

    fn hold(&mut self, run: Arc<Run>) {
        self.runs.push(Held {
            id: self.run_id_next,
            run,
            merging: false,
        });
        self.run_id_next += 1;
    }

    /// Starts every merge that is due: two runs of a size class, or one run mostly forgotten.
    fn schedule(&mut self) {
        self.runs.sort_by_key(|held| Reverse(held.run.tick_last()));
        let horizon = self.ticks.horizon();
        let mut waiting: [Option<usize>; usize::BITS as usize] = [None; usize::BITS as usize];
        for at in (0..self.runs.len()).rev() {
            let held = &self.runs[at];
            if held.merging {
                continue;
            }
            let len = held.run.len();
            let class = &mut waiting[(len / SMALL_RUN_MARKERS).max(1).ilog2() as usize];
            match class.take() {
                Some(other) if self.runs[other].run.len() + len <= RUN_MARKERS_MAX => {
                    self.start_merge(at, Some(other));
                }
                _ if mostly_forgotten(&held.run, horizon) => self.start_merge(at, None),
                _ => *class = Some(at),
            }
        }
    }

    fn start_merge(&mut self, left: usize, right: Option<usize>) {
        let mut input = |at: usize| {
            let held = &mut self.runs[at];
            held.merging = true;
            (held.id, Arc::clone(&held.run))
        };
        let (left, right) = (input(left), right.map(input));
        self.merges.push(Merge::new(
            left,
            right,
            &self.config.range,
            self.ticks.horizon(),
        ));
    }

    fn finish_merges(&mut self) {
        for merge in self
            .merges
            .extract_if(.., |merge| merge.is_done())
            .collect::<Vec<_>>()
        {
            let merged = merge.finish();
            for (id, run) in merged.inputs {
                self.runs.retain(|held| held.id != id);
                self.discard(run);
            }
            if let Some(run) = merged.output {
                self.hold(Arc::new(run));
            }
        }
        self.drop_forgotten();
        self.schedule();
    }

    /// Lets go of a run; if nobody else has it, its memory is freed a little each call.
    fn discard(&mut self, run: Arc<Run>) {
        if let Ok(run) = Arc::try_unwrap(run) {
            self.garbage.extend(run.chunks);
        }
    }

    /// Drops what is forgotten as a whole.
    fn drop_forgotten(&mut self) {
        let horizon = self.ticks.horizon();
        let gone = |run: &Run| Some(run.tick_last()) <= horizon;
        if self.table.tick_last().is_some() && self.table.tick_last() <= horizon {
            self.table.clear();
        }
        for held in self
            .runs
            .extract_if(.., |held| gone(&held.run))
            .collect::<Vec<_>>()
        {
            self.discard(held.run);
        }
        let moot = |merge: &mut Merge| Some(merge.tick_last()) <= horizon;
        for merge in self.merges.extract_if(.., moot).collect::<Vec<_>>() {
            let (inputs, written) = merge.cancel();
            self.garbage.extend(written);
            for (_, run) in inputs {
                self.discard(run);
            }
        }
    }
}

/// Whether more than half of a run's span of ticks is forgotten. A guess, as ticks may be uneven;
/// it is true at most once a halving of the span, so a wrong one costs little.
fn mostly_forgotten(run: &Run, horizon: Option<u64>) -> bool {
    let span = run.tick_last() - run.tick_first();
    let forgotten = horizon.unwrap_or(0).saturating_sub(run.tick_first());
    run.len() > SMALL_RUN_MARKERS && forgotten > span / 2
}

impl MarkerStore for MarkerArrangement {
    type Export = MarkerExport;

    fn mark(&mut self, tick: u64, fingerprints: &[u128]) {
        if fingerprints.is_empty() {
            return;
        }
        self.ticks.mark(tick);
        if Some(tick) <= self.ticks.horizon() {
            return;
        }
        let mut rest = fingerprints;
        loop {
            rest = &rest[self.table.mark(tick, rest)..];
            if rest.is_empty() {
                return;
            }
            self.seal();
        }
    }

    fn latest(&mut self, fingerprints: &[u128], out: &mut Vec<Option<u64>>) {
        self.deal.deal(&self.config.range, fingerprints.iter());
        self.dealt.clear();
        self.dealt.resize(fingerprints.len(), 0);
        self.found.clear();
        self.found.resize(fingerprints.len(), None);
        for (fingerprint, place) in fingerprints.iter().zip(&self.deal.places) {
            self.dealt[*place as usize] = *fingerprint;
        }
        self.table.latest(&self.dealt, &mut self.found);
        for held in &self.runs {
            held.run.latest(&self.dealt, &mut self.found);
        }
        let horizon = self.ticks.horizon();
        let found = self
            .deal
            .places
            .iter()
            .map(|place| self.found[*place as usize]);
        out.extend(found.map(|tick| tick.filter(|tick| Some(*tick) > horizon)));
    }

    fn forget_through(&mut self, horizon: u64) {
        if self.ticks.horizon() >= Some(horizon) {
            return;
        }
        self.ticks.forget_through(horizon);
        self.drop_forgotten();
        self.schedule();
    }

    fn forgotten_through(&self) -> Option<u64> {
        self.ticks.forgotten()
    }

    fn export(&mut self) -> MarkerExport {
        self.seal();
        MarkerExport {
            runs: self
                .runs
                .iter()
                .map(|held| (held.id, Arc::clone(&held.run)))
                .collect(),
            horizon: self.ticks.horizon(),
            forgotten: self.ticks.forgotten(),
            spans: self.ticks.spans().collect(),
        }
    }

    fn work(&mut self, fuel: usize) -> bool {
        let kept = self.garbage.len().saturating_sub(1 + fuel / CHUNK_ENTRIES);
        self.garbage.truncate(kept);
        let mut fuel = fuel;
        let horizon = self.ticks.horizon();
        while fuel > 0 && !self.merges.is_empty() {
            self.merges.sort_by_key(Merge::owed);
            let mut sharers = self.merges.len();
            for merge in &mut self.merges {
                fuel -= merge.work(fuel.div_ceil(sharers), horizon).min(fuel);
                sharers -= 1;
            }
            if !self.merges.iter().any(Merge::is_done) {
                break;
            }
            self.finish_merges();
        }
        !self.merges.is_empty() || !self.garbage.is_empty()
    }

    fn stats(&self) -> MarkerStats {
        let held: usize = self.runs.iter().map(|held| held.run.len()).sum();
        let runs: usize = self.runs.iter().map(|held| held.run.bytes()).sum();
        let merges: usize = self.merges.iter().map(Merge::bytes).sum();
        let garbage: usize = self.garbage.iter().map(Vec::capacity).sum();
        let buffers = self.deal.bytes()
            + self.dealt.capacity() * size_of::<u128>()
            + self.found.capacity() * size_of::<Option<u64>>()
            + self.ticks.bytes();
        MarkerStats {
            markers: (held + self.table.len()) as u64,
            bytes: (runs + merges + garbage + buffers + self.table.bytes()) as u64,
            runs: self.runs.len() as u32,
            owed: self.merges.iter().map(|merge| merge.owed() as u64).sum(),
        }
    }
}
