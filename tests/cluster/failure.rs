//! How a cluster ends when one of its processes or workers does. Real processes: this test program
//! starts itself again, and the copy becomes a member of a cluster in [`child_process`].

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use headwater::cluster::{Cluster, bring_up, install_abort_on_panic};
use timely::dataflow::operators::{Exchange, Input, Inspect};

use super::common::{end, hosts, run, spec, start};

/// Set in a copy: process, directory, and the worker that panics (or none), one a line; then hosts.
const CHILD: &str = "HEADWATER_TEST_CHILD";
const SIGKILL: i32 = 9;
const SIGABRT: i32 = 6;

struct Member(Child);

impl Member {
    fn start(process: usize, hosts: &[String], dir: &Path, panics: &str) -> Self {
        let told = format!(
            "{process}\n{}\n{panics}\n{}",
            dir.display(),
            hosts.join("\n")
        );
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "failure::child_process", "--nocapture"]);
        command.env(CHILD, told).env_remove("RUST_BACKTRACE");
        Self(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    /// Waits for the end and returns its status and what was said.
    fn end(mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "still running after 20 s"
            );
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut said = String::new();
        self.0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (status, said)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits until every worker has seen records of every other.
fn wait_for(dir: &Path, files: usize) {
    let started = Instant::now();
    while std::fs::read_dir(dir).unwrap().count() < files {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "no dataflow after 20 s"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A member of a cluster of 2 workers a process that works until something ends it; in the test
/// run itself, nothing.
#[test]
fn child_process() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let mut lines = told.lines().map(str::to_owned);
    let process: usize = lines.next().unwrap().parse().unwrap();
    let dir = lines.next().unwrap();
    let panics: Option<usize> = lines.next().unwrap().parse().ok();
    let hosts: Vec<String> = lines.collect();

    install_abort_on_panic();
    let Cluster {
        builders, guard, ..
    } = bring_up(&spec(process, &hosts), &mut |_| ()).unwrap();
    let config = timely::WorkerConfig::default();
    let guards = timely::execute::execute_from(builders, guard, config, move |worker| {
        let (me, peers) = (worker.index(), worker.peers() as u64);
        let ready = Path::new(&dir).join(format!("worker-{me}"));
        let armed = Path::new(&dir).join("armed");
        let mut seen = 0;
        let mut input = worker.dataflow::<u64, _, _>(|scope| {
            let (input, stream) = scope.new_input::<Vec<u64>>();
            stream.exchange(|record| *record).inspect(move |_| {
                seen += 1;
                if seen == 100 * peers {
                    std::fs::write(&ready, "").unwrap();
                }
                assert!(
                    panics != Some(me) || !armed.exists(),
                    "planted in worker {me}"
                );
            });
            input
        });
        for round in 0.. {
            (0..peers).for_each(|record| input.send(record));
            input.advance_to(round + 1);
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
    });
    for result in guards.unwrap().join() {
        result.unwrap();
    }
}

#[test]
fn a_killed_process_ends_the_others_with_one_line() {
    let (hosts, dir) = (hosts(3), tempfile::tempdir().unwrap());
    let start = |process| Member::start(process, &hosts, dir.path(), "");
    let (zero, mut one, two) = (start(0), start(1), start(2));
    wait_for(dir.path(), 6);
    one.0.kill().unwrap();
    assert_eq!(one.end().0.signal(), Some(SIGKILL));
    for (status, said) in [zero.end(), two.end()] {
        assert_eq!(status.code(), Some(1), "{said}");
        assert_eq!(
            said.matches("lost a peer of the cluster (").count(),
            1,
            "{said}"
        );
        assert!(said.contains("ending; restart all processes"), "{said}");
        assert!(
            !said.contains("PANIC") && !said.contains("panicked"),
            "{said}"
        );
    }
}

#[test]
fn a_worker_that_panics_ends_every_process_and_alone_is_loud() {
    let (hosts, dir) = (hosts(2), tempfile::tempdir().unwrap());
    let start = |process| Member::start(process, &hosts, dir.path(), "3");
    let (zero, one) = (start(0), start(1));
    wait_for(dir.path(), 4);
    std::fs::write(dir.path().join("armed"), "").unwrap();
    let (status, said) = one.end();
    assert_eq!(status.signal(), Some(SIGABRT), "{said}");
    assert!(
        said.contains("PANIC in thread 'timely:work-1' at tests/cluster/failure.rs:"),
        "{said}"
    );
    assert!(said.contains("planted in worker 3"), "{said}");
    let (status, said) = zero.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("lost a peer of the cluster (process 1: "),
        "{said}"
    );
    assert!(!said.contains("PANIC"), "{said}");
}

#[test]
fn a_worker_that_panics_takes_its_siblings_along_without_a_cluster() {
    let (hosts, dir) = (hosts(1), tempfile::tempdir().unwrap());
    let alone = Member::start(0, &hosts, dir.path(), "1");
    wait_for(dir.path(), 2);
    std::fs::write(dir.path().join("armed"), "").unwrap();
    let (status, said) = alone.end();
    assert_eq!(status.signal(), Some(SIGABRT), "{said}");
    assert!(said.contains("planted in worker 1"), "{said}");
}

#[test]
fn process_0_may_be_replaced_before_the_start() {
    let (hosts, dir) = (hosts(3), tempfile::tempdir().unwrap());
    let mut old = Member::start(0, &hosts, dir.path(), "");
    let (one, lines) = super::common::start_reporting(spec(1, &hosts));
    std::thread::sleep(Duration::from_millis(700));
    old.0.kill().unwrap();
    drop(old);
    std::thread::sleep(Duration::from_millis(100));
    let (two, zero) = (start(spec(2, &hosts)), start(spec(0, &hosts)));
    let clusters: Vec<Cluster> = [zero, one, two]
        .into_iter()
        .map(|s| end(s).unwrap())
        .collect();
    assert!(
        clusters
            .iter()
            .all(|cluster| cluster.incarnation == clusters[0].incarnation)
    );
    let lines = lines.lock().unwrap().join("\n");
    assert!(
        lines.contains(&format!("lost process 0={}: it went away", hosts[0])),
        "{lines}"
    );
    run(clusters);
}
