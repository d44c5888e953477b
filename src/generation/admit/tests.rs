//! What is refused, and why; what fits.

use super::{Now, admit, opened_at, tick_of, wall_of};
use crate::checkpoint::manifest::GenerationState;
use crate::generation::request::{Body, Open, Refusal};
use crate::generation::{Promotion, Reached, Stage};
use crate::table::Table;
use crate::topic::Assignment;
use headwater_operators::control::PartitionTarget;
use headwater_operators::retention::KeepMarkers;

const UNTIL_READY: KeepMarkers = KeepMarkers::UntilReady {
    open_late_max_ms: 3_600_000,
};
/// Job time stood still for 100 s of wall time after tick 2000.
const WALL: [(u64, u64); 4] = [
    (0, 10_000),
    (1000, 11_000),
    (2000, 112_000),
    (3000, 113_000),
];

fn tables() -> Vec<Table> {
    let table = |name: &str| Table {
        name: name.to_owned(),
        mutations: format!("app.{name}"),
        snapshot: format!("snap.{name}"),
        key: None,
    };
    vec![table("a"), table("b")]
}

fn generation(id: &str, stage: Stage) -> GenerationState {
    GenerationState {
        number: 1,
        id: id.to_owned(),
        tables: vec![0, 1],
        topics: [(0, "snap.a".to_owned()), (1, "snap.b".to_owned())].into(),
        stage,
        reached: vec![Reached {
            stage,
            ..Reached::default()
        }],
        ..GenerationState::default()
    }
}

