//! Arguments to commands, without running anything.

use super::{CheckpointVerb, Command, DemoArgs, InitArgs, InitFrom, RunArgs, parse};
use crate::config::choices::SinkKind;
use crate::error::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

fn command(line: &str) -> Command {
    parse(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn run(line: &str) -> RunArgs {
    match command(line) {
        Command::Run(args) => args,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str, part: &str) {
    let error = parse(line.split(' ')).expect_err(line);
    assert_eq!(error.kind, ErrorKind::Usage, "{line}");
    assert!(
        error.text.contains(part),
        "`{part}` is not in the error of {line}:\n{error}"
    );
    assert!(!error.text.starts_with("error"), "{error}");
}

#[test]
fn run_takes_timelys_flags_and_h_is_the_hostfile() {
    let args = run("headwater run -c a.toml -w 4 -n 2 -p 1 -h hosts.txt --set job=x --set a.b=c");
    assert_eq!(
        (
            args.cluster.workers,
            args.cluster.processes,
            args.cluster.process
        ),
        (4, 2, 1)
    );
    assert_eq!(args.cluster.hostfile, Some(PathBuf::from("hosts.txt")));
    assert_eq!(args.origin.path, Some(PathBuf::from("a.toml")));
    assert_eq!(args.origin.sets, ["job=x", "a.b=c"]);
    let long = run("headwater run --threads 4 --processes 2 --process 1 --hostfile hosts.txt");
    assert_eq!(long.cluster, args.cluster);
    let Command::Say(help) = command("headwater run --help") else {
        panic!("no help")
    };
    for flag in [
        "--hostfile",
        "--help",
        "--assume-finished-after-idle",
        "Exit codes",
        "130",
    ] {
        assert!(help.contains(flag), "{flag} in\n{help}");
    }
    refused("headwater run -h", "--hostfile");
}

#[test]
fn run_defaults_and_switches() {
    let args = run("headwater run");
    assert_eq!(
        (
            args.cluster.workers,
            args.cluster.processes,
            args.cluster.process
        ),
        (1, 1, 0)
    );
    assert!(!args.once && !args.without_markers && !args.json);
    assert_eq!(args.origin.path, None);
    let line = "headwater run --once --assume-finished-after-idle 5s --without-markers --json \
                --accept-partitions 8";
    let args = run(line);
    assert!(args.once && args.without_markers && args.json);
    assert_eq!(
        args.assume_finished_after_idle,
        Some(Duration::from_secs(5))
    );
    assert_eq!(args.accept_partitions, Some(8));
}

#[test]
fn run_refuses_what_cannot_be() {
    refused("headwater run --assume-finished-after-idle 5s", "--once");
    refused(
        "headwater run --once --assume-finished-after-idle 5",
        "a duration",
    );
    refused("headwater run -w 0", "`--threads` is 0");
    refused("headwater run -n 2 -p 2 -h hosts", "-p 2 -n 2");
    refused("headwater run -n 2", "need a hostfile");
    refused("headwater run -w many", "many");
    refused("headwater run --accept-partitions 0", "0");
    refused("headwater run --onse", "--once");
    refused("headwater rnu", "rnu");
    refused("headwater chek", "check");
    refused("headwater", "a command is missing");
}

#[test]
fn init_names_what_it_can() {
    let topics = |line: &str| match command(line) {
        Command::Init(InitArgs {
            path,
            from: InitFrom::Topics(init),
        }) => (path, init),
        other => panic!("{line}: {other:?}"),
    };
    let (path, init) =
        topics("headwater init --mutations app.public.hello --snapshot snap.public.hello");
    assert_eq!(path, PathBuf::from("headwater.toml"));
    assert_eq!(
        (init.table.as_str(), init.job.as_str(), init.sink),
        ("public.hello", "hello", SinkKind::Sqlite)
    );
    let (_, init) = topics(
        "headwater init --mutations file:./in/app.public.hello/ --snapshot file:s --sink jsonl \
         --path out --job j",
    );
    assert_eq!(
        (init.table.as_str(), init.job.as_str()),
        ("public.hello", "j")
    );
    assert_eq!(
        (init.sink, init.path.as_deref()),
        (SinkKind::Jsonl, Some("out"))
    );
    refused(
        "headwater init --mutations a --snapshot b --sink mysql",
        "\"postgres\"",
    );
    refused("headwater init --mutations a", "--snapshot");
}

#[test]
fn init_from_a_connector_names_its_tables() {
    let line = "headwater init --connect http://c:8083 --connector app --tables public.a,public.b";
    let Command::Init(args) = command(line) else {
        panic!("not init")
    };
    let InitFrom::Connector(from) = args.from else {
        panic!("not from a connector")
    };
    assert_eq!(
        (from.url.as_str(), from.connector.as_str()),
        ("http://c:8083", "app")
    );
    assert_eq!(from.tables, ["public.a", "public.b"]);
    assert_eq!((from.job, from.sink), (None, SinkKind::Sqlite));
    refused("headwater init --connect http://c:8083", "--connector");
    refused(
        "headwater init --connector app --mutations a --snapshot b",
        "--connector",
    );
    refused(&format!("{line} --mutations a"), "--mutations");
}

#[test]
fn end_snapshot_is_for_g1_unless_told() {
    let Command::EndSnapshot(args) = command("headwater end-snapshot") else {
        panic!("not end-snapshot")
    };
    assert_eq!((args.generation.as_str(), args.again), ("g1", false));
    let Command::EndSnapshot(args) =
        command("headwater end-snapshot --generation g2 --again --set job=x")
    else {
        panic!("not end-snapshot")
    };
    assert_eq!((args.generation.as_str(), args.again), ("g2", true));
    assert_eq!(args.origin.sets, ["job=x"]);
    refused("headwater end-snapshot --generation=", "--generation");
}

#[test]
fn checkpoint_looks_at_the_newest_unless_told() {
    let verb = |line: &str| match command(line) {
        Command::Checkpoint(args) => (args.verb, args.json, args.origin),
        other => panic!("{line}: {other:?}"),
    };
    let (list, json, origin) = verb("headwater checkpoint ls -c a.toml --set job=x --json");
    assert_eq!((list, json), (CheckpointVerb::List, true));
    assert_eq!(origin.path, Some(PathBuf::from("a.toml")));
    assert_eq!(origin.sets, ["job=x"]);
    let one = |number, all| CheckpointVerb::Verify { number, all };
    for (line, expected) in [
        ("verify", one(None, false)),
        ("verify 7", one(Some(7), false)),
        ("verify --all", one(None, true)),
        ("explain", CheckpointVerb::Explain { number: None }),
        ("explain 3", CheckpointVerb::Explain { number: Some(3) }),
    ] {
        let (found, json, _) = verb(&format!("headwater checkpoint {line}"));
        assert_eq!((found, json), (expected, false), "{line}");
    }
    refused("headwater checkpoint verify 7 --all", "--all");
    refused("headwater checkpoint explain 0", "0");
    refused("headwater checkpoint explain x", "x");
    refused("headwater checkpoint list", "ls");
    refused("headwater checkpoint", "a command is missing");
}

#[test]
fn demo_check_config() {
    let Command::Demo(demo) = command("headwater demo --seconds 100 --writers 3 --hold") else {
        panic!("not demo")
    };
    let expected = DemoArgs {
        seconds: 100,
        keys: 10_000,
        writers: 3,
        workers: 2,
        json: false,
        hold: true,
        without_markers: false,
        dir: None,
    };
    assert_eq!(demo, expected);
    refused("headwater demo --seconds 0", "0");
    refused("headwater demo --workers 0", "`--workers` is 0");
    assert!(matches!(command("headwater check --json"), Command::Check(args) if args.json));
    assert!(matches!(command("headwater config -c x"), Command::Config(o) if o.path.is_some()));
    assert!(matches!(command("headwater --version"), Command::Say(text) if text.contains("0.")));
}

#[test]
fn verbs_about_rows_have_their_defaults() {
    let Command::Verify(args) = command("headwater verify") else {
        panic!("not verify")
    };
    assert_eq!((args.lag, args.keys_max), (Duration::from_secs(30), 10));
    assert!(!args.show_values && !args.json && args.tables.is_empty());
    let Command::Verify(args) = command("headwater verify --lag 2m --table a --table b") else {
        panic!("not verify")
    };
    assert_eq!((args.lag, args.tables.len()), (Duration::from_secs(120), 2));
    refused("headwater verify --lag soon", "--lag");
    refused("headwater quarantine", "a command is missing");
    refused("headwater quarantine signal --keys-max 0", "1 or more");
    refused("headwater quarantine signal --type full", "incremental");
    assert!(matches!(
        command("headwater quarantine ls --table public.hello -c a.toml"),
        Command::Quarantine(_)
    ));
}

#[test]
fn the_verbs_that_ask_have_their_flags() {
    let Command::WaitReady(wait) = command("headwater wait-ready") else {
        panic!("another command")
    };
    assert_eq!(wait.timeout, Duration::from_secs(1_800));
    let Command::WaitReady(wait) = command("headwater wait-ready --timeout 90s -c a.toml") else {
        panic!("another command")
    };
    assert_eq!(wait.timeout, Duration::from_secs(90));
    assert_eq!(wait.origin.path, Some(PathBuf::from("a.toml")));
    let Command::Status(status) = command("headwater status --json --set job=x") else {
        panic!("another command")
    };
    assert!(status.json && status.origin.sets == ["job=x"]);
    refused("headwater wait-ready --timeout soon", "--timeout");
}

#[test]
fn explain_takes_a_table_a_key_and_a_search() {
    let explain = |line: &str| match command(line) {
        Command::Explain(args) => args,
        other => panic!("{line}: {other:?}"),
    };
    let args = explain("headwater explain public.hello {\"id\":5} --json -c a.toml");
    assert_eq!((&*args.table, &*args.key), ("public.hello", "{\"id\":5}"));
    assert_eq!((args.search, args.values, args.json), (false, false, true));
    assert_eq!(args.origin.path, Some(PathBuf::from("a.toml")));
    let args = explain("headwater explain t --search --around 1h --values -5");
    assert_eq!((&*args.key, args.search, args.values), ("-5", true, true));
    assert_eq!(args.around, Duration::from_secs(3_600));
    refused("headwater explain public.hello", "KEY");
    refused("headwater explain t 5 --values", "--search");
    refused("headwater explain t 5 --around 1h", "--search");
    refused("headwater explain t 5 --search --around soon", "expected");
}
