//! The demo, short, through the real binary: it shows the cure and the disease, by machine.

use serde_json::Value;
use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["demo", "--seconds", "3", "--keys", "3000"])
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("the binary runs")
}

#[test]
fn no_row_differs_and_the_copy_without_the_rule_is_sick() {
    let output = demo(&["--json", "--workers", "3"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object on stdout");
    let count = |pointer: &str| {
        let value = report.pointer(pointer).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no count {pointer} in {report}"))
    };
    assert_eq!(count("/differing_rows"), 0, "{report}");
    assert!(count("/mutations_emitted") > 4_000, "{report}");
    assert!(count("/reads_emitted") > 0, "{report}");
    assert!(count("/reads_dropped/marker") > 0, "{report}");
    assert!(count("/without_markers/stale_rows") > 0, "{report}");
    assert!(count("/without_markers/resurrected_rows") > 0, "{report}");
    assert_eq!(count("/workers"), 3);
    assert_eq!(report["outcome"], "ready");
    assert!(report["bytes_per_marker"].is_f64(), "{report}");
}

#[test]
fn a_demo_without_the_rule_is_itself_sick() {
    let output = demo(&["--json", "--without-markers"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object on stdout");
    assert!(report["differing_rows"].as_u64() > Some(0), "{report}");
    assert!(
        !output.status.success(),
        "a demo whose rows differ must not succeed"
    );
}

#[test]
fn a_folder_with_something_in_it_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("mine"), "x").expect("written");
    let output = demo(&["--dir", &folder.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not empty"));
    assert!(output.stdout.is_empty());
}
