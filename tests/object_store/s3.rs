//! S3 on a real server: the contract, lost answers, faults, and what is said when it is away.

use crate::child;
use crate::proxy::Proxy;
use crate::server::{Server, free_port};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

const URL: &str = "s3://bucket/jobs/of mine";
/// The fault points of a store in the cloud; each is visited in error and in abort mode.
const POINTS: [&str; 2] = ["store.request", "store.answer"];
const SECRET: &str = "headwater-secret";

/// The environment of a client of the server at `port`, and more.
fn run(port: u16, url: &str, work: &str, more: &[(&str, &str)]) -> (Option<i32>, String) {
    let endpoint = format!("http://127.0.0.1:{port}");
    let mut environment = vec![
        ("AWS_ENDPOINT", &*endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "headwater"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_REGION", "us-east-1"),
    ];
    environment.extend(more);
    let output = child::run(url, work, &environment);
    let said = child::said(&output);
    assert!(!said.contains(SECRET), "the secret is told: {said}");
    (output.status.code().or(output.status.signal()), said)
}

fn well(port: u16, work: &str, more: &[(&str, &str)]) {
    let (code, said) = run(port, URL, work, more);
    assert_eq!(code, Some(0), "{work}: {said}");
}

fn badly(port: u16, url: &str, more: &[(&str, &str)], parts: &[&str]) {
    let (code, said) = run(port, url, "put_new", more);
    assert!(code.is_some_and(|code| code != 0), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part}: {said}");
    }
}

#[test]
fn s3_keeps_the_contract() {
    let server = Server::start();
    well(server.port(), "contract", &[]);
    an_answer_that_is_lost_is_a_win_all_the_same(server.port());
    faults_leave_the_object_whole(server.port());
    what_is_wrong_is_told(server.port());
}

fn an_answer_that_is_lost_is_a_win_all_the_same(port: u16) {
    let proxy = Proxy::start(port);
    proxy.cut(1);
    well(proxy.port(), "lost_answer", &[]);
    assert_eq!(proxy.left(), 0, "nothing was cut");
}

fn faults_leave_the_object_whole(port: u16) {
    const SIGABRT: i32 = 6;
    for (work, before) in [("put_new", "delete"), ("put", "put"), ("delete", "put")] {
        for step in POINTS {
            for (action, codes) in [("error", 1..=101), ("abort", SIGABRT..=SIGABRT)] {
                // A fault that is not passed would be none.
                well(port, before, &[]);
                let fault = format!("{step}={action}");
                let (code, said) = run(port, URL, work, &[("HEADWATER_FAULT", &fault)]);
                let code = code.expect("it ended");
                assert!(codes.contains(&code), "{work} {fault}: {code} {said}");
                well(port, work, &[]);
            }
        }
    }
}

fn what_is_wrong_is_told(port: u16) {
    let object = "object `job/a` cannot be written";
    let wrong_key = [("AWS_SECRET_ACCESS_KEY", "another")];
    badly(port, URL, &wrong_key, &[object, URL, "AWS_ACCESS_KEY_ID"]);
    badly(
        port,
        "s3://none",
        &[],
        &[object, "s3://none", "Does the bucket exist?"],
    );
    let disabled = [("AWS_CONDITIONAL_PUT", "disabled")];
    badly(port, URL, &disabled, &[object, "AWS_CONDITIONAL_PUT"]);
}

#[test]
fn a_server_that_is_away_is_an_error_within_its_time() {
    let begun = Instant::now();
    badly(
        free_port(),
        URL,
        &[],
        &["object `job/a` cannot be written", "Is the store up"],
    );
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(1), "not tried again");
    assert!(waited < Duration::from_secs(150), "{waited:?}");
}
