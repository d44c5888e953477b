//! Ids of rows after every kind of command, told once, twice, and by a worker that lags.

use super::{GenerationNames, GenerationNote};
use crate::checkpoint::manifest::GenerationState;
use crate::generation::{Reached, Stage};
use crate::sink::testing::row;
use headwater_operators::control::{Command, PartitionTarget};

fn open(generation: u32, tables: &[u16]) -> Command {
    Command::Open {
        generation,
        tables: tables.to_vec(),
        opened_at_ms: 0,
        id: format!("g{generation}"),
        topics: Vec::new(),
        partitions: Vec::new(),
        not_before_ms: 0,
    }
}

fn target(generation: u32) -> Command {
    Command::Target {
        generation,
        targets: Vec::new(),
    }
}

/// The ids of a mutation of tables 0 and 1; `-` for none.
fn mutations(names: &GenerationNames) -> String {
    let of = |table| {
        let mut row = row("k", "v");
        row.table = table;
        let id = names.of_rows(&[row]).remove(0);
        id.map_or_else(|| "-".to_owned(), |id| id.to_string())
    };
    format!("{} {}", of(0), of(1))
}

#[test]
fn mutations_carry_the_newest_generation_of_their_table() {
    let (close, drop) = (
        |generation| Command::Close {
            generation,
            aborted: false,
        },
        |generation, table| Command::DropTable { generation, table },
    );
    let cases: [(&str, &[Command], &str); 8] = [
        ("none", &[], "- -"),
        ("open", &[open(1, &[0, 1])], "g1 g1"),
        ("ready", &[open(1, &[0, 1]), target(1), close(1)], "g1 g1"),
        (
            "a newer one for one table",
            &[open(1, &[0, 1]), open(2, &[1])],
            "g1 g2",
        ),
        (
            "given up",
            &[open(1, &[0, 1]), target(1), open(2, &[0, 1]), close(2)],
            "g1 g1",
        ),
        (
            "given up as the only one",
            &[open(1, &[0, 1]), close(1)],
            "- -",
        ),
        (
            "one table dropped",
            &[open(1, &[0, 1]), open(2, &[0, 1]), drop(2, 0)],
            "g1 g2",
        ),
        (
            "given up late",
            &[
                open(2, &[0, 1]),
                target(2),
                drop(2, 0),
                drop(2, 1),
                close(2),
            ],
            "- -",
        ),
    ];
    for (case, commands, expected) in cases {
        let names = GenerationNames::default();
        commands.iter().for_each(|command| names.told(command));
        assert_eq!(mutations(&names), expected, "{case}");
        // Other workers of the process tell the same, later.
        commands.iter().for_each(|command| names.told(command));
        assert_eq!(mutations(&names), expected, "{case}, again");
    }
}

#[test]
fn reads_carry_their_own_generation() {
    let names = GenerationNames::default();
    for command in [open(1, &[0]), open(2, &[0])] {
        names.told(&command);
    }
    let of = |generation| {
        let mut row = row("k", "v");
        row.origin.generation = generation;
        names.of_rows(&[row]).remove(0)
    };
    assert_eq!(of(1).as_deref(), Some("g1"));
    assert_eq!(of(2).as_deref(), Some("g2"));
    assert_eq!(of(3), None);
}

#[test]
fn a_manifest_restores_what_commands_had_told() {
    let state = |number: u32, stage| GenerationState {
        number,
        id: format!("g{number}"),
        tables: vec![0, 1],
        stage,
        ..GenerationState::default()
    };
    let dropped = GenerationState {
        dropped_tables: vec![1],
        ..state(2, Stage::Open)
    };
    let ready_and_aborted = [state(1, Stage::Ready), state(2, Stage::Aborted)];
    let cases: [(&[GenerationState], &str); 4] = [
        (&[state(1, Stage::Ready), dropped], "g2 g1"),
        (&ready_and_aborted, "g1 g1"),
        (
            &[state(1, Stage::Superseded), state(2, Stage::Unsafe)],
            "g2 g2",
        ),
        (&[state(1, Stage::Promoted)], "g1 g1"),
    ];
    for (generations, expected) in cases {
        let names = GenerationNames::default();
        names.restore(generations);
        assert_eq!(mutations(&names), expected, "{generations:?}");
    }
    // One that was restored with its targets may be closed as ready.
    let names = GenerationNames::default();
    names.restore(&[GenerationState {
        targets: vec![PartitionTarget {
            topic: "m".to_owned(),
            partition: 0,
            end: 1,
        }],
        ..state(1, Stage::TopicConsumed)
    }]);
    names.told(&Command::Close {
        generation: 1,
        aborted: false,
    });
    assert_eq!(mutations(&names), "g1 g1");
}

#[test]
fn a_note_says_since_when() {
    let reached = |stage, at_ms| Reached {
        stage,
        at_ms,
        ..Reached::default()
    };
    let mut state = GenerationState {
        number: 1,
        id: "g1".to_owned(),
        stage: Stage::Ready,
        ..GenerationState::default()
    };
    assert_eq!(GenerationNote::of(&state).since_ms, None);
    // Promoted, and taken back.
    state.reached = [
        reached(Stage::Open, 1),
        reached(Stage::Ready, 5),
        reached(Stage::Promoted, 6),
        reached(Stage::Ready, 7),
    ]
    .into();
    let note = GenerationNote::of(&state);
    assert_eq!((note.stage, note.since_ms), (Stage::Ready, Some(7)));
}
