//! The real binary: what it prints where, and how it ends.

use std::path::Path;
use std::process::{Command, Output};

fn headwater(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("PGPASSWORD")
        .output()
        .expect("the binary runs")
}

/// Runs it; it must end with `code`. Gives stdout and stderr.
fn ends(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let output = headwater(folder, arguments);
    let out = String::from_utf8(output.stdout).expect("UTF-8");
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}\n{out}\n{err}"
    );
    if code != 0 {
        assert!(err.starts_with("error: "), "{arguments:?}: {err}");
        assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    }
    (out, err)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn usage_ends_with_2() {
    let folder = folder();
    let at = folder.path();
    for arguments in [
        &[][..],
        &["rnu"],
        &["run", "--onse"],
        &["run", "-n", "2"],
        &["run", "-h"],
        &["config", "-c", "nothing.toml"],
        &["config", "--set", "retention.start_margn=1s"],
        &["config", "--set", "retention.start_margin=fortnight"],
    ] {
        let (out, _) = ends(at, arguments, 2);
        assert_eq!(out, "", "{arguments:?}");
    }
    let (_, err) = ends(at, &["config", "--set", "retention.start_margn=1s"], 2);
    assert!(err.contains("perhaps `retention.start_margin`"), "{err}");
}

#[test]
fn help_and_version_end_with_0_on_stdout() {
    let folder = folder();
    for arguments in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["run", "--help"],
        &["demo", "-h"],
    ] {
        let (out, err) = ends(folder.path(), arguments, 0);
        assert!(!out.is_empty() && err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn init_writes_what_config_reads_and_never_replaces() {
    let folder = folder();
    let at = folder.path();
    let init = [
        "init",
        "--mutations",
        "app.public.hello",
        "--snapshot",
        "snap.public.hello",
    ];
    let (out, _) = ends(at, &init, 0);
    assert!(out.contains("headwater check"), "{out}");
    let written = std::fs::read_to_string(at.join("headwater.toml")).expect("written");

    let (out, err) = ends(at, &["config"], 0);
    assert!(
        out.contains("name = \"public.hello\"") && err.is_empty(),
        "{out}\n{err}"
    );
    std::fs::write(at.join("printed.toml"), &out).expect("written");
    let (again, _) = ends(at, &["config", "-c", "printed.toml"], 0);
    assert_eq!(out, again);

    let (_, err) = ends(at, &init, 2);
    assert!(err.contains("headwater.toml exists already"), "{err}");
    let kept = std::fs::read_to_string(at.join("headwater.toml")).expect("kept");
    assert_eq!(kept, written);

    let lost = [&init[..], &["-c", "no/such/folder/x.toml"]].concat();
    ends(at, &lost, 1);
    let same = [
        "init",
        "--mutations",
        "x",
        "--snapshot",
        "x",
        "-c",
        "same.toml",
    ];
    ends(at, &same, 2);
    assert!(!at.join("same.toml").exists(), "nothing is half-written");
}

/// Answers as Kafka Connect with one connector, until the test ends; gives the address.
fn worker() -> String {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
            let head: Vec<String> = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let body = match head[0].split(' ').nth(1) {
                Some("/connectors") => "[\"app\"]",
                Some("/connectors/app/config") => include_str!("services/connectors/live.json"),
                _ => r#"{"name":"app","connector":{"state":"RUNNING"},"tasks":[]}"#,
            };
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            )
            .expect("it listens");
        }
    });
    format!("http://{address}")
}

#[test]
fn init_from_a_connector_writes_what_config_reads() {
    let folder = folder();
    let at = folder.path();
    let url = worker();
    let from = ["init", "--connect", &url, "--connector"];
    let init = [&from[..], &["app", "--sink", "postgres"]].concat();
    let (out, err) = ends(at, &init, 0);
    for part in [
        "\"snapshot.mode\": \"initial_only\"",
        "CREATE TABLE \"public\".\"hello\"",
        "kafka-acls.sh",
        "GRANT SELECT",
    ] {
        assert!(out.contains(part), "{part} in\n{out}");
    }
    // The password is not in the environment, so the database was not asked.
    assert!(
        err.contains("PGPASSWORD") && !out.contains("unused"),
        "{err}\n{out}"
    );
    let (out, _) = ends(at, &["config"], 0);
    assert!(out.contains("mutations = \"app.public.hello\""), "{out}");
    let (_, err) = ends(at, &init, 2);
    assert!(err.contains("headwater.toml exists already"), "{err}");
    let (_, err) = ends(at, &[&from[..], &["nobody", "-c", "x.toml"]].concat(), 2);
    assert!(err.contains("there is no connector `nobody`"), "{err}");
    let strange = ["init", "--connect", "ftp://x", "--connector", "app"];
    ends(at, &[&strange[..], &["-c", "x.toml"]].concat(), 2);
    assert!(!at.join("x.toml").exists(), "nothing is half-written");
}

#[test]
fn config_prints_defaults_without_a_file_and_notes_what_does_nothing() {
    let folder = folder();
    let (out, err) = ends(folder.path(), &["config"], 0);
    assert!(
        out.contains("start_margin = \"15m\"") && err.is_empty(),
        "{out}\n{err}"
    );
    let (_, err) = ends(folder.path(), &["config", "--set", "dead_letter.url=x"], 0);
    assert_eq!(err, "note: not built yet: `dead_letter.url` ignored\n");
}

#[test]
fn config_hides_secrets_and_does_not_follow_them() {
    let folder = folder();
    let sets = [
        "config",
        "--set",
        "sink.url=postgres://app:hunter2@db/x",
        "--set",
        "kafka.sasl.password=hunter2",
        "--set",
        "cluster.secret=@/no/such/file",
    ];
    let (out, err) = ends(folder.path(), &sets, 0);
    assert!(
        !out.contains("hunter2") && !err.contains("hunter2"),
        "{out}\n{err}"
    );
    assert!(out.contains("postgres://app:<redacted>@db/x"), "{out}");
    assert!(out.contains("secret = \"@/no/such/file\""), "{out}");
}
