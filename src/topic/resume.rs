//! Whether a checkpoint's offsets still mean the same records, and which partitions are read on.
//!
//! Nothing is read here: the ranges of the topics are given. An offset that the log does not hold
//! is refused with both numbers: going on would miss records without a sign (case B38).
//!
//! It cannot notice by offsets that a topic was made anew and is as long again; [`same_topic`] can,
//! where topics have ids.

use crate::error::Error;
use crate::table::Role;
use crate::topic::growth::growth_error;
use crate::topic::{Assignment, OffsetRange};
use std::collections::BTreeMap;

/// The assignments of a restarted job for the topics of one role, by topic and partition: those
/// `saved` in its checkpoint, and the partitions that a topic has got since, from their first
/// offset.
///
/// A snapshot topic may have grown: its READs are in no order that a partition could break. A
/// mutation topic may have as many partitions as saved or, when a person has said that it was
/// drained before it grew, `accepted` (`--accept-partitions`).
///
/// # Errors
/// What `ranges_of` says. Refused: an offset below the first of its log (retention has deleted
/// records that were not read), or beyond its end (the topic was made anew or cut), both numbers
/// named; a mutation topic that has grown ([`growth_error`]); any topic with fewer partitions than
/// saved.
pub fn resumable(
    role: Role,
    saved: &[Assignment],
    accepted: Option<u32>,
    ranges_of: impl Fn(&str) -> Result<Vec<OffsetRange>, Error>,
) -> Result<Vec<Assignment>, Error> {
    let mut topics: BTreeMap<&str, BTreeMap<u32, u64>> = BTreeMap::new();
    for assignment in saved {
        let partitions = topics.entry(&assignment.topic).or_default();
        partitions.insert(assignment.partition, assignment.next_offset);
    }
    let mut all = Vec::new();
    for (topic, partitions) in topics {
        let ranges = ranges_of(topic)?;
        let found = count(ranges.len());
        let last = partitions.last_key_value().map_or(0, |(last, _)| last + 1);
        let known = last.max(count(partitions.len()));
        let may_grow = role == Role::Snapshot || accepted == Some(found);
        if (found < known || !may_grow)
            && let Some(error) = growth_error(topic, known, found)
        {
            return Err(error);
        }
        for (partition, range) in (0..).zip(ranges) {
            let saved = partitions.get(&partition).copied();
            let next_offset = saved.unwrap_or(range.low);
            if let Some(error) = gone(role, topic, partition, next_offset, range) {
                return Err(error);
            }
            all.push(Assignment {
                topic: topic.to_owned(),
                partition,
                next_offset,
            });
        }
    }
    Ok(all)
}

fn count(partitions: usize) -> u32 {
    u32::try_from(partitions).unwrap_or(u32::MAX)
}

/// The error about an offset that the log does not hold and does not end at.
fn gone(
    role: Role,
    topic: &str,
    partition: u32,
    next_offset: u64,
    range: OffsetRange,
) -> Option<Error> {
    let OffsetRange { low, high } = range;
    let place = format!("topic {topic} partition {partition}");
    let error = if next_offset < low {
        Error::refused(format!(
            "{place}: the records from offset {next_offset} on are gone"
        ))
        .line(format!(
            "the checkpoint goes on at {next_offset}, the log begins at {low}"
        ))
        .line("retention has deleted them before they were read, or the topic was made anew")
    } else if next_offset > high {
        Error::refused(format!(
            "{place}: offset {next_offset} is beyond the end of the log"
        ))
        .line(format!(
            "the checkpoint goes on at {next_offset}, the log ends at {high}"
        ))
        .line("the topic was made anew, or cut (an unclean leader election, a restored broker)")
    } else {
        return None;
    };
    let missed = match role {
        Role::Mutations => "a job that goes on would miss mutations, so that stale rows could stay",
        Role::Snapshot => "a job that goes on would miss READs, so that rows could be absent",
    };
    Some(
        error
            .line(missed)
            .line("what to do: start a new job with a new snapshot; raise the topic's retention"),
    )
}

/// Compares the ids that a topic had and has; ids that are not known say nothing.
///
/// # Errors
/// Refused when the topic was deleted and made anew under its name.
pub fn same_topic(topic: &str, saved: Option<&str>, found: Option<&str>) -> Result<(), Error> {
    match (saved, found) {
        (Some(saved), Some(found)) if saved != found => Err(Error::refused(format!(
            "topic {topic} is not the one that the checkpoint was made of"
        ))
        .line(format!("checkpoint: topic id {saved}"))
        .line(format!("found: topic id {found}"))
        .line("it was deleted and made anew; offsets of the old one mean nothing in it")
        .line("what to do: start a new job with a new snapshot")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
