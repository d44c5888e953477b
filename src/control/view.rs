//! From what a process sees of its job to the status document. Pure: the time is handed in.
//!
//! It cannot see what other processes write or wait for: their counts come with worker 0's, their
//! sinks and troubles do not.

pub(super) mod generations;
mod wide;

use super::derive;
use super::document::{
    Actor, Checkpoint, Doing, Markers, Mutations, Reads, Retention, Run, Sink, SinkState, Status,
    Trouble, VERSION, Verdict, Word,
};
use super::verdict::{Situation, judge};
use crate::checkpoint::{Manifest, Saved};
use crate::config::units::print_instant;
use crate::generation::Stage;
use crate::job::Shown;
use crate::promote;
use crate::sink::queue;
use crate::table::Table;
use std::collections::BTreeMap;

/// What does not change in a run.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The job.
    pub job: String,
    /// The tables, as configured.
    pub tables: Vec<Table>,
    /// The id of the generation.
    pub generation: String,
    /// The run's number.
    pub incarnation: u32,
    /// Processes of the cluster.
    pub processes: usize,
    /// Workers of all processes.
    pub workers: usize,
    /// What it goes on from.
    pub restored_from: Option<u64>,
    /// Why it is not fenced, if it is not.
    pub not_fenced: Option<String>,
    /// What the start could not prove.
    pub not_proven: Vec<String>,
    /// The marker rule is off.
    pub rule_off: bool,
    /// Which markers are kept, in words.
    pub keeps: String,
    /// The target's kind.
    pub sink_kind: String,
    /// The end is taken for reached when no topic delivers for a while.
    pub ends_when_idle: bool,
    /// After how long a rebuild that is open raises an alarm.
    pub rebuild_alarm_after_ms: Option<u64>,
    /// What promotion asks for.
    pub promote: promote::Terms,
    /// What a promotion runs.
    pub hook: Option<promote::hook::Hook>,
}

/// What a process sees of its running job.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) shown: Shown,
    /// When the run began, ms since 1970.
    pub(super) started_ms: i64,
    /// The headline of the first error.
    pub(super) failure: Option<String>,
    pub(super) stopping: bool,
    /// How the target of this process does, and the rows written to it.
    pub(super) sink: Option<(queue::SinkState, u64)>,
    pub(super) troubles: BTreeMap<String, String>,
    pub(super) lease_trouble: Option<String>,
    /// When which stage was come into, ms since 1970, while worker 0 does not say.
    pub(super) timeline: Vec<(Stage, i64)>,
    /// When the last checkpoint was seen, ms since 1970.
    pub(super) saved_at_ms: Option<i64>,
}

/// The document of a process that has its job.
pub(super) fn running(facts: &Facts, seen: &Seen, now_ms: i64) -> Status {
    let (shown, counts) = (&seen.shown, &seen.shown.counts);
    let generations = derive::generations(shown, facts, &seen.timeline);
    let stage = match () {
        () if seen.failure.is_some() => Doing::Failed,
        () if seen.stopping || counts.stop => Doing::Stopping,
        () => Doing::Running,
    };
    let troubles = troubles(&seen.troubles);
    let verdict = judge(&Situation {
        doing: stage,
        failure: seen.failure.as_deref(),
        stopped_for: shown.stopped_for.as_deref(),
        generations: &generations,
        rule_off: facts.rule_off,
        troubles: &troubles,
        criteria: &|generation| facts.promote.criteria(generation, shown, &[]),
    });
    let generations = generations.iter();
    let generations = generations.map(|one| generations::shown(one, &facts.tables));
    Status {
        run: Some(run(facts, seen, now_ms)),
        not_proven: not_proven(facts, shown),
        generations: generations.collect(),
        mutations: Some(Mutations {
            read: counts.mutations_read,
            emitted: counts.mutations_emitted,
            dead_letters: counts.dead_letters(),
        }),
        reads: Some(reads(shown)),
        ignored: counts.ignored.clone(),
        markers: Some(Markers {
            count: counts.markers,
            bytes: Some(counts.marker_bytes),
        }),
        checkpoint: shown
            .saved
            .as_ref()
            .map(|saved| checkpoint(saved, seen.saved_at_ms)),
        sink: seen.sink.as_ref().map(|sink| of_sink(facts, shown, sink)),
        troubles,
        alarms: wide::alarms(shown),
        read_control: Some(wide::read_control(&shown.read_control)),
        retention: Some(wide::retention(facts, shown, now_ms)),
        lag: wide::lag(shown),
        ..empty(&facts.job, stage, verdict, now_ms)
    }
}

