//! After a restart the target has seen more than the checkpoint: readers know rows of up to there.
//! What is read again up to there is therefore held, folded, and written at once by each shard, so
//! that no reader sees a row go back (design.md section 7, the replay fold).
//!
//! Invariant: nothing is skipped by what the target has seen. A replay that is larger than
//! `bytes_max`, or comes to a halt, is written as a stream, and [`Replay::streams`] says so: rows
//! may then go back until it is over.
//!
//! It cannot know when the replay has been read; a command tells, and the frontier of the sink.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const UNKNOWN: u64 = u64::MAX;

/// The replay of one process.
#[derive(Debug)]
pub struct Replay {
    pending: bool,
    /// The last tick of a replayed record, once it is known.
    through: AtomicU64,
    held_bytes: AtomicUsize,
    bytes_max: usize,
    processes: usize,
    streams: AtomicBool,
}

impl Replay {
    /// Nothing is replayed.
    pub fn none() -> Self {
        Replay::new(false, 0, 1)
    }

    /// A replay, if `pending`, of which each of so many processes holds up to `bytes_max`.
    pub fn new(pending: bool, bytes_max: usize, processes: usize) -> Self {
        Replay {
            pending,
            through: AtomicU64::new(UNKNOWN),
            held_bytes: AtomicUsize::new(0),
            bytes_max,
            processes,
            streams: AtomicBool::new(false),
        }
    }

    /// Whether records are held.
    pub fn pending(&self) -> bool {
        self.pending
    }

    /// All of it was stamped at or before this tick.
    pub fn ends_at(&self, tick: u64) {
        self.through.store(tick, Ordering::Release);
    }

    /// Whether a sink that has got everything before `tick` (`None`: everything) has got all of it.
    pub fn covers(&self, tick: Option<u64>) -> bool {
        let through = self.through.load(Ordering::Acquire);
        through != UNKNOWN && tick.is_none_or(|tick| tick > through)
    }

    /// Holds so many bytes more; whether they may be held.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        let held = self.held_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if held > self.bytes_max {
            self.streams.store(true, Ordering::Release);
        }
        !self.streams()
    }

    /// Bytes that were held so far.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Acquire)
    }

    /// Nothing more is held.
    pub(super) fn stream(&self) {
        self.streams.store(true, Ordering::Release);
    }

    /// Whether it cannot be held, and is written as a stream.
    pub fn streams(&self) -> bool {
        self.streams.load(Ordering::Acquire)
    }

    /// Bytes that a source may have in flight for it. It feeds the sinks of all processes, and at
    /// least one of them must be full before the source stops: else nothing would ever move.
    pub fn inflight_bytes_max(&self) -> usize {
        match self.pending {
            true => self.bytes_max.saturating_mul(self.processes),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Replay;

    #[test]
    fn it_is_covered_only_when_its_end_is_known_and_passed() {
        let replay = Replay::new(true, 100, 2);
        assert!(!replay.covers(Some(500)) && !replay.covers(None));
        replay.ends_at(40);
        assert!(!replay.covers(Some(40)));
        assert!(replay.covers(Some(60)) && replay.covers(None));
    }

    #[test]
    fn a_source_may_fill_every_process() {
        assert_eq!(Replay::new(true, 100, 3).inflight_bytes_max(), 300);
        assert_eq!(Replay::none().inflight_bytes_max(), 0);
    }

    #[test]
    fn what_is_too_large_streams() {
        let replay = Replay::new(true, 100, 2);
        assert!(replay.hold(60) && replay.hold(40) && !replay.streams());
        assert!(!replay.hold(1) && replay.streams());
    }
}
