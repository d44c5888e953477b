//! The table of verdicts.

use super::{Situation, judge};
use crate::control::document::{Actor, Doing, Trouble, Verdict, Word};
use crate::generation::Stage;
use crate::job::{ShownGeneration, Wait};
use crate::promote::Criterion;

/// A situation that owns its parts.
struct Case {
    doing: Doing,
    failure: Option<&'static str>,
    stopped_for: Option<&'static str>,
    generations: Vec<ShownGeneration>,
    rule_off: bool,
    troubles: Vec<Trouble>,
    unmet: bool,
}

fn generation(stage: Stage) -> ShownGeneration {
    let mut one = ShownGeneration::default();
    one.state.id = "g1".to_owned();
    one.state.stage = stage;
    one
}

fn waiting(stage: Stage, text: &str, person: bool) -> ShownGeneration {
    let wait = Wait {
        text: text.to_owned(),
        person,
        command: person.then(|| "headwater generation finish g1".to_owned()),
        leave_alone: true,
    };
    let waits = Some(wait);
    ShownGeneration {
        waits,
        ..generation(stage)
    }
}

fn case(generations: Vec<ShownGeneration>) -> Case {
    Case {
        doing: Doing::Running,
        failure: None,
        stopped_for: None,
        generations,
        rule_off: false,
        troubles: Vec::new(),
        unmet: false,
    }
}

fn said(case: &Case) -> Verdict {
    let criterion = Criterion {
        name: "live_lag".to_owned(),
        required: "at most 5000 ms".to_owned(),
        actual: "9 s".to_owned(),
        met: !case.unmet,
        remedy: case.unmet.then(|| "wait".to_owned()),
    };
    judge(&Situation {
        doing: case.doing,
        failure: case.failure,
        stopped_for: case.stopped_for,
        generations: &case.generations,
        rule_off: case.rule_off,
        troubles: &case.troubles,
        criteria: &|_| vec![criterion.clone()],
    })
}

/// What is said: the word, who acts, whether a command is named, whether it may be left alone.
type Said = (Word, Actor, bool, bool);

fn expect(index: usize, case: &Case, expected: Said, part: &str) {
    let verdict = said(case);
    let command = verdict.command.is_some();
    let found = (verdict.word, verdict.acts, command, verdict.leave_alone);
    assert_eq!(found, expected, "row {index}: {}", verdict.text);
    assert!(verdict.text.contains(part), "row {index}: {}", verdict.text);
}

#[test]
fn a_generation_says_what_it_waits_for_or_where_it_stands() {
    use Actor::{Job, Nobody, Person};
    let unmet = Case {
        unmet: true,
        ..case(vec![generation(Stage::Ready)])
    };
    let two = vec![
        generation(Stage::Promoted),
        waiting(Stage::TopicConsumed, "m[2], 18,201 records", false),
    ];
    let mut late_promoted = generation(Stage::Promoted);
    late_promoted.state.late_reads = 3;
    let both = vec![generation(Stage::Promoted), generation(Stage::Ready)];
    let over = vec![generation(Stage::Superseded), generation(Stage::Promoted)];
    let rows: Vec<(Case, Said, &str)> = vec![
        (
            case(vec![waiting(Stage::Open, "end it", true)]),
            (Word::NotReady, Person, true, true),
            "end it",
        ),
        (
            case(two),
            (Word::NotReady, Job, false, true),
            "g1: m[2], 18,201",
        ),
        (
            case(vec![generation(Stage::CaughtUp)]),
            (Word::CaughtUp, Nobody, false, true),
            "every READ",
        ),
        (
            case(vec![generation(Stage::Ready)]),
            (Word::Promotable, Person, true, true),
            "g1 is ready",
        ),
        (unmet, (Word::Ready, Person, false, true), "`live_lag`"),
        (case(both), (Word::Promotable, Person, true, true), "ready"),
        (
            case(over),
            (Word::Promoted, Nobody, false, true),
            "promoted",
        ),
        (
            case(vec![late_promoted]),
            (Word::Promoted, Nobody, false, true),
            "mutations go on",
        ),
        (
            case(vec![generation(Stage::Aborted)]),
            (Word::Aborted, Person, true, true),
            "given up",
        ),
        (case(vec![]), (Word::NotReady, Person, true, true), "open"),
        (
            case(vec![generation(Stage::Open)]),
            (Word::NotReady, Job, false, true),
            "open",
        ),
    ];
    for (index, (case, said, part)) in rows.iter().enumerate() {
        expect(index, case, *said, part);
    }
}

