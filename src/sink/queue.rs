//! The side of a sink that an operator drives: records in, tickets out, never a wait.
//!
//! Each shard has a thread that takes what waits (up to a batch), folds it and writes it. A ticket
//! is durable when every record pushed under it is, in the target or in the quarantine file.
//!
//! Invariant: `durable` never passes a ticket whose records could still be lost; a key is always on
//! the same shard and its records are written in the order of the pushes. After a failure nothing
//! becomes durable any more.
//!
//! It cannot bound memory: what is pushed is held until it is durable, so the sources' in-flight
//! budget is the bound.

use super::aside::Aside;
use super::backoff::Stop;
use super::batch::Piece;
use super::kafka::LogTopic;
use super::lane::{self, Message, Part, Progress};
use super::replay::Replay;
use super::{Place, Row, Sink};
use crate::error::Error;
use crate::table::Table;
use crate::topic::names::TopicNames;
use crossbeam_channel::Sender;
use headwater_operators::record::{Exit, Records};
use headwater_operators::route::shard_of;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bits of a version that count the records of a worker; the 24 above are the incarnation.
pub const COUNTER_BITS: u32 = 40;
/// Incarnations are below this.
pub const INCARNATIONS_MAX: u32 = 1 << (64 - COUNTER_BITS);

const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// The version of a worker's record number `counter` (below 2^40).
///
/// A key stays on one worker for a whole incarnation, and any restart, on whatever number of
/// workers, is a greater incarnation: so versions of a key grow in merge order.
pub fn version(incarnation: u32, counter: u64) -> u64 {
    u64::from(incarnation) << COUNTER_BITS | counter
}

/// Called from any thread when `durable` moved or the sink failed.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Takes a row that the target refused, with the reason; durable when it returns `Ok`.
pub type DeadLetter = Arc<dyn Fn(&Row<'_>, &str) -> Result<(), Error> + Send + Sync>;

/// Where records go that are kept from the target.
#[derive(Clone, Debug)]
pub enum AsidePlace {
    /// Files in this folder; made when there is something to write.
    Folder(PathBuf),
    /// A topic.
    Topic(LogTopic),
}

/// How the queues of a process are run.
#[derive(Clone)]
pub struct QueueOptions {
    /// This run of the job, below [`INCARNATIONS_MAX`]; greater after every restart.
    pub incarnation: u32,
    /// The first worker of this process.
    pub first_worker: usize,
    /// Workers of this process, at least 1.
    pub workers: usize,
    /// Records in a batch at most.
    pub batch_rows_max: usize,
    /// Bytes of records in a batch, about, at most.
    pub batch_bytes_max: usize,
    /// The tables, for messages.
    pub tables: Arc<[Table]>,
    /// Where records came from.
    pub names: Arc<TopicNames>,
    /// Folder of the quarantine files; made when there is something to write.
    pub quarantine_dir: PathBuf,
    /// The topic that has them instead.
    pub quarantine_topic: Option<LogTopic>,
    /// Where mutations go that cannot be decoded; none when they end the job.
    pub dead_letters: Option<AsidePlace>,
    /// Takes refused rows; without it the first one ends the job.
    pub dead_letter: Option<DeadLetter>,
    /// Called once, with the first failure.
    pub on_failure: Arc<dyn Fn(Error) + Send + Sync>,
    /// What is held and folded first.
    pub replay: Arc<Replay>,
}

/// How the sink of this process is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkState {
    /// It writes, or has nothing to write.
    Running,
    /// A shard waits before it tries again; not a hang.
    Retrying {
        /// The shard.
        shard: usize,
        /// Attempts that failed.
        attempts: u32,
        /// The target's words.
        reason: String,
    },
    /// It has failed and writes nothing any more.
    Failed(Error),
}

/// What all queues and threads of a process share.
pub(super) struct Shared {
    pub(super) stop: Stop,
    pub(super) rows_written: AtomicU64,
    failure: Mutex<Option<Error>>,
    retrying: Mutex<BTreeMap<usize, (u32, String)>>,
    on_failure: Arc<dyn Fn(Error) + Send + Sync>,
    trackers: Vec<Arc<Tracker>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Ends everything; the first error is the one that is told.
    pub(super) fn fail(&self, error: Error) {
        {
            let mut failure = lock(&self.failure);
            if failure.is_some() {
                return;
            }
            *failure = Some(error.clone());
        }
        self.stop.set();
        (self.on_failure)(error);
        for tracker in &self.trackers {
            tracker.wake();
        }
    }

    fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    fn state(&self) -> SinkState {
        if let Some(error) = lock(&self.failure).clone() {
            return SinkState::Failed(error);
        }
        let retrying = lock(&self.retrying);
        let longest = retrying.iter().max_by_key(|(_, (attempts, _))| *attempts);
        match longest {
            None => SinkState::Running,
            Some((shard, (attempts, reason))) => SinkState::Retrying {
                shard: *shard,
                attempts: *attempts,
                reason: reason.clone(),
            },
        }
    }
}

impl Progress for Shared {
    fn retrying(&self, shard: usize, attempts: u32, reason: String) {
        lock(&self.retrying).insert(shard, (attempts, reason));
    }

