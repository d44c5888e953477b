//! The budget over its inputs, and rates over schedules of samples.

use super::{Budget, Rate, RateFrom, Rates, TtlVerdict, WINDOW_MS, WINDOWS_MAX, check_ttl, rate};
use crate::error::ErrorKind;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

const MINUTE: u64 = 60_000;

fn a_second(rows: u64) -> Rate {
    Rate {
        rows_per_hour: rows * 3600,
        from: RateFrom::Configured,
    }
}

/// Rates after so many READs in each window of five minutes, sampled every second.
fn of_windows(rows: &[u64]) -> Rates {
    let (mut rates, mut now_ms, mut read) = (Rates::default(), 0, 0);
    rates.sample(0, 0, false);
    for rows in rows {
        let before = read;
        for second in 1..=300 {
            now_ms += 1000;
            read = before + rows * second / 300;
            rates.sample(now_ms, read, false);
        }
    }
    rates
}

#[test]
fn the_formula_is_that_of_the_design() {
    // (33 min + 600,000 rows at 1,000/s = 10 min) x 1.5 + 5 min.
    let budget = Budget::of(33 * MINUTE, Some(600_000), a_second(1000), 5 * MINUTE);
    assert_eq!(budget.budget_ms, Some(43 * MINUTE * 3 / 2 + 5 * MINUTE));
    assert_eq!(budget.left_ms(), Some(10 * MINUTE));
    assert_eq!(budget.words(), "elapsed 33m of about 1h9m predicted");
    let shown = budget.gauge().expect("known");
    assert_eq!(
        (shown.needed_ms, shown.rows_per_second),
        (4_170_000, Some(1000))
    );
    let inputs = budget.inputs();
    for part in [
        "33m",
        "600,000 rows",
        "3,600,000 an hour",
        "rows_per_second_min",
        "5m",
    ] {
        assert!(inputs.contains(part), "{inputs}");
    }
}

#[test]
fn what_is_not_known_is_said() {
    let budget = Budget::of(MINUTE, None, a_second(1000), 0);
    assert_eq!((budget.budget_ms, budget.left_ms()), (None, None));
    assert_eq!(budget.gauge(), None);
    assert!(budget.words().contains("not known"), "{}", budget.words());
    let never = Budget::of(MINUTE, Some(1), a_second(0), 0);
    assert_eq!(never.budget_ms, Some(u64::MAX));
    assert!(never.words().contains("no end in sight"));
    let done = Budget::of(MINUTE, Some(0), a_second(0), 0);
    assert_eq!(done.budget_ms, Some(MINUTE * 3 / 2));
}

