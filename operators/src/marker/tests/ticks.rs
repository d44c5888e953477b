//! The marked ticks: exact while they fit, on the safe side when they do not.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::TICK_MS;
use crate::marker::MarkedTicks;

fn truth(marked: &[u64], horizon: u64) -> Option<u64> {
    marked.iter().copied().filter(|tick| *tick <= horizon).max()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn exact_while_the_spans_fit(
        history in prop::collection::vec((0..200u64, any::<bool>()), 1..200),
    ) {
        let mut ticks = MarkedTicks::new(TICK_MS, 1000);
        let (mut marked, mut horizon) = (Vec::new(), None);
        for (value, forget) in history {
            if forget {
                ticks.forget_through(value * 7);
                horizon = horizon.max(Some(value * 7));
            } else {
                ticks.mark(value * TICK_MS);
                marked.push(value * TICK_MS);
            }
            let expected = horizon.and_then(|horizon| truth(&marked, horizon));
            prop_assert_eq!(ticks.forgotten(), expected);
        }
    }

    #[test]
    fn never_too_early_when_they_do_not_fit(
        history in prop::collection::vec((0..4_000u64, 0..9u8), 1..300),
        unaligned in any::<bool>(),
    ) {
        let mut ticks = MarkedTicks::new(TICK_MS, 4);
        let (mut marked, mut horizon) = (Vec::new(), 0);
        for (value, kind) in history {
            if kind == 0 {
                horizon = horizon.max(value);
                ticks.forget_through(value);
            } else {
                let tick = if unaligned { value } else { value / TICK_MS * TICK_MS };
                ticks.mark(tick);
                marked.push(tick);
            }
            prop_assert!(ticks.spans().count() <= 4);
            if ticks.horizon().is_some() {
                let forgotten = ticks.forgotten();
                prop_assert!(forgotten >= truth(&marked, horizon));
                prop_assert!(forgotten.is_none_or(|tick| tick <= horizon));
            }
        }
        ticks.forget_through(u64::MAX);
        prop_assert_eq!(ticks.forgotten(), marked.iter().copied().max());
    }
}

#[test]
fn a_busy_stream_is_one_span() {
    let mut ticks = MarkedTicks::new(TICK_MS, 4);
    for tick in 0..100_000 {
        ticks.mark(tick * TICK_MS);
    }
    assert_eq!(ticks.spans().collect::<Vec<_>>(), [(0, 99_999 * TICK_MS)]);
    ticks.forget_through(50_010);
    assert_eq!(ticks.forgotten(), Some(50_000));
    assert_eq!(
        ticks.spans().collect::<Vec<_>>(),
        [(50_020, 99_999 * TICK_MS)]
    );
}

#[test]
fn a_late_mark_is_forgotten_at_once() {
    let mut ticks = MarkedTicks::new(TICK_MS, 4);
    ticks.forget_through(1_000);
    assert_eq!(ticks.forgotten(), None);
    ticks.mark(500);
    assert_eq!(ticks.forgotten(), Some(500));
    ticks.mark(300);
    assert_eq!(ticks.forgotten(), Some(500));
    ticks.forget_through(10);
    assert_eq!(ticks.horizon(), Some(1_000));
}
