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
    let bench = Bench::new();
    bench.hello(1);
    bench.config(JSONL);
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
