//! What a generation waits for, in words: who acts, with which command, and whether it can be left
//! alone. Pure.
//!
//! Invariant: a generation that is not ready, promoted or over always waits for something named.

use super::finished::{Count, Snapshot, count};
use super::stage::Stage;
use super::step::Facts;
use crate::config::choices::{CaughtUp, SourceFinished};
use crate::job::Wait;
use crate::summary::grouped;

/// What words need beside the facts.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    /// The generation's id.
    pub id: &'a str,
    /// Where it stands.
    pub stage: Stage,
    /// How far it is on its way.
    pub progress: Stage,
    /// What is known.
    pub facts: Facts,
    /// What is known of its snapshot.
    pub snapshot: &'a Snapshot<'a>,
    /// The weakest evidence that counts.
    pub required: (SourceFinished, CaughtUp),
    /// Snapshot partitions at their end, of all.
    pub at_end: (usize, usize),
    /// Mutation partitions at their target, of all.
    pub at_target: (usize, usize),
    /// What is wrong with the snapshot connector, and with the live one.
    pub troubles: (Option<&'a str>, Option<&'a str>),
    /// Something past the cutoff was seen.
    pub live_seen: bool,
    /// READs that have come in this run.
    pub read: u64,
    /// It is the first one, whose topics are those of the configuration.
    pub first: bool,
    /// READs are paused by a person.
    pub paused: bool,
    /// What is said when READs wait for the marker limit.
    pub stuck: Option<&'a Wait>,
    /// Ends that a person gave lie beyond what the topics hold.
    pub ends_beyond: bool,
    /// Why the generation is unsafe.
    pub unsafe_reason: Option<&'a str>,
    /// The end is taken for reached when nothing comes for a while.
    pub ends_when_idle: bool,
}

/// The words.
pub fn wait(scene: &Scene<'_>) -> Option<Wait> {
    let facts = &scene.facts;
    if scene.stage.is_over() || scene.stage == Stage::Promoted {
        return None;
    }
    if scene.stage == Stage::Unsafe {
        return Some(spoiled(scene));
    }
    if facts.late_reads > 0 && scene.stage < Stage::Promoted {
        let text = format!(
            "{} READs came behind the end of their partition, or were read before the generation \
             began, and are in quarantine; it can not be ready. Find who still wrote to its \
             topics; then open a new one",
            grouped(facts.late_reads)
        );
        return Some(person(text, "headwater quarantine ls"));
    }
    match scene.progress {
        Stage::Ready | Stage::Promoted => None,
        Stage::CaughtUp if facts.dead_letters > 0 => Some(lost(scene)),
        Stage::CaughtUp => Some(job(
            "everything is in the target; the manifest that says so is made",
        )),
        Stage::Open => Some(open(scene)),
        _ => Some(on_the_way(scene)),
    }
}

fn spoiled(scene: &Scene<'_>) -> Wait {
    let why = match (scene.facts.rule_off, scene.facts.unsafe_reads) {
        (true, _) => "the marker rule is off (--without-markers), so the target may hold stale \
                      rows"
            .to_owned(),
        (false, reads) => format!(
            "{} READs may be stale, as markers of the snapshot's window were forgotten; do not use \
             the target. {}",
            grouped(reads),
            scene.unsafe_reason.unwrap_or(
                "Have the keys in quarantine read again into a new generation, or take a new \
                 snapshot with keep_markers = \"until_ready\""
            )
        ),
    };
    let mut wait = person(why, "headwater quarantine signal");
    if scene.facts.rule_off {
        wait.command = None;
    }
    wait
}

/// All is done but what a person must accept.
fn lost(scene: &Scene<'_>) -> Wait {
    let text = format!(
        "{} mutations could not be decoded and are in the dead letters: the target lacks them, and \
         READs of their keys are quarantined as `poisoned`. Have their rows written once more at \
         the source, then accept what is lost",
        grouped(scene.facts.dead_letters)
    );
    person(
        text,
        &format!("headwater generation accept-dead-letters {}", scene.id),
    )
}

