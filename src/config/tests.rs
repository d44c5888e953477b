//! What is written is what is meant: keys, types, `--set`, redaction, round trips.

use super::choices::{KeepMarkers, OnForgotten, SinkKind};
use super::section::{Section, State};
use super::sections::TableConfig;
use super::{Config, Init, Loaded, Origin, starter};
use crate::error::{Error, ErrorKind};
use crate::topic::Start;
use std::time::Duration;

/// The sample that a person is shown.
const SAMPLE: &str = r#"
job = "hello"                        # names the checkpoints; one job = one rebuild target

[kafka]                              # any librdkafka property, as is (TLS, SASL…)
"bootstrap.servers" = "127.0.0.1:9092"

[[table]]                            # one for each table; topics may be shared by tables
name      = "public.hello"
mutations = "app.public.hello"       # shared, live
snapshot  = "snap_g1.public.hello"   # private, the first generation's READs
# key     = ["id"]                   # default: the record key's columns

[source]                             # all optional
notifications = "snap_g1.notifications"
heartbeat     = "__debezium-heartbeat.app"
connect       = { url = "http://connect:8083", live = "app", snapshot = "snap_g1" }
database      = "postgres://…"       # asked for its position and slot only

[retention]
keep_markers        = "until_ready"  # or "ttl" with ttl = "3d"
rebuild_alarm_after = "3d"
start_margin        = "15m"          # covers the lag of the replica that the snapshot reads
on_forgotten        = "quarantine"   # or "fail", "emit"

[promote]                            # checked at the moment of promotion, not before
source_finished = "counted"
caught_up       = "seen"
live_lag_max    = "5s"
# hook          = ["./swap-view.sh"]

[sink]
kind = "postgres"                    # kafka | postgres | sqlite | jsonl | null
url  = "postgres://…"

[quarantine]                         # default JSON lines beside the store
kind = "jsonl"

[checkpoint]
store    = "file:./state"            # s3://, gs://, az:// by object_store
interval = "10s"

[control]
listen = "127.0.0.1:7070"
"#;

const SMALL: &str = "[[table]]\nname = \"t\"\nmutations = \"file:m\"\nsnapshot = \"file:s\"\n";

fn parse(text: &str) -> Result<Loaded, Error> {
    Config::parse("headwater.toml", text, &[])
}

fn with_sets(text: &str, sets: &[&str]) -> Result<Loaded, Error> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Config::parse("headwater.toml", text, &sets)
}

fn good(result: Result<Loaded, Error>) -> Config {
    result.unwrap_or_else(|error| panic!("{error}")).config
}

/// The error, which must be of usage and say all of `parts`.
fn refused(result: Result<Loaded, Error>, parts: &[&str]) {
    let error = match result.and_then(|loaded| loaded.config.check().map(|()| loaded)) {
        Ok(loaded) => panic!("accepted: {:?}", loaded.config),
        Err(error) => error,
    };
    assert_eq!(error.kind, ErrorKind::Usage);
    for part in parts {
        assert!(error.text.contains(part), "`{part}` is not in:\n{error}");
    }
}

#[test]
fn the_sample_loads() {
    let loaded = parse(SAMPLE).unwrap_or_else(|error| panic!("{error}"));
    let config = &loaded.config;
    config.check().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.job.job, "hello");
    assert_eq!(config.tables()[0].snapshot, "snap_g1.public.hello");
    assert_eq!(config.retention.start_margin, Duration::from_secs(900));
    assert_eq!(config.retention.keep_markers, KeepMarkers::UntilReady);
    assert_eq!(config.sink.kind, SinkKind::Postgres);
    let properties = config.kafka_properties().expect("no secrets");
    assert_eq!(properties["bootstrap.servers"], "127.0.0.1:9092");
    assert!(loaded.notices.is_empty(), "{:?}", loaded.notices);
    let later = format!("{SMALL}[dead_letter]\nurl = \"lost\"\n");
    let notices = parse(&later).expect("loads").notices;
    assert_eq!(notices, ["not built yet: `dead_letter.url` ignored"]);
    assert!(parse(SMALL).expect("loads").notices.is_empty());
}

