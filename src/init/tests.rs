//! From a real live connector to a file that loads and a connector that is good.

use super::plan::{FromConnector, Plan};
use super::{file, rights, snapshot, tables};
use crate::config::Config;
use crate::config::choices::SinkKind;
use crate::connector::Connector;
use crate::connector::tests::{LIVE, connector};
use crate::error::{Error, ErrorKind};
use crate::source_database::{SourceColumn, SourceTable};

fn from(sink: SinkKind) -> FromConnector {
    FromConnector {
        url: "http://connect:8083".to_owned(),
        connector: "app".to_owned(),
        tables: Vec::new(),
        job: None,
        brokers: "kafka:9092".to_owned(),
        sink,
        target: None,
        path: None,
        topic: None,
    }
}

fn plan(from: &FromConnector, changes: &[(&str, &str)]) -> Result<Plan, Error> {
    Plan::make(from, &[connector("app", LIVE, changes)])
}

#[test]
fn the_file_loads_with_what_the_connector_says() {
    let heartbeat = [
        ("heartbeat.interval.ms", "10000"),
        ("signal.data.collection", "postgres.public.signals"),
        (
            "table.include.list",
            "public.hello,public.wide,public.signals",
        ),
        ("database.password", "hunter2"),
        ("database.user", "o'brien@x"),
    ];
    let plan = plan(&from(SinkKind::Postgres), &heartbeat).expect("a plan");
    let text = file::text(&plan).expect("it loads");
    assert!(!text.contains("hunter2"), "{text}");
    let config = Config::parse("test", &text, &[]).expect("it loads").config;
    config.check().expect("its rules hold");
    assert_eq!(config.job.job, "app");
    assert_eq!(
        config.tables.len(),
        2,
        "the signal table is none of the job's"
    );
    let table = &config.tables[1];
    assert_eq!(table.mutations, "app.public.wide");
    assert_eq!(table.snapshot, "snap_g1.public.wide");
    let source = &config.source;
    assert_eq!(
        source.heartbeat.as_deref(),
        Some("__debezium-heartbeat.app")
    );
    assert_eq!(
        source.notifications.as_deref(),
        Some("snap_g1.notifications")
    );
    let connect = source.connect.as_ref().expect("it is there");
    assert_eq!(connect.live.as_deref(), Some("app"));
    assert_eq!(connect.snapshot.as_deref(), Some("snap_g1"));
    let database = source.database.as_ref().expect("it is there").to_string();
    assert_eq!(
        database,
        "postgres://o%27brien%40x:${PGPASSWORD}@127.0.0.1:15432/postgres"
    );
    assert_eq!(
        config.decode.signal_table.as_deref(),
        Some("public.signals")
    );
}

#[test]
fn every_kind_of_target_loads() {
    for sink in [
        SinkKind::Sqlite,
        SinkKind::Postgres,
        SinkKind::Kafka,
        SinkKind::Jsonl,
        SinkKind::Null,
    ] {
        for tables in [&["public.hello"][..], &["public.hello", "public.wide"]] {
            let mut from = from(sink);
            from.tables = tables.iter().map(|name| (*name).to_owned()).collect();
            let plan = plan(&from, &[]).expect("a plan");
            file::text(&plan).unwrap_or_else(|error| panic!("{sink:?} {tables:?}: {error}"));
            assert_eq!(plan.job, if tables.len() == 1 { "hello" } else { "app" });
            assert!(plan.notes().contains("no heartbeats"));
        }
    }
}

#[test]
fn what_is_not_known_is_refused_or_noted() {
    let refused = |from: &FromConnector, changes: &[(&str, &str)], part: &str| {
        let error = plan(from, changes).expect_err(part);
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.text.contains(part), "{error}");
    };
    let own = from(SinkKind::Null);
    refused(&own, &[("table.include.list", "")], "--tables");
    refused(&own, &[("table.include.list", "public.*")], "`public.*`");
    let mut other = own.clone();
    other.connector = "apq".to_owned();
    refused(&other, &[], "no connector `apq`");
    let mut other = own.clone();
    other.tables = vec!["public.gone".to_owned()];
    refused(&other, &[], "does not read public.gone");
    let odd = [
        ("transforms", "odd"),
        ("transforms.odd.type", "com.example.Odd"),
    ];
    let notes = plan(&own, &odd).expect("a plan").notes();
    assert!(
        notes.contains("odd (Odd) may give public.hello another topic"),
        "{notes}"
    );
}

