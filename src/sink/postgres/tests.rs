//! PostgreSQL, a real one.

use super::server::Database;
use crate::sink::queue::{QueueOptions, start};
use crate::sink::settings::{SinkKind, SinkSettings, TargetNotEmpty, UniqueConstraints, build};
use crate::sink::testing::{
    B21_BATCHES, B21_ROWS, Event, b21, claim, envelope, event, fatal, options, records, rejected,
    row, settings, table, until, write_all,
};
use crate::sink::{Place, Sink, Writer, admit};
use crate::table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

mod tenure;

const HELLO: &str = "CREATE TABLE hello (id int PRIMARY KEY, greeting text)";

fn postgres(url: &str) -> SinkSettings {
    SinkSettings {
        url: Some(url.into()),
        ..settings(SinkKind::Postgres)
    }
}

fn sink(settings: &SinkSettings, tables: &[Table]) -> Arc<dyn Sink> {
    build(settings, tables, &BTreeMap::new(), 1).unwrap()
}

/// The writer of the first run.
fn writer(database: &Database, tables: &[Table]) -> Box<dyn Writer> {
    let sink = sink(&postgres(&database.url), tables);
    claim(sink.as_ref(), 1);
    let place = Place {
        incarnation: 1,
        worker: 0,
        shard: 0,
    };
    sink.writer(place).unwrap()
}

fn check(settings: &SinkSettings, table: Table) -> String {
    let sink = sink(settings, &[table]);
    let admitted = admit::admit(sink.as_ref(), None, true, settings.target_not_empty);
    admitted.err().map_or_else(String::new, |error| error.text)
}

fn has(text: &str, parts: &[&str]) {
    assert!(
        parts.iter().all(|part| text.contains(part)),
        "{parts:?} are not all in {text}"
    );
}

#[test]
fn b21_in_every_batch_size() {
    let database = Database::new("b21");
    let dir = tempfile::tempdir().unwrap();
    let tables = [table("public.hello")];
    for batch_rows_max in B21_BATCHES {
        database.sql(&format!("DROP TABLE IF EXISTS hello; {HELLO}"));
        let sink = sink(&postgres(&database.url), &tables);
        sink.check().unwrap();
        let options = QueueOptions {
            batch_rows_max,
            ..options(&tables, dir.path())
        };
        write_all(sink.as_ref(), &options, &b21());
        // Written again, as after a restart.
        write_all(sink.as_ref(), &options, &b21());
        assert_eq!(database.sql("SELECT * FROM hello ORDER BY id"), B21_ROWS);
    }
}

