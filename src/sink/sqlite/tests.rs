//! SQLite on a temporary file.

use crate::sink::settings::{SinkKind, SinkSettings, TargetNotEmpty, UnknownColumns, build};
use crate::sink::testing::{
    B21_BATCHES, B21_ROWS, Event, b21, claim, envelope, event, fatal, options, rejected, row,
    settings, table, until, write_all,
};
use crate::sink::{Place, Sink, WriteError, Writer, admit, queue};
use crate::table::Table;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use tempfile::TempDir;

mod tenure;

const HELLO: &str = "CREATE TABLE hello (id INTEGER PRIMARY KEY, greeting TEXT)";

/// A file with tables, in a folder that goes with it.
struct Target {
    _folder: TempDir,
    path: PathBuf,
    settings: SinkSettings,
    runs: AtomicU32,
}

impl Target {
    fn new(sql: &str) -> Target {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target.db");
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        Target {
            settings: SinkSettings {
                path: Some(path.clone()),
                ..settings(SinkKind::Sqlite)
            },
            path,
            runs: AtomicU32::new(0),
            _folder: folder,
        }
    }

    fn sink(&self, tables: &[Table]) -> Arc<dyn Sink> {
        build(&self.settings, tables, &BTreeMap::new(), 1).unwrap()
    }

    /// The writer of a further run.
    fn writer(&self, tables: &[Table]) -> Box<dyn Writer> {
        let sink = self.sink(tables);

        let place = Place {
            incarnation: 1 + self.runs.fetch_add(1, Ordering::Relaxed),
            worker: 0,
            shard: 0,
        };
        claim(sink.as_ref(), place.incarnation);
        sink.writer(place).unwrap()
    }

    fn check(&self, tables: &[Table]) -> String {
        let admitted = admit::admit(
            self.sink(tables).as_ref(),
            None,
            true,
            self.settings.target_not_empty,
        );
        admitted.err().map_or_else(String::new, |error| error.text)
    }

    /// The rows of a query, columns joined by `|`.
    fn rows(&self, sql: &str) -> Vec<String> {
        let connection = Connection::open(&self.path).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let columns = statement.column_count();
        let text = |value: Value| match value {
            Value::Null => "NULL".to_owned(),
            Value::Integer(whole) => whole.to_string(),
            Value::Real(real) => format!("{real:?}"),
            Value::Text(text) => text,
            Value::Blob(bytes) => format!("{bytes:?}"),
        };
        let row = |row: &rusqlite::Row<'_>| {
            let cells = (0..columns).map(|index| row.get(index).map(text));
            Ok(cells.collect::<Result<Vec<_>, _>>()?.join("|"))
        };
        statement
            .query_map([], row)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }
}

#[test]
fn b21_in_every_batch_size() {
    for batch_rows_max in B21_BATCHES {
        let target = Target::new(HELLO);
        let tables = [table("public.hello")];
        let sink = target.sink(&tables);
        sink.check().unwrap();
        let options = queue::QueueOptions {
            batch_rows_max,
            ..options(&tables, target.path.parent().unwrap())
        };
        write_all(sink.as_ref(), &options, &b21());
        // Written again, as after a restart.
        write_all(sink.as_ref(), &options, &b21());
        assert_eq!(target.rows("SELECT * FROM hello ORDER BY id"), B21_ROWS);
    }
}

