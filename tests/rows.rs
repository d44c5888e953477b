//! `headwater verify` and `headwater quarantine` as a person calls them, on SQLite and on the
//! quarantine of a real run.
//!
//! It cannot see PostgreSQL: the tests beside `src/verify.rs` do, and `tests/e2e`.

#[path = "support/binary.rs"]
#[expect(dead_code, reason = "shared by several tests")]
mod binary;

use binary::{Bench, HELLO, Record, SQLITE, hello};
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn verify_ends_with_0_when_equal_and_4_when_not() {
    let bench = Bench::new();
    bench.hello(1);
    bench.config(&format!("{SQLITE}\n[source]\ndatabase = \"source.sqlite\""));
    let ended = bench.run(&["verify"]).with(1);
    ended.says(&["there is no SQLite file source.sqlite", "source.database"]);
    let open = |name: &str| rusqlite::Connection::open(bench.path().join(name)).expect("a file");
    let rows = "INSERT INTO hello VALUES (1, 'one'), (2, 'two'), (3, 'three')";
    let source = open("source.sqlite");
    source
        .execute_batch(&format!("{HELLO}; {rows}"))
        .expect("rows");
    bench.sqlite(&format!("{HELLO}; {rows}"));
    let ended = bench.run(&["verify", "--json"]).with(0);
    let json = ended.json();
    assert_eq!(json["equal"], true, "{json}");
    assert_eq!(json["lag_seconds"], 30.0, "{json}");
    assert_eq!(json["tables"][0]["source_rows"], 3, "{json}");

    let sql = "UPDATE hello SET greeting = 'zwei' WHERE id = 2; DELETE FROM hello WHERE id = 3;
               INSERT INTO hello VALUES (9, 'neun')";
    open("hello.sqlite").execute_batch(sql).expect("changed");
    let begun = Instant::now();
    let ended = bench.run(&["verify", "--lag", "1s"]).with(4);
    assert!(
        begun.elapsed() >= Duration::from_secs(1),
        "only what stays counts"
    );
    for part in [
        "missing    {\"id\":3}",
        "extra      {\"id\":9}",
        "different  {\"id\":2}  greeting",
    ] {
        assert!(ended.out.contains(part), "{part} in\n{}", ended.out);
    }
    assert!(
        !ended.out.contains("zwei") && !ended.err.contains("zwei"),
        "{}",
        ended.out
    );
    ended.says(&["the target differs from the source in 3 rows"]);
    let ended = bench
        .run(&["verify", "--lag", "0s", "--show-values", "--keys", "1"])
        .with(4);
    assert!(ended.out.contains("\"greeting\":\"zwei\""), "{}", ended.out);

    bench
        .run(&["verify", "--table", "public.none"])
        .with(2)
        .says(&["public.none"]);
    bench
        .run(&[
            "verify",
            "--set",
            "source.database=postgres://u:hush@127.0.0.1:1/d",
        ])
        .with(1);
    bench.config(SQLITE);
    bench
        .run(&["verify"])
        .with(2)
        .says(&["`source.database` is not set"]);
}

