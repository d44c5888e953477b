//! Every body, good and bad.

use super::{Verb, generation_id, limits, reads, request_id, ttl, verb};
use crate::generation::Body;
use crate::table::Table;
use headwater_operators::control::PartitionTarget;

fn tables() -> Vec<Table> {
    vec![Table {
        name: "public.hello".to_owned(),
        mutations: "m".to_owned(),
        snapshot: "s".to_owned(),
        key: None,
    }]
}

fn asked(word: &str, body: &str) -> Result<(Option<String>, Verb), (u16, String)> {
    let read = verb("g1", word, body.as_bytes(), &tables());
    read.map_err(|refused| (refused.code.as_u16(), refused.text))
}

#[test]
fn verbs_ask_for_what_they_say() {
    let generation = "g1".to_owned();
    let end = PartitionTarget {
        topic: "s".to_owned(),
        partition: 1,
        end: 7,
    };
    let text = |text: &str| text.to_owned();
    let table = [
        (
            "finish",
            r#"{"ends": [{"topic": "s", "partition": 1, "end": 7}]}"#,
            Body::Finish {
                generation: generation.clone(),
                ends: vec![end],
            },
        ),
        (
            "finish",
            "",
            Body::Finish {
                generation: generation.clone(),
                ends: vec![],
            },
        ),
        (
            "abort",
            r#"{"reason": "wrong table"}"#,
            Body::Abort {
                generation: generation.clone(),
                reason: text("wrong table"),
            },
        ),
        (
            "drop-table",
            r#"{"table": "public.hello"}"#,
            Body::DropTable {
                generation: generation.clone(),
                table: 0,
            },
        ),
        (
            "accept-lag",
            "{}",
            Body::AcceptLag {
                generation: generation.clone(),
            },
        ),
        (
            "demote",
            r#"{"by": "me", "reason": "slow"}"#,
            Body::Demote {
                generation: generation.clone(),
                by: text("me"),
                reason: text("slow"),
            },
        ),
    ];
    for (word, body, expected) in table {
        assert_eq!(
            asked(word, body),
            Ok((None, Verb::Plain(expected))),
            "{word}"
        );
    }
}

#[test]
fn a_loss_is_accepted_for_one_generation() {
    let (_, accept) = asked("accept-dead-letters", "{}").expect("a verb");
    let generation = "g1".to_owned();
    let wanted = Body::AcceptDeadLetters { generation };
    assert_eq!(accept, Verb::Plain(wanted));
}

#[test]
fn a_promotion_has_an_id_and_what_is_accepted() {
    let text = |text: &str| text.to_owned();
    let (id, promote) = asked(
        "promote",
        r#"{"id": "x", "by": "me", "accept_ghosts": true}"#,
    )
    .expect("a promotion");
    let accepted = vec![text("ghosts")];
    let by = text("me");
    assert_eq!(id.as_deref(), Some("x"));
    assert_eq!(promote, Verb::Promote { by, accepted });
}

#[test]
fn what_is_wrong_is_named() {
    for (word, body, code, part) in [
        ("abort", "{}", 400, "`reason` is missing"),
        ("abort", r#"{"reason": " "}"#, 400, "`reason` is missing"),
        ("abort", r#"{"table": "t"}"#, 400, "`table` is no member"),
        ("abort", "[]", 400, "the body"),
        ("abort", r#"{"reason": 3}"#, 400, "the body"),
        ("drop-table", r#"{"table": "t"}"#, 404, "public.hello"),
        ("finish", r#"{"ends": [{"topic": "s"}]}"#, 400, "partition"),
        ("promote", "{}", 400, "`by` is missing"),
        (
            "promote",
            r#"{"by": "me", "accept": ["late"]}"#,
            400,
            "late",
        ),
        ("demote", r#"{"by": "me"}"#, 400, "`reason`"),
        ("explode", "{}", 404, "explode"),
    ] {
        let (found, text) = asked(word, body).expect_err(word);
        assert_eq!(found, code, "{word} {body}: {text}");
        assert!(text.contains(part), "{word} {body}: {text}");
    }
}

#[test]
fn reads_ttl_and_limits() {
    let body = |text: &str| reads(text.as_bytes()).map(|(_, body)| body);
    let expected = |paused, per_second_max| {
        Ok(Body::Reads {
            paused,
            per_second_max,
        })
    };
    assert_eq!(body(r#"{"paused": true}"#), expected(Some(true), None));
    let none = body(r#"{"per_second_max": null}"#);
    assert_eq!(none, expected(None, Some(None)));
    let some = body(r#"{"per_second_max": 5}"#);
    assert_eq!(some, expected(None, Some(Some(5))));
    for bad in ["{}", r#"{"per_second_max": 0}"#, r#"{"pause": true}"#] {
        assert!(body(bad).is_err(), "{bad}");
    }
    let days = ttl(br#"{"ttl": "5d"}"#).expect("five days").1;
    assert_eq!(
        days,
        Body::Ttl {
            ttl_ms: 432_000_000
        }
    );
    for bad in [&br#"{"ttl": "5"}"#[..], br#"{"ttl": "0s"}"#, b"{}"] {
        assert!(ttl(bad).is_err());
    }
    let max = limits(br#"{"markers_max": 9, "id": "k"}"#).expect("nine");
    assert_eq!(
        max,
        (Some("k".to_owned()), Body::MarkersMax { markers_max: 9 })
    );
    assert!(limits(br#"{"markers_max": 0}"#).is_err());
}

#[test]
fn ids_that_cannot_be_written_everywhere_are_refused() {
    for good in ["g2", "2026-11-29.a_b"] {
        assert!(generation_id(good).is_ok(), "{good}");
    }
    for bad in ["", ".g", "g/2", "g 2", "gé", &"g".repeat(101)] {
        assert!(generation_id(bad).is_err(), "{bad}");
    }
    assert!(request_id("a/b:c").is_ok());
    for bad in ["", "a b", &"g".repeat(201)] {
        assert!(request_id(bad).is_err(), "{bad}");
    }
}
