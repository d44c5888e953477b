//! What notifications add up to. Pure.
//!
//! Invariants: a notification counts by when it was sent, so that one that comes again, or is read
//! again after a restart on top of what is remembered, does nothing; `completed_ms` is never set
//! when a STARTED was sent later. Ones that were sent before the generation's begin are left out.
//!
//! It relies on the clock of the connector: one that moves to a machine whose clock is behind by
//! more than its own restart takes is not heard until that clock has caught up, so that nothing
//! counts as completed too early.

use super::notice::{Event, Notice};
use super::sender::{Whose, names, whose};
use crate::generation::{Scan, Scanned};

/// What became of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is of this generation.
    Counts,
    /// It was sent before the generation began, before the run at hand, or has come before.
    LeftOut,
}

/// Adds a notification that was sent at `sent_ms` (ms since 1970, the record's own time where the
/// notification has none). `since_ms`: when the generation began; `topics`: its snapshot topics.
pub fn fold(
    scan: &mut Scan,
    notice: &Notice,
    (sent_ms, since_ms): (i64, Option<i64>),
    topics: &[String],
) -> Told {
    if since_ms.is_some_and(|since| sent_ms < since) || !ours(scan, notice, topics) {
        return Told::LeftOut;
    }
    let run_ms = scan.started_ms;
    if run_ms.is_some_and(|run| sent_ms < run) {
        if notice.event == Event::Started {
            scan.first_started_ms = scan.first_started_ms.min(Some(sent_ms));
        }
        return Told::LeftOut;
    }
    match &notice.event {
        Event::Started if run_ms == Some(sent_ms) => return Told::LeftOut,
        Event::Started => {
            scan.starts = scan.starts.saturating_add(1);
            scan.first_started_ms = scan.first_started_ms.or(Some(sent_ms));
            scan.started_ms = Some(sent_ms);
            scan.completed_ms = None;
            scan.aborted_ms = None;
            scan.scanned.clear();
        }
        Event::Completed if run_ms.is_none() => scan.completed_early = true,
        Event::Completed => {
            scan.completed_ms = scan.completed_ms.max(Some(sent_ms));
            scan.completed_early = false;
        }
        Event::TableScanned {
            table,
            rows,
            status,
        } => {
            let scanned = Scanned {
                rows: rows.unwrap_or(0),
                status: status.clone(),
            };
            scan.scanned.insert(table.clone(), scanned);
        }
        Event::Skipped => scan.skipped_ms = scan.skipped_ms.max(Some(sent_ms)),
        Event::Aborted => scan.aborted_ms = scan.aborted_ms.max(Some(sent_ms)),
        Event::InProgress | Event::Paused | Event::Resumed | Event::Other(_) => {}
    }
    Told::Counts
}

/// Whether it is of the generation's connector; what was another's is taken out.
fn ours(scan: &mut Scan, notice: &Notice, topics: &[String]) -> bool {
    match whose(
        scan.connector.as_deref(),
        notice.connector.as_deref(),
        topics,
    ) {
        Whose::Ours => {}
        Whose::OursAlone => *scan = Scan::default(),
        Whose::Others => return false,
        Whose::Unknown => {
            scan.other_connector.clone_from(&notice.connector);
            return false;
        }
    }
    if scan.connector.is_none() {
        scan.connector.clone_from(&notice.connector);
        let name = notice.connector.as_deref();
        scan.connector_named = name.is_some_and(|name| names(name, topics));
    }
    true
}

#[cfg(test)]
mod tests;
