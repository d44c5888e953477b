//! What is measured beside the counts, for whoever looks at a job: wall times, lag, the budget of
//! the retained window. Plain data.
//!
//! Invariant: what is not measured is absent, never 0.
//!
//! It decides nothing: the guard and promotion do.

use crate::table::Role;

/// See the module. Worker 0 fills it; each member may be filled by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Job time and wall time (ms since 1970), coarse, ascending, as manifests keep it.
    pub wall: Vec<(u64, u64)>,
    /// How far behind its end each topic is read.
    pub lag: Vec<TopicLag>,
    /// What is predicted of the retained window.
    pub budget: Option<Budget>,
}

/// How far behind its end a topic is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLag {
    /// Its name.
    pub topic: String,
    /// What it is for.
    pub role: Role,
    /// Records that it holds and that were not read, over all partitions.
    pub records: Option<u64>,
    /// Age of the newest record that was read, by its source time; with `records` 0 it says only
    /// how long nothing has come.
    pub newest_age_ms: Option<u64>,
}

impl TopicLag {
    /// How far what was read lies behind, ms: nothing when there is nothing to read.
    pub fn behind_ms(&self) -> Option<u64> {
        match self.records {
            Some(0) => Some(0),
            _ => self.newest_age_ms,
        }
    }
}

/// What is predicted of the retained window, and from what (design.md section 5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// How long markers must be kept, ms of job time: elapsed and left, with the factor and the
    /// margin.
    pub needed_ms: u64,
    /// Since the window began.
    pub elapsed_ms: u64,
    /// Until the last READ, without factor and margin; none when the rows left are not known.
    pub left_ms: Option<u64>,
    /// READs that are left, if known.
    pub rows_left: Option<u64>,
    /// READs a second that it reckons with, and where that is from.
    pub rows_per_second: Option<u64>,
    /// Where the rate is from, in words.
    pub rate_from: String,
}

#[cfg(test)]
mod tests {
    use super::TopicLag;
    use crate::table::Role;

    #[test]
    fn a_topic_with_nothing_to_read_is_not_behind() {
        let lag = |records, newest_age_ms| TopicLag {
            topic: "m".to_owned(),
            role: Role::Mutations,
            records,
            newest_age_ms,
        };
        assert_eq!(lag(Some(0), Some(9)).behind_ms(), Some(0));
        assert_eq!(lag(Some(2), Some(9)).behind_ms(), Some(9));
        assert_eq!(lag(None, Some(9)).behind_ms(), Some(9));
        assert_eq!(lag(Some(2), None).behind_ms(), None);
    }
}
