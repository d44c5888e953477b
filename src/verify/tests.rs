//! Both databases, real ones: what is equal, what is not, and how little is read twice.

use super::compare;
use crate::cli::VerifyArgs;
use crate::config::{Config, Origin};
use crate::error::{Error, ErrorKind};
use crate::sink::postgres::server::Database;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HELLO: &str = "CREATE TABLE hello (id int PRIMARY KEY, greeting text);";

fn args(lag_ms: u64) -> VerifyArgs {
    VerifyArgs {
        origin: Origin::default(),
        tables: Vec::new(),
        lag: Duration::from_millis(lag_ms),
        keys_max: 3,
        show_values: false,
        json: true,
    }
}

/// Compares the tables of a configuration; `more` stands in [sink].
fn verify(tables: &str, source: &str, more: &str, args: &VerifyArgs) -> Result<Value, Error> {
    let text =
        format!("job = \"v\"\n{tables}\n[source]\ndatabase = \"{source}\"\n[sink]\n{more}\n");
    let config = Config::parse("test", &text, &[]).unwrap().config;
    let report = compare(&config, args)?;
    Ok(serde_json::from_str(&report.json()).unwrap())
}

fn table(name: &str) -> String {
    format!("[[table]]\nname = \"{name}\"\nmutations = \"file:m\"\nsnapshot = \"file:s\"")
}

fn postgres(database: &Database) -> String {
    format!("kind = \"postgres\"\nurl = \"{}\"", database.url)
}

fn sqlite(path: &Path) -> String {
    format!("kind = \"sqlite\"\npath = \"{}\"", path.display())
}

/// Counts of missing, extra, different rows of the first table.
fn counts(report: &Value) -> [u64; 3] {
    ["missing", "extra", "different"]
        .map(|kind| report["tables"][0][kind]["count"].as_u64().unwrap())
}

/// A folder and an SQLite file in it.
fn file(sql: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.sqlite");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

#[test]
fn every_kind_of_difference_is_found_and_no_value_is_told() {
    let (source, target) = (Database::new("vd_source"), Database::new("vd_target"));
    let rows = "INSERT INTO hello SELECT n, 'secret ' || n FROM generate_series(1, 3000) AS n;";
    source.sql(&format!(
        "{HELLO}{rows} DELETE FROM hello WHERE id IN (7, 3000)"
    ));
    target.sql(&format!(
        "CREATE SCHEMA copy; SET search_path = copy; {HELLO}{rows} \
         DELETE FROM hello WHERE id IN (1, 1500, 1501, 1502);
         UPDATE hello SET greeting = NULL WHERE id = 2000"
    ));
    let more = format!(
        "{}\nnames = {{ \"public.hello\" = \"copy.hello\" }}",
        postgres(&target)
    );
    let hello = table("public.hello");
    let report = verify(&hello, &source.url, &more, &args(300)).unwrap();
    assert_eq!(counts(&report), [4, 2, 1], "{report}");
    assert_eq!(report["equal"], false);
    let found = &report["tables"][0];
    assert_eq!(found["target"], "copy.hello");
    assert_eq!(
        found["extra"]["keys"],
        json!([{"key":{"id":7}}, {"key":{"id":3000}}])
    );
    assert_eq!(
        found["different"]["keys"],
        json!([{"key":{"id":2000}, "columns":["greeting"]}])
    );
    assert_eq!(
        found["missing"]["keys"].as_array().unwrap().len(),
        3,
        "the first few"
    );
    assert!(!report.to_string().contains("secret"), "{report}");
    let shown = VerifyArgs {
        show_values: true,
        ..args(0)
    };
    let report = verify(&hello, &source.url, &more, &shown).unwrap();
    let different = &report["tables"][0]["different"]["keys"][0];
    assert_eq!(different["source"]["greeting"], "secret 2000", "{report}");
    assert_eq!(different["target"]["greeting"], Value::Null);

    // The same rows on both sides.
    target.sql(&format!(
        "DROP TABLE copy.hello; SET search_path = copy; {HELLO}{rows}"
    ));
    target.sql("DELETE FROM copy.hello WHERE id IN (7, 3000)");
    let report = verify(&hello, &source.url, &more, &args(60_000)).unwrap();
    assert_eq!(
        (counts(&report), &report["equal"]),
        ([0; 3], &Value::Bool(true))
    );
    assert_eq!(report["tables"][0]["source_rows"], 2998);
    assert_eq!(report["tables"][0]["rows_read_again"], 0);
}

#[test]
fn one_row_in_100_000_is_found_with_few_rows_read_twice() {
    let (source, target) = (Database::new("vm_source"), Database::new("vm_target"));
    let rows = "INSERT INTO hello SELECT n, 'row ' || n FROM generate_series(1, 100000) AS n;";
    source.sql(&format!("{HELLO}{rows}"));
    target.sql(&format!(
        "{HELLO}{rows} UPDATE hello SET greeting = 'x' WHERE id = 77777"
    ));
    let report = verify(
        &table("public.hello"),
        &source.url,
        &postgres(&target),
        &args(200),
    )
    .unwrap();
    let found = &report["tables"][0];
    assert_eq!(counts(&report), [0, 0, 1], "{report}");
    assert_eq!(found["source_rows"], 100_000);
    assert_eq!(
        found["target_rows"], 100_000,
        "ranges do not overlap: {report}"
    );
    assert_eq!(found["ranges_different"], 1);
    assert!(found["rows_read_again"].as_u64().unwrap() <= 20, "{report}");
}

/// A table of every type, with `numeric` and `json` as given.
fn typed(numeric: &str, json: &str) -> String {
    format!(
        "CREATE TABLE t (k numeric, d date, n {numeric}, f float8, flag bool, ts timestamp,
               tz timestamptz, tm time, raw bytea, doc {json}, u uuid, ch char(4), txt text,
               tags text[], iv interval, only_{json} int, PRIMARY KEY (d, k));"
    )
}

