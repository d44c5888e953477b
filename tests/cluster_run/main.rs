//! Several processes of the real binary over loopback: they give one result, and end together.
//!
//! It cannot cut a network: a lost peer is one that was killed.

#[path = "../support/binary.rs"]
mod binary;
mod failure;
mod result;
#[path = "../support/signal.rs"]
mod signal;

use binary::{Bench, Running};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

/// Writes `hosts.txt` with free addresses that no other test uses, and returns them.
fn hosts(bench: &Bench, count: usize) -> Vec<String> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let pid = std::process::id().to_le_bytes();
    let ip = Ipv4Addr::new(
        127,
        1 + pid[0] % 250,
        pid[1],
        NEXT.fetch_add(1, Ordering::SeqCst),
    );
    let taken: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((ip, 0)).expect("a free port"))
        .collect();
    let hosts: Vec<String> = taken
        .iter()
        .map(|listener| listener.local_addr().expect("bound").to_string())
        .collect();
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