#[test]
fn unknown_keys_name_the_nearest_and_the_line() {
    refused(
        parse("job = \"a\"\n[retention]\nstart_margn = \"15m\"\n"),
        &[
            "`retention.start_margn`",
            "headwater.toml, line 3",
            "perhaps `retention.start_margin`",
        ],
    );
    refused(
        parse("[retension]\n"),
        &["`retension`", "line 1", "perhaps `retention`"],
    );
    refused(parse("jbo = 1\n"), &["unknown key `jbo`", "perhaps `job`"]);
    refused(
        parse(&format!("{SMALL}mutation = \"x\"\n")),
        &[
            "`table.0.mutation`",
            "line 5",
            "perhaps `table.0.mutations`",
        ],
    );
    refused(
        parse("[source]\nconnect = { urll = \"x\" }\n"),
        &[
            "`source.connect.urll`",
            "perhaps `source.connect.url`",
            "line 2",
        ],
    );
    refused(
        with_sets(SMALL, &["sink.kinds=null"]),
        &["`sink.kinds`", "--set sink.kinds", "perhaps `sink.kind`"],
    );
    refused(
        parse("[limits]\nqqqqqqqqqqqqqqqqqqqqqq = 1\n"),
        &["known", "tick_ms"],
    );
}

#[test]
fn wrong_types_say_found_expected_example() {
    for (text, parts) in [
        (
            "[retention]\n\nstart_margin = \"15 minutes\"\n",
            &[
                "`retention.start_margin`",
                "\"15 minutes\"",
                "line 3",
                "a duration",
                "\"15m\"",
            ][..],
        ),
        (
            "[retention]\nttl = 30\n",
            &["`retention.ttl`", "found     30 (", "ttl = \"3d\""],
        ),
        (
            "[limits]\ntick_ms = \"20\"\n",
            &["`limits.tick_ms`", "whole number", "tick_ms = 20"],
        ),
        (
            "[limits]\ntick_ms = -1\n",
            &["`limits.tick_ms`", "found     -1"],
        ),
        (
            "[limits]\ninflight_bytes_max = \"1 mb\"\n",
            &["a size", "\"64MiB\""],
        ),
        (
            "[sink]\nkind = \"postgresql\"\n",
            &["`sink.kind`", "\"postgresql\"", "\"postgres\""],
        ),
        ("job = 5\n", &["`job`", "text in quotes"]),
    ] {
        refused(parse(text), parts);
    }
}

#[test]
fn wrong_shapes_say_what_is_expected() {
    for (text, parts) in [
        ("job = \"\"\n", &["`job`"][..]),
        ("[[table]]\nkey = \"id\"\n", &["`table.0.key`", "a list"]),
        (
            "[source]\nstart = \"now\"\n",
            &["`source.start`", "\"beginning\""],
        ),
        (
            "[source]\nstart = 2026-11-29\n",
            &["`source.start`", "offset from UTC"],
        ),
        (
            "[source]\nconnect = \"x\"\n",
            &["`source.connect`", "a table with `url`"],
        ),
        ("sink = \"null\"\n", &["`sink` is a section", "[sink]"]),
        ("[table]\nname = \"x\"\n", &["`[[table]]`"]),
        ("[kafka]\nx = [1]\n", &["`kafka.\"x\"`", "a list"]),
        (
            "[kafka]\nbootstrap.servers = \"x\"\n",
            &["`kafka.\"bootstrap\"`", "the name in quotes"],
        ),
        (
            "[kafka]\n\"auto.offset.reset\" = \"latest\"\n",
            &["cannot be set", "line 2"],
        ),
        (
            "job = \"${JOB}\"\n",
            &["`job` does not follow references", "line 1"],
        ),
        (
            "[[table]]\nname = \"t\"\n",
            &["`table.0` lacks `mutations`"],
        ),
        ("job = \n", &["not valid TOML", "line 1"]),
        ("job = \"a\"\njob = \"b\"\n", &["not valid TOML", "line 2"]),
    ] {
        refused(parse(text), parts);
    }
}

