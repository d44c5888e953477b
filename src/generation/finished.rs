//! What a snapshot's end may stand on. Pure.
//!
//! Debezium's COMPLETED can stand in Kafka before thousands of its READs, and names no tables
//! (services.md, "COMPLETED does not mean that the READs are in Kafka"): so it is never evidence
//! alone.
//!
//! Invariant: a kind holds only while everything it needs was seen after the generation began; the
//! strongest one that holds is taken.

use super::record::{ReadsSeen, Scan};
use crate::config::choices::SourceFinished;
use std::collections::BTreeMap;

/// What is known of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Snapshot<'a> {
    /// The tables that it still has: number and name.
    pub tables: Vec<(u16, &'a str)>,
    /// Partitions of its topics.
    pub partitions: usize,
    /// READs in the last durable manifest.
    pub reads: &'a [ReadsSeen],
    /// What notifications have told; none when they are not configured.
    pub scan: Option<&'a Scan>,
    /// Notifications are in the one partition that has all READs.
    pub notified_in_order: bool,
    /// Connect's offsets show the snapshot finished, and were written since the open.
    pub offsets_finished: bool,
    /// Every partition has its end-of-snapshot record.
    pub end_records: bool,
    /// A person said so.
    pub said: bool,
    /// Nothing has come for a while.
    pub quiet: bool,
    /// No READ has come for `source.end_settle`, whatever was told.
    pub settled: bool,
}

/// What a kind of evidence leaves open.
pub fn not_proven(kind: SourceFinished) -> Option<&'static str> {
    match kind {
        SourceFinished::ConnectOffsets | SourceFinished::Ordered => None,
        SourceFinished::Counted => Some(
            "a READ that the connector counted and that another record in its place hides would \
             not be noticed",
        ),
        SourceFinished::OperatorSaid => {
            Some("that the snapshot is complete is a person's word, or its producer's")
        }
        SourceFinished::Quiet => {
            Some("that no READ is on its way: the topics were only quiet for a while")
        }
    }
}

/// Whether `found` is at least as strong as `required`. The kinds are declared strongest first.
pub fn at_least(found: SourceFinished, required: SourceFinished) -> bool {
    found as u8 <= required as u8
}

/// The strongest evidence that holds and counts; a person's word always counts: it is given for
/// this very snapshot.
pub fn finished(snapshot: &Snapshot<'_>, required: SourceFinished) -> Option<SourceFinished> {
    let completed = snapshot
        .scan
        .and_then(Scan::trusted)
        .is_some_and(|scan| scan.completed_ms.is_some());
    // Offsets can look finished before the first READ.
    let any = !snapshot.reads.is_empty() || (completed && total(snapshot) == Some(0));
    // Whatever offsets look like: a table whose scan failed has no READs, or too few.
    let counted = count(snapshot);
    let failed = failed(&counted);
    let last = latest_run(snapshot).is_some_and(|run| run.iter().any(|seen| seen.last_marker));
    let one = snapshot.partitions == 1;
    [
        (
            SourceFinished::ConnectOffsets,
            snapshot.offsets_finished && any,
        ),
        (
            SourceFinished::Ordered,
            one && (last || (snapshot.notified_in_order && completed)),
        ),
        (SourceFinished::Counted, counted == Count::Equal),
        (
            SourceFinished::OperatorSaid,
            snapshot.said || snapshot.end_records,
        ),
        (SourceFinished::Quiet, snapshot.quiet),
    ]
    .into_iter()
    .filter(|(kind, holds)| *holds && (!failed || *kind == SourceFinished::OperatorSaid))
    .filter(|(kind, _)| *kind == SourceFinished::OperatorSaid || at_least(*kind, required))
    .map(|(kind, _)| kind)
    .next()
}

/// The status of a table of which no notification has come.
const NOT_SCANNED: &str = "not scanned";

/// READs against what the connector says it has scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// No notifications are configured.
    Unknown,
    /// Two connectors tell of snapshots in one topic, and their names do not tell whose this is.
    Mixed {
        /// Their names.
        names: [String; 2],
    },
    /// No STARTED has come.
    NotStarted,
    /// COMPLETED has come, STARTED has not: lost, or of a snapshot before the open; and the tables'
    /// own notifications and READs do not prove it.
    Early,
    /// The connector found nothing to do: it has done this snapshot before.
    Skipped,
    /// It scans.
    Scanning,
    /// It was aborted.
    Aborted,
    /// A table was not scanned well, or not at all.
    Bad {
        /// Its name.
        table: String,
        /// What the connector says of it.
        status: String,
    },
    /// READs are missing.
    Missing {
        /// Rows scanned.
        scanned: u64,
        /// READs of the latest run.
        seen: u64,
    },
    /// There are more READs than rows.
    More {
        /// Rows scanned.
        scanned: u64,
        /// READs of the latest run.
        seen: u64,
    },
    /// As many READs as rows, of each table, of one run.
    Equal,
}

