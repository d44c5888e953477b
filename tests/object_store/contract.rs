//! What every kind of store must do, as one list of checks.
//!
//! Each check has a prefix of its own, so that one store serves all of them.

use headwater::store::{Entry, Put, Store};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const THREADS: u8 = 8;
const ROUNDS: u32 = 12;
/// Over the size from which the clients of the cloud have more time.
const LARGE_BYTES: usize = 5 << 20;

/// Holds `store` to the contract; `many` is how many objects one listing has.
pub(crate) fn check(store: &Store, many: u32) {
    absent(store);
    first_writer_wins(store);
    written_over(store);
    names(store);
    listing(store);
    long_listing(store, many);
    race(store);
    no_torn_read(store);
    store
        .prove_create_if_absent("prove")
        .expect("the first of two writers wins");
    assert_eq!(
        store.list("prove").expect("listed"),
        [],
        "the probe is removed"
    );
}

fn get(store: &Store, name: &str) -> Option<Vec<u8>> {
    store.get(name).unwrap_or_else(|error| panic!("{error}"))
}

fn absent(store: &Store) {
    assert_eq!(get(store, "absent/a"), None);
    assert_eq!(store.size("absent/a").expect("asked"), None);
    assert_eq!(store.list("absent").expect("listed"), []);
    store.delete("absent/a").expect("no error");
    store.put("absent/b/c", b"x").expect("written");
    assert_eq!(get(store, "absent/b"), None, "a folder is no object");
}

fn first_writer_wins(store: &Store) {
    let put = |bytes: &[u8]| store.put_new("first/a", bytes).expect("asked");
    assert_eq!(put(b"one"), Put::Written);
    assert_eq!(
        put(b"one"),
        Put::Written,
        "the answer of the first call was lost"
    );
    assert_eq!(put(b"two"), Put::Exists);
    assert_eq!(put(b"one and more"), Put::Exists);
    assert_eq!(put(b""), Put::Exists);
    assert_eq!(get(store, "first/a").as_deref(), Some(&b"one"[..]));
    store.delete("first/a").expect("removed");
    assert_eq!(get(store, "first/a"), None);
    assert_eq!(put(b"two"), Put::Written);
    assert_eq!(
        store.put_new("first/empty", b"").expect("asked"),
        Put::Written
    );
    assert_eq!(get(store, "first/empty").as_deref(), Some(&b""[..]));
    assert_eq!(store.size("first/empty").expect("asked"), Some(0));
    let large: Vec<u8> = (0..LARGE_BYTES).map(|at| (at * at / 128) as u8).collect();
    assert_eq!(
        store.put_new("first/large", &large).expect("asked"),
        Put::Written
    );
    assert_eq!(
        store.put_new("first/large", &large).expect("asked"),
        Put::Written
    );
    assert!(get(store, "first/large") == Some(large), "other bytes");
    let size = store.size("first/large").expect("asked");
    assert_eq!(size, Some(LARGE_BYTES as u64));
}

fn written_over(store: &Store) {
    for bytes in [&b"a long one"[..], b"short", b"", b"longer again"] {
        store.put("over/a", bytes).expect("written");
        assert_eq!(get(store, "over/a").as_deref(), Some(bytes));
    }
    store.put("over/a", &vec![7; LARGE_BYTES]).expect("written");
    assert_eq!(
        store.size("over/a").expect("asked"),
        Some(LARGE_BYTES as u64)
    );
    assert_eq!(store.put_new("over/a", b"x").expect("asked"), Put::Exists);
}

fn names(store: &Store) {
    let names = [
        "a b",
        "jöb",
        "100%",
        "a+b=c&d~e",
        "a%2Fb",
        "x.y-z_0",
        "it's,;:@$!",
    ];
    for name in names {
        let name = format!("names/{name}/1");
        store.put(&name, name.as_bytes()).expect(&name);
        assert_eq!(get(store, &name).as_deref(), Some(name.as_bytes()));
        let entry = Entry {
            name: name.clone(),
            bytes: name.len() as u64,
        };
        assert_eq!(store.list(&name).expect("listed"), [entry]);
    }
    assert_eq!(store.list("names/").expect("listed").len(), names.len());
    for name in ["", "/a", "names//a", "names/../a", "names/.a", "names/a\n"] {
        store.put(name, b"x").expect_err(name);
        store.get(name).expect_err(name);
    }
}