#[test]
fn rules_between_settings() {
    refused(parse("job = \"a\"\n"), &["no table"]);
    refused(
        parse(&format!("{SMALL}{SMALL}")),
        &["`t` is configured twice"],
    );
    let kafka = SMALL.replace("file:m", "app.t");
    refused(
        parse(&kafka),
        &["no Kafka broker", "`app.t`", "bootstrap.servers"],
    );
    refused(
        parse(&SMALL.replace("file:s", "file:m")),
        &["`file:m` has two roles"],
    );
    refused(parse(&SMALL.replace("file:s", "file:")), &["has no path"]);
    for (set, part) in [
        ("sink.kind=postgres", "`sink.url` is not set"),
        ("sink.kind=kafka", "no Kafka broker"),
        ("quarantine.kind=postgres", "not built yet"),
        ("sink.topic=x", "`sink.topic` is not a key"),
        ("sink.connections=2", "`sink.connections` is not a key"),
        ("sink.names.other=x", "`sink.names` has `other`"),
        ("sink.batch_rows_max=0", "`sink.batch_rows_max` is 0"),
        ("limits.tick_ms=0", "`limits.tick_ms`"),
        (
            "limits.reads_per_second_max=0",
            "`limits.reads_per_second_max`",
        ),
        (
            "limits.reads_inflight_bytes_max=1GiB",
            "`limits.inflight_bytes_max`",
        ),
        ("source.start_offsets.app.t=[1]", "names `app.t`"),
        ("table.t.key=[]", "empty `key`"),
    ] {
        refused(with_sets(SMALL, &[set]), &[part]);
    }
}

#[test]
fn every_key_can_be_set_and_is_printed() {
    let names: Vec<&str> = Config::default()
        .sections()
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(names.len(), 11);
    let printed = Config::default().to_toml();
    for (index, name) in names.iter().enumerate() {
        let keys = Config::default().sections()[index].1.keys();
        let from = printed.find(&format!("\n[{name}]\n")).expect(name);
        let body = &printed[from + name.len() + 4..];
        let body = &body[..body.find("\n[").unwrap_or(body.len())];
        for (at, key) in keys.iter().enumerate() {
            let shown = key.default.as_ref().map_or_else(
                || format!("\n# {} = {}\n", key.name, key.example),
                |default| match key.state {
                    State::Later => format!("\n# {} = {default}\n", key.name),
                    _ => format!("\n{} = {default}", key.name),
                },
            );
            let derived =
                ["quarantine", "dead_letter", "sink"].contains(name) && key.name == "path";
            assert!(
                format!("\n{body}").contains(&shown) || derived,
                "{shown} in\n{body}"
            );
            assert!(
                body.contains(&format!("{} = ", key.name)),
                "{} in\n{body}",
                key.name
            );
            // As TOML, and as a shell passes it on, without its quotes.
            for value in [
                key.example.clone(),
                key.example.trim_matches('"').to_owned(),
            ] {
                let set = format!("{name}.{}={value}", key.name);
                let config = good(with_sets("", &[&set]));
                let values = config.sections()[index].1.values();
                assert_eq!(values[at].as_deref(), Some(key.example.as_str()), "{set}");
            }
        }
    }
    for key in TableConfig::default().keys() {
        assert!(
            printed.contains(&format!("# {} = {}", key.name, key.example)),
            "{}",
            key.name
        );
        let config = good(with_sets(
            SMALL,
            &[&format!("table.t.{}={}", key.name, key.example)],
        ));
        assert!(
            config
                .to_toml()
                .contains(&format!("\n{} = {}", key.name, key.example))
        );
    }
    assert_eq!(good(with_sets("", &["job=x"])).job.job, "x");
}

#[test]
fn set_wins_over_the_file_and_a_later_one_over_an_earlier() {
    let text = format!("[retention]\nstart_margin = \"1m\"\n{SMALL}");
    let sets = ["retention.start_margin=30m", "retention.on_forgotten=fail"];
    let config = good(with_sets(&text, &sets));
    assert_eq!(config.retention.start_margin, Duration::from_secs(1800));
    assert_eq!(config.retention.on_forgotten, OnForgotten::Fail);
    let config = good(with_sets(&text, &["job=a", "job = \"b.c\""]));
    assert_eq!(config.job.job, "b.c");
}

