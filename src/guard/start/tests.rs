//! The proof over its whole table, and that it is never given away.

use super::{
    Asked, PartitionStart, Verdict, compaction, earliest_read_ms, judge_start, short_retention,
    still_there,
};
use crate::error::ErrorKind;
use crate::generation::ReadsSeen;
use crate::table::Role;
use crate::topic::{OffsetRange, TopicSettings};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

const MARGIN: u64 = 1000;
const READ: i64 = 100_000;
/// The latest time that proves it, for a partition that is not read whole.
const NEEDED: i64 = 99_000;
const LATER: i64 = 500_000;

/// A partition of topic `m` that is read from `next_offset` of a log from `low`.
fn from(next_offset: u64, low: u64) -> PartitionStart {
    PartitionStart {
        topic: "m".to_owned(),
        partition: 3,
        next_offset,
        low,
        read_since_ms: LATER,
        ..PartitionStart::default()
    }
}

fn asked(finished: bool) -> Asked {
    Asked {
        earliest_read_ms: Some(READ),
        margin_ms: MARGIN,
        finished,
        ..Asked::default()
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Proven => "proven",
        Verdict::NotYet => "not yet",
        Verdict::NotProven(_) => "not proven",
        Verdict::Refuse(_) => "refuse",
    }
}

#[test]
fn a_partition_that_is_not_read_whole() {
    // Where it starts; asked time; first mutation; since; verdict while reading; when finished.
    let rows = [
        ((7, 0), None, None, LATER, "not yet", "not proven"),
        ((7, 7), None, None, LATER, "not yet", "not proven"),
        ((0, 7), None, None, LATER, "not yet", "not proven"),
        ((7, 0), None, Some(NEEDED), LATER, "proven", "proven"),
        ((7, 0), None, Some(NEEDED + 1), LATER, "refuse", "refuse"),
        ((7, 7), None, Some(NEEDED), LATER, "proven", "proven"),
        ((7, 7), None, Some(NEEDED + 1), LATER, "refuse", "refuse"),
        // A start by time that the log holds is a proof by itself, however quiet the table is.
        ((7, 0), Some(NEEDED), None, LATER, "proven", "proven"),
        ((7, 0), Some(NEEDED), Some(LATER), LATER, "proven", "proven"),
        (
            (7, 0),
            Some(NEEDED + 1),
            Some(LATER),
            LATER,
            "refuse",
            "refuse",
        ),
        (
            (7, 0),
            Some(NEEDED + 1),
            Some(NEEDED),
            LATER,
            "proven",
            "proven",
        ),
        (
            (7, 0),
            Some(NEEDED + 1),
            None,
            LATER,
            "not yet",
            "not proven",
        ),
        // So is a job that reads since before.
        ((7, 0), None, None, NEEDED, "proven", "proven"),
        ((7, 0), None, Some(LATER), NEEDED, "proven", "proven"),
        ((7, 0), None, Some(LATER), NEEDED + 1, "refuse", "refuse"),
    ];
    for ((next_offset, low), asked_ms, first_ms, read_since_ms, reading, finished) in rows {
        let start = PartitionStart {
            asked_ms,
            first_ms,
            read_since_ms,
            ..from(next_offset, low)
        };
        let judged = |finished| judge_start(std::slice::from_ref(&start), &asked(finished));
        assert_eq!(word(&judged(false)), reading, "{start:?}");
        assert_eq!(word(&judged(true)), finished, "{start:?}");
    }
}

