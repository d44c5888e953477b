//! `headwater check` on good input and on what only warns.

use crate::binary::{Bench, HELLO, JSONL, Record, SQLITE, hello};

#[test]
fn good_input_is_all_ok_and_nothing_changes() {
    let bench = Bench::new();
    bench.hello(3);
    bench.config(SQLITE);
    bench.sqlite(HELLO);
    let rows: Vec<_> = (0..1000).map(|id| hello('c', id, "x")).collect();
    bench.append("muts", 0, &rows);
    bench.append("muts", 2, &[hello('d', 1, "x")]);
    bench.append("snap", 1, &[hello('r', 5, "x"), Record::end()]);
    let ended = bench.run(&["check", "--json"]).with(0);
    let json = ended.json();
    assert_eq!(
        (&json["errors"], &json["warnings"]),
        (&0.into(), &0.into()),
        "{json}"
    );
    let table = bench.run(&["check"]).with(0).out;
    for part in [
        "mutations file:muts",
        "3 partitions, 1,001 offsets, 201 records looked at",
        "key of public.hello",
        "{id: number} in both topics",
        "202 sampled rows",
        "skipped.operations=none",
    ] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    assert!(bench.rows().is_empty());
    assert!(!bench.path().join("state").exists());
}

#[test]
fn empty_topics_only_warn() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(JSONL);
    let table = bench.run(&["check"]).with(0).out;
    for part in ["warning", "holds no record", "holds no READ yet"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
}

#[test]
fn setup_sql_makes_no_file() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(&format!("{SQLITE}\nsetup_sql = \"{HELLO}\""));
    bench.append("muts", 0, &[hello('c', 1, "x")]);
    let table = bench.run(&["check"]).with(0).out;
    assert!(table.contains("1 sampled rows"), "{table}");
    assert!(!bench.path().join("hello.sqlite").exists());
}

#[test]
fn several_errors_give_the_worst_code_and_all_are_told() {
    let bench = Bench::new();
    bench.topic("muts", 1);
    bench.config("[sink]\nkind = \"postgres\"\nurl = \"postgres://127.0.0.1:1/target\"");
    let ended = bench.run(&["check", "--json"]).with(2);
    assert_eq!(ended.json()["errors"], 2, "{}", ended.out);
    ended.says(&["the check found 2 errors"]);
}
