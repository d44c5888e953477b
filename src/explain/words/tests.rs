//! What a person reads, for every verdict.

use super::text;
use crate::explain::facts::Source;
use crate::explain::facts::tests::{World, world};
use crate::explain::search::{Found, OfTopic, Searched};
use headwater_operators::decide::OnForgotten;

#[test]
fn a_dropped_read_in_words() {
    assert_eq!(
        text(&world(Some(500), true, Some(50)).explained(), None),
        "key public.hello {\"id\":5}\n\
         \x20 marked at 2023-11-14T22:13:20.500Z (`--search` shows the record)\n\
         \x20 g1 (open): a READ of this key is dropped: reason `marker`\n\
         \x20     its marker is in the window, which begins 2023-11-14T22:13:20.100Z\n\
         \x20 the marker is kept until g1 is ready\n\
         as the running job hello knows it, 2023-11-14T22:13:22Z\n"
    );
}

#[test]
fn every_verdict_has_its_words() {
    let told = |world: &World, parts: &[&str]| {
        let text = text(&world.explained(), None);
        for part in parts {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    };
    told(
        &world(None, true, None),
        &[
            "no marker: no mutation",
            "is emitted\n",
            "none of its markers was forgotten",
        ],
    );
    told(
        &world(Some(99), true, None),
        &["is emitted\n", "older than the window, and does not count"],
    );
    told(
        &world(Some(500), false, None),
        &["g1 (ready): ", "reason `superseded`", "takes no READs"],
    );
    let mut forgotten = world(None, true, Some(300));
    let through = "markers through 2023-11-14T22:13:20.300Z were forgotten";
    for (on_forgotten, words) in [
        (
            OnForgotten::Quarantine,
            "may be stale and is quarantined: reason `forgotten`",
        ),
        (
            OnForgotten::Emit,
            "may be stale and is emitted all the same",
        ),
        (OnForgotten::Fail, "may be stale and ends the job"),
    ] {
        forgotten.on_forgotten = on_forgotten;
        told(&forgotten, &[words, "proves nothing", through]);
    }
    let mut off = world(Some(500), true, None);
    off.rule = false;
    off.source = Source::Checkpoint {
        number: 7,
        why: "127.0.0.1:7070 does not answer".to_owned(),
    };
    told(
        &off,
        &[
            "stale or not: the rule is off",
            "as checkpoint 7 knows it",
            "does not answer\n",
        ],
    );
}

#[test]
fn what_was_found_is_shown_by_topic() {
    let found = Found {
        at: "app.public.hello[2]@118220".to_owned(),
        partition: 2,
        offset: 118_220,
        op: "UPDATE",
        source_time: Some("2023-11-14T22:13:20Z".to_owned()),
        log_time: None,
        value: Some("{}".to_owned()),
    };
    let of = OfTopic {
        role: "mutations",
        topic: "app.public.hello".to_owned(),
        span: "all of it".to_owned(),
        read: 2_000,
        undecodable: 3,
        records: vec![found],
        more: true,
        cut: true,
        trouble: Some("brokers are away".to_owned()),
    };
    let searched = Searched { topics: vec![of] };
    let text = text(&world(Some(500), true, None).explained(), Some(&searched));
    assert!(!text.contains("--search"), "{text}");
    let (_, tail) = text.split_once("\nmutations ").expect("the topic");
    assert_eq!(
        tail,
        "app.public.hello: 1 of this key in 2,000 records, the last are shown \
         (all of it, 3 could not be decoded, time ran out)\n\
         \x20 UPDATE   app.public.hello[2]@118220  source time 2023-11-14T22:13:20Z, \
         written not told\n    {}\n\
         \x20 brokers are away\n"
    );
}
