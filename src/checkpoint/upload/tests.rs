//! Every run of an export is in the store when its part comes, and none is written twice.

use super::start;
use crate::checkpoint::manifest::RunRef;
use crate::checkpoint::{Outbox, Part};
use crate::store::Store;
use headwater_operators::marker::{MarkerArrangement, MarkerConfig, MarkerStore, Run};
use headwater_operators::merge::Cut;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The runs of the next part and the bytes that it had to write.
fn part(outbox: &Outbox) -> (Vec<RunRef>, u64) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut parts = Vec::new();
    while parts.is_empty() {
        assert!(Instant::now() < until, "no part came");
        std::thread::sleep(Duration::from_millis(1));
        outbox.drain(&mut parts);
    }
    match parts.pop() {
        Some(Part::Markers {
            runs, bytes_new, ..
        }) => (runs, bytes_new),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_runs_are_written_side_by_side_and_once() {
    let store = Store::memory();
    let uploads = start(
        store.clone(),
        "job",
        3,
        Default::default(),
        Default::default(),
    );
    let (uploads, outbox) = (uploads.expect("a thread"), Outbox::default());
    let mut markers = MarkerArrangement::new(MarkerConfig {
        memtable_markers_max: 16,
        ..MarkerConfig::new(0..=u64::MAX, 20)
    });
    let fingerprint = |n: u128| n << 100 | n;
    let mut marked = BTreeSet::new();
    let mut before: Vec<RunRef> = Vec::new();
    // Nothing is merged, so each full memtable stays a run.
    for (number, keys) in [(1, 0..160), (2, 160..170), (3, 170..300)] {
        for key in keys.map(fingerprint) {
            markers.mark(20 * number, &[key]);
            marked.insert(key);
        }
        let cut = Cut { number, tick: 20 };
        uploads.export(1, cut, markers.export(), &outbox);
        let (runs, bytes_new) = part(&outbox);
        let mut found = BTreeSet::new();
        for run_ref in &runs {
            let bytes = store.get(&run_ref.file).expect("read").expect("there");
            assert_eq!(bytes.len() as u64, run_ref.bytes);
            let run = Run::decode(&bytes).expect("a run");
            assert_eq!(run.len() as u64, run_ref.markers);
            found.extend(run.entries().map(|(key, _)| key));
        }
        assert_eq!(found, marked);
        assert!(before.iter().all(|run_ref| runs.contains(run_ref)));
        let new = runs.iter().filter(|run_ref| !before.contains(run_ref));
        assert_eq!(bytes_new, new.map(|run_ref| run_ref.bytes).sum::<u64>());
        assert_eq!(store.list("job/runs/").expect("listed").len(), runs.len());
        before = runs;
    }
    assert!(before.len() > super::WRITERS_MAX * 4, "{}", before.len());
}
