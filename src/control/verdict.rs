//! The verdict: what a job waits for, who acts, with which command, and whether it may be left
//! alone. One pure function.
//!
//! Invariant: it is never better than the counts; a job with a READ that may be stale is never
//! called caught up.

use super::document::{Actor, Stage, State, Trouble, Verdict, Word};
use crate::summary::grouped;

/// What a verdict is made from.
#[derive(Clone, Debug)]
pub(super) struct Situation<'a> {
    /// What the process does.
    pub(super) stage: Stage,
    /// The headline of what went wrong.
    pub(super) failure: Option<&'a str>,
    /// Where the generation stands.
    pub(super) state: State,
    /// Snapshot partitions at their end, of all.
    pub(super) partitions: (usize, usize),
    /// What the completion does, in words.
    pub(super) phase: &'a str,
    /// READs that met a forgotten marker.
    pub(super) unsafe_reads: u64,
    /// READs behind the end.
    pub(super) late_reads: u64,
    /// The marker rule is off.
    pub(super) rule_off: bool,
    /// The end is taken for reached when no topic delivers for a while.
    pub(super) ends_when_idle: bool,
    /// What is waited for without being an error.
    pub(super) troubles: &'a [Trouble],
}

const DONE: &str = "every READ, and every mutation up to the ends sampled after it, is in the \
    target";

/// Judges.
pub(super) fn judge(now: &Situation<'_>) -> Verdict {
    use Actor::{Job, Nobody, Person};
    let (at_end, of) = now.partitions;
    if now.stage == Stage::Failed {
        let what = now.failure.unwrap_or("an error was met");
        let text = format!("{what}; the process ends and has said more on stderr");
        return verdict(Word::Failed, text, Person, false);
    }
    if now.stage == Stage::Starting {
        let text = "the job is claimed, and its peers are waited for".to_owned();
        return verdict(Word::Starting, text, Job, true);
    }
    if now.rule_off {
        let text = "the marker rule is off (--without-markers), so the target may hold stale rows";
        return verdict(Word::Unsafe, text.to_owned(), Person, false);
    }
    if now.unsafe_reads > 0 {
        let text = format!(
            "{} READs may be stale, as markers of the snapshot's window were forgotten; do not \
             use the target. Take a new snapshot with keep_markers = \"until_ready\"",
            grouped(now.unsafe_reads)
        );
        return verdict(Word::Unsafe, text, Person, false);
    }
    if now.late_reads > 0 {
        let text = format!(
            "{} READs came behind the end of their partition and are in quarantine; the snapshot \
             was ended too early. Find who still wrote to it, and take a new one",
            grouped(now.late_reads)
        );
        return verdict(Word::Spoiled, text, Person, false);
    }
    if now.stage == Stage::Stopping {
        let text = "what was read is written, then a last checkpoint is made".to_owned();
        return verdict(Word::Stopping, text, Job, true);
    }
    if let Some(trouble) = now.troubles.first() {
        let text = format!("waiting, {}: {}", trouble.who, one_line(&trouble.what));
        let word = match now.state {
            State::CaughtUp => Word::CaughtUp,
            _ => Word::NotReady,
        };
        return verdict(word, text, Person, false);
    }
    match now.state {
        State::CaughtUp => verdict(Word::CaughtUp, DONE.to_owned(), Nobody, true),
        State::TopicConsumed => {
            let text = format!("all READs are merged; {}", now.phase);
            verdict(Word::NotReady, text, Job, true)
        }
        State::Reading if at_end == of && of > 0 => {
            let text = "the snapshot was read to its end; its READs leave the merge".to_owned();
            verdict(Word::NotReady, text, Job, true)
        }
        State::Open | State::Reading if now.ends_when_idle => {
            let text = format!("{}; it ends when no topic delivers any more", now.phase);
            verdict(Word::NotReady, text, Job, true)
        }
        State::Open => {
            let text = "no READ has come; start the snapshot connector if it does not run";
            verdict(Word::NotReady, text.to_owned(), Person, true)
        }
        State::Reading => {
            let text = format!("{}; when the snapshot is complete, end it", now.phase);
            let mut verdict = verdict(Word::NotReady, text, Person, true);
            verdict.command = Some("headwater end-snapshot".to_owned());
            verdict
        }
        // Both have a reason above.
        State::Unsafe => verdict(Word::Unsafe, now.phase.to_owned(), Person, false),
    }
}

fn verdict(word: Word, text: String, acts: Actor, leave_alone: bool) -> Verdict {
    Verdict {
        word,
        text,
        acts,
        command: None,
        leave_alone,
    }
}

fn one_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl Verdict {
    /// The first line that a person reads.
    pub fn line(&self) -> String {
        let text = self.text.trim_end_matches('.');
        let acts = match (&self.command, self.acts) {
            (Some(command), _) => format!("DO: {command}"),
            (None, Actor::Person) => "A person must act.".to_owned(),
            (None, Actor::Job | Actor::Nobody) => "Nothing to do.".to_owned(),
        };
        let alone = match self.leave_alone {
            true => "It can be left alone.",
            false => "Do not leave it alone.",
        };
        let mark = if self.command.is_some() { " – " } else { " " };
        format!("{}: {text}. {acts}{mark}{alone}", self.word.shown())
    }
}

impl Word {
    /// As a person reads it.
    pub fn shown(self) -> &'static str {
        match self {
            Word::Starting => "STARTING",
            Word::NotReady => "NOT READY",
            Word::CaughtUp => "CAUGHT UP",
            Word::Spoiled => "NOT READY, NEVER",
            Word::Unsafe => "UNSAFE",
            Word::Stopping => "STOPPING",
            Word::Failed => "FAILED",
            Word::Down => "DOWN",
        }
    }
}

#[cfg(test)]
mod tests;
