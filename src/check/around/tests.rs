//! Facts made by hand, a worker of Connect that is a thread, and what must be found.

use super::{Around, judge, look};
use crate::check::kept::Need;
use crate::check::{Finding, Level};
use crate::config::Config;
use crate::config::choices::Unavailable;
use crate::connector::tests::{LIVE, SNAPSHOT};
use crate::error::Error;
use crate::table::Role;
use crate::topic::TopicSettings;
use crate::topic::memory::MemoryTopics;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::Duration;

fn around() -> Around {
    Around {
        tables: Vec::new(),
        settings: Vec::new(),
        need: Need {
            margin: Duration::from_secs(900),
            rebuild: Duration::from_secs(3_600),
            rebuild_key: "retention.rebuild_alarm_after",
        },
        guard: None,
        side_topics: Vec::new(),
        connectors: None,
        named: [None, None],
        signal_table: None,
        replica: false,
        unavailable: Unavailable::Refuse,
        database: None,
    }
}

fn found(around: &Around) -> Vec<Finding> {
    let mut findings = Vec::new();
    judge(around, &mut findings);
    findings
}

#[test]
fn what_cannot_be_asked_is_a_finding_of_its_own() {
    let mut around = around();
    let quiet = found(&around);
    assert_eq!(quiet.len(), 1);
    assert_eq!(
        (quiet[0].thing.as_str(), quiet[0].level),
        ("TRUNCATE", Level::Ok)
    );
    let away = || Err(Error::failed("nobody is there"));
    around.settings = vec![
        (Role::Mutations, "app".to_owned(), away()),
        (
            Role::Snapshot,
            "snap".to_owned(),
            Ok(TopicSettings::default()),
        ),
    ];
    around.side_topics = vec![
        ("source.notifications", "notes".to_owned(), Ok(4)),
        (
            "source.heartbeat",
            "beats".to_owned(),
            Err(Error::usage("no topic beats")),
        ),
    ];
    around.guard = Some(Err(Error::refused("the ttl is below the budget")));
    around.connectors = Some(Err(Error::failed("no worker")));
    around.database = Some(Err(Error::failed("no database")));
    let all = found(&around);
    let levels: Vec<Level> = all.iter().map(|one| one.level).collect();
    use Level::{Error as Bad, Ok as Good, Warning};
    assert_eq!(
        levels,
        [Warning, Good, Bad, Bad, Warning, Bad, Bad],
        "{all:#?}"
    );
    assert_eq!((all[2].exit_code, all[3].exit_code), (4, 2));
}

/// Answers requests by their path; gives the address.
fn worker(code: &'static str, answer: fn(&str) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
            let mut head = Vec::new();
            while let Some(Ok(line)) = lines.next() {
                if line.is_empty() {
                    break;
                }
                head.push(line);
            }
            let path = head[0].split(' ').nth(1).expect("a path");
            let body = answer(path);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {code}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).expect("it listens");
        }
    });
    format!("http://user:hunter2@{address}")
}

/// As a worker with two connectors.
fn two(path: &str) -> String {
    match path {
        "/connectors" => r#"["app", "snap"]"#,
        "/connectors/app/config" => LIVE,
        "/connectors/snap/config" => SNAPSHOT,
        _ => {
            r#"{"name": "x", "connector": {"state": "RUNNING"}, "type": "source",
            "tasks": [{"id": 0, "state": "RUNNING"}]}"#
        }
    }
    .to_owned()
}

fn asked(url: &str) -> Vec<Finding> {
    let text = format!(
        "[[table]]\nname = \"public.hello\"\nmutations = \"app.public.hello\"\n\
         snapshot = \"snap_g1.public.hello\"\n[source]\nnotifications = \"snap_g1.notifications\"\n\
         connect = {{ url = \"{url}\", live = \"app\", snapshot = \"snap\" }}\n"
    );
    let config = Config::parse("test", &text, &[]).expect("it loads").config;
    let topics = MemoryTopics::default();
    topics.create("snap_g1.notifications", 1);
    found(&look(&config, &config.tables(), &topics, None, &|_| false))
}

#[test]
fn connectors_are_asked_and_judged() {
    let all = asked(&worker("200 OK", two));
    let says = |part: &str| all.iter().any(|one| one.found.contains(part));
    // The recipe of the live connector sends no heartbeats; decimals are the worker's.
    assert!(
        says("no heartbeats") && says("converter of the worker"),
        "{all:#?}"
    );
    assert!(all.iter().all(|one| one.level != Level::Error), "{all:#?}");
    assert!(!format!("{all:?}").contains("hunter2"));
    for (code, part) in [
        ("401 Unauthorized", "refuses"),
        ("500 Oh", "HTTP 500"),
        ("200 OK", "JSON of another kind"),
    ] {
        let all = asked(&worker(code, |_| "<html>".to_owned()));
        let bad: Vec<&Finding> = all.iter().filter(|one| one.exit_code > 0).collect();
        assert_eq!((bad.len(), bad[0].exit_code), (1, 1), "{all:#?}");
        assert!(format!("{bad:?}").contains(part), "{bad:?}");
        assert!(!format!("{all:?}").contains("hunter2"));
    }
    // Nobody listens on the port of a listener that is gone.
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", gone.local_addr().expect("it is bound"));
    drop(gone);
    assert!(
        asked(&url)
            .iter()
            .any(|one| one.found.contains("does not answer"))
    );
}
