//! What the status document tells of the job as a whole: alarms, how READs are read, retention,
//! lag.

use serde::{Deserialize, Serialize};

/// Something that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Alarm {
    /// Its name, in snake case.
    pub name: String,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub remedy: String,
    /// Whether it must be acted upon now.
    pub critical: bool,
}

/// How READs are read, as persons have asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReadControl {
    /// Whether none are.
    pub paused: bool,
    /// Whether a person has set the rate; else that of the configuration counts.
    pub rate_set: bool,
    /// READs a second of the whole job that a person has set; null is no limit.
    pub per_second_max: Option<u64>,
    /// The marker limit that a person has set; null: that of the configuration counts.
    pub markers_max: Option<u64>,
}

/// Which markers are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Retention {
    /// `until_ready` or `ttl`; null when not known.
    pub policy: Option<String>,
    /// The policy in words.
    pub keeps: String,
    /// With `ttl`: how long a marker lives.
    pub ttl_seconds: Option<f64>,
    /// What a snapshot read from a lagging replica may miss.
    pub start_margin_seconds: f64,
    /// With `until_ready` and nothing open: how late a generation may be opened.
    pub open_late_max_seconds: Option<f64>,
    /// When the last of the markers was written that were forgotten, RFC 3339 in UTC; null when
    /// none was forgotten.
    pub forgotten_through: Option<String>,
    /// From when on markers are needed by an open generation, RFC 3339 in UTC; null when none is
    /// open.
    pub window_started_at: Option<String>,
    /// Since then, in job time.
    pub window_seconds: Option<f64>,
    /// The part of the window that may be used before markers are forgotten (`ttl`) or an alarm
    /// is raised (`until_ready`) that is used; null when none is open.
    pub used_ratio: Option<f64>,
    /// What is predicted; null when it cannot be.
    pub budget: Option<Budget>,
}

/// What is predicted of the window, and from what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Budget {
    /// How long markers must be kept, with the factor and the margin.
    pub needed_seconds: f64,
    /// Since the window began.
    pub elapsed_seconds: f64,
    /// Until the last READ, without factor and margin; null when not known.
    pub left_seconds: Option<f64>,
    /// READs that are left; null when not known.
    pub rows_left: Option<u64>,
    /// READs a second that it reckons with; null when not known.
    pub rows_per_second: Option<u64>,
    /// Where the rate is from.
    pub rate_from: String,
}

/// How far behind its end a topic is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lag {
    /// Its name.
    pub topic: String,
    /// `mutations` or `snapshot`.
    pub role: String,
    /// Records that are not read; null when not known.
    pub records: Option<u64>,
    /// How old what was read last is; 0 when nothing is left to read; null when not known.
    pub seconds: Option<f64>,
}
