//! The source side of a scenario: one table under writers, its live connector, and a private
//! snapshot taken while the writes go on.
//!
//! Invariant: when [`Benchmark::settle`] returns, both topics are final: every mutation that was
//! committed before and every READ is in Kafka, with an end-of-snapshot record after the READs.
//!
//! It cannot choose what pgbench writes: ids are random, so counts differ from run to run.

use std::env;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connect::Connect;
use crate::kafka::Kafka;
use crate::postgres::{Load, Pgbench, Postgres};
use crate::records;
use crate::services::{Services, print_tail, wait_until};

/// Id of the generation whose READs the snapshot topic holds.
pub(crate) const GENERATION: &str = "g1";
const PARTITIONS: i32 = 4;
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(120);

/// The running services with a scenario's database, its table and its live connector.
pub(crate) struct Benchmark {
    /// The services, which other scenarios use before and after.
    pub(crate) services: Arc<Services>,
    /// The source database's server.
    pub(crate) postgres: Postgres,
    /// The source database, and the prefix of the topics.
    pub(crate) name: &'static str,
    pub(crate) kafka: Kafka,
    pub(crate) connect: Connect,
}

/// What the writers and the snapshot left behind.
#[derive(Debug)]
pub(crate) struct Written {
    /// Transactions of the writers.
    pub(crate) transactions: u64,
    /// Records in the mutation topic, tombstones included.
    pub(crate) mutation_records: i64,
    /// Records in the snapshot topic, end-of-snapshot records included.
    pub(crate) snapshot_records: i64,
    /// Keys that the snapshot read.
    pub(crate) reads: i64,
    /// Seconds from the first write until both topics were final.
    pub(crate) seconds: f64,
}

impl Benchmark {
    /// Makes the database, fills its table, and brings the live connector to where it streams.
    pub(crate) fn prepare(services: Arc<Services>, name: &'static str, keys: u64) -> Self {
        Self::prepare_with(services, name, keys, "'hello ' || id")
    }

    /// The same with other greetings: SQL of `id`.
    pub(crate) fn prepare_with(
        services: Arc<Services>,
        name: &'static str,
        keys: u64,
        greeting: &str,
    ) -> Self {
        let postgres = Postgres {
            port: services.postgres_port(),
        };
        let benchmark = Self {
            kafka: Kafka::new(&services.bootstrap_servers()),
            connect: Connect {
                port: services.connect_port(),
            },
            services,
            postgres,
            name,
        };
        std::fs::create_dir(benchmark.folder()).expect("the folder of the services is writable");
        postgres.sql("postgres", &format!("create database {name}"));
        benchmark.sql(&format!(
            "create table public.hello (id int primary key, greeting text);
             insert into public.hello select id, {greeting}
             from generate_series(1, {keys}) as id;"
        ));
        benchmark.kafka.create_topics(&[
            (&benchmark.mutations(), PARTITIONS),
            (&benchmark.snapshot(), PARTITIONS),
            (&benchmark.notifications(), 1),
            (&benchmark.heartbeat(), 1),
        ]);
        benchmark.start_live(&benchmark.live_connector());
        benchmark
    }

    /// Makes the live connector anew, so that it also confirms where the server's keepalives are:
    /// its slot then goes on with the log of an idle source. A restart finds the slot ahead of its
    /// offset, and must be told to go on from there.
    pub(crate) fn confirm_keepalives(&self) {
        self.connect.delete(&self.live());
        wait_until("the replication slot to be free", WAIT_MAX, || {
            self.slot_active("f")
        });
        let mut config = self.live_connector();
        config["lsn.flush.mode"] = json!("connector_and_driver");
        config["offset.mismatch.strategy"] = json!("trust_slot");
        self.start_live(&config);
    }

