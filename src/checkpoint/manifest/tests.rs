//! A manifest is read back as it was written, and nothing else is taken for one.

use super::{
    FingerprintKey, GenerationState, JobTime, Manifest, ManifestError, Markers, PartitionState,
    RetentionState, RunRef, Ticks, secret_hex,
};
use crate::table::Role;
use proptest::prelude::{any, prop, proptest};

/// A manifest with something in every member.
pub(in crate::checkpoint) fn manifest() -> Manifest {
    Manifest {
        number: 7,
        job: "hello".to_owned(),
        incarnation: 3,
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
        offsets: vec![PartitionState {
            role: Role::Snapshot,
            topic: "snap".to_owned(),
            partition: 0,
            next_offset: 5,
            end: Some(9),
        }],
        retention: RetentionState {
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
        generations: vec![GenerationState {
            number: 1,
            id: "g1".to_owned(),
            tables: vec![0],
            opened_at_ms: 20,
            evidence: None,
            unsafe_reads: 0,
            late_reads: 0,
        }],
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

proptest! {
    #[test]
    fn no_damage_passes(at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<bool>()) {
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
