//! A rate in records a second of job time. Pure: the tick is handed in.
//!
//! It cannot save up more than a second.

/// A bucket that fills with time.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// Thousandths of a record a second: a worker's share of a small rate is less than a record.
    milli_per_second: u64,
    /// Millionths of a record.
    saved: u64,
    last_ms: Option<u64>,
}

impl Rate {
    /// The share of a feed that reads `mine` of `all` partitions in the rate of the whole job.
    pub(super) fn share(records_per_second: u64, mine: usize, all: usize) -> Self {
        let (mine, all) = (mine as u64, all.max(1) as u64);
        Rate {
            milli_per_second: records_per_second.saturating_mul(1000).saturating_mul(mine) / all,
            saved: 0,
            last_ms: None,
        }
    }

    /// The same rate, with what `before` had saved up and when.
    pub(super) fn after(self, before: &Rate) -> Self {
        Rate {
            saved: before.saved,
            last_ms: before.last_ms,
            ..self
        }
    }

    /// Records that may be read at `tick_ms`.
    pub(super) fn allow(&mut self, tick_ms: u64) -> u64 {
        let passed_ms = self.last_ms.map_or(0, |last| tick_ms.saturating_sub(last));
        self.last_ms = Some(tick_ms);
        let filled = self
            .saved
            .saturating_add(passed_ms.saturating_mul(self.milli_per_second));
        // A second's worth at most, but always enough for one record.
        let most = self.milli_per_second.saturating_mul(1000);
        self.saved = filled.min(most.max(1_000_000));
        self.saved / 1_000_000
    }

    /// Records that were read.
    pub(super) fn used(&mut self, records: u64) {
        self.saved = self.saved.saturating_sub(records.saturating_mul(1_000_000));
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn over_ten_seconds_the_rate_is_kept() {
        for rate in [1, 7, 50, 999, 20_000] {
            let mut bucket = Rate::share(rate, 1, 1);
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
        let mut bucket = Rate::share(100, 1, 1);
        bucket.allow(0);
        assert_eq!(bucket.allow(3_600_000), 100);
    }

    #[test]
    fn the_shares_of_a_small_rate_add_up_to_it() {
        let mut shares: Vec<Rate> = (0..4).map(|_| Rate::share(1, 1, 4)).collect();
        let mut total = 0;
        for tick in 0..=500 {
            for share in &mut shares {
                let allowed = share.allow(tick * 20);
                share.used(allowed);
                total += allowed;
            }
        }
        assert!((8..=10).contains(&total), "{total} in 10 s at 1/s");
    }
}
