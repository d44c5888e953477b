//! STUB, replaced by the store helper's module.

use crate::error::Error;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What became of [`Store::put_new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there now.
    Written,
    /// It was there.
    Exists,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// Size.
    pub bytes: u64,
}

/// Stub.
#[derive(Clone, Debug, Default)]
pub struct Store {
    folder: Option<std::path::PathBuf>,
    objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

fn bad(error: std::io::Error) -> Error {
    Error::failed(error.to_string())
}

impl Store {
    /// Stub.
    pub fn open(url: &str) -> Result<Store, Error> {
        Ok(Store {
            folder: Some(url.trim_start_matches("file:").into()),
            objects: Arc::default(),
        })
    }
    /// Stub.
    pub fn memory() -> Store {
        Store::default()
    }
    /// Stub.
    pub fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        if self.get(name)?.is_some() {
            return Ok(Put::Exists);
        }
        self.put(name, bytes)?;
        Ok(Put::Written)
    }
    /// Stub.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        match &self.folder {
            Some(folder) => {
                let path = folder.join(name);
                std::fs::create_dir_all(path.parent().expect("a parent")).map_err(bad)?;
                std::fs::write(path, bytes).map_err(bad)
            }
            None => {
                self.objects
                    .lock()
                    .expect("x")
                    .insert(name.to_owned(), bytes.to_vec());
                Ok(())
            }
        }
    }
    /// Stub.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match &self.folder {
            Some(folder) => match std::fs::read(folder.join(name)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(bad(error)),
            },
            None => Ok(self.objects.lock().expect("x").get(name).cloned()),
        }
    }
    /// Stub.
    pub fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        Ok(self.get(name)?.map(|bytes| bytes.len() as u64))
    }
    /// Stub.
    pub fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        let mut all = Vec::new();
        match &self.folder {
            Some(folder) => {
                let Ok(files) = std::fs::read_dir(folder.join(prefix)) else {
                    return Ok(all);
                };
                for file in files.flatten() {
                    all.push(Entry {
                        name: format!("{prefix}{}", file.file_name().to_string_lossy()),
                        bytes: file.metadata().map_err(bad)?.len(),
                    });
                }
            }
            None => {
                for (name, bytes) in self.objects.lock().expect("x").iter() {
                    if name.starts_with(prefix) {
                        all.push(Entry {
                            name: name.clone(),
                            bytes: bytes.len() as u64,
                        });
                    }
                }
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }
    /// Stub.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        match &self.folder {
            Some(folder) => {
                let _ = std::fs::remove_file(folder.join(name));
            }
            None => drop(self.objects.lock().expect("x").remove(name)),
        }
        Ok(())
    }
    /// Stub.
    pub fn place(&self) -> &str {
        "stub"
    }
}