#[test]
fn set_reaches_properties_tables_and_nested_keys() {
    // With the quotes, and as a shell passes it on.
    for set in [
        "kafka.\"bootstrap.servers\"=h:1,i:2",
        "kafka.bootstrap.servers=h:1,i:2",
    ] {
        let properties = good(with_sets(SMALL, &[set]))
            .kafka_properties()
            .expect("no secrets");
        assert_eq!(properties["bootstrap.servers"], "h:1,i:2");
    }
    let text = SMALL.replace("\"t\"", "\"public.hello\"");
    for set in [
        "table.public.hello.key=id,region",
        "table.\"public.hello\".key=[id, region]",
        "table.0.key=[\"id\", \"region\"]",
    ] {
        let config = good(with_sets(&text, &[set]));
        assert_eq!(
            config.tables[0].key,
            Some(vec!["id".to_owned(), "region".to_owned()]),
            "{set}"
        );
    }
    refused(
        with_sets(&text, &["table.public.helo.key=id"]),
        &["`public.helo`", "public.hello"],
    );
    refused(
        with_sets(&format!("job = \"a\"\n{text}"), &["job.x=1"]),
        &["`--set job.x` names no key"],
    );
    refused(with_sets(&text, &["nonsense"]), &["number 1", "KEY=VALUE"]);
    let config = good(with_sets(
        SMALL,
        &[
            "source.connect.url=http://h",
            "source.start=2026-01-01T00:00:00Z",
        ],
    ));
    assert!(
        config
            .source
            .connect
            .is_some_and(|connect| connect.url.is_some())
    );
    assert_eq!(config.source.start, Start::Time(1_767_225_600_000));
    let config = good(with_sets(SMALL, &["source.start_offsets.file:m=[1, 2]"]));
    assert_eq!(config.source.start_offsets["file:m"], [1, 2]);
}

