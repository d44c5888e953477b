//! What a connector's offsets in Kafka Connect prove. Pure.
//!
//! Kafka Connect writes an offset down when everything before it is acknowledged, so that offsets
//! which show a snapshot at its end prove that its READs are in Kafka; no notification does.
//!
//! Invariant: [`proves`] never takes offsets of an earlier run, or of before the snapshot, for its
//! end. The trap: offsets without the members of a snapshot are those of a finished one, of one
//! that has not begun, and of a connector that never takes one.
//!
//! It knows the members that Debezium writes for PostgreSQL best; of others it takes the time.
//! Source: Debezium 3.6.1 in Kafka Connect 4.4.0, `tests/captures/connect_offsets.jsonl`.

use super::notice::number;
use crate::connect::Offsets;
use crate::generation::Scan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What the offsets of a snapshot connector look like, by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotOffsets {
    /// There are none.
    #[default]
    None,
    /// A snapshot is under way.
    Running,
    /// No snapshot is under way.
    Finished,
}

/// How a connector takes its snapshots: its `snapshot.mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `initial_only`: one snapshot, then its offsets stand still.
    InitialOnly,
    /// One snapshot when it has no offsets, then it streams.
    Initial,
    /// None by itself: a signal begins it (`no_data`), or it is not known.
    #[default]
    Other,
}

/// What must be remembered of a generation's snapshot connector, over restarts too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The digest of its offsets when it was first asked after the open; none: not asked yet.
    #[serde(default)]
    pub digest: Option<String>,
    /// It had no offsets then.
    #[serde(default)]
    pub had_none: bool,
    /// Its offsets have shown a snapshot under way since.
    #[serde(default)]
    pub ran: bool,
}

/// What offsets prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// All READs are in Kafka.
    Finished,
    /// The connector has no offsets: it has not begun, or nothing is acknowledged.
    NotBegun,
    /// The snapshot is under way, or its last READs are not acknowledged.
    Running,
    /// They look finished, and nothing shows that they are of this generation's snapshot.
    NotNewer,
    /// A snapshot that a signal began is under way no more: it was finished or stopped, and
    /// COMPLETED, which tells the two apart, has not come.
    EndNotTold,
}

/// How far a live connector is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveOffsets {
    /// Every transaction that was committed at or before this position is acknowledged by Kafka
    /// (PostgreSQL: an LSN); none where the source has no such number.
    pub position: Option<u64>,
    /// Source time of the last change that is, ms since 1970.
    pub time_ms: Option<i64>,
}

impl Mode {
    /// From the value of `snapshot.mode`; none is Debezium's default, `initial`.
    pub fn of(value: Option<&str>) -> Mode {
        match value.map(str::to_ascii_lowercase).as_deref() {
            Some("initial_only") => Mode::InitialOnly,
            None | Some("initial") => Mode::Initial,
            Some(_) => Mode::Other,
        }
    }
}

/// What the offsets look like.
pub fn snapshot(offsets: &Offsets) -> SnapshotOffsets {
    let states = offsets.0.iter().map(|(_, offset)| state(offset));
    states.fold(SnapshotOffsets::None, |all, one| match (all, one) {
        (SnapshotOffsets::Running, _) | (_, SnapshotOffsets::Running) => SnapshotOffsets::Running,
        (SnapshotOffsets::None, one) => one,
        (all, _) => all,
    })
}

fn state(offset: &Value) -> SnapshotOffsets {
    // A connector that streams and has read nothing yet has `{}`.
    let Some(members) = offset.as_object().filter(|members| !members.is_empty()) else {
        return SnapshotOffsets::None;
    };
    let set = |name: &str| members.get(name).is_some_and(|value| !value.is_null());
    // Old versions write `"snapshot":true` alone.
    let taken = set("snapshot") && !is(offset, "snapshot", false);
    let chunks = (members.iter())
        .any(|(name, value)| name.starts_with("incremental_snapshot_") && !value.is_null());
    match chunks || (taken && !is(offset, "snapshot_completed", true)) {
        true => SnapshotOffsets::Running,
        false => SnapshotOffsets::Finished,
    }
}

/// Whether a member is this, or the text of it.
fn is(offset: &Value, name: &str, wanted: bool) -> bool {
    match &offset[name] {
        Value::Bool(found) => *found == wanted,
        Value::String(text) => text.eq_ignore_ascii_case(if wanted { "true" } else { "false" }),
        _ => false,
    }
}

