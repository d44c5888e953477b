//! The verdict: what a job waits for, who acts, with which command, and whether it may be left
//! alone. One pure function.
//!
//! Invariant: it is never better than the counts; a job with a READ that may be stale is never
//! called caught up, ready or promotable.

use super::document::{Actor, Doing, Trouble, Verdict, Word};
use crate::generation::Stage;
use crate::job::ShownGeneration;
use crate::promote::Criterion;
use crate::summary::grouped;

/// What a verdict is made from.
pub(super) struct Situation<'a> {
    /// What the process does.
    pub(super) doing: Doing,
    /// The headline of what went wrong.
    pub(super) failure: Option<&'a str>,
    /// Why the job stops by itself.
    pub(super) stopped_for: Option<&'a str>,
    /// All generations, oldest first.
    pub(super) generations: &'a [ShownGeneration],
    /// The marker rule is off.
    pub(super) rule_off: bool,
    /// What is waited for without being an error.
    pub(super) troubles: &'a [Trouble],
    /// What promotion of a generation asks for.
    pub(super) criteria: &'a dyn Fn(&ShownGeneration) -> Vec<Criterion>,
}

const DONE: &str = "every READ, and every mutation up to the ends sampled after it, is in the \
    target";

/// Judges.
pub(super) fn judge(now: &Situation<'_>) -> Verdict {
    use Actor::{Job, Person};
    if now.doing == Doing::Failed {
        let what = now.failure.unwrap_or("an error was met");
        let text = format!("{what}; the process ends and has said more on stderr");
        return verdict(Word::Failed, text, Person, false);
    }
    if now.doing == Doing::Starting {
        let text = "the job is claimed, and its peers are waited for".to_owned();
        return verdict(Word::Starting, text, Job, true);
    }
    if now.rule_off {
        let text = "the marker rule is off (--without-markers), so the target may hold stale rows";
        return verdict(Word::Unsafe, text.to_owned(), Person, false);
    }
    if let Some(spoilt) = now.generations.iter().find_map(|one| lost(one, now)) {
        return spoilt;
    }
    if let Some(why) = now.stopped_for {
        let text = format!("the job stops by itself: {}", one_line(why));
        return verdict(Word::Stopping, text, Person, false);
    }
    if now.doing == Doing::Stopping {
        let text = "what was read is written, then a last checkpoint is made".to_owned();
        return verdict(Word::Stopping, text, Job, true);
    }
    let mut state = of_generations(now);
    if let Some(trouble) = now.troubles.first() {
        let text = format!("waiting, {}: {}", trouble.who, one_line(&trouble.what));
        // What was reached stays reached; nothing is said to be promotable meanwhile.
        let word = match state.word {
            Word::Promotable => Word::Ready,
            word => word,
        };
        state = verdict(word, text, Person, false);
    }
    state
}

/// Why a generation can never be ready any more, if it cannot.
fn lost(one: &ShownGeneration, now: &Situation<'_>) -> Option<Verdict> {
    let state = &one.state;
    let name = named(one, now);
    if state.stage == Stage::Unsafe || (state.unsafe_reads > 0 && !state.stage.is_over()) {
        let why = match (&one.waits, state.unsafe_reads) {
            (Some(wait), _) => wait.text.clone(),
            (None, 0) => "a marker that its window needs was forgotten; do not use the target. \
                Take a new snapshot"
                .to_owned(),
            (None, reads) => format!(
                "{} READs may be stale, as markers of the snapshot's window were forgotten; do \
                 not use the target. Take a new snapshot with keep_markers = \"until_ready\"",
                grouped(reads)
            ),
        };
        let mut said = verdict(Word::Unsafe, name + &why, Actor::Person, false);
        said.command = one.waits.as_ref().and_then(|wait| wait.command.clone());
        return Some(said);
    }
    let before_promotion = state.stage <= Stage::Ready;
    (state.late_reads > 0 && before_promotion).then(|| {
        let text = format!(
            "{name}{} READs came behind the end of their partition and are in quarantine; the \
             snapshot was ended too early. Find who still wrote to it, and take a new one",
            grouped(state.late_reads)
        );
        verdict(Word::Spoiled, text, Actor::Person, false)
    })
}

/// What generations that can still be used wait for, and where they stand.
fn of_generations(now: &Situation<'_>) -> Verdict {
    use Actor::{Job, Nobody, Person};
    let live = || {
        now.generations
            .iter()
            .filter(|one| !one.state.stage.is_over())
    };
    if let Some((one, wait)) = live().find_map(|one| Some((one, one.waits.as_ref()?))) {
        let acts = if wait.person { Person } else { Job };
        let text = named(one, now) + &wait.text;
        let mut said = verdict(Word::NotReady, text, acts, wait.leave_alone);
        said.command.clone_from(&wait.command);
        return said;
    }
    // The one that is least far: of two that take over tables of each other, both must be there.
    let Some(one) = live().min_by_key(|one| one.state.stage) else {
        let given_up = now
            .generations
            .last()
            .is_some_and(|one| one.state.stage == Stage::Aborted);
        let word = if given_up {
            Word::Aborted
        } else {
            Word::NotReady
        };
        let text = match given_up {
            true => "the generation was given up; mutations go on. Open a new one",
            false => "no generation is open; mutations go on. Open one",
        };
        let mut said = verdict(word, text.to_owned(), Person, true);
        said.command = Some("headwater generation open --snapshot TABLE=TOPIC".to_owned());
        return said;
    };
    let name = named(one, now);
    match one.state.stage {
        Stage::Promoted => {
            let text = format!("{} is promoted; mutations go on", one.state.id);
            verdict(Word::Promoted, text, Nobody, true)
        }
        Stage::Ready => ready(one, now),
        Stage::CaughtUp => verdict(Word::CaughtUp, name + DONE, Nobody, true),
        stage => {
            let text = format!("{name}the generation is {}", stage.word());
            verdict(Word::NotReady, text, Job, true)
        }
    }
}

/// A generation that is ready: promotable, or what is not met.
fn ready(one: &ShownGeneration, now: &Situation<'_>) -> Verdict {
    let criteria = (now.criteria)(one);
    let id = &one.state.id;
    let Some(unmet) = criteria.iter().find(|criterion| !criterion.met) else {
        let text = format!("{id} is ready, and every criterion of promotion is met");
        let mut said = verdict(Word::Promotable, text, Actor::Person, true);
        said.command = Some(format!("headwater generation promote {id}"));
        return said;
    };
    let remedy = unmet.remedy.as_deref().unwrap_or_default();
    let text = format!(
        "{id} is ready; `{}` is not met: found {}, required {}: {remedy}",
        unmet.name, unmet.actual, unmet.required
    );
    verdict(Word::Ready, text, Actor::Person, true)
}

/// `ID: ` when there are several.
fn named(one: &ShownGeneration, now: &Situation<'_>) -> String {
    match now.generations.len() {
        0 | 1 => String::new(),
        _ => format!("{}: ", one.state.id),
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
            Word::NotReady => "NOT PROMOTABLE",
            Word::CaughtUp => "CAUGHT UP",
            Word::Ready => "READY, NOT PROMOTABLE",
            Word::Promotable => "PROMOTABLE",
            Word::Promoted => "PROMOTED",
            Word::Spoiled => "NEVER PROMOTABLE",
            Word::Unsafe => "UNSAFE",
            Word::Aborted => "ABORTED",
            Word::Stopping => "STOPPING",
            Word::Failed => "FAILED",
            Word::Down => "DOWN",
        }
    }
}

#[cfg(test)]
mod tests;
