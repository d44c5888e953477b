//! What is wrong before anything is read: configuration, topics, brokers, targets.

use crate::binary::{Bench, Ended, HELLO, JSONL, Record, SQLITE, hello};
use std::collections::BTreeMap;
use std::time::Instant;

const ONCE: [&str; 2] = ["run", "--once"];

fn ready() -> Bench {
    let bench = Bench::new();
    bench.hello(1);
    bench.append("muts", 0, &[hello('c', 1, "one")]);
    bench.append("snap", 0, &[hello('r', 2, "two"), Record::end()]);
    bench
}

fn state_is_untouched(bench: &Bench) {
    assert!(!bench.path().join("state").exists(), "no number was taken");
}

#[test]
fn a_missing_topic_is_named() {
    let bench = Bench::new();
    bench.topic("muts", 1);
    bench.config(JSONL);
    for verb in [&ONCE[..], &["check"]] {
        let ended = bench.run(verb).with(2);
        let said = ended.out.clone() + &ended.err;
        assert!(said.contains("topic file:snap does not exist"), "{said}");
    }
    state_is_untouched(&bench);
}

#[test]
fn an_unreachable_broker_is_told_in_bounded_time() {
    let bench = ready();
    bench.config(JSONL);
    let sets = [
        "--set",
        "kafka.\"bootstrap.servers\"=127.0.0.1:1",
        "--set",
        "table.public.hello.mutations=app.public.hello",
    ];
    for verb in [&ONCE[..], &["check"]] {
        let begun = Instant::now();
        let ended = bench.run(&[verb, &sets].concat()).with(1);
        assert!(begun.elapsed().as_secs() < 25, "{:?}", begun.elapsed());
        let said = ended.out + &ended.err;
        assert!(said.contains("127.0.0.1:1"), "{said}");
    }
    assert!(bench.jsonl().is_empty());
}

#[test]
fn the_check_asks_topics_at_once_and_tells_of_a_broker_once() {
    let bench = ready();
    bench.config(JSONL);
    let sets = [
        "--set",
        "kafka.\"bootstrap.servers\"=127.0.0.1:1",
        "--set",
        "table.public.hello.mutations=app.public.hello",
        "--set",
        "table.public.hello.snapshot=snap.public.hello",
    ];
    let begun = Instant::now();
    let ended = bench.run(&[&["check"], &sets[..]].concat()).with(1);
    // The time limit of one question is 10 s.
    assert!(begun.elapsed().as_secs() < 18, "{:?}", begun.elapsed());
    let told = ended.out.matches("no Kafka broker answers").count();
    assert_eq!(told, 1, "{}", ended.out);
    let other = "the same for snapshot snap.public.hello";
    assert!(ended.out.contains(other), "{}", ended.out);
    ended.says(&["the check found 1 error"]);
}

#[test]
fn an_unreachable_database_is_told_without_its_password() {
    let bench = ready();
    bench.config("[sink]\nkind = \"postgres\"\nurl = \"postgres://me:hidden@127.0.0.1:1/target\"");
    for verb in [&ONCE[..], &["check"]] {
        let ended = bench.run(verb).with(1);
        let said = ended.out + &ended.err;
        assert!(said.contains("127.0.0.1:1/target"), "{said}");
        assert!(!said.contains("hidden"), "{said}");
    }
    state_is_untouched(&bench);
}

#[test]
fn an_unreachable_kafka_target_is_told_in_bounded_time() {
    let bench = ready();
    bench.config(
        "[kafka]\n\"bootstrap.servers\" = \"127.0.0.1:1\"\n\
         [sink]\nkind = \"kafka\"\ntopic = \"target\"",
    );
    let begun = Instant::now();
    bench.run(&ONCE).with(1).says(&["127.0.0.1:1"]);
    assert!(begun.elapsed().as_secs() < 40, "{:?}", begun.elapsed());
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let bench = ready();
    bench.config("[retention]\nstart_margn = \"1s\"");
    bench
        .run(&ONCE)
        .with(2)
        .says(&["retention.start_margn", "retention.start_margin"]);
    state_is_untouched(&bench);
}

fn refused_target(sql: &str, code: i32, parts: &[&str]) -> Ended {
    let bench = ready();
    bench.config(SQLITE);
    bench.sqlite(sql);
    state_is_untouched(&bench);
    let checked = bench.run(&["check"]).with(code);
    let said = checked.out + &checked.err;
    for part in parts {
        assert!(said.contains(part), "check: `{part}` is not in\n{said}");
    }
    let ended = bench.run(&ONCE).with(code).says(parts);
    state_is_untouched(&bench);
    ended
}

#[test]
fn a_target_table_without_a_key_is_refused() {
    let sql = "CREATE TABLE hello (id INTEGER, greeting TEXT)";
    refused_target(sql, 4, &["hello", "has no primary key", "ADD PRIMARY KEY"]);
}

#[test]
fn a_missing_target_table_is_named() {
    refused_target(
        "CREATE TABLE other (id INTEGER)",
        2,
        &["no table `hello`", "sink.names"],
    );
}

#[test]
fn a_missing_target_file_is_named() {
    let bench = ready();
    bench.config(SQLITE);
    bench
        .run(&ONCE)
        .with(2)
        .says(&["hello.sqlite does not exist", "setup_sql"]);
    assert!(!bench.path().join("hello.sqlite").exists());
}

#[test]
fn a_target_with_rows_is_refused_and_keeps_them() {
    let bench = ready();
    bench.config(SQLITE);
    bench.sqlite(&format!("{HELLO}; INSERT INTO hello VALUES (9, 'nine')"));
    bench
        .run(&ONCE)
        .with(4)
        .says(&["hello", "not empty", "target_not_empty"]);
    assert_eq!(bench.rows(), BTreeMap::from([(9, "nine".to_owned())]));
    let accept = ["--set", "sink.target_not_empty=accept"];
    bench.run(&[&ONCE[..], &accept].concat()).with(0);
    let rows: Vec<i64> = bench.rows().into_keys().collect();
    assert_eq!(rows, [1, 2, 9]);
}

#[test]
fn a_configured_key_that_is_not_the_targets_is_refused() {
    let bench = ready();
    bench.config(&format!("key = [\"greeting\"]\n{SQLITE}"));
    bench.sqlite(HELLO);
    bench
        .run(&ONCE)
        .with(4)
        .says(&["public.hello", "primary key"]);
    assert!(bench.rows().is_empty());
}

#[test]
fn a_start_that_is_not_in_the_log_is_refused() {
    let bench = ready();
    bench.config(&format!(
        "{JSONL}\n[source.start_offsets]\n\"file:muts\" = [77]"
    ));
    let parts = ["file:muts[0] cannot start at 77", "offsets 0 to 1"];
    bench.run(&ONCE).with(4).says(&parts);
    let checked = bench.run(&["check"]).with(4);
    assert!(checked.out.contains(parts[0]), "{}", checked.out);
}
