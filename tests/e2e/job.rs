//! The headwater binary as a child process, with a sink database of its own.
//!
//! Invariant: the child never outlives its [`Job`], and what it said is printed when it fails.
//!
//! It cannot look into the child: what it knows is the exit code, the JSON summary on stdout and
//! the rows in the sink.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::benchmark::{Benchmark, MUTATIONS, SNAPSHOT};
use crate::services::{print_tail, wait_until};

/// Where the configuration has the limit that spreads the READs over the run.
const READ_RATE_KEY: &str = "limits.reads_per_second_max";
const WORKERS: &str = "2";

/// One running `headwater run --once`.
pub(crate) struct Job {
    /// Name of the job, of its sink database, and of the schema that shows its table.
    pub(crate) name: &'static str,
    child: Child,
    folder: PathBuf,
}

/// Rows in which the sink differs from the source. All zero: the sets are equal.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Rows of the sink EXCEPT source, and of the source EXCEPT sink, together.
    pub(crate) rows: u64,
    /// Keys that both have, with different greetings.
    pub(crate) stale: u64,
    /// Keys that only the sink has.
    pub(crate) resurrected: u64,
    /// Keys that only the source has.
    pub(crate) missing: u64,
}

impl Job {
    /// Makes the sink database and starts the binary.
    pub(crate) fn start(
        benchmark: &Benchmark,
        name: &'static str,
        reads_per_second_max: u64,
        flags: &[&str],
    ) -> Self {
        create_sink(benchmark, name);
        let folder = benchmark.services.folder().join(name);
        fs::create_dir(&folder).expect("the folder of the services can be written");
        let config = folder.join("headwater.toml");
        fs::write(&config, config_toml(benchmark, name)).expect("the folder can be written");
        let log = |file: &str| File::create(folder.join(file)).expect("the folder can be written");
        let child = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["run", "--once", "--json", "-w", WORKERS, "-c"])
            .arg(&config)
            .args(["--set", &format!("{READ_RATE_KEY}={reads_per_second_max}")])
            .args(flags)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log("stdout"))
            .stderr(log("stderr"))
            .spawn()
            .expect("cargo built the binary");
        Self {
            name,
            child,
            folder,
        }
    }

    /// Panics when the child has ended already.
    pub(crate) fn assert_running(&mut self) {
        let ended = self.child.try_wait().expect("it is our child");
        assert!(
            ended.is_none(),
            "job `{}` ended too early: {ended:?}",
            self.name
        );
    }

    /// Waits for the end with exit code 0; returns the summary.
    pub(crate) fn summary(&mut self, limit: Duration) -> Value {
        let status = wait_until(&format!("job `{}` to end", self.name), limit, || {
            self.child
                .try_wait()
                .expect("it is our child")
                .ok_or("still running".to_owned())
        });
        assert!(status.success(), "job `{}` failed: {status}", self.name);
        let stdout = fs::read_to_string(self.folder.join("stdout")).expect("it was made at start");
        serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("the summary is not one JSON object: {error}: {stdout}"))
    }

    /// Compares the sink's table with the source's, in SQL.
    pub(crate) fn difference(&self, benchmark: &Benchmark) -> Difference {
        let sink = format!("{}.hello", self.name);
        let source = "public.hello";
        let number = |query: &str| benchmark.postgres.number("postgres", query);
        Difference {
            rows: number(&format!(
                "select count(*) from (
                   (select id, greeting from {sink} except select id, greeting from {source})
                   union all
                   (select id, greeting from {source} except select id, greeting from {sink})
                 ) as difference"
            )),
            stale: number(&format!(
                "select count(*) from {sink} as k join {source} as s using (id)
                 where k.greeting is distinct from s.greeting"
            )),
            resurrected: number(&format!(
                "select count(*) from {sink} as k
                 where not exists (select from {source} as s where s.id = k.id)"
            )),
            missing: number(&format!(
                "select count(*) from {source} as s
                 where not exists (select from {sink} as k where k.id = s.id)"
            )),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_tail(&self.folder.join("stdout"));
            print_tail(&self.folder.join("stderr"));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let ended = self.child.kill().and_then(|()| self.child.wait());
            eprintln!("job `{}` was killed: {ended:?}", self.name);
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

/// A database for the sink, whose table the source database sees in a schema of the same name.
fn create_sink(benchmark: &Benchmark, name: &str) {
    let Benchmark { postgres, .. } = benchmark;
    postgres.sql("postgres", &format!("create database {name}"));
    postgres.sql(
        name,
        "create table public.hello (id int primary key, greeting text)",
    );
    postgres.sql(
        "postgres",
        &format!(
            "create extension if not exists postgres_fdw;
             create server {name} foreign data wrapper postgres_fdw
               options (host '127.0.0.1', port '{}', dbname '{name}', fetch_size '10000');
             create user mapping for postgres server {name} options (user 'postgres');
             create schema {name};
             import foreign schema public limit to (hello) from server {name} into {name};",
            postgres.port
        ),
    );
}

fn config_toml(benchmark: &Benchmark, name: &str) -> String {
    format!(
        r#"job = "{name}"

[kafka]
"bootstrap.servers" = "{}"

[[table]]
name      = "public.hello"
mutations = "{MUTATIONS}"
snapshot  = "{SNAPSHOT}"

[sink]
kind = "postgres"
url  = "{}"
"#,
        benchmark.services.bootstrap_servers(),
        benchmark.postgres.url(name)
    )
}

/// Writes the report beside cargo's other test output, and prints it.
pub(crate) fn publish(report: &Value) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e-report.json");
    let text = serde_json::to_string_pretty(report).expect("a JSON value has a text");
    fs::write(&path, &text).expect("cargo made this folder");
    println!("{text}\nwritten to {}", path.display());
}
