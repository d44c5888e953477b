//! Cases with notifications, changed so that what their prose demands is seen, and a planted fault.

use crate::{check, own};
use serde_json::{Value, json};

fn verb(name: &str, ms: u64) -> Value {
    json!({"do": name, "ms": ms})
}

/// A day, so that whatever may be taken for quiet is.
fn a_day() -> Value {
    verb("advance_processing_time", 86_400_000)
}

#[test]
fn an_empty_snapshot_and_a_failed_table() {
    check(&own("B32")).expect("zero rows are as many as were scanned");
    let mut failed = own("B35");
    check(&failed).expect("it is named");
    // The same notifications, with the failed table scanned well after all.
    for step in &mut failed.steps {
        if step.pointer("/v/additional_data/status") == Some(&json!("SQL_EXCEPTION")) {
            step["v"]["additional_data"]["status"] = json!("EMPTY");
        }
    }
    failed.runs[0].message_has.clear();
    check(&failed).expect_err("it is ready now");
    failed.runs[0].outcome = vec!["ready".to_owned()];
    check(&failed).expect("ready");
}

/// B32: a partition with READs that were told, and that never come.
#[test]
fn rows_that_are_told_and_do_not_come_are_waited_for() {
    let mut case = own("B32");
    for step in &mut case.steps {
        if step["v"]["type"] == "TABLE_SCAN_COMPLETED" {
            step["v"]["additional_data"]["total_rows_scanned"] = json!("1");
        }
    }
    case.runs[0].outcome = vec!["not_ready".to_owned()];
    check(&case).expect("a READ is missing");
}

/// B37: between COMPLETED and the last READ below the log's end, however long that takes.
#[test]
fn nothing_is_ready_before_the_end_of_the_log_is_reached() {
    let mut case = own("B37");
    check(&case).expect("ready, with all rows");
    for place in [3, 2] {
        case.steps.insert(place, a_day());
    }
    check(&case).expect("quiet is no end below that of the log");
    // Without evidence of the kind that is asked for it waits.
    case.runs[0].config.clear();
    check(&case).expect_err("COMPLETED alone ends nothing");
    case.runs[0].outcome = vec!["not_ready".to_owned()];
    case.runs[0].message_has = vec!["COMPLETED has come without a STARTED".to_owned()];
    check(&case).expect("it waits");
    // Nor with nothing told but quiet.
    case.steps.remove(0);
    let outcomes = &mut case.runs[0];
    outcomes.message_has.clear();
    outcomes.outcome = vec!["ready".to_owned()];
    check(&case).expect("no notification: declared finished at the present ends");
}

#[test]
fn ready_as_soon_as_completed_is_seen_is_caught() {
    for id in ["B37", "B52"] {
        let mut case = own(id);
        // The job is given time to fall for it.
        let completed = case.steps.iter();
        let completed = completed
            .clone()
            .position(|s| s["v"]["type"] == "COMPLETED");
        let completed = case.steps.remove(completed.expect("it is told"));
        case.steps.splice(0..0, [completed, a_day()]);
        check(&case).unwrap_or_else(|error| panic!("{id}: {error}"));
        case.evidence = false;
        let error = check(&case).expect_err("READs come behind the end");
        assert!(error.contains("ready"), "{id}: {error}");
    }
}

/// B52: ready without any record after the restart, nothing of the notifications left either.
#[test]
fn a_snapshot_that_has_ended_stays_ended() {
    let mut case = own("B52");
    check(&case).expect("ready");
    let mutation = case.steps.pop().expect("it ends with a mutation");
    assert_eq!(mutation["t"], "M");
    case.runs[0].table.as_mut().expect("a table").pop();
    check(&case).expect("nothing new is needed");
    let restart = case.steps.pop().expect("a restart before it");
    let gone = json!({"do": "offsets", "topic": "N", "p": 0, "start": 2, "end": 2});
    case.steps.extend([gone, restart]);
    check(&case).expect("its end is persisted");
}

/// The same where the end is told by quiet, and READs are of the run before alone.
#[test]
fn quiet_counts_reads_of_runs_before() {
    let mut case = own("B52");
    let quiet = json!("quiet");
    case.runs[0]
        .config
        .insert("source_finished_requires".to_owned(), quiet);
    case.steps
        .retain(|step| step["v"]["type"] != "TABLE_SCAN_COMPLETED");
    check(&case).expect("quiet, after the restart");
}

/// B37: when COMPLETED never comes, the status says what is missing, and a person's word with the
/// ends does the same; also before the READs are there.
#[test]
fn a_person_may_say_what_no_notification_says() {
    let mut case = own("B37");
    case.steps[0]["v"]["type"] = json!("IN_PROGRESS");
    case.runs[0].config.clear();
    let ready = std::mem::replace(&mut case.runs[0].outcome, vec!["not_ready".to_owned()]);
    case.runs[0].message_has = vec!["has not told that it has started".to_owned()];
    check(&case).expect("it waits");
    case.runs[0].outcome = ready;
    case.runs[0].message_has.clear();
    let said = json!({"do": "finish_generation", "at": {"S": {"0": 2}}});
    for place in [1, 2, case.steps.len()] {
        let mut case = case.clone();
        case.steps.insert(place, said.clone());
        check(&case).unwrap_or_else(|error| panic!("said at {place}: {error}"));
    }
}
