//! The signals of `headwater quarantine signal`, sent to a real connector: it reads exactly the
//! keys that were in quarantine.
//!
//! Invariant: the table holds many more rows than the quarantine, so a filter that is not obeyed
//! shows.
//!
//! It cannot send by Kafka: the signal goes through the signalling table.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::connect::Connect;
use crate::kafka::Kafka;
use crate::postgres::Postgres;
use crate::services::wait_until;
use crate::{alone, records, services};

const DATABASE: &str = "signals";
const ROWS: u64 = 500;
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Keys in quarantine, as (id, region): the text must pass through JSON, SQL and a filter.
const KEYS: [(u64, &str); 7] = [
    (3, "eu"),
    (17, "it's"),
    (18, "back\\slash"),
    (77, "quote\"d"),
    (78, "eu"),
    (400, "eu"),
    (500, "ü"),
];

#[test]
fn debezium_reads_exactly_the_keys_in_quarantine_again() {
    let services = services();
    let _alone = alone();
    let postgres = Postgres {
        port: services.postgres_port(),
    };
    let connect = Connect {
        port: services.connect_port(),
    };
    let kafka = Kafka::new(&services.bootstrap_servers());
    prepare(postgres);
    let topic = "again.public.orders";
    kafka.create_topics(&[(topic, 2), ("again.public.debezium_signal", 1)]);
    connect.configure("again", &connector(postgres.port));
    wait_until("the connector's tasks", WAIT_MAX, || {
        connect.running("again")
    });
    wait_until("its slot to stream", WAIT_MAX, || {
        let active = "select active from pg_replication_slots where slot_name = 'again'";
        match postgres.sql(DATABASE, active).as_str() {
            "t" => Ok(()),
            other => Err(format!("active: `{other}`")),
        }
    });

    let folder = services.folder().join("signals");
    fs::create_dir_all(folder.join("orders.quarantine")).expect("a folder");
    fs::write(folder.join("headwater.toml"), CONFIG).expect("written");
    let lines: Vec<String> = (0..)
        .zip(KEYS)
        .map(|(offset, key)| line(offset, key))
        .collect();
    fs::write(
        folder.join("orders.quarantine/quarantine.1.0.jsonl"),
        lines.concat(),
    )
    .expect("written");
    let signals = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(["quarantine", "signal"])
            .args(more)
            .current_dir(&folder)
            .output()
            .expect("cargo built the binary");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    // Several signals for one table, one after the other.
    postgres.sql(DATABASE, &signals(&["--keys-max", "3"]));
    expect(&kafka, topic, 1);
    // And in one go.
    let blocking = signals(&["--type", "blocking", "--data-chars-max", "100000"]);
    postgres.sql(DATABASE, &blocking);
    expect(&kafka, topic, 2);
    postgres.sql(DATABASE, "select pg_sleep(3)");
    expect(&kafka, topic, 2);
}

/// Waits for as many READs of each key; a key that is not in quarantine fails the test.
fn expect(kafka: &Kafka, topic: &str, times: usize) {
    wait_until("the READs of the signals", WAIT_MAX, || {
        let mut found: BTreeMap<(u64, String), usize> = BTreeMap::new();
        records::values(kafka, topic, |key, value| {
            let value: Value = serde_json::from_slice(value).expect("an envelope");
            assert_eq!(value["op"], "r", "{value}");
            let key: Value = serde_json::from_slice(key).expect("a key");
            let id = key["id"].as_u64().expect("an id");
            let region = key["region"].as_str().expect("text").to_owned();
            *found.entry((id, region)).or_default() += 1;
        });
        let wanted: BTreeMap<(u64, String), usize> = KEYS
            .iter()
            .map(|(id, region)| ((*id, (*region).to_owned()), times))
            .collect();
        for (key, count) in &found {
            assert!(wanted.contains_key(key), "{key:?} was read, {count} times");
            assert!(*count <= times, "{key:?} was read {count} times");
        }
        if found == wanted {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });
}

fn prepare(postgres: Postgres) {
    postgres.sql("postgres", &format!("create database {DATABASE}"));
    let rows: Vec<String> = KEYS
        .iter()
        .map(|(id, region)| {
            let region = region.replace('\'', "''");
            format!("update public.orders set region = '{region}' where id = {id};")
        })
        .collect();
    postgres.sql(
        DATABASE,
        &format!(
            "create table public.orders (id int, region text, note text, primary key (id, region));
             insert into public.orders select id, 'eu', 'note ' || id
             from generate_series(1, {ROWS}) as id;
             {}
             create table public.debezium_signal (
               id varchar(42) primary key, type varchar(32) not null, data text);",
            rows.concat()
        ),
    );
}

/// A private connector. It must not skip `c`: it would not see the rows of its signalling table.
fn connector(postgres_port: u16) -> Value {
    let live = include_str!("../services/connectors/live.json");
    let mut config: Value = serde_json::from_str(live).expect("the recipe is JSON");
    for (name, value) in [
        ("database.port", postgres_port.to_string().as_str()),
        ("database.dbname", DATABASE),
        ("topic.prefix", "again"),
        ("slot.name", "again"),
        ("publication.name", "again_pub"),
        ("table.include.list", "public.orders,public.debezium_signal"),
        ("signal.data.collection", "public.debezium_signal"),
        ("skipped.operations", "u,d,t"),
        ("topic.creation.default.partitions", "1"),
    ] {
        config[name] = json!(value);
    }
    config
}

const CONFIG: &str = r#"
job = "orders"
[[table]]
name      = "public.orders"
mutations = "app.public.orders"
snapshot  = "again.public.orders"
[kafka]
"bootstrap.servers" = "127.0.0.1:1"
[decode]
signal_table = "public.debezium_signal"
[sink]
kind = "null"
"#;

/// A line of the quarantine, as the sink writes it.
fn line(offset: u64, (id, region): (u64, &str)) -> String {
    let line = json!({
        "topic": "again.public.orders", "role": "snapshot", "table": "public.orders",
        "partition": 0, "offset": offset, "generation": 1, "version": offset,
        "reason": "forgotten_markers", "key": {"id": id, "region": region}, "value": {},
    });
    format!("{line}\n")
}
