//! The control plane of the real binary: what it answers while a job runs, to whom, and what the
//! verbs that ask it say and end with.
//!
//! It cannot load the server.

mod access;
#[path = "../support/binary.rs"]
mod binary;
mod explain;
#[path = "../support/hosts.rs"]
mod free_hosts;
mod job;
mod readme;
mod schema;

use binary::{Bench, Running};
use serde_json::Value;
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "a token of more than sixteen bytes";

/// What came back.
pub(crate) struct Response {
    pub(crate) code: u16,
    pub(crate) body: String,
    pub(crate) headers: ureq::http::HeaderMap,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Asks, with headers, and follows nothing.
pub(crate) fn ask(method: &str, address: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_global(Some(LIMIT))
        .build()
        .new_agent();
    let mut request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).expect("a good request");
    let mut response = agent.run(request).expect("an answer");
    Response {
        code: response.status().as_u16(),
        body: response.body_mut().read_to_string().expect("text"),
        headers: response.headers().clone(),
    }
}

pub(crate) fn get(address: &str, path: &str) -> Response {
    ask("GET", address, path, &[])
}

/// The status document, which must fit its schema.
pub(crate) fn status(address: &str) -> Value {
    let answer = get(address, "/v1/status");
    assert_eq!(answer.code, 200, "{}", answer.body);
    fits(&answer.json());
    answer.json()
}

pub(crate) fn fits(document: &Value) {
    let schema = include_str!("../../src/control/status.schema.json");
    let schema = serde_json::from_str(schema).expect("JSON");
    let misfits = schema::misfits(&schema, document);
    assert!(misfits.is_empty(), "{misfits:#?}\n{document:#}");
}

/// Waits for something of a child; fails with what it said.
pub(crate) fn until<T>(child: &Running, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            Instant::now() < limit,
            "{what} did not come:\n{}",
            child.err()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where a child serves, as it says.
pub(crate) fn address(child: &Running) -> String {
    until(child, "the address", || {
        let said = child.err();
        let (_, rest) = said.split_once("control plane at http://")?;
        let (address, _) = rest.split_once('\n')?;
        Some(address.to_owned())
    })
}

/// A configuration with a free port and a token.
pub(crate) fn config(bench: &Bench, sink: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = bench.path().join("control.token");
    std::fs::write(&path, TOKEN.replace(' ', "-") + "\n").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
    bench.config(&format!(
        "{sink}\n[checkpoint]\ninterval = \"200ms\"\n\
         [control]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"control.token\""
    ));
}

/// The header that shows the token.
pub(crate) fn bearer() -> (&'static str, String) {
    (
        "Authorization",
        format!("Bearer {}", TOKEN.replace(' ', "-")),
    )
}

/// Asks a job for a clean stop.
pub(crate) fn stop(address: &str) -> Response {
    let (name, value) = bearer();
    ask("POST", address, "/v1/stop", &[(name, &value)])
}
