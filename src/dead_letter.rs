//! Dead letters: mutations that cannot be decoded, opted into by `decode.on_error = "dead_letter"`.
//!
//! ```text
//!  [Feed] ─ a letter, counted where offsets are ─▶ Merge (marks and poisons its key) ─▶ output
//! ```
//! Invariant: what a manifest counts are exactly the letters before its cut, of all runs; no count
//! of a generation is ever too small. Nothing but a person's word takes a letter away.
//!
//! It cannot say what was lost: the output has the records as they came ([`letter`]). When letters
//! came is kept coarsely, so a generation may count some that came just before its window.

pub mod letter;

use crate::checkpoint::manifest::GenerationState;
use crate::generation::admit;
use serde::{Deserialize, Serialize};

/// Letters of so much job time are counted together.
const SPAN_MS: u64 = 60_000;
/// Counts of one topic and table; beyond it the oldest become one.
const SPANS_MAX: usize = 64;

/// Letters of one topic and table that came about the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The topic.
    pub topic: String,
    /// The number of their table; of all tables of the topic when that is not known.
    pub tables: Vec<u16>,
    /// Job time of the first.
    pub first_ms: u64,
    /// Job time of the last.
    pub last_ms: u64,
    /// How many.
    pub letters: u64,
    /// Those of them of which the key is not known either.
    pub keyless: u64,
}

impl Counted {
    fn place(&self) -> (&str, &[u16]) {
        (&self.topic, &self.tables)
    }
}

/// Counts one letter of a topic, of these tables, at job time `now_ms`, which grows.
pub fn count(into: &mut Vec<Counted>, topic: &str, tables: &[u16], keyless: bool, now_ms: u64) {
    let mut latest = into.iter_mut().rev();
    let latest = latest.find(|of| of.place() == (topic, tables));
    if let Some(span) = latest.filter(|of| now_ms.saturating_sub(of.first_ms) < SPAN_MS) {
        span.last_ms = now_ms.max(span.last_ms);
        span.letters += 1;
        span.keyless += u64::from(keyless);
        return;
    }
    into.push(Counted {
        topic: topic.to_owned(),
        tables: tables.to_vec(),
        first_ms: now_ms,
        last_ms: now_ms,
        letters: 1,
        keyless: u64::from(keyless),
    });
    bound(into);
}

/// Adds counts of other workers, or of other runs of the job, to `into`.
pub fn add_up(into: &mut Vec<Counted>, more: &[Counted]) {
    into.extend_from_slice(more);
    into.sort_by(|a, b| {
        let of = |one: &Counted| (one.topic.clone(), one.tables.clone(), one.last_ms);
        of(a).cmp(&of(b))
    });
    bound(into);
}

/// Makes one of the two oldest counts of a place that has too many. That the later time counts for
/// both can only make a generation count more.
fn bound(list: &mut Vec<Counted>) {
    let mut index = 0;
    while index < list.len() {
        let of = |one: &Counted| one.place() == list[index].place();
        let same: Vec<usize> = (0..list.len()).filter(|at| of(&list[*at])).collect();
        if same[0] == index && same.len() > SPANS_MAX {
            let oldest = list.remove(index);
            let next = &mut list[same[1] - 1];
            next.first_ms = oldest.first_ms.min(next.first_ms);
            next.last_ms = oldest.last_ms.max(next.last_ms);
            next.letters += oldest.letters;
            next.keyless += oldest.keyless;
        } else {
            index += 1;
        }
    }
}

/// All letters, and those without a key.
pub fn total(list: &[Counted]) -> (u64, u64) {
    list.iter().fold((0, 0), |(letters, keyless), of| {
        (letters + of.letters, keyless + of.keyless)
    })
}

/// The letters of a generation's tables since the begin of its window, accepted or not. One from
/// before it is no loss: its READs are newer.
pub fn since(list: &[Counted], state: &GenerationState, start_margin_ms: u64) -> u64 {
    let from_ms = state.opened_at_ms.saturating_sub(start_margin_ms);
    let tables: Vec<u16> = admit::left(state).collect();
    let of_it = |of: &&Counted| {
        of.last_ms >= from_ms && of.tables.iter().any(|table| tables.contains(table))
    };
    list.iter().filter(of_it).map(|of| of.letters).sum()
}

/// Those of them that nobody has accepted.
pub fn unaccepted(list: &[Counted], state: &GenerationState, start_margin_ms: u64) -> u64 {
    since(list, state, start_margin_ms).saturating_sub(state.dead_letters_accepted)
}

#[cfg(test)]
mod tests {
    use super::{Counted, SPANS_MAX, add_up, count, since, total, unaccepted};
    use crate::checkpoint::manifest::GenerationState;

    fn generation(opened_at_ms: u64, tables: &[u16]) -> GenerationState {
        GenerationState {
            opened_at_ms,
            tables: tables.to_vec(),
            ..GenerationState::default()
        }
    }

    #[test]
    fn letters_count_for_the_generations_that_may_lack_them() {
        let mut list = Vec::new();
        count(&mut list, "a", &[0], false, 100_000);
        count(&mut list, "a", &[0], false, 100_500);
        count(&mut list, "b", &[1, 2], true, 300_000);
        assert_eq!((list.len(), total(&list)), (2, (3, 1)));
        for (opened_at_ms, tables, letters) in [
            (0, &[0, 1][..], 3),
            (0, &[0], 2),
            (0, &[2], 1),
            (0, &[3], 0),
            (200_400, &[0], 2),
            (200_501, &[0], 0),
            (200_501, &[1], 1),
        ] {
            let state = generation(opened_at_ms, tables);
            assert_eq!(since(&list, &state, 100_000), letters, "{state:?}");
        }
        let mut state = generation(0, &[0, 1]);
        state.dead_letters_accepted = 2;
        assert_eq!(unaccepted(&list, &state, 0), 1);
        state.dropped_tables = vec![1];
        assert_eq!(unaccepted(&list, &state, 0), 0);
    }

    #[test]
    fn counts_are_bounded_and_never_too_small() {
        let (mut one, mut two, mut all) = (Vec::new(), Vec::new(), Vec::new());
        let last_ms = 200 * 60_000;
        for minute in 0..=200_u64 {
            let half = if minute % 2 == 0 { &mut one } else { &mut two };
            for list in [half, &mut all] {
                count(list, "t", &[0], false, minute * 60_000);
                count(list, "t", &[0, 1], true, minute * 60_000);
            }
        }
        let mut sum: Vec<Counted> = Vec::new();
        add_up(&mut sum, &two);
        add_up(&mut sum, &one);
        for list in [&sum, &all] {
            assert_eq!((list.len(), total(list)), (2 * SPANS_MAX, (402, 201)));
            for minute in 0..=200 {
                let state = generation(minute * 60_000, &[0]);
                let letters = since(list, &state, 0);
                assert!(letters >= 2 * (201 - minute), "minute {minute}: {letters}");
            }
            assert_eq!(since(list, &generation(last_ms, &[0]), 0), 2);
            assert_eq!(since(list, &generation(last_ms, &[1]), 0), 1);
        }
    }
}
