//! What a person should look at, from what worker 0 sees. Pure.
//!
//! Invariant: names are stable, in snake case, and all of them are in [`NAMES`]; every alarm says
//! what to do. An alarm stops nothing.
//!
//! It cannot remember: the same inputs give the same alarms, in the order of [`NAMES`].

#[cfg(test)]
mod tests;

use super::about;
use super::budget::{Budget, TtlVerdict, check_ttl};
use super::limit::{Limit, growth_words};
use super::start::{Verdict, compaction};
use crate::checkpoint::manifest::GenerationState;
use crate::generation::Stage;
use crate::job::Alarm;
use crate::summary::grouped;
use crate::table::Role;
use crate::topic::TopicSettings;

/// The names of all alarms.
pub const NAMES: [&str; 29] = [
    "generation_unsafe",
    "generation_unsafe_from_start",
    "late_reads",
    "late_reads_after_promotion",
    "dead_letters",
    "start_not_proven",
    "retention_used_50",
    "retention_used_80",
    "retention_used_95",
    "retention_used_100",
    "ttl_below_budget",
    "marker_limit_near",
    "marker_limit_reached",
    "marker_limit_stop",
    "mutation_topic_retention_used_50",
    "mutation_topic_retention_used_80",
    "mutation_topic_retention_used_95",
    "mutation_topic_retention_used_100",
    "snapshot_topic_retention_used_50",
    "snapshot_topic_retention_used_80",
    "snapshot_topic_retention_used_95",
    "snapshot_topic_retention_used_100",
    "topic_retention_below_budget",
    "delete_retention_below_budget",
    "no_marker_met",
    "no_checkpoint",
    "replica_lag_unset",
    "reads_paused",
    "marker_rule_off",
];

/// READs and markers from which on it is odd that no READ has met one.
const MANY: u64 = 10_000;
/// No checkpoint for so many intervals, and at least for so long.
const CHECKPOINT_LATE: (u64, u64) = (6, 60_000);
/// So long is critical.
const CHECKPOINT_GONE: (u64, u64) = (60, 600_000);

/// Which markers are kept, with the limit that a rebuild is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// For so long.
    Ttl {
        /// Job time.
        ttl_ms: u64,
    },
    /// As long as a generation is open.
    UntilReady {
        /// Job time.
        rebuild_alarm_after_ms: u64,
    },
}

/// What worker 0 sees.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Which markers are kept.
    pub policy: Policy,
    /// Markers of all workers.
    pub markers: u64,
    /// `limits.markers_max`, or what a person has set.
    pub markers_max: u64,
    /// What that asks for.
    pub limit: Limit,
    /// Markers an hour; see [`super::limit::Growth`].
    pub markers_per_hour: Option<i64>,
    /// Every generation that is not over.
    pub rebuilds: Vec<Rebuild>,
    /// Topics that are read.
    pub topics: Vec<TopicUse>,
    /// The time, ms since 1970.
    pub wall_ms: i64,
    /// READs that were emitted or dropped for a marker.
    pub reads_decided: u64,
    /// Those that were dropped for a marker.
    pub reads_matched: u64,
    /// Job time since the last durable checkpoint, or the start of the run, and
    /// `checkpoint.interval`; none when none are taken.
    pub checkpoint: Option<(u64, u64)>,
    /// The lag of a declared standby.
    pub replica_lag_ms: Option<u64>,
    /// Whether a person has paused READs.
    pub reads_paused: bool,
    /// Whether the marker rule is off.
    pub rule_off: bool,
}

/// One generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// Its id.
    pub id: String,
    /// How far it is.
    pub stage: Stage,
    /// Job time since it was opened.
    pub elapsed_ms: u64,
    /// Job time since its window begins, which is the margin earlier.
    pub window_ms: u64,
    /// What it needs; see [`Budget::of`].
    pub budget: Option<Budget>,
    /// READs of it that may be stale.
    pub unsafe_reads: u64,
    /// A marker of its window was forgotten before it was opened.
    pub unsafe_from_start: bool,
    /// READs behind its frozen ends, or older than it.
    pub late_reads: u64,
    /// Mutations of its tables that could not be decoded, and that nobody has accepted.
    pub dead_letters: u64,
    /// How its start-position proof stands.
    pub start: Verdict,
}

