//! One thread that takes what waits, writes it, and says which tickets became durable.
//!
//! Invariant: a batch is written before the next one is taken, and a batch that must be tried again
//! is the same batch. A writer that panics is a failure, never a silent end.
//!
//! It cannot linger: a batch is what is waiting, at least one record.

use super::backoff::pause;
use super::batch::{Batch, Piece};
use super::fold::fold;
use super::queue::{DeadLetter, QueueOptions, Shared, Tracker};
use super::replay::Replay;
use super::{Applied, Origin, Rejected, Row, WriteError, Writer, row};
use crate::error::Error;
use crate::table::{Role, Table};
use crate::topic::names::TopicNames;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a lane that holds looks whether the others still do.
const LOOK: Duration = Duration::from_millis(50);
/// A replay of which nothing comes for so long is let go of. A source may have spent its budget on
/// READs that were dropped, on records of another process, or on those of another lane: it goes on
/// only when what is held has become durable.
const HALT: Duration = Duration::from_secs(10);

/// Records for one lane, and the ticket that waits for them.
pub(super) struct Part {
    pub(super) piece: Piece,
    pub(super) ticket: u64,
    pub(super) tracker: Arc<Tracker>,
}

/// What a lane is sent.
pub(super) enum Message {
    Records(Part),
    /// A worker has sent all that is replayed.
    Replayed,
}

/// Where a lane tells what it is waiting for.
pub(super) trait Progress {
    fn retrying(&self, shard: usize, attempts: u32, reason: String);
    fn recovered(&self, shard: usize);
}

/// Why a lane could not write a batch.
pub(super) enum Failure {
    Retry(String),
    Fatal(Error),
}

/// What a lane writes to.
pub(super) trait Output: Send {
    /// Durable when it returns `Ok`.
    fn write(&mut self, batch: &Batch) -> Result<(), Failure>;
}

/// Starts a lane; it ends when its senders are gone or the process's sink has stopped.
pub(super) fn start(
    number: usize,
    output: Box<dyn Output>,
    (rows_max, bytes_max): (usize, usize),
    replay: Option<(Arc<Replay>, usize)>,
    shared: Arc<Shared>,
) -> Result<(Sender<Message>, JoinHandle<()>), Error> {
    let (sender, receiver) = unbounded();
    let inbox = Inbox {
        receiver,
        rest: None,
        rows_max: rows_max.max(1),
        bytes_max: bytes_max.max(1),
        replay: replay.filter(|(replay, _)| replay.pending()),
    };
    let run = move || {
        let ran = catch_unwind(AssertUnwindSafe(|| run(number, inbox, output, &shared)));
        let failure = match ran {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => Error::failed("a sink's writer panicked")
                .line("This is a fault of the sink; the panic message was printed before."),
        };
        shared.fail(failure);
    };
    let thread = std::thread::Builder::new().name(format!("sink-{number}"));
    let handle = thread.spawn(run);
    let handle =
        handle.map_err(|error| Error::failed(format!("no thread for the sink: {error}")))?;
    Ok((sender, handle))
}

fn run(
    number: usize,
    mut inbox: Inbox,
    mut output: Box<dyn Output>,
    shared: &Shared,
) -> Result<(), Error> {
    while let Some((batch, finished)) = inbox.next() {
        let mut attempts = 0;
        loop {
            if shared.stop.is_set() {
                return Ok(());
            }
            match output.write(&batch) {
                Ok(()) => break,
                Err(Failure::Fatal(error)) => return Err(error),
                Err(Failure::Retry(reason)) => {
                    attempts += 1;
                    shared.retrying(number, attempts, reason);
                    shared.stop.wait(pause(attempts));
                }
            }
        }
        if attempts > 0 {
            shared.recovered(number);
        }
        // Let go of the records before the source is told that there is room.
        drop(batch);
        for (tracker, ticket) in finished {
            tracker.done(ticket);
        }
    }
    Ok(())
}

/// Tickets whose last records of a lane are in a batch.
type Finished = Vec<(Arc<Tracker>, u64)>;

/// What waits for a lane.
struct Inbox {
    receiver: Receiver<Message>,
    /// A part of which some records have been taken.
    rest: Option<Part>,
    rows_max: usize,
    bytes_max: usize,
    /// While it is held: the replay, and how many workers have not sent all of it.
    replay: Option<(Arc<Replay>, usize)>,
}

impl Inbox {
    /// Waits for records; `None` when there are no senders any more.
    fn wait(&self) -> Option<Part> {
        loop {
            if let Message::Records(part) = self.receiver.recv().ok()? {
                return Some(part);
            }
        }
    }

    /// Records that wait already.
    fn at_hand(&self) -> Option<Part> {
        loop {
            if let Message::Records(part) = self.receiver.try_recv().ok()? {
                return Some(part);
            }
        }
    }

    /// All that is replayed, as one batch; `None` when there are no senders any more: then nothing
    /// of it is written, and the next run replays it again.
    fn replayed(&self, replay: &Replay, holders: usize) -> Option<(Batch, Finished)> {
        let (mut batch, mut finished) = (Batch::default(), Vec::new());
        let mut holding = holders;
        let (mut held_bytes, mut since) = (0, Instant::now());
        while holding > 0 {
            let part = match self.receiver.recv_timeout(LOOK) {
                Ok(Message::Records(part)) => part,
                Ok(Message::Replayed) => {
                    holding -= 1;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if held_bytes != replay.held_bytes() {
                        (held_bytes, since) = (replay.held_bytes(), Instant::now());
                    }
                    if held_bytes > 0 && since.elapsed() >= HALT {
                        replay.stream();
                    }
                    if replay.streams() {
                        break;
                    }
                    continue;
                }
            };
            let may_hold = replay.hold(part.piece.bytes());
            batch.push(part.piece);
            finished.push((part.tracker, part.ticket));
            if !may_hold {
                break;
            }
        }
        Some((batch, finished))
    }

