//! What lets readiness be proven: notifications, heartbeats, Kafka Connect and the source database.
//!
//! ```text
//!  Kafka Connect ── a thread ──┐
//!  notifications, heartbeats ──┼─▶ [Evidence], a plain struct ─▶ worker 0 ─▶ step (pure)
//!  source database ─ a thread ─┘
//! ```
//! Threads of process 0 ask and read; worker 0 takes a copy of what they have seen, and what must
//! be remembered of it goes into the manifest. Parsing and judging is pure and in modules of its
//! own.
//!
//! Invariant: nothing here ever holds up whoever asks for what was seen, and what cannot be asked
//! is a trouble in words, never an error.
//!
//! It decides nothing: `generation::step` does.

mod collector;
pub mod database;
pub mod heartbeat;
pub mod notice;
pub mod offsets;
pub mod scan;
mod sender;
pub mod slot;
mod topics;
mod witness;

pub use collector::{Collector, Settings};

use crate::config::Config;
use crate::generation::{Cutoff, Scan, Sources};
use offsets::{Before, LiveOffsets, Proof, SnapshotOffsets};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Everything that was seen. Times are of the wall, ms since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Of each generation that is watched, by its id.
    pub generations: BTreeMap<String, GenerationSeen>,
    /// The live connector, once it was asked; none when none is configured.
    pub live: Option<LiveSeen>,
    /// The heartbeat topic; none when none is configured.
    pub heartbeat: Option<HeartbeatSeen>,
    /// The source database; none when none is configured that can be asked.
    pub database: Option<DatabaseSeen>,
    /// Cutoffs that were asked for, by the generation's id.
    pub cutoffs: BTreeMap<String, Cutoff>,
}

/// What was seen of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GenerationSeen {
    /// Tells a watch from the next one of the same generation.
    pub serial: u64,
    /// Where it is looked for.
    pub sources: Sources,
    /// Its notifications; none when no topic is known.
    pub notices: Option<NoticesSeen>,
    /// Its snapshot connector, once it was asked; none when none is known.
    pub connector: Option<SnapshotSeen>,
}

/// What a topic of notifications has told of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticesSeen {
    /// What they add up to, on top of what was remembered.
    pub scan: Scan,
    /// Partition and offset of the last COMPLETED that counts. Where READs are in the same topic of
    /// one partition, all of them are before it (`ordered`).
    pub completed_at: Option<(u32, u64)>,
    /// The last notification that counts: Debezium's word (`PAUSED`, …) and when it was sent.
    pub last: Option<(String, i64)>,
    /// How many partitions the topic has: with more than one its order is lost.
    pub partitions: u32,
    /// When the topic was last read, whether or not something was in it.
    pub read_ms: i64,
    /// What is wrong: the topic does not exist yet, say.
    pub trouble: Option<String>,
}

/// What Kafka Connect has said of a snapshot connector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSeen {
    /// What its offsets look like. By themselves they prove nothing: see `proof`.
    pub offsets: SnapshotOffsets,
    /// What tells its offsets from others.
    pub digest: String,
    /// What its offsets prove of this generation; none while that is not known.
    pub proof: Option<Proof>,
    /// What must be remembered of it: goes into the manifest, and into [`Watched`] after a restart.
    pub before: Before,
    /// The state of the connector: `RUNNING`, `PAUSED`, …; none when there is no such connector.
    pub state: Option<String>,
    /// Why it does not run, in words: `task 0 is FAILED: …`, or that it does not exist yet.
    pub stopped: Option<String>,
    /// When Kafka Connect last answered; 0 when it never has.
    pub asked_ms: i64,
    /// Why it does not answer.
    pub trouble: Option<String>,
}

/// What Kafka Connect has said of the live connector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSeen {
    /// How far its acknowledged offsets are.
    pub offsets: LiveOffsets,
    /// The state of the connector, as in [`SnapshotSeen`].
    pub state: Option<String>,
    /// Why it does not run, in words.
    pub stopped: Option<String>,
    /// When Kafka Connect last answered; 0 when it never has.
    pub asked_ms: i64,
    /// Why it does not answer.
    pub trouble: Option<String>,
}

/// What the heartbeat topic has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatSeen {
    /// When the latest one was sent, by the connector's clock. A connector that reads a backlog
    /// sends them too: it shows that it lives, not that it has caught up.
    pub sent_ms: Option<i64>,
    /// When the earliest one was sent that the topic still holds.
    pub first_ms: Option<i64>,
    /// When the topic was last read.
    pub read_ms: i64,
    /// What is wrong.
    pub trouble: Option<String>,
}

/// What the source database has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseSeen {
    /// Its last answer.
    pub said: database::Said,
    /// Every transaction that was committed at or before this position is acknowledged by Kafka,
    /// as the slot of the live connector proves; none as long as it proves nothing.
    pub proven: Option<u64>,
    /// What keeps it from proving the next position.
    pub held: Option<String>,
    /// By how much its clock is ahead of ours, ms.
    pub clock_ahead_ms: i64,
    /// When it last answered; 0 when it never has.
    pub asked_ms: i64,
    /// Why it does not answer, or not as is needed.
    pub trouble: Option<String>,
}

/// A generation to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Its snapshot topics.
    pub topics: Vec<String>,
    /// Where its evidence comes from.
    pub sources: Sources,
    /// When it began, ms since 1970: notifications from before are of another one.
    pub since_ms: Option<i64>,
    /// What is remembered of its notifications.
    pub scan: Scan,
    /// What is remembered of its snapshot connector.
    pub before: Before,
}

/// Where the evidence of a first generation comes from: the configuration.
pub fn configured(config: &Config) -> Sources {
    let source = &config.source;
    Sources {
        connector: source.connect.as_ref().and_then(|c| c.snapshot.clone()),
        notifications: source.notifications.clone(),
    }
}

impl Evidence {
    /// Whether the live connector has passed a cutoff, and how that is known: `Some` with the word
    /// for it.
    pub fn live_passed(&self, cutoff: &Cutoff) -> Option<&'static str> {
        let live = self.live.as_ref().map(|live| live.offsets);
        let live = live.unwrap_or_default();
        let slot = self.database.as_ref().and_then(|seen| seen.proven);
        let at_least = |found: Option<u64>| found.zip(cutoff.position).is_some_and(|(f, c)| f >= c);
        if at_least(live.position) {
            return Some("its offset in Kafka Connect is past the position of the cutoff");
        }
        if at_least(slot) {
            return Some("its replication slot is confirmed past the position of the cutoff");
        }
        let later = live.time_ms.is_some_and(|time_ms| time_ms > cutoff.time_ms);
        later.then_some("its offset in Kafka Connect is past the time of the cutoff")
    }
}

/// Ms since 1970.
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