#[test]
fn what_is_lost_comes_before_what_is_reached() {
    use Actor::{Job, Person};
    let bad = |stage, unsafe_reads, late_reads| {
        let mut one = generation(stage);
        one.state.unsafe_reads = unsafe_reads;
        one.state.late_reads = late_reads;
        case(vec![one])
    };
    let doing = |doing, case| Case { doing, ..case };
    let failed = Case {
        failure: Some("the key differs"),
        ..doing(Doing::Failed, bad(Stage::CaughtUp, 1, 0))
    };
    let full = Case {
        stopped_for: Some("the marker limit was passed"),
        ..bad(Stage::Open, 0, 0)
    };
    let off = Case {
        rule_off: true,
        ..bad(Stage::Ready, 0, 0)
    };
    let never = (Word::Unsafe, Person, false, false);
    let spoilt = (Word::Spoiled, Person, false, false);
    let rows: Vec<(Case, Said, &str)> = vec![
        (bad(Stage::Ready, 1, 0), never, "1 READs may be stale"),
        (bad(Stage::Promoted, 1, 0), never, "1 READs may be stale"),
        (bad(Stage::Unsafe, 0, 0), never, "forgotten"),
        (bad(Stage::Ready, 0, 2), spoilt, "2 READs came behind"),
        (bad(Stage::Open, 0, 2), spoilt, "2 READs came behind"),
        (off, never, "--without-markers"),
        (full, (Word::Stopping, Person, false, false), "marker limit"),
        (failed, (Word::Failed, Person, false, false), "key differs"),
        (
            doing(Doing::Starting, bad(Stage::Open, 0, 0)),
            (Word::Starting, Job, false, true),
            "peers",
        ),
        (
            doing(Doing::Stopping, bad(Stage::Open, 0, 0)),
            (Word::Stopping, Job, false, true),
            "last checkpoint",
        ),
        (
            doing(Doing::Stopping, bad(Stage::CaughtUp, 7, 0)),
            never,
            "7 READs",
        ),
        (
            bad(Stage::Superseded, 7, 7),
            (Word::NotReady, Person, true, true),
            "Open one",
        ),
    ];
    for (index, (case, said, part)) in rows.iter().enumerate() {
        expect(index, case, *said, part);
    }
}

#[test]
fn in_trouble_nothing_is_promotable() {
    for (stage, word) in [
        (Stage::Open, Word::NotReady),
        (Stage::CaughtUp, Word::CaughtUp),
        (Stage::Ready, Word::Ready),
        (Stage::Promoted, Word::Promoted),
    ] {
        let mut now = case(vec![generation(stage)]);
        now.troubles.push(Trouble {
            who: "the target".to_owned(),
            what: "database is locked\nmore".to_owned(),
        });
        let verdict = said(&now);
        assert_eq!((verdict.word, verdict.leave_alone), (word, false));
        let text = &verdict.text;
        assert!(text.ends_with("the target: database is locked"), "{text}");
    }
}

#[test]
fn the_line_says_what_who_and_whether_to_stay() {
    let reading = said(&case(vec![waiting(Stage::Open, "0 of 4 at end", true)]));
    assert_eq!(
        reading.line(),
        "NOT PROMOTABLE: 0 of 4 at end. DO: headwater generation finish g1 – It can be left alone."
    );
    let done = said(&case(vec![generation(Stage::CaughtUp)])).line();
    assert!(done.starts_with("CAUGHT UP: every READ"), "{done}");
    assert!(done.ends_with("Nothing to do. It can be left alone."));
    let mut sick = generation(Stage::Open);
    sick.state.unsafe_reads = 1_000;
    let sick = said(&case(vec![sick])).line();
    assert!(sick.starts_with("UNSAFE: 1,000 READs"), "{sick}");
    let end = "A person must act. Do not leave it alone.";
    assert!(sick.ends_with(end), "{sick}");
}
