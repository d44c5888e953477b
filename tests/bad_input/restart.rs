//! What is wrong at a restart: something that may not change has changed, or is gone.

use crate::binary::{Bench, HELLO, JSONL, Record, SQLITE, hello};
use std::fs;

const ONCE: [&str; 2] = ["run", "--once"];

/// A job that has run to its end once.
fn ran(sink: &str) -> Bench {
    let bench = Bench::new();
    bench.hello(1);
    bench.append("muts", 0, &[hello('c', 1, "one")]);
    bench.append("snap", 0, &[hello('r', 2, "two"), Record::end()]);
    bench.config(sink);
    if sink == SQLITE {
        bench.sqlite(HELLO);
    }
    bench.run(&ONCE).with(0);
    bench
}

#[test]
fn it_goes_on_where_it_was() {
    let bench = ran(SQLITE);
    bench.append("muts", 0, &[hello('u', 2, "later"), hello('c', 3, "three")]);
    let ended = bench.run(&["run", "--once", "--json", "-w", "3"]).with(0);
    let summary = ended.json();
    assert_eq!(summary["mutations_emitted"], 2, "{summary}");
    assert_eq!(summary["reads_emitted"], 0, "{summary}");
    let rows = [(1, "one"), (2, "later"), (3, "three")].map(|(id, g)| (id, g.to_owned()));
    assert_eq!(bench.rows(), rows.into());
    ended.says(&["goes on from checkpoint", "incarnation 2"]);
}

#[test]
fn a_stream_says_that_readers_may_see_keys_go_back() {
    let bench = ran(JSONL);
    bench.append("muts", 0, &[hello('u', 2, "later")]);
    let said = "are written again, in order";
    bench.run(&ONCE).with(0).says(&[said]);
    assert_eq!(bench.jsonl().len(), 2);
    let quiet = bench.run(&ONCE).with(0);
    assert!(!quiet.err.contains(said), "{}", quiet.err);
}

#[test]
fn a_partition_that_the_snapshot_topic_got_after_its_end_holds_late_reads() {
    let bench = ran(SQLITE);
    let made = bench.path().join("snap/topic.json");
    let grown = fs::read_to_string(&made).expect("read");
    let grown = grown.replace("\"partitions\":1", "\"partitions\":2");
    fs::write(&made, grown).expect("written");
    bench.topic("other", 2);
    let [from, to] = ["other/1.log", "snap/1.log"].map(|name| bench.path().join(name));
    fs::copy(from, to).expect("copied");
    bench.append("snap", 1, &[hello('r', 9, "late")]);
    bench.run(&ONCE).with(3).says(&["1 READs lie behind"]);
    assert!(!bench.rows().contains_key(&9), "{:?}", bench.rows());
}

#[test]
fn a_changed_identity_names_both_sides() {
    let bench = ran(JSONL);
    let before = bench.jsonl();
    let sides = [
        ("table.public.hello.key=[\"id\"]", "table[0].key", "id"),
        (
            "table.public.hello.snapshot=file:muts2",
            "table[0].snapshot",
            "file:muts2",
        ),
        ("sink.kind=null", "sink.kind", "null"),
    ];
    bench.topic("muts2", 1);
    for (set, name, now) in sides {
        let mut arguments = vec!["run", "--once", "--set", set];
        if set == "sink.kind=null" {
            // A key that the kind does not have is another error.
            bench.config("[sink]\nkind = \"null\"");
            arguments.truncate(2);
        }
        let ended = bench.run(&arguments).with(4);
        ended.says(&[name, "has changed since checkpoint", now]);
    }
    assert_eq!(bench.jsonl(), before);
}

#[test]
fn a_target_made_anew_is_refused() {
    let bench = ran(SQLITE);
    bench.sqlite("DROP TABLE hello");
    bench.sqlite(HELLO);
    bench
        .run(&ONCE)
        .with(4)
        .says(&["hello.sqlite", "checkpoint"]);
    assert!(bench.rows().is_empty());
}

#[test]
fn a_target_that_is_an_older_copy_is_refused() {
    let bench = ran(SQLITE);
    let file = bench.path().join("hello.sqlite");
    // The journal is folded into the file before it is copied.
    bench.sqlite("PRAGMA wal_checkpoint(TRUNCATE)");
    let copy = fs::read(&file).expect("read");
    bench.append("muts", 0, &[hello('c', 3, "three")]);
    bench.run(&ONCE).with(0);
    bench.sqlite("PRAGMA wal_checkpoint(TRUNCATE)");
    fs::write(&file, copy).expect("written");
    let ended = bench.run(&ONCE).with(4);
    ended.says(&["older", "checkpoint"]);
    assert_eq!(bench.rows().len(), 2);
}

#[test]
fn another_job_cannot_take_the_target() {
    let bench = ran(SQLITE);
    let sets = [
        "--set",
        "job=other",
        "--set",
        "sink.target_not_empty=accept",
    ];
    let ended = bench.run(&[&ONCE[..], &sets].concat()).with(4);
    ended.says(&["hello", "other"]);
}

#[test]
fn a_log_that_is_shorter_than_the_checkpoint_is_refused() {
    let bench = ran(JSONL);
    fs::remove_dir_all(bench.path().join("muts")).expect("removed");
    bench.topic("muts", 1);
    let ended = bench.run(&ONCE).with(4);
    ended.says(&["file:muts", "goes on at 1", "ends at 0"]);
}

#[test]
fn a_damaged_manifest_is_named_and_an_older_one_goes_on_when_told() {
    let bench = ran(SQLITE);
    bench.append("muts", 0, &[hello('c', 3, "three")]);
    bench.run(&ONCE).with(0);
    let folder = bench.path().join("state/hello/manifest");
    let mut numbers: Vec<_> = fs::read_dir(&folder)
        .expect("listed")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a number")
        })
        .collect();
    numbers.sort();
    let [.., older, newest] = &numbers[..] else {
        panic!("{numbers:?}");
    };
    let path = folder.join(newest);
    let mut bytes = fs::read(&path).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("written");
    let object = format!("hello/manifest/{newest}");
    bench
        .run(&ONCE)
        .with(4)
        .says(&[&object, "--from-checkpoint"]);
    let older = older.trim_start_matches('0');
    let ended = bench.run(&["run", "--once", "--from-checkpoint", older]);
    ended.with(0);
    assert_eq!(bench.rows().len(), 3);
}
