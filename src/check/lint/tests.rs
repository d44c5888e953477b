//! Real configurations, changed in one setting each, and what must be found.

use super::{Lint, lint};
use crate::check::Level;
use crate::connector::Connector;
use crate::connector::tests::{LIVE, SNAPSHOT, connector};
use crate::table::Table;

const INCREMENTAL: &str =
    include_str!("../../../tests/services/connectors/incremental-read-only.json");
const ONE_TOPIC: &str = include_str!("../../../tests/services/connectors/snapshot-one-topic.json");

fn table() -> Vec<Table> {
    vec![Table {
        name: "public.hello".to_owned(),
        mutations: "app.public.hello".to_owned(),
        snapshot: "snap_g1.public.hello".to_owned(),
        key: None,
    }]
}

/// The recipes with all that the job asks for.
fn live(changes: &[(&str, &str)]) -> Connector {
    let asked = [
        ("heartbeat.interval.ms", "10000"),
        ("decimal.handling.mode", "string"),
    ];
    connector("app", LIVE, &[&asked[..], changes].concat())
}

fn snapshot(changes: &[(&str, &str)]) -> Connector {
    let asked = [("decimal.handling.mode", "string")];
    connector("snap", SNAPSHOT, &[&asked[..], changes].concat())
}

/// Level, found and expected of each finding.
fn found(connectors: &[Connector]) -> Vec<(Level, String)> {
    found_from(connectors, false)
}

fn found_from(connectors: &[Connector], replica: bool) -> Vec<(Level, String)> {
    let tables = table();
    let given = Lint {
        connectors,
        live: Some("app"),
        snapshot: Some("snap"),
        tables: &tables,
        notifications: Some("snap_g1.notifications"),
        heartbeat: Some("__debezium-heartbeat.app"),
        signal_table: None,
        replica,
        decimals: None,
        generated: &[],
    };
    let say = |one: crate::check::Finding| {
        let expected = one.expected.clone().unwrap_or_default();
        (
            one.level,
            format!("{}: {} / {expected} {:?}", one.thing, one.found, one.advice),
        )
    };
    lint(&given).into_iter().map(say).collect()
}

/// One finding of `level` says `part`; all others are good.
fn only(connectors: &[Connector], level: Level, part: &str) {
    let found = found(connectors);
    let bad: Vec<_> = found.iter().filter(|(one, _)| *one != Level::Ok).collect();
    assert!(
        bad.len() == 1 && bad[0].0 == level && bad[0].1.contains(part),
        "one {level:?} with `{part}`, not {found:#?}"
    );
}

