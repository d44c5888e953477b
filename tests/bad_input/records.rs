//! Records that must not be applied: each is named by topic, partition and offset.

use crate::binary::{Bench, Ended, HELLO, JSONL, Record, SQLITE, hello};
use std::collections::BTreeSet;
use std::fs;

/// Runs with bad mutations in partition 1 at offset 2 (behind rows 10 and 11), and none in the
/// snapshot; or the other way round.
fn refused(bad: &str, records: &[Record], code: i32, parts: &[&str]) {
    for workers in ["1", "3"] {
        let bench = Bench::new();
        bench.hello(2);
        bench.config(SQLITE);
        bench.sqlite(HELLO);
        let (op, other, other_op) = match bad {
            "muts" => ('c', "snap", 'r'),
            _ => ('r', "muts", 'c'),
        };
        bench.append(bad, 1, &[hello(op, 10, "good"), hello(op, 11, "good")]);
        bench.append(bad, 1, records);
        bench.append(bad, 1, &[hello(op, 12, "behind")]);
        bench.append(other, 0, &[hello(other_op, 20, "good")]);
        for partition in 0..2 {
            bench.append("snap", partition, &[Record::end()]);
        }
        let checked = bench.run(&["check"]).with(code);
        let address = format!("file:{bad}[1]@2");
        assert!(checked.out.contains(&address), "{}", checked.out);
        let ended = bench.run(&["run", "--once", "-w", workers]).with(code);
        let ended = ended.says(parts).says(&[&format!("file:{bad}[1]"), "2"]);
        assert_prefix(&bench, &ended);
    }
}

/// Rows before the bad record, of any partition, may be there; nothing else.
fn assert_prefix(bench: &Bench, ended: &Ended) {
    let allowed = BTreeSet::from([(10, "good"), (11, "good"), (20, "good")]);
    for (id, greeting) in bench.rows() {
        let row = (id, greeting.as_str());
        assert!(allowed.contains(&row), "{row:?} was written\n{}", ended.err);
    }
}

#[test]
fn garbage_in_a_mutation_topic() {
    let key = Some("{\"id\":13}");
    let garbage = Record::raw(key, b"\xff\xfe\x00garbage");
    refused(
        "muts",
        &[garbage],
        1,
        &["the value is not JSON", "offset 2"],
    );
    let cut = Record::raw(key, b"{\"before\":null,\"after\":{\"id\":13");
    refused("muts", &[cut], 1, &["the value is not JSON", "offset 2"]);
}

#[test]
fn garbage_in_a_snapshot_topic() {
    let key = Some("{\"id\":13}");
    let avro = Record::raw(key, b"\x00\x00\x00\x00\x07abc");
    refused("snap", &[avro], 1, &["Avro", "value.converter", "offset 2"]);
}

#[test]
fn truncate() {
    let value = b"{\"before\":null,\"after\":null,\"source\":{\"snapshot\":\"false\",\
        \"schema\":\"public\",\"table\":\"hello\"},\"op\":\"t\",\"ts_ms\":2}";
    refused(
        "muts",
        &[Record::raw(None, value)],
        4,
        &["TRUNCATE", "Truncate the target"],
    );
}

#[test]
fn an_update_on_the_snapshot_topic() {
    let parts = ["live mutation (op `u`)", "initial_only"];
    refused("snap", &[hello('u', 13, "live")], 4, &parts);
}

#[test]
fn a_row_without_a_key() {
    let keyless = Record {
        key: None,
        ..hello('c', 13, "no key")
    };
    refused(
        "muts",
        &[keyless],
        4,
        &["`public.hello` has no key", "key = [..]"],
    );
    let null = Record {
        key: Some("{\"id\":null}".to_owned()),
        ..hello('c', 13, "null key")
    };
    refused("muts", &[null], 4, &["`id` of `public.hello` is null"]);
}

/// B15: a router adds the physical table to the key on one side.
#[test]
fn keys_that_differ_between_the_topics() {
    // What is true of a whole topic is no matter of one record.
    for more in ["", "\n[decode]\non_error = \"dead_letter\""] {
        keys_differ(&format!("{JSONL}{more}"));
    }
}

fn keys_differ(config: &str) {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(config);
    let routed = Record {
        key: Some("{\"id\":5,\"__dbz__physicalTableIdentifier\":\"a\"}".to_owned()),
        ..hello('r', 5, "routed")
    };
    bench.append("muts", 0, &[hello('u', 5, "new")]);
    bench.append("snap", 0, &[routed, Record::end()]);
    let parts = [
        "the key of `public.hello` differs between its two topics",
        "file:muts",
        "file:snap",
        "__dbz__physicalTableIdentifier",
        "Set `key = [\"id\"]`",
    ];
    bench.run(&["run", "--once"]).with(4).says(&parts);
    let checked = bench.run(&["check"]).with(4);
    for part in parts {
        assert!(checked.out.contains(part), "{part} in\n{}", checked.out);
    }
    assert!(
        bench
            .jsonl()
            .values()
            .all(|row| row["greeting"] != "routed")
    );
}

#[test]
fn a_configured_key_column_that_no_record_has() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(&format!("key = [\"idd\"]\n{JSONL}"));
    bench.append("muts", 0, &[hello('c', 1, "one")]);
    bench.append("snap", 0, &[Record::end()]);
    let ended = bench.run(&["run", "--once"]).with(4);
    ended.says(&[
        "key column `idd` of `public.hello` is not in",
        "file:muts[0] offset 0",
    ]);
    assert!(bench.jsonl().is_empty());
}

