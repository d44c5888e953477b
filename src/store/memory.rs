//! The store that is gone with the process: for tests and for jobs that keep nothing.

use super::{Backend, Entry, Put};
use crate::error::Error;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Memory {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Memory {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let mut objects = self.objects();
        let found = objects
            .entry(name.to_owned())
            .or_insert_with(|| bytes.to_vec());
        Ok(Put::of(found.as_slice() == bytes))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.objects().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.objects().get(name).cloned())
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        Ok(self.objects().get(name).map(|bytes| bytes.len() as u64))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        let objects = self.objects();
        let found = objects.iter().filter(|(name, _)| name.starts_with(prefix));
        Ok(found
            .map(|(name, bytes)| Entry {
                name: name.clone(),
                bytes: bytes.len() as u64,
            })
            .collect())
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        self.objects().remove(name);
        Ok(())
    }
}