/// READs are not read.
fn held(scene: &Scene<'_>) -> Option<Wait> {
    let paused = || person("READs are paused".to_owned(), "headwater generation resume");
    let stuck = scene.stuck.cloned();
    stuck.or_else(|| scene.paused.then(paused))
}

fn open(scene: &Scene<'_>) -> Wait {
    if let Some(trouble) = scene.troubles.0 {
        let text = format!("the snapshot connector: {trouble}");
        return person_without(text, false);
    }
    if let Some(wait) = held(scene) {
        return wait;
    }
    if scene.ends_beyond {
        let text = "the ends that were given lie beyond what the snapshot topics hold; READs up to \
                    them are waited for. Were they wrong, give others";
        return person(
            text.to_owned(),
            &format!("headwater generation finish {}", scene.id),
        );
    }
    if scene.ends_when_idle {
        return job(&format!(
            "reading the snapshot, {} of {} partitions at end; it ends when no topic delivers any \
             more",
            scene.at_end.0, scene.at_end.1
        ));
    }
    let (text, command, leave_alone) = told(scene, &count(scene.snapshot));
    Wait {
        person: command.is_some() || !leave_alone,
        text,
        command,
        leave_alone,
    }
}

/// What notifications have told, with a command that helps, and whether it can be left alone.
fn told(scene: &Scene<'_>, count: &Count) -> (String, Option<String>, bool) {
    let id = scene.id;
    let finish = Some(format!("headwater generation finish {id}"));
    let (at_end, of) = scene.at_end;
    let rows = grouped(rows(scene.snapshot));
    let words = |text: &str, command, alone| (text.to_owned(), command, alone);
    match count {
        Count::Unknown if scene.read == 0 && scene.snapshot.reads.is_empty() && at_end == 0 => {
            let text = "no READ has come; start the snapshot connector if it does not run";
            words(text, None, true)
        }
        Count::Unknown => {
            let text = format!(
                "reading the snapshot, {at_end} of {of} partitions at end; nothing tells when it \
                 is complete (`source.notifications`, `source.connect`). When it is, say so"
            );
            let command = match scene.first {
                true => Some("headwater end-snapshot".to_owned()),
                false => finish,
            };
            (text, command, true)
        }
        Count::Mixed {
            names: [one, other],
        } => {
            let text = format!(
                "connectors {one} and {other} send notifications into one topic, so neither's are \
                 evidence: give the snapshot connector a topic of its own, or, when the snapshot \
                 is complete, say so"
            );
            (text, finish, false)
        }
        Count::NotStarted => words(NOT_STARTED, None, true),
        Count::Early => words(EARLY, finish, false),
        Count::Skipped => words(SKIPPED, finish, false),
        Count::Scanning => {
            let text = format!(
                "the snapshot connector scans; {rows} READs have come. Nothing tells of one that \
                 was aborted: if it was, start it again"
            );
            (text, None, true)
        }
        Count::Aborted => {
            let abort = format!("headwater generation abort {id}");
            words(
                "the snapshot was aborted: start it again",
                Some(abort),
                false,
            )
        }
        Count::Bad { table, status } => {
            let text = format!(
                "table {table} of the snapshot: {status}. Let the generation go on without it, or \
                 take the snapshot again"
            );
            let drop_table = format!("headwater generation drop-table {id} --table {table}");
            (text, Some(drop_table), false)
        }
        Count::Missing { .. } | Count::More { .. } | Count::Equal => {
            let (text, alone) = counted(count, &rows);
            let command = finish.filter(|_| !matches!(count, Count::Missing { .. }));
            (text, command, alone)
        }
    }
}

const NOT_STARTED: &str =
    "the snapshot connector has not told that it has started; start it if it does not run";
const EARLY: &str = "COMPLETED has come without a STARTED since the generation was opened: it is \
    of an earlier snapshot, or the STARTED was lost. If this snapshot is complete, say so";
