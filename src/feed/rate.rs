//! A rate in records a second of job time. Pure: the tick is handed in.
//!
//! It cannot save up more than a second.

/// A bucket that fills with time.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    records_per_second: u64,
    /// Thousandths of a record.
    saved: u64,
    last_ms: Option<u64>,
}

impl Rate {
    pub(super) fn new(records_per_second: u64) -> Self {
        Rate {
            records_per_second,
            saved: 0,
            last_ms: None,
        }
    }

    /// Records that may be read at `tick_ms`.
    pub(super) fn allow(&mut self, tick_ms: u64) -> u64 {
        let passed_ms = self.last_ms.map_or(0, |last| tick_ms.saturating_sub(last));
        self.last_ms = Some(tick_ms);
        let filled = self
            .saved
            .saturating_add(passed_ms.saturating_mul(self.records_per_second));
        // A second's worth at most, but always enough for one record.
        self.saved = filled.min(self.records_per_second.saturating_mul(1000).max(1000));
        self.saved / 1000
    }

    /// Records that were read.
    pub(super) fn used(&mut self, records: u64) {
        self.saved = self.saved.saturating_sub(records.saturating_mul(1000));
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn over_ten_seconds_the_rate_is_kept() {
        for rate in [1, 7, 50, 999, 20_000] {
            let mut bucket = Rate::new(rate);
            let mut total = 0;
            for tick in 0..=500 {
                let allowed = bucket.allow(tick * 20);
                bucket.used(allowed);
                total += allowed;
            }
            assert!(
                total.abs_diff(rate * 10) <= 1,
                "{total} in 10 s at {rate}/s"
            );
        }
    }

    #[test]
    fn an_idle_time_saves_one_second() {
        let mut bucket = Rate::new(100);
        bucket.allow(0);
        assert_eq!(bucket.allow(3_600_000), 100);
    }
}
