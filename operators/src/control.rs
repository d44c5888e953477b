//! Commands from worker 0 to every source and merge, at one tick everywhere.
//!
//! A command is known to be complete for a tick, and takes effect, only once the control frontier
//! has passed that tick on the worker. Commands of a tick keep the order in which they were sent.
//!
//! It cannot answer: what became of a command comes back on the status stream.

use crate::time::last_passed;
use serde::{Deserialize, Serialize};
use timely::dataflow::StreamVec;
use timely::dataflow::operators::vec::Broadcast;
use timely::progress::frontier::MutableAntichain;

/// A partition and the offset at which it is considered read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionTarget {
    /// Topic name.
    pub topic: String,
    /// Partition number.
    pub partition: u32,
    /// One past the last offset that must be read.
    pub end: u64,
}

/// A partition of a snapshot topic and the offset from which it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStart {
    /// Topic name.
    pub topic: String,
    /// Partition number.
    pub partition: u32,
    /// The first offset to read.
    pub next_offset: u64,
}

/// What worker 0 tells everyone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A generation is open: its READs may be read, and markers of its window are kept.
    Open {
        /// Its number, from 1.
        generation: u32,
        /// The tables that it reads.
        tables: Vec<u16>,
        /// When its snapshot began, as a tick.
        opened_at_ms: u64,
        /// The id that its end-of-snapshot records carry.
        id: String,
        /// The snapshot topic of each table.
        topics: Vec<(u16, String)>,
        /// Every partition of these topics, in one order that all workers share: worker w of n
        /// reads those at w, w + n, ….
        partitions: Vec<PartitionStart>,
        /// READs that were read at the source before this are not its own, ms since 1970; 0: all
        /// are. (Of a producer that is late with an older run; design.md section 9.)
        not_before_ms: i64,
    },
    /// A generation goes on without a table: its READs of it are superseded.
    DropTable {
        /// The generation's number.
        generation: u32,
        /// The table's.
        table: u16,
    },
    /// A generation is ready or aborted: its READs are superseded, its markers are not needed.
    Close {
        /// Its number.
        generation: u32,
        /// Whether its topics are not read any more. Those of a generation that is ready are, so
        /// that READs behind its frozen ends are seen.
        aborted: bool,
    },
    /// The ttl of the `ttl` policy is now this.
    SetTtl {
        /// Milliseconds of logical time.
        ttl_ms: u64,
    },
    /// These are the frozen ends of all partitions of a generation's snapshot.
    Freeze {
        /// The generation's number.
        generation: u32,
        /// One for each partition.
        ends: Vec<PartitionTarget>,
    },
    /// Mutations must be read up to here before a generation has caught up.
    Target {
        /// The generation's number.
        generation: u32,
        /// One for each partition of the mutation topics of its tables.
        targets: Vec<PartitionTarget>,
    },
    /// READs are read at this rate from now on, or not at all.
    ReadRate {
        /// READs a second over all workers; none: as fast as they come.
        per_second_max: Option<u64>,
        /// Whether none are read.
        paused: bool,
    },
    /// A cut at the tick of this command: sources say how far they have read, merges export their
    /// markers when every mutation before the tick has marked.
    Checkpoint {
        /// Its number; grows.
        number: u64,
    },
    /// The worker that owns a fingerprint says what it knows of it.
    Look {
        /// Of the question; comes back with the answer.
        id: u64,
        /// Of the key.
        fingerprint: u128,
        /// The key's table.
        table: u16,
    },
    /// Everything that the target had seen before a restart has been read again.
    Replayed {
        /// The last tick at which a record of it was stamped.
        through: u64,
    },
    /// Sources read no more, and keep their capabilities.
    Stop,
    /// Everything is durable: sources and reports let go of their capabilities.
    Shutdown,
    /// How the run ended, for every process; the last command, sent when all have reported.
    Verdict {
        /// What every process ends with.
        exit_code: u8,
    },
}

/// Control messages on one worker: received when they come, given when their tick has passed.
#[derive(Debug)]
pub struct ControlLog {
    tick_ms: u64,
    waiting: Vec<(u64, Command)>,
    passed: Option<u64>,
    ended: bool,
}

impl ControlLog {
    /// An empty log for ticks of `tick_ms`.
    pub fn new(tick_ms: u64) -> Self {
        ControlLog {
            tick_ms,
            waiting: Vec::new(),
            passed: None,
            ended: false,
        }
    }

    /// Takes in a command of `tick`.
    pub fn receive(&mut self, tick: u64, command: Command) {
        assert!(
            self.passed.is_none_or(|passed| tick > passed),
            "a command of tick {tick} came after the control frontier had passed {:?}",
            self.passed
        );
        self.waiting.push((tick, command));
    }

    /// Moves to `frontier` and gives the commands of all ticks that it has passed, in order. At the
    /// end of the control stream all that are left are given.
    pub fn advance(&mut self, frontier: &MutableAntichain<u64>) -> Vec<(u64, Command)> {
        self.passed = last_passed(frontier, self.tick_ms).max(self.passed);
        self.ended = frontier.is_empty();
        let (ended, passed) = (self.ended, self.passed);
        // Stable: within a tick the order of arrival is the order of sending (one sender).
        self.waiting.sort_by_key(|(tick, _)| *tick);
        let ready = self
            .waiting
            .partition_point(|(tick, _)| ended || passed.is_some_and(|passed| *tick <= passed));
        self.waiting.drain(..ready).collect()
    }

    /// The last tick that the control frontier has passed here. The end of the stream moves it no
    /// further: nothing may be forgotten because the job stops.
    pub fn passed(&self) -> Option<u64> {
        self.passed
    }

    /// Whether no command of `tick` can still come: it was passed, or the control stream has ended.
    pub fn settled(&self, tick: u64) -> bool {
        self.ended || self.passed.is_some_and(|passed| passed >= tick)
    }
}

/// Sends what worker 0 says to every worker.
pub fn broadcast(control: StreamVec<'_, u64, Command>) -> StreamVec<'_, u64, Command> {
    control.broadcast()
}

#[cfg(test)]
mod tests {
    use super::{Command, ControlLog};
    use timely::progress::frontier::MutableAntichain;

    fn at(time: u64) -> MutableAntichain<u64> {
        MutableAntichain::from_elem(time)
    }

    #[test]
    fn a_command_waits_until_its_tick_has_passed() {
        let mut log = ControlLog::new(20);
        log.receive(20, Command::Stop);
        log.receive(0, Command::SetTtl { ttl_ms: 1 });
        log.receive(0, Command::SetTtl { ttl_ms: 2 });
        assert!(log.advance(&at(0)).is_empty());
        let first = log.advance(&at(20));
        assert_eq!(
            first,
            [
                (0, Command::SetTtl { ttl_ms: 1 }),
                (0, Command::SetTtl { ttl_ms: 2 })
            ]
        );
        assert!(log.advance(&at(20)).is_empty());
        assert_eq!(log.advance(&at(60)), [(20, Command::Stop)]);
        assert_eq!(log.passed(), Some(40));
    }

    #[test]
    fn the_end_of_control_gives_the_rest_and_moves_no_time() {
        let mut log = ControlLog::new(20);
        log.advance(&at(40));
        log.receive(40, Command::Shutdown);
        assert!(log.settled(20) && !log.settled(40));
        assert_eq!(
            log.advance(&MutableAntichain::new()),
            [(40, Command::Shutdown)]
        );
        assert_eq!(log.passed(), Some(20));
        assert!(log.settled(40));
    }
}
