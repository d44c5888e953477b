//! What is said of a manifest, and what is not.

use super::{Around, Explained};
use crate::begin;
use crate::checkpoint::Manifest;
use crate::checkpoint::manifest::tests::manifest;
use crate::config::Config;
use crate::key::{Class, KeyGate, KeyShape};
use crate::table::Role;

const TEXT: &str = "job = \"hello\"\n[[table]]\nname = \"public.hello\"\nmutations = \"file:muts\"\n\
                    snapshot = \"file:snap\"\n[retention]\nstart_margin = \"0s\"\n";

fn config(more: &str) -> Config {
    let loaded = Config::parse("test", &format!("{TEXT}{more}"), &[]);
    loaded.expect("a good configuration").config
}

/// The manifest of a job with this configuration.
fn of(config: &Config) -> Manifest {
    let mut manifest = manifest();
    manifest.identity = begin::identity(config, &config.tables());
    let gate = KeyGate::new(&config.tables());
    let shape = KeyShape::new(vec![("id".to_owned(), Class::Number)]);
    gate.observe(0, Role::Mutations, &shape).expect("the first");
    manifest.shapes = gate.shapes();
    manifest.markers.ticks.clear();
    manifest
}

fn explained(manifest: &Manifest, config: &Config) -> Explained {
    let around = Around {
        place: "file:./state",
        bytes: 1_234,
        newest: 7,
        next_incarnation: 4,
        config,
    };
    Explained::of(manifest, &around)
}

#[test]
fn everything_is_said_in_words_but_the_secret() {
    let config = config("");
    let mut manifest = of(&config);
    manifest.target_note = 7;
    let text = explained(&manifest, &config).text();
    for part in [
        "checkpoint  7 of job hello, made by incarnation 3\n",
        "object      hello/manifest/0000000007 in file:./state, 1,234 bytes\n",
        "written     00:00:01.040 of job time (1040 ms), 2023-11-14T22:13:21.040Z\n",
        "cut         before 00:00:01.000 of job time (1000 ms), 2023-11-14T22:13:21Z\n",
        "offsets     snapshot snap[0]: next_offset 5, 4 before its frozen end 9\n",
        "topic ids   snap: Jx\n",
        "markers     10 in 1 runs, 200 bytes\n",
        "forgotten   no marker\n",
        "generation  g1 of public.hello, opened at 00:00:00.020 of job time (20 ms), \
         2023-11-14T22:13:20.020Z; its end is not known yet\n",
        "keys        public.hello mutations {id: number}\n",
        "target      sqlite, identity t-1, checkpoint 7 is noted in it\n",
        "restore     `headwater run` goes on from here, as incarnation 4.\n",
        "Job time goes on at 1040 ms",
        "The configuration fits.\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = explained(&manifest, &config).json();
    for said in [&text, &json] {
        assert!(!said.contains(&manifest.fingerprint.secret), "{said}");
    }
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["partitions"][0]["next_offset"], 5);
    assert_eq!(json["partitions"][0]["end"], 9);
    assert_eq!(json["generations"][0]["at_risk"], false);
    assert_eq!(json["forgotten_through"], serde_json::Value::Null);
}

#[test]
fn an_older_one_a_start_and_a_forgotten_marker_are_told() {
    let config = config("");
    let mut manifest = of(&config);
    (manifest.number, manifest.incarnation) = (5, 2);
    manifest.markers.ticks = self::manifest().markers.ticks;
    // Of the ticks the greatest counts.
    manifest.generations[0].opened_at_ms = 8;
    manifest.generations[0].evidence = Some("end_records".to_owned());
    manifest.offsets[0].next_offset = 9;
    let found = explained(&manifest, &config);
    let text = found.text();
    for part in [
        "checkpoint  5 of job hello: incarnation 2 has begun",
        "`--from-checkpoint 5` goes back to this one, as incarnation 4.",
        "next_offset 9, read to its frozen end 9\n",
        "forgotten   markers through 00:00:00.008 of job time (8 ms)",
        "its end stands on end_records; unsafe: ",
        "A marker of g1 was forgotten",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    manifest.generations[0].opened_at_ms = 9;
    assert!(!explained(&manifest, &config).generations[0].at_risk);
}

#[test]
fn a_configuration_that_does_not_fit_is_told() {
    let before = config("");
    let manifest = of(&before);
    let now = config("[sink]\nkind = \"jsonl\"\n");
    let text = explained(&manifest, &now).text();
    assert!(text.contains("It is refused: `sink.kind` of job hello has changed"));
    assert!(text.contains("\n            "), "{text}");
}