#[test]
fn a_partition_that_is_read_whole_needs_a_sign_of_its_connector() {
    let mut start = from(0, 0);
    let judged = |start: &PartitionStart, connector_seen_ms, replica_lag_ms| {
        let asked = Asked {
            connector_seen_ms,
            replica_lag_ms,
            ..asked(false)
        };
        judge_start(std::slice::from_ref(start), &asked)
    };
    match judged(&start, None, 0) {
        Verdict::NotProven(text) => assert!(text.contains("existed before"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(word(&judged(&start, Some(READ), 0)), "not proven");
    assert_eq!(word(&judged(&start, Some(READ - 1), 0)), "proven");
    assert_eq!(word(&judged(&start, Some(READ - 1), 5),), "not proven");
    // Younger mutations than the READs are no reason to refuse it.
    start.mutation(LATER);
    assert_eq!(word(&judged(&start, None, 0)), "not proven");
    let quiet = from(0, 0);
    start.first_ms = Some(READ - 1);
    let both = [quiet.clone(), start.clone()];
    assert_eq!(
        judge_start(&both, &asked(true)),
        Verdict::Proven,
        "of one connector"
    );
    start.topic = "other".to_owned();
    assert_eq!(
        word(&judge_start(&[quiet, start], &asked(true))),
        "not proven"
    );
}

#[test]
fn the_worst_partition_counts() {
    let mut late = from(7, 0);
    late.mutation(LATER);
    let waiting = from(9, 0);
    let whole = from(0, 0);
    let mut good = from(8, 0);
    good.mutation(1);
    good.mutation(LATER);
    assert_eq!(good.first_ms, Some(1), "only the first counts");
    let judged = |starts: &[&PartitionStart]| {
        let starts: Vec<PartitionStart> = starts.iter().copied().cloned().collect();
        judge_start(&starts, &asked(false))
    };
    assert_eq!(word(&judged(&[&good])), "proven");
    assert_eq!(word(&judged(&[&good, &waiting])), "not yet");
    let mut other = whole.clone();
    other.topic = "other".to_owned();
    assert_eq!(word(&judged(&[&good, &whole])), "proven");
    assert_eq!(word(&judged(&[&good, &other])), "not proven");
    assert_eq!(word(&judged(&[&other, &waiting])), "not yet");
    match judged(&[&waiting, &whole, &late, &good]) {
        Verdict::Refuse(error) => {
            assert_eq!(error.kind, ErrorKind::Refused);
            for part in [
                "m[3]",
                "offset 7",
                "snapshot's start",
                "1970-01-01T00:01:39",
            ] {
                assert!(error.text.contains(part), "{error}");
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_known_is_never_taken_as_proven() {
    let none = Asked::default();
    assert_eq!(judge_start(&[from(0, 0)], &none), Verdict::NotYet);
    let finished = Asked {
        finished: true,
        ..none
    };
    assert_eq!(word(&judge_start(&[from(0, 0)], &finished)), "not proven");
    assert_eq!(word(&judge_start(&[], &asked(false))), "not proven");
    let seen = |first_ms| ReadsSeen {
        first_ms,
        ..ReadsSeen::default()
    };
    assert_eq!(earliest_read_ms(&[]), None);
    assert_eq!(earliest_read_ms(&[seen(0)]), None);
    assert_eq!(earliest_read_ms(&[seen(0), seen(9), seen(7)]), Some(7));
}

#[test]
fn a_start_by_time_needs_an_older_record_or_an_untrimmed_log() {
    let of = |low, high| [OffsetRange { low, high }];
    still_there("m", &[0], &of(0, 9)).expect("nothing was ever deleted");
    still_there("m", &[5], &of(4, 9)).expect("offset 4 is older");
    for (start, low, high) in [(4, 4, 9), (9, 9, 9)] {
        let error = still_there("m", &[start], &of(low, high)).expect_err("trimmed");
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.text.contains("m[0]"), "{error}");
    }
}

#[test]
fn topics_must_keep_what_a_rebuild_needs() {
    let of = |compacted, deleted, retention_ms, delete_retention_ms| TopicSettings {
        compacted,
        deleted,
        retention_ms,
        retention_bytes: None,
        delete_retention_ms,
    };
    compaction("m", &of(false, true, Some(1), Some(1)), 9).expect("not compacted");
    compaction("m", &of(true, false, None, Some(9)), 9).expect("long enough");
    for kept in [Some(8), None] {
        let error = compaction("m", &of(true, true, None, kept), 9).expect_err("too short");
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.text.contains("delete.retention.ms"), "{error}");
    }
    let short = |settings| short_retention("m", Role::Snapshot, &settings, 9);
    assert_eq!(short(of(false, true, Some(9), None)), None);
    assert_eq!(short(of(false, true, None, None)), None);
    assert_eq!(
        short(of(true, false, Some(1), None)),
        None,
        "it deletes nothing by time"
    );
    let said = short(of(true, true, Some(8), None)).expect("short");
    assert!(said.contains("snapshot topic m"), "{said}");
}

proptest! {
    /// No verdict gets better when anything lies later or is less well known.
    #[test]
    fn later_is_never_better(
        next_offset in 0u64..3, low in 0u64..3, first in proptest::option::of(1i64..200_000),
        asked_ms in proptest::option::of(1i64..200_000), since in 1i64..200_000,
        more in 0i64..100_000, margin in 0u64..100_000, skew in 0u64..10_000, finished: bool,
    ) {
        let start = PartitionStart {
            first_ms: first,
            asked_ms,
            read_since_ms: since,
            ..from(next_offset, low)
        };
        let asked = Asked { margin_ms: margin, clock_skew_ms: skew, ..asked(finished) };
        let proven = |start: &PartitionStart, asked: &Asked| {
            judge_start(std::slice::from_ref(start), asked) == Verdict::Proven
        };
        let later = PartitionStart {
            first_ms: first.map(|ms| ms + more),
            asked_ms: asked_ms.map(|ms| ms + more),
            read_since_ms: since + more,
            ..start.clone()
        };
        prop_assert!(!proven(&later, &asked) || proven(&start, &asked));
        let unknown = PartitionStart { first_ms: None, asked_ms: None, ..start.clone() };
        prop_assert!(!proven(&unknown, &asked) || proven(&start, &asked));
        let wider = Asked { margin_ms: margin + more.unsigned_abs(), ..asked };
        prop_assert!(!proven(&start, &wider) || proven(&start, &asked));
        // Refused only for a mutation that was read of a partition that is not read whole.
        if matches!(judge_start(std::slice::from_ref(&start), &asked), Verdict::Refuse(_)) {
            let first = first.expect("only for one that was read");
            prop_assert!(first > READ - i64::try_from(margin).expect("small"));
            prop_assert!(!start.is_whole());
        }
    }

    #[test]
    fn no_number_makes_it_panic(
        a in any::<i64>(), b in any::<i64>(), c in any::<i64>(), d in any::<u64>(),
        e in any::<u64>(),
    ) {
        let start = PartitionStart {
            first_ms: Some(a),
            asked_ms: Some(b),
            read_since_ms: c,
            ..from(d, e)
        };
        let asked = Asked {
            earliest_read_ms: Some(b),
            margin_ms: d,
            replica_lag_ms: e,
            clock_skew_ms: d,
            connector_seen_ms: Some(c),
            finished: true,
        };
        let judged = judge_start(std::slice::from_ref(&start), &asked);
        prop_assert_eq!(&judged, &judge_start(&[start.clone(), start], &asked));
    }
}
