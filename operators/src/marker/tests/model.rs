//! Random histories: marks, horizons, lookups and restores, with merging in between by chance.
//!
//! The model keeps a map of latest ticks and the list of all ticks marked; it has no runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::{
    Just, ProptestConfig, Strategy, TestCaseError, prop, prop_assert, prop_assert_eq, prop_oneof,
    proptest,
};

use super::{TICK_MS, fingerprint, small, worker_range};
use crate::marker::{MarkerArrangement, MarkerStats, MarkerStore, Run};

#[derive(Clone, Debug)]
enum Step {
    /// Keys of the universe at a tick.
    Mark(u64, Vec<u64>),
    Forget(u64),
    Work(usize),
    Seal,
    Look(Vec<u64>),
    /// Checkpoint, encode, decode, and restore into a new arrangement.
    Restore,
    /// Someone else holds the runs from here on, like a checkpoint that is being written.
    Share,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = || prop::collection::vec(0..120u64, 1..40);
    let step = prop_oneof![
        8 => (0..60u64, keys()).prop_map(|(tick, keys)| Step::Mark(tick * TICK_MS, keys)),
        2 => (0..70 * TICK_MS).prop_map(Step::Forget),
        4 => (1..90usize).prop_map(Step::Work),
        1 => Just(Step::Seal),
        4 => keys().prop_map(Step::Look),
        1 => Just(Step::Restore),
        1 => Just(Step::Share),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Default)]
struct Model {
    latest: BTreeMap<u128, u64>,
    marked: Vec<u64>,
    horizon: Option<u64>,
}

impl Model {
    fn look(&self, fingerprint: u128) -> Option<u64> {
        self.latest
            .get(&fingerprint)
            .copied()
            .filter(|tick| Some(*tick) > self.horizon)
    }

    fn forgotten(&self) -> Option<u64> {
        self.marked
            .iter()
            .copied()
            .filter(|tick| Some(*tick) <= self.horizon)
            .max()
    }
}

struct Pair {
    store: MarkerArrangement,
    model: Model,
    range: std::ops::RangeInclusive<u64>,
    shared: Vec<Arc<Run>>,
}

impl Pair {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let prints = |keys: &[u64]| -> Vec<u128> {
            keys.iter()
                .map(|key| fingerprint(*key, &self.range))
                .collect()
        };
        match step {
            Step::Mark(tick, keys) => {
                let keys = prints(keys);
                self.store.mark(*tick, &keys);
                self.model.marked.push(*tick);
                for key in keys {
                    let latest = self.model.latest.entry(key).or_insert(0);
                    *latest = (*latest).max(*tick);
                }
            }
            Step::Forget(horizon) => {
                self.store.forget_through(*horizon);
                self.model.horizon = self.model.horizon.max(Some(*horizon));
            }
            Step::Work(fuel) => _ = self.store.work(*fuel),
            Step::Seal => self.store.seal(),
            Step::Look(keys) => self.check(&prints(keys))?,
            Step::Restore => self.restore(),
            Step::Share => self.shared = self.store.runs().cloned().collect(),
        }
        prop_assert_eq!(self.store.forgotten_through(), self.model.forgotten());
        Ok(())
    }

    fn check(&mut self, keys: &[u128]) -> Result<(), TestCaseError> {
        let mut found = vec![Some(1)];
        self.store.latest(keys, &mut found);
        prop_assert_eq!(found[0], Some(1), "what was in the vector stays");
        let expected: Vec<_> = keys.iter().map(|key| self.model.look(*key)).collect();
        prop_assert_eq!(&found[1..], &expected[..]);
        Ok(())
    }

    fn restore(&mut self) {
        self.store.seal();
        let ticks = self.store.marked_ticks();
        let mut restored = small(self.range.clone());
        restored.restore_ticks(ticks.horizon(), ticks.forgotten(), ticks.spans());
        for run in self.store.runs() {
            let run = Run::decode(&run.encode()).expect("encode writes what decode reads");
            restored.insert_run(Arc::new(run));
        }
        self.store = restored;
    }
}

fn everything(range: &std::ops::RangeInclusive<u64>) -> Vec<u128> {
    (0..140).map(|key| fingerprint(key, range)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn answers_as_the_model_does(steps in steps(), workers in 1..4u64, worker in 0..3u64) {
        let range = worker_range(worker % workers, workers);
        let store = small(range.clone());
        let mut pair = Pair { store, model: Model::default(), range, shared: Vec::new() };
        for step in &steps {
            pair.step(step)?;
        }
        let all = everything(&pair.range);
        pair.check(&all)?;
        while pair.store.work(usize::MAX) {}
        pair.check(&all)?;
        let MarkerStats { markers, owed, .. } = pair.store.stats();
        let live = all.iter().filter(|key| pair.model.look(**key).is_some()).count();
        prop_assert!(markers >= live as u64);
        prop_assert_eq!(owed, 0);
    }

    #[test]
    fn no_answer_depends_on_fuel(steps in steps(), fuels in prop::collection::vec(0..200usize, 8)) {
        let range = worker_range(1, 3);
        let all = everything(&range);
        let run = |fuels: &[usize]| {
            let mut store = small(range.clone());
            let mut answers = Vec::new();
            for (at, step) in steps.iter().enumerate() {
                match step {
                    Step::Mark(tick, keys) => {
                        let keys: Vec<_> = keys.iter().map(|key| all[*key as usize]).collect();
                        store.mark(*tick, &keys);
                    }
                    Step::Forget(horizon) => store.forget_through(*horizon),
                    _ => {}
                }
                if !fuels.is_empty() {
                    store.work(fuels[at % fuels.len()]);
                }
                store.latest(&all, &mut answers);
                answers.push(store.forgotten_through());
            }
            answers
        };
        let lazy = run(&[]);
        prop_assert_eq!(&lazy, &run(&fuels));
        prop_assert_eq!(&lazy, &run(&[usize::MAX]));
    }
}

/// Merges really happen in such histories, large runs go whole, and little is left.
#[test]
fn work_merges_and_horizons_free() {
    let range = worker_range(0, 1);
    let mut store = small(range.clone());
    let all: Vec<_> = (0..40_000).map(|key| fingerprint(key, &range)).collect();
    for (tick, keys) in all.chunks(100).enumerate() {
        store.mark(tick as u64 * TICK_MS, keys);
        store.work(2_000);
    }
    while store.work(10_000) {}
    assert!(store.stats().runs < 12, "{:?}", store.stats());
    let before = store.stats();
    assert_eq!(before.markers, 40_000);
    store.forget_through(299 * TICK_MS);
    while store.work(10_000) {}
    let mut found = Vec::new();
    store.latest(&all, &mut found);
    assert!(found[..30_000].iter().all(Option::is_none));
    assert!(found[30_000..].iter().all(Option::is_some));
    let half = store.stats();
    assert!(half.markers <= 20_000, "forgotten markers stay: {half:?}");
    store.forget_through(u64::MAX);
    while store.work(10_000) {}
    assert_eq!(store.stats().markers, 0);
    assert_eq!(store.stats().runs, 0);
    assert_eq!(store.forgotten_through(), Some(399 * TICK_MS));
}
