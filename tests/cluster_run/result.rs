//! Two processes give what one gives, with strangers at the door too.

use crate::binary::{Bench, HELLO, JSONL, Record, SQLITE, hello};
use crate::{both, hosts, process};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A table in 5 partitions a topic: more than workers, so that all of them read.
pub(crate) fn filled(ends: bool) -> Bench {
    let bench = Bench::new();
    bench.hello(5);
    bench.config(JSONL);
    for partition in 0..5_u32 {
        let keys = (0..2_000).filter(|id| id % 5 == u64::from(partition));
        let mut live = Vec::new();
        let mut reads: Vec<Record> = Vec::new();
        for id in keys {
            reads.push(hello('r', id / 5 * 5 + (id + 2) % 5, "old"));
            if id % 3 == 0 {
                live.push(hello('u', id, "new"));
                live.push(hello(if id % 2 == 0 { 'd' } else { 'u' }, id, "newest"));
            }
        }
        reads.extend(ends.then(Record::end));
        bench.append("muts", partition, &live);
        bench.append("snap", partition, &reads);
    }
    bench
}

#[test]
fn two_processes_give_what_one_gives() {
    let alone = filled(true);
    let one = alone.run(&["run", "--once", "--json", "-w", "2"]).with(0);
    let bench = filled(true);
    let [first, second] = both(&bench, &["--once", "--json"]).map(|child| child.end(LIMIT).with(0));
    assert_eq!(bench.jsonl(), alone.jsonl());
    assert_eq!(alone.jsonl().len(), 2_000 - 334, "keys less deletes");
    let (json, other) = (first.json(), one.json());
    assert_eq!(json["workers"], 4, "{json}");
    assert_eq!(json["mutations_emitted"], other["mutations_emitted"]);
    assert_eq!(json["markers"], other["markers"]);
    assert_eq!(second.out, "", "only process 0 has a summary");
    let files = std::fs::read_dir(bench.path()).expect("the folder");
    let with_rows = files.filter(|entry| {
        let entry = entry.as_ref().expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("out.1.") && entry.metadata().expect("a file").len() > 0
    });
    assert_eq!(with_rows.count(), 4, "every worker of both processes wrote");
}

#[test]
fn strangers_during_the_bring_up_do_no_harm() {
    let bench = filled(true);
    let hosts = hosts(&bench, 2);
    let first = process(&bench, 0, &["--once"]);
    let until = Instant::now() + LIMIT;
    let mut strangers: Vec<TcpStream> = Vec::new();
    while strangers.len() < 5 {
        assert!(Instant::now() < until, "{}", first.err());
        match TcpStream::connect(&hosts[0]) {
            Ok(mut stranger) => {
                // The fifth says nothing at all.
                if strangers.len() < 4 {
                    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
                }
                strangers.push(stranger);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    let second = process(&bench, 1, &["--once"]);
    first.end(LIMIT).with(0);
    second.end(LIMIT).with(0);
    assert_eq!(bench.jsonl().len(), 2_000 - 334);
}

#[test]
fn sqlite_is_refused_with_two_processes() {
    let bench = filled(true);
    bench.config(SQLITE);
    bench.sqlite(HELLO);
    for child in both(&bench, &["--once"]) {
        child
            .end(LIMIT)
            .with(2)
            .says(&["SQLite target needs one process", "-n 1"]);
    }
    assert!(bench.rows().is_empty());
}
