//! Offsets as Kafka Connect has them, and what they prove.

use super::{
    Before, Known, Mode, Proof, SnapshotOffsets, digest, live, proves, remember, snapshot,
};
use crate::connect::Offsets;
use crate::evidence::tests::captured_offsets;
use crate::generation::Scan;
use serde_json::{Value, json};

fn offsets(offset: Value) -> Offsets {
    Offsets(vec![(json!({"server": "app"}), offset)])
}

#[test]
fn captured_states() {
    use SnapshotOffsets::{Finished, None, Running};
    for (when, state) in [
        ("live: made just now", None),
        ("live: streams, no change yet", Finished),
        ("live: within a transaction", Finished),
        ("initial_only: under way", Running),
        ("initial_only: finished", Finished),
        ("incremental: streams, nothing read", None),
        ("incremental: under way", Running),
        ("incremental: finished", Finished),
    ] {
        assert_eq!(snapshot(&captured_offsets(when)), state, "{when}");
    }
    for (offset, state) in [
        (
            json!({"snapshot": "INITIAL", "snapshot_completed": true, "lsn": 1}),
            Finished,
        ),
        (
            json!({"snapshot": true, "file": "binlog.1", "pos": 4}),
            Running,
        ),
        (json!({"snapshot": false, "pos": 4}), Finished),
        (json!({"snapshot": null, "lsn": 4}), Finished),
        (
            json!({"incremental_snapshot_primary_key": "ac", "lsn": 4}),
            Running,
        ),
        (
            json!({"incremental_snapshot_primary_key": null, "lsn": 4}),
            Finished,
        ),
        (json!(null), None),
    ] {
        assert_eq!(snapshot(&offsets(offset.clone())), state, "{offset}");
    }
}

#[test]
fn how_far_a_live_connector_is() {
    let at = |when: &str| {
        let live = live(&captured_offsets(when));
        (live.position, live.time_ms)
    };
    assert_eq!(at("live: made just now"), (None, None));
    assert_eq!(at("incremental: streams, nothing read"), (None, None));
    // The time is that of its start.
    let unread = at("live: streams, no change yet");
    assert_eq!(unread, (Some(66_092_672), None));
    let within = at("live: within a transaction");
    assert_eq!(within, (Some(66_443_336), Some(1_796_002_592_909)));
    assert_eq!(at("live: after it").0, Some(66_443_512));
    // The time of a READ is not that of the stream.
    assert_eq!(at("incremental: under way").1, None);
    assert_eq!(at("incremental: finished"), (Some(66_438_104), None));
    // An older change of a long transaction takes nothing back.
    let long = json!({"lsn": 50, "lsn_commit": 90, "lsn_proc": 60, "messageType": "UPDATE"});
    assert_eq!(live(&offsets(long)).position, Some(90));
    let mysql = json!({"file": "binlog.1", "pos": 4, "ts_sec": 12});
    assert_eq!(live(&offsets(mysql)).time_ms, Some(12_000));
    let two = |first: Value, second: Value| {
        let live = live(&Offsets(vec![(json!(1), first), (json!(2), second)]));
        (live.position, live.time_ms)
    };
    let (early, late) = (
        json!({"ts_sec": 5, "pos": 1}),
        json!({"ts_sec": 9, "pos": 1}),
    );
    assert_eq!(two(late.clone(), early), (None, Some(5_000)));
    assert_eq!(two(late, json!({"pos": 1})), (None, None));
}

/// What the last of these offsets, seen one after the other, prove.
fn proof(mode: Mode, seen: &[&Offsets], scan: &Scan, since_ms: Option<i64>) -> Proof {
    let mut before = Before::default();
    seen.iter()
        .for_each(|offsets| remember(&mut before, offsets));
    let known = Known {
        mode,
        before: &before,
        scan,
        since_ms,
        clock_skew_max_ms: 5,
    };
    proves(seen.last().expect("some"), known)
}

#[test]
fn an_end_is_of_this_snapshot_or_proves_nothing() {
    let none = Offsets::default();
    let running = captured_offsets("initial_only: under way");
    let finished = captured_offsets("initial_only: finished");
    let other = captured_offsets("live: streams, no change yet");
    let told = |started_ms, completed_ms| Scan {
        started_ms,
        completed_ms,
        ..Scan::default()
    };
    let nothing = told(None, None);
    let begun = told(Some(100), None);
    let ended = told(Some(100), Some(200));
    use Mode::{Initial, InitialOnly, Other};
    use Proof::{EndNotTold, Finished, NotBegun, NotNewer, Running};
    let (n, r, f, o) = (&none, &running, &finished, &other);
    for (mode, seen, scan, since, expected) in [
        (InitialOnly, vec![n], &nothing, None, NotBegun),
        (InitialOnly, vec![n, r], &begun, Some(1), Running),
        (InitialOnly, vec![n, r, f], &nothing, None, Finished),
        (InitialOnly, vec![n, f], &nothing, None, Finished),
        // Those of an earlier run, until they change.
        (InitialOnly, vec![f], &nothing, Some(1), NotNewer),
        (InitialOnly, vec![f, f], &nothing, Some(1), NotNewer),
        (InitialOnly, vec![f, n], &nothing, Some(1), NotBegun),
        (InitialOnly, vec![f, o], &nothing, Some(1), Finished),
        // Opened late: STARTED of this generation, and not of one before.
        (InitialOnly, vec![f], &begun, Some(100), Finished),
        (InitialOnly, vec![f], &begun, Some(101), NotNewer),
        (InitialOnly, vec![f], &begun, None, NotNewer),
        // One that streams changes its offsets anyway.
        (Initial, vec![n, f], &nothing, None, Finished),
        (Initial, vec![o, f], &begun, Some(1), NotNewer),
        (Other, vec![n, f], &begun, Some(1), NotNewer),
        (Other, vec![o, f], &ended, Some(1), NotNewer),
        (Other, vec![o, r, f], &begun, Some(1), EndNotTold),
        (Other, vec![o, r, f], &ended, Some(1), Finished),
    ] {
        let found = proof(mode, &seen, scan, since);
        assert_eq!(
            found,
            expected,
            "{mode:?} {} {scan:?} {since:?}",
            seen.len()
        );
    }
    // A change that came behind COMPLETED, by more than clocks differ.
    let change =
        |ms: i64| offsets(json!({"lsn": 1, "messageType": "COMMIT", "ts_usec": ms * 1000}));
    let (at, behind) = (change(205), change(206));
    assert_eq!(proof(Other, &[&at], &ended, Some(1)), NotNewer);
    assert_eq!(proof(Other, &[&behind], &ended, Some(1)), Finished);
}

#[test]
fn digests_and_modes() {
    let one: Offsets = offsets(json!({"a": 1, "b": {"c": 2, "d": 3}}));
    let text = r#"{"b":{"d":3,"c":2},"a":1}"#;
    let same = offsets(serde_json::from_str(text).expect("JSON"));
    assert_eq!(digest(&one), digest(&same));
    assert_ne!(
        digest(&one),
        digest(&offsets(json!({"a": 2, "b": {"c": 2, "d": 3}})))
    );
    assert_ne!(digest(&Offsets::default()), digest(&one));
    for (value, mode) in [
        (None, Mode::Initial),
        (Some("initial"), Mode::Initial),
        (Some("INITIAL_ONLY"), Mode::InitialOnly),
        (Some("no_data"), Mode::Other),
        (Some("always"), Mode::Other),
    ] {
        assert_eq!(Mode::of(value), mode);
    }
}
