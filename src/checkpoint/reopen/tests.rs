//! Every stage by its commands, and which generation a topic is read for.

use super::{Need, commands, read_topics};
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{GenerationState, Manifest, PartitionState};
use crate::generation::Stage;
use crate::table::{Role, Table};
use headwater_operators::control::{Command, PartitionTarget};
use std::collections::BTreeMap;

fn tables() -> Vec<Table> {
    ["a", "b"]
        .map(|name| Table {
            name: name.to_owned(),
            mutations: "m".to_owned(),
            snapshot: format!("s{name}"),
            key: None,
        })
        .to_vec()
}

fn generation(number: u32, tables: &[u16], stage: Stage) -> GenerationState {
    GenerationState {
        number,
        id: format!("g{number}"),
        tables: tables.to_vec(),
        stage,
        targets: vec![PartitionTarget {
            topic: "m".to_owned(),
            partition: 0,
            end: 8,
        }],
        not_before_ms: 77,
        ..GenerationState::default()
    }
}

fn saved(generations: Vec<GenerationState>, topics: &[(&str, Option<u64>)]) -> Manifest {
    let mut manifest = manifest();
    manifest.generations = generations;
    let state = |(topic, end): &(&str, Option<u64>)| PartitionState {
        role: Role::Snapshot,
        topic: (*topic).to_owned(),
        partition: 0,
        next_offset: 5,
        end: *end,
        first_source_ms: None,
        last_source_ms: None,
    };
    manifest.offsets = topics.iter().map(state).collect();
    manifest
}

fn reads(id: &str) -> Need {
    Need::Reads(id.to_owned())
}

/// Commands as words: generation, what, and tables, topics or ends.
fn words(manifest: &Manifest) -> Vec<String> {
    let word = |command: Command| match command {
        Command::Open {
            generation,
            tables,
            topics,
            partitions,
            not_before_ms,
            ..
        } => {
            assert_eq!(not_before_ms, 77);
            let topics: Vec<String> = topics
                .into_iter()
                .map(|(t, name)| format!("{t}={name}"))
                .collect();
            let starts: Vec<String> = partitions.into_iter().map(|p| p.topic).collect();
            format!("{generation} open {tables:?} {topics:?} {starts:?}").replace('"', "")
        }
        Command::Freeze { generation, ends } => format!("{generation} freeze {}", ends[0].end),
        Command::Target { generation, .. } => format!("{generation} target"),
        Command::Close {
            generation,
            aborted,
        } => format!("{generation} close {aborted}"),
        Command::DropTable { generation, table } => format!("{generation} drop {table}"),
        other => panic!("{other:?}"),
    };
    commands(manifest, &tables())
        .into_iter()
        .map(word)
        .collect()
}

#[test]
fn every_stage_comes_back_as_it_was() {
    let open = "1 open [0] [0=sa] [sa]";
    for stage in Stage::ALL {
        let found = words(&saved(
            vec![generation(1, &[0], stage)],
            &[("sa", Some(9)), ("sb", None)],
        ));
        let expected: &[&str] = match stage {
            Stage::Aborted | Stage::Superseded => &[],
            Stage::Ready | Stage::Promoted => &[open, "1 freeze 9", "1 close false"],
            _ => &[open, "1 freeze 9", "1 target"],
        };
        assert_eq!(found, expected, "{stage:?}");
    }
}

#[test]
fn a_manifest_without_topics_or_stages_reads_those_of_the_configuration() {
    let mut old = saved(
        vec![GenerationState {
            targets: Vec::new(),
            ..generation(1, &[0, 1], Stage::default())
        }],
        &[("sa", None), ("sb", None)],
    );
    assert_eq!(words(&old), ["1 open [0, 1] [0=sa, 1=sb] [sa, sb]"]);
    let all = BTreeMap::from(["sa", "sb"].map(|topic| (topic.to_owned(), reads("g1"))));
    assert_eq!(read_topics(&old, &tables()), all);
    old.generations.clear();
    assert!(words(&old).is_empty());
    assert_eq!(read_topics(&old, &tables()), all);
}

#[test]
fn a_topic_is_of_the_newest_generation_and_a_table_of_the_newest_open() {
    let mut newer = generation(2, &[1], Stage::Ready);
    newer.topics = [(1, "sb2".to_owned())].into();
    let mut newest = generation(3, &[0], Stage::Open);
    newest.targets.clear();
    let aborted = generation(4, &[0], Stage::Aborted);
    let first = GenerationState {
        dropped_tables: vec![1],
        targets: Vec::new(),
        ..generation(1, &[0, 1], Stage::Open)
    };
    let manifest = saved(
        vec![first, newer, newest, aborted],
        &[("sa", Some(7)), ("sb", None), ("sb2", Some(9))],
    );
    assert_eq!(
        words(&manifest),
        [
            // Generation 4 has taken table 0, and 3 the topic of it.
            "1 open [1] [0=sa] []",
            "1 drop 1",
            "2 open [1] [1=sb2] [sb2]",
            "2 freeze 9",
            "2 close false",
            "3 open [] [0=sa] [sa]",
            "3 freeze 7",
        ]
    );
    let topics = read_topics(&manifest, &tables());
    let expected = [("sa", reads("g3")), ("sb2", Need::Late)];
    assert!(
        topics
            .iter()
            .map(|(topic, need)| (&**topic, need.clone()))
            .eq(expected)
    );
}
