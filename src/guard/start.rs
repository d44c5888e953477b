//! Whether mutations are read from early enough: the start-position proof. Pure.
//!
//! A snapshot shows each row as of some moment. Whatever changed after that must be in the
//! mutations that the job reads; what was appended before its start offset is lost for ever.
//! Source: design.md section 7.
//!
//! Invariant: times are compared, source times of records and Kafka's, less the margin; positions
//! of the source log never (a transaction that was open when the snapshot began has smaller ones
//! than its READs, and does not belong to them).
//!
//! It cannot see changes that the live connector never wrote. A partition that is read whole, from
//! offset 0 of an untrimmed log, holds all that it did write; that it existed in time needs a
//! record older than the snapshot.

#[cfg(test)]
mod tests;

use super::about;
use crate::config::units::print_instant;
use crate::error::Error;
use crate::generation::ReadsSeen;
use crate::table::Role;
use crate::topic::{OffsetRange, TopicSettings};
use serde::{Deserialize, Serialize};

/// Where the job began to read a mutation partition; kept in the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionStart {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: u32,
    /// The first offset that was read.
    pub next_offset: u64,
    /// The first offset that the log held then.
    pub low: u64,
    /// When its log was asked for that, ms since 1970: whatever was appended later is read.
    pub read_since_ms: i64,
    /// The time it was to be read from, which the log proved to reach back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_ms: Option<i64>,
    /// The source time of the first mutation that was read of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<i64>,
}

impl PartitionStart {
    /// Whether it is read from the first record that was ever written to it.
    pub fn is_whole(&self) -> bool {
        self.next_offset == 0 && self.low == 0
    }

    /// A mutation was read, of this source time; only the first that has one counts.
    pub fn mutation(&mut self, source_ms: i64) {
        if source_ms > 0 && self.first_ms.is_none() {
            self.first_ms = Some(source_ms);
        }
    }

    /// The earliest time from which everything is known to be read.
    fn reaches_back_to(&self, clock_skew_ms: u64) -> i64 {
        let since_ms = self.read_since_ms.saturating_add(signed(clock_skew_ms));
        [self.asked_ms, self.first_ms]
            .into_iter()
            .flatten()
            .fold(since_ms, i64::min)
    }
}

/// What the starts are held against: one generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The earliest read time of a READ, or when the snapshot began; see [`earliest_read_ms`].
    pub earliest_read_ms: Option<i64>,
    /// `start_margin` and the lag of a declared standby.
    pub margin_ms: u64,
    /// The lag of a declared standby alone; 0 without one.
    pub replica_lag_ms: u64,
    /// How far our clock and that of the source may be apart.
    pub clock_skew_ms: u64,
    /// The earliest heartbeat of the live connector, by its clock.
    pub connector_seen_ms: Option<i64>,
    /// No more will be read for this verdict: what is not known now stays unknown.
    pub finished: bool,
}

/// How the proof stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing between the snapshot and the first mutation can be missing.
    Proven,
    /// More must be read first.
    NotYet,
    /// It cannot be told; the status says so. A record that comes may prove it yet.
    NotProven(String),
    /// Something may be missing: the job ends, exit code 4.
    Refuse(Error),
}

/// The earliest read time of a generation's READs; none while none has one.
pub fn earliest_read_ms(reads: &[ReadsSeen]) -> Option<i64> {
    reads
        .iter()
        .map(|seen| seen.first_ms)
        .filter(|ms| *ms > 0)
        .min()
}

/// Judges where mutations are read from. `starts` are the partitions of the mutation topics of the
/// generation's tables. The worst partition counts; call it again when anything has changed.
pub fn judge_start(starts: &[PartitionStart], asked: &Asked) -> Verdict {
    let Some(read_ms) = asked.earliest_read_ms else {
        return match asked.finished {
            true => Verdict::NotProven(
                "no READ says when it was read, so it is not proven that mutations are read from \
                 before the snapshot's start"
                    .to_owned(),
            ),
            false => Verdict::NotYet,
        };
    };
    if starts.is_empty() {
        return Verdict::NotProven(
            "it is not known where this job began to read mutations: it began under an older \
             version"
                .to_owned(),
        );
    }
    let (mut not_yet, mut not_proven) = (false, Vec::new());
    for start in starts {
        match judge_partition(start, starts, read_ms, asked) {
            Verdict::Proven => {}
            Verdict::NotYet => not_yet = true,
            Verdict::NotProven(text) => not_proven.push(text),
            refuse @ Verdict::Refuse(_) => return refuse,
        }
    }
    not_proven.dedup();
    match (not_yet, not_proven.split_first()) {
        (true, _) => Verdict::NotYet,
        (false, None) => Verdict::Proven,
        (false, Some((first, []))) => Verdict::NotProven(first.clone()),
        (false, Some((first, more))) => {
            Verdict::NotProven(format!("{first} (and {} more partitions)", more.len()))
        }
    }
}