const SKIPPED: &str = "the snapshot connector has found nothing to do (SKIPPED): it has done this \
    snapshot before. Delete its offsets and start it again, or say that it is complete";

/// READs against rows, when the connector has scanned all.
fn counted(count: &Count, rows: &str) -> (String, bool) {
    match count {
        Count::Missing { scanned, seen } => {
            let text = format!(
                "the connector has scanned {} rows and {} READs of its last run have come; the \
                 others are on their way, or were lost",
                grouped(*scanned),
                grouped(*seen)
            );
            (text, true)
        }
        Count::More { scanned, seen } => {
            let text = format!(
                "{} READs for {} scanned rows: the snapshot was done more than once into its \
                 topics, and no `runId` header tells the runs apart, or somebody else writes to \
                 them. If it is complete, say so",
                grouped(*seen),
                grouped(*scanned)
            );
            (text, false)
        }
        _ => {
            let text = format!(
                "as many READs as rows scanned, {rows}; stronger evidence is required \
                 (`promote.source_finished`)"
            );
            (text, false)
        }
    }
}

fn rows(snapshot: &Snapshot<'_>) -> u64 {
    snapshot.reads.iter().map(|seen| seen.rows).sum()
}

fn on_the_way(scene: &Scene<'_>) -> Wait {
    let facts = &scene.facts;
    if scene.progress == Stage::SourceFinished && !facts.consumed {
        if let Some(wait) = held(scene) {
            return wait;
        }
        let (at_end, of) = scene.at_end;
        return job(&format!(
            "reading the snapshot up to its frozen ends, {at_end} of {of} partitions there"
        ));
    }
    if !facts.cutoff {
        return job("all READs are merged; the source is asked for its position");
    }
    if !facts.targets {
        return live(scene);
    }
    let (at, of) = scene.at_target;
    job(&format!(
        "mutations are read up to their targets, {at} of {of} partitions there"
    ))
}

fn live(scene: &Scene<'_>) -> Wait {
    if let Some(trouble) = scene.troubles.1 {
        return person_without(
            format!("the live connector has not passed the cutoff: {trouble}"),
            false,
        );
    }
    if scene.live_seen && scene.required.1 == CaughtUp::Seen {
        return job("a record past the cutoff was seen; the others are given time to settle");
    }
    let text = match scene.required.1 {
        CaughtUp::LiveOffsets => {
            "the live connector has not committed an offset past the cutoff \
             (`promote.caught_up = \"live_offsets\"`)"
        }
        CaughtUp::Delivered => {
            "not every mutation partition has delivered a record past the cutoff \
             (`promote.caught_up = \"delivered\"`)"
        }
        _ => "no record past the cutoff has been seen from the live connector",
    };
    // A heartbeat has a time, but on an idle source the position of the last change: see
    // `evidence::slot`.
    let idle = match scene.required.1 {
        CaughtUp::LiveOffsets => {
            "its log goes on, its offset with the next change of a captured table alone. Write a \
             row of one, give the connector a heartbeat.action.query that does"
        }
        CaughtUp::Delivered => "write a row of each partition",
        _ => {
            "write a row, give the connector a heartbeat.interval.ms and name its topic in \
             `source.heartbeat`"
        }
    };
    let text = format!("{text}. If the source is idle: {idle}, or accept that nothing proves it");
    let mut wait = person(
        text,
        &format!("headwater generation accept-lag {}", scene.id),
    );
    wait.leave_alone = true;
    wait
}

fn job(text: &str) -> Wait {
    Wait {
        text: text.to_owned(),
        person: false,
        command: None,
        leave_alone: true,
    }
}

fn person(text: String, command: &str) -> Wait {
    Wait {
        text,
        person: true,
        command: Some(command.to_owned()),
        leave_alone: false,
    }
}

fn person_without(text: String, leave_alone: bool) -> Wait {
    Wait {
        text,
        person: true,
        command: None,
        leave_alone,
    }
}

#[cfg(test)]
mod tests;