#[test]
fn every_type_and_composite_keys() {
    let database = Database::new("types");
    database.sql(
        "CREATE TYPE mood AS ENUM ('ok', 'bad'); CREATE DOMAIN cents AS numeric(9, 2);
         CREATE TABLE \"T\" (a bigint GENERATED ALWAYS AS IDENTITY, b text,
           n numeric(9, 2), c cents, f float8, flag bool, ts timestamp, ts3 timestamp(3),
           tz timestamptz, d date, t time, raw bytea, doc jsonb, tags text[], nums int[], m mood,
           u uuid, bits bit(3), iv interval, ch char(3), twice bigint GENERATED ALWAYS AS (a * 2)
           STORED, untouched text DEFAULT 'd', PRIMARY KEY (b, a))",
    );
    let mut writer = writer(&database, &[table("public.T")]);
    let value = envelope(
        r#"{"a":9007199254740993,"b":"x","n":"3.14","c":2,"f":1e3,"flag":true,"d":19782,
            "ts":1700000000123456,"ts3":1700000000123,"tz":"2024-02-29T01:02:03.5Z","t":3723000000,
            "raw":"AQI=","doc":"{\"k\": [1]}","tags":["a,b","q\"",null],"nums":[1,2],"m":"bad",
            "u":"b68a35a7-17ad-35b3-af2a-ae46edb4545a","iv":"P1DT2H","ch":"ab","twice":5}"#,
    );
    let key = r#"{"a":9007199254740993,"b":"x"}"#;
    writer
        .write(&[row(key, &value), row(r#"{"b":"y","a":1}"#, "")], &[])
        .unwrap();
    let all = "SELECT *, octet_length(raw) FROM \"T\"";
    database.sql("ALTER DATABASE types SET timezone = 'UTC'");
    let expected = "9007199254740993|x|3.14|2.00|1000|t|2023-11-14 22:13:20.123456|\
        2023-11-14 22:13:20.123|2024-02-29 01:02:03.5+00|2024-02-29|01:02:03|\\x0102|{\"k\": [1]}|\
        {\"a,b\",\"q\\\"\",NULL}|{1,2}|bad|b68a35a7-17ad-35b3-af2a-ae46edb4545a|NULL|\
        1 day 02:00:00|ab |18014398509481986|d|2";
    assert_eq!(database.sql(all), [expected]);
    // Framed, with a decimal in bytes; a column that did not come stays as it is.
    let decimal = r#"{"type":"bytes","field":"n","name":"org.apache.kafka.connect.data.Decimal",
        "parameters":{"scale":"2"}}"#;
    let bits = r#"{"type":"bytes","field":"bits","name":"io.debezium.data.Bits",
        "parameters":{"length":"3"}}"#;
    let framed = format!(
        r#"{{"schema":{{"type":"struct","fields":[{{"type":"struct","field":"after",
            "fields":[{decimal},{bits}]}}]}},
            "payload":{{"after":{{"n":"/wY=","bits":"BQ=="}},"op":"u"}}}}"#
    );
    writer.write(&[row(key, &framed)], &[]).unwrap();
    assert_eq!(
        database.sql("SELECT n, bits, m FROM \"T\""),
        ["-2.50|101|bad"]
    );
    writer.write(&[row(key, "")], &[]).unwrap();
    assert_eq!(database.sql("SELECT count(*) FROM \"T\""), ["0"]);
}

#[test]
fn refused_rows_stand_alone_and_their_values_stay_secret() {
    let database = Database::new("refused");
    database.sql(
        "CREATE TABLE hello (id int PRIMARY KEY, greeting varchar(5) NOT NULL, n numeric,
                             tz timestamptz)",
    );
    let mut writer = writer(&database, &[table("hello")]);
    let columns = [
        r#""greeting":"a""#,
        r#""greeting":null"#,
        r#""greeting":"too long""#,
        r#""greeting":"b","n":"secret""#,
        r#""greeting":"c","tz":1700000000000000"#,
        r#""greeting":"d\u0000""#,
        r#""greeting":"e","n":1"#,
    ];
    let keys: Vec<String> = (0..columns.len())
        .map(|id| format!("{{\"id\":{id}}}"))
        .collect();
    let values: Vec<String> = (0..)
        .zip(columns)
        .map(|(id, columns)| envelope(&format!("{{\"id\":{id},{columns}}}")))
        .collect();
    let rows: Vec<_> = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| row(key, value))
        .collect();
    let refused = rejected(writer.write(&rows, &[]));
    let indices: Vec<usize> = refused.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [1, 2, 3, 4, 5], "{refused:?}");
    assert!(refused[4 - 1].1.contains("`tz`: a number"), "{refused:?}");
    assert!(
        refused.iter().all(|(_, reason)| !reason.contains("secret")),
        "{refused:?}"
    );
    assert_eq!(
        database.sql("SELECT id, greeting FROM hello ORDER BY id"),
        ["0|a", "6|e"]
    );
}

#[test]
fn a_terminated_connection_loses_nothing() {
    let database = Database::new("terminated");
    database.sql(HELLO);
    let tables = [table("public.hello")];
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(&postgres(&database.url), &tables);
    claim(sink.as_ref(), 1);
    let options = QueueOptions {
        batch_rows_max: 50,
        ..options(&tables, dir.path())
    };
    let mut queue = start(sink.as_ref(), &options).unwrap().remove(0);
    let mut last = 0;
    for round in 0..20 {
        let one = |id: u32| {
            let row = format!(r#"{{"id":{id},"greeting":"{round}"}}"#);
            event(&format!("{{\"id\":{id}}}"), &envelope(&row))
        };
        let events: Vec<Event> = (round..500).map(one).collect();
        last = queue.push(records(&events, 0));
        if round % 5 == 0 {
            let killed = database.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE application_name LIKE 'headwater/headwater/1/%'
                    AND datname = 'terminated'",
            );
            assert!(
                round > 0 || killed.len() == 2,
                "two connections: {killed:?}"
            );
        }
    }
    until("durable", || queue.durable() > last);
    let wrong = "SELECT count(*) FROM hello WHERE greeting <> least(id, 19)::text";
    assert_eq!(database.sql(wrong), ["0"]);
    assert_eq!(database.sql("SELECT count(*) FROM hello"), ["500"]);
}

