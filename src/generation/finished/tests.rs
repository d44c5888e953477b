//! Each kind of evidence, what it needs, and what does not count.

use super::{Count, Snapshot, at_least, count, finished};
use crate::config::choices::SourceFinished::{
    self, ConnectOffsets, Counted, OperatorSaid, Ordered, Quiet,
};
use crate::generation::{ReadsSeen, Scan, Scanned};

fn seen(table: u16, run: &str, rows: u64, last_ms: i64) -> ReadsSeen {
    ReadsSeen {
        table,
        run: run.to_owned(),
        rows,
        last_ms,
        ..ReadsSeen::default()
    }
}

fn scan(tables: &[(&str, u64, &str)]) -> Scan {
    let scanned = tables.iter().map(|(name, rows, status)| {
        let status = (*status).to_owned();
        (
            (*name).to_owned(),
            Scanned {
                rows: *rows,
                status,
            },
        )
    });
    Scan {
        starts: 1,
        started_ms: Some(10),
        completed_ms: Some(20),
        scanned: scanned.collect(),
        ..Scan::default()
    }
}

fn two<'a>(reads: &'a [ReadsSeen], scan: &'a Scan) -> Snapshot<'a> {
    Snapshot {
        tables: vec![(0, "public.a"), (1, "public.b")],
        partitions: 4,
        reads,
        scan: Some(scan),
        ..Snapshot::default()
    }
}

#[test]
fn counts_are_compared_table_by_table() {
    let told = scan(&[("public.a", 3, "SUCCEEDED"), ("db.public.b", 0, "EMPTY")]);
    for (reads, expected) in [
        (vec![seen(0, "r", 3, 1)], Count::Equal),
        (
            vec![seen(0, "r", 2, 1)],
            Count::Missing {
                scanned: 3,
                seen: 2,
            },
        ),
        (
            vec![seen(0, "r", 4, 1)],
            Count::More {
                scanned: 3,
                seen: 4,
            },
        ),
        // The sum is right, the tables are not.
        (
            vec![seen(0, "r", 2, 1), seen(1, "r", 1, 1)],
            Count::More {
                scanned: 3,
                seen: 3,
            },
        ),
        // Killed and begun anew: the younger run counts.
        (vec![seen(0, "z", 2, 1), seen(0, "a", 3, 2)], Count::Equal),
        (
            vec![seen(0, "z", 3, 1), seen(0, "a", 2, 2)],
            Count::Missing {
                scanned: 3,
                seen: 2,
            },
        ),
    ] {
        assert_eq!(count(&two(&reads, &told)), expected, "{reads:?}");
    }
}

/// Whatever offsets look like, whoever waits: only a person goes on without that table's READs.
#[test]
fn a_table_whose_scan_failed_leaves_a_persons_word_alone() {
    let reads = [seen(0, "r", 3, 1)];
    let told = scan(&[
        ("public.a", 3, "SUCCEEDED"),
        ("public.b", 0, "SQL_EXCEPTION"),
    ]);
    let mut snapshot = two(&reads, &told);
    (snapshot.offsets_finished, snapshot.quiet) = (true, true);
    assert_eq!(finished(&snapshot, Quiet), None);
    snapshot.said = true;
    assert_eq!(finished(&snapshot, Quiet), Some(OperatorSaid));
    let missing = scan(&[("public.a", 3, "SUCCEEDED")]);
    let mut snapshot = two(&reads, &missing);
    snapshot.offsets_finished = true;
    assert_eq!(finished(&snapshot, Quiet), Some(ConnectOffsets));
}

#[test]
fn a_bad_or_missing_table_is_named() {
    let reads = [seen(0, "r", 3, 1)];
    let told = scan(&[("public.a", 3, "SUCCEEDED")]);
    let bad = |status: &str| Count::Bad {
        table: "public.b".to_owned(),
        status: status.to_owned(),
    };
    assert_eq!(count(&two(&reads, &told)), bad("not scanned"));
    let told = scan(&[
        ("public.a", 3, "SUCCEEDED"),
        ("public.b", 0, "SQL_EXCEPTION"),
    ]);
    assert_eq!(count(&two(&reads, &told)), bad("SQL_EXCEPTION"));
    // A name that only ends alike is another table.
    let told = scan(&[
        ("public.a", 3, "SUCCEEDED"),
        ("notpublic.b", 0, "SUCCEEDED"),
    ]);
    assert_eq!(count(&two(&reads, &told)), bad("not scanned"));
}

