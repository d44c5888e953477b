//! Snapshots of a scenario's table, each into topics of its own, and jobs that are told where the
//! evidence is: notifications, heartbeats, Kafka Connect, the database.
//!
//! Invariant: a job is open before its snapshot begins ([`Rebuild::open`]), and what it is asked
//! after its end was in its last durable manifest.
//!
//! It cannot end a job: each ends by itself (`--once`), or is killed when the test panics.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::message::Message;
use serde_json::{Value, json};

use crate::benchmark::{Benchmark, WAIT_MAX};
use crate::binary::{Ended, Running};
use crate::kafka::Kafka;
use crate::records;
use crate::services::{free_port, wait_until};

/// A snapshot: its connector, and its two topics, whose records have the time of their append.
pub(crate) struct Snapshot<'b> {
    benchmark: &'b Benchmark,
    /// Name of the connector, and prefix of the topics.
    pub(crate) name: String,
}

impl<'b> Snapshot<'b> {
    /// Makes the topics; the READs' has so many partitions.
    pub(crate) fn prepare(benchmark: &'b Benchmark, name: &str, partitions: i32) -> Self {
        let snapshot = Self {
            benchmark,
            name: format!("{}_read_{name}", benchmark.name),
        };
        let topics = [
            (snapshot.topic(), partitions),
            (snapshot.notifications(), 1),
        ];
        create_topics(&benchmark.kafka, &topics);
        snapshot
    }

    /// The topic of its READs.
    pub(crate) fn topic(&self) -> String {
        format!("{}.public.hello", self.name)
    }

    /// The topic of its notifications.
    pub(crate) fn notifications(&self) -> String {
        format!("{}.notifications", self.name)
    }

    /// Triggers it: a connector in the mode `initial_only`.
    pub(crate) fn start(&self) {
        let recipe = include_str!("../services/connectors/snapshot.json");
        let mut config = self.benchmark.connector(recipe);
        config["topic.prefix"] = json!(self.name);
        config["notification.sink.topic.name"] = json!(self.notifications());
        self.benchmark.connect.configure(&self.name, &config);
    }

    /// Waits for its first READ.
    pub(crate) fn wait_for_first_read(&self) {
        wait_until("a READ", WAIT_MAX, || {
            match self.benchmark.kafka.count(&self.topic()) {
                0 => Err("none".to_owned()),
                _ => Ok(()),
            }
        });
    }

    /// Reads of a snapshot that is in Kafka, and how many of them came there after COMPLETED.
    pub(crate) fn reads(&self) -> (u64, u64) {
        let kafka = &self.benchmark.kafka;
        let mut completed_ms = None;
        records::records(kafka, &self.notifications(), |record| {
            let value = record.payload().unwrap_or_default();
            let note: Value = serde_json::from_slice(value).expect("Debezium writes JSON");
            if note["type"] == "COMPLETED" {
                completed_ms = record.timestamp().to_millis();
            }
        });
        let completed_ms = completed_ms.expect("COMPLETED");
        let (mut all, mut after) = (0, 0);
        records::records(kafka, &self.topic(), |record| {
            if record.payload().is_some() {
                let appended_ms = record.timestamp().to_millis();
                all += 1;
                after += u64::from(appended_ms > Some(completed_ms));
            }
        });
        (all, after)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.benchmark.connect.delete(&self.name);
    }
}

fn create_topics(kafka: &Kafka, topics: &[(String, i32)]) {
    let admin: AdminClient<DefaultClientContext> =
        kafka.config.create().expect("the client's settings");
    let topics: Vec<NewTopic<'_>> = topics
        .iter()
        .map(|(name, partitions)| {
            NewTopic::new(name, *partitions, TopicReplication::Fixed(1))
                .set("message.timestamp.type", "LogAppendTime")
        })
        .collect();
    let created = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without I/O")
        .block_on(admin.create_topics(&topics, &AdminOptions::new()))
        .expect("the broker answers");
    for topic in created {
        topic.unwrap_or_else(|(name, code)| panic!("topic {name} not created: {code}"));
    }
}

/// What a job is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told<'t> {
    /// Lines of `[source]`, beside the database.
    pub(crate) source: String,
    /// `promote.source_finished`.
    pub(crate) finished: &'t str,
    /// `promote.caught_up`.
    pub(crate) caught_up: &'t str,
    /// More sections.
    pub(crate) more: &'t str,
}

/// A line of `[source]` that names the topic of notifications.
pub(crate) fn notified(snapshot: &Snapshot<'_>) -> String {
    format!("notifications = \"{}\"\n", snapshot.notifications())
}

/// A line of `[source]` that names the heartbeat topic.
pub(crate) fn heartbeat(benchmark: &Benchmark) -> String {
    format!("heartbeat = \"{}\"\n", benchmark.heartbeat())
}

/// A line of `[source]` that names Kafka Connect and both connectors.
pub(crate) fn connect(benchmark: &Benchmark, snapshot: Option<&Snapshot<'_>>) -> String {
    let (port, live) = (benchmark.connect.port, benchmark.live());
    let snapshot = snapshot.map_or(String::new(), |of| format!(", snapshot = \"{}\"", of.name));
    format!("connect = {{ url = \"http://127.0.0.1:{port}\", live = \"{live}\"{snapshot} }}\n")
}

