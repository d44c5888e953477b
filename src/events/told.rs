//! Which transitions were told, and which is next. Pure.
//!
//! The transitions of all generations have one order: by the tick at which each came about, then by
//! generation. A manifest counts how many of the first ones were told.
//!
//! Invariant: of one generation transitions are told in the order of its timeline; the count of a
//! manifest never covers one that was not told.

use crate::checkpoint::manifest::GenerationState;
use std::collections::BTreeMap;

/// A transition, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index among the generations of the manifest.
    pub generation: usize,
    /// Index in its timeline.
    pub index: usize,
}

/// How many transitions of each generation were told, by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told(BTreeMap<u32, usize>);

impl Told {
    /// What a manifest with these generations, that counts `sent`, says.
    pub fn first(generations: &[GenerationState], sent: u64) -> Told {
        let mut told = Told::default();
        let sent = usize::try_from(sent).unwrap_or(usize::MAX);
        for step in steps(generations).into_iter().take(sent) {
            told.tell(generations[step.generation].number, step.index + 1);
        }
        told
    }

    /// The first transition that was not told.
    pub fn next(&self, generations: &[GenerationState]) -> Option<Step> {
        steps(generations)
            .into_iter()
            .find(|step| !self.has(generations, *step))
    }

    /// Transition `seq` (from 1) of generation `number` was told; those before it were.
    pub fn tell(&mut self, number: u32, seq: usize) {
        let count = self.0.entry(number).or_default();
        *count = (*count).max(seq);
    }

    /// How many of the first transitions of a manifest with these generations were told. One of
    /// two generations that changed at one tick may come before another that was told: then that
    /// one is not counted, and told again after a restart.
    pub fn count(&self, generations: &[GenerationState]) -> u64 {
        let steps = steps(generations);
        let told = steps
            .into_iter()
            .take_while(|step| self.has(generations, *step));
        told.count() as u64
    }

    fn has(&self, generations: &[GenerationState], step: Step) -> bool {
        let told = self.0.get(&generations[step.generation].number);
        told.is_some_and(|told| step.index < *told)
    }
}

/// All transitions, in order.
fn steps(generations: &[GenerationState]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (generation, state) in generations.iter().enumerate() {
        let mut latest = 0;
        for (index, reached) in state.reached.iter().enumerate() {
            // Ticks do not fall in a timeline; should they, its own order counts.
            latest = reached.tick_ms.max(latest);
            steps.push((latest, state.number, Step { generation, index }));
        }
    }
    steps.sort_by_key(|(tick_ms, number, step)| (*tick_ms, *number, step.index));
    steps.into_iter().map(|(_, _, step)| step).collect()
}

#[cfg(test)]
mod tests {
    use super::{GenerationState, Told};
    use crate::generation::{Reached, Stage};

    /// Generations whose transitions came about at these ticks.
    fn of(ticks: &[&[u64]]) -> Vec<GenerationState> {
        let reached = |tick_ms: &u64| Reached {
            stage: Stage::Open,
            tick_ms: *tick_ms,
            ..Reached::default()
        };
        let state = |(number, ticks): (u32, &&[u64])| GenerationState {
            number,
            reached: ticks.iter().map(reached).collect(),
            ..GenerationState::default()
        };
        (1..).zip(ticks).map(state).collect()
    }

    /// Generation and place of all that is told after `told`, in order.
    fn rest(mut told: Told, generations: &[GenerationState]) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        while let Some(step) = told.next(generations) {
            all.push((step.generation + 1, step.index + 1));
            told.tell(generations[step.generation].number, step.index + 1);
        }
        let all_told = Told::first(generations, u64::MAX);
        assert_eq!(told.count(generations), all_told.count(generations));
        all
    }

    #[test]
    fn transitions_come_by_tick_then_by_generation() {
        let generations = of(&[&[0, 100, 200], &[150, 200, 300]]);
        let all = [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (2, 3)];
        assert_eq!(rest(Told::default(), &generations), all);
        for sent in 0..=all.len() {
            let told = Told::first(&generations, sent as u64);
            assert_eq!(told.count(&generations), sent as u64);
            assert_eq!(rest(told, &generations), all[sent..], "{sent} sent");
        }
        assert!(rest(Told::first(&generations, 99), &generations).is_empty());
        assert!(rest(Told::default(), &[]).is_empty());
    }

    #[test]
    fn a_timeline_whose_ticks_fall_keeps_its_order() {
        let generations = of(&[&[100, 50, 60], &[70]]);
        let all = [(2, 1), (1, 1), (1, 2), (1, 3)];
        assert_eq!(rest(Told::default(), &generations), all);
    }

    #[test]
    fn one_that_slips_in_before_what_was_told_is_told_and_nothing_is_counted_that_was_not() {
        // Both at tick 200, but the cut of the first manifest lay between them.
        let before = of(&[&[0], &[200]]);
        let after = of(&[&[0, 200], &[200]]);
        let mut told = Told::first(&before, 2);
        assert_eq!(told.count(&after), 1);
        let next = told.next(&after).expect("not told");
        assert_eq!((next.generation, next.index), (0, 1));
        told.tell(1, 2);
        assert_eq!(told.count(&after), 3);
        assert_eq!(told.next(&after), None);
    }
}
