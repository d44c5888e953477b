//! Clusters of threads on loopback sockets.
//!
//! Every test listens on an address of its own within 127/8, so tests that run side by side cannot
//! take each other's ports.

#[path = "../support/hosts.rs"]
mod free_hosts;

pub(crate) use free_hosts::free as hosts;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use headwater::cluster::{Cluster, ClusterError, ClusterSpec, bring_up};
use timely::dataflow::operators::{Exchange, Inspect, ToStream};

pub(crate) type Started = JoinHandle<Result<Cluster, ClusterError>>;

/// Records that each worker sends.
const RECORDS: u64 = 1000;

pub(crate) fn spec(process: usize, hosts: &[String]) -> ClusterSpec {
    ClusterSpec {
        job: "hello".to_owned(),
        config_hash: [7; 32],
        threads: 2,
        processes: hosts.len(),
        process,
        hosts: hosts.to_vec(),
        secret: Some(b"a secret of many bytes".to_vec()),
        deadline: Duration::from_secs(20),
        number: 7,
    }
}

pub(crate) fn start(spec: ClusterSpec) -> Started {
    start_reporting(spec).0
}

pub(crate) fn start_reporting(spec: ClusterSpec) -> (Started, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&lines);
    let started = std::thread::spawn(move || {
        bring_up(&spec, &mut |line| {
            copy.lock().unwrap().push(line.to_owned())
        })
    });
    (started, lines)
}

pub(crate) fn end(started: Started) -> Result<Cluster, ClusterError> {
    started.join().expect("a bring-up never panics")
}

pub(crate) fn texts(started: Vec<Started>) -> Vec<String> {
    started
        .into_iter()
        .map(|s| end(s).unwrap_err().to_string())
        .collect()
}

/// Runs an exchange over the whole cluster and checks that every record came where it should.
pub(crate) fn run(clusters: Vec<Cluster>) {
    let peers: u64 = clusters.iter().map(|c| c.builders.len() as u64).sum();
    let running: Vec<_> = clusters
        .into_iter()
        .map(|c| std::thread::spawn(|| run_one(c)))
        .collect();
    let mut total = 0;
    for process in running {
        for (worker, records) in process.join().unwrap() {
            assert!(
                records.iter().all(|record| record % peers == worker),
                "worker {worker}"
            );
            total += records.len() as u64;
        }
    }
    assert_eq!(total, peers * RECORDS);
}

fn run_one(cluster: Cluster) -> Vec<(u64, Vec<u64>)> {
    let Cluster {
        builders, guard, ..
    } = cluster;
    let config = timely::WorkerConfig::default();
    let guards = timely::execute::execute_from(builders, guard, config, |worker| {
        let (sender, received) = channel();
        worker.dataflow::<u64, _, _>(|scope| {
            (0..RECORDS)
                .to_stream(scope)
                .container::<Vec<_>>()
                .exchange(|record| *record)
                .inspect(move |record| sender.send(*record).unwrap());
        });
        while worker.has_dataflows() {
            worker.step_or_park(None);
        }
        (worker.index() as u64, received.try_iter().collect())
    });
    guards
        .unwrap()
        .join()
        .into_iter()
        .map(|result| result.unwrap())
        .collect()
}
