//! The marker limit: an alarm near it, READs wait at it, and a clean stop before memory is gone.
//!
//! Source: design.md section 5. Mutations never wait, so markers grow on while READs wait; what
//! helps is named.
//!
//! Invariant: [`Limit::StopCleanly`] is final, and no state is left for a lower one within 5 % of
//! the threshold that it was come into by, so that nothing flaps.

use super::about;
use crate::error::Error;
use crate::job::Wait;
use crate::summary::grouped;
use std::collections::VecDeque;

/// In hundredths of the limit: come into at, left for a lower one below.
const NEAR: (u64, u64) = (80, 75);
const WAIT: (u64, u64) = (100, 95);
const STOP: u64 = 120;
/// Growth is measured over so much job time.
const GROWTH_OVER_MS: u64 = 3_600_000;
/// Samples of growth are at least so far apart.
const GROWTH_EVERY_MS: u64 = 60_000;

/// What the number of markers asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Nothing.
    #[default]
    Free,
    /// An alarm.
    Near,
    /// READs wait.
    Wait,
    /// The job stops: last checkpoint, exit code 4.
    StopCleanly,
}

/// What `markers` of the whole job ask for, when `before` was asked for until now.
pub fn decide(before: Limit, markers: u64, markers_max: u64) -> Limit {
    let at_least = |hundredths: u64| {
        u128::from(markers) * 100 >= u128::from(markers_max.max(1)) * u128::from(hundredths)
    };
    let held = |state: Limit, (enter, leave): (u64, u64)| {
        at_least(enter) || (before >= state && at_least(leave))
    };
    match () {
        () if before == Limit::StopCleanly || at_least(STOP) => Limit::StopCleanly,
        () if held(Limit::Wait, WAIT) => Limit::Wait,
        () if held(Limit::Near, NEAR) => Limit::Near,
        () => Limit::Free,
    }
}

/// How fast markers grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Job time and markers, oldest first.
    samples: VecDeque<(u64, u64)>,
}

impl Growth {
    /// Takes the number of markers at a job time; may be called as often as one likes.
    pub fn sample(&mut self, now_ms: u64, markers: u64) {
        let due = |last: &(u64, u64)| now_ms >= last.0.saturating_add(GROWTH_EVERY_MS);
        if self.samples.back().is_none_or(due) {
            self.samples.push_back((now_ms, markers));
        }
        while self.samples.len() > 2 && now_ms.saturating_sub(self.samples[1].0) >= GROWTH_OVER_MS {
            self.samples.pop_front();
        }
    }

    /// Markers an hour, over the last hour or what is known of it; none in the first minute.
    pub fn per_hour(&self) -> Option<i64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let ms = i128::from(last.0.checked_sub(first.0).filter(|ms| *ms > 0)?);
        let more = i128::from(last.1) - i128::from(first.1);
        let an_hour = more * i128::from(GROWTH_OVER_MS) / ms;
        Some(i64::try_from(an_hour).unwrap_or(if an_hour < 0 { i64::MIN } else { i64::MAX }))
    }
}

/// `growing by 1,200,000 an hour`, or what else is known of it.
pub fn growth_words(per_hour: Option<i64>) -> String {
    match per_hour {
        None => "growth not known yet".to_owned(),
        Some(0) => "not growing".to_owned(),
        Some(more) if more > 0 => format!("growing by {} an hour", grouped(more.unsigned_abs())),
        Some(less) => format!("shrinking by {} an hour", grouped(less.unsigned_abs())),
    }
}

