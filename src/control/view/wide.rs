//! Alarms, retention and lag as the status document tells them. Pure.
//!
//! It cannot tell when a tick was better than the table of job time and wall time does: that is
//! coarse, and the clock of the host wrote it.

use super::generations::instant;
use super::{Facts, seconds};
use crate::control::document::{Alarm, Budget, Lag, ReadControl, Retention};
use crate::job::{self, Shown};

pub(super) fn alarms(shown: &Shown) -> Vec<Alarm> {
    let alarm = |alarm: &job::Alarm| Alarm {
        name: alarm.name.clone(),
        text: alarm.text.clone(),
        remedy: alarm.remedy.clone(),
        critical: alarm.critical,
    };
    shown.alarms.iter().map(alarm).collect()
}

pub(super) fn read_control(control: &crate::checkpoint::manifest::ReadControl) -> ReadControl {
    ReadControl {
        paused: control.paused,
        rate_set: control.per_second_max.is_some(),
        per_second_max: control.per_second_max.flatten(),
        markers_max: control.markers_max,
    }
}

pub(super) fn lag(shown: &Shown) -> Vec<Lag> {
    let lags = shown.gauges.lag.iter();
    lags.map(|lag| Lag {
        topic: lag.topic.clone(),
        role: lag.role.word().to_owned(),
        records: lag.records,
        seconds: lag.behind_ms().map(of_ms),
    })
    .collect()
}

/// The retention of now; `now_ms` is wall time.
pub(super) fn retention(facts: &Facts, shown: &Shown, now_ms: i64) -> Retention {
    let state = &shown.retention;
    let ttl_ms = state.ttl_ms;
    let policy = match (ttl_ms, state.open_late_max_ms) {
        (Some(_), _) => Some("ttl"),
        (None, Some(_)) => Some("until_ready"),
        (None, None) => None,
    };
    let open = shown.generations.iter().map(|generation| &generation.state);
    let open = open.filter(|state| state.stage.takes_reads());
    let began = open.map(|state| state.opened_at_ms).min();
    let window = began.map(|began| began.saturating_sub(state.start_margin_ms));
    let used_ms = window.map(|began| shown.now_ms.saturating_sub(began));
    let allowed = ttl_ms.or(facts.rebuild_alarm_after_ms);
    let ratio = |used: u64| Some(used as f64 / allowed.filter(|ms| *ms > 0)? as f64);
    let at = |tick| wall(tick, shown, now_ms);
    Retention {
        policy: policy.map(str::to_owned),
        keeps: facts.keeps.clone(),
        ttl_seconds: ttl_ms.map(of_ms),
        start_margin_seconds: of_ms(state.start_margin_ms),
        open_late_max_seconds: state.open_late_max_ms.map(of_ms),
        forgotten_through: shown.forgotten_through_ms.map(at),
        window_started_at: window.map(at),
        window_seconds: used_ms.map(of_ms),
        used_ratio: used_ms.and_then(ratio),
        budget: shown.gauges.budget.as_ref().map(|budget| Budget {
            needed_seconds: of_ms(budget.needed_ms),
            elapsed_seconds: of_ms(budget.elapsed_ms),
            left_seconds: budget.left_ms.map(of_ms),
            rows_left: budget.rows_left,
            rows_per_second: budget.rows_per_second,
            rate_from: budget.rate_from.clone(),
        }),
    }
}

/// When a tick was: by the table, and after its last entry by the clock of now.
fn wall(tick_ms: u64, shown: &Shown, now_ms: i64) -> String {
    let table = &shown.gauges.wall;
    let after = table.partition_point(|(logical, _)| *logical <= tick_ms);
    let before = after.checked_sub(1).map(|index| table[index]);
    let now = u64::try_from(now_ms).unwrap_or(0);
    let at = match (before, table.get(after)) {
        (Some((logical, wall)), Some(_)) => wall.saturating_add(tick_ms - logical),
        (None, Some((logical, wall))) => wall.saturating_sub(logical - tick_ms),
        (_, None) => now.saturating_sub(shown.now_ms.saturating_sub(tick_ms)),
    };
    instant(at)
}

fn of_ms(ms: u64) -> f64 {
    seconds(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Facts, retention, wall};
    use crate::generation::Stage;
    use crate::job::{Shown, ShownGeneration};

    fn shown(ttl_ms: Option<u64>) -> Shown {
        let mut shown = Shown {
            now_ms: 100_000,
            forgotten_through_ms: Some(20_000),
            ..Shown::default()
        };
        shown.retention.ttl_ms = ttl_ms;
        shown.retention.start_margin_ms = 10_000;
        for (stage, opened_at_ms) in [(Stage::Superseded, 0), (Stage::Open, 60_000)] {
            let mut one = ShownGeneration::default();
            (one.state.stage, one.state.opened_at_ms) = (stage, opened_at_ms);
            shown.generations.push(one);
        }
        shown
    }

    #[test]
    fn the_window_is_that_of_the_oldest_open_generation() {
        let facts = Facts {
            rebuild_alarm_after_ms: Some(500_000),
            ..Facts::default()
        };
        let found = retention(&facts, &shown(Some(200_000)), 1_000_000);
        assert_eq!(found.policy.as_deref(), Some("ttl"));
        assert_eq!(found.window_seconds, Some(50.0));
        assert_eq!(found.used_ratio, Some(0.25));
        let at = |text: &str| Some(text.to_owned());
        assert_eq!(found.window_started_at, at("1970-01-01T00:15:50Z"));
        assert_eq!(found.forgotten_through, at("1970-01-01T00:15:20Z"));
        let found = retention(&facts, &shown(None), 1_000_000);
        assert_eq!((found.policy, found.used_ratio), (None, Some(0.1)));
        let none = retention(&facts, &Shown::default(), 0);
        assert_eq!((none.window_seconds, none.used_ratio), (None, None));
    }

    #[test]
    fn an_outage_is_not_counted_as_job_time() {
        let mut shown = shown(None);
        shown.gauges.wall = vec![(0, 1_000), (50_000, 900_000)];
        assert_eq!(wall(10_000, &shown, 1_000_000), "1970-01-01T00:00:11Z");
        assert_eq!(wall(99_000, &shown, 1_000_000), "1970-01-01T00:16:39Z");
    }
}
