//! JSON lines on temporary files.

use crate::sink::admit;
use crate::sink::queue::{QueueOptions, start, version};
use crate::sink::settings::{SinkKind, SinkSettings, TargetNotEmpty, build};
use crate::sink::testing::{
    B21_BATCHES, B21_ROWS, Event, b21, envelope, event, options, settings, table, write_all,
};
use headwater_operators::control::Command;
use headwater_operators::record::Op;
use std::collections::BTreeMap;
use std::path::Path;

fn jsonl(path: &Path) -> SinkSettings {
    SinkSettings {
        path: Some(path.into()),
        ..settings(SinkKind::Jsonl)
    }
}

/// What the log says at its end, by the rule: the last line of a key counts.
fn rows(text: &str) -> Vec<String> {
    let mut rows = BTreeMap::new();
    let mut versions = BTreeMap::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let key = format!("{}{}", line["table"], line["key"]);
        let version = line["version"].as_u64().unwrap();
        assert!(
            versions
                .insert(key.clone(), version)
                .is_none_or(|before| before < version)
        );
        match &line["row"] {
            serde_json::Value::Null => rows.remove(&key),
            row => {
                let shown = format!("{}|{}", row["id"], row["greeting"].as_str().unwrap());
                rows.insert(key, shown)
            }
        };
    }
    rows.into_values().collect()
}

#[test]
fn b21_in_every_batch_size() {
    for batch_rows_max in B21_BATCHES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out/rows");
        let tables = [table("public.hello")];
        let sink = build(&jsonl(&path), &tables, &BTreeMap::new(), 3).unwrap();
        sink.check().unwrap();
        let options = QueueOptions {
            batch_rows_max,
            ..options(&tables, folder.path())
        };
        write_all(sink.as_ref(), &options, &b21());
        let text = std::fs::read_to_string(folder.path().join("out/rows.1.0.jsonl")).unwrap();
        assert_eq!(rows(&text), B21_ROWS, "{text}");
        let version = version(1, 4);
        let row = r#"{"id":1,"greeting":"again"}"#;
        let line = format!(
            r#"{{"table":"public.hello","key":{{"id":1}},"row":{row},"version":{version}}}"#
        );
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn a_file_belongs_to_one_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let settings = jsonl(&folder.path().join("rows"));
    let tables = [table("public.hello")];
    let options = options(&tables, folder.path());
    let sink = build(&settings, &tables, &BTreeMap::new(), 1).unwrap();
    write_all(sink.as_ref(), &options, &b21());
    let admitted = |first, accept| admit::admit(sink.as_ref(), None, first, accept);
    let error = admitted(true, TargetNotEmpty::Refuse).unwrap_err();
    assert!(error.text.contains("not empty"), "{error}");
    admitted(true, TargetNotEmpty::Accept).unwrap();
    admitted(false, TargetNotEmpty::Refuse).unwrap();
    let error = start(sink.as_ref(), &options).err().unwrap();
    assert!(error.text.contains("this incarnation"), "{error}");
    let next = QueueOptions {
        incarnation: 2,
        ..options
    };
    write_all(sink.as_ref(), &next, &b21());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(
        rows(&(read("rows.1.0.jsonl") + &read("rows.2.0.jsonl"))),
        B21_ROWS
    );
}

#[test]
fn lines_name_the_generation_of_their_row() {
    let folder = tempfile::tempdir().unwrap();
    let tables = [table("public.hello")];
    let path = folder.path().join("rows");
    let sink = build(&jsonl(&path), &tables, &BTreeMap::new(), 1).unwrap();
    for number in [1, 2] {
        sink.names().unwrap().told(&Command::Open {
            generation: number,
            tables: vec![0],
            opened_at_ms: 0,
            id: format!("g{number}"),
            topics: Vec::new(),
            partitions: Vec::new(),
            not_before_ms: 0,
        });
    }
    let read = Event {
        op: Op::Read,
        ..event(r#"{"id":1}"#, &envelope(r#"{"id":1}"#))
    };
    let events = [read, event(r#"{"id":2}"#, "")];
    let options = options(&tables, folder.path());
    write_all(sink.as_ref(), &options, &events);
    let text = std::fs::read_to_string(folder.path().join("rows.1.0.jsonl")).unwrap();
    let ends: Vec<&str> = text
        .lines()
        .map(|line| line.split_once("\"row\":").unwrap().1)
        .collect();
    // A READ's own one; for a mutation the newest.
    let version = |counter| version(1, counter);
    let read = format!(
        "{{\"id\":1}},\"version\":{},\"generation\":\"g1\"}}",
        version(1)
    );
    let deleted = format!("null,\"version\":{},\"generation\":\"g2\"}}", version(2));
    assert_eq!(ends, [read, deleted]);
}
