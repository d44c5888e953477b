//! The table of verdicts.

use super::{Situation, judge};
use crate::control::document::{Actor, Stage, State, Trouble, Word};

fn running(state: State) -> Situation<'static> {
    Situation {
        stage: Stage::Running,
        failure: None,
        state,
        partitions: (0, 4),
        phase: "reading the snapshot, 0 of 4 partitions at end",
        unsafe_reads: 0,
        late_reads: 0,
        rule_off: false,
        ends_when_idle: false,
        troubles: &[],
    }
}

/// What is said: the word, who acts, whether a command is named, whether it may be left alone.
type Said = (Word, Actor, bool, bool);

#[test]
fn every_situation_has_its_verdict() {
    let away = [Trouble {
        who: "the target".to_owned(),
        what: "database is locked\nmore".to_owned(),
    }];
    let with = |change: &dyn Fn(&mut Situation<'_>), state| {
        let mut now = running(state);
        change(&mut now);
        let verdict = judge(&now);
        let said: Said = (
            verdict.word,
            verdict.acts,
            verdict.command.is_some(),
            verdict.leave_alone,
        );
        (said, verdict.text)
    };
    let same: &dyn Fn(&mut Situation<'_>) = &|_| {};
    let table: &[(State, &dyn Fn(&mut Situation<'_>), Said, &str)] = &[
        (
            State::Open,
            same,
            (Word::NotReady, Actor::Person, false, true),
            "no READ has come",
        ),
        (
            State::Reading,
            same,
            (Word::NotReady, Actor::Person, true, true),
            "0 of 4 partitions",
        ),
        (
            State::Reading,
            &|now| now.partitions = (4, 4),
            (Word::NotReady, Actor::Job, false, true),
            "read to its end",
        ),
        (
            State::Reading,
            &|now| now.ends_when_idle = true,
            (Word::NotReady, Actor::Job, false, true),
            "no topic delivers",
        ),
        (
            State::TopicConsumed,
            &|now| now.phase = "catching up, 1 of 2 partitions there",
            (Word::NotReady, Actor::Job, false, true),
            "1 of 2",
        ),
        (
            State::CaughtUp,
            same,
            (Word::CaughtUp, Actor::Nobody, false, true),
            "every READ",
        ),
        (
            State::CaughtUp,
            &|now| now.unsafe_reads = 1,
            (Word::Unsafe, Actor::Person, false, false),
            "1 READs may be stale",
        ),
        (
            State::CaughtUp,
            &|now| now.late_reads = 2,
            (Word::Spoiled, Actor::Person, false, false),
            "2 READs came behind",
        ),
        (
            State::CaughtUp,
            &|now| now.rule_off = true,
            (Word::Unsafe, Actor::Person, false, false),
            "--without-markers",
        ),
        (
            State::Open,
            &|now| now.stage = Stage::Starting,
            (Word::Starting, Actor::Job, false, true),
            "peers",
        ),
        (
            State::Reading,
            &|now| now.stage = Stage::Stopping,
            (Word::Stopping, Actor::Job, false, true),
            "last checkpoint",
        ),
        (
            State::CaughtUp,
            &|now| {
                now.stage = Stage::Failed;
                now.failure = Some("the key differs");
            },
            (Word::Failed, Actor::Person, false, false),
            "the key differs",
        ),
        (
            State::CaughtUp,
            &|now| {
                now.stage = Stage::Stopping;
                now.unsafe_reads = 7;
            },
            (Word::Unsafe, Actor::Person, false, false),
            "7 READs",
        ),
        (
            State::Unsafe,
            same,
            (Word::Unsafe, Actor::Person, false, false),
            "",
        ),
    ];
    for (index, (state, change, said, part)) in table.iter().enumerate() {
        let (found, text) = with(change, *state);
        assert_eq!(found, *said, "row {index}: {text}");
        assert!(text.contains(part), "row {index}: {text}");
    }
    for (state, word) in [
        (State::Reading, Word::NotReady),
        (State::CaughtUp, Word::CaughtUp),
    ] {
        let mut now = running(state);
        now.troubles = &away;
        let verdict = judge(&now);
        assert_eq!((verdict.word, verdict.leave_alone), (word, false));
        assert!(
            verdict.text.ends_with("the target: database is locked"),
            "{}",
            verdict.text
        );
    }
}

#[test]
fn the_line_says_what_who_and_whether_to_stay() {
    let reading = judge(&running(State::Reading));
    assert_eq!(
        reading.line(),
        "NOT READY: reading the snapshot, 0 of 4 partitions at end; when the snapshot is complete, \
         end it. DO: headwater end-snapshot – It can be left alone."
    );
    let done = judge(&running(State::CaughtUp)).line();
    assert!(done.starts_with("CAUGHT UP: every READ"), "{done}");
    assert!(done.ends_with("Nothing to do. It can be left alone."));
    let mut sick = running(State::Reading);
    sick.unsafe_reads = 1_000;
    let sick = judge(&sick).line();
    assert!(sick.starts_with("UNSAFE: 1,000 READs"), "{sick}");
    assert!(
        sick.ends_with("A person must act. Do not leave it alone."),
        "{sick}"
    );
}