#[test]
fn what_is_wrong_at_the_start_is_said() {
    let database = Database::new("wrong");
    database.sql(
        "CREATE TABLE nokey (id int); CREATE TABLE uniq (id int PRIMARY KEY, g text UNIQUE);
         CREATE TABLE full_ (id int PRIMARY KEY); INSERT INTO full_ VALUES (1);
         DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN;
         CREATE TABLE hello (id int PRIMARY KEY); GRANT SELECT ON hello TO reader",
    );
    let mut settings = postgres(&database.url);
    has(
        &check(&settings, table("public.absent")),
        &["`public.absent`", "wrong", "sink.names"],
    );
    has(
        &check(&settings, table("nokey")),
        &["no primary key", "ADD PRIMARY KEY"],
    );
    has(
        &check(&settings, table("uniq")),
        &["unique in more than its key", "uniq_g_key"],
    );
    has(
        &check(&settings, table("full_")),
        &["not empty", "target_not_empty"],
    );
    settings.target_not_empty = TargetNotEmpty::Accept;
    assert_eq!(check(&settings, table("full_")), "");
    settings.unique_constraints = UniqueConstraints::OneConnection;
    assert_eq!(check(&settings, table("uniq")), "");
    assert!(sink(&settings, &[table("uniq")]).one_writer_a_process());
    let error = build(&settings, &[table("uniq")], &BTreeMap::new(), 2)
        .err()
        .unwrap();
    has(&error.text, &["one process"]);
    let reader = postgres(&database.url.replace("postgres@", "reader@"));
    has(
        &check(&reader, table("hello")),
        &["may not write", "INSERT, UPDATE, DELETE"],
    );
    let away = postgres("postgres://u:hush@127.0.0.1:1/none");
    let text = check(&away, table("hello"));
    has(&text, &["127.0.0.1:1/none", "refused", "sink.url"]);
    assert!(!text.contains("hush"), "{text}");
    let mut writer = writer(&database, &[table("hello")]);
    let text = fatal(writer.write(
        &[row("{\"id\":1}", &envelope("{\"id\":1,\"shout\":\"B!\"}"))],
        &[],
    ));
    has(&text, &["`shout`", "unknown_columns"]);
}

#[test]
fn many_rows_over_two_connections() {
    let database = Database::new("many");
    database.sql(HELLO);
    let tables = [table("public.hello")];
    let dir = tempfile::tempdir().unwrap();
    let settings = postgres(&database.url);
    let sink = sink(&settings, &tables);
    claim(sink.as_ref(), 1);
    let options = QueueOptions {
        batch_rows_max: settings.batch_rows_max,
        batch_bytes_max: settings.batch_bytes_max,
        ..options(&tables, dir.path())
    };
    let mut queue = start(sink.as_ref(), &options).unwrap().remove(0);
    let one = |n: u32| {
        let id = n % 10_000;
        let row = format!(r#"{{"id":{id},"greeting":"greeting number {n}"}}"#);
        event(&format!("{{\"id\":{id}}}"), &envelope(&row))
    };
    let events: Vec<Event> = (0..40_000).map(one).collect();
    let start = Instant::now();
    let mut last = 0;
    for chunk in events.chunks(500) {
        last = queue.push(records(chunk, 0));
    }
    until("durable", || queue.durable() > last);
    let seconds = start.elapsed().as_secs_f64();
    let written = queue.rows_written() as f64;
    eprintln!(
        "postgres: {:.0} records/s, {:.0} folded rows/s",
        40_000.0 / seconds,
        written / seconds
    );
    let wrong = "SELECT count(*) FROM hello WHERE greeting <> 'greeting number ' || (id + 30000)";
    assert_eq!(database.sql(wrong), ["0"]);
    assert_eq!(database.sql("SELECT count(*) FROM hello"), ["10000"]);
}