/// The connector that is printed must be one that `check` finds nothing wrong with.
#[test]
fn the_snapshot_connector_goes_with_the_live_one() {
    let changes = [
        ("heartbeat.interval.ms", "10000"),
        ("decimal.handling.mode", "string"),
        ("database.password", "hunter2"),
        ("transforms", "short"),
        (
            "transforms.short.type",
            "org.apache.kafka.connect.transforms.RegexRouter",
        ),
        ("transforms.short.regex", r"app\.public\.(.*)"),
        ("transforms.short.replacement", "live.$1"),
    ];
    let plan = plan(&from(SinkKind::Sqlite), &changes).expect("a plan");
    assert_eq!(plan.tables[0].mutations, "live.hello");
    let shout = SourceColumn {
        name: "shout".to_owned(),
        generated: true,
        ..SourceColumn::default()
    };
    let table = SourceTable {
        columns: vec![shout],
        ..SourceTable::default()
    };
    let found = [Some(table), None];
    let text = snapshot::text(&plan, &[]);
    assert!(
        !text.contains("hunter2") && text.contains("${env:PGPASSWORD}"),
        "{text}"
    );
    let made = Connector {
        name: plan.snapshot.clone(),
        config: snapshot::config(&plan, &found),
        ..plan.live.clone()
    };
    for gone in ["slot.name", "publication.name", "heartbeat.interval.ms"] {
        assert_eq!(made.get(gone), None, "{gone}");
    }
    assert_eq!(made.prefix(), "app");
    let left_out = made.or("column.exclude.list", "");
    assert_eq!(left_out, r"public\.hello\.shout");
    assert_eq!(made.or("snapshot.mode", ""), "initial_only");
    for table in &plan.tables {
        assert_eq!(made.topic_of(&table.name).name, table.snapshot);
    }
    let notes = made.notification_topic().expect("it sends them");
    assert_eq!(notes.name, plan.notifications);
    assert_eq!(made.created_partitions(&notes.name), Some(1));
    let all = crate::check::connectors(
        &[plan.live.clone(), made],
        &file::text(&plan).expect("it loads"),
        &["public.hello.shout".to_owned()],
    );
    let wrong: Vec<_> = all
        .0
        .iter()
        .filter(|one| one.level != crate::check::Level::Ok)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn tables_and_rights_are_those_of_the_target() {
    let column = |name: &str, type_name: &str| SourceColumn {
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        ..SourceColumn::default()
    };
    let mut shout = column("shout", "text");
    shout.generated = true;
    let found = SourceTable {
        columns: vec![column("id", "bigint"), column("greeting", "text"), shout],
        key: vec!["id".to_owned()],
        ..SourceTable::default()
    };
    let mut from = from(SinkKind::Postgres);
    from.tables = vec!["public.hello".to_owned()];
    let of = |from: &FromConnector, found: Option<SourceTable>| {
        let plan = plan(from, &[]).expect("a plan");
        tables::text(&plan, &[found]) + &rights::text(&plan)
    };
    let text = of(&from, Some(found.clone()));
    for part in [
        "CREATE TABLE \"public\".\"hello\" (\n    \"id\" bigint NOT NULL,\n",
        "\n    \"greeting\" text,\n    PRIMARY KEY (\"id\")\n);",
        "do not come with mutations: shout",
        "--operation DescribeConfigs --topic app.public.hello",
        "--topic snap_g1. --resource-pattern-type prefixed",
        "--group hello",
        "GRANT SELECT ON \"public\".\"hello\" TO \"postgres\";",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON \"public\".\"hello\" TO headwater;",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(of(&from, None).contains("-- A template"));
    from.sink = SinkKind::Sqlite;
    let made = of(&from, Some(found));
    let statement = made.split("-- Generated").nth(1).expect("it says so");
    let statement = &statement[statement.find("CREATE").expect("one")..];
    let statement = &statement[..statement.find(");").expect("its end") + 2];
    let database = rusqlite::Connection::open_in_memory().expect("a database");
    database.execute_batch(statement).expect("good SQL");
    from.sink = SinkKind::Kafka;
    let text = of(&from, None);
    assert!(!text.contains("CREATE TABLE") && text.contains("--transactional-id hello/"));
}
