//! Every alarm at its threshold and below it, and nothing else beside it.

use super::{Inputs, MANY, NAMES, Policy, Rebuild, TopicUse, alarms};
use crate::checkpoint::manifest::GenerationState;
use crate::error::Error;
use crate::generation::Stage;
use crate::guard::budget::{Budget, Rate, RateFrom};
use crate::guard::limit::Limit;
use crate::guard::start::Verdict;
use crate::table::Role;
use crate::topic::TopicSettings;
use proptest::prelude::{any, prop_assert, proptest};
use std::collections::BTreeSet;

const HOUR: u64 = 3_600_000;
const WALL: i64 = 1_000_000_000;

fn rebuild(stage: Stage) -> Rebuild {
    let state = GenerationState {
        id: "g1".to_owned(),
        stage,
        ..GenerationState::default()
    };
    Rebuild::of(&state, 0, 0)
}

/// A job that nothing is wrong with.
fn quiet() -> Inputs {
    Inputs {
        policy: Policy::UntilReady {
            rebuild_alarm_after_ms: 100 * HOUR,
        },
        markers: 0,
        markers_max: 1_000_000,
        limit: Limit::Free,
        markers_per_hour: None,
        rebuilds: vec![rebuild(Stage::Open)],
        topics: Vec::new(),
        wall_ms: WALL,
        reads_decided: 0,
        reads_matched: 0,
        checkpoint: Some((0, 10_000)),
        replica_lag_ms: None,
        reads_paused: false,
        rule_off: false,
    }
}

fn with(change: impl FnOnce(&mut Inputs)) -> Inputs {
    let mut inputs = quiet();
    change(&mut inputs);
    inputs
}

fn of_rebuild(change: impl FnOnce(&mut Rebuild)) -> Inputs {
    with(|inputs| change(&mut inputs.rebuilds[0]))
}

fn of_ttl(window_ms: u64, stage: Stage) -> Inputs {
    with(|inputs| {
        inputs.policy = Policy::Ttl { ttl_ms: 1000 };
        inputs.rebuilds[0].window_ms = window_ms;
        inputs.rebuilds[0].stage = stage;
    })
}

fn topic(role: Role, age_ms: i64) -> Inputs {
    with(|inputs| {
        inputs.topics.push(TopicUse {
            topic: "t".to_owned(),
            role,
            settings: Some(TopicSettings {
                deleted: true,
                retention_ms: Some(1000),
                ..TopicSettings::default()
            }),
            next_record_ms: Some(WALL - age_ms),
        });
    })
}

/// A topic whose settings fall short of a budget of two hours, or not.
fn below_budget(compacted: bool, kept_ms: u64, role: Role) -> Inputs {
    let mut inputs = topic(role, 0);
    inputs.topics[0].settings = Some(TopicSettings {
        compacted,
        deleted: !compacted,
        retention_ms: Some(kept_ms),
        retention_bytes: None,
        delete_retention_ms: Some(kept_ms),
    });
    inputs.topics[0].next_record_ms = None;
    inputs.rebuilds[0].budget = Some(budget(2 * HOUR));
    inputs
}

fn budget(budget_ms: u64) -> Budget {
    let rate = Rate {
        rows_per_hour: 1,
        from: RateFrom::Configured,
    };
    let budget = Budget::of(0, Some(0), rate, budget_ms);
    assert_eq!(budget.budget_ms, Some(budget_ms));
    budget
}

