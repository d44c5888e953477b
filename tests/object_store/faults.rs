//! A fault at every step of every write, in error and in abort mode: the object is then there whole
//! or not at all, and the same call goes well afterwards.

use crate::child;
use headwater::store::Store;
use std::os::unix::process::ExitStatusExt;

const SIGABRT: i32 = 6;

/// The steps of a local folder, by the work that passes them.
const STEPS: [(&str, &[&str]); 3] = [
    (
        "put_new",
        &[
            "store.made",
            "store.write",
            "store.temp",
            "store.link",
            "store.folder",
        ],
    ),
    (
        "put",
        &[
            "store.made",
            "store.write",
            "store.temp",
            "store.rename",
            "store.folder",
        ],
    ),
    ("delete", &["store.delete"]),
];

/// What the object is before the work and after it.
fn states(work: &str) -> (Option<&'static [u8]>, Option<&'static [u8]>) {
    match work {
        "put_new" => (None, Some(b"new")),
        "put" => (Some(b"old"), Some(b"new")),
        _ => (Some(b"old"), None),
    }
}

/// Does `work` under the fault `step=action`, looks at what is there, and does it again.
fn crash(work: &str, step: &str, action: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let url = child::url(folder.path());
    let (before, after) = states(work);
    let looked = || {
        let store = Store::open(&url).expect("a store");
        let names = store.list("").expect("listed");
        let found = store.get("job/a").expect("asked");
        assert_eq!(names.len(), usize::from(found.is_some()), "{names:?}");
        found
    };
    if let Some(bytes) = before {
        Store::open(&url)
            .expect("a store")
            .put("job/a", bytes)
            .expect("written");
    }
    let fault = format!("{step}={action}");
    let output = child::run(&url, work, &[("HEADWATER_FAULT", &fault)]);
    let said = child::said(&output);
    match action {
        "abort" => assert_eq!(
            output.status.signal(),
            Some(SIGABRT),
            "{work} {fault}: {said}"
        ),
        _ => assert!(
            output.status.code().is_some_and(|code| code != 0),
            "{work} {fault}: {said}"
        ),
    }
    let found = looked();
    let whole = found.as_deref() == before || found.as_deref() == after;
    assert!(whole, "{work} {fault}: {found:?}");
    if matches!(action, "full" | "short") {
        assert_eq!(found.as_deref(), before, "{work} {fault}: published");
    }
    if action != "abort" {
        let left = crate::walk(folder.path());
        assert!(
            !left.iter().any(|path| path.contains(".temp-")),
            "{work} {fault}: {left:?}"
        );
    }
    child::run_well(&url, work, &[]);
    assert_eq!(looked().as_deref(), after, "{work} {fault}");
    said
}

#[test]
fn a_fault_at_any_step_leaves_the_object_whole() {
    for (work, steps) in STEPS {
        for step in steps {
            for action in ["error", "abort"] {
                crash(work, step, action);
            }
        }
    }
}

#[test]
fn a_full_disk_is_told_and_publishes_nothing() {
    for work in ["put_new", "put"] {
        for action in ["full", "short"] {
            let said = crash(work, "store.write", action);
            let remedy = "What was written before is unharmed: make room, and start again.";
            for part in ["object `job/a` cannot be written", remedy] {
                assert!(said.contains(part), "no {part}: {said}");
            }
        }
        let said = crash(work, "store.write", "full");
        assert!(said.contains("The disk is full."), "{said}");
        let said = crash(work, "store.write", "short");
        assert!(said.contains("1 of 3 bytes were taken"), "{said}");
    }
}
