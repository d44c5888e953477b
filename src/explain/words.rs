//! An explanation in words, for a person. Pure.
//!
//! Ticks are told as wall time where that is known, and as job time otherwise.

use super::facts::{Explanation, Kept, OfGeneration, Outcome, Source};
use super::search::{Found, Searched};
use crate::checkpoint_cli::Moment;
use crate::config::units::print_duration;
use crate::summary::grouped;
use std::time::Duration;

/// One thing a line, with a line break at the end.
pub fn text(explanation: &Explanation, searched: Option<&Searched>) -> String {
    let mut lines = vec![format!("key {} {}", explanation.table, explanation.key)];
    let mut add = |text: String| lines.push(format!("  {text}"));
    add(match (&explanation.marked, searched) {
        (None, _) => "no marker: no mutation of it is remembered".to_owned(),
        (Some(at), None) => format!("marked at {} (`--search` shows the record)", when(at)),
        (Some(at), Some(_)) => format!("marked at {}", when(at)),
    });
    for generation in &explanation.generations {
        add(format!(
            "{} ({}): a READ of this key {}",
            generation.id,
            generation.stage.word(),
            outcome(generation.outcome)
        ));
        add(format!("    {}", because(generation, explanation)));
    }
    if let Some(kept) = &explanation.kept {
        add(kept_words(kept));
    }
    for note in &explanation.notes {
        add(note.clone());
    }
    let as_of = when(&explanation.as_of);
    lines.push(match &explanation.source {
        Source::Live => format!("as the running job {} knows it, {as_of}", explanation.job),
        Source::Checkpoint { number, why } => {
            format!("as checkpoint {number} knows it, of {as_of}; {why}")
        }
    });
    lines.extend(searched.into_iter().flat_map(found));
    lines.join("\n") + "\n"
}

/// What becomes of a READ, and its reason as metrics have it.
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Emitted => "is emitted",
        Outcome::EmittedRuleOff => "is emitted, stale or not: the rule is off",
        Outcome::DroppedMarker => "is dropped: reason `marker`",
        Outcome::DroppedSuperseded => "is dropped: reason `superseded`",
        Outcome::Poisoned => "is quarantined: reason `poisoned`",
        Outcome::Quarantined => "may be stale and is quarantined: reason `forgotten`",
        Outcome::EmittedUnsafe => {
            "may be stale and is emitted all the same (`on_forgotten = \"emit\"`): the generation \
             is unsafe"
        }
        Outcome::EndsJob => "may be stale and ends the job (`on_forgotten = \"fail\"`)",
    }
}

fn because(of: &OfGeneration, explanation: &Explanation) -> String {
    let window = when(&of.window_from);
    let marker = match (&explanation.marked, of.marker_in_window) {
        (None, _) => "no marker",
        (Some(_), true) => "its marker is in the window",
        (Some(_), false) => "its marker is older than the window, and does not count",
    };
    match of.outcome {
        Outcome::DroppedSuperseded => format!(
            "{} takes no READs of this table (any more); its window began {window}",
            of.id
        ),
        Outcome::Quarantined | Outcome::EmittedUnsafe | Outcome::EndsJob => {
            let through = explanation.forgotten_through.as_ref();
            let through = through.map_or_else(|| "some tick".to_owned(), when);
            format!(
                "{marker}, which proves nothing: the window begins {window}, and markers through \
                 {through} were forgotten"
            )
        }
        Outcome::Poisoned => {
            "the last mutation of this key could not be decoded; the dead letters have it"
                .to_owned()
        }
        Outcome::Emitted => {
            format!("{marker}; the window begins {window}, and none of its markers was forgotten")
        }
        Outcome::DroppedMarker | Outcome::EmittedRuleOff => {
            format!("{marker}, which begins {window}")
        }
    }
}

fn kept_words(kept: &Kept) -> String {
    match kept {
        Kept::UntilReady(ids) => {
            let are = if ids.len() == 1 { "is" } else { "are" };
            format!("the marker is kept until {} {are} ready", ids.join(", "))
        }
        Kept::ForMs(ms) => {
            // Whole seconds are exact enough for a forecast.
            let left = match ms / 1_000 {
                0 => Duration::from_millis(*ms),
                seconds => Duration::from_secs(seconds),
            };
            format!(
                "the marker is kept for another {} of the job's running time",
                print_duration(left)
            )
        }
        Kept::NoLonger => "nothing needs the marker any more; it goes".to_owned(),
    }
}

/// Wall time, or job time.
fn when(moment: &Moment) -> String {
    moment.wall().unwrap_or_else(|| moment.words())
}

fn found(searched: &Searched) -> Vec<String> {
    let mut lines = Vec::new();
    for topic in &searched.topics {
        let count = topic.records.len();
        let cut = if topic.cut { ", time ran out" } else { "" };
        let bad = match topic.undecodable {
            0 => String::new(),
            count => format!(", {} could not be decoded", grouped(count)),
        };
        lines.push(format!(
            "{} {}: {count} of this key in {} records{} ({}{bad}{cut})",
            topic.role,
            topic.topic,
            grouped(topic.read),
            if topic.more {
                ", the last are shown"
            } else {
                ""
            },
            topic.span
        ));
        lines.extend(topic.records.iter().map(record));
        lines.extend(topic.trouble.iter().map(|why| format!("  {why}")));
    }
    lines
}

fn record(found: &Found) -> String {
    let source = found.source_time.as_deref().unwrap_or("not told");
    let written = found.log_time.as_deref().unwrap_or("not told");
    let value = match &found.value {
        Some(value) => format!("\n    {value}"),
        None => String::new(),
    };
    format!(
        "  {:<8} {}  source time {source}, written {written}{value}",
        found.op, found.at
    )
}

#[cfg(test)]
mod tests;
