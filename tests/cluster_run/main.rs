//! Several processes of the real binary over loopback: they give one result, and end together.
//!
//! It cannot cut a network: a lost peer is one that was killed.

#[path = "../support/binary.rs"]
mod binary;
mod failure;
#[path = "../support/hosts.rs"]
mod free_hosts;
mod result;
#[path = "../support/signal.rs"]
mod signal;
mod window;

use binary::{Bench, Running};

/// Writes `hosts.txt` with free addresses that no other test uses, and returns them.
fn hosts(bench: &Bench, count: usize) -> Vec<String> {
    let hosts = free_hosts::free(count);
    let text = format!("# two on one machine\n{}\n", hosts.join("\n"));
    std::fs::write(bench.path().join("hosts.txt"), text).expect("written");
    hosts
}

/// Starts process `process` of two, with two workers.
fn process(bench: &Bench, process: usize, flags: &[&str]) -> Running {
    let number = process.to_string();
    let place = [
        "run",
        "-w",
        "2",
        "-n",
        "2",
        "-p",
        &number,
        "-h",
        "hosts.txt",
    ];
    bench.start(&format!("process{number}"), &[&place[..], flags].concat())
}

/// Starts both.
fn both(bench: &Bench, flags: &[&str]) -> [Running; 2] {
    hosts(bench, 2);
    [0, 1].map(|number| process(bench, number, flags))
}