/// A `headwater run --once` into an SQLite file of its own.
pub(crate) struct Rebuild {
    name: String,
    folder: PathBuf,
    running: Option<Running>,
}

impl Rebuild {
    /// Starts one, and returns when its generation is open.
    pub(crate) fn open(snapshot: &Snapshot<'_>, name: &str, told: &Told<'_>) -> Self {
        let benchmark = snapshot.benchmark;
        let folder = benchmark.folder().join(format!("{}-{name}", snapshot.name));
        fs::create_dir(&folder).expect("the folder of the services can be written");
        let config = config(snapshot, name, told);
        fs::write(folder.join("headwater.toml"), config).expect("the folder can be written");
        let running = Running::start(&folder, "run", &["run", "--once", "--json", "-w", "1"]);
        let mut rebuild = Self {
            name: name.to_owned(),
            folder,
            running: Some(running),
        };
        wait_until(&format!("job `{name}` to open"), WAIT_MAX, || {
            rebuild.assert_running();
            match rebuild.generation() {
                Some(generation) if generation["stage"] == "open" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        rebuild
    }

    fn assert_running(&mut self) {
        let running = self.running.as_mut().expect("it has not been waited for");
        let ended = running.child.try_wait().expect("it is our child");
        assert!(
            ended.is_none(),
            "{}: {ended:?} {}",
            self.name,
            running.err()
        );
    }

    /// Runs another verb beside it.
    pub(crate) fn headwater(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .expect("cargo built the binary")
    }

    /// The generation, as the status document tells it; none before there is one.
    pub(crate) fn generation(&self) -> Option<Value> {
        let output = self.headwater(&["status", "--json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let status: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("status of `{}`: {error}: {said}", self.name));
        status["generations"].get(0).cloned()
    }

    /// Waits until it stands at a stage.
    pub(crate) fn wait_for(&mut self, stage: &str) -> Value {
        wait_until(&format!("`{}` at {stage}", self.name), WAIT_MAX, || {
            self.assert_running();
            let generation = self.generation().ok_or("no generation")?;
            if generation["stage"] == stage {
                Ok(generation)
            } else {
                Err(format!("{generation:#}"))
            }
        })
    }

    /// Waits for its end with this exit code.
    pub(crate) fn end(&mut self, code: i32) -> Ended {
        let running = self.running.take().expect("it has not been waited for");
        running.end(WAIT_MAX).with(code)
    }

    /// What it stood on when it came into a stage.
    pub(crate) fn evidence(&self, stage: &str) -> String {
        let generation = self.generation().expect("its last manifest");
        let timeline = generation["timeline"].as_array().expect("a list");
        let step = timeline.iter().find(|step| step["stage"] == stage);
        let step = step.unwrap_or_else(|| panic!("`{}`: no {stage}: {generation:#}", self.name));
        step["evidence"].as_str().unwrap_or_default().to_owned()
    }

    /// Compares its target with the source: `headwater verify`.
    pub(crate) fn difference(&self) -> Value {
        let output = self.headwater(&["verify", "--json", "--lag", "1s"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 4)), "`{}`: {said}", self.name);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let table = &report["tables"][0];
        assert!(table["source_rows"].as_u64() > Some(0), "{report}");
        assert_eq!(table["moving"], 0, "nobody writes any more: {report}");
        report
    }

    /// Asserts that its target has the rows of the source.
    pub(crate) fn assert_equal(&self) {
        let report = self.difference();
        assert_eq!(report["differing_rows"], 0, "`{}`: {report:#}", self.name);
    }

    /// The rows of its target.
    pub(crate) fn rows(&self) -> BTreeMap<u64, String> {
        let path = self.folder.join("hello.sqlite");
        let database = rusqlite::Connection::open(path).expect("a database");
        let mut query = database
            .prepare("SELECT id, greeting FROM hello")
            .expect("a table");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        if let (true, Some(running)) = (std::thread::panicking(), &self.running) {
            eprintln!("---- job `{}`\n{}", self.name, running.err());
        }
    }
}

fn config(snapshot: &Snapshot<'_>, name: &str, told: &Told<'_>) -> String {
    let benchmark = snapshot.benchmark;
    format!(
        r#"job = "{name}"
[[table]]
name      = "public.hello"
mutations = "{}"
snapshot  = "{}"
[kafka]
"bootstrap.servers" = "{}"
[source]
database       = "{}"
clock_skew_max = "500ms"
live_settle    = "1s"
end_settle     = "3s"
{}
[promote]
source_finished = "{}"
caught_up       = "{}"
[checkpoint]
interval = "1s"
[control]
listen = "127.0.0.1:{}"
[sink]
kind = "sqlite"
path = "hello.sqlite"
setup_sql = "CREATE TABLE IF NOT EXISTS hello (id INTEGER PRIMARY KEY, greeting TEXT)"
{}
"#,
        benchmark.mutations(),
        snapshot.topic(),
        benchmark.services.bootstrap_servers(),
        benchmark.source_url(),
        told.source,
        told.finished,
        told.caught_up,
        free_port(),
        told.more,
    )
}

/// How long something is watched that must not happen.
pub(crate) const WATCHED: Duration = Duration::from_secs(6);