    /// The next batch, and the tickets of which it holds the last records; waits for one record.
    fn next(&mut self) -> Option<(Batch, Finished)> {
        if let Some((replay, holders)) = self.replay.take() {
            let replayed = self.replayed(&replay, holders)?;
            if !replayed.0.is_empty() {
                return Some(replayed);
            }
        }
        let mut batch = Batch::default();
        let mut finished = Vec::new();
        let (mut rows, mut bytes) = (self.rows_max, self.bytes_max);
        let mut waiting = match self.rest.take() {
            Some(rest) => Some(rest),
            None => Some(self.wait()?),
        };
        while let Some(mut part) = waiting {
            let (piece, piece_bytes) = part.piece.take(rows, bytes);
            rows -= piece.len();
            bytes = bytes.saturating_sub(piece_bytes);
            batch.push(piece);
            if !part.piece.is_empty() {
                self.rest = Some(part);
                break;
            }
            finished.push((part.tracker, part.ticket));
            if rows == 0 || bytes == 0 {
                break;
            }
            waiting = self.at_hand();
        }
        Some((batch, finished))
    }
}

/// A sink's writer as a lane sees it: folds, and settles what was refused.
pub(super) struct Target {
    writer: Box<dyn Writer>,
    tables: Arc<[Table]>,
    names: Arc<TopicNames>,
    dead_letter: Option<DeadLetter>,
    shared: Arc<Shared>,
}

impl Target {
    pub(super) fn new(
        writer: Box<dyn Writer>,
        options: &QueueOptions,
        shared: &Arc<Shared>,
    ) -> Target {
        Target {
            writer,
            tables: Arc::clone(&options.tables),
            names: Arc::clone(&options.names),
            dead_letter: options.dead_letter.clone(),
            shared: Arc::clone(shared),
        }
    }

    /// How far the batch's records go in their partitions.
    fn applied(&self, batch: &Batch) -> Vec<Applied> {
        let mut farthest: BTreeMap<(Role, u16, u32, u32), u64> = BTreeMap::new();
        for entry in batch.iter() {
            let origin = Origin::of(&entry.record);
            let table = entry.record.table;
            let place = (origin.role, table, origin.generation, origin.partition);
            let next_offset = farthest.entry(place).or_default();
            *next_offset = (*next_offset).max(origin.offset + 1);
        }
        let mut applied: Vec<Applied> = Vec::with_capacity(farthest.len());
        for ((role, table, generation, partition), next_offset) in farthest {
            let Some(topic) = self.names.of(role, table, generation) else {
                continue;
            };
            // Tables, and generations one after the other, may share a topic.
            let same =
                |a: &&mut Applied| a.role == role && a.topic == topic && a.partition == partition;
            match applied.iter_mut().find(same) {
                Some(before) => before.next_offset = before.next_offset.max(next_offset),
                None => applied.push(Applied {
                    role,
                    topic,
                    partition,
                    next_offset,
                }),
            }
        }
        applied
    }

    /// The error that names a refused row by its record; never by its values.
    fn refusal(&self, row: &Row<'_>, reason: &str) -> Error {
        let table = self.tables.get(row.table).map_or("?", |table| &table.name);
        let number = u16::try_from(row.table).unwrap_or(u16::MAX);
        let topic = self
            .names
            .of(row.origin.role, number, row.origin.generation);
        let topic = topic.unwrap_or_else(|| "?".to_owned());
        let key = match row::columns(row.key) {
            Ok(Some(key)) => key.names().collect::<Vec<_>>().join(", "),
            Ok(None) | Err(_) => "?".to_owned(),
        };
        let role = row.origin.role.word();
        let (partition, offset) = (row.origin.partition, row.origin.offset);
        Error::failed(format!("the sink refused a row of `{table}`"))
            .line(format!(
                "record  {topic} ({role}) partition {partition} offset {offset}"
            ))
            .line(format!("key     columns {key}"))
            .line(format!("reason  {reason}"))
            .line(
                "Make the target take such rows (column type, size, constraint), then start again.",
            )
    }

    fn settle(&self, rows: &[Row<'_>], rejected: &[Rejected]) -> Result<(), Error> {
        for refused in rejected {
            let Some(row) = rows.get(refused.index) else {
                return Err(Error::failed(format!(
                    "the sink refused row {} of a batch of {}",
                    refused.index,
                    rows.len()
                )));
            };
            match &self.dead_letter {
                Some(dead_letter) => dead_letter(row, &refused.reason)?,
                None => return Err(self.refusal(row, &refused.reason)),
            }
        }
        Ok(())
    }
}

impl Output for Target {
    fn write(&mut self, batch: &Batch) -> Result<(), Failure> {
        let rows = fold(batch);
        let refused = match self.writer.write(&rows, &self.applied(batch)) {
            Ok(()) => 0,
            Err(WriteError::Retry(reason)) => return Err(Failure::Retry(reason)),
            Err(WriteError::Fatal(error)) => return Err(Failure::Fatal(error)),
            Err(WriteError::Rejected(rejected)) => {
                self.settle(&rows, &rejected).map_err(Failure::Fatal)?;
                rejected.len()
            }
        };
        let written = (rows.len() - refused) as u64;
        self.shared
            .rows_written
            .fetch_add(written, Ordering::Relaxed);
        Ok(())
    }
}
