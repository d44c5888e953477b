//! A manifest is read back as it was written, and nothing else is taken for one.

use super::{
    FingerprintKey, GenerationState, JobTime, Manifest, ManifestError, Markers, PartitionState,
    PoisonState, RetentionState, RunRef, Ticks, secret_hex,
};
use crate::dead_letter::Counted;
use crate::table::Role;
use proptest::prelude::{any, prop, proptest};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn partition() -> PartitionState {
    PartitionState {
        role: Role::Snapshot,
        topic: "snap".to_owned(),
        partition: 0,
        next_offset: 5,
        end: Some(9),
        first_source_ms: None,
        last_source_ms: None,
    }
}

fn letters() -> Counted {
    Counted {
        topic: "other".to_owned(),
        tables: vec![7],
        letters: 2,
        keyless: 1,
    }
}

/// A manifest with something in every member.
pub(crate) fn manifest() -> Manifest {
    Manifest {
        number: 7,
        job: "hello".to_owned(),
        incarnation: 3,
        claimant: None,
        identity: [("table[0].name".to_owned(), "public.hello".to_owned())].into(),
        target: Some("t-1".to_owned()),
        target_note: 6,
        fingerprint: FingerprintKey {
            id: 1,
            secret: secret_hex(&[0xab; 16]),
        },
        time: JobTime {
            tick_ms: 20,
            cut_ms: 1000,
            now_ms: 1040,
            wall: vec![(0, 1_700_000_000_000)],
        },
        topic_ids: [("snap".to_owned(), "Jx".to_owned())].into(),
        offsets: vec![partition()],
        retention: RetentionState {
            ttl_configured_ms: None,
            ttl_ms: Some(1000),
            open_late_max_ms: None,
            start_margin_ms: 10,
        },
        markers: Markers {
            runs: vec![RunRef {
                file: "hello/runs/0000000003.0.1".to_owned(),
                first: 0,
                last: u64::MAX,
                markers: 10,
                bytes: 200,
            }],
            ticks: vec![
                Ticks {
                    horizon: Some(10),
                    forgotten: Some(4),
                    spans: vec![(20, 40)],
                },
                Ticks {
                    horizon: Some(30),
                    forgotten: Some(8),
                    spans: Vec::new(),
                },
            ],
        },
        poison_marks: vec![PoisonState::of(1 << 127 | 0xab, 40)],
        dead_letters: vec![letters()],
        generations: vec![GenerationState {
            number: 1,
            id: "g1".to_owned(),
            tables: vec![0],
            opened_at_ms: 20,
            evidence: None,
            unsafe_reads: 0,
            late_reads: 0,
            ..GenerationState::default()
        }],
        requests: Vec::new(),
        read_control: super::ReadControl::default(),
        events_sent: 0,
        starts: Vec::new(),
        shapes: Vec::new(),
        shards_max: 2,
    }
}

#[test]
fn it_is_read_back_as_it_was_written() {
    let written = manifest();
    assert_eq!(Manifest::decode(&written.encode()), Ok(written.clone()));
    assert_eq!(written.secret(), Ok([0xab; 16]));
    // The greatest of all workers.
    assert_eq!(written.forgotten_through(), Some(8));
    assert_eq!(written.frozen()[0].end, 9);
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let bytes = manifest().encode();
    let text = String::from_utf8(bytes).expect("text");
    let newer = text.replacen("headwater-manifest 1 ", "headwater-manifest 2 ", 1);
    let found = Manifest::decode(newer.as_bytes());
    assert_eq!(found, Err(ManifestError::Format(2)));
    assert_eq!(Manifest::decode(b""), Err(ManifestError::Head));
    assert_eq!(Manifest::decode(b"{}\n"), Err(ManifestError::Head));
}

/// The manifest's JSON after a change, as bytes with a right sum.
fn changed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let text = String::from_utf8(manifest().encode()).expect("text");
    let (_, body) = text.split_once('\n').expect("a first line");
    let mut json: Value = serde_json::from_str(body).expect("JSON");
    change(&mut json);
    let body = json.to_string();
    let sum = super::hex(&Sha256::digest(&body));
    format!("headwater-manifest 1 {sum}\n{body}").into_bytes()
}

#[test]
fn a_member_of_a_later_program_is_passed_over() {
    let later = changed(|json| {
        json["masks"] = json!([{ "key": "a1", "columns": ["photo"] }]);
        json["time"]["zone"] = json!("UTC");
        json["offsets"][0]["leader"] = json!(3);
        json["markers"]["ticks"][0]["poison"] = json!({});
        json["generations"][0]["state"] = json!("open");
    });
    assert_eq!(Manifest::decode(&later), Ok(manifest()));
}

#[test]
fn members_that_may_lack_have_a_meaning_and_the_others_are_required() {
    let mut lean = manifest();
    lean.target = None;
    lean.target_note = 0;
    lean.topic_ids.clear();
    lean.shapes.clear();
    lean.time.wall.clear();
    lean.generations[0].evidence = None;
    let optional = ["target", "target_note", "topic_ids", "shapes"];
    let without = changed(|json| {
        let manifest = json.as_object_mut().expect("an object");
        manifest.retain(|name, _| !optional.contains(&&**name));
        json["time"].as_object_mut().expect("one").remove("wall");
        let generation = json["generations"][0].as_object_mut().expect("one");
        generation.remove("evidence");
    });
    assert_eq!(Manifest::decode(&without), Ok(lean));
    let whole: Value = serde_json::to_value(manifest()).expect("JSON");
    let members = |value: &Value| -> Vec<String> {
        let members = value.as_object().expect("an object").keys();
        members.cloned().collect()
    };
    let parts = [
        "",
        "/fingerprint",
        "/offsets/0",
        "/markers",
        "/markers/runs/0",
    ];
    let more = ["/markers/ticks/0", "/time", "/generations/0"];
    // Those that were there from the first format on; everything later may lack.
    let all = [
        "number job incarnation identity fingerprint time offsets markers generations shards_max",
        "id secret tick_ms cut_ms now_ms role topic partition next_offset end runs ticks file",
        "first last bytes horizon forgotten spans tables opened_at_ms",
    ]
    .join(" ");
    let all: Vec<&str> = all.split(' ').collect();
    for part in parts.iter().chain(&more) {
        for name in members(whole.pointer(part).expect("a member")) {
            let lacking = changed(|json| {
                let part = json.pointer_mut(part).expect("a member");
                part.as_object_mut().expect("an object").remove(&name);
            });
            let found = Manifest::decode(&lacking);
            let required = all.contains(&&*name);
            let told = matches!(&found, Err(ManifestError::Body(why)) if why.contains(&name));
            assert_eq!(told, required, "{part}/{name}: {found:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_damage_passes(
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let whole = manifest().encode();
        let mut bytes = whole.clone();
        let at = at.index(bytes.len());
        match cut {
            true => bytes.truncate(at),
            false => bytes[at] = to,
        }
        if bytes != whole {
            Manifest::decode(&bytes).expect_err("damaged");
        }
    }
}
