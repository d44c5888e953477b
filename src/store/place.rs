//! Where a store is: its URL, taken apart and told without secrets.
//!
//! Invariant: what is parsed holds no secret. Credentials come from the environment, and a URL with
//! a user, a password or a query is refused, its text unprinted.

use crate::error::Error;
use std::fmt;
use std::path::PathBuf;

/// The kinds of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder of this machine, `file:PATH`.
    Folder,
    /// Amazon S3 or what speaks its protocol, `s3://BUCKET/PREFIX`.
    S3,
    /// Google Cloud Storage, `gs://BUCKET/PREFIX`.
    Google,
    /// Azure Blob Storage, `az://CONTAINER/PREFIX`.
    Azure,
}

/// The kinds in the cloud and their schemes.
const CLOUDS: [(&str, Kind); 3] = [("s3", Kind::S3), ("gs", Kind::Google), ("az", Kind::Azure)];

impl Kind {
    /// Which environment variables a person sets for it.
    pub fn environment(self) -> &'static str {
        match self {
            Kind::Folder => "none",
            Kind::S3 => {
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION; \
                 AWS_ENDPOINT and AWS_ALLOW_HTTP for others than Amazon"
            }
            Kind::Google => "GOOGLE_SERVICE_ACCOUNT, the file of the key",
            Kind::Azure => "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
        }
    }
}

/// A place of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What kind it is.
    pub kind: Kind,
    /// The bucket or container; empty for a folder.
    pub bucket: String,
    /// The folder, or what all names begin with, without a slash at either end.
    pub prefix: String,
}

impl Place {
    /// Takes a URL apart; nothing is opened.
    ///
    /// # Errors
    /// Of usage, when it is none of the four forms.
    pub fn parse(url: &str) -> Result<Place, Error> {
        if let Some(path) = url.strip_prefix("file:") {
            if path.is_empty() || path.contains('\0') {
                return Err(wrong("`file:` without a path"));
            }
            return Ok(Place {
                kind: Kind::Folder,
                bucket: String::new(),
                prefix: path.to_owned(),
            });
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(wrong("no scheme"));
        };
        let known = CLOUDS.iter().find(|(name, _)| *name == scheme);
        let Some((_, kind)) = known else {
            return Err(wrong(&format!("the scheme `{}`", printable(scheme))));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if rest.contains(['@', '?', '#']) {
            return Err(wrong("a user, a query or a fragment in the URL")
                .line(format!("Credentials come from {}.", kind.environment())));
        }
        let is_bucket = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_bucket) {
            return Err(wrong(&format!("the bucket `{}`", printable(bucket))));
        }
        let prefix = prefix.trim_matches('/');
        if !prefix.is_empty() {
            super::name::check(prefix)
                .map_err(|_| wrong(&format!("the prefix `{}`", printable(prefix))))?;
        }
        Ok(Place {
            kind: *kind,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// The folder, when it is one.
    pub fn folder(&self) -> Option<PathBuf> {
        (self.kind == Kind::Folder).then(|| PathBuf::from(&self.prefix))
    }
}

/// As it is written in the configuration.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, _)) = CLOUDS.iter().find(|(_, kind)| *kind == self.kind) else {
            return write!(f, "file:{}", self.prefix);
        };
        write!(f, "{scheme}://{}", self.bucket)?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        Ok(())
    }
}

fn wrong(found: &str) -> Error {
    Error::usage("`checkpoint.store` is no place that is known")
        .line(format!("found     {found}"))
        .line(
            "expected  file:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX",
        )
}

/// A short piece of a URL, fit for a terminal.
fn printable(text: &str) -> String {
    text.chars()
        .take(64)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Kind, Place};
    use crate::error::ErrorKind;

    #[test]
    fn every_form_is_taken_apart_and_told_again() {
        for (url, kind, bucket, prefix) in [
            ("file:./state", Kind::Folder, "", "./state"),
            ("file:/var/lib/a b", Kind::Folder, "", "/var/lib/a b"),
            ("s3://bucket", Kind::S3, "bucket", ""),
            ("s3://my.bucket-1/a/b", Kind::S3, "my.bucket-1", "a/b"),
            ("gs://bucket/a", Kind::Google, "bucket", "a"),
            ("az://container/jobs/x", Kind::Azure, "container", "jobs/x"),
        ] {
            let place = Place::parse(url).expect(url);
            let found = (place.kind, &*place.bucket, &*place.prefix);
            assert_eq!(found, (kind, bucket, prefix), "{url}");
            assert_eq!(place.to_string(), url);
            assert_eq!(place.folder().is_some(), kind == Kind::Folder);
        }
        let slashed = Place::parse("s3://bucket/a/").expect("a slash at the end");
        assert_eq!(slashed.to_string(), "s3://bucket/a");
    }

    #[test]
    fn what_is_no_place_is_told_without_secrets() {
        for url in [
            "",
            "state",
            "file:",
            "ftp://a/b",
            "s3:bucket",
            "s3://",
            "s3:///a",
            "s3://bu cket/a",
            "s3://bucket/a//b",
            "s3://bucket/a/../b",
            "s3://bucket/a?sig=hunter2",
            "s3://user:hunter2@bucket/a",
            "az://container@account.dfs.core.windows.net/a?hunter2",
        ] {
            let error = Place::parse(url).expect_err(url);
            assert_eq!(error.kind, ErrorKind::Usage, "{url}");
            assert!(!error.text.contains("hunter2"), "{error}");
            assert!(error.text.contains("expected  file:PATH"), "{error}");
        }
    }
}
