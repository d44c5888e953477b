//! Names that real configurations lead to.

use super::Connector;
use std::collections::BTreeMap;

pub(crate) const LIVE: &str = include_str!("../../tests/services/connectors/live.json");
pub(crate) const SNAPSHOT: &str = include_str!("../../tests/services/connectors/snapshot.json");

/// A connector that runs, of a configuration in JSON, with changes; an empty value removes.
pub(crate) fn connector(name: &str, config: &str, changes: &[(&str, &str)]) -> Connector {
    let mut config: BTreeMap<String, String> = serde_json::from_str(config).expect("JSON");
    for (key, value) in changes {
        match value.is_empty() {
            true => drop(config.remove(*key)),
            false => drop(config.insert((*key).to_owned(), (*value).to_owned())),
        }
    }
    let task = super::TaskState {
        id: 0,
        state: "RUNNING".to_owned(),
        trace: None,
    };
    Connector {
        name: name.to_owned(),
        config,
        state: "RUNNING".to_owned(),
        tasks: vec![task],
    }
}

#[test]
fn secrets_are_not_shown() {
    let live = connector("app", LIVE, &[("database.password", "hunter2")]);
    assert!(!format!("{live:?}").contains("hunter2"));
}

#[test]
fn names_follow_from_the_configuration() {
    let live = connector("app", LIVE, &[]);
    assert_eq!(
        live.tables().expect("plain"),
        ["public.hello", "public.wide"]
    );
    assert_eq!(live.topic_of("public.hello").name, "app.public.hello");
    assert_eq!(live.reads("public.hello"), Some(true));
    assert_eq!(live.reads("public.other"), Some(false));
    assert_eq!(live.heartbeat_topic(), None);
    let live = connector(
        "app",
        LIVE,
        &[
            ("heartbeat.interval.ms", "10000"),
            ("table.include.list", r"public\.hello,other.*"),
            ("transforms", "unwrap,short,odd"),
            (
                "transforms.unwrap.type",
                "io.debezium.transforms.ExtractNewRecordState",
            ),
            (
                "transforms.short.type",
                "org.apache.kafka.connect.transforms.RegexRouter",
            ),
            ("transforms.short.regex", r"app\.public\.(.*)"),
            ("transforms.short.replacement", "live.$1"),
            ("transforms.odd.type", "com.example.Odd$Value2"),
        ],
    );
    let topic = live.topic_of("public.hello");
    assert_eq!(topic.name, "live.hello");
    assert_eq!(topic.open, ["odd (Value2)"]);
    let heartbeat = live.heartbeat_topic().expect("it sends them");
    assert_eq!(heartbeat.name, "__debezium-heartbeat.app");
    assert_eq!(live.reads("public.hello"), Some(true));
    assert_eq!(live.reads("public.wide"), None);
    assert_eq!(live.tables(), Err("other.*".to_owned()));
}

#[test]
fn created_partitions_follow_the_groups() {
    let snapshot = connector("snap", SNAPSHOT, &[]);
    assert_eq!(
        snapshot.created_partitions("snap_g1.notifications"),
        Some(1)
    );
    assert_eq!(snapshot.created_partitions("snap_g1.public.hello"), Some(4));
    let odd = connector(
        "snap",
        SNAPSHOT,
        &[("topic.creation.notes.include", "(a|b)")],
    );
    assert_eq!(odd.created_partitions("a"), None);
    let notes = snapshot.notification_topic().expect("it sends them");
    assert_eq!(notes.name, "snap_g1.notifications");
}