#[test]
fn the_recipes_with_what_the_job_asks_for_are_good() {
    let found = found(&[live(&[]), snapshot(&[])]);
    assert!(
        found.iter().all(|(level, _)| *level == Level::Ok),
        "{found:#?}"
    );
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn each_setting_of_the_live_connector_is_found() {
    use Level::{Error, Warning};
    type Case<'a> = (&'a [(&'a str, &'a str)], Level, &'a str);
    let cases: [Case<'_>; 17] = [
        (
            &[("skipped.operations", "")],
            Warning,
            "TRUNCATE is not seen",
        ),
        (&[("skipped.operations", "u,t")], Error, "kind u never come"),
        (&[("heartbeat.interval.ms", "")], Warning, "no heartbeats"),
        (&[("topic.heartbeat.prefix", "beat")], Error, "beat.app"),
        (
            &[("snapshot.mode", "initial_only")],
            Error,
            "does not stream",
        ),
        (&[("snapshot.mode", "initial")], Warning, "emitted in place"),
        (&[("slot.name", "")], Warning, "debezium"),
        (&[("tombstones.on.delete", "false")], Warning, "compaction"),
        (&[("flush.lsn.source", "false")], Warning, "move its slot"),
        (&[("lsn.flush.mode", "manual")], Warning, "move its slot"),
        (
            &[("lsn.flush.mode", "connector_and_driver")],
            Warning,
            "trust_slot",
        ),
        (
            &[("errors.tolerance", "all")],
            Error,
            "errors.tolerance=none",
        ),
        (
            &[("event.processing.failure.handling.mode", "skip")],
            Error,
            "stale row",
        ),
        (
            &[("unavailable.value.placeholder", "?")],
            Error,
            "large column",
        ),
        (
            &[("table.include.list", "public.wide")],
            Error,
            "does not read public.hello",
        ),
        (
            &[("signal.data.collection", "public.sig")],
            Warning,
            "decode.signal_table",
        ),
        (
            &[("column.exclude.list", "public.hello.x")],
            Warning,
            "column lists or masks",
        ),
    ];
    for (changes, level, part) in cases {
        only(&[live(changes), snapshot(&[])], level, part);
    }
}

#[test]
fn a_flattened_topic_must_show_deletes() {
    use Level::{Error, Warning};
    let unwrap: [(&str, &str); 3] = [
        ("transforms", "flat"),
        (
            "transforms.flat.type",
            "io.debezium.transforms.ExtractNewRecordState",
        ),
        ("transforms.flat.add.fields", "op,source.ts_ms"),
    ];
    let flat = |mode: &str| {
        let mode = [("transforms.flat.delete.tombstone.handling.mode", mode)];
        let changes = [&unwrap[..], &mode].concat();
        found(&[live(&changes), snapshot(&unwrap)])
    };
    let says = |found: &[(Level, String)], level, part: &str| {
        found
            .iter()
            .any(|one| one.0 == level && one.1.contains(part))
    };
    assert!(says(&flat("drop"), Error, "drops deletes"));
    assert!(says(&flat(""), Warning, "4 bytes `null`"));
    let wrong = |one: &&(Level, String)| one.0 != Level::Ok && one.1.contains("connector app: ");
    assert_eq!(flat("rewrite").iter().find(wrong), None);
}

#[test]
fn a_failed_task_is_found_under_a_connector_that_runs() {
    let mut failed = live(&[]);
    failed.tasks[0].state = "FAILED".to_owned();
    failed.tasks[0].trace = Some("java.lang.NoClassDefFoundError".to_owned());
    let part = "task 0 FAILED while the connector says RUNNING: java.lang.NoClassDefFoundError";
    only(&[failed, snapshot(&[])], Level::Error, part);
    let mut paused = live(&[]);
    paused.state = "PAUSED".to_owned();
    only(&[paused, snapshot(&[])], Level::Warning, "it is PAUSED");
    let mut bare = live(&[]);
    bare.tasks.clear();
    only(&[bare, snapshot(&[])], Level::Warning, "without a task");
    only(&[snapshot(&[])], Level::Error, "the worker has snap");
    // Not there yet is how it should be.
    let found = found(&[live(&[])]);
    assert!(
        found.iter().all(|(level, _)| *level == Level::Ok),
        "{found:#?}"
    );
}

#[test]
fn each_setting_of_the_snapshot_connector_is_found() {
    use Level::{Error, Warning};
    type Case<'a> = (&'a [(&'a str, &'a str)], Level, &'a str);
    let cases: [Case<'_>; 9] = [
        (
            &[("snapshot.mode", "initial")],
            Error,
            "changes come to its topic",
        ),
        (
            &[
                ("snapshot.mode", "no_data"),
                ("skipped.operations", "c,u,d,t"),
            ],
            Error,
            "reads nothing",
        ),
        (
            &[("notification.enabled.channels", "")],
            Warning,
            "sends no notifications",
        ),
        (
            &[("notification.sink.topic.name", "other")],
            Error,
            "its notifications are in other",
        ),
        (
            &[("topic.creation.groups", "")],
            Warning,
            "with 4 partitions",
        ),
        (
            &[("snapshot.select.statement.overrides", "public.hello")],
            Warning,
            "only a part of public.hello",
        ),
        (
            &[("message.key.columns", "public.hello:id")],
            Error,
            "message.key.columns",
        ),
        (&[("time.precision.mode", "connect")], Warning, "two forms"),
        (
            &[("topic.prefix", "snap_g2")],
            Warning,
            "snap_g2.public.hello",
        ),
    ];
    for (changes, level, part) in cases {
        let one = [("topic.creation.default.partitions", "1")];
        // The topic `other` is in no group of its own.
        let more = if part.contains("in other") {
            &one[..]
        } else {
            &[]
        };
        let changes = [changes, more].concat();
        only(&[live(&[]), snapshot(&changes)], level, part);
    }
}

#[test]
fn incremental_snapshots_are_judged_by_their_signals() {
    let incremental = |changes: &[(&str, &str)]| {
        let same = [
            ("topic.prefix", "snap_g1"),
            ("notification.sink.topic.name", "snap_g1.notifications"),
            ("decimal.handling.mode", "string"),
        ];
        connector("snap", INCREMENTAL, &[&same[..], changes].concat())
    };
    let pair = |changes: &[(&str, &str)]| [live(&[]), incremental(changes)];
    only(&pair(&[]), Level::Warning, "an incremental snapshot");
    let by_table = [
        ("signal.enabled.channels", ""),
        ("read.only", ""),
        ("signal.data.collection", "public.sig"),
    ];
    let all = found(&pair(&by_table));
    assert!(
        all.iter().any(|one| one.1.contains("never sees the rows")),
        "{all:#?}"
    );
    let seen = [&by_table[..], &[("skipped.operations", "u,d,t")]].concat();
    only(&pair(&seen), Level::Warning, "an incremental snapshot");
    // The live connector obeys the same table.
    let both = [
        live(&[("signal.data.collection", "public.sig")]),
        incremental(&seen),
    ];
    let all = found(&both);
    assert!(
        all.iter().any(|one| one.1.contains("both obey")),
        "{all:#?}"
    );
    let slots = pair(&[("slot.name", "app")]);
    assert!(
        found(&slots)
            .iter()
            .any(|one| one.1.contains("both use the slot `app`"))
    );
}

#[test]
fn one_prefix_needs_a_router_and_a_tag() {
    let routed = |changes: &[(&str, &str)]| {
        let same = [
            ("notification.sink.topic.name", "snap_g1.notifications"),
            ("decimal.handling.mode", "string"),
            ("transforms.private.regex", r"app\.(.*)"),
            ("transforms.private.replacement", "snap_g1.$1"),
        ];
        connector("snap", ONE_TOPIC, &[&same[..], changes].concat())
    };
    let good = found(&[live(&[]), routed(&[])]);
    assert!(good.iter().all(|one| one.0 == Level::Ok), "{good:#?}");
    only(
        &[live(&[]), routed(&[("custom.metric.tags", "")])],
        Level::Warning,
        "111 s",
    );
    let all = found(&[live(&[]), routed(&[("transforms", "")])]);
    let both = |one: &(Level, String)| one.0 == Level::Error && one.1.contains("both write to");
    assert!(all.iter().any(both), "{all:#?}");
}

#[test]
fn a_snapshot_that_reads_another_server_is_declared() {
    let other = [live(&[]), snapshot(&[("database.port", "15433")])];
    only(&other, Level::Warning, "reads 127.0.0.1:15433");
    let declared = found_from(&other, true);
    assert!(
        declared.iter().all(|(level, _)| *level == Level::Ok),
        "{declared:#?}"
    );
}

#[test]
fn decimals_are_judged_by_what_is_known() {
    let precise = [live(&[("decimal.handling.mode", "precise")]), {
        snapshot(&[("decimal.handling.mode", "precise")])
    }];
    let tables = table();
    let of = |decimals: Option<&[String]>| {
        let given = Lint {
            connectors: &precise,
            live: Some("app"),
            snapshot: None,
            tables: &tables,
            notifications: None,
            heartbeat: Some("__debezium-heartbeat.app"),
            signal_table: None,
            replica: false,
            decimals,
            generated: &[],
        };
        lint(&given)
            .iter()
            .map(|one| one.found.clone())
            .collect::<Vec<_>>()
    };
    let says = |found: &[String], part: &str| found.iter().any(|one| one.contains(part));
    assert!(says(&of(None), "columns of type numeric"));
    assert!(says(
        &of(Some(&["public.hello.price".to_owned()])),
        "public.hello.price"
    ));
    assert!(!says(&of(Some(&[])), "decimal"));
    let with_schema = [(
        "value.converter",
        "org.apache.kafka.connect.json.JsonConverter",
    )];
    let precise = [live(
        &[&with_schema[..], &[("decimal.handling.mode", "")]].concat(),
    )];
    let found = found(&precise);
    assert!(
        !found.iter().any(|one| one.1.contains("app: decimal")),
        "{found:#?}"
    );
}