/// Markers expire before the READs come: the run is unsafe, and the quarantine holds exactly the
/// READs of the keys at risk.
fn unsafe_run() -> Bench {
    let bench = Bench::new();
    bench.topic("app.public.hello", 2);
    bench.topic("snap_g1.public.hello", 2);
    let config = format!(
        "job = \"hello\"\n[[table]]\nname = \"public.hello\"\n\
         mutations = \"file:app.public.hello\"\nsnapshot = \"file:snap_g1.public.hello\"\n\
         [retention]\nkeep_markers = \"ttl\"\nttl = \"1s\"\n\
         [decode]\nsignal_table = \"public.debezium_signal\"\n{SQLITE}\n"
    );
    fs::write(bench.path().join("headwater.toml"), config).expect("written");
    bench.sqlite(HELLO);
    let rows: Vec<Record> = (0..20).map(|id| hello('u', id, "new")).collect();
    bench.append("app.public.hello", 0, &rows);
    let child = bench.start("job", &["run", "--once", "--json"]);
    let until = Instant::now() + Duration::from_secs(30);
    while bench.rows().len() < 20 {
        assert!(Instant::now() < until, "{}", child.err());
        std::thread::sleep(Duration::from_millis(20));
    }
    // Past the ttl; and one more mutation, as logical time and forgetting go with ticks.
    std::thread::sleep(Duration::from_millis(2_500));
    for partition in [0, 1] {
        let ids = (0..20).filter(|id| id % 2 == u64::from(partition));
        let mut reads: Vec<Record> = ids.map(|id| hello('r', id, "old")).collect();
        reads.push(Record::end());
        bench.append("snap_g1.public.hello", partition, &reads);
    }
    let ended = child.end(Duration::from_secs(60)).with(4);
    let json = ended.json();
    let held = json["reads_quarantined"].as_u64().expect("a count");
    assert_eq!(held, 20, "{json}");
    assert!(
        bench.rows().values().all(|greeting| greeting == "new"),
        "nothing stale was written"
    );
    bench
}

#[test]
fn the_quarantine_of_a_forced_expiry_is_listed_and_exported() {
    let bench = unsafe_run();
    let list = bench.run(&["quarantine", "ls", "--json"]).with(0).json();
    assert_eq!(
        (&list["records"], &list["keys"]),
        (&20.into(), &20.into()),
        "{list}"
    );
    assert_eq!(list["counts"][0]["reason"], "forgotten_markers", "{list}");
    assert_eq!(list["counts"][0]["generation"], 1, "{list}");
    let one = bench
        .run(&["quarantine", "ls", "--key", "{\"id\":7}"])
        .with(0)
        .out;
    assert!(
        one.contains("{\"id\":7}  file:snap_g1.public.hello[1]@3 forgotten"),
        "{one}"
    );
    assert!(!one.contains("old"), "{one}");
    let export = bench.run(&["quarantine", "export"]).with(0).out;
    assert_eq!(export.lines().count(), 20);
    assert!(
        export
            .lines()
            .all(|line| line.contains("\"greeting\":\"old\"")),
        "{export}"
    );
    // Written again, as after a failure: nothing changes.
    let folder = bench.path().join("hello.quarantine");
    fs::copy(
        folder.join("quarantine.1.0.jsonl"),
        folder.join("quarantine.2.0.jsonl"),
    )
    .expect("copied");
    assert_eq!(bench.run(&["quarantine", "export"]).with(0).out, export);
}

#[test]
fn the_keys_in_quarantine_are_signalled() {
    let bench = unsafe_run();
    let signal = bench
        .run(&["quarantine", "signal", "--keys-max", "15"])
        .with(0)
        .out;
    let inserts = signal
        .lines()
        .filter(|line| line.starts_with("INSERT INTO \"public\".\"debe"));
    assert_eq!(inserts.count(), 2, "{signal}");
    let ids: Vec<u64> = signal
        .lines()
        .filter_map(|line| line.split_once(" IN (")?.1.split_once(')'))
        .flat_map(|(list, _)| list.split(", ").map(|id| id.parse().expect("an id")))
        .collect();
    assert_eq!(ids.len(), 20);
    assert!((0..20).all(|id| ids.contains(&id)), "{ids:?}");
    let kafka = ["quarantine", "signal", "--via", "kafka"];
    bench.run(&kafka).with(2).says(&["--topic-prefix"]);
    let kafka = [
        &kafka[..],
        &["--topic-prefix", "inc_g1", "--type", "blocking"],
    ]
    .concat();
    let kafka = bench.run(&kafka).with(0).out;
    assert!(kafka.starts_with("inc_g1\t{\"id\":\"headwater-"), "{kafka}");
    bench.run(&["quarantine", "ls", "--table", "x"]).with(2);
}