impl Rebuild {
    /// Of what the next manifest says, at job time `now_ms`; without a budget or dead letters, and
    /// with the start proven.
    pub fn of(state: &GenerationState, now_ms: u64, margin_ms: u64) -> Self {
        let window_from = state.opened_at_ms.saturating_sub(margin_ms);
        Rebuild {
            id: state.id.clone(),
            stage: state.stage,
            elapsed_ms: now_ms.saturating_sub(state.opened_at_ms),
            window_ms: now_ms.saturating_sub(window_from),
            budget: None,
            unsafe_reads: state.unsafe_reads,
            unsafe_from_start: false,
            late_reads: state.late_reads,
            dead_letters: 0,
            start: Verdict::Proven,
        }
    }

    /// Whether READs of it may still need markers.
    fn needs_markers(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::SourceFinished)
    }

    /// Whether it is on its way.
    fn is_open(&self) -> bool {
        let done = matches!(self.stage, Stage::Ready | Stage::Promoted | Stage::Unsafe);
        !done && !self.stage.is_over()
    }
}

/// One topic that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicUse {
    /// Its name.
    pub topic: String,
    /// What it is for.
    pub role: Role,
    /// How long it keeps records, where that is known.
    pub settings: Option<TopicSettings>,
    /// The time of the oldest record that is still to be read, ms since 1970; none when all are
    /// read, or it is not known.
    pub next_record_ms: Option<i64>,
}

impl TopicUse {
    /// How much of its own retention the next record has used, in thousandths; none when nothing
    /// is to be read, or it deletes nothing by age. Of all topics of a role, the greatest counts
    /// (`retention_used_ratio`).
    pub fn retention_used_permille(&self, wall_ms: i64) -> Option<u64> {
        let kept_ms = self.settings?.deletes_after_ms()?;
        let age_ms = wall_ms.saturating_sub(self.next_record_ms?).max(0);
        Some(permille(age_ms.unsigned_abs(), kept_ms))
    }
}

/// How much of the retained window a generation has used, in thousandths, and of what; none when
/// it needs none any more. Under `until_ready` whichever of time and markers is nearer its limit.
pub fn window_used(inputs: &Inputs, rebuild: &Rebuild) -> Option<(u64, String)> {
    match inputs.policy {
        Policy::Ttl { ttl_ms } => rebuild.needs_markers().then(|| {
            let used = permille(rebuild.window_ms, ttl_ms);
            let (window, ttl) = (about(rebuild.window_ms), about(ttl_ms));
            (
                used,
                format!("its window is {window} long, markers live {ttl}"),
            )
        }),
        Policy::UntilReady {
            rebuild_alarm_after_ms,
        } => rebuild.is_open().then(|| {
            let time = permille(rebuild.elapsed_ms, rebuild_alarm_after_ms);
            let markers = permille(inputs.markers, inputs.markers_max);
            if time >= markers {
                let (elapsed, after) = (about(rebuild.elapsed_ms), about(rebuild_alarm_after_ms));
                return (
                    time,
                    format!("it is open for {elapsed}, rebuild_alarm_after is {after}"),
                );
            }
            let (held, max) = (grouped(inputs.markers), grouped(inputs.markers_max));
            (
                markers,
                format!("{held} markers are held, markers_max is {max}"),
            )
        }),
    }
}

/// All alarms.
pub fn alarms(inputs: &Inputs) -> Vec<Alarm> {
    let mut all = Alarms(Vec::new());
    for rebuild in &inputs.rebuilds {
        all.of_rebuild(inputs, rebuild);
    }
    all.of_limit(inputs);
    for topic in &inputs.topics {
        all.of_topic(inputs, topic);
    }
    all.of_job(inputs);
    let place = |alarm: &Alarm| NAMES.iter().position(|name| *name == alarm.name);
    all.0.sort_by_key(place);
    all.0
}

struct Alarms(Vec<Alarm>);

impl Alarms {
    fn warn(&mut self, name: &str, text: String, remedy: &str) {
        self.0.push(Alarm {
            name: name.to_owned(),
            text,
            remedy: remedy.to_owned(),
            critical: false,
        });
    }

    fn critical(&mut self, name: &str, text: String, remedy: &str) {
        self.warn(name, text, remedy);
        self.0.last_mut().expect("just pushed").critical = true;
    }