    fn recovered(&self, shard: usize) {
        lock(&self.retrying).remove(&shard);
    }
}

/// Which tickets of one worker are durable.
pub(super) struct Tracker {
    open: Mutex<Open>,
    durable: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

#[derive(Default)]
struct Open {
    first: u64,
    /// Parts not yet durable, by ticket from `first` on.
    parts: VecDeque<usize>,
}

impl Open {
    fn settle(&mut self) -> u64 {
        while self.parts.front() == Some(&0) {
            self.parts.pop_front();
            self.first += 1;
        }
        self.first
    }
}

impl Tracker {
    fn new() -> Tracker {
        Tracker {
            open: Mutex::default(),
            durable: AtomicU64::new(0),
            waker: Mutex::default(),
        }
    }

    fn open(&self, parts: usize) -> u64 {
        let mut open = lock(&self.open);
        let ticket = open.first + open.parts.len() as u64;
        open.parts.push_back(parts);
        self.durable.store(open.settle(), Ordering::Release);
        ticket
    }

    /// A part of `ticket` is durable.
    pub(super) fn done(&self, ticket: u64) {
        let moved = {
            let mut open = lock(&self.open);
            let index = usize::try_from(ticket - open.first).expect("open tickets fit in memory");
            open.parts[index] -= 1;
            let before = open.first;
            let durable = open.settle();
            self.durable.store(durable, Ordering::Release);
            durable > before
        };
        if moved {
            self.wake();
        }
    }

    fn wake(&self) {
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            waker();
        }
    }
}

/// The threads of a process; the last queue that goes ends them.
struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop.set();
        // A write under way may hang in a dead connection: do not wait for it for ever.
        let until = Instant::now() + CLOSE_WAIT;
        for handle in self.handles.drain(..) {
            while !handle.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Looks at the sink of a process while its queues are at work.
#[derive(Clone)]
pub struct SinkWatch(Arc<Shared>);

impl SinkWatch {
    /// How the sink of this process is doing.
    pub fn state(&self) -> SinkState {
        self.0.state()
    }

    /// Folded rows that this process has written.
    pub fn rows_written(&self) -> u64 {
        self.0.rows_written.load(Ordering::Relaxed)
    }
}

/// The queue of one worker. Dropping it gives up what is not durable yet.
pub struct SinkQueue {
    lanes: Vec<Sender<Message>>,
    quarantine: Sender<Message>,
    /// That of the quarantine where no mutation becomes a letter.
    dead_letters: Sender<Message>,
    tracker: Arc<Tracker>,
    shared: Arc<Shared>,
    incarnation: u32,
    counter: u64,
    replay: Arc<Replay>,
    replaying: bool,
    // Last: the senders must be gone when the threads are waited for.
    _threads: Arc<Threads>,
}

/// Opens the writers and starts the threads; a queue for each worker of the process, in order.
///
/// # Errors
/// When a writer cannot be opened or a number is out of range.
pub fn start(sink: &dyn Sink, options: &QueueOptions) -> Result<Vec<SinkQueue>, Error> {
    if options.incarnation >= INCARNATIONS_MAX {
        return Err(Error::refused(format!(
            "incarnation {} does not fit in the 24 bits of a version",
            options.incarnation
        )));
    }
    let trackers: Vec<_> = (0..options.workers)
        .map(|_| Arc::new(Tracker::new()))
        .collect();
    let shared = Arc::new(Shared {
        stop: Stop::default(),
        rows_written: AtomicU64::new(0),
        failure: Mutex::default(),
        retrying: Mutex::default(),
        on_failure: Arc::clone(&options.on_failure),
        trackers: trackers.clone(),
    });
    let mut starter = Starter {
        options,
        shared: Arc::clone(&shared),
        handles: Vec::new(),
    };
    let mut shards = Vec::new();
    let mut asides = Vec::new();
    for worker in options.first_worker..options.first_worker + options.workers {
        shards.push(starter.shards(sink, worker, shards.first())?);
        asides.push(starter.asides(worker)?);
    }
    let threads = Arc::new(Threads {
        shared: Arc::clone(&shared),
        handles: starter.handles,
    });
    let lanes = shards.into_iter().zip(asides);
    let queues = lanes
        .zip(trackers)
        .map(|((lanes, aside), tracker)| SinkQueue {
            lanes,
            quarantine: aside.0,
            dead_letters: aside.1,
            tracker,
            shared: Arc::clone(&shared),
            incarnation: options.incarnation,
            counter: 0,
            replay: Arc::clone(&options.replay),
            replaying: options.replay.pending(),
            _threads: Arc::clone(&threads),
        });
    Ok(queues.collect())
}

struct Starter<'a> {
    options: &'a QueueOptions,
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl Starter<'_> {
    /// The lanes of a worker; those of the process's first worker when there is one writer.
    fn shards(
        &mut self,
        sink: &dyn Sink,
        worker: usize,
        first: Option<&Vec<Sender<Message>>>,
    ) -> Result<Vec<Sender<Message>>, Error> {
        let one = sink.one_writer_a_process();
        if let Some(first) = first.filter(|_| one) {
            return Ok(first.clone());
        }
        let shards = if one {
            1
        } else {
            sink.shards_a_worker().max(1)
        };
        let number = |shard| match one {
            true => worker / self.options.workers,
            false => worker * shards + shard,
        };
        let numbers: Vec<usize> = (0..shards).map(number).collect();
        let lanes = numbers.into_iter().map(|shard| {
            let place = Place {
                incarnation: self.options.incarnation,
                worker,
                shard,
            };
            let output = lane::Target::new(sink.writer(place)?, self.options, &self.shared);
            // A lane of the whole process holds until all workers are through.
            let holders = if one { self.options.workers } else { 1 };
            let replay = Some((Arc::clone(&self.options.replay), holders));
            self.lane(shard, Box::new(output), replay)
        });
        lanes.collect()
    }

    /// The lanes of a worker's quarantine and dead letters.
    fn asides(&mut self, worker: usize) -> Result<(Sender<Message>, Sender<Message>), Error> {
        let quarantine = Aside::quarantine(self.options, worker);
        let quarantine = self.lane(usize::MAX - 2 * worker, Box::new(quarantine), None)?;
        let Some(output) = Aside::dead_letters(self.options, worker) else {
            return Ok((quarantine.clone(), quarantine));
        };
        let letters = self.lane(usize::MAX - 2 * worker - 1, Box::new(output), None)?;
        Ok((quarantine, letters))
    }

    fn lane(
        &mut self,
        number: usize,
        output: Box<dyn lane::Output>,
        replay: Option<(Arc<Replay>, usize)>,
    ) -> Result<Sender<Message>, Error> {
        let limits = (self.options.batch_rows_max, self.options.batch_bytes_max);
        let shared = Arc::clone(&self.shared);
        let (sender, handle) = lane::start(number, output, limits, replay, shared)?;
        self.handles.push(handle);
        Ok(sender)
    }
}

