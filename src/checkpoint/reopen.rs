//! From the generations of a manifest to the commands that make a restarted job what it was, and to
//! the snapshot topics that it goes on reading.
//!
//! Invariant: a topic is read for the newest generation that names it and is read at all, as
//! sources have it; a table is of the newest generation that was ever opened for it.
//!
//! It cannot look at topics: what they hold now is not its matter.

use super::manifest::{GenerationState, Manifest, PartitionState};
use crate::generation::Stage;
use crate::job::topic_names;
use crate::run::FIRST_GENERATION;
use crate::table::{Role, Table};
use headwater_operators::control::{Command, PartitionStart, PartitionTarget};
use std::collections::{BTreeMap, BTreeSet};

/// How much a topic matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Only late READs are looked for: its generation is ready, or promoted.
    Late,
    /// READs that are missing would be missing in the target; the id of the generation.
    Reads(String),
}

/// Whether topics of a generation are read, and why; none when they are not.
fn need(generation: &GenerationState) -> Option<Need> {
    match generation.stage {
        Stage::Ready | Stage::Promoted => Some(Need::Late),
        stage if stage.takes_reads() => Some(Need::Reads(generation.id.clone())),
        _ => None,
    }
}

/// The snapshot topics that are read, and what for. Before the first open those of `tables`.
pub fn read_topics(manifest: &Manifest, tables: &[Table]) -> BTreeMap<String, Need> {
    if manifest.generations.is_empty() {
        let names = topic_names(tables, Role::Snapshot).into_iter();
        let first = || Need::Reads(FIRST_GENERATION.to_owned());
        return names.map(|name| (name, first())).collect();
    }
    let owners = owners(manifest, tables);
    let needs = owners.into_iter().filter_map(|(topic, number)| {
        let owner = manifest.generations.iter().find(|g| g.number == number);
        Some((topic, need(owner?)?))
    });
    needs.collect()
}

/// The number of the generation that each topic is read for.
fn owners(manifest: &Manifest, tables: &[Table]) -> BTreeMap<String, u32> {
    let mut owners = BTreeMap::new();
    for generation in by_number(manifest) {
        if need(generation).is_some() {
            let topics = topics(generation, tables);
            owners.extend(
                topics
                    .into_iter()
                    .map(|(_, name)| (name, generation.number)),
            );
        }
    }
    owners
}

fn by_number(manifest: &Manifest) -> Vec<&GenerationState> {
    let mut all: Vec<&GenerationState> = manifest.generations.iter().collect();
    all.sort_by_key(|generation| generation.number);
    all
}

/// The snapshot topic of each table that a generation has not been told to go on without.
fn topics(generation: &GenerationState, tables: &[Table]) -> Vec<(u16, String)> {
    let kept = generation.tables.iter().copied();
    let kept = kept.filter(|table| !generation.dropped_tables.contains(table));
    let topic = |table: u16| {
        let configured = || tables.get(usize::from(table)).map(|t| t.snapshot.clone());
        let own = generation.topics.get(&table).cloned();
        Some((table, own.or_else(configured)?))
    };
    kept.filter_map(topic).collect()
}

/// The commands that had taken effect, in the order of the generations.
pub(super) fn commands(manifest: &Manifest, tables: &[Table]) -> Vec<Command> {
    let all = by_number(manifest);
    let owners = owners(manifest, tables);
    let mut commands = Vec::new();
    for (place, generation) in all.iter().enumerate() {
        let Some(need) = need(generation) else {
            continue;
        };
        // A newer one that is over has no open of its own any more, but its tables stay with it.
        let newer = all[place + 1..].iter();
        let over = newer.filter(|newer| self::need(newer).is_none());
        let taken: BTreeSet<u16> = over.flat_map(|newer| newer.tables.clone()).collect();
        let number = generation.number;
        let owned = |state: &&PartitionState| owners.get(&state.topic) == Some(&number);
        let own: Vec<&PartitionState> = manifest.of(Role::Snapshot).filter(owned).collect();
        commands.push(open(generation, &taken, topics(generation, tables), &own));
        let dropped = generation.dropped_tables.iter();
        commands.extend(dropped.map(|table| Command::DropTable {
            generation: number,
            table: *table,
        }));
        let ends: Vec<PartitionTarget> = own.iter().filter_map(|state| frozen(state)).collect();
        if !ends.is_empty() {
            commands.push(Command::Freeze {
                generation: number,
                ends,
            });
        }
        if need == Need::Late {
            commands.push(Command::Close {
                generation: number,
                aborted: false,
            });
        } else if !generation.targets.is_empty() {
            commands.push(Command::Target {
                generation: number,
                targets: generation.targets.clone(),
            });
        }
    }
    commands
}

fn open(
    generation: &GenerationState,
    taken: &BTreeSet<u16>,
    topics: Vec<(u16, String)>,
    own: &[&PartitionState],
) -> Command {
    let tables = generation.tables.iter().copied();
    let start = |state: &&PartitionState| PartitionStart {
        topic: state.topic.clone(),
        partition: state.partition,
        next_offset: state.next_offset,
    };
    Command::Open {
        generation: generation.number,
        tables: tables.filter(|table| !taken.contains(table)).collect(),
        opened_at_ms: generation.opened_at_ms,
        id: generation.id.clone(),
        topics,
        partitions: own.iter().map(start).collect(),
        not_before_ms: generation.not_before_ms,
    }
}

fn frozen(state: &PartitionState) -> Option<PartitionTarget> {
    Some(PartitionTarget {
        topic: state.topic.clone(),
        partition: state.partition,
        end: state.end?,
    })
}

#[cfg(test)]
mod tests;