/// What the status says while READs wait.
pub fn wait(markers: u64, markers_max: u64, growth: &Growth, generation: &str) -> Wait {
    let per_hour = growth.per_hour();
    let stop = (u128::from(markers_max) * u128::from(STOP) / 100).saturating_sub(markers.into());
    let stops = match per_hour {
        Some(more) if more > 0 => {
            let ms = stop * u128::from(GROWTH_OVER_MS) / u128::from(more.unsigned_abs());
            let ms = u64::try_from(ms).unwrap_or(u64::MAX);
            format!("; at this rate the job stops in {}", about(ms))
        }
        _ => String::new(),
    };
    Wait {
        text: format!(
            "stuck: marker limit: {} markers, limits.markers_max is {}, {}{stops}. READs wait, \
             mutations do not. Raise limits.markers_max while the job runs, start it on more \
             workers or hosts, or give the generation up",
            grouped(markers),
            grouped(markers_max),
            growth_words(per_hour)
        ),
        person: true,
        command: Some(format!("headwater generation abort {generation}")),
        leave_alone: false,
    }
}

/// Why the job stops; after its last checkpoint.
pub fn stop_error(markers: u64, markers_max: u64) -> Error {
    Error::refused("the job stops: more markers than it may hold")
        .line(format!("found     {} markers", grouped(markers)))
        .line(format!(
            "expected  {} at most (`limits.markers_max`), {STOP} % of that before it stops",
            grouped(markers_max)
        ))
        .line("Everything read is written and in the checkpoint. Start it again with a larger")
        .line("`limits.markers_max` (about 16 bytes each) or on more hosts, or start a new")
        .line("snapshot that takes less time.")
}

#[cfg(test)]
mod tests {
    use super::Limit::{Free, Near, StopCleanly, Wait};
    use super::{Growth, decide, growth_words, stop_error, wait};
    use crate::error::ErrorKind;
    use proptest::prelude::{any, prop_assert, proptest};

    #[test]
    fn the_whole_table() {
        let rows = [
            (0, [Free, Free, Free]),
            (74, [Free, Free, Free]),
            (75, [Free, Near, Near]),
            (79, [Free, Near, Near]),
            (80, [Near, Near, Near]),
            (94, [Near, Near, Near]),
            (95, [Near, Near, Wait]),
            (99, [Near, Near, Wait]),
            (100, [Wait, Wait, Wait]),
            (119, [Wait, Wait, Wait]),
            (120, [StopCleanly, StopCleanly, StopCleanly]),
            (u64::MAX, [StopCleanly, StopCleanly, StopCleanly]),
        ];
        for (markers, expected) in rows {
            for (before, expected) in [Free, Near, Wait].into_iter().zip(expected) {
                assert_eq!(
                    decide(before, markers, 100),
                    expected,
                    "{before:?}, {markers}"
                );
            }
            assert_eq!(decide(StopCleanly, markers, 100), StopCleanly);
        }
        assert_eq!(decide(Free, 0, 0), Free);
        assert_eq!(decide(Free, u64::MAX, u64::MAX), Wait);
        // Raised while READs wait.
        assert_eq!(decide(Wait, 100, 200), Free);
    }

    #[test]
    fn what_is_said_names_growth_and_exits() {
        let mut growth = Growth::default();
        assert_eq!(growth.per_hour(), None);
        for minute in 0..=180 {
            growth.sample(minute * 60_000, 1000 * minute);
            growth.sample(minute * 60_000 + 1, 7);
        }
        assert_eq!(growth.per_hour(), Some(60_000));
        assert!(growth.samples.len() <= 62, "{}", growth.samples.len());
        let said = wait(180_000, 180_000, &growth, "g2");
        for part in ["stuck: marker limit", "60,000 an hour", "36m", "workers"] {
            assert!(said.text.contains(part), "{}", said.text);
        }
        assert!(said.person && said.command.expect("one").ends_with("abort g2"));
        assert_eq!(growth_words(Some(-1000)), "shrinking by 1,000 an hour");
        assert_eq!(stop_error(121, 100).kind, ErrorKind::Refused);
    }

    proptest! {
        #[test]
        fn a_small_change_never_flaps(max in 100u64..1 << 40, at in any::<u32>(), down in 0u64..4) {
            let markers = max / 100 * u64::from(at % 150);
            let first = decide(Free, markers, max);
            let less = markers - markers.min(max * down / 100);
            let then = decide(first, less, max);
            prop_assert!(then == first, "{first:?} {then:?}");
        }
    }
}