/// Its rows: one full, one of nulls.
const ROWS_TYPED: &str =
    "INSERT INTO t VALUES (1.50, '2026-11-29', 2.25, 0.1, true, '2026-11-29 01:02:03.5',
        '2026-11-29 01:02:03+02', '01:02:03', '\\x0102', '{\"a\":1, \"b\":[1.0]}',
        'b68a35a7-17ad-35b3-af2a-ae46edb4545a', 'ab', 'q''\"\\', '{a,NULL}', '1 day 02:00', 1),
        (2, '2026-11-29', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, 2);";

#[test]
fn values_of_every_type_are_equal_by_meaning_in_both_databases() {
    let (source, target) = (Database::new("vt_source"), Database::new("vt_target"));
    source.sql(&format!("{}{ROWS_TYPED}", typed("numeric(9,2)", "json")));
    target.sql(&format!("{}{ROWS_TYPED}", typed("numeric", "jsonb")));
    let report = verify(
        &table("public.t"),
        &source.url,
        &postgres(&target),
        &args(100),
    )
    .unwrap();
    assert_eq!(counts(&report), [0; 3], "{report}");
    let out = report["tables"][0]["left_out"].as_array().unwrap();
    let out: Vec<&str> = out.iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(
        out,
        [
            "only_json (the target has it not)",
            "only_jsonb (the source has it not)"
        ]
    );
    // As the SQLite sink writes them.
    let (_folder, path) = file(
        "CREATE TABLE t (k TEXT, d DATE, n NUMERIC, f REAL, flag BOOL, ts TIMESTAMP,
           tz TIMESTAMPTZ, tm TIME, raw BLOB, doc JSON, u TEXT, ch CHAR(4), txt TEXT, tags TEXT,
           iv TEXT, PRIMARY KEY (d, k));
         INSERT INTO t VALUES ('1.50', '2026-11-29', '2.25', 0.1, 1, '2026-11-29 01:02:03.5',
           '2026-11-28T23:02:03Z', '01:02:03', x'0102', '{\"b\":[1],\"a\":1}',
           'b68a35a7-17ad-35b3-af2a-ae46edb4545a', 'ab  ', 'q''\"\\', '[]', ''),
           ('2', '2026-11-29', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL);",
    );
    let report = verify(&table("public.t"), &source.url, &sqlite(&path), &args(100)).unwrap();
    assert_eq!(counts(&report), [0; 3], "{report}");
    let out = report["tables"][0]["left_out"].to_string();
    assert!(
        out.contains("tags (text[] and TEXT") && out.contains("iv (interval"),
        "{out}"
    );
}