/// The document of a process that does not have its job yet.
pub(super) fn starting(job: &str, now_ms: i64) -> Status {
    let verdict = Verdict {
        word: Word::Starting,
        text: "the job is claimed, and its peers are waited for".to_owned(),
        acts: Actor::Job,
        command: None,
        leave_alone: true,
    };
    empty(job, Doing::Starting, verdict, now_ms)
}

/// The document of a job that does not answer, from its last manifest; `why` it does not.
pub(super) fn down(
    job: &str,
    tables: &[Table],
    why: &str,
    last: Option<&Manifest>,
    now_ms: i64,
) -> Status {
    let text = match last {
        None => format!("{why}, and the store has no checkpoint of it: it never ran with it"),
        Some(last) => format!("{why}; below is what checkpoint {} knows", last.number),
    };
    let verdict = Verdict {
        word: Word::Down,
        text,
        acts: Actor::Person,
        command: Some("headwater run".to_owned()),
        leave_alone: false,
    };
    let mut status = empty(job, Doing::Down, verdict, now_ms);
    if let Some(last) = last {
        let runs = &last.markers.runs;
        status.generations = generations::saved(last, tables);
        status.read_control = Some(wide::read_control(&last.read_control));
        status.retention = Some(saved_retention(last));
        status.markers = Some(Markers {
            count: runs.iter().map(|run| run.markers).sum(),
            bytes: None,
        });
        let wall = last.time.wall.last();
        status.checkpoint = Some(Checkpoint {
            number: last.number,
            at: wall.and_then(|(_, ms)| Some(print_instant(i64::try_from(*ms).ok()?))),
            seconds: None,
            bytes_new: None,
            bytes: runs.iter().map(|run| run.bytes).sum(),
        });
    }
    status
}

fn empty(job: &str, stage: Doing, verdict: Verdict, now_ms: i64) -> Status {
    Status {
        version: VERSION,
        verdict,
        job: job.to_owned(),
        stage,
        at: print_instant(now_ms),
        run: None,
        not_proven: Vec::new(),
        generations: Vec::new(),
        mutations: None,
        reads: None,
        ignored: BTreeMap::new(),
        markers: None,
        checkpoint: None,
        sink: None,
        troubles: Vec::new(),
        alarms: Vec::new(),
        read_control: None,
        retention: None,
        lag: Vec::new(),
    }
}

/// Retention as a checkpoint knows it: nothing is open while nothing runs.
fn saved_retention(last: &Manifest) -> Retention {
    let shown = Shown {
        retention: last.retention.clone(),
        forgotten_through_ms: last.forgotten_through(),
        now_ms: last.time.now_ms,
        gauges: crate::gauges::Gauges {
            wall: last.time.wall.clone(),
            ..Default::default()
        },
        ..Shown::default()
    };
    let written = last.time.wall.last().map_or(0, |(_, wall_ms)| *wall_ms);
    let written = i64::try_from(written).unwrap_or(i64::MAX);
    wide::retention(&Facts::default(), &shown, written)
}

fn run(facts: &Facts, seen: &Seen, now_ms: i64) -> Run {
    Run {
        incarnation: facts.incarnation,
        processes: facts.processes,
        workers: facts.workers,
        started_at: print_instant(seen.started_ms),
        up_seconds: seconds(now_ms.saturating_sub(seen.started_ms)),
        restored_from: facts.restored_from,
        rule_off: facts.rule_off,
        keeps: facts.keeps.clone(),
        not_fenced: facts.not_fenced.clone(),
        lease_trouble: seen.lease_trouble.clone(),
    }
}

fn not_proven(facts: &Facts, shown: &Shown) -> Vec<String> {
    let mut notes = facts.not_proven.clone();
    notes.extend(shown.not_proven.iter().cloned());
    for generation in &shown.generations {
        let state = &generation.state;
        let open = state.reached.iter().filter(|_| !state.stage.is_over());
        let open = open.filter_map(|reached| {
            let what = reached.not_proven.as_ref()?;
            Some(format!("{} {}: {what}", state.id, reached.stage.word()))
        });
        notes.extend(open);
    }
    if !shown.generations.is_empty() {
        return notes;
    }
    if shown.evidence.as_deref() == Some("quiet") {
        notes.push("the end of the snapshot was assumed, as no topic delivered".to_owned());
    }
    if shown.caught_up {
        notes.push(
            "caught up is measured against the mutation topics: what the live connector had not \
             written by then is not known"
                .to_owned(),
        );
    }
    notes
}