/// Inputs, and the one alarm that they give; true: it is critical.
type Row = (Inputs, Option<(&'static str, bool)>);

fn rows_of_rebuilds() -> Vec<Row> {
    let proof = |start: Verdict| of_rebuild(|rebuild| rebuild.start = start);
    let late = |stage| of_rebuild(|rebuild| (rebuild.stage, rebuild.late_reads) = (stage, 1));
    let lost = of_rebuild(|rebuild| rebuild.dead_letters = 1);
    let open_for = |elapsed_ms| of_rebuild(|rebuild| rebuild.elapsed_ms = elapsed_ms);
    let ttl_of = |ttl_ms| {
        with(|inputs| {
            inputs.policy = Policy::Ttl { ttl_ms };
            inputs.rebuilds[0].budget = Some(budget(HOUR));
        })
    };
    vec![
        (quiet(), None),
        (
            of_rebuild(|r| r.unsafe_reads = 1),
            Some(("generation_unsafe", true)),
        ),
        (
            of_rebuild(|r| r.stage = Stage::Unsafe),
            Some(("generation_unsafe", true)),
        ),
        (
            of_rebuild(|r| (r.stage, r.unsafe_from_start) = (Stage::Unsafe, true)),
            Some(("generation_unsafe_from_start", true)),
        ),
        (late(Stage::CaughtUp), Some(("late_reads", true))),
        (lost, Some(("dead_letters", true))),
        (
            late(Stage::Promoted),
            Some(("late_reads_after_promotion", true)),
        ),
        (
            proof(Verdict::NotProven("so".to_owned())),
            Some(("start_not_proven", false)),
        ),
        (proof(Verdict::NotYet), None),
        (proof(Verdict::Refuse(Error::refused("no"))), None),
        (open_for(50 * HOUR - 1), None),
        (open_for(50 * HOUR), Some(("retention_used_50", false))),
        (open_for(80 * HOUR), Some(("retention_used_80", false))),
        (open_for(95 * HOUR), Some(("retention_used_95", true))),
        (open_for(100 * HOUR), Some(("retention_used_100", true))),
        (
            with(|inputs| inputs.markers = 500_000),
            Some(("retention_used_50", false)),
        ),
        (
            with(|i| (i.markers, i.rebuilds[0].stage) = (500_000, Stage::Promoted)),
            None,
        ),
        (of_ttl(499, Stage::Open), None),
        (of_ttl(500, Stage::Open), Some(("retention_used_50", false))),
        (
            of_ttl(949, Stage::SourceFinished),
            Some(("retention_used_80", false)),
        ),
        (
            of_ttl(950, Stage::SourceFinished),
            Some(("retention_used_95", true)),
        ),
        (
            of_ttl(u64::MAX, Stage::Open),
            Some(("retention_used_100", true)),
        ),
        (of_ttl(2000, Stage::TopicConsumed), None),
        (of_ttl(2000, Stage::Aborted), None),
        (ttl_of(HOUR), None),
        (ttl_of(HOUR - 1), Some(("ttl_below_budget", false))),
    ]
}

fn rows_of_topics() -> Vec<Row> {
    let (m, s) = (Role::Mutations, Role::Snapshot);
    vec![
        (topic(m, 499), None),
        (topic(m, -10_000), None),
        (
            topic(m, 500),
            Some(("mutation_topic_retention_used_50", false)),
        ),
        (
            topic(m, 800),
            Some(("mutation_topic_retention_used_80", false)),
        ),
        (
            topic(m, 950),
            Some(("mutation_topic_retention_used_95", true)),
        ),
        (
            topic(m, 1000),
            Some(("mutation_topic_retention_used_100", true)),
        ),
        (
            topic(s, 500),
            Some(("snapshot_topic_retention_used_50", false)),
        ),
        (
            topic(s, 800),
            Some(("snapshot_topic_retention_used_80", false)),
        ),
        (
            topic(s, 950),
            Some(("snapshot_topic_retention_used_95", true)),
        ),
        (
            topic(s, 9999),
            Some(("snapshot_topic_retention_used_100", true)),
        ),
        (below_budget(false, 2 * HOUR, m), None),
        (
            below_budget(false, 2 * HOUR - 1, m),
            Some(("topic_retention_below_budget", false)),
        ),
        (
            below_budget(false, HOUR, s),
            Some(("topic_retention_below_budget", false)),
        ),
        (below_budget(true, 2 * HOUR, m), None),
        (
            below_budget(true, HOUR, m),
            Some(("delete_retention_below_budget", false)),
        ),
        (below_budget(true, HOUR, s), None),
    ]
}

fn rows_of_jobs() -> Vec<Row> {
    let limit = |limit| with(|inputs| inputs.limit = limit);
    let decided = |reads, matched, markers, rule_off| {
        with(|inputs| {
            inputs.markers = markers;
            inputs.markers_max = u64::MAX;
            (inputs.reads_decided, inputs.reads_matched) = (reads, matched);
            inputs.rule_off = rule_off;
        })
    };
    let saved =
        |age_ms, interval_ms| with(|inputs| inputs.checkpoint = Some((age_ms, interval_ms)));
    let paused =
        |stage| with(|inputs| (inputs.reads_paused, inputs.rebuilds[0].stage) = (true, stage));
    vec![
        (limit(Limit::Near), Some(("marker_limit_near", false))),
        (limit(Limit::Wait), Some(("marker_limit_reached", true))),
        (limit(Limit::StopCleanly), Some(("marker_limit_stop", true))),
        (
            decided(MANY, 0, MANY, false),
            Some(("no_marker_met", false)),
        ),
        (decided(MANY, 1, MANY, false), None),
        (decided(MANY - 1, 0, MANY, false), None),
        (decided(MANY, 0, MANY - 1, false), None),
        (
            decided(MANY, 0, MANY, true),
            Some(("marker_rule_off", true)),
        ),
        (saved(59_999, 1000), None),
        (saved(60_000, 1000), Some(("no_checkpoint", false))),
        (saved(60_000, 20_000), None),
        (saved(120_000, 20_000), Some(("no_checkpoint", false))),
        (saved(1_200_000, 20_000), Some(("no_checkpoint", true))),
        (saved(u64::MAX - 1, u64::MAX), None),
        (with(|inputs| inputs.checkpoint = None), None),
        (
            with(|i| i.replica_lag_ms = Some(0)),
            Some(("replica_lag_unset", false)),
        ),
        (with(|i| i.replica_lag_ms = Some(1)), None),
        (paused(Stage::Open), Some(("reads_paused", false))),
        (paused(Stage::Ready), None),
        (with(|i| i.rule_off = true), Some(("marker_rule_off", true))),
    ]
}

#[test]
fn the_whole_table() {
    let mut seen = BTreeSet::new();
    let rows = [rows_of_rebuilds(), rows_of_topics(), rows_of_jobs()].concat();
    for (inputs, expected) in rows {
        let found = alarms(&inputs);
        let names: Vec<(&str, bool)> = found
            .iter()
            .map(|alarm| (alarm.name.as_str(), alarm.critical))
            .collect();
        assert_eq!(
            names,
            expected.into_iter().collect::<Vec<_>>(),
            "{inputs:?}"
        );
        for alarm in &found {
            assert!(
                !alarm.text.is_empty() && !alarm.remedy.is_empty(),
                "{alarm:?}"
            );
            assert!(!alarm.text.contains("  "), "{alarm:?}");
            seen.insert(alarm.name.clone());
        }
    }
    let never: Vec<_> = NAMES.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(never.is_empty(), "no row gives {never:?}");
    assert_eq!(seen.len(), NAMES.len());
}

#[test]
fn numbers_are_in_the_words() {
    let inputs = with(|inputs| {
        inputs.markers = 960_000;
        inputs.limit = Limit::Near;
        inputs.markers_per_hour = Some(5000);
    });
    let found = alarms(&inputs);
    let names: Vec<&str> = found.iter().map(|alarm| alarm.name.as_str()).collect();
    assert_eq!(names, ["retention_used_95", "marker_limit_near"]);
    for part in ["960,000", "1,000,000", "96 %"] {
        assert!(found[0].text.contains(part), "{}", found[0].text);
    }
    assert!(found[1].text.contains("5,000 an hour"), "{}", found[1].text);
}

proptest! {
    #[test]
    fn alarms_come_in_order_and_under_their_names(
        markers in any::<u64>(), markers_max in any::<u64>(), elapsed in any::<u64>(),
        wall in any::<i64>(), next in any::<i64>(), kept in any::<u64>(), reads in any::<u64>(),
        age in any::<u64>(), ttl in proptest::option::of(any::<u64>()), stage in 0usize..9,
    ) {
        let mut inputs = topic(Role::Mutations, 0);
        inputs.policy = match ttl {
            Some(ttl_ms) => Policy::Ttl { ttl_ms },
            None => Policy::UntilReady { rebuild_alarm_after_ms: kept },
        };
        (inputs.markers, inputs.markers_max) = (markers, markers_max);
        inputs.rebuilds[0].elapsed_ms = elapsed;
        inputs.rebuilds[0].window_ms = elapsed;
        inputs.rebuilds[0].stage = Stage::ALL[stage];
        inputs.rebuilds[0].budget = Some(budget(kept));
        inputs.topics[0].next_record_ms = Some(next);
        inputs.wall_ms = wall;
        inputs.reads_decided = reads;
        inputs.checkpoint = Some((age, kept));
        let place = |name: &str| NAMES.iter().position(|known| *known == name);
        let places: Vec<_> = alarms(&inputs).iter().map(|alarm| place(&alarm.name)).collect();
        prop_assert!(places.iter().all(Option::is_some));
        prop_assert!(places.is_sorted());
    }
}
