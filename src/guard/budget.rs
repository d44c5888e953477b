//! How long a rebuild will take, said too long rather than too short, with every input shown.
//!
//! ```text
//! budget = (elapsed + rows left / rate) x 1.5 + start_margin
//! ```
//! Source: design.md section 10, issue line "retention guard". The rate is that of slow times: the
//! 10th percentile over windows of 5 minutes.
//!
//! Invariant: more rows left, more time elapsed or a lower rate never give a smaller budget.
//!
//! It cannot see rows that the snapshot has not delivered: whoever calls knows how many are left,
//! or says that it does not.

#[cfg(test)]
mod tests;

use super::about;
use crate::error::Error;
use crate::gauges;
use crate::summary::grouped;
use serde::{Deserialize, Serialize};

/// Length of a window, in job time during which READs were not held back by a person.
pub const WINDOW_MS: u64 = 300_000;
/// Windows that are remembered: those of a day.
pub const WINDOWS_MAX: usize = 288;
const HOUR_MS: u64 = 3_600_000;

/// READs of one generation in windows of [`WINDOW_MS`]; small, kept in the manifest. Where the last
/// sample stood is not: a run begins with a sample of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rates {
    /// READs an hour in each window, oldest first.
    windows: Vec<u64>,
    /// The window under way: milliseconds that count.
    open_ms: u64,
    /// READs in it.
    open_rows: u64,
    /// The last sample of this run: job time, READs.
    #[serde(skip)]
    last: Option<(u64, u64)>,
}

impl Rates {
    /// At job time `now_ms`, `rows` READs of the generation have been read in this run. `waits`:
    /// since the last sample a person's pause, or the marker limit, held READs back; that time is
    /// not slow, it is not counted. Called as often as one likes, until all READs are read.
    pub fn sample(&mut self, now_ms: u64, rows: u64, waits: bool) {
        let Some((then_ms, then_rows)) = self.last.replace((now_ms, rows)) else {
            return;
        };
        let none_yet = self.windows.is_empty() && self.open_rows == 0;
        if waits || (rows == 0 && none_yet) {
            // A snapshot that has not begun is not slow either.
            return;
        }
        self.open_ms += now_ms.saturating_sub(then_ms);
        self.open_rows += rows.saturating_sub(then_rows);
        if self.open_ms >= WINDOW_MS {
            self.windows.push(an_hour(self.open_rows, self.open_ms));
            (self.open_ms, self.open_rows) = (0, 0);
            if self.windows.len() > WINDOWS_MAX {
                self.windows.remove(0);
            }
        }
    }

    /// READs an hour in the slow windows; when nothing came in those, that of all. `None` before
    /// the first window is over.
    pub fn rate(&self) -> Option<Rate> {
        let mut sorted = self.windows.clone();
        sorted.sort_unstable();
        let slow = *sorted.get(sorted.len().div_ceil(10).checked_sub(1)?)?;
        let windows = sorted.len();
        if slow > 0 {
            return Some(Rate {
                rows_per_hour: slow,
                from: RateFrom::SlowWindows { windows },
            });
        }
        let sum: u128 = sorted.iter().map(|rate| u128::from(*rate)).sum();
        let rows_per_hour = clamp(sum / windows as u128);
        (rows_per_hour > 0).then_some(Rate {
            rows_per_hour,
            from: RateFrom::AllWindows { windows },
        })
    }
}

/// How fast READs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// READs an hour; an hour, so that slow snapshots have one too.
    pub rows_per_hour: u64,
    /// What it stands on.
    pub from: RateFrom,
}

/// What a rate stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateFrom {
    /// The 10th percentile of this generation's windows.
    SlowWindows {
        /// How many windows.
        windows: usize,
    },
    /// All of them: in more than a tenth nothing was read.
    AllWindows {
        /// How many windows.
        windows: usize,
    },
    /// The generation before.
    LastGeneration,
    /// `retention.rows_per_second_min`.
    Configured,
}

impl RateFrom {
    /// In words.
    pub fn words(self) -> String {
        match self {
            RateFrom::SlowWindows { windows } => {
                format!("the slowest tenth of {windows} windows of 5 minutes")
            }
            RateFrom::AllWindows { windows } => {
                format!("the mean of {windows} windows of 5 minutes, some without any READ")
            }
            RateFrom::LastGeneration => "as the last generation had in slow times".to_owned(),
            RateFrom::Configured => "retention.rows_per_second_min".to_owned(),
        }
    }
}

/// The rate to reckon with: of this generation, else of the last one, else the configured one.
pub fn rate(own: &Rates, last_generation: Option<&Rates>, rows_per_second_min: u64) -> Rate {
    let last = || {
        let rate = last_generation?.rate()?;
        Some(Rate {
            from: RateFrom::LastGeneration,
            ..rate
        })
    };
    own.rate().or_else(last).unwrap_or(Rate {
        rows_per_hour: rows_per_second_min.saturating_mul(3600),
        from: RateFrom::Configured,
    })
}

