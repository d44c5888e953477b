//! The headwater binary as child processes, with a sink database of its own.
//!
//! Invariant: no child outlives its [`Job`], and what the children said is printed when it fails.
//!
//! It cannot look into the children: what it knows is the exit code, the JSON summary on stdout,
//! the progress lines on stderr and the rows in the sink.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::benchmark::Benchmark;
use crate::services::{free_port, print_tail, wait_until};

/// Where the configuration has the limit that spreads the READs over the run.
const READ_RATE_KEY: &str = "limits.reads_per_second_max";

/// Processes and workers of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// How many processes.
    pub(crate) processes: usize,
    /// Worker threads in each.
    pub(crate) workers: usize,
}

/// A `headwater run --once`, started as often as the test wants.
pub(crate) struct Job {
    /// Name of the job and of its sink database.
    pub(crate) name: &'static str,
    folder: PathBuf,
    starts: usize,
    /// Those of the last start.
    processes: Vec<Process>,
}

struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// What a start had done, by the last progress line that it wrote: at most 5 s old.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// READs emitted.
    pub(crate) reads_emitted: u64,
    /// READs dropped by a marker.
    pub(crate) reads_dropped: u64,
    /// 1 if it went on from a checkpoint.
    pub(crate) restored: u64,
}

/// Rows in which the sink differs from the source. All zero: the sets are equal.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Keys with any difference.
    pub(crate) rows: u64,
    /// Keys that both have, with different greetings.
    pub(crate) stale: u64,
    /// Keys that only the sink has.
    pub(crate) resurrected: u64,
    /// Keys that only the source has.
    pub(crate) missing: u64,
}

impl Layout {
    /// So many processes with so many workers each.
    pub(crate) const fn new(processes: usize, workers: usize) -> Self {
        Self { processes, workers }
    }

    /// As people say it: `2x1`.
    pub(crate) fn text(self) -> String {
        format!("{}x{}", self.processes, self.workers)
    }
}

impl Job {
    /// Makes the sink database and the configuration, to which `more` is added.
    pub(crate) fn create(benchmark: &Benchmark, name: &'static str, more: &str) -> Self {
        create_sink(benchmark, name);
        let folder = benchmark.folder().join(name);
        fs::create_dir(&folder).expect("the folder of the services can be written");
        let config = config_toml(benchmark, name) + more;
        fs::write(folder.join("headwater.toml"), config).expect("the folder can be written");
        Self {
            name,
            folder,
            starts: 0,
            processes: Vec::new(),
        }
    }

    /// Starts the binary, to emit or drop so many READs a second. None of an earlier start may be
    /// left.
    pub(crate) fn start(&mut self, layout: Layout, reads_per_second_max: u64, flags: &[&str]) {
        self.starts += 1;
        let hosts: String = (0..layout.processes)
            .map(|_| format!("127.0.0.1:{}\n", free_port()))
            .collect();
        fs::write(self.folder.join("hosts.txt"), hosts).expect("the folder can be written");
        let rate = format!("{READ_RATE_KEY}={reads_per_second_max}");
        let flags = [&["--set", &rate], flags].concat();
        self.processes = (0..layout.processes)
            .map(|number| self.spawn(layout, number, &flags))
            .collect();
    }

    fn spawn(&self, layout: Layout, number: usize, flags: &[&str]) -> Process {
        let path = |kind: &str| self.folder.join(format!("{kind}-{}-{number}", self.starts));
        let (stdout, stderr) = (path("stdout"), path("stderr"));
        let log = |path: &Path| File::create(path).expect("the folder can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command
            .args(["run", "--once", "--json", "-c", "headwater.toml"])
            .args(["-w", &layout.workers.to_string()]);
        if layout.processes > 1 {
            command.args(["-n", &layout.processes.to_string()]).args([
                "-p",
                &number.to_string(),
                "-h",
                "hosts.txt",
            ]);
        }
        let child = command
            .args(flags)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log(&stdout))
            .stderr(log(&stderr))
            .spawn()
            .expect("cargo built the binary");
        Process {
            child,
            stdout,
            stderr,
        }
    }

    /// Panics when a child has ended already.
    pub(crate) fn assert_running(&mut self) {
        for process in &mut self.processes {
            let ended = process.ended();
            assert!(
                ended.is_none(),
                "job `{}` ended too early: {ended:?}",
                self.name
            );
        }
    }

    /// Whether all of its processes run.
    pub(crate) fn is_running(&mut self) -> bool {
        self.processes
            .iter_mut()
            .all(|process| process.ended().is_none())
    }

    /// Kills every process with -9; returns what they had done.
    pub(crate) fn kill(&mut self) -> Counts {
        self.assert_running();
        for process in &mut self.processes {
            process.kill();
        }
        self.counts()
    }