/// Compares them.
pub fn count(snapshot: &Snapshot<'_>) -> Count {
    let Some(scan) = snapshot.scan else {
        return Count::Unknown;
    };
    if let (Some(one), Some(other)) = (&scan.connector, &scan.other_connector) {
        return Count::Mixed {
            names: [one.clone(), other.clone()],
        };
    }
    if scan.aborted_ms > scan.started_ms {
        return Count::Aborted;
    }
    if scan.starts == 0 {
        return match (scan.completed_early, scan.skipped_ms) {
            // A STARTED may be lost. What each table's own notification says, and as many READs of
            // one run, prove as much without it; a COMPLETED alone proves nothing.
            (true, _) => match compare(snapshot, scan) {
                // None of none: the snapshot may not have begun, and its STARTED be on its way.
                Count::Equal if snapshot.settled || any_row(scan) => Count::Equal,
                _ => Count::Early,
            },
            (false, Some(_)) => Count::Skipped,
            (false, None) => Count::NotStarted,
        };
    }
    if scan.completed_ms.is_none() {
        return Count::Scanning;
    }
    compare(snapshot, scan)
}

/// The READs of the latest run against the rows of each table.
fn compare(snapshot: &Snapshot<'_>, scan: &Scan) -> Count {
    let run = latest_run(snapshot).unwrap_or_default();
    let (mut scanned, mut seen, mut equal, mut more) = (0, 0, true, false);
    for (table, name) in &snapshot.tables {
        let found = scan.scanned.iter().find(|(told, _)| names(told, name));
        let Some((_, found)) = found else {
            return Count::Bad {
                table: (*name).to_owned(),
                status: NOT_SCANNED.to_owned(),
            };
        };
        if !matches!(found.status.as_str(), "SUCCEEDED" | "EMPTY") {
            return Count::Bad {
                table: (*name).to_owned(),
                status: found.status.clone(),
            };
        }
        let of_table = run.iter().filter(|seen| seen.table == *table);
        let rows: u64 = of_table.map(|seen| seen.rows).sum();
        scanned += found.rows;
        seen += rows;
        equal &= rows == found.rows;
        more |= rows > found.rows;
    }
    match (equal, more) {
        (true, _) => Count::Equal,
        (false, true) => Count::More { scanned, seen },
        (false, false) => Count::Missing { scanned, seen },
    }
}

fn any_row(scan: &Scan) -> bool {
    scan.scanned.values().any(|of| of.rows > 0)
}

/// Whether the connector has told that a table's scan failed. A notification that is only missing
/// is no such thing.
pub fn failed(count: &Count) -> bool {
    matches!(count, Count::Bad { status, .. } if status != NOT_SCANNED)
}

/// READs that the snapshot has in all, as its connector says.
pub fn total(snapshot: &Snapshot<'_>) -> Option<u64> {
    let scan = snapshot.scan.and_then(Scan::trusted);
    let scan = scan.filter(|scan| scan.completed_ms.is_some())?;
    Some(scan.scanned.values().map(|of| of.rows).sum())
}

/// The READs of the run of the snapshot whose READs are the youngest: one that was killed and begun
/// anew leaves those of the run before in the topic.
fn latest_run<'a>(snapshot: &Snapshot<'a>) -> Option<Vec<&'a ReadsSeen>> {
    let mut runs: BTreeMap<&str, (i64, Vec<&ReadsSeen>)> = BTreeMap::new();
    for seen in snapshot.reads {
        let (last_ms, of) = runs.entry(&seen.run).or_default();
        *last_ms = seen.last_ms.max(*last_ms);
        of.push(seen);
    }
    let latest = runs.into_values().max_by_key(|(last_ms, _)| *last_ms);
    latest.map(|(_, of)| of)
}

/// Whether the name that Debezium gives, which may begin with the database's, is that of a table.
fn names(told: &str, table: &str) -> bool {
    told == table
        || told
            .strip_suffix(table)
            .is_some_and(|database| database.ends_with('.'))
}

#[cfg(test)]
mod tests;