/// What a generation needs, and from what that was reckoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Job time since the generation was opened.
    pub elapsed_ms: u64,
    /// READs that are still to be read, where that is known.
    pub rows_left: Option<u64>,
    /// How fast they are read.
    pub rate: Rate,
    /// `start_margin`, with the lag of a declared standby.
    pub margin_ms: u64,
    /// What it needs in all; none when the rows left are not known.
    pub budget_ms: Option<u64>,
}

impl Budget {
    /// See the module. Saturates: a rate of 0 with rows left is for ever.
    pub fn of(elapsed_ms: u64, rows_left: Option<u64>, rate: Rate, margin_ms: u64) -> Self {
        let budget_ms = rows_left.map(|rows| {
            let time = u128::from(elapsed_ms) + time_ms(rows, rate);
            clamp(time.saturating_mul(3) / 2).saturating_add(margin_ms)
        });
        Budget {
            elapsed_ms,
            rows_left,
            rate,
            margin_ms,
            budget_ms,
        }
    }

    /// Job time until the last READ, at the same rate and without factor or margin.
    pub fn left_ms(&self) -> Option<u64> {
        self.rows_left.map(|rows| clamp(time_ms(rows, self.rate)))
    }

    /// As it is shown; none when the rows left are not known.
    pub fn gauge(&self) -> Option<gauges::Budget> {
        let rows_per_second = self.rate.rows_per_hour / 3600;
        Some(gauges::Budget {
            needed_ms: self.budget_ms?,
            elapsed_ms: self.elapsed_ms,
            left_ms: self.left_ms(),
            rows_left: self.rows_left,
            rows_per_second: (rows_per_second > 0).then_some(rows_per_second),
            rate_from: self.rate.from.words(),
        })
    }

    /// For the status: `elapsed 33m of about 1h10m predicted`.
    pub fn words(&self) -> String {
        let elapsed = about(self.elapsed_ms);
        match self.budget_ms {
            Some(u64::MAX) => format!("elapsed {elapsed}; no end in sight at the present rate"),
            Some(budget_ms) => format!("elapsed {elapsed} of about {} predicted", about(budget_ms)),
            None => format!("elapsed {elapsed}; not predicted while the rows left are not known"),
        }
    }

    /// What went into it, in words.
    pub fn inputs(&self) -> String {
        let rows = match self.rows_left {
            Some(rows) => format!("{} rows left", grouped(rows)),
            None => "rows left not known".to_owned(),
        };
        format!(
            "({} elapsed + {rows} at {} an hour: {}) x 1.5 + margin {}",
            about(self.elapsed_ms),
            grouped(self.rate.rows_per_hour),
            self.rate.from.words(),
            about(self.margin_ms)
        )
    }
}

/// How a ttl compares with what a rebuild needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TtlVerdict {
    /// It is enough.
    Fits,
    /// The rows left are not known.
    Unknown,
    /// It is not: a warning.
    Short(String),
    /// It is not, and `retention.require_budget` is set.
    Refuse(Error),
}

/// Compares a ttl with the budget: at a start, when the rows left become known, and before a ttl is
/// changed.
pub fn check_ttl(ttl_ms: u64, budget: &Budget, require_budget: bool) -> TtlVerdict {
    let Some(budget_ms) = budget.budget_ms else {
        return TtlVerdict::Unknown;
    };
    if ttl_ms >= budget_ms {
        return TtlVerdict::Fits;
    }
    let (ttl, needed) = (about(ttl_ms), about(budget_ms));
    if !require_budget {
        return TtlVerdict::Short(format!(
            "a ttl of {ttl} is shorter than the {needed} that the rebuild may need: {}",
            budget.inputs()
        ));
    }
    TtlVerdict::Refuse(
        Error::refused("the ttl is shorter than the rebuild may need")
            .line(format!("found     a ttl of {ttl}"))
            .line(format!("expected  {needed} or more: {}", budget.inputs()))
            .line("Markers would be forgotten before their READs are read. Raise `retention.ttl`,")
            .line("or use `retention.keep_markers = \"until_ready\"`; without")
            .line("`retention.require_budget` this is a warning."),
    )
}

fn time_ms(rows: u64, rate: Rate) -> u128 {
    match (rows, rate.rows_per_hour) {
        (0, _) => 0,
        (_, 0) => u128::from(u64::MAX),
        // Rounded up.
        (rows, an_hour) => (u128::from(rows) * u128::from(HOUR_MS)).div_ceil(u128::from(an_hour)),
    }
}

fn an_hour(rows: u64, ms: u64) -> u64 {
    clamp(u128::from(rows) * u128::from(HOUR_MS) / u128::from(ms.max(1)))
}

fn clamp(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