#[test]
fn a_ttl_is_compared_over_the_whole_table() {
    let known = Budget::of(0, Some(3_600_000), a_second(1000), 0);
    let unknown = Budget::of(0, None, a_second(1000), 0);
    let needed = known.budget_ms.expect("known");
    for require in [false, true] {
        assert_eq!(check_ttl(needed, &known, require), TtlVerdict::Fits);
        assert_eq!(check_ttl(1, &unknown, require), TtlVerdict::Unknown);
    }
    match check_ttl(needed - 1, &known, false) {
        TtlVerdict::Short(text) => assert!(text.contains("1h30m"), "{text}"),
        other => panic!("{other:?}"),
    }
    match check_ttl(needed - 1, &known, true) {
        TtlVerdict::Refuse(error) => {
            assert_eq!(error.kind, ErrorKind::Refused);
            assert!(
                error.text.contains("1h30m") && error.text.contains("1h29m"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rate_is_that_of_slow_windows() {
    assert_eq!(of_windows(&[]).rate(), None);
    let one = of_windows(&[3000]).rate().expect("a window");
    assert_eq!(one.rows_per_hour, 36_000);
    let mut rows = vec![9000; 19];
    rows.push(300);
    let mixed = of_windows(&rows).rate().expect("windows");
    // The second of twenty.
    assert_eq!(mixed.rows_per_hour, 108_000);
    rows.push(600);
    let slower = of_windows(&rows).rate().expect("windows");
    assert_eq!(slower.rows_per_hour, 108_000, "the third of twenty-one");
    rows.push(300);
    let slower = of_windows(&rows).rate().expect("windows");
    assert_eq!(slower.rows_per_hour, 7200);
    assert_eq!(slower.from, RateFrom::SlowWindows { windows: 22 });
}

#[test]
fn windows_without_any_read_do_not_make_it_endless() {
    let rate = of_windows(&[600, 0, 0, 0]).rate().expect("windows");
    assert_eq!(rate.rows_per_hour, 1800);
    assert_eq!(rate.from, RateFrom::AllWindows { windows: 4 });
}

#[test]
fn rates_fall_back_in_order() {
    let (own, last, none) = (of_windows(&[300]), of_windows(&[600]), Rates::default());
    assert_eq!(rate(&own, Some(&last), 7).rows_per_hour, 3600);
    let of_last = rate(&none, Some(&last), 7);
    assert_eq!(
        (of_last.rows_per_hour, of_last.from),
        (7200, RateFrom::LastGeneration)
    );
    let configured = rate(&none, Some(&none), 7);
    assert_eq!(
        (configured.rows_per_hour, configured.from),
        (25_200, RateFrom::Configured)
    );
    assert_eq!(rate(&none, None, 7), configured);
}

#[test]
fn what_a_manifest_keeps_is_small_and_goes_on() {
    let mut rates = of_windows(&vec![1_000_000; WINDOWS_MAX + 5]);
    assert_eq!(rates.windows.len(), WINDOWS_MAX);
    let json = serde_json::to_string(&rates).expect("plain data");
    assert!(json.len() < 4096, "{} bytes", json.len());
    let mut read: Rates = serde_json::from_str(&json).expect("as written");
    assert_eq!(read.rate(), rates.rate());
    // The counts of a new run begin at 0, and no READ is made up.
    read.sample(WINDOW_MS, 0, false);
    read.sample(WINDOW_MS + 1000, 10, false);
    assert_eq!(read.open_rows, 10);
    rates.sample(u64::MAX, 0, false);
    assert_eq!(rates.open_rows, 0, "fewer than before: nothing was read");
    let empty: Rates = serde_json::from_str("{}").expect("all members have a default");
    assert_eq!(empty, Rates::default());
}

#[test]
fn time_in_which_a_person_held_reads_back_is_no_slow_window() {
    let mut rates = Rates::default();
    rates.sample(0, 0, false);
    rates.sample(10 * WINDOW_MS, 0, false);
    assert_eq!(rates.rate(), None, "the snapshot had not begun");
    rates.sample(10 * WINDOW_MS + WINDOW_MS / 2, 500, false);
    rates.sample(90 * WINDOW_MS, 500, true);
    rates.sample(90 * WINDOW_MS + WINDOW_MS / 2, 1000, false);
    assert_eq!(rates.rate().expect("a window").rows_per_hour, 12_000);
}

proptest! {
    #[test]
    fn a_budget_never_shrinks_with_more_to_do(
        elapsed in any::<u64>(), rows in any::<u64>(), rate in any::<u64>(), margin in any::<u64>(),
        more in any::<u64>(),
    ) {
        let of = |elapsed: u64, rows: u64, rows_per_hour: u64| {
            let rate = Rate { rows_per_hour, from: RateFrom::Configured };
            Budget::of(elapsed, Some(rows), rate, margin).budget_ms.expect("known")
        };
        let base = of(elapsed, rows, rate);
        prop_assert!(base >= margin && base >= elapsed);
        prop_assert!(of(elapsed.saturating_add(more), rows, rate) >= base);
        prop_assert!(of(elapsed, rows.saturating_add(more), rate) >= base);
        prop_assert!(of(elapsed, rows, rate.saturating_add(more)) <= base);
    }

    #[test]
    fn no_schedule_of_samples_makes_a_rate_that_was_never_seen(
        steps in proptest::collection::vec((0u64..400_000, 0u64..5000, any::<bool>()), 0..200),
    ) {
        let (mut rates, mut now_ms, mut rows) = (Rates::default(), 0, 0);
        let (mut counted_ms, mut counted_rows) = (0, 0);
        rates.sample(0, 0, false);
        for (ms, more, waits) in steps {
            now_ms += ms;
            rows += more;
            rates.sample(now_ms, rows, waits);
            if !waits {
                counted_ms += ms;
                counted_rows += more;
            }
        }
        prop_assert!(rates.windows.len() <= WINDOWS_MAX);
        prop_assert!(rates.open_ms < WINDOW_MS && rates.open_ms <= counted_ms);
        prop_assert!(rates.open_rows <= counted_rows);
        if let Some(rate) = rates.rate() {
            let fastest = rates.windows.iter().copied().max().expect("a window");
            prop_assert!(rate.rows_per_hour <= fastest);
            prop_assert!(rate.rows_per_hour > 0);
        } else {
            prop_assert_eq!(rates.windows.iter().sum::<u64>(), 0);
        }
    }
}
