//! `headwater run` end to end on `file:` topics: what it writes, what it says, how it stops.
//!
//! It cannot choose the order in which the two topics are met: the expected target is the same in
//! all of them.

#[path = "support/binary.rs"]
mod binary;
#[path = "support/signal.rs"]
mod signal;

use binary::{Bench, HELLO, JSONL, Record, Running, SQLITE, envelope, hello};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

const TABLES: [&str; 2] = ["hello", "world"];
const KEYS: u64 = 300;
const PARTITIONS: u32 = 3;

/// Two tables with topics of their own; every key has a READ, two thirds have mutations, of which
/// some end in a delete. Returns the mutations, and the rows that must be there in the end.
fn fill(bench: &Bench, ends: bool) -> (u64, BTreeMap<(String, u64), String>) {
    let (mut mutations, mut rows) = (0, BTreeMap::new());
    for table in TABLES {
        let (muts, snap) = (format!("{table}.muts"), format!("{table}.snap"));
        bench.topic(&muts, PARTITIONS);
        bench.topic(&snap, PARTITIONS);
        let mut live = vec![Vec::new(); PARTITIONS as usize];
        let mut reads = vec![Vec::new(); PARTITIONS as usize];
        for id in 0..KEYS {
            let greeting = format!("old {id}");
            // The two connectors partition differently.
            let (of_live, of_read) = (id % 3, id / 7 % 3);
            reads[of_read as usize].push(envelope(table, 'r', id, &greeting));
            rows.insert((table.to_owned(), id), greeting);
            let live: &mut Vec<Record> = &mut live[of_live as usize];
            if id % 3 > 0 {
                for step in 0..id % 5 + 1 {
                    let greeting = format!("new {id} {step}");
                    live.push(envelope(table, 'u', id, &greeting));
                    rows.insert((table.to_owned(), id), greeting);
                }
            }
            if id % 3 > 0 && id % 4 == 0 {
                live.push(envelope(table, 'd', id, "gone"));
                rows.remove(&(table.to_owned(), id));
            }
        }
        for partition in 0..PARTITIONS {
            let live = &live[partition as usize];
            mutations += live.len() as u64;
            bench.append(&muts, partition, live);
            let reads = &mut reads[partition as usize];
            if ends {
                reads.push(Record::end());
            }
            bench.append(&snap, partition, reads);
        }
    }
    (mutations, rows)
}

fn configure(bench: &Bench, sink: &str) {
    let table = |name: &str| {
        format!(
            "[[table]]\nname = \"public.{name}\"\nmutations = \"file:{name}.muts\"\n\
             snapshot = \"file:{name}.snap\"\n"
        )
    };
    let tables = TABLES.map(table).concat();
    let text = format!("job = \"both\"\n{tables}{sink}\n");
    fs::write(bench.path().join("headwater.toml"), text).expect("written");
}

fn sqlite_rows(bench: &Bench) -> BTreeMap<(String, u64), String> {
    let path = bench.path().join("hello.sqlite");
    let database = rusqlite::Connection::open(path).expect("a database");
    let mut rows = BTreeMap::new();
    for table in TABLES {
        let query = format!("SELECT id, greeting FROM {table}");
        let mut query = database.prepare(&query).expect("a table");
        let found = query.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
        for row in found.expect("rows") {
            let (id, greeting) = row.expect("a row");
            rows.insert((table.to_owned(), id.unsigned_abs()), greeting);
        }
    }
    rows
}

fn jsonl_rows(bench: &Bench) -> BTreeMap<(String, u64), String> {
    let rows = bench.jsonl().into_iter().map(|((table, _), row)| {
        let id = row["id"].as_u64().expect("an id");
        let greeting = row["greeting"].as_str().expect("a greeting").to_owned();
        ((table.replace("public.", ""), id), greeting)
    });
    rows.collect()
}

#[test]
fn both_tables_end_in_the_source_state_on_any_number_of_workers() {
    for workers in 1..=3_u64 {
        for sink in ["sqlite", "jsonl"] {
            let bench = Bench::new();
            let (mutations, expected) = fill(&bench, true);
            if sink == "sqlite" {
                bench.sqlite(&format!("{HELLO}; {}", HELLO.replace("hello", "world")));
                configure(&bench, SQLITE);
            } else {
                configure(&bench, JSONL);
            }
            let threads = workers.to_string();
            let ended = bench
                .run(&["run", "--once", "--json", "-w", &threads])
                .with(0);
            let found = match sink {
                "sqlite" => sqlite_rows(&bench),
                _ => jsonl_rows(&bench),
            };
            assert_eq!(found, expected, "{sink}, {workers} workers");
            let json = ended.json();
            assert_eq!(json["outcome"], "ready", "{json}");
            assert_eq!(json["evidence"], "operator_said", "{json}");
            assert_eq!(json["mutations_emitted"], mutations, "{json}");
            let count = |value: &serde_json::Value| value.as_u64().expect("a count");
            let (emitted, dropped) = (&json["reads_emitted"], &json["reads_dropped"]["marker"]);
            assert_eq!(count(emitted) + count(dropped), 2 * KEYS, "{json}");
            assert_eq!(json["reads_quarantined"], 0, "{json}");
            assert_eq!(json["workers"], workers, "{json}");
            assert_eq!(
                json["markers"],
                2 * 200,
                "a marker for each mutated key: {json}"
            );
            assert_eq!(json["rule_off"], false, "{json}");
            assert!(
                json["elapsed_seconds"].as_f64().expect("seconds") > 0.0,
                "{json}"
            );
        }
    }
}