    fn of_rebuild(&mut self, inputs: &Inputs, rebuild: &Rebuild) {
        let id = &rebuild.id;
        if rebuild.unsafe_reads > 0
            || (rebuild.stage == Stage::Unsafe && !rebuild.unsafe_from_start)
        {
            let reads = grouped(rebuild.unsafe_reads);
            self.critical(
                "generation_unsafe",
                format!("{id} is unsafe: {reads} READs may be stale, and it can never be ready"),
                "`headwater quarantine signal` prints a signal that reads just those keys again, \
                 into a new generation; or start a new snapshot",
            );
        }
        if rebuild.unsafe_from_start {
            self.critical(
                "generation_unsafe_from_start",
                format!("{id} was opened when markers of its window had been forgotten already"),
                "abort it, and open the next generation before its snapshot is triggered",
            );
        }
        let late = grouped(rebuild.late_reads);
        match (rebuild.late_reads, rebuild.stage) {
            (0, _) => {}
            (_, Stage::Promoted) => self.critical(
                "late_reads_after_promotion",
                format!("{late} READs of {id} came after it was promoted; they are quarantined"),
                "find out who still writes to its snapshot topic; compare the target with \
                 `headwater verify`, and start a new snapshot if rows are missing",
            ),
            _ => self.critical(
                "late_reads",
                format!("{late} READs of {id} lie behind its frozen ends; they are quarantined"),
                "the snapshot was declared finished too early: start a new one",
            ),
        }
        if rebuild.dead_letters > 0 {
            let letters = grouped(rebuild.dead_letters);
            self.critical(
                "dead_letters",
                format!("{letters} mutations of {id} could not be decoded; the target lacks them"),
                "look at the dead letters, have their rows written once more at the source, and \
                 accept the loss: `headwater generation accept-dead-letters`",
            );
        }
        if let (Verdict::NotProven(text), true) = (&rebuild.start, !rebuild.stage.is_over()) {
            self.warn(
                "start_not_proven",
                format!("{id}: {text}"),
                "give the live connector a heartbeat topic and `source.heartbeat`, or make sure \
                 yourself that it ran before the snapshot began",
            );
        }
        self.of_window(inputs, rebuild);
    }

    fn of_window(&mut self, inputs: &Inputs, rebuild: &Rebuild) {
        let remedy = match inputs.policy {
            Policy::Ttl { .. } => {
                "raise the ttl while the job runs (`headwater ttl`), or speed the snapshot up; \
                 READs whose markers are forgotten are quarantined and the generation is unsafe"
            }
            Policy::UntilReady { .. } => {
                "look whether the snapshot still delivers; nothing is forgotten, but markers and \
                 checkpoints grow until it is ready or aborted"
            }
        };
        if let Some((used, why)) = window_used(inputs, rebuild)
            && let Some(level) = level(used)
        {
            let text = format!(
                "{} has used {} % of its retention: {why}",
                rebuild.id,
                used / 10
            );
            self.at_level("retention_used", level, text, remedy);
        }
        if let (Policy::Ttl { ttl_ms }, Some(budget)) = (inputs.policy, &rebuild.budget)
            && rebuild.needs_markers()
            && let TtlVerdict::Short(text) = check_ttl(ttl_ms, budget, false)
        {
            self.warn(
                "ttl_below_budget",
                format!("{}: {text}", rebuild.id),
                "raise the ttl while the job runs (`headwater ttl`), or use keep_markers = \
                 \"until_ready\"",
            );
        }
    }

    fn of_limit(&mut self, inputs: &Inputs) {
        let held = format!(
            "{} markers are held, markers_max is {}, {}",
            grouped(inputs.markers),
            grouped(inputs.markers_max),
            growth_words(inputs.markers_per_hour)
        );
        let remedy = "raise limits.markers_max while the job runs, start it on more hosts, or \
                      abort the generation";
        match inputs.limit {
            Limit::Free => {}
            Limit::Near => self.warn("marker_limit_near", held, remedy),
            Limit::Wait => {
                let text = format!("{held}: READs wait");
                self.critical("marker_limit_reached", text, remedy);
            }
            Limit::StopCleanly => {
                let text = format!("{held}: the job stops");
                self.critical("marker_limit_stop", text, remedy);
            }
        }
    }

