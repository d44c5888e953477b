//! What keeps a manifest from being ready, one thing at a time.

use super::{NotReady, ready};
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{GenerationState, Manifest, PartitionState};
use crate::dead_letter;
use crate::generation::{Reached, Stage};
use crate::table::Role;
use headwater_operators::control::PartitionTarget;

fn partition(role: Role, topic: &str, next_offset: u64, end: Option<u64>) -> PartitionState {
    let mut state = manifest().offsets[0].clone();
    (state.role, state.topic, state.partition) = (role, topic.to_owned(), 0);
    (state.next_offset, state.end) = (next_offset, end);
    state
}

/// One that is ready: generation 1 of table 0, topics `snap` and `app`.
fn good() -> Manifest {
    Manifest {
        offsets: vec![
            partition(Role::Mutations, "app", 9, None),
            partition(Role::Snapshot, "snap", 7, Some(7)),
        ],
        generations: vec![GenerationState {
            number: 1,
            id: "g1".to_owned(),
            tables: vec![0],
            topics: [(0, "snap".to_owned())].into(),
            stage: Stage::CaughtUp,
            targets: vec![PartitionTarget {
                topic: "app".to_owned(),
                partition: 0,
                end: 9,
            }],
            passed: Some(Reached::default()),
            ..GenerationState::default()
        }],
        ..manifest()
    }
}

#[test]
fn everything_read_and_nothing_bad_is_ready() {
    assert_eq!(ready(&good(), 1), Ok(()));
    assert_eq!(ready(&good(), 2), Err(NotReady::Unknown));
}

#[test]
fn each_thing_that_is_missing_is_told() {
    type Change = fn(&mut Manifest);
    let cases: [(Change, NotReady); 10] = [
        (
            |m| m.offsets[0].next_offset = 8,
            NotReady::Mutations("app".to_owned(), 0),
        ),
        (
            |m| m.offsets[1].next_offset = 6,
            NotReady::Snapshot("snap".to_owned(), 0),
        ),
        (|m| m.offsets[1].end = None, NotReady::NotFrozen),
        (|m| drop(m.offsets.pop()), NotReady::NotFrozen),
        (|m| m.generations[0].targets.clear(), NotReady::NoTargets),
        (|m| m.generations[0].passed = None, NotReady::NoTargets),
        (|m| m.generations[0].unsafe_reads = 2, NotReady::Unsafe(2)),
        (|m| m.generations[0].late_reads = 3, NotReady::Late(3)),
        (
            |m| dead_letter::count(&mut m.dead_letters, "app", &[0, 1], true),
            NotReady::DeadLetters(1),
        ),
        (|m| m.generations[0].stage = Stage::Aborted, NotReady::Ended),
    ];
    for (index, (change, why)) in cases.into_iter().enumerate() {
        let mut manifest = good();
        change(&mut manifest);
        assert_eq!(ready(&manifest, 1), Err(why), "case {index}");
    }
}

#[test]
fn a_dropped_table_is_not_waited_for() {
    let mut manifest = good();
    let state = &mut manifest.generations[0];
    state.tables.push(1);
    state.topics.insert(1, "bad".to_owned());
    manifest
        .offsets
        .push(partition(Role::Snapshot, "bad", 0, None));
    assert_eq!(ready(&manifest, 1), Err(NotReady::NotFrozen));
    manifest.generations[0].dropped_tables.push(1);
    assert_eq!(ready(&manifest, 1), Ok(()));
}

#[test]
fn what_a_person_has_accepted_or_another_table_lacks_is_no_hindrance() {
    let mut manifest = good();
    let letter = |manifest: &mut Manifest, table| {
        dead_letter::count(&mut manifest.dead_letters, "app", &[table], false);
    };
    letter(&mut manifest, 1);
    assert_eq!(ready(&manifest, 1), Ok(()));
    letter(&mut manifest, 0);
    let accepted = dead_letter::accept(&manifest.dead_letters, &manifest.generations[0]);
    manifest.generations[0].dead_letters_accepted = accepted;
    assert_eq!(ready(&manifest, 1), Ok(()));
    letter(&mut manifest, 0);
    assert_eq!(ready(&manifest, 1), Err(NotReady::DeadLetters(1)));
}