fn reads(shown: &Shown) -> Reads {
    let counts = &shown.counts;
    let by_reason = |reasons: &[(&str, u64)]| {
        let reasons = reasons.iter();
        let reasons = reasons.map(|(reason, count)| ((*reason).to_owned(), *count));
        reasons.collect::<BTreeMap<_, _>>()
    };
    Reads {
        read: counts.reads_read,
        emitted: counts.reads_emitted,
        dropped: by_reason(&[
            ("marker", counts.reads_dropped_marker),
            ("superseded", counts.reads_dropped_superseded),
        ]),
        quarantined: by_reason(&[
            ("forgotten", counts.reads_quarantined),
            ("late", counts.reads_late),
            ("poisoned", counts.reads_poisoned),
        ]),
        emitted_unsafe: counts.reads_emitted_unsafe,
    }
}

/// A checkpoint of this run.
pub(super) fn checkpoint(saved: &Saved, at_ms: Option<i64>) -> Checkpoint {
    Checkpoint {
        number: saved.number,
        at: at_ms.map(print_instant),
        seconds: Some(seconds(i64::try_from(saved.took_ms).unwrap_or(i64::MAX))),
        bytes_new: Some(saved.bytes_new),
        bytes: saved.bytes,
    }
}

fn of_sink(facts: &Facts, shown: &Shown, (state, rows_written): &(queue::SinkState, u64)) -> Sink {
    let (word, reason, attempts_failed) = match state {
        queue::SinkState::Running => (SinkState::Running, None, 0),
        queue::SinkState::Retrying {
            attempts, reason, ..
        } => (SinkState::Retrying, Some(reason.clone()), *attempts),
        queue::SinkState::Failed(error) => {
            let headline = error.text.lines().next().unwrap_or_default();
            (SinkState::Failed, Some(headline.to_owned()), 0)
        }
    };
    let behind_ms = shown.now_ms.saturating_sub(shown.durable_ms);
    Sink {
        kind: facts.sink_kind.clone(),
        rows_written: *rows_written,
        state: word,
        reason,
        attempts_failed,
        behind_seconds: seconds(i64::try_from(behind_ms).unwrap_or(i64::MAX)),
    }
}

fn troubles(troubles: &BTreeMap<String, String>) -> Vec<Trouble> {
    let trouble = |(who, what): (&String, &String)| Trouble {
        who: who.clone(),
        what: what.clone(),
    };
    troubles.iter().map(trouble).collect()
}

/// Exact to the millisecond for some hundred thousand years.
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::{Facts, Seen, down, running, starting};
    use crate::control::document::{Doing, SinkState, Word};
    use crate::generation::Stage;
    use crate::job::Shown;
    use crate::sink::queue;

    fn seen(change: impl FnOnce(&mut Shown)) -> Seen {
        let mut seen = Seen::default();
        seen.shown.snapshot_partitions = (0, 2);
        change(&mut seen.shown);
        seen
    }

    #[test]
    fn what_is_not_proven_is_said() {
        let facts = Facts {
            not_proven: vec!["m[0] is read from offset 7".to_owned()],
            ..Facts::default()
        };
        let seen = seen(|shown| {
            shown.caught_up = true;
            shown.evidence = Some("quiet".to_owned());
        });
        let notes = running(&facts, &seen, 0).not_proven;
        assert_eq!(notes.len(), 3, "{notes:?}");
    }

    #[test]
    fn times_and_targets_are_told() {
        let facts = Facts::default();
        let mut seen = seen(|shown| (shown.now_ms, shown.durable_ms) = (900, 400));
        seen.started_ms = 1_000;
        let reason = "database is locked".to_owned();
        let (shard, attempts) = (0, 3);
        let retrying = queue::SinkState::Retrying {
            shard,
            attempts,
            reason,
        };
        seen.sink = Some((retrying, 12));
        seen.timeline = vec![(Stage::Open, 1_500)];
        seen.failure = Some("boom".to_owned());
        let status = running(&facts, &seen, 3_500);
        let run = status.run.expect("it runs");
        assert_eq!(
            (run.up_seconds, &*run.started_at),
            (2.5, "1970-01-01T00:00:01Z")
        );
        let sink = status.sink.expect("it is known");
        assert_eq!(
            (sink.state, sink.attempts_failed, sink.behind_seconds),
            (SinkState::Retrying, 3, 0.5)
        );
        assert_eq!(status.stage, Doing::Failed);
        assert_eq!(
            status.generations[0].timeline[0].at,
            "1970-01-01T00:00:01.500Z"
        );
    }

    #[test]
    fn without_a_job_little_is_known() {
        assert_eq!(starting("j", 0).verdict.word, Word::Starting);
        let status = down("j", &[], "nobody answers", None, 0);
        assert_eq!(status.stage, Doing::Down);
        assert!(status.checkpoint.is_none() && status.generations.is_empty());
        assert!(
            status.verdict.text.contains("no checkpoint"),
            "{:?}",
            status.verdict
        );
    }
}
