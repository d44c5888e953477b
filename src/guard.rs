//! The retention guard: what a rebuild needs, what it has, and when that is no longer enough.
//!
//! Everything but [`fresh`] is pure: worker 0 hands in what it sees and shows, sends or reports
//! what comes out. Source of the rules: design.md sections 5 (retention, `markers_max`), 7
//! (start-position proof), 9 (run-time key gate) and 10 (budget).
//!
//! Invariant: nothing here lets a READ pass or forgets a marker; it warns before that can happen,
//! and stops the job where going on could lose a row. Positions of the source log (LSNs) are never
//! compared: those of a READ and of a live change have no common order.

pub mod alarms;
pub mod budget;
pub mod fresh;
pub mod limit;
pub mod start;

use crate::config::Config;
use crate::config::choices::SnapshotFrom;
use std::time::Duration;

/// Numbers of the guard, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardSettings {
    /// An alarm when a rebuild is open for longer.
    pub rebuild_alarm_after_ms: u64,
    /// How far the standby that snapshots read may lag; none: they read the primary.
    pub replica_lag_ms: Option<u64>,
    /// Dead letters that nobody has accepted; more stop the job.
    pub dead_letters_max: u64,
    /// Whether a ttl below the budget is refused.
    pub require_budget: bool,
    /// READs a second that are reckoned with while none have been measured.
    pub rows_per_second_min: u64,
    /// Markers of the whole job.
    pub markers_max: u64,
}

impl GuardSettings {
    /// As a configuration has it.
    pub fn of(config: &Config) -> Self {
        let retention = &config.retention;
        let replica = config.source.snapshot_from == SnapshotFrom::Replica;
        GuardSettings {
            rebuild_alarm_after_ms: ms(retention.rebuild_alarm_after),
            dead_letters_max: config.dead_letter.records_max,
            replica_lag_ms: replica.then(|| ms(config.source.replica_lag_max)),
            require_budget: retention.require_budget,
            rows_per_second_min: retention.rows_per_second_min,
            markers_max: config.limits.markers_max,
        }
    }
}

impl Default for GuardSettings {
    fn default() -> Self {
        GuardSettings::of(&Config::default())
    }
}

/// The margin that the start of a snapshot is taken earlier by: `retention.start_margin`, and the
/// declared lag of a standby on top of it.
pub fn margin_ms(config: &Config) -> u64 {
    let lag_ms = GuardSettings::of(config).replica_lag_ms.unwrap_or(0);
    ms(config.retention.start_margin).saturating_add(lag_ms)
}

/// A duration as a person says it, in its two largest units: `45s`, `33m`, `1h10m`, `3d4h`.
pub fn about(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: u64, unit: &str, small: u64, below: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{below}"),
    };
    match () {
        () if days > 0 => two(days, "d", hours % 24, "h"),
        () if hours > 0 => two(hours, "h", minutes % 60, "m"),
        () if minutes > 0 => format!("{minutes}m"),
        () => format!("{seconds}s"),
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{GuardSettings, about, margin_ms};
    use crate::config::Config;
    use crate::config::choices::SnapshotFrom;
    use std::time::Duration;

    #[test]
    fn durations_are_said_in_two_units() {
        for (ms, words) in [
            (0, "0s"),
            (45_999, "45s"),
            (33 * 60_000, "33m"),
            (70 * 60_000, "1h10m"),
            (3_600_000, "1h"),
            (76 * 3_600_000, "3d4h"),
            (72 * 3_600_000 + 59_000, "3d"),
        ] {
            assert_eq!(about(ms), words);
        }
        assert!(about(u64::MAX).ends_with('h'));
    }

    #[test]
    fn the_lag_of_a_standby_is_part_of_the_margin() {
        let mut config = Config::default();
        config.source.replica_lag_max = Duration::from_secs(60);
        assert_eq!(margin_ms(&config), 900_000, "not declared");
        config.source.snapshot_from = SnapshotFrom::Replica;
        assert_eq!(margin_ms(&config), 960_000);
        assert_eq!(GuardSettings::of(&config).replica_lag_ms, Some(60_000));
        assert_eq!(GuardSettings::default().replica_lag_ms, None);
    }
}