#[test]
fn composite_keys_types_and_columns_that_did_not_come() {
    let target = Target::new(
        "CREATE TABLE t (b TEXT, a INTEGER, n NUMERIC, flag BOOLEAN, raw BLOB, doc JSON, day DATE,
                         untouched TEXT DEFAULT 'd', PRIMARY KEY (a, b))",
    );
    let mut writer = target.writer(&[table("s.t")]);
    let full = envelope(
        r#"{"a":1,"b":"x","n":12.50,"flag":true,"raw":"AQI=","doc":{"k":[1]},"day":19782}"#,
    );
    writer
        .write(
            &[
                row(r#"{"a":1,"b":"x"}"#, &full),
                row(r#"{"b":"y","a":1}"#, ""),
            ],
            &[],
        )
        .unwrap();
    let big = envelope(r#"{"a":9007199254740993,"b":"z","n":null}"#);
    writer
        .write(&[row(r#"{"b":"z","a":9007199254740993}"#, &big)], &[])
        .unwrap();
    let expected = [
        "x|1|12.5|1|[1, 2]|{\"k\":[1]}|2024-02-29|d",
        "z|9007199254740993|NULL|NULL|NULL|NULL|NULL|d",
    ];
    assert_eq!(target.rows("SELECT * FROM t ORDER BY a"), expected);
    // A later row without some columns leaves them as they are.
    writer
        .write(
            &[row(
                r#"{"a":1,"b":"x"}"#,
                &envelope(r#"{"a":1,"b":"x","n":1}"#),
            )],
            &[],
        )
        .unwrap();
    assert_eq!(target.rows("SELECT n, flag FROM t WHERE b = 'x'"), ["1|1"]);
    writer.write(&[row(r#"{"a":1,"b":"x"}"#, "")], &[]).unwrap();
    assert_eq!(target.rows("SELECT count(*) FROM t"), ["1"]);
}

#[test]
fn refused_rows_stand_alone() {
    let target = Target::new(
        "CREATE TABLE hello
           (id INTEGER PRIMARY KEY, greeting TEXT NOT NULL CHECK (greeting <> 'no'))",
    );
    let mut writer = target.writer(&[table("hello")]);
    let values: Vec<String> = ["\"a\"", "null", "\"no\"", "\"b\""]
        .iter()
        .map(|greeting| envelope(&format!("{{\"id\":1,\"greeting\":{greeting}}}")))
        .collect();
    let rows = [
        row("{\"id\":1}", &values[0]),
        row("{\"id\":2}", &values[1]),
        row("{\"id\":3}", &values[2]),
        row("{\"id\":4}", &values[3]),
        row("{\"id\":null}", &values[0]),
        row("{\"id\":6}", "[]"),
    ];
    let refused = rejected(writer.write(&rows, &[]));
    let mut indices: Vec<usize> = refused.iter().map(|(index, _)| *index).collect();
    indices.sort_unstable();
    assert_eq!(indices, [1, 2, 4, 5], "{refused:?}");
    assert_eq!(
        target.rows("SELECT * FROM hello ORDER BY id"),
        ["1|a", "4|b"]
    );
}

#[test]
fn a_column_that_the_target_lacks_is_named_or_dropped() {
    let mut target = Target::new(HELLO);
    let value = envelope(r#"{"id":1,"greeting":"b","shout":"B!"}"#);
    let rows = [row("{\"id\":1}", &value)];
    let text = fatal(target.writer(&[table("hello")]).write(&rows, &[]));
    assert!(
        text.contains("`shout`") && text.contains("unknown_columns"),
        "{text}"
    );
    assert!(!text.contains("B!"), "{text}");
    target.settings.unknown_columns = UnknownColumns::Drop;
    target.writer(&[table("hello")]).write(&rows, &[]).unwrap();
    assert_eq!(target.rows("SELECT * FROM hello"), ["1|b"]);
}

#[test]
fn what_is_wrong_at_the_start_is_said() {
    let mut target = Target::new(
        "CREATE TABLE nokey (id INTEGER);
         CREATE TABLE hello (id INTEGER PRIMARY KEY, g TEXT UNIQUE);
         CREATE TABLE full (id INTEGER PRIMARY KEY); INSERT INTO full VALUES (1);",
    );
    let has = |text: String, parts: &[&str]| {
        assert!(
            parts.iter().all(|part| text.contains(part)),
            "{parts:?} are not all in {text}"
        );
    };
    has(
        target.check(&[table("s.absent")]),
        &["`absent`", "`s.absent`", "sink.names"],
    );
    has(
        target.check(&[table("nokey")]),
        &["no primary key", "ADD PRIMARY KEY"],
    );
    has(
        target.check(&[table("hello")]),
        &["unique in more than its key", "one_connection"],
    );
    has(
        target.check(&[table("full")]),
        &["not empty", "target_not_empty"],
    );
    let keyed = Table {
        key: Some(vec!["id".into(), "tenant".into()]),
        ..table("full")
    };
    has(target.check(&[keyed]), &["`key` of `full`", "id, tenant"]);
    target.settings.target_not_empty = TargetNotEmpty::Accept;
    assert_eq!(target.check(&[table("full")]), "");
    target.settings.path = Some("/nowhere/at/all.db".into());
    has(
        target.check(&[table("full")]),
        &["/nowhere/at/all.db", "does not exist", "setup_sql"],
    );
    let error = build(&target.settings, &[table("full")], &BTreeMap::new(), 2)
        .err()
        .unwrap();
    has(error.text, &["one process", "-n 1"]);
}

#[test]
fn a_locked_file_is_waited_for() {
    let target = Target::new(HELLO);
    let mut writer = target.writer(&[table("hello")]);
    let other = Connection::open(&target.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let value = envelope(r#"{"id":1,"greeting":"a"}"#);
    let rows = [row("{\"id\":1}", &value)];
    assert!(matches!(
        writer.write(&rows, &[]),
        Err(WriteError::Retry(_))
    ));
    other.execute_batch("COMMIT").unwrap();
    writer.write(&rows, &[]).unwrap();
    assert_eq!(target.rows("SELECT * FROM hello"), ["1|a"]);
}

#[test]
fn many_rows_through_two_workers() {
    let target = Target::new("");
    let mut settings = target.settings.clone();
    settings.setup_sql = Some(HELLO.replace("TABLE", "TABLE IF NOT EXISTS"));
    let tables = [table("public.hello")];
    let sink = build(&settings, &tables, &BTreeMap::new(), 1).unwrap();
    sink.check().unwrap();
    claim(sink.as_ref(), 1);
    let options = queue::QueueOptions {
        workers: 2,
        batch_rows_max: settings.batch_rows_max,
        batch_bytes_max: settings.batch_bytes_max,
        ..options(&tables, target.path.parent().unwrap())
    };
    let mut queues = queue::start(sink.as_ref(), &options).unwrap();
    let one = |n: u32| {
        let id = n % 10_000;
        let row = format!(r#"{{"id":{id},"greeting":"greeting number {n}"}}"#);
        event(&format!("{{\"id\":{id}}}"), &envelope(&row))
    };
    let events: Vec<Event> = (0..40_000).map(one).collect();
    let start = Instant::now();
    let mut last = [0; 2];
    for chunk in events.chunks(500) {
        for (worker, queue) in queues.iter_mut().enumerate() {
            // A key stays on one worker.
            let own: Vec<Event> = chunk
                .iter()
                .filter(|event| event.key.len() % 2 == worker)
                .cloned()
                .collect();
            last[worker] = queue.push(crate::sink::testing::records(&own, 0));
        }
    }
    until("durable", || {
        queues
            .iter()
            .zip(last)
            .all(|(queue, last)| queue.durable() > last)
    });
    let seconds = start.elapsed().as_secs_f64();
    let written = queues[0].rows_written();
    eprintln!(
        "sqlite: {:.0} records/s, {:.0} folded rows/s",
        40_000.0 / seconds,
        written as f64 / seconds
    );
    let wrong = "SELECT count(*) FROM hello WHERE greeting <> 'greeting number ' || (id + 30000)";
    assert_eq!(target.rows(wrong), ["0"]);
    assert_eq!(target.rows("SELECT count(*) FROM hello"), ["10000"]);
}
