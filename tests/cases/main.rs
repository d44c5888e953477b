//! Runs every case of `tests/cases` and of the folder in `HEADWATER_CASES`, in process, on a clock
//! that the runner moves, with 1, 2 and 3 workers and in every order that a case allows.
//!
//! A case whose rule is not built yet is listed in `pending.rs` with the reason; that list only
//! shrinks. A verb that is not known fails its case.

mod asked;
mod case;
mod durable;
mod live;
mod notices;
mod order;
mod pending;
mod preflight;
mod runner;
mod settings;
mod target;
mod told;

use case::Case;
use std::path::{Path, PathBuf};

/// Orders run of one case; above that a seeded sample.
const ORDERS_MAX: usize = 2000;

fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let more = std::env::var_os("HEADWATER_CASES").map(PathBuf::from);
    std::iter::once(own).chain(more).collect()
}

fn cases(folder: &Path) -> Vec<Case> {
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("listed").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths.iter().map(|path| Case::load(path)).collect()
}

#[test]
fn every_case_ends_as_it_must() {
    let own_folder = folders()[0].clone();
    let mut failures = Vec::new();
    let (mut passed, mut pending) = (0, Vec::new());
    for folder in folders() {
        for case in cases(&folder) {
            // Only the project's own cases may be pending.
            if let Some(reason) = pending::reason(&case.id).filter(|_| folder == own_folder) {
                pending.push(format!("{}: {reason}", case.id));
                continue;
            }
            match check(&case) {
                Ok(orders) => {
                    passed += 1;
                    println!("{} ok, {orders} orders x {{1, 2, 3}} workers", case.id);
                }
                Err(error) => failures.push(format!("{} ({}): {error}", case.id, case.title)),
            }
        }
    }
    println!("{passed} cases hold; pending:\n  {}", pending.join("\n  "));
    assert!(
        failures.is_empty(),
        "{} cases fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(passed > 0, "no case was run");
}

/// Runs a case in all its orders; gives their number.
pub(crate) fn check(case: &Case) -> Result<usize, String> {
    let mut count = 0;
    for (index, run) in case.runs.iter().enumerate() {
        let orders = match case.interleavings {
            None => vec![(0..case.steps.len()).collect()],
            Some(_) => {
                let orders = order::orders(&case.streams(), ORDERS_MAX);
                let whole = orders.iter().map(|order| case.with_notices(order));
                whole.collect()
            }
        };
        if let Some(expected) = case.interleavings
            && expected <= ORDERS_MAX
            && orders.len() != expected
        {
            return Err(format!(
                "{} orders were made, the case has {expected}",
                orders.len()
            ));
        }
        for order in &orders {
            for workers in 1..=3 {
                let own_order = order.windows(2).all(|pair| pair[0] < pair[1]);
                let result = runner::run(case, run, order, workers);
                case::judge(case, run, &result, own_order && workers == 1).map_err(|error| {
                    format!("run {index}, {workers} workers, order {order:?}: {error}")
                })?;
            }
            count += 1;
        }
    }
    Ok(count)
}

#[test]
fn a_case_that_is_wrong_is_caught() {
    let own = folders()[0].clone();
    let mut case = cases(&own)
        .into_iter()
        .find(|case| case.id == "B01")
        .expect("B01 is there");
    check(&case).expect("B01 holds");
    case.runs[0].table = Some(vec![serde_json::json!({"id": 1, "greeting": "old"})]);
    check(&case).expect_err("a wrong table must be seen");
    case.runs[0].table = None;
    case.runs[0].outcome = vec!["unsafe".to_owned()];
    check(&case).expect_err("a wrong outcome must be seen");
    case.runs[0].outcome = vec!["ready".to_owned()];
    case.steps.push(serde_json::json!({"do": "no_such_verb"}));
    check(&case).expect_err("an unknown verb must be seen");
}

#[test]
fn with_the_rule_off_the_stale_row_wins() {
    let own = folders()[0].clone();
    for id in ["B01", "B02", "B03"] {
        let mut case = cases(&own)
            .into_iter()
            .find(|case| case.id == id)
            .expect("it is there");
        case.rule = false;
        check(&case).expect_err("the runner must see a stale row");
    }
}

#[test]
fn a_compacted_topic_that_forgets_deletes_too_early_is_refused() {
    let own = folders()[0].clone();
    let mut case = cases(&own).into_iter().find(|case| case.id == "B01");
    let case = case.as_mut().expect("it is there");
    let kept = |ms: u64| {
        serde_json::json!({"do": "topic_config", "topic": "M", "cleanup.policy": "compact",
            "delete.retention.ms": ms})
    };
    case.interleavings = None;
    case.steps.insert(0, kept(3 * 86_400_000));
    check(case).expect("as long as a rebuild may take");
    case.steps[0] = kept(86_400_000);
    case.runs[0].outcome = vec!["refused".to_owned()];
    case.runs[0].message_has = vec!["delete.retention.ms".to_owned()];
    case.runs[0].counters.clear();
    check(case).expect("refused");
}

#[test]
fn a_mutation_without_all_its_columns_is_refused() {
    let own = folders()[0].clone();
    for id in ["B28", "B29"] {
        let case = cases(&own).into_iter().find(|case| case.id == id);
        let case = case.expect("it is there");
        let order: Vec<usize> = (0..case.steps.len()).collect();
        let given = runner::run(&case, &case.runs[0], &order, 2);
        assert_eq!(given.outcome, "refused", "{}", given.message);
        assert!(
            given.message.contains("unavailable value"),
            "{}",
            given.message
        );
    }
}

/// A case of this folder.
pub(crate) fn own(id: &str) -> Case {
    let case = cases(&folders()[0]).into_iter().find(|case| case.id == id);
    case.unwrap_or_else(|| panic!("{id} is there"))
}

/// B38: a log that ends before the checkpoint is refused like one that begins after it.
#[test]
fn a_topic_that_was_cut_is_refused_with_both_numbers() {
    let mut case = own("B38");
    let offsets = case.steps.iter_mut().find(|step| step["do"] == "offsets");
    *offsets.expect("it") = serde_json::json!(
        {"do": "offsets", "topic": "M", "p": 0, "start": 0, "end": 40});
    case.runs[0].message_has = vec!["100".to_owned(), "ends at 40".to_owned()];
    check(&case).expect("refused");
}

/// B39: markers are found by key, whichever worker owns it now; some are of the checkpoint, some of
/// records that are read again.
#[test]
fn markers_are_found_on_any_number_of_workers() {
    let case = own("B39");
    let (mutation, read) = (&case.steps[0], &case.steps[3]);
    let of = |step: &serde_json::Value, id: u64, offset: Option<u64>| {
        let mut step = step.clone();
        step["k"]["id"] = id.into();
        step["v"]["after"]["id"] = id.into();
        step.as_object_mut().expect("a record").remove("o");
        if let Some(offset) = offset {
            step["o"] = offset.into();
        }
        step
    };
    let mutations = |ids: std::ops::Range<u64>| ids.map(|id| of(mutation, id, Some(id)));
    let verb = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let mut steps: Vec<_> = mutations(0..10).collect();
    steps.push(verb(r#"{"do": "checkpoint"}"#));
    steps.extend(mutations(10..20));
    steps.push(verb(r#"{"do": "restart", "workers": 3}"#));
    steps.extend(mutations(20..30));
    steps.push(verb(r#"{"do": "checkpoint"}"#));
    steps.push(verb(
        r#"{"do": "kill_after_offset_commit_before_state_flush"}"#,
    ));
    steps.push(verb(r#"{"do": "restart", "workers": 2}"#));
    steps.extend((0..40).map(|id| of(read, id, None)));
    let row = |id: u64| {
        let greeting = if id < 30 { "new" } else { "old" };
        serde_json::json!({"id": id, "greeting": greeting})
    };
    let mut wanted = Case {
        steps,
        ..case.clone()
    };
    wanted.runs[0].table = Some((0..40).map(row).collect());
    check(&wanted).expect("no stale row");
    wanted.rule = false;
    check(&wanted).expect_err("the rule is off: a stale row must be seen");
}

/// B41 over a restart: a poisoned key stays so on any number of workers, and a whole row heals it.
#[test]
fn a_poisoned_key_stays_so_until_a_row_heals_it() {
    let mut case = own("B41");
    check(&case).expect("both of its runs hold");
    let verb = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let (bad, read, good) = (&case.steps[0], &case.steps[1], &case.steps[2]);
    let of = |step: &serde_json::Value, id: u64| {
        let mut step = step.clone();
        step.as_object_mut().expect("a record").remove("o");
        step["k"]["id"] = id.into();
        if step.get("v").is_some() {
            step["v"]["after"]["id"] = id.into();
        }
        step
    };
    let mut steps: Vec<_> = (0..20).map(|id| of(bad, id)).collect();
    steps.extend((0..5).map(|id| of(good, id)));
    steps.push(verb(r#"{"do": "checkpoint"}"#));
    steps.extend((5..10).map(|id| of(good, id)));
    steps.push(verb(r#"{"do": "restart", "workers": 3}"#));
    steps.push(verb(r#"{"do": "checkpoint"}"#));
    steps.push(verb(r#"{"do": "restart", "workers": 2}"#));
    steps.extend((0..30).map(|id| of(read, id)));
    let greeting = |id: u64| match id {
        0..10 => Some("nul\0here"),
        10..20 => None,
        _ => Some("old"),
    };
    let row = |id| Some(serde_json::json!({"id": id, "greeting": greeting(id)?}));
    let mut run = case.runs.remove(1);
    run.table = Some((0..30).filter_map(row).collect());
    // Of the last run alone: the letters were counted before it.
    run.counters = [("reads_quarantined".to_owned(), 10)].into();
    run.message_has = vec!["20 mutations could not be decoded".to_owned()];
    (case.steps, case.runs) = (steps, vec![run]);
    check(&case).expect("10 keys are quarantined");
}

/// A mutation topic that grows may bring the mutations of a key out of order.
#[test]
fn a_mutation_topic_that_grows_is_refused() {
    let mut case = own("B01");
    let grown = r#"{"do": "add_partitions", "topic": "M", "count": 2}"#;
    case.steps.push(serde_json::from_str(grown).expect("JSON"));
    let late = r#"{"t": "M", "p": 1, "k": {"id": 1}, "v": null}"#;
    case.steps.push(serde_json::from_str(late).expect("JSON"));
    case.interleavings = None;
    for run in &mut case.runs {
        run.outcome = vec!["refused".to_owned()];
        run.message_has = vec!["grew from 1 to 2 partitions".to_owned()];
        run.counters.clear();
    }
    check(&case).expect("it is refused");
}

/// B54: the preflight names the column, and only when it is there.
#[test]
fn a_column_of_reads_alone_is_named() {
    let mut case = own("B54");
    check(&case).expect("it is named");
    for step in &mut case.steps {
        let after = step
            .pointer_mut("/v/after")
            .and_then(|row| row.as_object_mut());
        after.expect("a row").remove("shout");
    }
    case.runs[0].table = None;
    check(&case).expect_err("there is none to name");
}

/// A job that is stopped is down: it takes no step until it is started.
#[test]
fn a_case_without_its_start_is_caught() {
    let mut case = own("B06");
    let start = case.steps.iter().position(|step| step["do"] == "start");
    case.steps.remove(start.expect("it"));
    check(&case).expect_err("nothing was read after the stop");
}