    /// Kills one process with -9 and waits for the others to end by themselves, which must not be
    /// with code 0. Whether they did within `limit`: those that wait for a peer to start, as the
    /// killed one may have been about to, take longer, and are killed too.
    pub(crate) fn kill_one(&mut self, number: usize, limit: Duration) -> (Counts, bool) {
        self.assert_running();
        self.processes[number].kill();
        let until = Instant::now() + limit;
        let mut alone = true;
        for process in &mut self.processes {
            while process.ended().is_none() && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
            match process.ended() {
                Some(status) => {
                    assert!(!status.success(), "a peer of a killed process ended well");
                }
                None => {
                    alone = false;
                    process.kill();
                }
            }
        }
        (self.counts(), alone)
    }

    /// Waits for the end with exit code 0; returns the summary.
    pub(crate) fn summary(&mut self, limit: Duration) -> Value {
        for process in &mut self.processes {
            let status = wait_until(&format!("job `{}` to end", self.name), limit, || {
                process.ended().ok_or("still running".to_owned())
            });
            assert!(status.success(), "job `{}` failed: {status}", self.name);
        }
        let stdout = fs::read_to_string(&self.processes[0].stdout).expect("it was made at start");
        serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("the summary is not one JSON object: {error}: {stdout}"))
    }

    /// What the last start has done so far.
    pub(crate) fn counts(&self) -> Counts {
        let process = self.processes.first().expect("started");
        let stderr = fs::read_to_string(&process.stderr).expect("it was made at start");
        let (reads_emitted, reads_dropped) =
            stderr.lines().rev().find_map(reads).unwrap_or_default();
        Counts {
            reads_emitted,
            reads_dropped,
            restored: u64::from(stderr.contains("goes on from checkpoint")),
        }
    }

    /// Compares the sink's table with the source's, as a person would: `headwater verify`.
    pub(crate) fn difference(&self) -> Difference {
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["verify", "--json", "--lag", "2s"])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .expect("cargo built the binary");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 4)),
            "verify of `{}` failed: {said}",
            self.name
        );
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("the report is not one JSON object: {error}: {said}"));
        let count = |value: &Value| value.as_u64().expect("a count");
        let table = &report["tables"][0];
        assert!(
            count(&table["source_rows"]) > 0,
            "nothing was compared: {report}"
        );
        assert_eq!(table["moving"], 0, "nobody writes any more: {report}");
        Difference {
            rows: count(&report["differing_rows"]),
            stale: count(&table["different"]["count"]),
            resurrected: count(&table["extra"]["count"]),
            missing: count(&table["missing"]["count"]),
        }
    }
}

impl Process {
    fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }
}

/// READs emitted and dropped, of a progress line: `… READs 12 emitted, 1,234 dropped…`.
fn reads(line: &str) -> Option<(u64, u64)> {
    let (emitted, rest) = line.split_once("READs ")?.1.split_once(" emitted, ")?;
    let (dropped, _) = rest.split_once(" dropped")?;
    let number = |text: &str| text.replace(',', "").parse().ok();
    Some((number(emitted)?, number(dropped)?))
}

impl Drop for Job {
    fn drop(&mut self) {
        for process in &mut self.processes {
            if thread::panicking() {
                print_tail(&process.stdout);
                print_tail(&process.stderr);
            }
            if matches!(process.child.try_wait(), Ok(None)) {
                let ended = process.child.kill().and_then(|()| process.child.wait());
                eprintln!("job `{}` was killed: {ended:?}", self.name);
            }
        }
    }
}

impl Difference {
    /// The counts as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({
            "rows": self.rows,
            "stale": self.stale,
            "resurrected": self.resurrected,
            "missing": self.missing,
        })
    }
}

/// A database for the sink.
fn create_sink(benchmark: &Benchmark, name: &str) {
    benchmark.sql(&format!("create database {name}"));
    let table = "create table public.hello (id int primary key, greeting text)";
    benchmark.postgres.sql(name, table);
}

fn config_toml(benchmark: &Benchmark, name: &str) -> String {
    format!(
        r#"job = "{name}"

[kafka]
"bootstrap.servers" = "{}"

[[table]]
name      = "public.hello"
mutations = "{}"
snapshot  = "{}"

[source]
database = "{}"

[promote]
caught_up = "unproven" # the writers stop, and nothing comes after

[sink]
kind = "postgres"
url  = "{}"
"#,
        benchmark.services.bootstrap_servers(),
        benchmark.mutations(),
        benchmark.snapshot(),
        benchmark.source_url(),
        benchmark.postgres.url(name)
    )
}

/// Writes a report beside cargo's other test output, and prints it.
pub(crate) fn publish(name: &str, report: &Value) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let text = serde_json::to_string_pretty(report).expect("a JSON value has a text");
    fs::write(&path, &text).expect("cargo made this folder");
    println!("{text}\nwritten to {}", path.display());
}