#[test]
fn each_column_counts() {
    let (source, target) = (Database::new("vc_source"), Database::new("vc_target"));
    source.sql(&format!("{}{ROWS_TYPED}", typed("numeric(9,2)", "json")));
    target.sql(&format!("{}{ROWS_TYPED}", typed("numeric", "jsonb")));
    for (column, value) in [
        ("n", "2.26"),
        ("f", "0.2"),
        ("flag", "false"),
        ("ts", "'2026-11-29 01:02:03.51'"),
        ("tz", "'2026-11-29 01:02:03+01'"),
        ("tm", "'01:02:04'"),
        ("raw", "'\\x0103'"),
        ("doc", "'{\"a\":1}'"),
        ("u", "'b68a35a7-17ad-35b3-af2a-ae46edb4545b'"),
        ("ch", "'abc'"),
        ("txt", "''"),
        ("tags", "'{a,b}'"),
        ("iv", "'1 day'"),
    ] {
        target.sql(&format!(
            "BEGIN; UPDATE t SET {column} = {value} WHERE k = 1.5; COMMIT"
        ));
        let report = verify(
            &table("public.t"),
            &source.url,
            &postgres(&target),
            &args(0),
        )
        .unwrap();
        assert_eq!(counts(&report), [0, 0, 1], "{column}: {report}");
        let back = format!("DELETE FROM t; {ROWS_TYPED}");
        let named = &report["tables"][0]["different"]["keys"][0]["columns"];
        assert_eq!(named, &json!([column]));
        target.sql(&back);
    }
}

#[test]
fn other_orders_of_text_lose_nothing() {
    let (source, target) = (Database::new("vo_source"), Database::new("vo_target"));
    let rows = "INSERT INTO t SELECT (ARRAY['a','B','c_','_D','é'])[n % 5 + 1] || n, n % 3, n
                FROM generate_series(1, 3000) AS n;";
    let create = |collation: &str| {
        format!(
            "CREATE TABLE t (k text COLLATE \"{collation}\", r int, v int,
             PRIMARY KEY (k, r));{rows}"
        )
    };
    source.sql(&create("en-x-icu"));
    for collation in ["en-x-icu", "C"] {
        target.sql(&format!("DROP TABLE IF EXISTS t; {}", create(collation)));
        let check = |expected: [u64; 3]| {
            let to = postgres(&target);
            let report = verify(&table("public.t"), &source.url, &to, &args(0)).unwrap();
            assert_eq!(counts(&report), expected, "{collation}: {report}");
            let rows = report["tables"][0]["target_rows"].as_u64().unwrap();
            assert!(rows <= 3001, "ranges do not overlap: {report}");
        };
        check([0; 3]);
        target.sql(
            "DELETE FROM t WHERE v IN (1, 2999); UPDATE t SET v = 0 WHERE v = 1234;
             INSERT INTO t VALUES ('zzz', 1, 1), ('É', 1, 1), ('', 0, 0)",
        );
        check([2, 3, 1]);
    }
    // SQLite, whose order of this column is another than that of the source.
    let (_folder, path) = file(
        "CREATE TABLE t (k TEXT COLLATE NOCASE, r INT, v INT, PRIMARY KEY (k, r));
         INSERT INTO t VALUES ('zzz', 1, 1), ('A', 1, 1);",
    );
    let report = verify(&table("public.t"), &source.url, &sqlite(&path), &args(0)).unwrap();
    assert_eq!(counts(&report), [3000, 2, 0], "{report}");
}

