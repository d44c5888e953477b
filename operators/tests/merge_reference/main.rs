//! The merge against a slow reference: random histories of several keys, random schedules, one to
//! three workers, random expiry and fuel, through the real sources, merge and sink.
//!
//! A run is a function of its seeds. The last tests prove that the checks see planted bugs.

mod cluster;
mod findings;
mod history;
mod random;
mod reference;
mod scenario;
mod variants;
mod world;

use findings::findings;
use headwater_operators::merge::MergeCounters;
use headwater_operators::record::Op;
use scenario::{Plan, Run, run};
use variants::Planted;

/// Seeds of the honest runs.
const RUNS: u64 = 400;

fn honest(plan: &Plan, seed: u64) -> Run {
    let run = run(plan, seed ^ 0x5eed);
    let found = findings(plan, &run);
    assert!(found.is_empty(), "seed {seed}: {found:#?}");
    run
}

/// READs that were emitted before a newer mutation of their key.
fn reads_ahead(run: &Run) -> usize {
    let sides = run.world.sides.iter();
    let reversed = |side: &world::Side| {
        let rows: Vec<_> = side
            .merged
            .iter()
            .rev()
            .map(|(_, row)| row.clone())
            .collect();
        reference::stale_reads(rows.iter()).len()
    };
    sides.map(reversed).sum()
}

/// Neighbours of the output whose ticks fall: what a sort by tick would turn round.
fn older_ticks(run: &Run) -> usize {
    let sides = run.world.sides.iter();
    let pairs = sides.flat_map(|side| side.merged.windows(2));
    pairs.filter(|pair| pair[1].0 < pair[0].0).count()
}

#[test]
fn every_run_ends_in_the_state_of_the_source() {
    let mut total = MergeCounters::default();
    let (mut disorder, mut ahead, mut stayed_safe) = (0, 0, 0);
    for seed in 0..RUNS {
        let plan = Plan::random(seed);
        let run = honest(&plan, seed);
        let counters = reference::total(&run.world);
        total.reads_emitted += counters.reads_emitted;
        total.reads_dropped_marker += counters.reads_dropped_marker;
        total.reads_dropped_superseded += counters.reads_dropped_superseded;
        total.reads_quarantined += counters.reads_quarantined;
        total.reads_emitted_unsafe += counters.reads_emitted_unsafe;
        total.reads_late += counters.reads_late;
        total.reads_held += counters.reads_held;
        disorder += older_ticks(&run);
        ahead += reads_ahead(&run);
        stayed_safe += u64::from(counters.unsafe_reads() == 0);
    }
    println!(
        "{total:?}, {disorder} steps back in time, {ahead} READs ahead, \
         {stayed_safe} of {RUNS} runs safe"
    );
    // The runs must have met everything that they are here for.
    assert!(total.reads_emitted > RUNS && total.reads_dropped_marker > RUNS);
    assert!(total.reads_quarantined > 50 && total.reads_emitted_unsafe > 10);
    assert!(total.reads_dropped_superseded > 20 && total.reads_late > 10);
    assert!(total.reads_held > 200 && disorder > 200);
    assert!(ahead > 200 && stayed_safe > RUNS / 2);
}

#[test]
fn the_result_depends_on_neither_workers_nor_schedule() {
    for seed in 1000..1020 {
        let mut plan = Plan::random(seed);
        plan.keep = headwater_operators::retention::KeepMarkers::UntilReady {
            open_late_max_ms: 0,
        };
        plan.backdated_ms.fill(0);
        plan.setup.merge.retention =
            headwater_operators::retention::Retention::new(plan.keep, plan.start_margin_ms);
        for workers in 1..=3 {
            for schedule in 0..3 {
                plan.setup.workers = workers;
                let run = honest(&plan, seed + 7919 * schedule);
                if run.world.reads_in.iter().any(|row| row.op == Op::Late) {
                    continue;
                }
                let keys = plan.history.fingerprints.len();
                assert_eq!(
                    reference::table(&run.world, keys),
                    plan.history.final_table(),
                    "seed {seed}, {workers} workers, schedule {schedule}"
                );
            }
        }
    }
}

/// In how many of so many runs the checks find `what` when `plant` has changed the plan.
fn seen(what: &str, plant: impl Fn(&mut Plan)) -> usize {
    let runs = (0..RUNS).filter(|seed| {
        let mut plan = Plan::random(*seed);
        plant(&mut plan);
        let run = run(&plan, seed ^ 0x5eed);
        findings(&plan, &run)
            .iter()
            .any(|found| found.contains(what))
    });
    let seen = runs.count();
    println!("{what}: seen in {seen} of {RUNS} runs");
    seen
}

#[test]
fn the_rule_left_out_is_seen() {
    assert!(
        seen("a stale READ left the merge", |plan| plan
            .setup
            .merge
            .rule = false)
            > 20
    );
    assert!(seen("the source has", |plan| plan.setup.merge.rule = false) > 20);
}

#[test]
fn deciding_first_and_emitting_later_is_seen() {
    let plant = |plan: &mut Plan| plan.setup.planted = Planted::DecidesFirst;
    assert!(seen("a stale READ left the merge", plant) > 5);
}

#[test]
fn a_marker_after_its_mutation_is_seen() {
    let plant = |plan: &mut Plan| plan.setup.planted = Planted::MarksLater;
    assert!(seen("a stale READ left the merge", plant) > 5);
}

#[test]
fn forgetting_ahead_of_control_is_seen() {
    let plant = |plan: &mut Plan| plan.setup.planted = Planted::ForgetsAhead;
    assert!(seen("was forgotten before its time", plant) > 5);
}

#[test]
fn two_output_channels_are_seen() {
    let plant = |plan: &mut Plan| plan.setup.planted = Planted::TwoChannels;
    assert!(seen("a stale READ reached the target", plant) > 5);
}

#[test]
fn a_sink_that_sorts_by_tick_is_seen() {
    let plant = |plan: &mut Plan| {
        plan.setup.planted = Planted::SinkByTick;
        // Its way to be wrong: a READ of a later tick leaves before a mutation of an earlier one.
        (plan.slow_mutations, plan.mutations_lag) = (true, true);
    };
    assert!(seen("a stale READ reached the target", plant) > 5);
}