    fn of_topic(&mut self, inputs: &Inputs, of: &TopicUse) {
        let topic = &of.topic;
        let (name, what) = match of.role {
            Role::Mutations => ("mutation_topic_retention_used", "mutation"),
            Role::Snapshot => ("snapshot_topic_retention_used", "snapshot"),
        };
        if let Some(used) = of.retention_used_permille(inputs.wall_ms)
            && let Some(level) = level(used)
        {
            let text = format!(
                "the next record of {what} topic {topic} has used {} % of its retention.ms",
                used / 10
            );
            let remedy = "raise retention.ms of the topic now; a record that is deleted unread \
                          stops the job, and a new snapshot is needed";
            self.at_level(name, level, text, remedy);
        }
        let needs = |rebuild: &&Rebuild| rebuild.is_open();
        let budgets = inputs.rebuilds.iter().filter(needs);
        let needed = budgets.filter_map(|open| open.budget?.budget_ms).max();
        let (Some(settings), Some(needed_ms)) = (&of.settings, needed) else {
            return;
        };
        if let Some(text) = super::start::short_retention(topic, of.role, settings, needed_ms) {
            self.warn(
                "topic_retention_below_budget",
                text,
                "raise retention.ms of the topic",
            );
        }
        if of.role == Role::Mutations && compaction(topic, settings, needed_ms).is_err() {
            let text = format!(
                "mutation topic {topic} is compacted and keeps DELETEs for less than the {} that \
                 the rebuild may need",
                about(needed_ms)
            );
            self.warn(
                "delete_retention_below_budget",
                text,
                "raise delete.retention.ms of the topic",
            );
        }
    }

    fn of_job(&mut self, inputs: &Inputs) {
        let many = inputs.reads_decided.min(inputs.markers) >= MANY;
        if many && inputs.reads_matched == 0 && !inputs.rule_off {
            let text = format!(
                "{} READs were decided beside {} markers, and none met a marker",
                grouped(inputs.reads_decided),
                grouped(inputs.markers)
            );
            self.warn(
                "no_marker_met",
                text,
                "the keys of the two topics may not be the same: compare one row in both \
                 (`headwater explain`) before you promote; right if mutations are inserts alone",
            );
        }
        if let Some((age_ms, interval_ms)) = inputs.checkpoint {
            let late = |(times, least_ms): (u64, u64)| {
                age_ms >= interval_ms.saturating_mul(times).max(least_ms)
            };
            if late(CHECKPOINT_LATE) {
                self.warn(
                    "no_checkpoint",
                    format!("the last checkpoint is {} old", about(age_ms)),
                    "look whether the store can be written and whether the target takes rows",
                );
                let last = self.0.last_mut().expect("just pushed");
                last.critical = late(CHECKPOINT_GONE);
            }
        }
        if inputs.replica_lag_ms == Some(0) {
            self.warn(
                "replica_lag_unset",
                "the snapshot reads a standby (snapshot_from = \"replica\"), and its lag is given \
                 as 0"
                    .to_owned(),
                "set source.replica_lag_max to the greatest lag of the standby, with its \
                 recovery_min_apply_delay",
            );
        }
        if inputs.reads_paused && inputs.rebuilds.iter().any(Rebuild::is_open) {
            self.warn(
                "reads_paused",
                "READs are paused: the rebuild stands still".to_owned(),
                "resume them when live traffic allows",
            );
        }
        if inputs.rule_off {
            self.critical(
                "marker_rule_off",
                "the marker rule is off: stale READs overwrite newer rows".to_owned(),
                "start the job without `--without-markers`, into an empty target",
            );
        }
    }

    fn at_level(&mut self, name: &str, level: u64, text: String, remedy: &str) {
        let name = format!("{name}_{level}");
        match level {
            95.. => self.critical(&name, text, remedy),
            _ => self.warn(&name, text, remedy),
        }
    }
}

/// The highest alarm level that so many thousandths have reached, in hundredths.
fn level(permille: u64) -> Option<u64> {
    [100, 95, 80, 50]
        .into_iter()
        .find(|level| permille >= level * 10)
}

/// Part of a whole in thousandths, rounded down; of nothing everything is used.
fn permille(part: u64, whole: u64) -> u64 {
    let thousandths = u128::from(part) * 1000 / u128::from(whole.max(1));
    u64::try_from(thousandths).unwrap_or(u64::MAX)
}