#[test]
fn secrets_never_show() {
    let text = format!(
        "{SMALL}[kafka]\n\"sasl.password\" = \"hunter2\"\n\"ssl.key.pem\" = \"hunter2\"\n\
         [sink]\nkind = \"postgres\"\nurl = \"postgres://app:hunter2@db/x\"\n\
         kafka = {{ \"sasl.password\" = \"hunter2\" }}\n\
         [cluster]\nsecret = \"hunter2\"\n\
         [source]\nconnect = {{ url = \"http://u:hunter2@c\" }}\n\
         database = \"host=x password=hunter2\"\n"
    );
    let config = good(parse(&text));
    for shown in [
        config.to_toml(),
        format!("{config:?}"),
        format!("{config:#?}"),
        config.agreement(),
    ] {
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("<redacted>"), "{shown}");
    }
    assert_eq!(
        config.kafka_properties().expect("literal")["sasl.password"],
        "hunter2"
    );
    let url = config
        .sink
        .url
        .as_ref()
        .expect("set")
        .resolve()
        .expect("literal");
    assert_eq!(url.expose(), "postgres://app:hunter2@db/x");
    // Wrong in every way that a password can be: no message quotes it.
    for (text, sets) in [
        ("[kafka]\n\"sasl.password\" = hunter2\n", &[][..]),
        ("[kafka]\n\"sasl.password\" = [\"hunter2\"]\n", &[]),
        ("[cluster]\nsecret = [\"hunter2\"]\n", &[]),
        ("[sink]\nurll = \"postgres://app:hunter2@db/x\"\n", &[]),
        ("[sink]\nkind = \"postgres://app:hunter2@db/x\"\n", &[]),
        ("sink = \"hunter2\"\n", &[]),
        ("", &["sink.urll=hunter2"]),
        ("", &["hunter2"]),
        ("", &["cluster=hunter2"]),
    ] {
        let error = with_sets(text, sets).expect_err(text);
        assert!(!error.text.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_missing_variable_is_named_when_it_is_needed() {
    let text = format!("{SMALL}[kafka]\n\"sasl.password\" = \"${{HEADWATER_TEST_NOT_SET}}\"\n");
    let config = good(parse(&text));
    assert!(
        config
            .to_toml()
            .contains("\"sasl.password\" = \"${HEADWATER_TEST_NOT_SET}\"")
    );
    let error = config.kafka_properties().expect_err("not set");
    assert_eq!(error.kind, ErrorKind::Usage);
    for part in [
        "`HEADWATER_TEST_NOT_SET` is not set",
        "`kafka.\"sasl.password\"`",
    ] {
        assert!(error.text.contains(part), "{error}");
    }
}

#[test]
fn what_is_printed_reads_back() {
    let odd = [
        "job=a \"b\" \\ c",
        "source.start=2026-01-01T00:00:00.5Z",
        "source.start_offsets.file:m=[1, 2]",
        "source.connect.live=app",
        "retention.ttl=90m",
        "limits.reads_per_second_max=5",
        "table.t.key=a,b",
        "kafka.fetch.max.bytes=1000",
        "promote.hook=[\"./x\", \"y z\"]",
        "sink.path=./a b/c.db",
        "sink.names.a.b=c",
        "sink.kafka.linger.ms=5",
        "sink.setup_sql=CREATE TABLE \"x\" (y);\n",
    ];
    for config in [
        good(parse("")),
        good(parse(SMALL)),
        good(parse(SAMPLE)),
        good(with_sets(SMALL, &odd)),
    ] {
        let printed = config.to_toml();
        assert_eq!(good(parse(&printed)), config, "{printed}");
    }
    for text in ["", SMALL] {
        let printed = good(parse(text)).to_toml();
        assert!(
            parse(&printed).expect("loads").notices.is_empty(),
            "{printed}"
        );
    }
    let config = good(with_sets(SMALL, &["retention.ttl=90m"]));
    assert!(config.to_toml().contains("ttl = \"90m\" # default \"3d\""));
}

#[test]
fn what_is_not_built_is_marked_where_it_is_printed() {
    let printed = Config::default().to_toml();
    let later: usize = Config::default()
        .sections()
        .iter()
        .flat_map(|(_, section)| section.keys())
        .filter(|key| key.state == State::Later)
        .count();
    assert!(later > 0);
    assert_eq!(printed.matches("(not built yet: ignored)").count(), later);
}

#[test]
fn processes_must_agree_on_all_but_the_control_plane() {
    let text = |sets: &[&str]| good(with_sets(SMALL, sets)).agreement();
    assert_eq!(text(&[]), text(&["control.listen=127.0.0.1:1"]));
    for set in [
        "retention.start_margin=1m",
        "table.t.key=id",
        "job=x",
        "kafka.a=b",
        "sink.kind=null",
    ] {
        assert_ne!(text(&[]), text(&[set]), "{set}");
    }
}

#[test]
fn a_starter_loads_for_every_sink() {
    for sink in [
        SinkKind::Sqlite,
        SinkKind::Postgres,
        SinkKind::Kafka,
        SinkKind::Jsonl,
        SinkKind::Null,
    ] {
        let init = Init {
            job: "hello".to_owned(),
            table: "public.\"odd\" \\ hello".to_owned(),
            mutations: "app.public.hello".to_owned(),
            snapshot: "file:./snap".to_owned(),
            brokers: "h:1".to_owned(),
            sink,
            url: None,
            path: None,
            topic: None,
        };
        let text = starter(&init).unwrap_or_else(|error| panic!("{error}"));
        let loaded = parse(&text).unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded.notices.is_empty(), "{:?}", loaded.notices);
        assert_eq!(loaded.config.sink.kind, sink);
        assert_eq!(loaded.config.tables[0].name, init.table);
        assert_eq!(loaded.config.retention, Config::default().retention);
        let wrong = Init {
            snapshot: init.mutations.clone(),
            ..init
        };
        assert!(
            starter(&wrong)
                .expect_err("refused")
                .text
                .contains("two roles")
        );
    }
}

#[test]
fn a_file_that_is_not_there_says_what_to_do() {
    let origin = Origin {
        path: Some("/no/such.toml".into()),
        sets: Vec::new(),
    };
    let error = Config::load(&origin).expect_err("no file");
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.text.contains("/no/such.toml") && error.text.contains("headwater init"));
}

#[test]
fn an_open_address_needs_a_token_file() {
    let with = |listen: &str| with_sets(SMALL, &[&format!("control.listen={listen}")]);
    for fine in ["off", "127.0.0.1:1", "[::1]:1", "localhost:0"] {
        good(with(fine)).check().unwrap_or_else(|e| panic!("{e}"));
    }
    for open in ["0.0.0.0:7070", "[::]:7070", "db.internal:7070"] {
        refused(with(open), &["`control.token_file` is not set", open]);
        let sets = [&*format!("control.listen={open}"), "control.token_file=t"];
        good(with_sets(SMALL, &sets))
            .check()
            .unwrap_or_else(|e| panic!("{e}"));
    }
    refused(with("7070"), &["`control.listen` is no address"]);
}
