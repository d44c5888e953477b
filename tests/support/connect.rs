//! Kafka Connect through its REST interface: configure, wait, read offsets.
//!
//! Invariant: `tasks[].state` decides whether a connector runs; the connector's own state says
//! RUNNING over failed tasks.
//!
//! It cannot speak TLS and keeps no connection open: one HTTP/1.0 request each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// One worker on the loopback address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connect {
    /// Port of the REST interface.
    pub(crate) port: u16,
}

impl Connect {
    /// Creates a connector or changes its configuration.
    pub(crate) fn configure(self, name: &str, config: &Value) {
        let path = format!("/connectors/{name}/config");
        let (status, body) = self.request("PUT", &path, &config.to_string());
        assert!(
            status == 200 || status == 201,
            "PUT {path}: {status} {body}"
        );
    }

    /// Removes a connector; its topics, slot and offsets stay. One that is not there is no error.
    pub(crate) fn delete(self, name: &str) {
        let (status, body) = self.request("DELETE", &format!("/connectors/{name}"), "");
        if status != 204 && status != 404 {
            eprintln!("connector {name} was not removed: {status} {body}");
        }
    }

    /// Pauses a connector, or lets it go on: `pause`, `resume`. Its tasks follow a moment later.
    pub(crate) fn tell(self, name: &str, verb: &str) {
        let path = format!("/connectors/{name}/{verb}");
        let (status, body) = self.request("PUT", &path, "");
        assert_eq!(status, 202, "PUT {path}: {status} {body}");
    }

    /// `Ok` once every task of the connector is paused.
    pub(crate) fn paused(self, name: &str) -> Result<(), String> {
        let (status, body) = self.request("GET", &format!("/connectors/{name}/status"), "");
        let found = format!("{status} {body}");
        let answer: Value = serde_json::from_str(&body).map_err(|_| found.clone())?;
        let tasks = answer["tasks"].as_array().ok_or(found.clone())?;
        let all = !tasks.is_empty() && tasks.iter().all(|task| task["state"] == "PAUSED");
        if all { Ok(()) } else { Err(found) }
    }

    /// `Ok` once every task of the connector runs. Panics when one has failed.
    pub(crate) fn running(self, name: &str) -> Result<(), String> {
        let (status, body) = self.request("GET", &format!("/connectors/{name}/status"), "");
        let found = format!("{status} {body}");
        let answer: Value = serde_json::from_str(&body).map_err(|_| found.clone())?;
        let tasks = answer["tasks"].as_array().ok_or(found.clone())?;
        let in_state = |task: &Value, state: &str| task["state"].as_str() == Some(state);
        assert!(
            !tasks.iter().any(|task| in_state(task, "FAILED")),
            "{name} failed: {found}"
        );
        let all = !tasks.is_empty() && tasks.iter().all(|task| in_state(task, "RUNNING"));
        if all { Ok(()) } else { Err(found) }
    }

    /// `Ok` once the connector's committed offsets say that its snapshot is over: every READ has
    /// then been acknowledged by Kafka. Debezium writes `snapshot` and `snapshot_completed` until
    /// then and leaves both out, or the latter true, afterwards.
    pub(crate) fn snapshot_finished(self, name: &str) -> Result<(), String> {
        let (status, body) = self.request("GET", &format!("/connectors/{name}/offsets"), "");
        let found = format!("{status} {body}");
        let answer: Value = serde_json::from_str(&body).map_err(|_| found.clone())?;
        let offsets = answer["offsets"].as_array().ok_or(found.clone())?;
        let over = |entry: &Value| {
            let offset = &entry["offset"];
            // The first notification commits an offset without any member, before any READ.
            let empty = offset.as_object().is_none_or(serde_json::Map::is_empty);
            !empty && (offset.get("snapshot").is_none() || offset["snapshot_completed"] == true)
        };
        if !offsets.is_empty() && offsets.iter().all(over) {
            Ok(())
        } else {
            Err(found)
        }
    }

    /// Status and body of one request. A connection error is status 0 with the error as body.
    fn request(self, method: &str, path: &str, body: &str) -> (u16, String) {
        match self.exchange(method, path, body) {
            Ok(answer) => parse(&answer),
            Err(error) => (0, error.to_string()),
        }
    }

    fn exchange(self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn parse(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or(0), body.to_owned())
}
