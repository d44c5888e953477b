//! A moment of job time, and when that was by the wall.
//!
//! A manifest keeps a coarse table of both. Between two of its entries the job may have been down
//! for a while, so the wall time is a range; it is a point where the job ran on.
//!
//! It cannot be more exact than the wall clock of the hosts that wrote the table.

use crate::checkpoint::manifest::JobTime;
use crate::config::units::print_instant;
use serde::{Deserialize, Serialize};

/// Ends of a range that are no further apart are one moment, ms.
const ALIKE_MS: u64 = 2_000;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Job time.
    pub job_ms: u64,
    /// Not before it (RFC 3339); unknown while the table is empty.
    pub wall_earliest: Option<String>,
    /// Not after it.
    pub wall_latest: Option<String>,
}

impl Moment {
    /// The moment `job_ms` of a job.
    pub fn of(job_ms: u64, time: &JobTime) -> Moment {
        let range = wall_range(job_ms, &time.wall);
        let instant = |ms| print_instant(i64::try_from(ms).unwrap_or(i64::MAX));
        Moment {
            job_ms,
            wall_earliest: range.map(|(earliest, _)| instant(earliest)),
            wall_latest: range.map(|(_, latest)| instant(latest)),
        }
    }

    /// `00:01:20.040 of job time (80040 ms), 2026-11-29T10:00:00Z`.
    pub fn words(&self) -> String {
        let mut words = format!("{} of job time ({} ms)", clock(self.job_ms), self.job_ms);
        if let Some(wall) = self.wall() {
            words.push_str(", ");
            words.push_str(&wall);
        }
        words
    }

    /// The wall time alone.
    pub fn wall(&self) -> Option<String> {
        let (earliest, latest) = (self.wall_earliest.as_ref()?, self.wall_latest.as_ref()?);
        Some(match earliest == latest {
            true => earliest.clone(),
            false => format!("between {earliest} and {latest}"),
        })
    }
}

/// `hh:mm:ss.mmm`.
pub(super) fn clock(ms: u64) -> String {
    let seconds = ms / 1_000;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        ms % 1_000
    )
}

/// The earliest and the latest wall time (ms since 1970) that `job_ms` can be.
fn wall_range(job_ms: u64, table: &[(u64, u64)]) -> Option<(u64, u64)> {
    let after = table.partition_point(|(logical, _)| *logical <= job_ms);
    let before = after.checked_sub(1).map(|index| table[index]);
    let next = table.get(after);
    let earliest = before.map(|(logical, wall)| wall.saturating_add(job_ms - logical));
    let latest = next.map(|(logical, wall)| wall.saturating_sub(logical - job_ms));
    let (earliest, latest) = (earliest.or(latest)?, latest.or(earliest)?);
    // A clock that was set back makes the range empty; both are guesses then.
    match latest.saturating_sub(earliest) <= ALIKE_MS {
        true => Some((earliest, earliest)),
        false => Some((earliest, latest)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Moment, clock, wall_range};
    use crate::checkpoint::manifest::JobTime;

    /// Ran for 100 s, was down for an hour, and ran on.
    const TABLE: [(u64, u64); 3] = [
        (10_000, 1_000_000),
        (70_000, 1_060_000),
        (130_000, 4_720_000),
    ];

    #[test]
    fn the_wall_is_a_point_while_the_job_ran_and_a_range_around_an_outage() {
        let at = |job_ms| wall_range(job_ms, &TABLE);
        assert_eq!(at(0), Some((990_000, 990_000)));
        assert_eq!(at(10_000), Some((1_000_000, 1_000_000)));
        assert_eq!(at(40_000), Some((1_030_000, 1_030_000)));
        assert_eq!(at(100_000), Some((1_090_000, 4_690_000)));
        assert_eq!(at(131_000), Some((4_721_000, 4_721_000)));
        assert_eq!(wall_range(5, &[]), None);
        // Set back between the entries.
        assert_eq!(wall_range(5, &[(0, 900), (10, 100)]), Some((905, 905)));
    }

    #[test]
    fn words() {
        let mut time = JobTime {
            tick_ms: 20,
            cut_ms: 0,
            now_ms: 0,
            wall: TABLE.to_vec(),
        };
        assert_eq!(
            Moment::of(100_000, &time).words(),
            "00:01:40.000 of job time (100000 ms), \
             between 1970-01-01T00:18:10Z and 1970-01-01T01:18:10Z"
        );
        assert_eq!(
            Moment::of(10_000, &time).words(),
            "00:00:10.000 of job time (10000 ms), 1970-01-01T00:16:40Z"
        );
        time.wall.clear();
        let unknown = Moment::of(80_040, &time);
        assert_eq!(unknown.words(), "00:01:20.040 of job time (80040 ms)");
        assert_eq!(clock(3_600_001), "01:00:00.001");
    }
}
