//! Runs as bytes: what is written is read, and no other bytes make a run or a panic.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::{fingerprint, run_of, worker_range};
use crate::marker::run::CHUNK_ENTRIES;
use crate::marker::{Latest, Run, RunError};

#[test]
fn round_trip_over_several_chunks() {
    let range = worker_range(0, 1);
    let run = run_of(2 * CHUNK_ENTRIES as u64 + 5, &range, 300_000);
    assert_eq!(run.len(), 2 * CHUNK_ENTRIES + 5);
    let bytes = run.encode();
    let back = Run::decode(&bytes).expect("what encode wrote");
    assert!(back.entries().eq(run.entries()));
    assert_eq!(back.encode(), bytes);
    assert_eq!(run.encode_parts().flatten().collect::<Vec<_>>(), bytes);
    let owned = Run::decode_owned(bytes.clone()).expect("what encode wrote");
    assert_eq!(owned.encode(), bytes);
    assert_eq!(
        (back.tick_first(), back.tick_last()),
        (run.tick_first(), run.tick_last())
    );
    assert_eq!(back.range(), run.range());
    assert!(run.bytes() < 18 * run.len(), "{} bytes", run.bytes());
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = run_of(100, &worker_range(1, 2), 1_000).encode();
    for len in 0..bytes.len() {
        assert!(
            Run::decode(&bytes[..len]).is_err(),
            "{len} of {} bytes",
            bytes.len()
        );
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let expected = RunError::Length {
        found: bytes.len() + 1,
        expected: bytes.len(),
    };
    assert_eq!(Run::decode(&longer).err(), Some(expected));
}

#[test]
fn every_flipped_byte_is_an_error() {
    let bytes = run_of(60, &worker_range(1, 2), 1_000).encode();
    for at in 0..bytes.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            let error = Run::decode(&bad).expect_err("a byte is another");
            // All is in one chunk, so there is no other error to be found first from behind.
            assert_eq!(
                Run::decode_owned(bad).err(),
                Some(error),
                "byte {at} by {flip}"
            );
        }
    }
}

#[test]
fn errors_say_what_was_found() {
    let mut bytes = run_of(3, &worker_range(0, 1), 10).encode();
    bytes[4] = 9;
    let error = Run::decode(&bytes).expect_err("another version");
    assert_eq!(error, RunError::Version { found: 9 });
    assert!(
        error
            .to_string()
            .contains("version 9 found, this program reads 1"),
        "{error}"
    );
    assert_eq!(Run::decode(b"").err(), Some(RunError::NotARun));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Bytes that pass the checks and lie: nothing may panic, and what decodes is a run.
    #[test]
    fn forged_heads_do_not_panic(at in 0..72usize, value in any::<u8>(), more in any::<u64>()) {
        let mut bytes = run_of(40, &worker_range(1, 3), 1_000).encode();
        bytes[at] = value;
        if at >= 8 {
            let word = at / 8 * 8;
            bytes[word..word + 8].copy_from_slice(&more.to_le_bytes());
            bytes[word + at % 8] = value;
        }
        let forged = super::super::codec::forge_checks(&bytes);
        let owned = Run::decode_owned(forged.clone());
        let borrowed = Run::decode(&forged);
        prop_assert_eq!(owned.as_ref().err(), borrowed.as_ref().err());
        if let Ok(run) = borrowed {
            prop_assert_eq!(run.entries().count(), run.len());
            let half = *run.range().start()..=*run.range().start() / 2 + run.range().end() / 2;
            _ = run.slice(&half);
        }
    }

    #[test]
    fn forged_bodies_do_not_panic(at in 72..900usize, flip in 1..=255u8) {
        let mut bytes = run_of(40, &worker_range(1, 3), 1_000).encode();
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= flip;
        if let Ok(run) = Run::decode(&super::super::codec::forge_checks(&bytes)) {
            let prints: Vec<_> = run.entries().collect();
            prop_assert!(prints.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }

    #[test]
    fn any_ticks_and_fingerprints_round_trip(
        markers in prop::collection::btree_map(any::<u128>(), any::<u64>(), 1..50),
        narrow in any::<bool>(),
        tick_ms in 1..1_000u64,
    ) {
        let markers: Vec<_> = markers.into_iter().map(|(key, tick)| (key, Latest(tick))).collect();
        let range = if narrow { 5..=5 } else { 0..=u64::MAX };
        let run = Run::from_sorted(&markers, &range, tick_ms).expect("there are markers");
        let back = Run::decode(&run.encode()).expect("what encode wrote");
        let expected = markers.iter().map(|(key, tick)| (*key, tick.0));
        prop_assert!(back.entries().eq(expected));
        let keys: Vec<_> = markers.iter().map(|marker| marker.0).collect();
        let mut found = vec![None; keys.len()];
        back.latest(&keys, &mut found);
        prop_assert!(found.iter().zip(&markers).all(|(tick, marker)| *tick == Some(marker.1.0)));
    }
}

#[test]
fn a_lookup_finds_no_neighbour() {
    let range = worker_range(0, 1);
    let run = run_of(50_000, &range, 1_000);
    let near: Vec<_> = (3..2_000).map(|n| fingerprint(n, &range) ^ 1).collect();
    let mut found = vec![None; near.len()];
    run.latest(&near, &mut found);
    assert!(found.iter().all(Option::is_none));
}
