//! One generation from the members of `Shown` that tell of a job that has but one, for as long as
//! worker 0 shows no generations. Pure.
//!
//! Invariant: its stage is never better than the counts, and never better than `caught_up`.

use super::view::Facts;
use crate::checkpoint::manifest::GenerationState;
use crate::generation::{Reached, Stage};
use crate::job::{GenerationCounts, Shown, ShownGeneration, Wait};

/// What is shown, or what can be told from the rest.
pub(super) fn generations(
    shown: &Shown,
    facts: &Facts,
    timeline: &[(Stage, i64)],
) -> Vec<ShownGeneration> {
    match shown.generations.is_empty() {
        false => shown.generations.clone(),
        true => vec![derived(shown, facts, timeline)],
    }
}

/// How far the one generation is.
pub(super) fn stage(shown: &Shown, rule_off: bool) -> Stage {
    let (at_end, of) = shown.snapshot_partitions;
    if rule_off || shown.counts.unsafe_reads() > 0 {
        Stage::Unsafe
    } else if shown.caught_up {
        Stage::CaughtUp
    } else if shown.consumed {
        Stage::TopicConsumed
    } else if at_end == of && of > 0 {
        Stage::SourceFinished
    } else {
        Stage::Open
    }
}

fn derived(shown: &Shown, facts: &Facts, timeline: &[(Stage, i64)]) -> ShownGeneration {
    let counts = &shown.counts;
    let stage = stage(shown, facts.rule_off);
    let evidence = shown.evidence.clone();
    let reached = |(stage, at_ms): &(Stage, i64)| Reached {
        stage: *stage,
        at_ms: u64::try_from(*at_ms).unwrap_or(0),
        tick_ms: 0,
        evidence: evidence.clone().filter(|_| *stage == Stage::SourceFinished),
        not_proven: None,
    };
    let tables = 0..facts.tables.len();
    ShownGeneration {
        state: GenerationState {
            number: 1,
            id: facts.generation.clone(),
            tables: tables
                .filter_map(|table| u16::try_from(table).ok())
                .collect(),
            stage,
            reached: timeline.iter().map(reached).collect(),
            evidence: shown.evidence.clone(),
            unsafe_reads: shown.bad_reads().unsafe_reads,
            late_reads: shown.bad_reads().late_reads,
            ..GenerationState::default()
        },
        waits: waits(shown, facts, stage),
        counts: GenerationCounts {
            read: counts.reads_read,
            emitted: counts.reads_emitted,
            dropped_marker: counts.reads_dropped_marker,
            dropped_superseded: counts.reads_dropped_superseded,
            poisoned: counts.reads_poisoned,
            unsafe_reads: counts.unsafe_reads(),
            late: counts.reads_late,
        },
        partitions_at_end: shown.snapshot_partitions,
        targets_reached: (0, 0),
        reads_total: shown.snapshot_total,
        dead_letters: 0,
    }
}

fn waits(shown: &Shown, facts: &Facts, stage: Stage) -> Option<Wait> {
    let wait = |text: String, person| Wait {
        text,
        person,
        command: None,
        leave_alone: true,
    };
    Some(match stage {
        Stage::Open if facts.ends_when_idle => {
            let text = format!("{}; it ends when no topic delivers any more", shown.phase);
            wait(text, false)
        }
        Stage::Open if shown.counts.reads_read == 0 && shown.snapshot_partitions.0 == 0 => {
            let text = "no READ has come; start the snapshot connector if it does not run";
            wait(text.to_owned(), true)
        }
        Stage::Open => {
            let text = format!("{}; when the snapshot is complete, end it", shown.phase);
            Wait {
                command: Some("headwater end-snapshot".to_owned()),
                ..wait(text, true)
            }
        }
        Stage::SourceFinished => {
            let text = "the snapshot was read to its end; its READs leave the merge";
            wait(text.to_owned(), false)
        }
        Stage::TopicConsumed => wait(format!("all READs are merged; {}", shown.phase), false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::generations;
    use crate::control::view::Facts;
    use crate::generation::Stage;
    use crate::job::Shown;

    #[test]
    fn a_stage_is_never_better_than_the_counts() {
        type Change = fn(&mut Shown);
        let cases: [(Change, Stage, &str); 7] = [
            (|_| {}, Stage::Open, "no READ has come"),
            (
                |shown| shown.counts.reads_read = 1,
                Stage::Open,
                "when the snapshot is complete",
            ),
            (
                |shown| shown.snapshot_partitions = (1, 2),
                Stage::Open,
                "when the snapshot is complete",
            ),
            (
                |shown| shown.snapshot_partitions = (2, 2),
                Stage::SourceFinished,
                "read to its end",
            ),
            (
                |shown| shown.consumed = true,
                Stage::TopicConsumed,
                "all READs are merged",
            ),
            (|shown| shown.caught_up = true, Stage::CaughtUp, ""),
            (
                |shown| {
                    shown.caught_up = true;
                    shown.counts.reads_emitted_unsafe = 1;
                },
                Stage::Unsafe,
                "",
            ),
        ];
        for (index, (change, stage, text)) in cases.into_iter().enumerate() {
            let mut shown = Shown {
                snapshot_partitions: (0, 2),
                ..Shown::default()
            };
            change(&mut shown);
            let found = generations(&shown, &Facts::default(), &[]).remove(0);
            assert_eq!(found.state.stage, stage, "case {index}");
            let said = found.waits.map(|wait| wait.text).unwrap_or_default();
            assert!(said.contains(text), "case {index}: {said}");
            assert_eq!(said.is_empty(), text.is_empty(), "case {index}: {said}");
        }
    }

    #[test]
    fn what_worker_0_shows_comes_first() {
        let mut shown = Shown::default();
        shown.generations.push(Default::default());
        shown.generations[0].state.id = "g7".to_owned();
        let found = generations(&shown, &Facts::default(), &[]);
        assert_eq!(found[0].state.id, "g7");
    }
}
