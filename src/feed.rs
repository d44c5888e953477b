//! Feeds the source operators: reads partitions on one worker, decodes, and knows when a partition
//! has been read to its end.
//!
//! ```text
//!  MutationFeed ── one TopicFeed: the mutation partitions of the worker
//!  SnapshotFeeds ─ one TopicFeed a generation: its share of that one's snapshot partitions
//! ```
//! Invariant: a READ is read only after the open of its generation has passed control here; a
//! record behind a frozen end leaves as late, never as a READ. After an error nothing more is read,
//! and the offset of the record at hand is not passed.
//!
//! It cannot block: pausing is not polling.

mod cuts;
mod ends;
mod mutations;
mod one;
mod pace;
mod rate;
mod reads;
mod snapshot;
#[cfg(test)]
mod tests;
mod topic;

pub use mutations::MutationFeed;
pub use reads::add_up;
pub use snapshot::SnapshotFeeds;

use crate::checkpoint::Outbox;
use crate::checkpoint::manifest::PartitionState;
use crate::dead_letter::Counted;
use crate::decode::{DecodeSettings, Decoder, Ignored};
use crate::failure::Failures;
use crate::job::Panel;
use crate::key::KeyGate;
use crate::table::{Role, Table};
use crate::topic::{Assignment, Topics};
use headwater_operators::control::PartitionTarget;
use headwater_operators::fingerprint::Fingerprinter;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What one feed has read.
#[derive(Clone, Debug, Default)]
pub struct FeedCounters {
    /// Rows given to the dataflow.
    pub rows: u64,
    /// Of these, by generation; mutations are of 0.
    pub generations: BTreeMap<u32, u64>,
    /// Bytes of key and value read.
    pub bytes: u64,
    /// Whether more may be at hand than was read: throttled, or brokers are away.
    pub behind: bool,
    /// Records that are no row, by kind.
    pub ignored: BTreeMap<Ignored, u64>,
    /// Mutations that were given as dead letters.
    pub dead_letters: Vec<Counted>,
    /// The partitions that are read, by generation.
    pub partitions: BTreeMap<u32, Vec<PartitionRead>>,
}

/// How far a partition was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRead {
    /// Topic.
    pub topic: Arc<str>,
    /// Number.
    pub partition: u32,
    /// 1 + the last offset that was read.
    pub next_offset: u64,
    /// Of its mutations.
    pub times: SourceTimes,
}

/// Source times (`source.ts_ms`, ms since 1970) of the mutations of a partition, over all runs of
/// the job; those that have none are passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceTimes {
    /// Of the first that was read.
    pub first_ms: Option<i64>,
    /// The greatest. (Times of a partition are nearly in order: transactions that ran at once may
    /// stand the other way round.)
    pub last_ms: Option<i64>,
}

impl SourceTimes {
    /// As a checkpoint has them.
    pub fn of(state: &PartitionState) -> Self {
        SourceTimes {
            first_ms: state.first_source_ms,
            last_ms: state.last_source_ms,
        }
    }

    fn saw(&mut self, time_ms: i64) {
        self.first_ms.get_or_insert(time_ms);
        self.last_ms = self.last_ms.max(Some(time_ms));
    }
}

/// What the feed of a role needs.
pub struct FeedConfig {
    /// Mutations or snapshot.
    pub role: Role,
    /// The partitions of the role over all workers. For READs: those of the topics of the
    /// configuration, for an open that names none.
    pub partitions: Vec<Assignment>,
    /// READs a second of the whole job; `None`: as fast as they come. Mutations are never limited.
    pub reads_per_second_max: Option<u64>,
    /// Where topics are read.
    pub topics: Arc<dyn Topics>,
    /// Whether a mutation with a placeholder of an unchanged column is passed on.
    pub pass_unavailable: bool,
    /// The tables of the configuration.
    pub tables: Vec<Table>,
    /// Keys the fingerprints.
    pub secret: [u8; 16],
    /// How records are decoded.
    pub decode: DecodeSettings,
    /// Where errors go.
    pub failures: Arc<Failures>,
    /// Where trouble is shown that is no error.
    pub panel: Arc<Panel>,
    /// Who this feed is in messages.
    pub name: String,
    /// Where counts go.
    pub counters: Rc<RefCell<FeedCounters>>,
    /// The worker.
    pub worker: usize,
    /// All workers of the job.
    pub workers: usize,
    /// What this process knows of keys.
    pub gate: Arc<KeyGate>,
    /// Where its parts of checkpoints go.
    pub outbox: Outbox,
    /// How far the target had seen these partitions before a restart.
    pub replay: Vec<PartitionTarget>,
    /// Bytes that a replay may have in flight beyond the budget.
    pub replay_bytes_max: usize,
    /// Whether the sink holds the replay: then it is read to its end whatever else is asked.
    pub replay_held: bool,
    /// Source times of the mutations before a restart, by topic and partition.
    pub source_times: BTreeMap<(String, u32), SourceTimes>,
}

impl FeedConfig {
    /// This worker's share of partitions: every worker has the same list, so one partition is read
    /// by one worker at a time.
    fn share(&self, all: Vec<Assignment>) -> Vec<Assignment> {
        let mine = all.into_iter().skip(self.worker).step_by(self.workers);
        mine.collect()
    }

    /// A decoder of these tables.
    fn decoder(&self, tables: &[Table]) -> Decoder {
        let fingerprinter = Fingerprinter::new(self.secret);
        let gate = Arc::clone(&self.gate);
        Decoder::new(tables, &fingerprinter, self.decode.clone(), gate)
    }
}
