//! An incremental snapshot that a signal in Kafka begins, by a connector that writes nothing to the
//! database (`read.only`) and skips the live changes.
//!
//! Invariant: rows change while it goes chunk by chunk; its READs have no position and are of
//! different moments.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};

use crate::benchmark::{Benchmark, WAIT_MAX};
use crate::rebuild::{Rebuild, Snapshot, Told, heartbeat, notified};
use crate::services::wait_until;
use crate::{alone, services};

const ROWS: u64 = 4_000;

#[test]
fn a_read_only_incremental_snapshot_merges() {
    let services = services();
    let _alone = alone();
    let benchmark = Benchmark::prepare(services, "incremental", ROWS);
    let snapshot = Snapshot::prepare(&benchmark, "inc", 4);
    let signals = format!("{}.signals", snapshot.name);
    benchmark.kafka.create_topics(&[(&signals, 1)]);
    start(&snapshot, &signals);
    let told = Told {
        source: notified(&snapshot) + &heartbeat(&benchmark),
        finished: "counted",
        caught_up: "seen",
        more: "",
    };
    let mut job = Rebuild::open(&snapshot, "counted", &told);
    signal(&snapshot, &signals);
    snapshot.wait_for_first_read();
    // Rows before and behind where it is now.
    benchmark.sql(
        "update hello set greeting = 'new' where id % 5 = 0;
         delete from hello where id % 7 = 0;
         insert into hello select id + 100000, 'come' from hello where id % 11 = 0;",
    );
    let summary = job.end(0).json();
    assert_eq!(summary["outcome"], "ready", "{summary:#}");
    assert_eq!(summary["evidence"], "counted", "{summary:#}");
    assert_eq!(job.evidence("caught_up"), "seen");
    let dropped = summary["reads_dropped"]["marker"].as_u64();
    assert!(dropped > Some(0), "nothing was tested: {summary:#}");
    assert_eq!(summary["reads_quarantined"], 0, "{summary:#}");
    job.assert_equal();
}

/// Starts the connector, and returns when it waits for a signal.
fn start(snapshot: &Snapshot<'_>, signals: &str) {
    let benchmark = snapshot.benchmark;
    let recipe = include_str!("../services/connectors/incremental-read-only.json");
    let mut config: Value = benchmark.connector(recipe);
    let name = &snapshot.name;
    let servers = benchmark.services.bootstrap_servers();
    for (key, value) in [
        ("topic.prefix", name.as_str()),
        ("slot.name", name),
        ("publication.name", &format!("{name}_pub")),
        ("incremental.snapshot.chunk.size", "256"),
        ("signal.kafka.topic", signals),
        ("signal.kafka.groupId", name),
        ("signal.kafka.bootstrap.servers", &servers),
        ("notification.sink.topic.name", &snapshot.notifications()),
    ] {
        config[key] = json!(value);
    }
    benchmark.connect.configure(name, &config);
    wait_until("the connector's tasks", WAIT_MAX, || {
        benchmark.connect.running(name)
    });
    wait_until("its slot to stream", WAIT_MAX, || {
        let active = format!("select active from pg_replication_slots where slot_name = '{name}'");
        match benchmark.sql(&active).as_str() {
            "t" => Ok(()),
            other => Err(format!("active: `{other}`")),
        }
    });
}

fn signal(snapshot: &Snapshot<'_>, signals: &str) {
    let config = &snapshot.benchmark.kafka.config;
    let producer: BaseProducer = config.create().expect("the client's settings");
    let value = json!({
        "id": "rebuild-7",
        "type": "execute-snapshot",
        "data": {"type": "incremental", "data-collections": ["public.hello"]},
    })
    .to_string();
    let record = BaseRecord::to(signals).key(&snapshot.name).payload(&value);
    producer.send(record).expect("room for one record");
    let sent = producer.flush(Duration::from_secs(30));
    sent.expect("the broker takes the record");
}
