//! Generations as the status document tells them. Pure.

use crate::checkpoint::Manifest;
use crate::checkpoint::manifest::GenerationState;
use crate::config::units::print_instant;
use crate::control::document::{
    Actor, Began, Cutoff, Demoted, Generation, GenerationReads, Promotion, Step, Wait,
};
use crate::dead_letter;
use crate::generation::record;
use crate::job::{self, GenerationCounts, ShownGeneration};
use crate::table::{Role, Table};
use std::collections::{BTreeMap, BTreeSet};

/// One that worker 0 shows.
pub(in crate::control) fn shown(generation: &ShownGeneration, tables: &[Table]) -> Generation {
    let (partitions_at_end, partitions) = generation.partitions_at_end;
    let (targets_reached, targets) = generation.targets_reached;
    Generation {
        waits_for: generation.waits.as_ref().map(wait),
        partitions_at_end,
        partitions,
        targets_reached,
        targets,
        reads: reads(&generation.counts),
        reads_total: generation.reads_total,
        dead_letters: generation.dead_letters,
        ..kept(&generation.state, tables)
    }
}

/// Those of a manifest. READs are those before its cut; what they became is not in it.
pub(in crate::control) fn saved(last: &Manifest, tables: &[Table]) -> Vec<Generation> {
    let of = |state: &GenerationState| {
        let topics = topics(state, tables);
        let names: BTreeSet<&String> = topics.values().collect();
        let own = last.of(Role::Snapshot).filter(|p| names.contains(&p.topic));
        let ends: Vec<bool> = own
            .map(|p| p.end.is_some_and(|end| p.next_offset >= end))
            .collect();
        let reached = |target: &&headwater_operators::control::PartitionTarget| {
            let mut mutations = last.of(Role::Mutations);
            mutations.any(|p| {
                p.topic == target.topic
                    && p.partition == target.partition
                    && p.next_offset >= target.end
            })
        };
        let read = state.reads.iter().map(|seen| seen.rows).sum();
        Generation {
            partitions_at_end: ends.iter().filter(|at_end| **at_end).count(),
            partitions: ends.len(),
            targets_reached: state.targets.iter().filter(reached).count(),
            targets: state.targets.len(),
            reads: GenerationReads {
                read,
                ..GenerationReads::default()
            },
            dead_letters: dead_letter::unaccepted(&last.dead_letters, state),
            ..kept(state, tables)
        }
    };
    last.generations.iter().map(of).collect()
}

/// What a manifest keeps of it.
fn kept(state: &GenerationState, tables: &[Table]) -> Generation {
    let name = |table: &u16| table_name(*table, tables);
    let opened = state.reached.first();
    Generation {
        id: state.id.clone(),
        number: state.number,
        tables: state.tables.iter().map(name).collect(),
        dropped_tables: state.dropped_tables.iter().map(name).collect(),
        topics: topics(state, tables),
        stage: state.stage,
        opened_at: opened.map(|reached| instant(reached.at_ms)),
        began: state.began.as_ref().map(|(at_ms, known_by)| Began {
            at: print_instant(*at_ms),
            known_by: known_by.clone(),
        }),
        timeline: state.reached.iter().map(step).collect(),
        unsafe_reads: state.unsafe_reads,
        late_reads: state.late_reads,
        dead_letters_accepted: state
            .dead_letters_accepted
            .iter()
            .map(|of| of.letters)
            .sum(),
        live_cutoff: state.live_cutoff.as_ref().map(|cutoff| Cutoff {
            at: print_instant(cutoff.time_ms),
            position: cutoff.position,
        }),
        connector: state.sources.connector.clone(),
        notifications: state.sources.notifications.clone(),
        accepted: state.accepted.clone(),
        promotion: state.promotion.as_ref().map(promotion),
        ..Generation::default()
    }
}

fn table_name(table: u16, tables: &[Table]) -> String {
    tables
        .get(usize::from(table))
        .map_or_else(|| format!("#{table}"), |table| table.name.clone())
}

fn topics(state: &GenerationState, tables: &[Table]) -> BTreeMap<String, String> {
    let of = |table: &u16| {
        let configured = tables.get(usize::from(*table)).map(|table| &table.snapshot);
        let topic = state.topics.get(table).or(configured)?;
        Some((table_name(*table, tables), topic.clone()))
    };
    state.tables.iter().filter_map(of).collect()
}

fn step(reached: &record::Reached) -> Step {
    Step {
        stage: reached.stage,
        at: instant(reached.at_ms),
        evidence: reached.evidence.clone(),
        not_proven: reached.not_proven.clone(),
    }
}

fn wait(wait: &job::Wait) -> Wait {
    Wait {
        text: wait.text.clone(),
        acts: if wait.person {
            Actor::Person
        } else {
            Actor::Job
        },
        command: wait.command.clone(),
        leave_alone: wait.leave_alone,
    }
}

fn reads(counts: &GenerationCounts) -> GenerationReads {
    let by_reason = |reasons: &[(&str, u64)]| {
        let reasons = reasons.iter();
        let reasons = reasons.map(|(reason, count)| ((*reason).to_owned(), *count));
        reasons.collect::<BTreeMap<_, _>>()
    };
    GenerationReads {
        read: counts.read,
        emitted: counts.emitted,
        dropped: by_reason(&[
            ("marker", counts.dropped_marker),
            ("superseded", counts.dropped_superseded),
        ]),
        kept_back: by_reason(&[
            ("unsafe", counts.unsafe_reads),
            ("late", counts.late),
            ("poisoned", counts.poisoned),
        ]),
    }
}

fn promotion(promotion: &record::Promotion) -> Promotion {
    Promotion {
        id: promotion.id.clone(),
        by: promotion.by.clone(),
        begun_at: instant(promotion.begun_ms),
        manifest: promotion.manifest,
        accepted: promotion.accepted.clone(),
        done_at: promotion.done_ms.map(instant),
        hook: promotion.hook.clone(),
        demoted: promotion
            .demoted
            .as_ref()
            .map(|(at_ms, by, reason)| Demoted {
                at: instant(*at_ms),
                by: by.clone(),
                reason: reason.clone(),
            }),
    }
}

pub(super) fn instant(ms: u64) -> String {
    print_instant(i64::try_from(ms).unwrap_or(i64::MAX))
}
