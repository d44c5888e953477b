//! Stores in the cloud: S3 and what speaks its protocol, Google Cloud Storage, Azure.
//!
//! Invariant: `put_new` never says [`Put::Exists`] of an object that it wrote itself, however often
//! a request was repeated underneath: when the answer is in doubt, the object is read and compared.
//!
//! What may pass by itself is tried again for a bounded time; then the call fails. A server that
//! ignores `If-None-Match: *` is not noticed here: `Store::prove_create_if_absent` is for that.

mod driver;

use super::place::Kind;
use super::{Backend, Entry, Place, Put};
use crate::error::Error;
use crate::fault;
use driver::Driver;
use futures_util::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error as Fault, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutPayload, Result as Answer, RetryConfig,
};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// From here on an object has the longer time limit.
const LARGE_BYTES_MIN: u64 = 4 << 20;
/// Time limits of one request with all its bytes.
const SMALL_LIMIT: Duration = Duration::from_secs(20);
const LARGE_LIMIT: Duration = Duration::from_secs(900);
/// How long and how often a request is repeated after an error that may pass.
const RETRY_LIMIT: Duration = Duration::from_secs(30);
const RETRIES: usize = 8;
/// How often a conditional write is sent, as the client does not repeat one whose answer was lost.
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// What an error says at most, bytes.
const SAID_BYTES_MAX: usize = 600;

pub(super) struct Cloud {
    place: Place,
    /// Two clients, as the limit of a request is the client's.
    small: Arc<dyn ObjectStore>,
    large: Arc<dyn ObjectStore>,
    driver: Driver,
}

impl Cloud {
    pub(super) fn open(place: &Place) -> Result<Cloud, Error> {
        // Fails when the program has chosen one before, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let of = |limit| {
            client(place, limit).map_err(|error| {
                Error::usage(format!("the store {place} cannot be used"))
                    .line(format!("found     {}", said(&error)))
                    .line(format!(
                        "expected  in the environment: {}",
                        place.kind.environment()
                    ))
            })
        };
        Ok(Cloud {
            place: place.clone(),
            small: of(SMALL_LIMIT)?,
            large: of(LARGE_LIMIT)?,
            driver: Driver::start()?,
        })
    }

    fn path(&self, name: &str) -> Result<Path, Error> {
        let prefix = &self.place.prefix;
        let whole = if prefix.is_empty() {
            name.to_owned()
        } else {
            format!("{prefix}/{name}")
        };
        let parsed = Path::parse(&whole);
        parsed
            .map_err(|error| Error::usage(format!("{}: no name of an object: {error}", self.place)))
    }

    fn client(&self, bytes: u64) -> Arc<dyn ObjectStore> {
        Arc::clone(if bytes < LARGE_BYTES_MIN {
            &self.small
        } else {
            &self.large
        })
    }

    /// Runs requests to their end.
    fn ask<T: Send + 'static>(
        &self,
        requests: impl Future<Output = Answer<T>> + Send + 'static,
    ) -> Result<Answer<T>, Error> {
        self.driver.run(requests)
    }

    fn write(&self, name: &str, payload: PutPayload, mode: PutMode) -> Result<Answer<()>, Error> {
        let path = self.path(name)?;
        let client = self.client(payload.content_length() as u64);
        fault::point("store.request")?;
        let written =
            self.ask(async move { client.put_opts(&path, payload, mode.into()).await.map(drop) })?;
        if written.is_ok() {
            fault::point("store.answer")?;
        }
        Ok(written)
    }

    fn wrong(&self, name: &str, what: &str, error: &Fault) -> Error {
        let kind = self.place.kind;
        let remedy = match error {
            Fault::NotFound { .. } => "Does the bucket exist? It is not made here.".to_owned(),
            Fault::PermissionDenied { .. } | Fault::Unauthenticated { .. } => format!(
                "The credentials must allow to read, write, list and delete there: {}.",
                kind.environment()
            ),
            Fault::NotImplemented { .. } | Fault::NotSupported { .. } => {
                "The store must do conditional writes; is AWS_CONDITIONAL_PUT set to `disabled`?"
                    .to_owned()
            }
            _ => format!(
                "Is the store up, its disk not full, and its address right? {}.",
                kind.environment()
            ),
        };
        Error::failed(format!("{}: object `{name}` cannot be {what}", self.place))
            .line(format!("found     {}", said(error)))
            .line(remedy)
    }
}

