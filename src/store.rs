//! The durable store of a job: named objects of bytes, in a local folder or in the cloud.
//!
//! Invariant: an object is there whole or not at all, in every instant and after every crash. What
//! a call has said to be written, or to exist, stays so when the machine loses its power. Of all
//! writers of one name with [`Store::put_new`], exactly one set of bytes wins.
//!
//! Calls block and are for threads that may wait, never for workers. A call that fails may have
//! been carried out all the same (a lost answer, a crash between two steps): the caller calls again
//! with the same bytes, or reads. It cannot lock, and it keeps no order between two names.

#[cfg(feature = "cloud")]
mod cloud;
mod folder;
mod memory;
mod name;
mod place;
mod temp;

pub use place::{Kind, Place};

use crate::error::Error;
use std::fmt;
use std::sync::Arc;

/// What became of a [`Store::put_new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object holds these bytes, from this call or from one before it.
    Written,
    /// Another object of this name was there first; it is unharmed.
    Exists,
}

impl Put {
    fn of(same: bool) -> Put {
        if same { Put::Written } else { Put::Exists }
    }
}

/// One object of a listing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A kind of store. Names have been checked.
trait Backend: Send + Sync {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, Error>;
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;
    fn size(&self, name: &str) -> Result<Option<u64>, Error>;
    /// In any order.
    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error>;
    fn delete(&self, name: &str) -> Result<(), Error>;
}

/// A store; clones are the same one. Names are paths like `JOB/lease`, and no name may be a folder
/// of another (`a` beside `a/b`), which a local folder cannot have.
#[derive(Clone)]
pub struct Store {
    backend: Arc<dyn Backend>,
    place: Arc<str>,
}

impl Store {
    /// Opens `file:PATH`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`. A
    /// folder is made by the first write; what a crash left behind in it is removed when it is old.
    /// The cloud is not asked before the first call; its credentials are those of the environment
    /// ([`Kind::environment`]).
    ///
    /// # Errors
    /// Of usage when the URL is none of these or the folder is a file; failed when it cannot be
    /// read.
    pub fn open(url: &str) -> Result<Store, Error> {
        let place = Place::parse(url)?;
        let backend: Arc<dyn Backend> = match place.folder() {
            Some(path) => Arc::new(folder::Folder::open(path, &place)?),
            None => cloud(&place)?,
        };
        let place = place.to_string().into();
        Ok(Store { backend, place })
    }

    /// A store that is gone with its last clone.
    pub fn memory() -> Store {
        Store {
            backend: Arc::new(memory::Memory::default()),
            place: "memory".into(),
        }
    }

    /// Writes an object if there is none of this name: atomic, and durable when it returns.
    /// [`Put::Exists`] is said of other bytes alone, so that a writer whose answer was lost learns
    /// from a second call that it had won. Writers that must be told apart write different bytes.
    ///
    /// # Errors
    /// Failed; whether the object is there is then unknown, but never a part of it.
    pub fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        name::check(name)?;
        self.backend.put_new(name, bytes)
    }

    /// Writes an object, over another if there is one: atomic, and durable when it returns.
    ///
    /// # Errors
    /// As [`Store::put_new`].
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        name::check(name)?;
        self.backend.put(name, bytes)
    }

    /// The bytes of an object; `None` when there is none.
    ///
    /// # Errors
    /// Failed, when it cannot be read or the store cannot be asked.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        name::check(name)?;
        self.backend.get(name)
    }

    /// The size of an object in bytes; `None` when there is none.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        name::check(name)?;
        self.backend.size(name)
    }

    /// All objects whose name begins with `prefix` (text, not only whole parts; empty for all),
    /// sorted by name, byte by byte.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        let mut entries = self.backend.list(prefix)?;
        entries.sort_unstable();
        Ok(entries)
    }

    /// Removes an object, durably; that there is none is no error.
    ///
    /// # Errors
    /// As [`Store::put_new`].
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        name::check(name)?;
        self.backend.delete(name)
    }

    /// Where it is, for messages; holds no secret.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Proves with an object of its own, `JOB/probe-…`, that the first of two writers wins: some
    /// servers that speak S3 take the condition of a write and ignore it, and then nothing would
    /// keep two incarnations apart.
    ///
    /// # Errors
    /// Refused when the second writer won; failed when the store cannot be used.
    pub fn prove_create_if_absent(&self, job: &str) -> Result<(), Error> {
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn)
            .map_err(|error| Error::failed(format!("no random numbers here: {error}")))?;
        let name = format!("{job}/probe-{:016x}", u64::from_le_bytes(drawn));
        self.put_new(&name, b"first")?;
        let second = self.put_new(&name, b"second")?;
        let found = self.get(&name)?;
        self.delete(&name)?;
        if second == Put::Exists && found.as_deref() == Some(b"first") {
            return Ok(());
        }
        Err(Error::refused(format!(
            "{} does not keep what was written first",
            self.place
        ))
        .line("found     a write with `If-None-Match: *` went over an object that was there")
        .line("expected  a store that refuses it: two runs of a job are told apart by that")
        .line("Use another store, or a newer version of its server."))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.place).finish()
    }
}

#[cfg(feature = "cloud")]
fn cloud(place: &Place) -> Result<Arc<dyn Backend>, Error> {
    Ok(Arc::new(cloud::Cloud::open(place)?))
}

#[cfg(not(feature = "cloud"))]
fn cloud(place: &Place) -> Result<Arc<dyn Backend>, Error> {
    Err(
        Error::usage("`checkpoint.store` is in the cloud, and this program was built without it")
            .line(format!("found     {place}"))
            .line("expected  file:PATH, or a build with the cargo feature `cloud`"),
    )
}

#[cfg(test)]
mod tests {
    use super::memory::Memory;
    use super::{Backend, Entry, Put, Store};
    use crate::error::{Error, ErrorKind};
    use std::sync::Arc;

    /// A server that takes the condition of a write and ignores it.
    #[derive(Default)]
    struct Heedless(Memory);

    impl Backend for Heedless {
        fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
            self.0.put(name, bytes).map(|()| Put::Written)
        }
        fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
            self.0.put(name, bytes)
        }
        fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
            self.0.get(name)
        }
        fn size(&self, name: &str) -> Result<Option<u64>, Error> {
            self.0.size(name)
        }
        fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
            self.0.list(prefix)
        }
        fn delete(&self, name: &str) -> Result<(), Error> {
            self.0.delete(name)
        }
    }

    #[test]
    fn a_store_that_ignores_conditions_is_refused() {
        let store = Store {
            backend: Arc::new(Heedless::default()),
            place: "s3://heedless".into(),
        };
        let error = store
            .prove_create_if_absent("job")
            .expect_err("the second won");
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(
            error.text.starts_with("s3://heedless does not keep"),
            "{error}"
        );
        assert_eq!(store.list("").expect("listed"), []);
    }

    #[test]
    fn clones_are_one_store() {
        let store = Store::memory();
        let clone = store.clone();
        assert_eq!(clone.put_new("a", b"1").expect("asked"), Put::Written);
        assert_eq!(store.put_new("a", b"2").expect("asked"), Put::Exists);
        assert_eq!(format!("{store:?}"), "Store(\"memory\")");
    }
}