#[test]
fn without_operator_said_silence_is_assumed_to_be_the_end() {
    let bench = Bench::new();
    let (_, expected) = fill(&bench, false);
    configure(&bench, JSONL);
    let idle = [
        "run",
        "--once",
        "--assume-finished-after-idle",
        "2s",
        "-w",
        "2",
    ];
    let begun = Instant::now();
    let ended = bench.run(&[&idle[..], &["--json"]].concat()).with(0);
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!(ended.json()["evidence"], "quiet", "{}", ended.out);
    assert_eq!(ended.json()["outcome"], "ready", "{}", ended.out);
    assert_eq!(jsonl_rows(&bench), expected);
}

#[test]
fn a_read_behind_the_end_is_not_ready() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(JSONL);
    let late = hello('r', 2, "late");
    bench.append("snap", 0, &[hello('r', 1, "one"), Record::end(), late]);
    let ended = bench.run(&["run", "--once", "--json"]).with(3);
    assert_eq!(ended.json()["outcome"], "not_ready", "{}", ended.out);
    ended.says(&["behind the frozen end", "quarantined"]);
    assert_eq!(bench.jsonl().len(), 1, "the late READ is not in the target");
    assert!(bench.path().join("hello.quarantine").is_dir());
}

/// Waits until the target holds `rows`.
fn wait_for(bench: &Bench, child: &Running, rows: usize) {
    let until = Instant::now() + Duration::from_secs(30);
    while bench.rows().len() < rows {
        assert!(Instant::now() < until, "{}", child.err());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_signal_stops_it_clean_and_everything_read_is_written() {
    for (signal_name, once) in [("INT", false), ("TERM", true)] {
        let bench = Bench::new();
        bench.hello(2);
        bench.config(SQLITE);
        bench.sqlite(HELLO);
        let rows = |from: i64| -> Vec<_> {
            let ids = from..from + 5_000;
            ids.map(|id| hello('c', id.unsigned_abs(), "x")).collect()
        };
        bench.append("muts", 0, &rows(0));
        bench.append("snap", 1, &[hello('r', 1_000_000, "read")]);
        let flags: &[&str] = if once { &["--once"] } else { &[] };
        let child = bench.start("job", &[&["run", "--json", "-w", "2"], flags].concat());
        wait_for(&bench, &child, 5_001);
        // Some of these are read, some may not be.
        bench.append("muts", 1, &rows(100_000));
        signal::send(&child, signal_name);
        let ended = child.end(Duration::from_secs(20)).with(130);
        let json = ended.json();
        assert_eq!(json["outcome"], "interrupted", "{json}");
        let emitted = json["mutations_emitted"].as_u64().expect("a count");
        assert_eq!(json["reads_emitted"], 1, "{json}");
        let found = bench.rows();
        assert_eq!(
            found.len() as u64,
            emitted + 1,
            "all that was read is written"
        );
        let second: Vec<i64> = found.range(100_000..1_000_000).map(|row| *row.0).collect();
        let expected: Vec<i64> = (100_000..).take(second.len()).collect();
        assert_eq!(second, expected, "a prefix of the partition");
        ended.says(&["interrupted; everything read is written"]);
    }
}

/// Locks the target for 5 s: the job says what it waits for, and goes on.
#[test]
fn a_target_that_is_away_is_told_and_waited_for() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(SQLITE);
    bench.sqlite(HELLO);
    let rows: Vec<_> = (0..10).map(|id| hello('c', id, "x")).collect();
    bench.append("muts", 0, &rows);
    let child = bench.start("job", &["run", "--once"]);
    wait_for(&bench, &child, 10);
    let database = rusqlite::Connection::open(bench.path().join("hello.sqlite")).expect("it");
    database.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    bench.append("snap", 0, &[hello('r', 20, "x"), Record::end()]);
    let until = Instant::now() + Duration::from_secs(30);
    while !child.err().contains("note: waiting, the target: ") {
        assert!(Instant::now() < until, "{}", child.err());
        std::thread::sleep(Duration::from_millis(50));
    }
    database.execute_batch("ROLLBACK").expect("unlocked");
    child.end(Duration::from_secs(30)).with(0);
    assert_eq!(bench.rows().len(), 11);
}