#[test]
fn a_damaged_record_of_a_file_topic() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(SQLITE);
    bench.sqlite(HELLO);
    let rows: Vec<_> = (0..50).map(|id| hello('c', id, "good")).collect();
    bench.append("muts", 0, &rows);
    bench.append("snap", 0, &[Record::end()]);
    let log = bench.path().join("muts/0.log");
    let mut bytes = fs::read(&log).expect("the log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&log, bytes).expect("written");
    let ended = bench.run(&["run", "--once"]).with(4);
    let ended = ended.says(&["muts/0.log", "offset", "checksum", "restore the file"]);
    let rows = bench.rows();
    assert!(rows.len() < 50, "{}", ended.err);
    assert!(rows.values().all(|greeting| greeting == "good"));
    let checked = bench.run(&["check"]).with(4);
    assert!(checked.out.contains("checksum"), "{}", checked.out);
}

#[test]
fn a_column_that_the_target_lacks() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(SQLITE);
    bench.sqlite("CREATE TABLE hello (id INTEGER PRIMARY KEY)");
    bench.append("muts", 0, &[hello('c', 1, "one")]);
    bench.append("snap", 0, &[Record::end()]);
    let parts = ["column `greeting`", "unknown_columns"];
    bench.run(&["run", "--once"]).with(4).says(&parts);
    let checked = bench.run(&["check"]).with(4);
    for part in parts {
        assert!(checked.out.contains(part), "{part} in\n{}", checked.out);
    }
}

#[test]
fn an_end_record_of_another_generation() {
    let end = Record {
        end: Some("g7".to_owned()),
        ..Record::end()
    };
    let bench = Bench::new();
    bench.hello(1);
    bench.config(JSONL);
    bench.append("snap", 0, &[end]);
    let parts = ["file:snap[0]@0", "another generation", "g7", "g1"];
    bench.run(&["run", "--once"]).with(4).says(&parts);
}

/// B41 through the binary: set aside, blocking, and nothing of it written as truth.
#[test]
fn garbage_is_set_aside_when_told_and_keeps_the_run_from_being_ready() {
    for workers in ["1", "3"] {
        let bench = Bench::new();
        bench.hello(2);
        bench.sqlite(HELLO);
        bench.config(&format!("{SQLITE}\n[decode]\non_error = \"dead_letter\""));
        let cut = Record::raw(Some("{\"id\":13}"), b"{\"op\":\"u\",\"after\":{");
        let keyless = Record::raw(None, b"\xff");
        bench.append("muts", 1, &[hello('c', 10, "good"), cut.clone(), keyless]);
        bench.append("muts", 0, &[hello('u', 14, "new"), cut.clone()]);
        bench.append("snap", 1, &[hello('r', 13, "stale"), hello('r', 15, "old")]);
        for partition in 0..2 {
            bench.append("snap", partition, &[Record::end()]);
        }
        let checked = bench.run(&["check"]).with(0);
        assert!(checked.out.contains("dead letters"), "{}", checked.out);
        let ended = bench
            .run(&["run", "--once", "--json", "-w", workers])
            .with(3);
        let ended = ended.says(&["3 mutations could not be decoded", "accept-dead-letters"]);
        let summary = ended.json();
        assert_eq!(summary["dead_letters"], 3, "{summary}");
        assert_eq!(summary["reads_quarantined"], 1, "{summary}");
        let rows: Vec<(i64, String)> = bench.rows().into_iter().collect();
        let row = |id, greeting: &str| (id, greeting.to_owned());
        assert_eq!(rows, [row(10, "good"), row(14, "new"), row(15, "old")]);
        let letters = lines(&bench, "hello.dead_letter");
        let places: BTreeSet<_> = letters
            .iter()
            .map(|line| (line["partition"].to_string(), line["offset"].to_string()))
            .collect();
        assert_eq!((letters.len(), places.len()), (3, 3), "{letters:?}");
        let of = |offset| {
            let mut of = letters.iter();
            of.find(|line| line["partition"] == 1 && line["offset"] == offset)
                .expect("it")
        };
        assert_eq!(
            (&of(1)["poisoned"], &of(1)["key"]["id"]),
            (&true.into(), &13.into())
        );
        assert_eq!(of(1)["value_base64"], "eyJvcCI6InUiLCJhZnRlciI6ew==");
        assert_eq!(
            (&of(2)["poisoned"], &of(2)["key"]),
            (&false.into(), &().into())
        );
        let reason = of(1)["reason"].as_str().expect("text");
        assert!(reason.contains("the value is not JSON"), "{reason}");
        let held = lines(&bench, "hello.quarantine");
        assert_eq!((held.len(), &held[0]["reason"]), (1, &"poisoned".into()));
        // Again, on another number of workers: the letters count once, and still block.
        let again = bench.run(&["run", "--once", "--json", "-w", "2"]).with(3);
        again.says(&["3 mutations could not be decoded"]);
    }
}

/// The lines of all files of a folder.
fn lines(bench: &Bench, folder: &str) -> Vec<serde_json::Value> {
    let files = fs::read_dir(bench.path().join(folder)).expect("the folder");
    let texts = files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("text"));
    let lines: Vec<String> = texts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let line = |line: &String| serde_json::from_str(line).expect("a whole line");
    lines.iter().map(line).collect()
}
