//! What goes wrong in one process ends all of them, soon, and each says something true.

use crate::binary::{Bench, Ended, JSONL, Record, Running, hello};
use crate::result::{LIMIT, filled};
use crate::{both, hosts, process, signal};
use std::time::{Duration, Instant};

/// All processes end within this of a failure.
const SOON: Duration = Duration::from_secs(10);

/// Waits until the job has written rows, so that it is in the middle of its work.
fn wait_for_rows(bench: &Bench, running: &[Running]) {
    let until = Instant::now() + LIMIT;
    let written = |worker: usize| {
        let path = bench.path().join(format!("out.1.{worker}.jsonl"));
        std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
    };
    while !(0..4).all(written) {
        let said: String = running.iter().map(Running::err).collect();
        assert!(Instant::now() < until, "{said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_process_ends_the_other() {
    for killed in [0, 1] {
        let bench = filled(false);
        let [first, second] = both(&bench, &[]);
        wait_for_rows(&bench, &[]);
        let (gone, left) = if killed == 0 {
            (first, second)
        } else {
            (second, first)
        };
        signal::send(&gone, "KILL");
        let ended = left.end(SOON);
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        assert!(ended.err.contains("lost a peer"), "{}", ended.err);
        assert!(!ended.err.contains("PANIC"), "{}", ended.err);
    }
}

#[test]
fn a_signal_at_one_process_stops_all_of_them_clean() {
    for signalled in [0, 1] {
        let bench = filled(false);
        let running = both(&bench, &["--once"]);
        wait_for_rows(&bench, &running);
        signal::send(&running[signalled], "TERM");
        for child in running {
            child
                .end(SOON)
                .with(130)
                .says(&["everything read is written"]);
        }
    }
}

/// The bad record of a partition is told by the process that reads it; the other one ends too.
#[test]
fn a_bad_record_is_told_by_the_process_that_read_it() {
    // Partition 0 is read by process 0, partition 2 by process 1.
    for (partition, teller) in [(0, 0), (2, 1)] {
        for round in 0..4 {
            let bench = filled(false);
            let bad = Record::raw(Some("{\"id\":1}"), b"garbage");
            bench.append("muts", partition, &[bad]);
            let [first, second] = both(&bench, &["--once"]);
            let ended = [first.end(LIMIT), second.end(SOON)];
            let [told, other] = match (teller, ended) {
                (0, ended) => ended,
                (_, [first, second]) => [second, first],
            };
            let address = format!("file:muts[{partition}]");
            told.with(1).says(&["the value is not JSON", &address]);
            lost(&other, round);
        }
    }
}

/// It lost its peer and has no error of its own.
fn lost(ended: &Ended, round: usize) {
    assert_eq!(ended.code, Some(1), "round {round}: {}", ended.err);
    assert!(ended.err.contains("lost a peer"), "{}", ended.err);
    assert!(!ended.err.contains("PANIC"), "{}", ended.err);
}

#[test]
fn a_target_that_only_one_process_cannot_open_ends_both() {
    let bench = filled(true);
    bench.config(&format!("{JSONL}\ntarget_not_empty = \"accept\""));
    // The file of worker 2, which belongs to process 1.
    std::fs::write(bench.path().join("out.1.2.jsonl"), "{}\n").expect("written");
    let [first, second] = both(&bench, &["--once"]);
    second
        .end(LIMIT)
        .with(4)
        .says(&["out.1.2.jsonl", "incarnation"]);
    lost(&first.end(SOON), 0);
}

#[test]
fn a_late_read_gives_both_the_code_of_the_run() {
    let bench = filled(true);
    bench.append("snap", 3, &[hello('r', 7_000, "late")]);
    let [first, second] = both(&bench, &["--once"]);
    first.end(LIMIT).with(3).says(&["behind the frozen end"]);
    second.end(LIMIT).with(3).says(&["process 0"]);
}

#[test]
fn another_configuration_at_one_process_ends_both_with_2() {
    let bench = filled(true);
    hosts(&bench, 2);
    let first = process(&bench, 0, &["--once"]);
    let second = process(&bench, 1, &["--once", "--set", "limits.tick_ms=40"]);
    for child in [first, second] {
        child.end(LIMIT).with(2).says(&["configuration"]);
    }
    assert!(bench.jsonl().is_empty());
}

#[test]
fn another_secret_at_one_process_ends_both() {
    let bench = filled(true);
    hosts(&bench, 2);
    let secret = |word: &str| format!("cluster.secret={word} of more than sixteen bytes");
    let start = |number: usize, word: &str| {
        let secret = secret(word);
        let flags = ["--once", "--set", "cluster.deadline=5s", "--set", &secret];
        process(&bench, number, &flags)
    };
    // Whichever gives up last knows it too, although it only finds the other gone by then.
    for child in [start(0, "one"), start(1, "another")] {
        let ended = child.end(LIMIT).with(1).says(&["secret is not"]);
        assert!(!ended.err.contains("sixteen"), "{}", ended.err);
    }
    assert!(bench.jsonl().is_empty());
}

#[test]
fn a_peer_that_does_not_come_is_named() {
    let bench = filled(true);
    let hosts = hosts(&bench, 2);
    let child = process(&bench, 0, &["--once", "--set", "cluster.deadline=1s"]);
    child
        .end(LIMIT)
        .with(1)
        .says(&[&format!("missing: 1={}", hosts[1])]);
}

#[test]
fn a_signal_while_a_peer_is_waited_for_ends_at_once() {
    let bench = filled(true);
    hosts(&bench, 2);
    let child = process(&bench, 0, &["--once"]);
    let until = Instant::now() + LIMIT;
    // The lease is taken just before the bring-up.
    while !bench.path().join("state/hello/lease").exists() {
        assert!(Instant::now() < until, "{}", child.err());
        std::thread::sleep(Duration::from_millis(10));
    }
    signal::send(&child, "INT");
    child
        .end(SOON)
        .with(130)
        .says(&["interrupted before the start"]);
    assert!(bench.jsonl().is_empty());
}
