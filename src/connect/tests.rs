//! The client against a server of canned answers.

use super::{Connect, ConnectorConfig, ConnectorStatus, TaskStatus, decoded, encoded};
use crate::config::secret::Secret;
use crate::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Answers each request with what `answer` makes of its head, until the test ends.
fn serve(answer: fn(&str) -> (u16, &'static str)) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream: TcpStream = stream.expect("a client");
            let mut lines = BufReader::new(&stream).lines();
            let head: Vec<String> = (&mut lines)
                .map(|line| line.expect("text"))
                .take_while(|line| !line.is_empty())
                .collect();
            let head = head.join("\n");
            let (code, body) = answer(&head);
            seen.lock().expect("no panic").push(head);
            let length = body.len();
            let _ = write!(
                &stream,
                "HTTP/1.1 {code} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    (address, heads)
}

fn client(url: &str) -> Result<Connect, Error> {
    let secret = Secret::url("source.connect", url);
    Connect::new(&secret.resolve().expect("no reference in it"))
}

const STATUS: &str = r#"{"name":"app","connector":{"state":"RUNNING","worker_id":"127.0.0.1:8083",
    "version":"3.6.1.Final"},"tasks":[{"id":1,"state":"RUNNING","worker_id":"w"},{"id":0,
    "state":"FAILED","worker_id":"w","trace":"org.apache.kafka.Boom: gone\n\tat a\n\tat b"}],
    "type":"source"}"#;
const OFFSETS: &str = r#"{"offsets":[{"partition":{"server":"app"},
    "offset":{"lsn":9223372036854775000,"snapshot":"INITIAL"}},{"partition":{"server":"b"},
    "offset":null}]}"#;

fn answers(head: &str) -> (u16, &'static str) {
    let path = head.split(' ').nth(1).expect("a request line");
    match path {
        "/connect/connectors" => (200, r#"["app","snap g1/x"]"#),
        "/connect/connectors/app/status" => (200, STATUS),
        "/connect/connectors/app/offsets" => (200, OFFSETS),
        "/connect/connectors/app/config" => (
            200,
            r#"{"slot.name":"app","database.password":"hidden","x":null}"#,
        ),
        "/connect/connectors/app/pause" => (202, ""),
        "/connect/connectors/busy/resume" => (
            409,
            r#"{"error_code":409,"message":"Cannot complete request momentarily"}"#,
        ),
        "/connect/connectors/odd/config" => (200, r#"{"database.password":["hidden"]}"#),
        "/connect/connectors/old/offsets" => {
            (404, r#"{"error_code":404,"message":"HTTP 404 Not Found"}"#)
        }
        _ => (
            404,
            r#"{"error_code":404,"message":"Connector snap g1/x not found"}"#,
        ),
    }
}

#[test]
fn it_is_asked_and_read() {
    let (address, heads) = serve(answers);
    let connect = client(&format!("http://me:p%40ss@{address}/connect/")).expect("an address");
    assert_eq!(connect.connectors().expect("names"), ["app", "snap g1/x"]);
    let status = connect.status("app").expect("asked").expect("there");
    let task = |id, state: &str, trace: Option<&str>| TaskStatus {
        id,
        state: state.to_owned(),
        trace: trace.map(str::to_owned),
    };
    let failed = task(0, "FAILED", Some("org.apache.kafka.Boom: gone"));
    assert_eq!(status.tasks, [failed, task(1, "RUNNING", None)]);
    let trouble = status.trouble().expect("a task has failed");
    assert_eq!(trouble, "task 0 is FAILED: org.apache.kafka.Boom: gone");
    let offsets = connect.offsets("app").expect("asked").expect("there");
    assert_eq!(
        offsets.0[0].1["lsn"].as_i64(),
        Some(9_223_372_036_854_775_000)
    );
    assert!(offsets.0[1].1.is_null());
    let config = connect.config("app").expect("asked").expect("there");
    assert_eq!(config.get("slot.name"), Some("app"));
    assert_eq!(config.iter().count(), 2);
    assert!(!format!("{config:?}").contains("hidden"), "{config:?}");
    assert_eq!(connect.status("snap g1/x"), Ok(None));
    assert_eq!(connect.pause("app"), Ok(()));
    let heads = heads.lock().expect("no panic");
    assert!(heads[4].starts_with("GET /connect/connectors/snap%20g1%2Fx/status "));
    assert!(heads[5].starts_with("PUT /connect/connectors/app/pause "));
    let user = heads[5].to_ascii_lowercase();
    assert!(user.contains("authorization: basic bwu6cebzcw=="), "{user}");
}

#[test]
fn what_goes_wrong_is_said_without_passwords() {
    let (address, _) = serve(answers);
    let connect = client(&format!("http://me:hidden@{address}/connect")).expect("an address");
    let said = |error: Error, part: &str| {
        assert!(error.text.contains(part), "{error}");
        assert!(!error.text.contains("hidden"), "{error}");
    };
    said(
        connect.resume("busy").expect_err("409"),
        "Cannot complete request momentarily",
    );
    said(
        connect.pause("none").expect_err("404"),
        "no connector `none`",
    );
    said(
        connect.config("odd").expect_err("a list"),
        "JSON of another kind",
    );
    said(
        connect.offsets("old").expect_err("too old"),
        "Kafka Connect 3.5",
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = listener.local_addr().expect("bound");
    drop(listener);
    let away = client(&format!("http://me:hidden@{nobody}")).expect("an address");
    said(away.connectors().expect_err("nobody"), "does not answer");
    assert!(!format!("{away:?}").contains("hidden"));
    for (wrong, part) in [
        ("ftp://me:hidden@host:8083", "expected  http(s)://"),
        ("host:8083", "expected  http(s)://"),
        ("http://", "expected  http(s)://"),
        ("http://me:hidden@/x", "expected  http(s)://"),
    ] {
        said(client(wrong).expect_err("wrong"), part);
    }
}

#[test]
fn states_in_words() {
    let status = |state: &str, tasks: &[&str]| ConnectorStatus {
        state: state.to_owned(),
        trace: None,
        tasks: (0..)
            .zip(tasks)
            .map(|(id, state)| TaskStatus {
                id,
                state: (*state).to_owned(),
                trace: None,
            })
            .collect(),
    };
    assert_eq!(status("RUNNING", &["RUNNING"]).trouble(), None);
    for (found, said) in [
        (status("PAUSED", &["PAUSED"]), "the connector is PAUSED"),
        (status("RUNNING", &[]), "the connector has no task yet"),
        (status("STOPPED", &[]), "the connector is STOPPED"),
        (
            status("RUNNING", &["RUNNING", "FAILED"]),
            "task 1 is FAILED",
        ),
        (status("FAILED", &["RUNNING"]), "the connector is FAILED"),
    ] {
        assert_eq!(found.trouble().as_deref(), Some(said));
    }
}

#[test]
fn names_and_users_are_escaped() {
    assert_eq!(encoded("snap_g1.é/"), "snap_g1.%C3%A9%2F");
    assert_eq!(decoded("a%40b%zz%"), b"a@b%zz%");
    let config = ConnectorConfig::new([("a".to_owned(), "b".to_owned())]);
    assert_eq!(format!("{config:?}"), r#"{"a": "<redacted>"}"#);
}