#[test]
fn a_scan_that_has_not_ended_is_told_apart() {
    let early = Scan {
        completed_early: true,
        ..Scan::default()
    };
    let skipped = Scan {
        skipped_ms: Some(1),
        ..Scan::default()
    };
    let mut scanning = scan(&[]);
    scanning.completed_ms = None;
    let mut aborted = scan(&[]);
    aborted.aborted_ms = Some(15);
    let mut mixed = scan(&[("public.a", 0, "EMPTY"), ("public.b", 0, "EMPTY")]);
    mixed.connector = Some("one".to_owned());
    mixed.other_connector = Some("other".to_owned());
    let names = ["one", "other"].map(str::to_owned);
    for (scan, expected) in [
        (Scan::default(), Count::NotStarted),
        (early, Count::Early),
        (skipped, Count::Skipped),
        (scanning, Count::Scanning),
        (aborted, Count::Aborted),
        (mixed, Count::Mixed { names }),
    ] {
        assert_eq!(count(&two(&[], &scan)), expected);
        assert_eq!(finished(&two(&[], &scan), Quiet), None);
    }
    assert_eq!(count(&Snapshot::default()), Count::Unknown);
}

#[test]
fn a_lost_started_does_not_hide_that_all_reads_have_come() {
    let mut told = scan(&[("public.a", 3, "SUCCEEDED"), ("public.b", 0, "EMPTY")]);
    (told.starts, told.started_ms, told.completed_ms) = (0, None, None);
    told.completed_early = true;
    let all = [seen(0, "r", 3, 1)];
    assert_eq!(count(&two(&all, &told)), Count::Equal);
    assert_eq!(finished(&two(&all, &told), Counted), Some(Counted));
    let too_few = [seen(0, "r", 2, 1)];
    assert_eq!(count(&two(&too_few, &told)), Count::Early);
    assert_eq!(count(&two(&[], &told)), Count::Early);
    let mut none = told.clone();
    none.scanned.values_mut().for_each(|of| {
        (of.rows, of.status) = (0, "EMPTY".to_owned());
    });
    // This snapshot may be about to begin.
    let mut empty = two(&[], &none);
    assert_eq!(count(&empty), Count::Early);
    empty.settled = true;
    assert_eq!(count(&empty), Count::Equal);
    // Nothing tells of table b, or that anything is complete.
    let unknown = Scan {
        scanned: told.scanned.clone().into_iter().take(1).collect(),
        ..told.clone()
    };
    assert_eq!(unknown.scanned.len(), 1);
    assert_eq!(count(&two(&all, &unknown)), Count::Early);
    told.completed_early = false;
    assert_eq!(count(&two(&all, &told)), Count::NotStarted);
}

#[test]
fn the_strongest_that_holds_is_taken_and_weaker_ones_are_opted_into() {
    let reads = [ReadsSeen {
        last_marker: true,
        ..seen(0, "r", 3, 1)
    }];
    let told = scan(&[("public.a", 3, "SUCCEEDED"), ("public.b", 0, "EMPTY")]);
    let all = Snapshot {
        partitions: 1,
        offsets_finished: true,
        end_records: true,
        quiet: true,
        ..two(&reads, &told)
    };
    assert_eq!(finished(&all, Quiet), Some(ConnectOffsets));
    let all = Snapshot {
        offsets_finished: false,
        ..all
    };
    assert_eq!(finished(&all, Counted), Some(Ordered));
    // `last` stands before READs of other partitions.
    let all = Snapshot {
        partitions: 2,
        ..all
    };
    assert_eq!(finished(&all, Counted), Some(Counted));
    assert_eq!(finished(&all, Ordered), Some(OperatorSaid));
    let nothing_told = Snapshot {
        scan: None,
        end_records: false,
        ..all
    };
    assert_eq!(finished(&nothing_told, Counted), None);
    assert_eq!(finished(&nothing_told, Quiet), Some(Quiet));
}

#[test]
fn offsets_that_look_finished_before_any_read_do_not_count() {
    let early = Snapshot {
        offsets_finished: true,
        ..Snapshot::default()
    };
    assert_eq!(finished(&early, Quiet), None);
    let reads = [seen(0, "r", 1, 1)];
    let later = Snapshot {
        reads: &reads,
        ..early
    };
    assert_eq!(finished(&later, ConnectOffsets), Some(ConnectOffsets));
}

#[test]
fn the_order_of_strength_is_that_of_the_design() {
    let order: [SourceFinished; 5] = [ConnectOffsets, Ordered, Counted, OperatorSaid, Quiet];
    for (strong, found) in order.into_iter().enumerate() {
        for (weak, required) in order.into_iter().enumerate() {
            assert_eq!(at_least(found, required), strong <= weak);
        }
    }
}