#[test]
fn sqlite_to_sqlite_with_two_tables() {
    let rows = "CREATE TABLE hello (id INTEGER PRIMARY KEY, g TEXT);
                CREATE TABLE raw (k BLOB PRIMARY KEY, v REAL);
                INSERT INTO hello VALUES (1, 'a'), (2, NULL);
                INSERT INTO raw VALUES (x'00ff', 1.5), (x'', 2);";
    let (_one, source) = file(rows);
    let (_two, target) = file(rows);
    let tables = format!("{}\n{}", table("public.hello"), table("raw"));
    let from = source.to_str().unwrap();
    let report = verify(&tables, from, &sqlite(&target), &args(0)).unwrap();
    assert_eq!(report["equal"], true, "{report}");
    let other = Connection::open(&target).unwrap();
    other
        .execute_batch("UPDATE raw SET v = 3 WHERE k = x'00ff'; DELETE FROM hello")
        .unwrap();
    let report = verify(&tables, from, &sqlite(&target), &args(0)).unwrap();
    assert_eq!(counts(&report), [2, 0, 0], "{report}");
    let raw = &report["tables"][1]["different"]["keys"][0];
    assert_eq!(raw, &json!({"key": {"k": "\\x00ff"}, "columns": ["v"]}));
    let one = VerifyArgs {
        tables: vec!["raw".to_owned()],
        ..args(0)
    };
    let report = verify(&tables, from, &sqlite(&target), &one).unwrap();
    assert_eq!(report["tables"].as_array().unwrap().len(), 1);
    // More keys than are told: counted all the same.
    other
        .execute_batch(
            "INSERT INTO hello WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL
        SELECT i + 1 FROM n WHERE i < 20009) SELECT i, 'x' FROM n",
        )
        .unwrap();
    let report = verify(&tables, from, &sqlite(&target), &args(0)).unwrap();
    assert_eq!(counts(&report), [2, 20_000, 0]);
}

/// A writer changes rows of the source all the time, and a copier brings each to the target later.
#[test]
fn a_live_table_has_no_stable_difference() {
    let (source, target) = (Database::new("vl_source"), Database::new("vl_target"));
    let rows = "INSERT INTO hello SELECT n, 'row ' || n FROM generate_series(1, 2000) AS n;";
    source.sql(&format!("{HELLO}{rows}"));
    target.sql(&format!(
        "{HELLO}{rows} INSERT INTO hello VALUES (5000, 'resurrected')"
    ));
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let id = round * 7919 % 40 + 1;
                let change = match round % 3 {
                    0 => format!("DELETE FROM hello WHERE id = {id}"),
                    _ => format!(
                        "INSERT INTO hello VALUES ({id}, 'round {round}')
                         ON CONFLICT (id) DO UPDATE SET greeting = excluded.greeting"
                    ),
                };
                source.sql(&change);
                std::thread::sleep(Duration::from_millis(15));
                target.sql(&change);
            }
        });
        let mut all = Vec::new();
        for _ in 0..3 {
            let to = postgres(&target);
            all.push(verify(
                &table("public.hello"),
                &source.url,
                &to,
                &args(2_500),
            ));
        }
        stop.store(true, Ordering::Relaxed);
        all
    });
    let mut again = 0;
    for report in report {
        let report = report.unwrap();
        assert_eq!(counts(&report), [0, 1, 0], "{report}");
        assert_eq!(report["tables"][0]["extra"]["keys"][0]["key"]["id"], 5000);
        again += report["tables"][0]["rows_read_again"].as_u64().unwrap();
    }
    assert!(again > 3, "nothing moved: {again}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let database = Database::new("vw");
    database
        .sql("CREATE TABLE hello (id int, greeting text); CREATE TABLE day (id date PRIMARY KEY)");
    let (_folder, path) = file("CREATE TABLE day (id INTEGER PRIMARY KEY)");
    let told = |tables: &str, source: &str, sink: &str| {
        let error = verify(tables, source, sink, &args(0)).unwrap_err();
        (error.kind, error.text)
    };
    let (kind, text) = told(&table("public.hello"), &database.url, &postgres(&database));
    assert_eq!(kind, ErrorKind::Usage);
    assert!(text.contains("no key to compare by"), "{text}");
    let (_, text) = told(&table("public.day"), &database.url, &sqlite(&path));
    assert!(text.contains("`id`") && text.contains("date in"), "{text}");
    let (_, text) = told(&table("public.none"), &database.url, &sqlite(&path));
    assert!(
        text.contains("the source has no table `public.none`"),
        "{text}"
    );
    let (kind, text) = told(
        &table("x"),
        "postgres://u:hush@127.0.0.1:1/d",
        &sqlite(&path),
    );
    assert_eq!(kind, ErrorKind::Failed);
    assert!(
        text.contains("127.0.0.1:1/d") && !text.contains("hush"),
        "{text}"
    );
    let (kind, _) = told(&table("x"), "none.sqlite", &sqlite(&path));
    assert_eq!(kind, ErrorKind::Failed);
    let (kind, text) = told(&table("x"), &database.url, "kind = \"null\"");
    assert_eq!(kind, ErrorKind::Usage);
    assert!(text.contains("postgres or sqlite"), "{text}");
}
