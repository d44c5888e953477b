//! Facts made by hand, and what must follow from them.

use super::{Facts, judge};
use crate::check::{Fault, Findings, Level, Sampled, Target};
use crate::error::{Error, ErrorKind};
use crate::key::{Class, KeyShape, KnownShape};
use crate::table::{Role, Table};
use crate::topic::OffsetRange;
use std::time::Duration;

fn topic(role: Role, name: &str) -> Sampled {
    Sampled {
        ranges: Ok(vec![OffsetRange { low: 0, high: 10 }; 2]),
        records: 20,
        rows: 20,
        ..Sampled::new(role, name)
    }
}

fn good() -> Facts {
    let shape = KeyShape::new(vec![("id".to_owned(), Class::Number)]);
    let known = |role| KnownShape {
        table: 0,
        role,
        shape: shape.clone(),
    };
    Facts {
        tables: vec![Table {
            name: "public.hello".to_owned(),
            mutations: "app".to_owned(),
            snapshot: "snap".to_owned(),
            key: None,
        }],
        sampled: vec![topic(Role::Mutations, "app"), topic(Role::Snapshot, "snap")],
        shapes: vec![known(Role::Mutations), known(Role::Snapshot)],
        columns: Default::default(),
        margin: Duration::from_secs(900),
        now_ms: 1_000_000,
        start: Ok(()),
        target: Target {
            name: "target null".to_owned(),
            admitted: Ok(()),
            fits: Ok(40),
            setup_skipped: false,
        },
    }
}

/// Changes good facts; there must be a finding of this level with `part`.
fn finds(change: impl Fn(&mut Facts), level: Level, part: &str) -> Findings {
    let mut facts = good();
    change(&mut facts);
    let findings = judge(&facts);
    let said =
        |one: &crate::check::Finding| format!("{} {} {:?}", one.thing, one.found, one.advice);
    assert!(
        findings
            .0
            .iter()
            .any(|one| one.level == level && said(one).contains(part)),
        "no {level:?} with `{part}` in\n{}",
        findings.table()
    );
    findings
}

#[test]
fn good_facts_are_all_ok() {
    let findings = finds(|_| (), Level::Ok, "{id: number} in both topics");
    assert!(findings.0.iter().all(|one| one.level == Level::Ok));
    assert_eq!(findings.verdict(), Ok(()));
}

#[test]
fn warnings_do_not_fail_the_check() {
    type Change = fn(&mut Facts);
    let empty = |facts: &mut Facts, index: usize| {
        facts.sampled[index].ranges = Ok(vec![OffsetRange { low: 0, high: 0 }]);
        facts.sampled[index].records = 0;
    };
    let cases: [(Change, &str); 6] = [
        (
            |f| f.sampled[0].ranges = Ok(vec![OffsetRange { low: 5, high: 9 }]),
            "begins at offset 5",
        ),
        (|f| f.sampled[0].reads_in_place = 20, "wrong way round"),
        (|f| f.sampled[1].slow = true, "time ran out"),
        (|f| f.shapes.clear(), "no row of either topic"),
        (|f| drop(f.shapes.pop()), "no good row of the other"),
        (
            |f| drop(f.shapes.remove(0)),
            "{id: number} in the snapshot topic",
        ),
    ];
    for (change, part) in cases {
        assert_eq!(finds(change, Level::Warning, part).verdict(), Ok(()));
    }
    finds(|facts| empty(facts, 0), Level::Warning, "holds no record");
    finds(|facts| empty(facts, 1), Level::Warning, "holds no READ");
}

#[test]
fn errors_give_the_code_of_the_worst() {
    type Change = fn(&mut Facts);
    let cases: [(Change, &str, ErrorKind); 7] = [
        (
            |f| f.sampled[0].ranges = Err(Error::usage("topic app does not exist")),
            "does not exist",
            ErrorKind::Usage,
        ),
        (
            |f| f.sampled[0].truncate = Some("app[1]@7".to_owned()),
            "app[1]@7: TRUNCATE",
            ErrorKind::Refused,
        ),
        (
            |f| {
                f.sampled[1].faults_count = 9;
                f.sampled[1].faults = vec![Fault {
                    at: Some("snap[0]@3".to_owned()),
                    error: Error::refused("a live mutation").line("stop the connector"),
                    set_aside: false,
                }];
            },
            "snap[0]@3: a live mutation",
            ErrorKind::Refused,
        ),
        (
            |f| f.sampled[1].ranges = Ok(vec![OffsetRange { low: 5, high: 9 }]),
            "READs were deleted",
            ErrorKind::Refused,
        ),
        (
            |f| f.start = Err(Error::refused("app[0] cannot start at 99")),
            "cannot start at 99",
            ErrorKind::Refused,
        ),
        (
            |f| f.target.admitted = Err(Error::failed("cannot use the target")),
            "cannot use the target",
            ErrorKind::Failed,
        ),
        (
            |f| {
                f.target.fits = Err(Error::refused("it has a column `b`"));
                f.target.setup_skipped = true;
            },
            "setup_sql was not run",
            ErrorKind::Refused,
        ),
    ];
    for (change, part, kind) in cases {
        let verdict = finds(change, Level::Error, part).verdict();
        assert_eq!(verdict.map_err(|error| error.kind), Err(kind), "{part}");
    }
    let faults = cases_with_more();
    assert!(faults.contains("8 more records like these"), "{faults}");
}

fn cases_with_more() -> String {
    let mut facts = good();
    facts.sampled[0].faults_count = 9;
    facts.sampled[0].faults = vec![Fault {
        at: None,
        error: Error::failed("damaged"),
        set_aside: false,
    }];
    judge(&facts).table()
}
