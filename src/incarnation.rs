//! The number of a run of a job: greater at every start, so that versions and file names grow.
//!
//! Invariant: a number is never given twice by one store, also when a start is killed: it is
//! written, durable, before it is used.
//!
//! It cannot fence: two processes that start at one moment on one store are told apart by the lock
//! of the file, but an old run that still lives is not ended by a new one.

use crate::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Takes the next number of `job` in the local folder `store`.
///
/// # Errors
/// When the folder cannot be written or the file holds no number.
pub fn next(store: &Path, job: &str) -> Result<u32, Error> {
    let folder = store.join(job);
    let path = folder.join("incarnation");
    let failed = |what: &str, error: std::io::Error| {
        Error::failed(format!(
            "the incarnation {} cannot be {what}",
            path.display()
        ))
        .line(format!("found     {error}"))
        .line("`checkpoint.store` must be a folder that this process can write.")
    };
    std::fs::create_dir_all(&folder).map_err(|error| failed("made", error))?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| failed("opened", error))?;
    file.lock().map_err(|error| failed("locked", error))?;
    let mut text = String::new();
    file.read_to_string(&mut text)
        .map_err(|error| failed("read", error))?;
    let last: u32 = match text.trim() {
        "" => 0,
        number => number.parse().map_err(|_| {
            Error::failed(format!("{} holds no number", path.display()))
                .line(format!("found     {} bytes of something else", text.len()))
                .line("Write a number that is greater than all incarnations of this job so far.")
        })?,
    };
    let next = last.checked_add(1).ok_or_else(|| {
        Error::refused(format!("{} holds the last number", path.display()))
            .line(format!("found     {last}"))
            .line("Give the job another name, or another `checkpoint.store`.")
    })?;
    // Written over in place at a fixed width: a torn write leaves an old or a new digit, and the
    // new number is never shorter.
    file.seek(SeekFrom::Start(0))
        .map_err(|error| failed("written", error))?;
    file.write_all(format!("{:010}\n", next).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| File::open(&folder)?.sync_all())
        .map_err(|error| failed("written", error))?;
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn every_start_is_greater() {
        let store = tempfile::tempdir().expect("a folder");
        assert_eq!(next(store.path(), "a").expect("first"), 1);
        assert_eq!(next(store.path(), "a").expect("second"), 2);
        assert_eq!(next(store.path(), "b").expect("another job"), 1);
        std::fs::write(store.path().join("a/incarnation"), "x").expect("written");
        let error = next(store.path(), "a").expect_err("no number");
        assert!(error.text.contains("incarnation"), "{error}");
        std::fs::write(store.path().join("a/incarnation"), "4294967295").expect("written");
        let error = next(store.path(), "a").expect_err("none is greater");
        assert!(error.text.contains("last number"), "{error}");
    }
}
