//! Which differences stay: a pure judgement over what was seen of one key, and when.
//!
//! A target follows its source with a lag, so a key may differ at any moment and be right. A
//! difference is stable when one of the two sides has not moved for the lag while they differed at
//! every look: then the target had the time to follow. Where both sides move at every look, the
//! target follows, and that is no difference.
//!
//! Invariant: a key that was equal at one look is never a difference.
//!
//! It cannot see what happens between two looks: a row that went away and came back the same stood
//! still for it.

use std::time::{Duration, Instant};

/// How many times the lag a key may move before it counts as moving.
const PATIENCE_LAGS: u32 = 4;
/// And at least so long.
const PATIENCE_MIN: Duration = Duration::from_secs(2);

/// The digest of the row of a key; nothing where there is no row.
pub(super) type Seen = Option<u128>;

/// What is known of a key that differed.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    first: Instant,
    source: (Seen, Instant),
    target: (Seen, Instant),
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Both sides have the same.
    Equal,
    /// Look again.
    Wait,
    /// It stays.
    Stable(Difference),
    /// Both sides have moved at every look.
    Moving,
}

/// How the target differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    /// It lacks the row.
    Missing,
    /// It has a row that the source has not: a resurrected one.
    Extra,
    /// Its row has other values.
    Different,
}

impl Watch {
    /// A key that differs now.
    pub(super) fn new(source: Seen, target: Seen, now: Instant) -> Watch {
        Watch {
            first: now,
            source: (source, now),
            target: (target, now),
        }
    }

    /// Takes another look into account.
    pub(super) fn look(
        &mut self,
        source: Seen,
        target: Seen,
        now: Instant,
        lag: Duration,
    ) -> Verdict {
        if source == target {
            return Verdict::Equal;
        }
        for (known, seen) in [(&mut self.source, source), (&mut self.target, target)] {
            if known.0 != seen {
                *known = (seen, now);
            }
        }
        let still = self.source.1.min(self.target.1);
        let patience = (lag * PATIENCE_LAGS).max(PATIENCE_MIN);
        if now.duration_since(still) >= lag {
            Verdict::Stable(match (source, target) {
                (_, None) => Difference::Missing,
                (None, _) => Difference::Extra,
                _ => Difference::Different,
            })
        } else if now.duration_since(self.first) >= patience {
            Verdict::Moving
        } else {
            Verdict::Wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Difference, Verdict, Watch};
    use std::time::{Duration, Instant};

    const LAG: Duration = Duration::from_secs(10);

    /// What looks at these seconds come to.
    fn looks(first: (u64, u64), later: &[(u64, u64, u64)]) -> Verdict {
        let begun = Instant::now();
        let seen = |digest: u64| (digest > 0).then(|| u128::from(digest));
        let mut watch = Watch::new(seen(first.0), seen(first.1), begun);
        let mut last = Verdict::Wait;
        for (second, source, target) in later {
            assert_eq!(last, Verdict::Wait, "before second {second}");
            let now = begun + Duration::from_secs(*second);
            last = watch.look(seen(*source), seen(*target), now, LAG);
        }
        last
    }

    #[test]
    fn what_stays_for_the_lag_is_a_difference() {
        let stable = Verdict::Stable;
        assert_eq!(looks((1, 2), &[(9, 1, 2)]), Verdict::Wait);
        assert_eq!(
            looks((1, 2), &[(9, 1, 2), (10, 1, 2)]),
            stable(Difference::Different)
        );
        assert_eq!(looks((1, 0), &[(10, 1, 0)]), stable(Difference::Missing));
        assert_eq!(looks((0, 1), &[(10, 0, 1)]), stable(Difference::Extra));
        // The target stands still under a source that moves.
        assert_eq!(
            looks((1, 9), &[(5, 2, 9), (10, 3, 9)]),
            stable(Difference::Different)
        );
    }

    #[test]
    fn what_follows_is_none() {
        assert_eq!(looks((1, 2), &[(3, 1, 1)]), Verdict::Equal);
        assert_eq!(looks((0, 2), &[(3, 0, 0)]), Verdict::Equal);
        // Each look finds the target at a state that the source had.
        let moving = |n: u64| (n * 5, n + 2, n + 1);
        let all: Vec<_> = (1..=8).map(moving).collect();
        assert_eq!(looks((2, 1), &all[..7]), Verdict::Wait);
        assert_eq!(looks((2, 1), &all), Verdict::Moving);
    }
}
