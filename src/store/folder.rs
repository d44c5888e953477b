//! The store in a local folder: one file for each object, its path the object's name.
//!
//! Invariant: a file that has an object's name is whole and on the disk, and so is the name when a
//! call returns. New objects are linked, never renamed: of two links of one name, one fails.
//!
//! It needs hard links and `fsync` of folders, so a local file system or NFS. Two hosts that each
//! have a folder of this path have two stores.

use super::temp::{Temp, explain, sweep};
use super::{Backend, Entry, Place, Put};
use crate::error::Error;
use crate::fault;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How often a name is tried that is taken when it is linked, and free when it is looked at.
const TRIES: usize = 100;

pub(super) struct Folder {
    root: PathBuf,
    place: String,
    /// Folders that this process knows to be on the disk, in all folders above them.
    durable: Mutex<BTreeSet<PathBuf>>,
}

impl Folder {
    pub(super) fn open(root: PathBuf, place: &Place) -> Result<Folder, Error> {
        let folder = Folder {
            root,
            place: place.to_string(),
            durable: Mutex::default(),
        };
        match fs::read_dir(&folder.root) {
            Ok(_) => sweep(&folder.root),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let said = explain(
                    format!("the store {} cannot be opened", folder.place),
                    &error,
                );
                return Err(match error.kind() {
                    io::ErrorKind::NotADirectory => Error::usage(said.text),
                    _ => said,
                });
            }
        }
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn wrong(&self, name: &str, what: &str) -> impl Fn(io::Error) -> Error {
        let headline = format!("{}: object `{name}` cannot be {what}", self.place);
        move |error| explain(headline.clone(), &error)
    }

    /// The folder of an object, made durable at its first use.
    fn folder_of(&self, path: &Path) -> io::Result<PathBuf> {
        let folder = path.parent().unwrap_or(&self.root).to_owned();
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.contains(&folder) {
            return Ok(folder);
        }
        fs::create_dir_all(&folder)?;
        // A crash may have come between the making of a folder and its sync, so what was there
        // already is synced too: each name is held by the folder above it.
        let root = fs::canonicalize(&self.root)?;
        for above in fs::canonicalize(&folder)?.ancestors().skip(1) {
            match sync(above) {
                // Folders above the store may be closed to this process.
                Err(error) if above.starts_with(&root) => return Err(error),
                _ => {}
            }
        }
        fault::io_point("store.made")?;
        durable.insert(folder.clone());
        Ok(folder)
    }

    fn link_new(&self, name: &str, bytes: &[u8]) -> io::Result<Put> {
        let path = self.path(name);
        let folder = self.folder_of(&path)?;
        let temp = Temp::write(&folder, bytes)?;
        let mut put = None;
        for _ in 0..TRIES {
            put = match temp.link(&path) {
                Ok(()) => Some(Put::Written),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => same(&path, bytes)?,
                Err(error) => return Err(error),
            };
            if put.is_some() {
                break;
            }
        }
        fault::io_point("store.link")?;
        drop(temp);
        // Also for an object that another process has linked and perhaps not synced: what is said
        // to exist must stay.
        sync(&folder)?;
        fault::io_point("store.folder")?;
        put.ok_or_else(|| io::Error::other("it comes and goes: another process removes it"))
    }

    fn rename_over(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(name);
        let folder = self.folder_of(&path)?;
        Temp::write(&folder, bytes)?.rename(&path)?;
        fault::io_point("store.rename")?;
        sync(&folder)?;
        fault::io_point("store.folder")
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if absent(&error) => return Ok(()),
            done => done?,
        }
        fault::io_point("store.delete")?;
        sync(path.parent().unwrap_or(&self.root))
    }

    /// Adds the objects of `folder`, whose names begin with `at`.
    fn walk(
        folder: &Path,
        at: &str,
        prefix: &str,
        entries: &mut Vec<Entry>,
    ) -> Result<(), (PathBuf, io::Error)> {
        let of = |error| (folder.to_owned(), error);
        let found = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.map_err(of)?,
        };
        for entry in found {
            let entry = entry.map_err(of)?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = entry.path();
            let metadata = match fs::metadata(&path) {
                // Removed since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata.map_err(|error| (path.clone(), error))?,
            };
            let name = format!("{at}{name}");
            if metadata.is_dir() {
                let inner = name + "/";
                if inner.starts_with(prefix) || prefix.starts_with(&inner) {
                    Self::walk(&path, &inner, prefix, entries)?;
                }
            } else if name.starts_with(prefix) {
                let bytes = metadata.len();
                entries.push(Entry { name, bytes });
            }
        }
        Ok(())
    }
}

impl Backend for Folder {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        self.link_new(name, bytes)
            .map_err(self.wrong(name, "written"))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.rename_over(name, bytes)
            .map_err(self.wrong(name, "written"))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match fs::read(self.path(name)) {
            Err(error) if absent(&error) => Ok(None),
            read => read.map(Some).map_err(self.wrong(name, "read")),
        }
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        match fs::metadata(self.path(name)) {
            Ok(metadata) => Ok(metadata.is_file().then_some(metadata.len())),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(self.wrong(name, "looked at")(error)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        let walked = Self::walk(&self.root, "", prefix, &mut entries);
        walked.map_err(|(path, error)| {
            let headline = format!("{}: {} cannot be listed", self.place, path.display());
            explain(headline, &error)
        })?;
        Ok(entries)
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        self.remove(name).map_err(self.wrong(name, "removed"))
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// That there is no such file. That a part of the path is one means that nothing is below it.
fn absent(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

/// Whether the file at `path` holds just these bytes; `None` when it is gone.
fn same(path: &Path, bytes: &[u8]) -> io::Result<Option<Put>> {
    let found = fs::metadata(path).and_then(|metadata| {
        if metadata.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        // Runs are large, and others of another size need not be read.
        Ok(metadata.len() == bytes.len() as u64 && fs::read(path)? == bytes)
    });
    match found {
        Ok(same) => Ok(Some(Put::of(same))),
        Err(error) if absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