/// What tells offsets from others.
pub fn digest(offsets: &Offsets) -> String {
    let mut lines: Vec<String> = (offsets.0.iter())
        .map(|(partition, offset)| format!("{}={}", sorted(partition), sorted(offset)))
        .collect();
    lines.sort();
    let digest = Sha256::digest(lines.join("\n").as_bytes());
    digest[..8].iter().map(|b| format!("{b:02x}")).collect()
}

/// JSON with members in order.
fn sorted(value: &Value) -> String {
    match value.as_object() {
        None => value.to_string(),
        Some(members) => {
            let mut members: Vec<String> = (members.iter())
                .map(|(name, value)| format!("{name:?}:{}", sorted(value)))
                .collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Takes what was seen now into what is remembered.
pub fn remember(before: &mut Before, offsets: &Offsets) {
    if before.digest.is_none() {
        before.digest = Some(digest(offsets));
        before.had_none = snapshot(offsets) == SnapshotOffsets::None;
    }
    before.ran |= snapshot(offsets) == SnapshotOffsets::Running;
}

/// What is known beside the offsets.
#[derive(Clone, Copy, Debug)]
pub struct Known<'k> {
    /// How the connector takes its snapshots.
    pub mode: Mode,
    /// What is remembered of its offsets.
    pub before: &'k Before,
    /// What its notifications had told before the offsets were asked for.
    pub scan: &'k Scan,
    /// When the generation began, ms since 1970; where that is not known, STARTED proves nothing.
    pub since_ms: Option<i64>,
    /// What the clocks of source and connector may differ by.
    pub clock_skew_max_ms: i64,
}

/// What offsets prove of a generation's snapshot.
pub fn proves(offsets: &Offsets, known: Known<'_>) -> Proof {
    let (before, scan) = (known.before, known.scan);
    match snapshot(offsets) {
        SnapshotOffsets::None => return Proof::NotBegun,
        SnapshotOffsets::Running => return Proof::Running,
        SnapshotOffsets::Finished => {}
    }
    let differs = before
        .digest
        .as_ref()
        .is_some_and(|first| *first != digest(offsets));
    let started = known
        .since_ms
        .is_some_and(|since| scan.started_ms >= Some(since));
    let begun_and_ended = match known.mode {
        // It begins with no offsets, and has such ones only at its end. Were they there before,
        // it would have been SKIPPED.
        Mode::InitialOnly => differs || started,
        Mode::Initial => before.had_none,
        Mode::Other => false,
    };
    // A change that was committed after COMPLETED was sent left the connector after all READs.
    let times = scan.completed_ms.zip(live(offsets).time_ms);
    let behind = times.is_some_and(|(sent_ms, time_ms)| {
        time_ms > sent_ms.saturating_add(known.clock_skew_max_ms)
    });
    match before.ran || begun_and_ended || behind {
        false => Proof::NotNewer,
        true if known.mode == Mode::Other && scan.completed_ms.is_none() => Proof::EndNotTold,
        true => Proof::Finished,
    }
}

/// How far the live connector is.
///
/// The greatest of its LSNs: transactions come in the order of their commits, and a change, or a
/// commit, that lies at or behind an LSN is of a transaction whose commit does, too. A small `lsn`
/// proves nothing, as changes of a long transaction are older than its commit.
pub fn live(offsets: &Offsets) -> LiveOffsets {
    let mut members = offsets.0.iter().map(|(_, offset)| offset);
    let (Some(offset), None) = (members.next(), members.next()) else {
        // Of several source partitions the slowest counts, and LSNs are of one database each.
        let times = offsets.0.iter().map(|(_, offset)| time_ms(offset));
        let slowest = times.min().flatten();
        return LiveOffsets {
            position: None,
            time_ms: slowest,
        };
    };
    let lsn = |name: &str| number(&offset[name]).and_then(|lsn| u64::try_from(lsn).ok());
    LiveOffsets {
        position: ["lsn", "lsn_commit", "lsn_proc"]
            .into_iter()
            .filter_map(lsn)
            .max(),
        time_ms: time_ms(offset),
    }
}

/// Source time of the last change. During a snapshot, and behind it until the next change comes,
/// the time is that of the last READ, which says nothing of the stream.
fn time_ms(offset: &Value) -> Option<i64> {
    let streams_lsns = offset.get("lsn").is_some() && offset.get("messageType").is_none();
    if streams_lsns || state(offset) != SnapshotOffsets::Finished {
        return None;
    }
    let of = |name: &str| number(&offset[name]).filter(|time| *time > 0);
    let seconds = of("ts_sec").and_then(|time| time.checked_mul(1000));
    of("ts_usec")
        .map(|time| time / 1000)
        .or(seconds)
        .or(of("ts_ms"))
}

#[cfg(test)]
mod tests;