impl SinkQueue {
    /// Hands over records of this worker, in merge order. Returns their ticket; tickets count up
    /// from 0. Never blocks.
    pub fn push(&mut self, records: Records) -> u64 {
        let first = self.counter + 1;
        self.counter += records.len() as u64;
        if self.counter >= 1 << COUNTER_BITS {
            let text = "a worker has written 2^40 records in one incarnation";
            self.shared.fail(
                Error::refused(text)
                    .line("Versions of rows would repeat. Stop the job and start it again."),
            );
        }
        if self.shared.has_failed() {
            return self.tracker.open(1);
        }
        let version = version(self.incarnation, first);
        let parts = self.route(records, version);
        let ticket = self.tracker.open(parts.len());
        for (lane, piece) in parts {
            let part = Part {
                piece,
                ticket,
                tracker: Arc::clone(&self.tracker),
            };
            // A lane ends early only after a failure, which has been told.
            let _ = lane.send(Message::Records(part));
        }
        ticket
    }

    fn route(&self, records: Records, version: u64) -> Vec<(&Sender<Message>, Piece)> {
        let shards = self.lanes.len();
        let mut indices = vec![Vec::new(); shards + 2];
        for (index, record) in records.iter().enumerate() {
            let lane = match record.op.leaves_for() {
                Exit::Target => shard_of(record.fingerprint, shards),
                Exit::Quarantine => shards,
                Exit::DeadLetters => shards + 1,
            };
            indices[lane].push(u32::try_from(index).expect("a container is shipped before 4 GiB"));
        }
        let records = Arc::new(records);
        let lanes = self
            .lanes
            .iter()
            .chain([&self.quarantine, &self.dead_letters]);
        let lanes = lanes.zip(indices);
        let parts = lanes.filter(|(_, indices)| !indices.is_empty());
        let piece = |indices: Vec<u32>| match indices.len() == records.len() {
            true => Piece::whole(Arc::clone(&records), version),
            false => Piece::some(Arc::clone(&records), version, indices),
        };
        parts
            .map(|(lane, indices)| (lane, piece(indices)))
            .collect()
    }

    /// Every record stamped before `tick` was pushed (`None`: all): a replay may be over by that.
    pub fn passed(&mut self, tick: Option<u64>) {
        if self.replaying && self.replay.covers(tick) {
            self.replaying = false;
            for lane in &self.lanes {
                let _ = lane.send(Message::Replayed);
            }
        }
    }

    /// All tickets below this are durable.
    pub fn durable(&self) -> u64 {
        self.tracker.durable.load(Ordering::Acquire)
    }

    /// Sets what is called when `durable` moved or the sink failed. Look at both after setting it.
    pub fn set_waker(&self, waker: Waker) {
        *lock(&self.tracker.waker) = Some(waker);
    }

    /// How the sink of this process is doing.
    pub fn state(&self) -> SinkState {
        self.shared.state()
    }

    /// Looks at the state from elsewhere.
    pub fn watch(&self) -> SinkWatch {
        SinkWatch(Arc::clone(&self.shared))
    }

    /// Folded rows that this process has written.
    pub fn rows_written(&self) -> u64 {
        self.shared.rows_written.load(Ordering::Relaxed)
    }
}
