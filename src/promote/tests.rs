//! Each criterion over its table.

use super::{Terms, all_met};
use crate::checkpoint::Saved;
use crate::config::choices::{CaughtUp, SourceFinished};
use crate::gauges::TopicLag;
use crate::generation::{Reached, Stage};
use crate::job::{Shown, ShownGeneration};
use crate::table::Role;

/// A generation that may be promoted.
fn good() -> (Terms, ShownGeneration, Shown) {
    let mut generation = ShownGeneration::default();
    generation.state.stage = Stage::Ready;
    for (stage, evidence) in [
        (Stage::SourceFinished, "counted"),
        (Stage::CaughtUp, "seen"),
    ] {
        generation.state.reached.push(Reached {
            stage,
            evidence: Some(evidence.to_owned()),
            ..Reached::default()
        });
    }
    let mut shown = Shown {
        saved: Some(Saved::default()),
        ..Shown::default()
    };
    shown.gauges.lag.push(TopicLag {
        topic: "m".to_owned(),
        role: Role::Mutations,
        records: Some(0),
        newest_age_ms: None,
    });
    (Terms::default(), generation, shown)
}

type Change = fn(&mut Terms, &mut ShownGeneration, &mut Shown);

fn unmet(change: Change, accepted: &[&str]) -> Vec<String> {
    let (mut terms, mut generation, mut shown) = good();
    change(&mut terms, &mut generation, &mut shown);
    let accepted: Vec<String> = accepted.iter().map(|word| (*word).to_owned()).collect();
    let criteria = terms.criteria(&generation, &shown, &accepted);
    assert_eq!(criteria.len(), 7);
    let unmet = criteria.iter().filter(|criterion| !criterion.met);
    let names: Vec<String> = unmet.map(|criterion| criterion.name.clone()).collect();
    assert_eq!(all_met(&criteria), names.is_empty());
    for criterion in &criteria {
        assert_eq!(criterion.met, criterion.remedy.is_none(), "{criterion:?}");
        assert!(!criterion.actual.is_empty() && !criterion.required.is_empty());
    }
    names
}

#[test]
fn each_criterion_fails_by_itself() {
    let table: &[(Change, &[&str], &[&str])] = &[
        (|_, _, _| {}, &[], &[]),
        (|_, g, _| g.state.stage = Stage::Promoted, &[], &[]),
        (|_, g, _| g.state.stage = Stage::CaughtUp, &[], &["ready"]),
        (|_, g, _| g.state.stage = Stage::Superseded, &[], &["ready"]),
        (
            |_, g, _| g.state.stage = Stage::Unsafe,
            &["ghosts", "live_lag"],
            &["ready", "no_loss"],
        ),
        (|_, g, _| g.state.unsafe_reads = 1, &[], &["no_loss"]),
        (|_, g, _| g.state.late_reads = 1, &[], &["no_loss"]),
        (|_, g, _| g.dead_letters = 1, &[], &["no_loss"]),
        (|_, _, s| s.saved = None, &[], &["durable"]),
        (|t, _, _| t.ghosts_possible = true, &[], &["no_ghosts"]),
        (|t, _, _| t.ghosts_possible = true, &["ghosts"], &[]),
        (|_, _, s| s.gauges.lag.clear(), &[], &["live_lag"]),
        (|_, _, s| s.gauges.lag.clear(), &["live_lag"], &[]),
        (
            |_, _, s| s.gauges.lag[0].role = Role::Snapshot,
            &[],
            &["live_lag"],
        ),
        (|_, _, s| lag(s, 5_000), &[], &[]),
        (|_, _, s| lag(s, 5_001), &[], &["live_lag"]),
        (|_, _, s| lag(s, 5_001), &["live_lag"], &[]),
        (|_, _, s| behind(s, 5_000), &[], &[]),
        (|_, _, s| behind(s, 5_001), &[], &["live_lag"]),
        (|_, _, s| behind(s, 5_001), &["live_lag"], &[]),
        (
            |_, _, s| {
                lag(s, 3_000);
                behind(s, 3_000);
            },
            &[],
            &["live_lag"],
        ),
        (
            |_, g, _| g.state.reached.clear(),
            &[],
            &["source_finished", "caught_up"],
        ),
    ];
    for (index, (change, accepted, expected)) in table.iter().enumerate() {
        assert_eq!(unmet(*change, accepted), *expected, "row {index}");
    }
}

fn lag(shown: &mut Shown, newest_age_ms: u64) {
    shown.gauges.lag[0].records = Some(1);
    shown.gauges.lag[0].newest_age_ms = Some(newest_age_ms);
}

/// The target, behind what was read.
fn behind(shown: &mut Shown, ms: u64) {
    (shown.now_ms, shown.durable_ms) = (60_000, 60_000 - ms);
}

#[test]
fn stronger_evidence_is_enough_and_weaker_is_not() {
    let finished = [
        "connect_offsets",
        "ordered",
        "counted",
        "operator_said",
        "quiet",
    ];
    let caught_up = ["live_offsets", "delivered", "seen", "unproven"];
    for (index, words) in [&finished[..], &caught_up[..]].into_iter().enumerate() {
        for (needs, required) in words.iter().enumerate() {
            for (has, found) in words.iter().enumerate() {
                let (mut terms, mut generation, shown) = good();
                generation.state.reached[index].evidence = Some((*found).to_owned());
                match index {
                    0 => terms.source_finished = SourceFinished::from_word(required).expect("one"),
                    _ => terms.caught_up = CaughtUp::from_word(required).expect("one"),
                }
                let met = all_met(&terms.criteria(&generation, &shown, &[]));
                assert_eq!(met, has <= needs, "{found} for {required}");
            }
        }
    }
}