impl Backend for Cloud {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let payload = PutPayload::from(bytes.to_vec());
        let mut pause = FIRST_PAUSE;
        let mut tries = 1;
        loop {
            let error = match self.write(name, payload.clone(), PutMode::Create)? {
                Ok(()) => return Ok(Put::Written),
                Err(error) => error,
            };
            if hopeless(&error) {
                return Err(self.wrong(name, "written", &error));
            }
            // Somebody's object, or this one by a request whose answer was lost.
            if let Ok(Some(found)) = self.get(name) {
                return Ok(Put::of(found.as_slice() == bytes));
            }
            if tries == TRIES {
                return Err(self.wrong(name, "written", &error));
            }
            tries += 1;
            thread::sleep(pause);
            pause *= 2;
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let payload = PutPayload::from(bytes.to_vec());
        let written = self.write(name, payload, PutMode::Overwrite)?;
        written.map_err(|error| self.wrong(name, "written", &error))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(name)?;
        let (small, large) = (Arc::clone(&self.small), Arc::clone(&self.large));
        let read = self.ask(async move {
            let mut found = small.get(&path).await?;
            if found.meta.size >= LARGE_BYTES_MIN {
                found = large.get(&path).await?;
            }
            found.bytes().await.map(Vec::from)
        })?;
        match read {
            Err(Fault::NotFound { .. }) => Ok(None),
            read => read
                .map(Some)
                .map_err(|error| self.wrong(name, "read", &error)),
        }
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        let path = self.path(name)?;
        let client = Arc::clone(&self.small);
        match self.ask(async move { client.head(&path).await.map(|found| found.size) })? {
            Err(Fault::NotFound { .. }) => Ok(None),
            found => found
                .map(Some)
                .map_err(|error| self.wrong(name, "looked at", &error)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        // The service lists whole folders.
        let inside = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let base = &self.place.prefix;
        let folder = [base.as_str(), inside];
        let folder: Vec<&str> = folder.into_iter().filter(|part| !part.is_empty()).collect();
        let folder = match Path::parse(folder.join("/")) {
            Ok(folder) => (!folder.as_ref().is_empty()).then_some(folder),
            // Nothing can be there.
            Err(_) => return Ok(Vec::new()),
        };
        let objects = self.small.list(folder.as_ref());
        let listed = self.ask(objects.try_collect::<Vec<_>>())?;
        let listed = listed.map_err(|error| self.wrong(prefix, "listed", &error))?;
        let entry = |object: ObjectMeta| {
            let path = object.location.as_ref();
            let name = match base.as_str() {
                "" => path,
                base => path.strip_prefix(base)?.strip_prefix('/')?,
            };
            let bytes = object.size;
            (name.starts_with(prefix)).then(|| Entry {
                name: name.to_owned(),
                bytes,
            })
        };
        Ok(listed.into_iter().filter_map(entry).collect())
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name)?;
        let client = Arc::clone(&self.small);
        fault::point("store.request")?;
        match self.ask(async move { client.delete(&path).await })? {
            Ok(()) | Err(Fault::NotFound { .. }) => fault::point("store.answer"),
            Err(error) => Err(self.wrong(name, "removed", &error)),
        }
    }
}

/// Whether asking again cannot help.
fn hopeless(error: &Fault) -> bool {
    matches!(
        error,
        Fault::NotFound { .. }
            | Fault::PermissionDenied { .. }
            | Fault::Unauthenticated { .. }
            | Fault::NotImplemented { .. }
            | Fault::NotSupported { .. }
            | Fault::InvalidPath { .. }
    )
}

/// An error of the client on one line; it leaves out URLs that hold a signature.
fn said(error: &Fault) -> String {
    let text = error.to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().find(|(at, _)| *at >= SAID_BYTES_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// A client with the credentials of the environment.
fn client(place: &Place, limit: Duration) -> Answer<Arc<dyn ObjectStore>> {
    let limit = format!("{}s", limit.as_secs());
    let retry = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES,
        retry_timeout: RETRY_LIMIT,
    };
    let key = ClientConfigKey::Timeout;
    Ok(match place.kind {
        Kind::Google => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&place.bucket)
                .with_config(GoogleConfigKey::Client(key), limit)
                .with_retry(retry)
                .build()?,
        ),
        Kind::Azure => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_container_name(&place.bucket)
                .with_config(AzureConfigKey::Client(key), limit)
                .with_retry(retry)
                .build()?,
        ),
        Kind::S3 | Kind::Folder => Arc::new(
            AmazonS3Builder::from_env()
                .with_bucket_name(&place.bucket)
                .with_config(AmazonS3ConfigKey::Client(key), limit)
                .with_retry(retry)
                .build()?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::Cloud;
    use crate::store::{Place, Store};

    #[test]
    fn names_lie_below_the_prefix() {
        for (url, path) in [
            ("s3://bucket", "job/lease"),
            ("gs://bucket/a/b", "a/b/job/lease"),
        ] {
            let place = Place::parse(url).expect(url);
            // Google's client needs no credentials until it is asked.
            let cloud = Cloud::open(&place).expect(url);
            assert_eq!(cloud.path("job/lease").expect("a name").as_ref(), path);
        }
    }

    #[test]
    fn azure_without_an_account_is_told_which_variable() {
        if std::env::var_os("AZURE_STORAGE_ACCOUNT_NAME").is_some() {
            return;
        }
        let error = Store::open("az://container/a").expect_err("no account");
        assert!(error.text.contains("AZURE_STORAGE_ACCOUNT_NAME"), "{error}");
        assert!(error.text.contains("az://container/a"), "{error}");
    }
}