    fn start_live(&self, config: &Value) {
        let live = self.live();
        self.connect.configure(&live, config);
        wait_until("the live connector's tasks", WAIT_MAX, || {
            self.connect.running(&live)
        });
        wait_until("the replication slot to stream", WAIT_MAX, || {
            self.slot_active("t")
        });
    }

    fn slot_active(&self, active: &str) -> Result<(), String> {
        let query = format!(
            "select active from pg_replication_slots where slot_name = '{}'",
            self.name
        );
        match self.sql(&query) {
            found if found == active => Ok(()),
            other => Err(format!("active: `{other}`")),
        }
    }

    /// Topic of the live connector.
    pub(crate) fn mutations(&self) -> String {
        format!("{}.public.hello", self.name)
    }

    /// Topic of the private snapshot.
    pub(crate) fn snapshot(&self) -> String {
        format!("{}_snap.public.hello", self.name)
    }

    fn notifications(&self) -> String {
        format!("{}_snap.notifications", self.name)
    }

    /// Topic of the live connector's heartbeats.
    pub(crate) fn heartbeat(&self) -> String {
        format!("__debezium-heartbeat.{}", self.name)
    }

    /// A folder for the scenario's files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.services.folder().join(self.name)
    }

    /// Where the source database is.
    pub(crate) fn source_url(&self) -> String {
        self.postgres.url(self.name)
    }

    /// Runs statements in the source database.
    pub(crate) fn sql(&self, statements: &str) -> String {
        self.postgres.sql(self.name, statements)
    }

    /// A query of the source database with one number as its answer.
    pub(crate) fn number(&self, query: &str) -> u64 {
        self.postgres.number(self.name, query)
    }

    /// Starts writers; `name` is theirs.
    pub(crate) fn start_load(&self, load: Load, name: &str) -> Pgbench {
        self.postgres
            .start_load(self.name, load, &self.folder(), name)
    }

    /// Starts the snapshot.
    pub(crate) fn start_snapshot(&self) {
        self.connect
            .configure(&self.snap(), &self.snapshot_connector());
    }

    /// Runs the writers, takes the snapshot after a tenth of their time, and waits until both
    /// topics are final. `alive` is called while waiting and may panic.
    pub(crate) fn write(&self, load: Load, mut alive: impl FnMut()) -> Written {
        let begun = Instant::now();
        let mut writers = self.start_load(load, "writers");
        thread::sleep(Duration::from_secs(load.seconds) / 10);
        self.start_snapshot();
        await_writers(&mut writers, load, &mut alive);
        self.wait_for_reads(&mut alive);
        self.settle(begun, writers.transactions(), &mut alive)
    }

    /// Waits until Kafka has every READ. The snapshot connector must not be disturbed before: it
    /// would begin again.
    ///
    /// Its offsets alone do not show it: those of its first notifications, stored before its first
    /// READ, look as those at its end do. So the READs are counted, too.
    pub(crate) fn wait_for_reads(&self, alive: &mut impl FnMut()) {
        let snap = self.snap();
        wait_until("the snapshot connector to finish", WAIT_MAX, || {
            alive();
            self.connect.running(&snap)?;
            self.connect.snapshot_finished(&snap)?;
            let scanned = self.rows_scanned().ok_or("it has not read its table")?;
            let found = self.kafka.count(&self.snapshot());
            if found >= scanned {
                Ok(())
            } else {
                Err(format!("{found} READs of {scanned}"))
            }
        });
    }

    /// The rows of the table, by the snapshot's own count, once it has read them.
    fn rows_scanned(&self) -> Option<i64> {
        let mut rows = None;
        records::values(&self.kafka, &self.notifications(), |_, value| {
            let note: Value = serde_json::from_slice(value).expect("Debezium writes JSON");
            if note["type"] == "TABLE_SCAN_COMPLETED" {
                let total = note["additional_data"]["total_rows_scanned"].as_str();
                rows = total.and_then(|total| total.parse().ok());
            }
        });
        rows
    }

    /// Waits until the mutation topic is final and ends the snapshot topic; the writers, which
    /// began at `begun`, have ended, and all READs are there.
    pub(crate) fn settle(
        &self,
        begun: Instant,
        transactions: u64,
        alive: &mut impl FnMut(),
    ) -> Written {
        self.wait_for_live(alive);
        let snapshot = self.snapshot();
        let reads = self.kafka.count(&snapshot);
        self.kafka.end_snapshot(&snapshot, GENERATION);
        Written {
            transactions,
            mutation_records: self.kafka.count(&self.mutations()),
            snapshot_records: self.kafka.count(&snapshot),
            reads,
            seconds: begun.elapsed().as_secs_f64(),
        }
    }

    /// Waits until everything committed before now is in Kafka: Debezium confirms a position to
    /// the slot only after Kafka has acknowledged what came before it.
    fn wait_for_live(&self, alive: &mut impl FnMut()) {
        let end = self.sql("select pg_current_wal_lsn()");
        // The sinks write to other databases of the same server, so the position above may lie
        // behind anything that the live connector will ever see: give it one more change to see.
        self.sql(
            "update hello set greeting = greeting
             where id = (select min(id) from hello)",
        );
        let query = format!(
            "select confirmed_flush_lsn >= '{end}', confirmed_flush_lsn
             from pg_replication_slots where slot_name = '{}'",
            self.name
        );
        wait_until(&format!("the slot to pass {end}"), WAIT_MAX, || {
            alive();
            let answer = self.sql(&query);
            if answer.starts_with("t|") {
                Ok(())
            } else {
                Err(answer)
            }
        });
    }

    /// Name of the live connector.
    pub(crate) fn live(&self) -> String {
        format!("{}-live", self.name)
    }

    fn snap(&self) -> String {
        format!("{}-snap", self.name)
    }

    fn live_connector(&self) -> Value {
        let mut config = self.connector(include_str!("../services/connectors/live.json"));
        config["topic.prefix"] = json!(self.name);
        config["slot.name"] = json!(self.name);
        // Without heartbeats the slot stands still when only other tables and databases are
        // written.
        config["heartbeat.interval.ms"] = json!("500");
        // How long it waits before it comes back after its server did; 10 s unless set.
        config["retriable.restart.connector.wait.ms"] = json!("1000");
        config
    }

    fn snapshot_connector(&self) -> Value {
        let mut config = self.connector(include_str!("../services/connectors/snapshot.json"));
        config["topic.prefix"] = json!(format!("{}_snap", self.name));
        config["notification.sink.topic.name"] = json!(self.notifications());
        config
    }

    /// A recipe's connector on this database and table.
    pub(crate) fn connector(&self, recipe: &str) -> Value {
        let mut config: Value = serde_json::from_str(recipe).expect("the recipe is JSON");
        config["database.port"] = json!(self.postgres.port.to_string());
        config["database.dbname"] = json!(self.name);
        config["table.include.list"] = json!("public.hello");
        config
    }
}

impl Drop for Benchmark {
    /// The next scenario is not to share the machine with this one's connectors.
    fn drop(&mut self) {
        if thread::panicking() {
            self.services.print_logs();
        }
        self.connect.delete(&self.snap());
        self.connect.delete(&self.live());
    }
}

/// Waits for the good end of writers.
pub(crate) fn await_writers(writers: &mut Pgbench, load: Load, alive: &mut impl FnMut()) {
    let limit = Duration::from_secs(load.seconds) + WAIT_MAX;
    let status = wait_until("the writers to stop", limit, || {
        alive();
        writers.ended().ok_or("still writing".to_owned())
    });
    if !status.success() {
        print_tail(writers.log());
    }
    assert!(status.success(), "pgbench failed: {status}");
}

/// A number from the environment, or its default.
pub(crate) fn from_env<T: FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: `{text}`")),
        Err(_) => default,
    }
}
