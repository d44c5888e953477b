//! Promotions over HTTP, with a hook that leaves a line for each of its runs.

use crate::control::testing::Plane;
use crate::control::view::Facts;
use crate::generation::{Body, Stage};
use crate::promote::hook::Hook;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

const ME: &str = r#"{"by": "me"}"#;
const PROMOTE: &str = "/v1/generations/g1/promote";

fn plane(folder: &Path, script: &str) -> Plane {
    let log = folder.join("log");
    let script = format!(
        "echo $HEADWATER_PROMOTION_ID >> '{}'; {script}",
        log.display()
    );
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let timeout = Duration::from_secs(60);
    Plane::new(Facts {
        hook: Some(Hook { argv, timeout }),
        ..Facts::default()
    })
}

/// The promotion ids that the hook was run with.
fn runs(folder: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

#[test]
fn a_promotion_runs_its_hook_once_and_answers_as_before() {
    let dir = tempfile::tempdir().expect("a folder");
    let plane = plane(dir.path(), "echo swapped");
    let (code, before) = plane.get("/v1/promotable");
    assert_eq!(
        (code, before["promotable"].as_bool()),
        (200, Some(true)),
        "{before}"
    );
    assert_eq!(before["criteria"].as_array().expect("a list").len(), 7);
    for _ in 0..2 {
        let (code, said) = plane.post(PROMOTE, ME);
        assert_eq!(code, 200, "{said}");
    }
    assert_eq!(runs(dir.path()), ["p-g1"]);
    let bodies = plane.bodies();
    let [
        Body::PromoteBegin { by, .. },
        Body::PromoteEnd { done, hook, .. },
    ] = &bodies[..]
    else {
        panic!("{bodies:?}")
    };
    assert_eq!((by.as_str(), *done), ("me", true));
    assert!(hook.contains("swapped"), "{hook}");
    let (_, one) = plane.get("/v1/generations/g1");
    assert_eq!(one["stage"], "promoted", "{one}");
    assert!(one["promotion"]["done_at"].is_string(), "{one}");
}

#[test]
fn a_criterion_that_is_not_met_refuses_and_runs_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let plane = plane(dir.path(), "true");
    plane.change(|shown| shown.gauges.lag.clear());
    let (code, said) = plane.post(PROMOTE, ME);
    assert_eq!(code, 409, "{said}");
    assert!(
        said["error"].as_str().expect("why").contains("live_lag"),
        "{said}"
    );
    assert_eq!(said["criteria"].as_array().expect("a list").len(), 7);
    let (_, promotable) = plane.get("/v1/promotable?generation=g1");
    assert_eq!(promotable["promotable"], false);
    assert_eq!(plane.get("/v1/promotable?generation=g9").0, 404);
    assert_eq!(plane.post("/v1/generations/g9/promote", ME).0, 404);
    assert!(runs(dir.path()).is_empty() && plane.bodies().is_empty());
    let (code, said) = plane.post(PROMOTE, r#"{"by": "me", "accept": ["live_lag"]}"#);
    assert_eq!(code, 200, "{said}");
    let begin = plane.bodies().remove(0);
    let Body::PromoteBegin { accepted, .. } = begin else {
        panic!("{begin:?}")
    };
    assert_eq!(accepted, ["live_lag"]);
}

#[test]
fn a_hook_that_failed_is_run_again_with_the_same_id() {
    let dir = tempfile::tempdir().expect("a folder");
    let good = dir.path().join("good");
    let plane = plane(dir.path(), &format!("test -e '{}'", good.display()));
    let (code, said) = plane.post(PROMOTE, ME);
    assert_eq!(code, 502, "{said}");
    assert!(
        said["error"]
            .as_str()
            .expect("why")
            .contains("exit status: 1"),
        "{said}"
    );
    let (_, one) = plane.get("/v1/generations/g1");
    assert_eq!(one["stage"], "ready", "{one}");
    std::fs::write(&good, "").expect("written");
    assert_eq!(plane.post(PROMOTE, ME).0, 200);
    assert_eq!(runs(dir.path()), ["p-g1", "p-g1"]);
}

#[test]
fn after_a_crash_between_begin_and_end_the_same_call_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let plane = plane(dir.path(), "true");
    // What is restored: begun, and nothing known of the hook.
    plane.change(|shown| {
        let begun = crate::generation::record::Promotion {
            id: "p7".to_owned(),
            ..Default::default()
        };
        shown.generations[0].state.promotion = Some(begun);
    });
    let (code, said) = plane.ask("POST", PROMOTE, ME, "k");
    assert_eq!(code, 200, "{said}");
    assert_eq!(runs(dir.path()), ["p7"]);
}

#[test]
fn a_request_that_comes_again_after_a_demote_runs_no_hook() {
    let dir = tempfile::tempdir().expect("a folder");
    let plane = plane(dir.path(), "true");
    assert_eq!(plane.ask("POST", PROMOTE, ME, "k").0, 200);
    plane.change(|shown| {
        let state = &mut shown.generations[0].state;
        state.stage = Stage::Ready;
        let promotion = state.promotion.as_mut().expect("it was promoted");
        promotion.demoted = Some((1, "me".to_owned(), "slow".to_owned()));
    });
    let (code, said) = plane.ask("POST", PROMOTE, ME, "k");
    assert_eq!(code, 409, "{said}");
    let why = said["error"].as_str().expect("why");
    assert!(why.contains("another request id"), "{why}");
    assert_eq!(runs(dir.path()).len(), 1);
}

#[test]
fn without_a_durable_begin_no_hook_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let plane = plane(dir.path(), "true");
    plane.worker.held.store(true, Ordering::SeqCst);
    let (code, said) = plane.ask("POST", PROMOTE, ME, "k");
    assert_eq!(code, 504, "{said}");
    assert!(runs(dir.path()).is_empty());
    plane.worker.held.store(false, Ordering::SeqCst);
    assert_eq!(plane.ask("POST", PROMOTE, ME, "k").0, 200);
    assert_eq!(runs(dir.path()), ["p-g1"]);
}
