//! Clocks against each other, and the start of the mutations against the first READ. Pure.
//!
//! Clocks never decide which row wins; they decide whether the start is early enough and whether a
//! record is past a cutoff. `retention.start_margin` must cover their differences.

use super::finding::Finding;
use super::sample::Sampled;
use crate::config::units::{print_duration, print_instant};
use crate::error::ErrorKind::Refused;
use crate::table::Role;
use std::time::Duration;

/// Differences of clocks below it are not told, ms.
const SKEW_MS: u64 = 5_000;

/// The newest times of a topic's sample, ms since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The youngest timestamp of a record.
    pub newest_record_ms: Option<i64>,
    /// The youngest time of a change at the source.
    pub newest_source_ms: Option<i64>,
    /// The time of the oldest READ.
    pub oldest_read_ms: Option<i64>,
}

/// A difference between a clock and this machine's.
fn skew(thing: &str, whose: &str, ahead_ms: i64, margin: Duration) -> Option<Finding> {
    let size = ahead_ms.unsigned_abs();
    if size <= SKEW_MS {
        return None;
    }
    let margin_ms = u64::try_from(margin.as_millis()).unwrap_or(u64::MAX);
    let way = if ahead_ms > 0 { "ahead of" } else { "behind" };
    // Whole seconds are enough, and read better.
    let told = print_duration(Duration::from_secs(size / 1_000));
    let found = format!("{whose} is {told} {way} this machine's clock");
    let finding = match size >= margin_ms {
        true => Finding::bad(Refused, thing, found).to_do(
            "The start of the mutations is found by time: a difference beyond the margin can start \
             too late.",
        ),
        false => Finding::warning(thing, found, &[]),
    };
    Some(finding.expected(format!(
        "clocks within {}; retention.start_margin is {}",
        print_duration(Duration::from_millis(SKEW_MS)),
        print_duration(margin)
    )))
}

/// The database's clock; `asked_ms` is this machine's at the middle of the question.
pub(super) fn database(now_ms: i64, asked_ms: i64, margin: Duration) -> Option<Finding> {
    skew("clocks", "the database's clock", now_ms - asked_ms, margin)
}

/// Records and changes from the future. That they are old says nothing about a clock.
pub(super) fn topics(
    sampled: &[Sampled],
    now_ms: i64,
    margin: Duration,
    findings: &mut Vec<Finding>,
) {
    for topic in sampled {
        let thing = format!("{} {}", topic.role.word(), topic.topic);
        for (whose, newest) in [
            ("its newest record", topic.times.newest_record_ms),
            ("its newest change", topic.times.newest_source_ms),
        ] {
            let ahead = newest.map_or(0, |newest| newest - now_ms);
            if ahead > 0 {
                findings.extend(skew(&thing, whose, ahead, margin));
            }
        }
    }
}

/// Whether mutations are read from early enough: where the log was cut, or reading starts inside
/// it, the first mutation must be older than the first READ less the margin.
pub(super) fn start(sampled: &[Sampled], margin: Duration, findings: &mut Vec<Finding>) {
    let reads = sampled.iter().filter(|topic| topic.role == Role::Snapshot);
    let Some(read_ms) = reads.filter_map(|topic| topic.times.oldest_read_ms).min() else {
        return;
    };
    let needed_ms = read_ms - i64::try_from(margin.as_millis()).unwrap_or(i64::MAX);
    let live = sampled.iter().filter(|topic| topic.role == Role::Mutations);
    for topic in live {
        let thing = format!("start of {}", topic.topic);
        let mut late = topic.first.iter().filter(|first| {
            // A log that is read whole from its first record holds all that there ever was.
            first.offset > 0 && first.time_ms.is_some_and(|time_ms| time_ms > needed_ms)
        });
        let Some(first) = late.next() else {
            continue;
        };
        let time_ms = first.time_ms.expect("late ones have a time");
        let others = late.count();
        let mut finding = Finding::bad(
            Refused,
            thing,
            format!(
                "partition {} is read from offset {}, whose change is of {}",
                first.partition,
                first.offset,
                print_instant(time_ms)
            ),
        )
        .expected(format!(
            "a change of {} or before: the first READ is of {}, less start_margin",
            print_instant(needed_ms),
            print_instant(read_ms)
        ))
        .to_do("Changes in between are lost for ever. Start earlier (source.start), or, when")
        .to_do("retention has deleted them, raise it and take a new snapshot.");
        if others > 0 {
            finding = finding.to_do(format!("The same for {others} more partitions."));
        }
        findings.push(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::{database, start, topics};
    use crate::check::sample::{First, Sampled};
    use crate::check::{Finding, Level};
    use crate::table::Role;
    use std::time::Duration;

    const MARGIN: Duration = Duration::from_secs(900);

    #[test]
    fn clocks_are_judged_by_the_margin() {
        let level = |ahead_ms: i64| database(1_000_000 + ahead_ms, 1_000_000, MARGIN);
        assert_eq!(level(5_000), None);
        assert_eq!(level(6_000).map(|one| one.level), Some(Level::Warning));
        assert_eq!(level(-6_000).map(|one| one.level), Some(Level::Warning));
        assert_eq!(level(900_000).map(|one| one.level), Some(Level::Error));
        let mut topic = Sampled::new(Role::Mutations, "app");
        topic.times.newest_record_ms = Some(1_000_000);
        topic.times.newest_source_ms = Some(1_060_000);
        let mut findings = Vec::new();
        topics(&[topic.clone()], 1_000_000, MARGIN, &mut findings);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].found.contains("newest change is 1m ahead"),
            "{findings:?}"
        );
        findings.clear();
        // Old records are no sign of a clock that is behind.
        topics(&[topic], 9_000_000, MARGIN, &mut findings);
        assert_eq!(findings, []);
    }

    #[test]
    fn a_start_that_is_too_late_is_refused() {
        let found = |offset: u64, time_ms: i64| -> Vec<Finding> {
            let mut live = Sampled::new(Role::Mutations, "app");
            live.first = vec![First {
                partition: 3,
                offset,
                time_ms: Some(time_ms),
            }];
            let mut snapshot = Sampled::new(Role::Snapshot, "snap");
            snapshot.times.oldest_read_ms = Some(10_000_000);
            let mut findings = Vec::new();
            start(&[live, snapshot], MARGIN, &mut findings);
            findings
        };
        assert_eq!(found(7, 9_100_000), []);
        assert_eq!(found(0, 9_100_001), []);
        let late = found(7, 9_100_001);
        assert_eq!((late.len(), late[0].level), (1, Level::Error));
        assert!(
            late[0].found.contains("partition 3 is read from offset 7"),
            "{late:?}"
        );
    }
}
