//! `init --connect` and `check` against real services: what is printed is taken as it is, and a job
//! that is made of it merges.
//!
//! Invariant: the table has what the preflight must see: a generated column, a decimal, a large
//! text, and rows in both topics.
//!
//! It cannot follow the printed reference to the password: the worker has no such provider.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::connect::Connect;
use crate::kafka::Kafka;
use crate::postgres::Postgres;
use crate::services::wait_until;
use crate::{alone, services};

const DATABASE: &str = "preflight";
const WAIT_MAX: Duration = Duration::from_secs(60);
const ROWS: u64 = 50;

#[test]
fn what_init_prints_is_good_to_the_check_and_merges() {
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
    kafka.create_topics(&[("shop.public.orders", 2), ("__debezium-heartbeat.shop", 1)]);
    connect.configure("shop", &live(postgres.port));
    streams(postgres, connect);
    postgres.sql(
        DATABASE,
        "update public.orders set note = 'new' where id <= 10",
    );

    let folder = services.folder().join("preflight");
    fs::create_dir_all(&folder).expect("a folder");
    let url = format!("http://127.0.0.1:{}", connect.port);
    let brokers = services.bootstrap_servers();
    let init = ["init", "--connect", &url, "--connector", "shop"];
    let init = headwater(&folder, &[&init[..], &["--brokers", &brokers]].concat());
    let printed = text(&init.stdout);
    assert!(init.status.success(), "{}", text(&init.stderr));
    assert!(
        printed.contains("do not come with mutations: twice"),
        "{printed}"
    );
    target(&folder, &printed);
    let (name, mut snapshot) = snapshot(&printed);
    assert_eq!(snapshot["column.exclude.list"], r"public\.orders\.twice");
    snapshot["database.password"] = json!("unused");
    let topic = format!("{name}.public.orders");
    let notes = format!("{name}.notifications");
    kafka.create_topics(&[(&topic, 2), (&notes, 1)]);

    // Open, then trigger: before the snapshot nothing is wrong but what may be.
    let before = check(&folder, 0);
    says(&before, "warning", "holds no READ yet");
    says(&before, "warning", "values beyond 2 kB may not come: note");
    says(&before, "warning", "generated: twice");
    says(&before, "ok", "not there; the worker has");
    connect.configure(&name, &snapshot);
    wait_until("the snapshot", WAIT_MAX, || {
        connect.snapshot_finished(&name)
    });
    let after = check(&folder, 0);
    says(&after, "ok", "{id: number} in both topics");
    says(&after, "ok", "the same 3 in both topics");
    says(&after, "ok", "the same keys and forms");
    merges(&folder);

    // What is broken afterwards is found.
    postgres.sql(
        DATABASE,
        "alter publication shop_pub drop table public.orders",
    );
    let broken = check(&folder, 4);
    says(&broken, "error", "publication `shop_pub` lacks it");
    connect.delete(&name);
    connect.delete("shop");
}

/// Ends the snapshot and runs the job to its end.
fn merges(folder: &Path) {
    for verb in ["end-snapshot", "run --once"] {
        let arguments: Vec<&str> = verb.split(' ').collect();
        let ended = headwater(folder, &arguments);
        assert!(ended.status.success(), "{verb}: {}", text(&ended.stderr));
    }
    let database = rusqlite::Connection::open(folder.join("orders.sqlite")).expect("a database");
    let count = "select count(*), sum(note = 'new') from orders";
    let found: (u64, u64) = database
        .query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("rows");
    assert_eq!(found, (ROWS, 10));
}

fn prepare(postgres: Postgres) {
    postgres.sql("postgres", &format!("create database {DATABASE}"));
    postgres.sql(
        DATABASE,
        &format!(
            "create table public.orders (id bigint primary key, note text, total numeric(10,2),
               twice numeric generated always as (total * 2) stored);
             insert into public.orders select id, 'note ' || id, 2.25
             from generate_series(1, {ROWS}) as id;"
        ),
    );
}

fn live(postgres_port: u16) -> Value {
    let live = include_str!("../services/connectors/live.json");
    let mut config: Value = serde_json::from_str(live).expect("the recipe is JSON");
    for (name, value) in [
        ("database.port", postgres_port.to_string().as_str()),
        ("database.dbname", DATABASE),
        ("topic.prefix", "shop"),
        ("slot.name", "shop"),
        ("publication.name", "shop_pub"),
        ("table.include.list", "public.orders"),
        ("heartbeat.interval.ms", "1000"),
        ("decimal.handling.mode", "string"),
        ("topic.creation.default.partitions", "2"),
    ] {
        config[name] = json!(value);
    }
    config
}

fn streams(postgres: Postgres, connect: Connect) {
    wait_until("the connector's tasks", WAIT_MAX, || {
        connect.running("shop")
    });
    wait_until("its slot to stream", WAIT_MAX, || {
        let active = "select active from pg_replication_slots where slot_name = 'shop'";
        match postgres.sql(DATABASE, active).as_str() {
            "t" => Ok(()),
            other => Err(format!("active: `{other}`")),
        }
    });
}

fn headwater(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(arguments)
        .current_dir(folder)
        .env("PGPASSWORD", "unused")
        .output()
        .expect("cargo built the binary")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Makes the target with the statement that was printed.
fn target(folder: &Path, printed: &str) {
    let start = printed.find("CREATE TABLE").expect("a statement");
    let end = start + printed[start..].find(");\n").expect("its end") + 2;
    let database = rusqlite::Connection::open(folder.join("orders.sqlite")).expect("a database");
    database
        .execute_batch(&printed[start..end])
        .expect("good SQL");
}

/// Name and configuration of the snapshot connector that was printed.
fn snapshot(printed: &str) -> (String, Value) {
    let (_, after) = printed.split_once("/connectors/").expect("how it is put");
    let (name, _) = after.split_once("/config").expect("its name");
    let start = printed.find("\n{\n").expect("JSON");
    let end = start + printed[start..].find("\n}\n").expect("its end") + 3;
    let config = serde_json::from_str(&printed[start..end]).expect("JSON");
    (name.to_owned(), config)
}

/// The findings; it must end with `code`.
fn check(folder: &Path, code: i32) -> Value {
    let output = headwater(folder, &["check", "--json"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    serde_json::from_str(&out).expect("JSON")
}

fn says(findings: &Value, level: &str, part: &str) {
    let mut all = findings["findings"].as_array().expect("a list").iter();
    let found = all.any(|one| {
        one["level"] == level
            && one["found"]
                .as_str()
                .is_some_and(|text| text.contains(part))
    });
    assert!(found, "{level} {part} in {findings:#}");
}