fn listing(store: &Store) {
    for name in ["a/1", "a/10", "a/2", "a/c/d", "ab/1", "b"] {
        store
            .put(&format!("list/{name}"), name.as_bytes())
            .expect("written");
    }
    for (prefix, found) in [
        ("list/", &["a/1", "a/10", "a/2", "a/c/d", "ab/1", "b"][..]),
        ("list/a", &["a/1", "a/10", "a/2", "a/c/d", "ab/1"]),
        ("list/a/", &["a/1", "a/10", "a/2", "a/c/d"]),
        ("list/a/1", &["a/1", "a/10"]),
        ("list/a/c", &["a/c/d"]),
        ("list/b", &["b"]),
        ("list/b/", &[]),
        ("list/../list/", &[]),
    ] {
        let entries = store.list(prefix).expect("listed");
        let names: Vec<&str> = entries
            .iter()
            .map(|entry| &entry.name["list/".len()..])
            .collect();
        assert_eq!(names, found, "{prefix}");
        assert!(
            entries
                .iter()
                .all(|entry| entry.bytes == entry.name.len() as u64 - 5)
        );
    }
    assert!(store.list("").expect("listed").len() > 6);
}

/// More objects than one answer of a service holds.
fn long_listing(store: &Store, many: u32) {
    thread::scope(|scope| {
        for thread in 0..u32::from(THREADS) {
            let numbers = (0..many)
                .skip(thread as usize)
                .step_by(usize::from(THREADS));
            scope.spawn(move || {
                for number in numbers {
                    store
                        .put(&format!("many/{number:05}"), b"")
                        .expect("written");
                }
            });
        }
    });
    let listed = store.list("many/").expect("listed");
    let expected: Vec<String> = (0..many)
        .map(|number| format!("many/{number:05}"))
        .collect();
    let names: Vec<String> = listed.into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, expected);
}

/// Of threads that write one name at once, one wins, and its bytes stay.
fn race(store: &Store) {
    let barrier = Barrier::new(usize::from(THREADS));
    for round in 0..ROUNDS {
        let name = format!("race/{round}");
        let write = |thread: u8| {
            let bytes = vec![thread; 1000 + usize::from(thread)];
            barrier.wait();
            store.put_new(&name, &bytes).expect("asked")
        };
        let winners: Vec<u8> = thread::scope(|scope| {
            let write = &write;
            let spawn = |thread| scope.spawn(move || (thread, write(thread)));
            // All run before the first is waited for.
            let threads: Vec<_> = (0..THREADS).map(spawn).collect();
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            ended
                .filter(|(_, put)| *put == Put::Written)
                .map(|(thread, _)| thread)
                .collect()
        });
        assert_eq!(
            winners.len(),
            1,
            "round {round}: {winners:?} think that they won"
        );
        let bytes = get(store, &name).expect("there");
        assert!(
            bytes.len() == 1000 + usize::from(winners[0]),
            "another's length"
        );
        assert!(
            bytes.iter().all(|byte| *byte == winners[0]),
            "another's bytes"
        );
    }
}

/// A reader sees one object or the other, never parts.
fn no_torn_read(store: &Store) {
    let written = AtomicBool::new(false);
    store.put("torn/a", &[0; 100_000]).expect("written");
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..20_u8 {
                let bytes = vec![round; 100_000 - 1000 * usize::from(round)];
                store.put("torn/a", &bytes).expect("written");
            }
            written.store(true, Ordering::SeqCst);
        });
        let mut seen = BTreeSet::new();
        loop {
            let last = written.load(Ordering::SeqCst);
            let bytes = get(store, "torn/a").expect("there");
            let round = bytes[0];
            assert_eq!(bytes.len(), 100_000 - 1000 * usize::from(round), "torn");
            assert!(bytes.iter().all(|byte| *byte == round), "torn");
            seen.insert(round);
            if last {
                return seen;
            }
        }
    });
    assert!(seen.contains(&19), "{seen:?}");
}
