//! A whole checkpoint is whole, and each kind of damage is found, with the object's name.

use super::{Verified, verify};
use crate::checkpoint::manifest::tests::manifest;
use crate::checkpoint::manifest::{Manifest, RunRef};
use crate::checkpoint::name;
use crate::error::ErrorKind;
use crate::store::Store;
use headwater_operators::marker::{Latest, Run};
use headwater_operators::route::range_of;

/// Writes a run for a worker of two.
fn put(store: &Store, file: &str, worker: usize, markers: &[(u128, u64)]) -> RunRef {
    let (first, last) = range_of(worker, 2);
    let markers: Vec<_> = markers.iter().map(|(f, t)| (*f, Latest(*t))).collect();
    let run = Run::from_sorted(&markers, &(first..=last), 20).expect("not empty");
    let bytes = run.encode();
    store.put(file, &bytes).expect("written");
    RunRef {
        file: file.to_owned(),
        first: *run.range().start(),
        last: *run.range().end(),
        markers: run.len() as u64,
        bytes: bytes.len() as u64,
    }
}

const HALF: u128 = 1 << 127;
const A: &str = "hello/runs/0000000003.0.1";
const B: &str = "hello/runs/0000000003.0.2";
const C: &str = "hello/runs/0000000003.1.1";

/// Three runs of two workers, one of which was dealt to two workers since; key 2 is marked twice.
fn checkpoint(store: &Store) -> Manifest {
    let mut manifest = manifest();
    let a = put(store, A, 0, &[(1, 20), (2, 40)]);
    let b = put(store, B, 0, &[(2, 60), (3, 60)]);
    let c = put(store, C, 1, &[(HALF, 80), (HALF + (1 << 80), 80)]);
    let cut = |first, last| RunRef {
        first,
        last,
        markers: 1,
        ..c.clone()
    };
    let middle = (HALF >> 64) as u64;
    let parts = [cut(middle, middle), cut(middle + 1, c.last)];
    manifest.markers.runs = [a, b].into_iter().chain(parts).collect();
    write(store, &manifest);
    manifest
}

fn write(store: &Store, manifest: &Manifest) {
    store
        .put(&name("hello", 7), &manifest.encode())
        .expect("written");
}

fn verified(store: &Store) -> Verified {
    let verified = verify(store, "hello", 7).expect("the store answers");
    verified.expect("the checkpoint is there")
}

#[test]
fn a_whole_one_is_whole_and_counted() {
    let store = Store::memory();
    checkpoint(&store);
    let found = verified(&store);
    assert_eq!(found.damage, []);
    assert_eq!((found.markers, found.keys), (6, 5));
    let of: Vec<_> = found.objects.iter().map(|o| (o.markers, o.parts)).collect();
    assert_eq!(
        of,
        [(None, 0), (Some(2), 1), (Some(2), 1), (Some(2), 2)],
        "{found:?}"
    );
    let sizes: u64 = store
        .list("hello/")
        .expect("listed")
        .iter()
        .map(|e| e.bytes)
        .sum();
    assert_eq!(found.bytes, sizes);
    found.verdict().expect("whole");
    let table = found.table();
    for part in [
        C,
        "6 markers of 5 keys",
        "whole: ",
        "hello/manifest/0000000007",
    ] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    assert_eq!(verify(&store, "hello", 8).expect("asked"), None);
}

/// The one object that is damaged, and what was found.
fn damaged(store: &Store) -> (String, String) {
    let found = verified(store);
    let [damage] = &found.damage[..] else {
        panic!("one damage is expected: {:?}", found.damage);
    };
    let error = found.verdict().expect_err("damaged");
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.text.contains(&damage.object), "{error}");
    assert!(error.text.contains("--from-checkpoint N"), "{error}");
    let table = found.table();
    assert!(table.contains(&format!("damaged: {}\n", damage.object)));
    assert!(!table.contains("whole: "), "{table}");
    (damage.object.clone(), damage.found.clone())
}

#[test]
fn damage_to_a_run_is_found() {
    let store = Store::memory();
    checkpoint(&store);
    let whole = store.get(B).expect("read").expect("there");
    store.put(B, &whole[..whole.len() - 3]).expect("written");
    let found = format!("{} bytes", whole.len() - 3);
    assert_eq!(damaged(&store), (B.to_owned(), found));
    for at in [0, 9, 41, whole.len() - 1] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        store.put(B, &changed).expect("written");
        assert_eq!(damaged(&store).0, B, "byte {at}");
    }
    store.delete(B).expect("deleted");
    assert_eq!(damaged(&store), (B.to_owned(), "nothing".to_owned()));
    // An intact run of the same length, with a marker of another key.
    put(&store, B, 0, &[(2, 60), (4, 60)]);
    assert_eq!(verified(&store).damage, [], "it cannot know");
    // Of the right length, with a marker that is later than the checkpoint.
    put(&store, B, 0, &[(2, 4000), (3, 4020)]);
    assert_eq!(damaged(&store).1, "a marker of tick 4020 ms");
}

#[test]
fn a_manifest_that_contradicts_its_runs_or_itself_is_found() {
    let store = Store::memory();
    let whole = checkpoint(&store);
    let object = name("hello", 7);
    let change = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = whole.clone();
        change(&mut manifest);
        write(&store, &manifest);
        damaged(&store)
    };
    let fewer = change(&|m| m.markers.runs[3].markers = 2);
    assert_eq!(fewer.0, C);
    assert!(fewer.1.starts_with("1 markers from 8000000000000001"));
    assert_eq!(change(&|m| m.markers.runs[0].last += 1).0, A);
    for (found, contradiction) in [
        (
            "checkpoint 6 of job hello",
            (|m| m.number = 6) as fn(&mut Manifest),
        ),
        ("checkpoint 7 of job other", |m| m.job = "other".to_owned()),
        ("fingerprint function 9", |m| m.fingerprint.id = 9),
        ("its fingerprint key is not 16 bytes", |m| {
            m.fingerprint.secret.pop();
        }),
        ("the cut at 2000 ms", |m| m.time.cut_ms = 2000),
        ("2 offsets of snapshot snap[0]", |m| {
            m.offsets.push(m.offsets[0].clone());
        }),
    ] {
        let damage = change(&contradiction);
        assert_eq!(damage, (object.clone(), found.to_owned()));
    }
}

#[test]
fn damage_to_a_manifest_is_found() {
    let store = Store::memory();
    let whole = checkpoint(&store).encode();
    let object = name("hello", 7);
    store
        .put(&object, &whole[..whole.len() / 2])
        .expect("written");
    let (found, why) = damaged(&store);
    assert_eq!(found, object);
    assert!(why.contains("cut off"), "{why}");
}

#[test]
fn what_was_deleted_meanwhile_is_no_damage() {
    let store = Store::memory();
    let manifest = checkpoint(&store);
    // What a reader of the manifest would see when the job cleans up behind it.
    for run in &manifest.markers.runs {
        store.delete(&run.file).expect("deleted");
    }
    assert_eq!(verified(&store).damage.len(), 3);
    store.delete(&name("hello", 7)).expect("deleted");
    assert_eq!(verify(&store, "hello", 7).expect("asked"), None);
}
