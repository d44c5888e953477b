//! The demo, short, through the real binary: it shows the cure and the disease, by machine.

use headwater::checkpoint;
use headwater::store::Store;
use headwater::table::Role;
use headwater::topic::Topics;
use headwater::topic::mixed::MixedTopics;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn demo(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["demo", "--seconds", "3", "--keys", "3000"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the binary runs")
}

/// The report, and the demo's end.
fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON object on stdout: {error}\n{errors}"))
}

fn count(report: &Value, pointer: &str) -> u64 {
    let value = report.pointer(pointer).and_then(Value::as_u64);
    value.unwrap_or_else(|| panic!("no count {pointer} in {report}"))
}

/// All records of a topic of the demo.
fn records(folder: &Path, topic: &str) -> u64 {
    let name = format!("file:{}", folder.join(topic).display());
    let ranges = MixedTopics::new(None).ranges(&name).expect("a topic");
    ranges.iter().map(|range| range.high).sum()
}

/// Rows that the source or the sink alone has.
fn differing(folder: &Path) -> usize {
    let rows = |name: &str| {
        let db = rusqlite::Connection::open(folder.join(name)).expect("a database");
        let mut query = db.prepare("SELECT id, greeting FROM hello").expect("it");
        let rows = query.query_map([], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        });
        let rows = rows.expect("rows").map(|row| row.expect("a row"));
        rows.collect::<std::collections::BTreeSet<_>>()
    };
    let (source, sink) = (rows("source.db"), rows("sink.db"));
    assert!(source.len() > 1_000, "a source with rows");
    source.symmetric_difference(&sink).count()
}

#[test]
fn killed_and_restored_no_row_differs_and_the_copy_without_the_rule_is_sick() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("kept");
    let dir = files.display().to_string();
    let output = demo(folder.path(), &["--json", "--workers", "2", "--dir", &dir]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let report = report(&output);
    let count = |pointer: &str| count(&report, pointer);
    assert_eq!(count("/differing_rows"), 0, "{report}");
    assert_eq!(differing(&files), 0, "{report}");
    assert!(count("/mutations_emitted") > 4_000, "{report}");
    assert!(count("/reads_emitted") > 0, "{report}");
    assert!(count("/reads_dropped/marker") > 0, "{report}");
    assert!(count("/without_markers/stale_rows") > 0, "{report}");
    assert!(count("/without_markers/resurrected_rows") > 0, "{report}");
    assert_eq!(count("/workers"), 2);
    assert_eq!(report["outcome"], "ready");
    assert!(report["bytes_per_marker"].is_f64(), "{report}");

    assert_eq!(count("/restarts"), 1, "{report}");
    assert_eq!(count("/restored/workers"), 3, "{report}");
    assert!(count("/restored/markers") > 0, "{report}");
    assert!(count("/restored/from_checkpoint") > 1, "{report}");
    assert!(count("/checkpoints") >= 2, "{report}");
    assert!(count("/mutations_again") > 0, "{report}");
    // What came again is counted twice, and nothing else is: no record was passed over.
    let once = count("/mutations_emitted") - count("/mutations_again");
    assert_eq!(once, records(&files, "app.main.hello"), "{report}");
    let ends = 4;
    let reads = records(&files, "snap_g1.main.hello") - ends;
    let decided = count("/reads_emitted") + count("/reads_dropped/marker");
    assert!(decided >= reads, "{report}");
    for text in ["killed (SIGKILL) on 2 workers", "goes on from checkpoint"] {
        assert!(errors.contains(text), "`{text}` is not in\n{errors}");
    }

    // The chain of checkpoints tells the same.
    let store = Store::open(&format!("file:{}", files.join("state").display())).expect("it");
    let last = checkpoint::latest(&store, "hello").expect("read");
    let last = last.expect("a last checkpoint");
    assert_eq!(last.incarnation, 2);
    assert_eq!(last.number, count("/checkpoints") + 2, "{report}");
    let read = |role| last.of(role).map(|state| state.next_offset).sum::<u64>();
    assert_eq!(read(Role::Mutations), records(&files, "app.main.hello"));
    assert_eq!(read(Role::Snapshot), records(&files, "snap_g1.main.hello"));
}

#[test]
fn a_person_is_told_of_the_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = demo(folder.path(), &["--workers", "1"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "restarts           1   killed after",
        "on 1 workers",
        "back on 2\n",
        "restored           from checkpoint",
        "sink EXCEPT source UNION ALL source EXCEPT sink: 0 rows",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn a_demo_without_the_rule_is_itself_sick() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = demo(folder.path(), &["--json", "--without-markers"]);
    let report = report(&output);
    assert!(count(&report, "/differing_rows") > 0, "{report}");
    assert_eq!(count(&report, "/restarts"), 1, "{report}");
    assert!(
        !output.status.success(),
        "a demo whose rows differ must not succeed"
    );
}

#[test]
fn a_folder_with_something_in_it_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mine = folder.path().join("mine");
    std::fs::create_dir(&mine).expect("made");
    std::fs::write(mine.join("file"), "x").expect("written");
    let output = demo(folder.path(), &["--dir", &mine.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not empty"));
    assert!(output.stdout.is_empty());
}
