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
        "3 partitions, 1,001 offsets, 221 records looked at",
        "key of public.hello",
        "{id: number} in both topics",
        "columns of public.hello",
        "the same 2 in both topics",
        "222 sampled rows",
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

#[test]
fn columns_that_differ_and_starts_that_are_late_are_found() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(&format!(
        "{SQLITE}\nunknown_columns = \"drop\"\n[source.start_offsets]\n\"file:muts\" = [1]"
    ));
    bench.sqlite(HELLO);
    let mut read = hello('r', 5, "x");
    let value = read.value.take().expect("it has one");
    let value = String::from_utf8(value).expect("text");
    assert!(value.contains("\"greeting\":\"x\""), "{value}");
    let with_shout = value.replace("\"greeting\":\"x\"", "\"greeting\":\"x\",\"shout\":\"X!\"");
    read.value = Some(with_shout.into_bytes());
    bench.append("snap", 0, &[read]);
    // The first change that would be read is as young as the first READ.
    bench.append("muts", 0, &[hello('c', 1, "x"), hello('c', 2, "x")]);
    let ended = bench.run(&["check", "--json"]).with(4);
    let json = ended.json();
    let found = json["findings"].as_array().expect("a list");
    let find = |part: &str| {
        let mut all = found.iter();
        all.find(|one| {
            one["found"]
                .as_str()
                .is_some_and(|text| text.contains(part))
        })
        .unwrap_or_else(|| panic!("{part} in {json:#}"))
    };
    let columns = find("in READs only: shout");
    assert_eq!(columns["level"], "warning");
    assert_eq!(columns["expected"], "the same columns in both topics");
    assert!(
        columns["advice"]
            .to_string()
            .contains("column.exclude.list")
    );
    let start = find("partition 0 is read from offset 1");
    assert_eq!(
        (&start["level"], &start["exit_code"]),
        (&"error".into(), &4.into())
    );
}
