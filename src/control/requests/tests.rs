//! Requests over HTTP, answered by a worker 0 that is played.

use crate::control::testing::Plane;
use crate::control::view::Facts;
use crate::generation::Body;
use crate::topic::memory::OwnedRecord;
use std::sync::atomic::Ordering;

fn plane() -> Plane {
    Plane::new(Facts::default())
}

#[test]
fn a_generation_is_opened_with_everything_looked_up() {
    let plane = plane();
    plane.topics.create("s2", 2);
    plane
        .topics
        .append("s2", 1, OwnedRecord::new(Some("1"), Some("1")));
    let body = r#"{"id": "g2", "snapshot": {"public.hello": "s2"}, "connector": "snap_g2",
        "started_at": "1970-01-01T00:00:09Z"}"#;
    let (code, said) = plane.post("/v1/generations", body);
    assert_eq!(
        (code, said["generation"].as_str()),
        (200, Some("g2")),
        "{said}"
    );
    let bodies = plane.bodies();
    let [Body::Open(open)] = &bodies[..] else {
        panic!("{bodies:?}")
    };
    assert_eq!(open.partitions.len(), 2);
    assert_eq!(open.started_at_ms, Some(9_000));
    assert_eq!(open.sources.connector.as_deref(), Some("snap_g2"));
    let (code, list) = plane.get("/v1/generations");
    assert_eq!(
        (code, list["generations"].as_array().expect("some").len()),
        (200, 2)
    );
    let (code, one) = plane.get("/v1/generations/g2");
    assert_eq!(
        (code, one["topics"]["public.hello"].as_str()),
        (200, Some("s2"))
    );
    assert_eq!(plane.get("/v1/generations/g9").0, 404);
    // Its topic is taken now, and so is the one of the configuration.
    for topic in ["s2", "s"] {
        let body = format!(r#"{{"snapshot": {{"public.hello": "{topic}"}}}}"#);
        let (code, said) = plane.post("/v1/generations", &body);
        assert_eq!(code, 409, "{said}");
    }
    assert_eq!(plane.bodies().len(), 1);
}

#[test]
fn what_worker_0_says_decides_the_code() {
    let plane = plane();
    let posts = [
        ("/v1/generations/g1/finish", "", 200),
        ("/v1/generations/g9/finish", "", 404),
        ("/v1/generations/g1/abort", "{}", 400),
        ("/v1/generations/g1/accept-lag", "", 200),
        ("/v1/generations/g1/accept-dead-letters", "", 200),
        (
            "/v1/generations/g1/drop-table",
            r#"{"table": "public.hello"}"#,
            200,
        ),
        (
            "/v1/generations/g1/demote",
            r#"{"by": "me", "reason": "r"}"#,
            200,
        ),
        ("/v1/reads", r#"{"paused": true}"#, 200),
        ("/v1/retention", r#"{"ttl": "5d"}"#, 200),
        ("/v1/limits", r#"{"markers_max": 5}"#, 200),
        ("/v1/generations", "not json", 400),
    ];
    for (path, body, code) in posts {
        let (found, said) = plane.post(path, body);
        assert_eq!(found, code, "{path} {said}");
        let named = if code == 200 { "text" } else { "error" };
        assert!(said[named].is_string(), "{path} {said}");
    }
    let put = plane.ask("PUT", "/v1/retention", r#"{"ttl": "5d"}"#, "");
    assert_eq!(put.0, 200);
    assert_eq!(plane.get("/v1/generations/g1/finish").0, 405);
}

#[test]
fn a_request_that_is_not_durable_waits_and_is_done_once() {
    let plane = plane();
    plane.worker.held.store(true, Ordering::SeqCst);
    let ask = |id: &str| plane.ask("POST", "/v1/reads", r#"{"paused": true}"#, id);
    let (code, said) = ask("k1");
    assert_eq!(
        (code, said["request_id"].as_str()),
        (504, Some("k1")),
        "{said}"
    );
    assert!(
        said["error"].as_str().expect("why").contains("k1"),
        "{said}"
    );
    let other = plane.ask("POST", "/v1/reads", r#"{"paused": false}"#, "k1");
    assert_eq!(other.0, 409, "{}", other.1);
    plane.worker.held.store(false, Ordering::SeqCst);
    let (code, first) = ask("k1");
    assert_eq!(code, 200, "{first}");
    assert_eq!(ask("k1"), (200, first));
    assert_eq!(plane.bodies().len(), 1);
    // By the member of the body too.
    let member = plane.post("/v1/reads", r#"{"paused": true, "id": "k1"}"#);
    assert_eq!(member.0, 200);
    assert_eq!(plane.bodies().len(), 1);
    let both = plane.ask("POST", "/v1/reads", r#"{"paused": true, "id": "k2"}"#, "k1");
    assert_eq!(both.0, 400, "{}", both.1);
}

#[test]
fn a_job_that_is_not_there_is_503() {
    let plane = plane();
    *plane.shared.live.lock().expect("not poisoned") = None;
    let (code, said) = plane.post("/v1/reads", r#"{"paused": true}"#);
    assert_eq!(code, 503, "{said}");
}