fn judge_partition(
    start: &PartitionStart,
    starts: &[PartitionStart],
    read_ms: i64,
    asked: &Asked,
) -> Verdict {
    if start.is_whole() {
        return existed(start, starts, read_ms, asked);
    }
    let needed_ms = read_ms.saturating_sub(signed(asked.margin_ms));
    if start.reaches_back_to(asked.clock_skew_ms) <= needed_ms {
        return Verdict::Proven;
    }
    let place = format!("{}[{}]", start.topic, start.partition);
    match start.first_ms {
        Some(first_ms) => Verdict::Refuse(too_late(start, first_ms, read_ms, asked)),
        None if asked.finished => Verdict::NotProven(format!(
            "{place} is read from offset {}, and no mutation of it has come: one between the \
             snapshot's start and that offset would be missing",
            start.next_offset
        )),
        None => Verdict::NotYet,
    }
}

/// Whether the connector that wrote a partition existed before the snapshot.
fn existed(
    start: &PartitionStart,
    starts: &[PartitionStart],
    read_ms: i64,
    asked: &Asked,
) -> Verdict {
    // What a standby had not seen yet must have been written by then.
    let before_ms = read_ms.saturating_sub(signed(asked.replica_lag_ms));
    let of_topic = starts.iter().filter(|other| other.topic == start.topic);
    // A record behind which reading began is as good.
    let written = of_topic
        .clone()
        .any(|other| other.first_ms.is_some_and(|ms| ms < before_ms));
    let by_its_clock = before_ms.saturating_sub(signed(asked.clock_skew_ms));
    let seen = asked.connector_seen_ms.is_some_and(|ms| ms < by_its_clock);
    if written || seen {
        return Verdict::Proven;
    }
    Verdict::NotProven(format!(
        "nothing in {} is older than the snapshot ({}), so it is not proven that its connector \
         existed before that: a change between the snapshot's start and the connector's would be \
         missing. A heartbeat (`source.heartbeat`) or a record older than the snapshot proves it",
        start.topic,
        print_instant(read_ms)
    ))
}

fn too_late(start: &PartitionStart, first_ms: i64, read_ms: i64, asked: &Asked) -> Error {
    let (topic, partition) = (&start.topic, start.partition);
    let needed_ms = read_ms.saturating_sub(signed(asked.margin_ms));
    Error::refused(format!(
        "{topic}[{partition}] is not read from the snapshot's start: mutations may be missing"
    ))
    .line(format!(
        "found     the first mutation read, from offset {}, is of {}",
        start.next_offset,
        print_instant(first_ms)
    ))
    .line(format!(
        "expected  one of {} or older: the first READ is of {}, less a margin of {}",
        print_instant(needed_ms),
        print_instant(read_ms),
        about(asked.margin_ms)
    ))
    .line("What changed in between was never seen, and its old READ would stay in the target.")
    .line("Start a new job (or with an empty store) from an earlier `source.start`, if the topic")
    .line("still holds it; else raise the topic's retention, and start a new snapshot.")
}

/// Refuses a start by time at the first offset of a log whose beginning is gone: what was deleted
/// may have been younger than that time.
///
/// # Errors
/// Refused, with the partition.
pub fn still_there(topic: &str, starts: &[u64], ranges: &[OffsetRange]) -> Result<(), Error> {
    for (partition, (start, range)) in starts.iter().zip(ranges).enumerate() {
        if range.low > 0 && *start <= range.low {
            return Err(Error::refused(format!(
                "{topic}[{partition}] may not hold every mutation since `source.start`"
            ))
            .line(format!(
                "found     the log begins at offset {}, where reading would start",
                range.low
            ))
            .line("expected  an older record before it, as proof that none was deleted since then")
            .line("Raise the topic's retention and start a new snapshot, or, if you know that")
            .line("nothing was deleted, give the offsets: source.start_offsets."));
        }
    }
    Ok(())
}

/// Refuses a mutation topic that is compacted and keeps DELETEs for less than a rebuild may take:
/// the marker of a row that was deleted would never be made.
///
/// # Errors
/// Refused, with both times.
pub fn compaction(topic: &str, settings: &TopicSettings, needed_ms: u64) -> Result<(), Error> {
    let kept_ms = settings.delete_retention_ms.unwrap_or(0);
    if !settings.compacted || kept_ms >= needed_ms {
        return Ok(());
    }
    Err(Error::refused(format!(
        "mutation topic {topic} is compacted and forgets DELETEs too early"
    ))
    .line(format!(
        "found     delete.retention.ms = {kept_ms} ({})",
        about(kept_ms)
    ))
    .line(format!(
        "expected  {needed_ms} ({}) or more, as long as a rebuild may take \
         (`retention.rebuild_alarm_after`)",
        about(needed_ms)
    ))
    .line("The job would start before a DELETE that is gone when it is read, and the old READ of")
    .line("its row would stay in the target. Raise delete.retention.ms of the topic, or lower")
    .line("`retention.rebuild_alarm_after` if rebuilds take less."))
}

/// Says that a topic deletes records earlier than a rebuild may need them.
pub fn short_retention(
    topic: &str,
    role: Role,
    settings: &TopicSettings,
    needed_ms: u64,
) -> Option<String> {
    let kept_ms = settings.deletes_after_ms()?;
    let what = match role {
        Role::Mutations => "mutation",
        Role::Snapshot => "snapshot",
    };
    (kept_ms < needed_ms).then(|| {
        format!(
            "{what} topic {topic} deletes records after {} (retention.ms), a rebuild may need them \
             for {}",
            about(kept_ms),
            about(needed_ms)
        )
    })
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
