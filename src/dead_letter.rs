//! Dead letters: mutations that cannot be decoded, opted into by `decode.on_error = "dead_letter"`.
//!
//! ```text
//!  [Feed] ─ a letter, counted where offsets are ─▶ Merge (marks and poisons its key) ─▶ output
//! ```
//! Invariant: what a manifest counts are exactly the letters before its cut, of all runs. Nothing
//! but a person's word takes a letter away, and that for the topic and table it was given for: one
//! that nobody has accepted is asked about by every later generation of its table, as a DELETE
//! that was lost leaves a row in the target that no READ takes away.
//!
//! It cannot say what was lost: the output has the records as they came ([`letter`]).

pub mod letter;

use crate::checkpoint::manifest::GenerationState;
use crate::generation::admit;
use serde::{Deserialize, Serialize};

/// Letters of one topic and table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The topic.
    pub topic: String,
    /// The number of their table; of all tables of the topic when that is not known.
    pub tables: Vec<u16>,
    /// How many.
    pub letters: u64,
    /// Those of them of which the key is not known either.
    pub keyless: u64,
}

/// Letters of one topic and table that a person has accepted as lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The topic.
    pub topic: String,
    /// As in [`Counted`].
    pub tables: Vec<u16>,
    /// How many.
    pub letters: u64,
}

/// Counts one letter of a topic, of these tables.
pub fn count(into: &mut Vec<Counted>, topic: &str, tables: &[u16], keyless: bool) {
    let one = Counted {
        topic: topic.to_owned(),
        tables: tables.to_vec(),
        letters: 1,
        keyless: u64::from(keyless),
    };
    add_up(into, &[one]);
}

/// Adds counts of other workers, or of other runs of the job, to `into`.
pub fn add_up(into: &mut Vec<Counted>, more: &[Counted]) {
    for one in more {
        let place = |of: &&mut Counted| (&of.topic, &of.tables) == (&one.topic, &one.tables);
        match into.iter_mut().find(place) {
            Some(known) => {
                known.letters += one.letters;
                known.keyless += one.keyless;
            }
            None => into.push(one.clone()),
        }
    }
    into.sort_by(|a, b| (&a.topic, &a.tables).cmp(&(&b.topic, &b.tables)));
}

/// All letters, and those without a key.
pub fn total(list: &[Counted]) -> (u64, u64) {
    list.iter().fold((0, 0), |(letters, keyless), of| {
        (letters + of.letters, keyless + of.keyless)
    })
}

/// The letters of the tables that a generation still has.
fn of_its_tables<'l>(
    list: &'l [Counted],
    state: &GenerationState,
) -> impl Iterator<Item = &'l Counted> {
    let tables: Vec<u16> = admit::left(state).collect();
    let of_it = move |of: &&Counted| of.tables.iter().any(|table| tables.contains(table));
    list.iter().filter(of_it)
}

fn accepted(state: &GenerationState, of: &Counted) -> u64 {
    let mut known = state.dead_letters_accepted.iter();
    let known = known.find(|known| (&known.topic, &known.tables) == (&of.topic, &of.tables));
    known.map_or(0, |known| known.letters)
}

/// The letters of a generation's tables that nobody has accepted.
pub fn unaccepted(list: &[Counted], state: &GenerationState) -> u64 {
    let left = |of: &Counted| of.letters.saturating_sub(accepted(state, of));
    of_its_tables(list, state).map(left).sum()
}

/// What is accepted of a generation when a person accepts all that was counted so far.
pub fn accept(list: &[Counted], state: &GenerationState) -> Vec<Accepted> {
    let now = of_its_tables(list, state).map(|of| Accepted {
        topic: of.topic.clone(),
        tables: of.tables.clone(),
        letters: of.letters,
    });
    join([state.dead_letters_accepted.clone(), now.collect()].concat())
}

/// What a later generation need not ask about again: it was accepted for an earlier one.
pub fn inherited<'g>(earlier: impl Iterator<Item = &'g GenerationState>) -> Vec<Accepted> {
    join(
        earlier
            .flat_map(|of| of.dead_letters_accepted.clone())
            .collect(),
    )
}

/// The most that was accepted for each place.
fn join(mut all: Vec<Accepted>) -> Vec<Accepted> {
    all.sort_by(|a, b| (&a.topic, &a.tables, b.letters).cmp(&(&b.topic, &b.tables, a.letters)));
    all.dedup_by(|b, a| (&a.topic, &a.tables) == (&b.topic, &b.tables));
    all
}

#[cfg(test)]
mod tests {
    use super::{accept, add_up, count, inherited, total, unaccepted};
    use crate::checkpoint::manifest::GenerationState;

    fn generation(tables: &[u16]) -> GenerationState {
        GenerationState {
            tables: tables.to_vec(),
            ..GenerationState::default()
        }
    }

    #[test]
    fn letters_count_for_the_generations_of_their_table() {
        let mut list = Vec::new();
        count(&mut list, "a", &[0], false);
        count(&mut list, "a", &[0], false);
        count(&mut list, "b", &[1, 2], true);
        assert_eq!((list.len(), total(&list)), (2, (3, 1)));
        let mut sum = list.clone();
        add_up(&mut sum, &list);
        assert_eq!((sum.len(), total(&sum)), (2, (6, 2)));
        for (tables, letters) in [(&[0, 1][..], 3), (&[0], 2), (&[2], 1), (&[3], 0)] {
            assert_eq!(
                unaccepted(&list, &generation(tables)),
                letters,
                "{tables:?}"
            );
        }
    }

    #[test]
    fn what_was_accepted_is_of_its_table_and_of_that_moment() {
        let mut list = Vec::new();
        (0..3).for_each(|_| count(&mut list, "a", &[0], false));
        let mut state = generation(&[0, 1]);
        state.dead_letters_accepted = accept(&list, &state);
        assert_eq!(unaccepted(&list, &state), 0);
        // Letters of the other table are not covered by what was accepted of a table that went.
        state.dropped_tables = vec![0];
        (0..2).for_each(|_| count(&mut list, "b", &[1], false));
        assert_eq!(unaccepted(&list, &state), 2);
        // A later generation asks about what is new alone.
        let mut later = generation(&[0]);
        assert_eq!(unaccepted(&list, &later), 3);
        later.dead_letters_accepted = inherited([&state, &generation(&[0])].into_iter());
        assert_eq!(unaccepted(&list, &later), 0);
        count(&mut list, "a", &[0], true);
        assert_eq!(unaccepted(&list, &later), 1);
        later.dead_letters_accepted = accept(&list, &later);
        assert_eq!(unaccepted(&list, &later), 0);
        assert_eq!(later.dead_letters_accepted.len(), 1);
    }
}
