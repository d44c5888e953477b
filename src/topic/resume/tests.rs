//! Logs that were cut, deleted, made anew and grown.

use super::{resumable, same_topic};
use crate::error::{Error, ErrorKind};
use crate::table::Role;
use crate::topic::{Assignment, OffsetRange};

fn at(topic: &str, partition: u32, next_offset: u64) -> Assignment {
    Assignment {
        topic: topic.to_owned(),
        partition,
        next_offset,
    }
}

/// Ranges that any topic has.
fn ranges(of: &[(u64, u64)]) -> impl Fn(&str) -> Result<Vec<OffsetRange>, Error> {
    let ranges: Vec<_> = of
        .iter()
        .map(|&(low, high)| OffsetRange { low, high })
        .collect();
    move |_| Ok(ranges.clone())
}

#[track_caller]
fn refused(result: Result<Vec<Assignment>, Error>, parts: &[&str]) {
    let error = result.expect_err("must be refused");
    assert_eq!(error.kind, ErrorKind::Refused);
    for part in parts {
        assert!(error.text.contains(part), "{part} in: {error}");
    }
}

#[test]
fn offsets_from_the_first_to_the_end_go_on() {
    let saved = [at("t", 0, 5), at("t", 1, 9), at("t", 2, 0), at("t", 3, 7)];
    let logs = ranges(&[(5, 9), (5, 9), (0, 0), (7, 7)]);
    for role in [Role::Mutations, Role::Snapshot] {
        assert_eq!(
            resumable(role, &saved, None, &logs).expect("all are there"),
            saved
        );
    }
}

#[test]
fn an_offset_that_the_log_lacks_is_refused_with_both_numbers() {
    let saved = [at("t", 0, 5), at("t", 1, 9)];
    for (role, missed) in [
        (Role::Mutations, "miss mutations"),
        (Role::Snapshot, "miss READs"),
    ] {
        let deleted = resumable(role, &saved, None, ranges(&[(0, 9), (10, 20)]));
        let parts = ["topic t partition 1", "goes on at 9", "begins at 10"];
        refused(deleted, &parts);
        let cut = resumable(role, &saved, None, ranges(&[(0, 4), (0, 9)]));
        refused(
            cut,
            &["topic t partition 0", "goes on at 5", "ends at 4", missed],
        );
    }
}

#[test]
fn an_emptied_log_is_refused_unless_nothing_was_missed() {
    // Retention deleted everything: first and end are the same.
    let all_read = [at("t", 0, 500)];
    resumable(Role::Mutations, &all_read, None, ranges(&[(500, 500)])).expect("all was read");
    let missed = [at("t", 0, 499)];
    let result = resumable(Role::Mutations, &missed, None, ranges(&[(500, 500)]));
    refused(result, &["goes on at 499", "begins at 500"]);
}

#[test]
fn mutation_topics_grow_when_accepted_and_snapshot_topics_freely() {
    let saved = [at("t", 0, 5), at("t", 1, 6)];
    let logs = ranges(&[(0, 9), (0, 9), (3, 4), (0, 0)]);
    let grown = [
        saved[0].clone(),
        saved[1].clone(),
        at("t", 2, 3),
        at("t", 3, 0),
    ];
    let result = resumable(Role::Mutations, &saved, None, &logs);
    refused(result, &["grew from 2 to 4", "--accept-partitions 4"]);
    let other = resumable(Role::Mutations, &saved, Some(3), &logs);
    refused(other, &["grew from 2 to 4"]);
    for (role, accepted) in [(Role::Mutations, Some(4)), (Role::Snapshot, None)] {
        let result = resumable(role, &saved, accepted, &logs);
        assert_eq!(result.expect("may grow"), grown);
    }
}

#[test]
fn a_topic_that_has_shrunk_is_another_one() {
    let saved = [at("t", 0, 5), at("t", 1, 6)];
    for (role, accepted) in [(Role::Mutations, Some(1)), (Role::Snapshot, None)] {
        let result = resumable(role, &saved, accepted, ranges(&[(0, 9)]));
        refused(result, &["t has 1 partitions, it had 2"]);
    }
}

#[test]
fn each_topic_has_its_own_ranges_and_a_missing_one_is_told() {
    let saved = [at("b", 0, 1), at("a", 0, 9)];
    let ranges_of = |topic: &str| match topic {
        "a" => Ok(vec![OffsetRange { low: 9, high: 9 }]),
        _ => Ok(vec![OffsetRange { low: 0, high: 1 }]),
    };
    let result = resumable(Role::Mutations, &saved, None, ranges_of);
    assert_eq!(result.expect("both"), [at("a", 0, 9), at("b", 0, 1)]);
    let missing = |topic: &str| Err(Error::usage(format!("no topic {topic}")));
    let error = resumable(Role::Mutations, &saved, None, missing).expect_err("missing");
    assert_eq!(error.text, "no topic a");
}

#[test]
fn a_topic_is_the_same_unless_both_ids_are_known_and_differ() {
    for (saved, found) in [
        (None, None),
        (Some("x"), None),
        (None, Some("x")),
        (Some("x"), Some("x")),
    ] {
        same_topic("t", saved, found).expect("not known to differ");
    }
    let error = same_topic("t", Some("old"), Some("new")).expect_err("made anew");
    assert_eq!(error.kind, ErrorKind::Refused);
    for part in ["topic t", "old", "new"] {
        assert!(error.text.contains(part), "{part} in: {error}");
    }
}
