//! The source side of the published benchmark: one table under writers, its live connector, and a
//! private snapshot taken while the writes go on.
//!
//! Invariant: when [`Benchmark::write`] returns, both topics are final: every mutation that the
//! writers committed and every READ is in Kafka, with an end-of-snapshot record after the READs.
//!
//! It cannot choose what pgbench writes: ids are random, so counts differ from run to run.

use std::env;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connect::Connect;
use crate::kafka::Kafka;
use crate::postgres::{self, Load, Postgres};
use crate::services::{Services, print_tail, wait_until};

/// Topic of the live connector.
pub(crate) const MUTATIONS: &str = "app.public.hello";
/// Topic of the private snapshot.
pub(crate) const SNAPSHOT: &str = "snap_g1.public.hello";
/// Id of the generation whose READs [`SNAPSHOT`] holds.
pub(crate) const GENERATION: &str = "g1";
const PARTITIONS: i32 = 4;
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The running services with the table and its live connector.
pub(crate) struct Benchmark {
    /// The services; they stop when this is dropped.
    pub(crate) services: Services,
    /// The source database's server.
    pub(crate) postgres: Postgres,
    connect: Connect,
    kafka: Kafka,
    load: Load,
}

/// What one [`Benchmark::write`] left behind.
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
    /// Starts the services, fills the table, and brings the live connector to where it streams.
    pub(crate) fn prepare(load: Load) -> Self {
        let services = Services::start();
        let postgres = Postgres {
            port: services.postgres_port(),
        };
        let connect = Connect {
            port: services.connect_port(),
        };
        let kafka = Kafka::new(&services.bootstrap_servers());
        postgres.sql(
            "postgres",
            &format!(
                "create table public.hello (id int primary key, greeting text);
                 insert into public.hello select id, 'hello ' || id
                 from generate_series(1, {}) as id;",
                load.keys
            ),
        );
        kafka.create_topics(&[
            (MUTATIONS, PARTITIONS),
            (SNAPSHOT, PARTITIONS),
            ("snap_g1.notifications", 1),
            ("__debezium-heartbeat.app", 1),
        ]);
        connect.configure("live", &live_connector(postgres.port));
        wait_until("the live connector's tasks", WAIT_MAX, || {
            connect.running("live")
        });
        wait_until("the replication slot to stream", WAIT_MAX, || {
            let active = "select active from pg_replication_slots where slot_name = 'app'";
            match postgres.sql("postgres", active).as_str() {
                "t" => Ok(()),
                other => Err(format!("active: `{other}`")),
            }
        });
        Self {
            services,
            postgres,
            connect,
            kafka,
            load,
        }
    }

    /// Runs the writers, takes the snapshot after a tenth of their time, and waits until both
    /// topics are final. `alive` is called while waiting and may panic.
    pub(crate) fn write(&self, mut alive: impl FnMut()) -> Written {
        let begun = Instant::now();
        let folder = self.services.folder();
        let mut pgbench = self.postgres.start_load(self.load, folder);
        thread::sleep(Duration::from_secs(self.load.seconds) / 10);
        self.connect
            .configure("snap", &snapshot_connector(self.postgres.port));
        let writers_max = Duration::from_secs(self.load.seconds) + WAIT_MAX;
        let status = wait_until("the writers to stop", writers_max, || {
            alive();
            pgbench
                .try_wait()
                .expect("pgbench is our child")
                .ok_or("still writing".to_owned())
        });
        if !status.success() {
            print_tail(&folder.join("pgbench.log"));
        }
        assert!(status.success(), "pgbench failed: {status}");
        self.wait_for_live(&mut alive);
        wait_until("the snapshot connector to finish", WAIT_MAX, || {
            alive();
            self.connect.running("snap")?;
            self.connect.snapshot_finished("snap")
        });
        let reads = self.kafka.count(SNAPSHOT);
        self.kafka.end_snapshot(SNAPSHOT, GENERATION);
        Written {
            transactions: postgres::transactions(folder),
            mutation_records: self.kafka.count(MUTATIONS),
            snapshot_records: self.kafka.count(SNAPSHOT),
            reads,
            seconds: begun.elapsed().as_secs_f64(),
        }
    }

    /// Waits until everything committed before now is in Kafka: Debezium confirms a position to
    /// the slot only after Kafka has acknowledged what came before it.
    fn wait_for_live(&self, alive: &mut impl FnMut()) {
        let end = self.postgres.sql("postgres", "select pg_current_wal_lsn()");
        // The sinks write to other databases of the same server, so the position above may lie
        // behind anything that the live connector will ever see: give it one more change to see.
        let cutoff = "update hello set greeting = greeting
                      where id = (select min(id) from hello)";
        self.postgres.sql("postgres", cutoff);
        let query = format!(
            "select confirmed_flush_lsn >= '{end}', confirmed_flush_lsn
             from pg_replication_slots where slot_name = 'app'"
        );
        wait_until(&format!("the slot to pass {end}"), WAIT_MAX, || {
            alive();
            let answer = self.postgres.sql("postgres", &query);
            if answer.starts_with("t|") {
                Ok(())
            } else {
                Err(answer)
            }
        });
    }
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

fn live_connector(postgres_port: u16) -> Value {
    let mut config = connector(
        include_str!("../services/connectors/live.json"),
        postgres_port,
    );
    // Without heartbeats the slot stands still when only other tables and databases are written.
    config["heartbeat.interval.ms"] = json!("500");
    config
}

fn snapshot_connector(postgres_port: u16) -> Value {
    connector(
        include_str!("../services/connectors/snapshot.json"),
        postgres_port,
    )
}

fn connector(recipe: &str, postgres_port: u16) -> Value {
    let mut config: Value = serde_json::from_str(recipe).expect("the recipe is JSON");
    config["database.port"] = json!(postgres_port.to_string());
    config["table.include.list"] = json!("public.hello");
    config
}
