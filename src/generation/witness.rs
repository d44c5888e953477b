//! What worker 0 asks the world outside about a generation, and what it is told: never waited for.

use super::record::{Cutoff, Scan, Sources};
use crate::evidence::offsets::Before;

/// What is known from outside at a moment. The default: nothing is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What notifications have told; none when they are not configured.
    pub scan: Option<Scan>,
    /// Connect's offsets show that this snapshot is finished.
    pub finished: bool,
    /// What must be remembered of the snapshot connector.
    pub before: Option<Before>,
    /// What is wrong with the snapshot connector: paused, failed, not there.
    pub snapshot_trouble: Option<String>,
    /// What is wrong with the topic of its notifications.
    pub notices_trouble: Option<String>,
    /// What is wrong with the live connector.
    pub live_trouble: Option<String>,
    /// What keeps the slot, which alone can prove `live_offsets`, from proving anything.
    pub slot_held: Option<String>,
    /// The position that the live connector, or its slot, has confirmed.
    pub position: Option<u64>,
    /// Source time of the live connector's last committed offset, ms since 1970.
    pub committed_ms: Option<i64>,
    /// Source time of the latest heartbeat, ms since 1970.
    pub heartbeat_ms: Option<i64>,
    /// Source time of the earliest heartbeat that its topic holds, ms since 1970.
    pub heartbeat_first_ms: Option<i64>,
    /// The cutoff that was wanted, once it is known.
    pub cutoff: Option<Cutoff>,
}

/// What is remembered of a generation's evidence.
#[derive(Clone, Copy, Debug)]
pub struct Remembered<'a> {
    /// Its snapshot topics.
    pub topics: &'a Vec<String>,
    /// Of its notifications.
    pub scan: &'a Scan,
    /// Of its snapshot connector.
    pub before: &'a Before,
}

/// Where evidence comes from. Nothing here may block.
pub trait Witness: Send + Sync {
    /// A generation is to be watched; what happened before `since_ms` (ms since 1970) is not of it.
    fn watch(
        &self,
        generation: &str,
        sources: &Sources,
        since_ms: Option<i64>,
        remembered: Remembered<'_>,
    );

    /// It is watched no more.
    fn unwatch(&self, generation: &str);

    /// What is known of it now.
    fn seen(&self, generation: &str) -> Seen;

    /// Its ends are frozen: what must the live connector pass? Asked again until it is known.
    fn want_cutoff(&self, generation: &str);
}
