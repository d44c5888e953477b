//! What a target is told of generations: how far each is, and which id belongs to a row.
//!
//! Invariant: what [`GenerationNames`] knows only grows, so that it is the same whichever worker of
//! a process tells it first, and however often; a READ's generation is known before the READ is.
//!
//! It cannot tell a generation that was given up after its targets were sampled from one that
//! became ready, unless its tables were dropped before it was closed: rows of mutations then carry
//! its id until the next one is open.

use super::Row;
use crate::checkpoint::manifest::GenerationState;
use crate::generation::Stage;
use headwater_operators::control::Command;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// How far one generation is, as a durable manifest says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationNote {
    /// Its number, from 1.
    pub number: u32,
    /// Its id.
    pub id: String,
    /// How far it is.
    pub stage: Stage,
    /// Since when, ms since 1970, if that is known.
    pub since_ms: Option<u64>,
}

impl GenerationNote {
    /// What is told of a generation of a manifest.
    pub fn of(state: &GenerationState) -> GenerationNote {
        let reached = state.reached.iter().rev();
        let mut same = reached.filter(|reached| reached.stage == state.stage);
        GenerationNote {
            number: state.number,
            id: state.id.clone(),
            stage: state.stage,
            since_ms: same.next().map(|reached| reached.at_ms),
        }
    }
}

/// Which id a row's generation has; shared by what hears the commands of a process and the writers
/// of its sink.
#[derive(Debug, Default)]
pub struct GenerationNames(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    ids: BTreeMap<u32, Arc<str>>,
    /// Table and number.
    opened: BTreeSet<(u16, u32)>,
    dropped: BTreeSet<(u16, u32)>,
    /// Generations whose mutation targets are known.
    targeted: BTreeSet<u32>,
    closed: BTreeSet<u32>,
    aborted: BTreeSet<u32>,
}

impl Known {
    fn open(&mut self, number: u32, id: &str, tables: &[u16]) {
        self.ids.entry(number).or_insert_with(|| id.into());
        self.opened
            .extend(tables.iter().map(|table| (*table, number)));
    }

    /// The newest generation that is open or ready for a table.
    fn of_table(&self, table: u16) -> Option<&Arc<str>> {
        let given_up = |number: &u32| {
            let before_its_end = self.closed.contains(number) && !self.targeted.contains(number);
            before_its_end || self.aborted.contains(number)
        };
        let of_table = self.opened.range((table, 0)..=(table, u32::MAX)).rev();
        let mut current =
            of_table.filter(|place| !self.dropped.contains(place) && !given_up(&place.1));
        self.ids.get(&current.next()?.1)
    }
}

impl GenerationNames {
    /// Takes in what a manifest says.
    pub fn restore(&self, generations: &[GenerationState]) {
        let mut known = self.lock();
        for state in generations {
            known.open(state.number, &state.id, &state.tables);
            let dropped = state.dropped_tables.iter();
            known
                .dropped
                .extend(dropped.map(|table| (*table, state.number)));
            if matches!(state.stage, Stage::Ready | Stage::Promoted) || !state.targets.is_empty() {
                known.targeted.insert(state.number);
            }
            if state.stage == Stage::Aborted {
                known.aborted.insert(state.number);
            }
        }
    }

    /// Takes in a command of worker 0.
    pub fn told(&self, command: &Command) {
        match command {
            Command::Open {
                generation,
                tables,
                id,
                ..
            } => self.lock().open(*generation, id, tables),
            Command::DropTable { generation, table } => {
                self.lock().dropped.insert((*table, *generation));
            }
            Command::Target { generation, .. } => {
                self.lock().targeted.insert(*generation);
            }
            Command::Close {
                generation,
                aborted: true,
            } => {
                self.lock().aborted.insert(*generation);
            }
            Command::Close { generation, .. } => {
                self.lock().closed.insert(*generation);
            }
            _ => {}
        }
    }

    /// The id of each row's generation: that of a READ, or for a mutation that of the newest
    /// generation that is open or ready for its table.
    pub fn of_rows(&self, rows: &[Row<'_>]) -> Vec<Option<Arc<str>>> {
        let known = self.lock();
        let of = |row: &Row<'_>| match row.origin.generation {
            0 => u16::try_from(row.table)
                .ok()
                .and_then(|table| known.of_table(table)),
            number => known.ids.get(&number),
        };
        rows.iter().map(|row| of(row).cloned()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
