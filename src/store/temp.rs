//! Files on their way to be objects: written whole beside the object's place, then linked or
//! renamed.
//!
//! Invariant: a temporary file has all its bytes on the disk before anyone can give it a name. Its
//! own name begins with a dot, so it is never an object; dropped, it is gone. A crash leaves it,
//! and a sweep an hour later removes it: nobody writes one file for so long.

use crate::error::Error;
use crate::fault;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const PREFIX: &str = ".temp-";
const OLD: Duration = Duration::from_secs(3600);
/// Folders below the store in which is looked for old files.
const DEPTH_MAX: usize = 8;

/// A temporary file with its bytes on the disk.
#[derive(Debug)]
pub(super) struct Temp {
    path: PathBuf,
}

impl Temp {
    /// Writes one into `folder`, which must exist.
    pub(super) fn write(folder: &Path, bytes: &[u8]) -> io::Result<Temp> {
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).map_err(|error| io::Error::other(error.to_string()))?;
        let drawn = u64::from_le_bytes(drawn);
        let path = folder.join(format!("{PREFIX}{}-{drawn:016x}", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        let temp = Temp { path };
        file.write_all(fault::write("store.write", bytes)?)?;
        file.sync_all()?;
        let written = file.metadata()?.len();
        if written != bytes.len() as u64 {
            let said = format!("{written} of {} bytes were taken", bytes.len());
            return Err(io::Error::new(io::ErrorKind::WriteZero, said));
        }
        fault::io_point("store.temp")?;
        Ok(temp)
    }

    /// Gives it the name `target` as well, unless that is taken.
    pub(super) fn link(&self, target: &Path) -> io::Result<()> {
        fs::hard_link(&self.path, target)
    }

    /// Makes it `target`, in place of another file of that name.
    pub(super) fn rename(self, target: &Path) -> io::Result<()> {
        // Dropping it then finds nothing to remove.
        fs::rename(&self.path, target)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // One that stays is removed by a sweep.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what crashes have left in `root` and its folders. What cannot be looked at or removed
/// is left: it is in nobody's way.
pub(super) fn sweep(root: &Path) {
    sweep_older(root, OLD, DEPTH_MAX);
}

fn sweep_older(folder: &Path, age: Duration, depth: usize) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        // Links are not followed: what is behind one may be anything.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let name = entry.file_name();
        let temporary = name.to_str().is_some_and(|name| name.starts_with(PREFIX));
        if metadata.is_dir() && depth > 0 && !name.as_encoded_bytes().starts_with(b".") {
            sweep_older(&entry.path(), age, depth - 1);
        } else if metadata.is_file() && temporary {
            let modified = metadata.modified().ok();
            let lived = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
            if lived.is_some_and(|lived| lived >= age) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// What an I/O error is about, in words, and what to do.
pub(super) fn explain(headline: String, error: &io::Error) -> Error {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "The disk is full. What was written before is unharmed: make room, and start again."
        }
        io::ErrorKind::WriteZero => {
            "The disk may be full. What was written before is unharmed: make room, and start again."
        }
        io::ErrorKind::PermissionDenied => {
            "The folder and all in it must belong to the user of this process, or be open to it."
        }
        io::ErrorKind::ReadOnlyFilesystem => "Use a file system that can be written.",
        io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::AlreadyExists => {
            "A file stands where a folder must be, or a folder where a file must be: move it away."
        }
        io::ErrorKind::Unsupported => {
            "The file system must have hard links: by them the first of two writers wins."
        }
        _ => "`checkpoint.store` must be a folder on a disk that this process can read and write.",
    };
    Error::failed(headline)
        .line(format!("found     {error}"))
        .line(remedy)
}

#[cfg(test)]
mod tests {
    use super::{Temp, sweep, sweep_older};
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_sweep_takes_old_temporary_files_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let inner = root.path().join("job/runs");
        fs::create_dir_all(&inner).expect("made");
        let torn = inner.join(".temp-1-2");
        fs::write(&torn, "to").expect("written");
        let object = inner.join("a");
        fs::write(&object, "a").expect("written");
        let other = root.path().join(".hidden");
        fs::write(&other, "x").expect("written");
        sweep(root.path());
        assert!(torn.exists(), "it may be another process's");
        sweep_older(root.path(), Duration::ZERO, 8);
        assert!(!torn.exists() && object.exists() && other.exists());
    }

    #[test]
    fn a_dropped_one_is_gone() {
        let root = tempfile::tempdir().expect("a folder");
        let temp = Temp::write(root.path(), b"abc").expect("written");
        assert_eq!(fs::read(&temp.path).expect("there"), b"abc");
        drop(temp);
        assert_eq!(fs::read_dir(root.path()).expect("there").count(), 0);
    }
}
