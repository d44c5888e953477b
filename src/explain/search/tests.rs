//! Records of a key in topics in memory, around the time of its marker and before.

use super::{OfTopic, Searched, Wanted, search};
use crate::explain::facts::tests::world;
use crate::explain::key::read;
use crate::key::{Class, KeyShape};
use crate::table::Table;
use crate::topic::memory::{MemoryTopics, OwnedRecord};
use headwater_operators::merge::Looked;
use std::time::Duration;

/// The wall time at which the world of `facts` began.
const BEGAN_MS: i64 = 1_700_000_000_000;

fn record(op: &str, id: u64, at_ms: i64) -> OwnedRecord {
    let (before, after) = match op {
        "d" => (format!("{{\"id\":{id}}}"), "null".to_owned()),
        _ => ("null".to_owned(), format!("{{\"id\":{id}}}")),
    };
    let value = format!(
        "{{\"before\":{before},\"after\":{after},\"op\":\"{op}\",\"source\":{{\"ts_ms\":{at_ms},\
         \"snapshot\":\"{}\",\"schema\":\"public\",\"table\":\"hello\"}}}}",
        op == "r"
    );
    let key = format!("{{\"id\":{id}}}");
    OwnedRecord {
        timestamp_ms: at_ms,
        ..OwnedRecord::new(Some(&key), Some(&value))
    }
}

fn searched(topics: &MemoryTopics, marker: Option<u64>, values: bool) -> Searched {
    let tables = [Table {
        name: "public.hello".to_owned(),
        mutations: "m".to_owned(),
        snapshot: "s".to_owned(),
        key: None,
    }];
    let shape = KeyShape::new(vec![("id".to_owned(), Class::Number)]);
    let key = read(&tables[0], Some(&shape), Default::default(), "5").expect("a key");
    let mut world = world(marker, true, None);
    world.generations[0].topics.insert(0, "s2".to_owned());
    world.looked = Looked {
        marker,
        ..world.looked
    };
    let wanted = Wanted {
        topics,
        tables: &tables,
        number: 0,
        canonical: &key.canonical,
        decode: Default::default(),
        around: Duration::from_secs(1),
        values,
    };
    search(&wanted, &world.explained())
}

fn addresses(of: &OfTopic) -> Vec<(&'static str, &str)> {
    of.records
        .iter()
        .map(|found| (found.op, &*found.at))
        .collect()
}

fn topics() -> MemoryTopics {
    let topics = MemoryTopics::default();
    for (topic, partitions) in [("m", 2), ("s", 1), ("s2", 1)] {
        topics.create(topic, partitions);
    }
    topics
}

#[test]
fn mutations_around_the_marker_and_reads_wherever_they_are() {
    let topics = topics();
    for (partition, record) in [
        (0, record("c", 5, BEGAN_MS - 60_000)),
        (0, record("u", 6, BEGAN_MS)),
        (0, record("u", 5, BEGAN_MS + 400)),
        (0, record("d", 5, BEGAN_MS + 900)),
        (0, record("u", 5, BEGAN_MS + 60_000)),
        (1, record("u", 7, BEGAN_MS)),
    ] {
        topics.append("m", partition, record);
    }
    let tombstone = OwnedRecord {
        timestamp_ms: BEGAN_MS + 900,
        ..OwnedRecord::new(Some("{\"id\":5}"), None)
    };
    topics.append("m", 1, tombstone);
    topics.append("m", 1, OwnedRecord::new(Some("{"), Some("{")));
    topics.append("s", 0, record("r", 5, BEGAN_MS - 1));
    topics.append("s", 0, OwnedRecord::end_of_snapshot("g1"));
    topics.append("s2", 0, record("r", 5, BEGAN_MS - 60_000));
    let found = searched(&topics, Some(500), false);
    let names: Vec<_> = found
        .topics
        .iter()
        .map(|of| (of.role, &*of.topic))
        .collect();
    assert_eq!(
        names,
        [("mutations", "m"), ("snapshot", "s"), ("snapshot", "s2")]
    );
    assert_eq!(
        addresses(&found.topics[0]),
        [
            ("UPDATE", "m[0]@2"),
            ("DELETE", "m[0]@3"),
            ("TOMBSTONE", "m[1]@1")
        ]
    );
    let first = &found.topics[0].records[0];
    assert_eq!(
        first.source_time.as_deref(),
        Some("2023-11-14T22:13:20.400Z")
    );
    assert_eq!(
        (first.log_time.clone(), &first.value),
        (first.source_time.clone(), &None)
    );
    let mutations = &found.topics[0];
    assert_eq!((mutations.read, mutations.undecodable), (6, 1));
    assert_eq!(
        mutations.span,
        "written from 2023-11-14T22:13:19.500Z to 2023-11-14T22:13:21.500Z"
    );
    assert_eq!(addresses(&found.topics[1]), [("READ", "s[0]@0")]);
    assert_eq!(addresses(&found.topics[2]), [("READ", "s2[0]@0")]);
    let shown = searched(&topics, Some(500), true);
    let value = shown.topics[0].records[0]
        .value
        .as_deref()
        .expect("asked for");
    assert!(value.contains("\"op\":\"u\""), "{value}");
}

#[test]
fn an_old_record_that_was_read_late_is_found_before() {
    let topics = topics();
    for number in 0..30 {
        topics.append("m", 0, record("u", 5, BEGAN_MS - 90_000 + number));
    }
    let found = searched(&topics, Some(500), false);
    let mutations = &found.topics[0];
    assert_eq!(mutations.span, "written until 2023-11-14T22:13:21.500Z");
    assert_eq!((mutations.records.len(), mutations.more), (20, true));
    assert_eq!(mutations.records[19].at, "m[0]@29", "the last ones");
    // Without a marker there is nothing to be found before.
    let found = searched(&topics, None, false);
    assert_eq!(found.topics[0].records, []);
    assert_eq!(found.topics[0].span, "written since 2023-11-14T22:13:21Z");
}

#[test]
fn a_topic_that_is_not_there_is_told_and_the_others_are_read() {
    let topics = MemoryTopics::default();
    topics.create("s", 1);
    topics.append("s", 0, record("r", 5, BEGAN_MS));
    let found = searched(&topics, Some(500), false);
    let trouble = found.topics[0].trouble.as_deref().expect("there is no m");
    assert!(trouble.contains("`m`"), "{trouble}");
    assert_eq!(addresses(&found.topics[1]), [("READ", "s[0]@0")]);
    assert!(found.topics[2].trouble.is_some());
}