fn refused(body: &Body, of: &GenerationState, change: impl FnOnce(&mut Now<'_>)) -> String {
    match judged(body, of, change) {
        Err(refusal) => refusal.to_string(),
        Ok(()) => panic!("{body:?} was admitted"),
    }
}

fn judged(
    body: &Body,
    of: &GenerationState,
    change: impl FnOnce(&mut Now<'_>),
) -> Result<(), Refusal> {
    let (tables, generations) = (tables(), [of]);
    let partitions = [
        (1, "snap.a".to_owned(), 0),
        (1, "snap.a".to_owned(), 1),
        (1, "snap.b".to_owned(), 0),
    ];
    let mut now = Now {
        tables: &tables,
        generations: &generations,
        partitions: &partitions,
        keep: UNTIL_READY,
        start_margin_ms: 500,
        forgotten_through: None,
        wall: &WALL,
        clock_skew_max_ms: 100,
        ttl_ms_min: None,
    };
    change(&mut now);
    admit(body, &now)
}

fn open(topic: &str) -> Open {
    Open {
        topics: [(0, topic.to_owned())].into(),
        partitions: vec![Assignment {
            topic: topic.to_owned(),
            partition: 0,
            next_offset: 0,
        }],
        ..Open::default()
    }
}

#[test]
fn a_generation_has_its_own_topics_and_id() {
    let g1 = generation("g1", Stage::Open);
    let with = |change: fn(&mut Open)| {
        let mut open = open("snap_g2.a");
        change(&mut open);
        Body::Open(open)
    };
    assert_eq!(judged(&with(|_| ()), &g1, |_| ()), Ok(()));
    for (change, word) in [
        (
            (|o| o.generation = Some("g1".to_owned())) as fn(&mut Open),
            "already",
        ),
        (|o| *o = open("snap.a"), "generation g1"),
        (|o| *o = open("app.b"), "mutation topic"),
        (|o| o.partitions.clear(), "needs a table"),
        (|o| drop(o.topics.insert(7, "x".to_owned())), "no table 7"),
    ] {
        let text = refused(&with(change), &g1, |_| ());
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn an_open_whose_window_was_forgotten_is_refused_with_both_times() {
    let g1 = generation("g1", Stage::Ready);
    let body = Body::Open(open("snap_g2.a"));
    // Now is tick 3000, less 100 ms of skew: the window begins at 2400.
    assert_eq!(
        judged(&body, &g1, |now| now.forgotten_through = Some(2399)),
        Ok(())
    );
    let text = refused(&body, &g1, |now| now.forgotten_through = Some(2400));
    assert!(text.contains("1970-01-01T00:01:52.900Z"), "{text}");
    assert!(text.contains("1970-01-01T00:01:52.400Z"), "{text}");
    // With a ttl it is told, and opened.
    let ttl = |now: &mut Now<'_>| {
        now.keep = KeepMarkers::Ttl { ttl_ms: 1 };
        now.forgotten_through = Some(2999);
    };
    assert_eq!(judged(&body, &g1, ttl), Ok(()));
    let early = Body::Open(Open {
        started_at_ms: Some(11_500),
        ..open("snap_g2.a")
    });
    let text = refused(&early, &g1, |now| now.forgotten_through = Some(600));
    assert!(text.contains("1970-01-01T00:00:11Z"), "{text}");
}

#[test]
fn a_wall_time_becomes_a_tick_that_is_not_later() {
    assert_eq!(tick_of(9_000, &WALL), 0);
    assert_eq!(tick_of(11_999, &WALL), 1000);
    assert_eq!(tick_of(50_000, &WALL), 1000);
    assert_eq!(tick_of(i64::MAX, &WALL), 3000);
    assert_eq!(wall_of(2500, &WALL), 112_500);
    assert_eq!(wall_of(0, &WALL[1..]), 10_000);
    let tables = tables();
    let now = Now {
        tables: &tables,
        generations: &[],
        partitions: &[],
        keep: UNTIL_READY,
        start_margin_ms: 0,
        forgotten_through: None,
        wall: &WALL,
        clock_skew_max_ms: 100,
        ttl_ms_min: None,
    };
    assert_eq!(opened_at(&open("t"), &now), (2900, 113_000));
    let backdated = Open {
        started_at_ms: Some(112_050),
        ..open("t")
    };
    // 100 ms of skew before it: the tick before.
    assert_eq!(opened_at(&backdated, &now), (1000, 112_050));
    let future = Open {
        started_at_ms: Some(i64::MAX),
        ..open("t")
    };
    assert_eq!(opened_at(&future, &now), (2900, 113_000));
}

#[test]
fn requests_about_a_generation_fit_its_stage() {
    let id = || "g1".to_owned();
    let end = |topic: &str, partition| PartitionTarget {
        topic: topic.to_owned(),
        partition,
        end: 5,
    };
    let finish = |ends: Vec<PartitionTarget>| Body::Finish {
        generation: id(),
        ends,
    };
    let all = vec![end("snap.a", 0), end("snap.a", 1), end("snap.b", 0)];
    let drop_table = |table| Body::DropTable {
        generation: id(),
        table,
    };
    let abort = Body::Abort {
        generation: id(),
        reason: "why".to_owned(),
    };
    let promote = Body::PromoteBegin {
        generation: id(),
        by: "me".to_owned(),
        accepted: Vec::new(),
    };
    let open = generation("g1", Stage::Open);
    let finished = generation("g1", Stage::SourceFinished);
    let ready = generation("g1", Stage::Ready);
    let aborted = generation("g1", Stage::Aborted);
    let mut one_left = open.clone();
    one_left.dropped_tables.push(1);
    let mut promoted = generation("g1", Stage::Promoted);
    promoted.promotion = Some(Promotion {
        done_ms: Some(1),
        ..Promotion::default()
    });
    let promoting = |hook: Option<&str>| {
        let mut promoting = generation("g1", Stage::Ready);
        promoting.promotion = Some(Promotion {
            hook: hook.map(str::to_owned),
            ..Promotion::default()
        });
        promoting
    };
    let (interrupted, failed) = (promoting(None), promoting(Some("exit 1")));
    for (body, state, word) in [
        (abort.clone(), &interrupted, "--abort-generation"),
        (abort.clone(), &failed, ""),
        (finish(Vec::new()), &open, ""),
        (finish(all.clone()), &open, ""),
        (finish(all[..2].to_vec()), &open, "snap.b[0]"),
        (finish(all), &finished, "frozen already"),
        (drop_table(1), &open, ""),
        (drop_table(1), &one_left, "no table b"),
        (drop_table(0), &one_left, "last table"),
        (drop_table(0), &ready, "read all"),
        (abort.clone(), &ready, ""),
        (abort.clone(), &promoted, "demote"),
        (abort, &aborted, "is aborted"),
        (promote.clone(), &finished, "not ready"),
        (promote.clone(), &ready, ""),
        (promote, &promoted, ""),
    ] {
        let judged = judged(&body, state, |_| ());
        let text = judged.err().map_or_else(String::new, |e| e.to_string());
        assert_eq!(text.is_empty(), word.is_empty(), "{body:?}: {text}");
        assert!(text.contains(word), "{body:?}: {text}");
    }
}

#[test]
fn a_ttl_needs_the_ttl_policy_and_the_budget() {
    let g1 = generation("g1", Stage::Open);
    let ttl = Body::Ttl { ttl_ms: 5_000 };
    let with = |min| {
        move |now: &mut Now<'_>| {
            now.keep = KeepMarkers::Ttl { ttl_ms: 1 };
            now.ttl_ms_min = min;
        }
    };
    assert!(refused(&ttl, &g1, |_| ()).contains("until ready"));
    assert!(refused(&ttl, &g1, with(Some(6_000))).contains("budget"));
    assert_eq!(judged(&ttl, &g1, with(Some(5_000))), Ok(()));
    assert_eq!(judged(&ttl, &g1, with(None)), Ok(()));
}

#[test]
fn a_time_that_a_clock_showed_twice_is_the_first() {
    let minute = 60_000;
    // Set back by an hour at tick 60 min.
    let wall =
        [(0, 600), (60, 660), (61, 601), (120, 660)].map(|(tick, at)| (tick * minute, at * minute));
    for (at, tick) in [(599, 0), (600, 0), (630, 0), (660, 60), (700, 120)] {
        let minutes = i64::try_from(at * minute).expect("small");
        assert_eq!(tick_of(minutes, &wall), tick * minute, "{at}");
    }
}
