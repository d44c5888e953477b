//! Arguments of the verbs that change a running job.

use super::{GenerationVerb, Tune};
use crate::cli::{Command, parse};
use crate::error::ErrorKind;
use headwater_operators::control::PartitionTarget;
use std::time::Duration;

fn verb(line: &str) -> GenerationVerb {
    let line = format!("headwater generation {line}");
    match parse(line.split(' ')) {
        Ok(Command::Generation(args)) => args.verb,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str, part: &str) {
    let error = parse(line.split(' ')).expect_err(line);
    assert_eq!(error.kind, ErrorKind::Usage, "{line}");
    assert!(error.text.contains(part), "{line}: {error}");
}

#[test]
fn every_verb_has_its_flags() {
    let one = || Some("g2".to_owned());
    let text = |text: &str| text.to_owned();
    let GenerationVerb::Open(open) = verb(
        "open --snapshot a=s --snapshot b=file:x=y --id g2 --started-at 2026-11-29T10:00:03Z \
         --connector snap --notifications n",
    ) else {
        panic!("not open")
    };
    let pairs = [(text("a"), text("s")), (text("b"), text("file:x=y"))];
    assert_eq!(open.snapshot, pairs);
    assert_eq!((open.id, open.connector), (one(), Some(text("snap"))));
    let end = PartitionTarget {
        topic: text("file:s"),
        partition: 3,
        end: 12,
    };
    let (reason, table) = (text("r"), text("t"));
    for (line, expected) in [
        ("ls", GenerationVerb::List),
        ("show", GenerationVerb::Show(None)),
        ("show g2", GenerationVerb::Show(one())),
        ("report g2 --json", GenerationVerb::Report(one())),
        (
            "finish g2 --end file:s[3]=12",
            GenerationVerb::Finish {
                id: one(),
                ends: vec![end],
            },
        ),
        (
            "abort g2 --reason r",
            GenerationVerb::Abort {
                id: one(),
                reason: reason.clone(),
            },
        ),
        (
            "drop-table --table t",
            GenerationVerb::DropTable { id: None, table },
        ),
        ("accept-lag g2", GenerationVerb::AcceptLag(one())),
        (
            "accept-dead-letters g2",
            GenerationVerb::AcceptDeadLetters(one()),
        ),
        ("pause", GenerationVerb::Pause(true)),
        ("resume", GenerationVerb::Pause(false)),
        ("rate 500", GenerationVerb::Rate(Some(500))),
        ("rate off", GenerationVerb::Rate(None)),
        (
            "promote g2 --by me --accept live_lag --accept-ghosts",
            GenerationVerb::Promote {
                id: one(),
                by: Some(text("me")),
                accept: vec![text("live_lag"), text("ghosts")],
            },
        ),
        (
            "demote g2 --reason r",
            GenerationVerb::Demote {
                id: one(),
                by: None,
                reason,
            },
        ),
    ] {
        assert_eq!(verb(line), expected, "{line}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    refused("headwater generation", "a command is missing");
    refused("headwater generation open", "--snapshot");
    refused("headwater generation open --snapshot a", "TABLE=TOPIC");
    refused(
        "headwater generation open --snapshot a=b --started-at noon",
        "RFC 3339",
    );
    refused("headwater generation finish --end s=1", "TOPIC[PARTITION]");
    refused("headwater generation rate 0", "off");
    refused("headwater ttl 5", "5d");
    refused("headwater markers-max 0", "0");
    refused("headwater status --control https://a:1", "no TLS");
}

#[test]
fn another_job_is_asked_by_its_url() {
    let line = "headwater ttl 5d --control http://db:7070/ --set job=x";
    let Ok(Command::Tune(args)) = parse(line.split(' ')) else {
        panic!("not ttl")
    };
    assert_eq!(args.tune, Tune::Ttl(Duration::from_secs(432_000)));
    assert_eq!(args.origin.sets, ["job=x", "control.listen=db:7070"]);
    let line = "headwater generation --control 127.0.0.1:7071 ls";
    let Ok(Command::Generation(args)) = parse(line.split(' ')) else {
        panic!("not generation")
    };
    assert_eq!(args.origin.sets, ["control.listen=127.0.0.1:7071"]);
    let line = "headwater generation pause -c a.toml --set job=x --control http://b:1";
    let Ok(Command::Generation(args)) = parse(line.split(' ')) else {
        panic!("not generation")
    };
    assert_eq!(args.origin.path, Some("a.toml".into()));
    assert_eq!(args.origin.sets, ["job=x", "control.listen=b:1"]);
}
