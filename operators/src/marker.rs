//! The marker arrangement: for every key, the tick of its latest mutation.
//!
//! A marker says that a mutation of a key was seen at a tick. Keys are 128-bit fingerprints, one
//! tick is kept a key, and the later one wins, so marking is a max-semilattice: markers may come in
//! any order, twice, and from several runs, and the answer is the same.
//!
//! Invariant: no answer depends on when, or whether, background merging was done. A marker at or
//! below the forget horizon counts as absent from the moment the horizon moved, although its bytes
//! go later; [`MarkerStore::forgotten_through`] is computed from the ticks marked, never from runs.
//!
//! What it cannot do: say which keys are marked (fingerprints are one way), tell a collision of two
//! fingerprints (a good READ is dropped with odds of about `markers * reads / 2^128`), or read the
//! clock. Ticks and the horizon are handed in.

mod arrangement;
mod codec;
mod deal;
mod index;
mod latest;
mod lookup;
mod merge;
mod run;
mod shape;
mod table;
mod ticks;

#[cfg(test)]
mod tests;

pub use arrangement::{MarkerArrangement, MarkerConfig, MarkerExport};
pub use codec::RunError;
pub use latest::Latest;
pub use run::{Run, RunEntries};
pub use ticks::MarkedTicks;

/// What the merge needs of a marker store; a faster store may replace the arrangement without
/// touching the merge.
pub trait MarkerStore {
    /// Everything that is held, as a checkpoint takes it: immutable, and cheap to hand over.
    type Export;

    /// Marks every fingerprint at `tick` (ms of job time, a multiple of the tick length).
    ///
    /// Ticks may be out of order between calls; the latest wins. A tick at or below the horizon
    /// marks nothing and counts as forgotten at once.
    fn mark(&mut self, tick: u64, fingerprints: &[u128]);

    /// Appends to `out`, for each fingerprint (any order, may repeat), the tick of its marker.
    ///
    /// A marker with tick <= the horizon is never returned, whether or not its run was merged yet.
    fn latest(&mut self, fingerprints: &[u128], out: &mut Vec<Option<u64>>);

    /// Forgets every marker with tick <= `horizon` from now on. Monotone: lower values are ignored.
    fn forget_through(&mut self, horizon: u64);

    /// The greatest tick <= the horizon at which a mark happened, or `None` if nothing was
    /// forgotten. Never depends on when runs are merged; may be rounded up (never down, never above
    /// the horizon) when the store bounds its memory of ticks.
    fn forgotten_through(&self) -> Option<u64>;

    /// Everything that is held now. Costs at most the sort of what is not in runs yet; nothing is
    /// left out by tick.
    fn export(&mut self) -> Self::Export;

    /// Does up to `fuel` entries of background merging; true when there is more to do.
    fn work(&mut self, fuel: usize) -> bool;

    /// How much is held.
    fn stats(&self) -> MarkerStats;
}

/// How much a marker store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkerStats {
    /// Entries held: an upper bound of the live markers, since superseded and forgotten ones go
    /// when runs are merged.
    pub markers: u64,
    /// Heap bytes, with the memtable, unfinished merges and what waits to be freed.
    pub bytes: u64,
    /// Immutable runs that a lookup may have to search.
    pub runs: u32,
    /// Entries that unfinished merges have still to read: the fuel that is owed.
    pub owed: u64,
}
