//! Every situation has words; commands are such that help.

use super::{Scene, wait};
use crate::config::choices::{CaughtUp, SourceFinished};
use crate::generation::finished::Snapshot;
use crate::generation::step::Facts;
use crate::generation::{ReadsSeen, Scan, Scanned, Stage};
use crate::job::Wait;

fn scene<'a>(stage: Stage, snapshot: &'a Snapshot<'a>) -> Scene<'a> {
    Scene {
        id: "g1",
        stage,
        progress: stage,
        facts: Facts::default(),
        snapshot,
        required: (SourceFinished::Counted, CaughtUp::Seen),
        at_end: (1, 4),
        at_target: (0, 3),
        troubles: (None, None),
        live_seen: false,
        read: 0,
        first: false,
        paused: false,
        stuck: None,
        ends_beyond: false,
        unsafe_reason: None,
        ends_when_idle: false,
    }
}

fn words(scene: &Scene<'_>) -> Wait {
    let wait = wait(scene).expect("it waits for something");
    if let Some(command) = &wait.command {
        let parsed = crate::cli::parse(command.split_whitespace());
        assert!(parsed.is_ok(), "`{command}`: {parsed:?}");
    }
    wait
}

#[test]
fn whatever_is_not_over_waits_for_something_named() {
    let none = Snapshot::default();
    for stage in Stage::ALL {
        for bits in 0..8_u32 {
            let mut scene = scene(stage, &none);
            if stage > Stage::Promoted {
                scene.progress = Stage::Open;
            }
            scene.facts.cutoff = bits & 1 == 1;
            scene.facts.targets = bits & 2 == 2;
            scene.facts.consumed = bits & 4 == 4;
            let quiet = stage.is_over() || matches!(stage, Stage::Ready | Stage::Promoted);
            let wait = wait(&scene);
            assert_eq!(wait.is_none(), quiet, "{stage:?}");
            assert!(wait.is_none_or(|wait| wait.text.len() > 20));
        }
    }
}

#[test]
fn what_notifications_tell_is_said_with_what_to_do() {
    let tables = vec![(0, "public.a")];
    let reads = [ReadsSeen {
        rows: 5,
        ..ReadsSeen::default()
    }];
    let scanned = |rows: u64, status: &str| {
        let scanned = Scanned {
            rows,
            status: status.to_owned(),
        };
        Scan {
            starts: 1,
            started_ms: Some(1),
            completed_ms: Some(2),
            scanned: [("public.a".to_owned(), scanned)].into(),
            ..Scan::default()
        }
    };
    let scanning = Scan {
        completed_ms: None,
        ..scanned(0, "")
    };
    let early = Scan {
        completed_early: true,
        ..Scan::default()
    };
    let skipped = Scan {
        skipped_ms: Some(1),
        ..Scan::default()
    };
    for (scan, word, command) in [
        (Scan::default(), "has not told that it has started", None),
        (early, "without a STARTED", Some("finish g1")),
        (skipped, "SKIPPED", Some("finish g1")),
        (scanning, "5 READs have come", None),
        (scanned(9, "SUCCEEDED"), "scanned 9 rows and 5 READs", None),
        (scanned(2, "SUCCEEDED"), "5 READs for 2", Some("finish g1")),
        (
            scanned(5, "SQL_EXCEPTION"),
            "SQL_EXCEPTION",
            Some("drop-table g1 --table public.a"),
        ),
    ] {
        let snapshot = Snapshot {
            tables: tables.clone(),
            reads: &reads,
            scan: Some(&scan),
            ..Snapshot::default()
        };
        let wait = words(&scene(Stage::Open, &snapshot));
        assert!(wait.text.contains(word), "{wait:?}");
        let given = wait.command.unwrap_or_default();
        assert!(given.ends_with(command.unwrap_or_default()), "{given}");
    }
}

#[test]
fn trouble_of_a_connector_comes_first_and_an_idle_source_has_remedies() {
    let none = Snapshot::default();
    let mut failed = scene(Stage::Open, &none);
    failed.troubles.0 = Some("task 0 FAILED");
    assert!(words(&failed).text.contains("task 0 FAILED"));
    let mut live = scene(Stage::TopicConsumed, &none);
    (live.facts.cutoff, live.facts.consumed) = (true, true);
    let idle = words(&live);
    assert!(idle.text.contains("heartbeat.interval.ms"), "{idle:?}");
    assert_eq!(
        idle.command.as_deref(),
        Some("headwater generation accept-lag g1")
    );
    let mut offsets = live.clone();
    offsets.required.1 = CaughtUp::LiveOffsets;
    let idle = words(&offsets);
    assert!(idle.text.contains("heartbeat.action.query"), "{idle:?}");
    assert!(idle.text.contains("a captured table"), "{idle:?}");
    live.live_seen = true;
    assert!(words(&live).text.contains("settle"));
    live.troubles.1 = Some("connector app is PAUSED");
    assert!(words(&live).text.contains("PAUSED"));
    live.facts.targets = true;
    assert!(words(&live).text.contains("0 of 3"));
}

#[test]
fn what_is_lost_is_said_before_anything_else() {
    let none = Snapshot::default();
    let mut lost = scene(Stage::CaughtUp, &none);
    lost.facts.dead_letters = 2;
    let said = words(&lost);
    assert!(said.text.contains("2 mutations could not be decoded"));
    assert!(said.person && !said.leave_alone);
    assert_eq!(
        said.command.as_deref(),
        Some("headwater generation accept-dead-letters g1")
    );
    let mut late = scene(Stage::CaughtUp, &none);
    late.facts.late_reads = 3;
    assert!(words(&late).text.contains("3 READs came behind"));
    let mut spoiled = scene(Stage::Unsafe, &none);
    spoiled.facts.unsafe_reads = 4;
    assert!(words(&spoiled).text.contains("4 READs may be stale"));
    spoiled.facts.rule_off = true;
    let off = words(&spoiled);
    assert!(off.text.contains("--without-markers") && off.command.is_none());
}
