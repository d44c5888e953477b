//! A snapshot that cannot be read ends the job at each start; `--abort-generation` is the way out.

use crate::binary::{Bench, HELLO, Record, SQLITE, hello};
use std::fs;

const GIVE_UP: [&str; 4] = ["run", "--once", "--abort-generation", "g1"];

fn bench(reads: &[Record]) -> Bench {
    let bench = Bench::new();
    bench.hello(1);
    bench.append("muts", 0, &[hello('c', 1, "one")]);
    bench.append("snap", 0, reads);
    bench.config(SQLITE);
    bench.sqlite(HELLO);
    bench
}

fn goes_on(bench: &Bench) {
    // It names itself wherever it ends the job.
    let ended = bench.run(&["run", "--once"]);
    assert_ne!(ended.code, Some(0), "{}", ended.err);
    ended.says(&["headwater run --abort-generation g1"]);
    let other = ["run", "--once", "--abort-generation", "g7"];
    bench
        .run(&other)
        .with(2)
        .says(&["no such generation", "g1"]);
    bench.append("muts", 0, &[hello('c', 2, "two")]);
    // Nothing is ready, but every mutation is written, and the next start needs no flag.
    bench.run(&GIVE_UP).with(3);
    bench.append("muts", 0, &[hello('c', 3, "three")]);
    bench.run(&["run", "--once"]).with(3);
    let rows = [(1, "one"), (2, "two"), (3, "three")].map(|(id, g)| (id, g.to_owned()));
    let mut found = bench.rows();
    // A READ may have been written before the damaged one was met.
    found.remove(&12);
    assert_eq!(found, rows.into());
    bench.run(&GIVE_UP).with(3).says(&["g1 is over"]);
}

#[test]
fn a_snapshot_with_a_damaged_read_is_given_up() {
    let damaged = Record::raw(Some("{\"id\":13}"), b"{\"op\":\"r\",\"after\":{");
    goes_on(&bench(&[hello('r', 12, "good"), damaged, Record::end()]));
}

#[test]
fn a_snapshot_whose_topic_is_gone_is_given_up() {
    let damaged = Record::raw(Some("{\"id\":13}"), b"{\"op\":\"r\",\"after\":{");
    let bench = bench(&[damaged]);
    bench.run(&["run", "--once"]).with(1);
    fs::remove_dir_all(bench.path().join("snap")).expect("removed");
    goes_on(&bench);
}
