//! The whole table of transitions.

use super::{Facts, Next, next};
use crate::config::choices::CaughtUp::Seen;
use crate::config::choices::SourceFinished::Counted;
use crate::generation::Stage;

/// Every combination of facts.
fn all_facts() -> Vec<Facts> {
    let mut all = Vec::new();
    for bits in 0..1_u32 << 11 {
        let bit = |at: u32| bits >> at & 1 == 1;
        all.push(Facts {
            finished: bit(0).then_some(Counted),
            consumed: bit(1),
            cutoff: bit(2),
            passed: bit(3).then_some(Seen),
            targets: bit(4),
            reached: bit(5),
            unsafe_reads: u64::from(bit(6)),
            late_reads: u64::from(bit(7)),
            rule_off: bit(8),
            dead_letters: u64::from(bit(10)),
            ready_manifest: bit(9).then_some(41),
        });
    }
    all
}

const ON_THE_WAY: [Stage; 6] = [
    Stage::Open,
    Stage::SourceFinished,
    Stage::TopicConsumed,
    Stage::CaughtUp,
    Stage::Ready,
    Stage::Promoted,
];

#[test]
fn each_step_needs_what_it_says() {
    for stage in Stage::ALL {
        for progress in ON_THE_WAY {
            for facts in all_facts() {
                check(stage, progress, &facts);
            }
        }
    }
}

fn check(stage: Stage, progress: Stage, facts: &Facts) {
    let spoiled = facts.unsafe_reads > 0 || facts.rule_off;
    let lacking = facts.late_reads > 0 || facts.dead_letters > 0;
    let said = next(stage, progress, facts);
    let at = format!("{stage:?} {progress:?} {facts:?}: {said:?}");
    if stage.is_over() {
        assert_eq!(said, Next::Nothing, "{at}");
    }
    match said {
        Next::Nothing => {}
        Next::Spoil => assert!(spoiled && stage < Stage::Ready, "{at}"),
        Next::Freeze(kind) => {
            assert_eq!(
                (Some(kind), progress),
                (facts.finished, Stage::Open),
                "{at}"
            );
        }
        Next::Consume => {
            assert!(facts.consumed && progress == Stage::SourceFinished, "{at}");
        }
        Next::TakeCutoff => assert!(!facts.cutoff, "{at}"),
        Next::SampleTargets(kind) => {
            assert!(facts.cutoff && !facts.targets, "{at}");
            assert_eq!(Some(kind), facts.passed, "{at}");
        }
        Next::CatchUp => {
            let known = facts.cutoff && facts.targets && facts.reached;
            assert!(known && progress == Stage::TopicConsumed, "{at}");
        }
        Next::Save | Next::Ready(_) => {
            assert_eq!(progress, Stage::CaughtUp, "{at}");
            assert!(!spoiled && !lacking, "{at}");
        }
        Next::TakeBack => {
            assert!(lacking && progress == Stage::Ready, "{at}");
        }
    }
}

#[test]
fn the_way_to_ready() {
    let mut facts = Facts::default();
    let open = |facts: &Facts| next(Stage::Open, Stage::Open, facts);
    assert_eq!(open(&facts), Next::Nothing);
    facts.finished = Some(Counted);
    assert_eq!(open(&facts), Next::Freeze(Counted));
    let at = |stage, facts: &Facts| next(stage, stage, facts);
    assert_eq!(at(Stage::SourceFinished, &facts), Next::TakeCutoff);
    facts.cutoff = true;
    assert_eq!(at(Stage::SourceFinished, &facts), Next::Nothing);
    facts.passed = Some(Seen);
    assert_eq!(at(Stage::SourceFinished, &facts), Next::SampleTargets(Seen));
    facts.targets = true;
    assert_eq!(at(Stage::SourceFinished, &facts), Next::Nothing);
    facts.consumed = true;
    assert_eq!(at(Stage::SourceFinished, &facts), Next::Consume);
    assert_eq!(at(Stage::TopicConsumed, &facts), Next::Nothing);
    facts.reached = true;
    assert_eq!(at(Stage::TopicConsumed, &facts), Next::CatchUp);
    assert_eq!(at(Stage::CaughtUp, &facts), Next::Save);
    facts.ready_manifest = Some(7);
    assert_eq!(at(Stage::CaughtUp, &facts), Next::Ready(7));
    assert_eq!(at(Stage::Ready, &facts), Next::Nothing);
    facts.late_reads = 1;
    assert_eq!(at(Stage::Ready, &facts), Next::TakeBack);
    assert_eq!(at(Stage::CaughtUp, &facts), Next::Nothing);
    // After promotion it is an alarm, no more.
    assert_eq!(at(Stage::Promoted, &facts), Next::Nothing);
}

#[test]
fn an_unsafe_one_is_read_to_its_end_and_never_ready() {
    let facts = Facts {
        finished: Some(Counted),
        unsafe_reads: 1,
        ready_manifest: Some(1),
        ..Facts::default()
    };
    assert_eq!(next(Stage::Open, Stage::Open, &facts), Next::Spoil);
    let on = next(Stage::Unsafe, Stage::Open, &facts);
    assert_eq!(on, Next::Freeze(Counted));
    assert_eq!(next(Stage::Unsafe, Stage::CaughtUp, &facts), Next::Nothing);
}
