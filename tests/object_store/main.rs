//! The store of checkpoints: one contract, held by memory, a local folder and S3 alike.
//!
//! Invariant: nothing is skipped; S3 is a real server of the protocol (`tests/services/start-s3`)
//! that checks signatures and conditional writes.
//!
//! Google's and Azure's services cannot be had here: their clients are built and no more.

mod child;
mod contract;
mod faults;
mod proxy;
mod s3;
mod server;

use headwater::store::Store;

#[test]
fn memory_keeps_the_contract() {
    contract::check(&Store::memory(), 1100);
}

#[test]
fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&child::url(folder.path())).expect("a store");
    contract::check(&store, 40);
    for entry in walk(folder.path()) {
        assert!(!entry.contains("/.temp-"), "left behind: {entry}");
    }
}

/// The paths of all files below `folder`.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path.display().to_string());
        }
    }
    files
}

#[test]
fn a_torn_temporary_file_is_no_object() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(folder.path().join("job")).expect("made");
    std::fs::write(folder.path().join("job/.temp-1-0123"), "half").expect("written");
    let store = Store::open(&child::url(folder.path())).expect("a store");
    assert_eq!(store.list("").expect("listed"), []);
    store
        .get("job/.temp-1-0123")
        .expect_err("no name of an object");
}

#[test]
fn what_is_no_folder_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("written");
    let error = Store::open(&child::url(&file)).expect_err("a file");
    assert_eq!(error.kind, headwater::error::ErrorKind::Usage);
    assert!(error.text.contains("move it away"), "{error}");

    let store = Store::open(&child::url(folder.path())).expect("a store");
    let error = store.put("file/a", b"x").expect_err("a file in the way");
    for part in [
        "object `file/a` cannot be written",
        "move it away",
        store.place(),
    ] {
        assert!(error.text.contains(part), "no {part}: {error}");
    }
    assert_eq!(store.get("file/a").expect("asked"), None);
}

#[test]
fn a_folder_that_is_closed_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).expect("made");
    let permit = |mode| std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode));
    permit(0o000).expect("closed");
    let readable = std::fs::read_dir(&closed).is_ok();
    let opened = Store::open(&child::url(&closed));
    permit(0o700).expect("opened");
    // Root may enter everywhere; there is nothing to be told then.
    if !readable {
        let error = opened.expect_err("closed");
        assert!(error.text.contains("the user of this process"), "{error}");
    }
    // A folder in which nobody may make one, root neither.
    let store = Store::open("file:/proc/headwater").expect("made by the first write");
    let error = store
        .put_new("job/a", b"x")
        .expect_err("no folder can be made");
    assert!(
        error.text.contains("`checkpoint.store` must be a folder"),
        "{error}"
    );
}
