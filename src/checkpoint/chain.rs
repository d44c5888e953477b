//! The chain of a job's manifests in the store: `JOB/manifest/NNNNNNNNNN`.
//!
//! Invariant: numbers are created, never overwritten. It cannot be forked: of two that create one
//! number, one is told that it exists.

use super::manifest::Manifest;
use crate::error::Error;
use crate::store::{Put, Store};

/// The object of a manifest.
pub fn name(job: &str, number: u64) -> String {
    format!("{job}/manifest/{number:010}")
}

/// The numbers of all manifests of a job, ascending.
///
/// # Errors
/// When the store cannot be listed.
pub fn numbers(store: &Store, job: &str) -> Result<Vec<u64>, Error> {
    let prefix = format!("{job}/manifest/");
    let mut numbers: Vec<u64> = store
        .list(&prefix)?
        .iter()
        .filter_map(|entry| entry.name.strip_prefix(&prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads one manifest.
///
/// # Errors
/// When it is missing or damaged; the object is named.
pub fn load(store: &Store, job: &str, number: u64) -> Result<Manifest, Error> {
    let object = name(job, number);
    let bytes = store.get(&object)?;
    let bytes = bytes.ok_or_else(|| missing(store, job, number))?;
    Manifest::decode(&bytes).map_err(|error| {
        Error::refused(format!("checkpoint {number} of job {job} cannot be read"))
            .line(format!("object    {object} in {}", store.place()))
            .line(format!("found     {error}"))
            .line("Restore the object from a copy, or go back to an older checkpoint with")
            .line("--from-checkpoint N: what was read since is read again.")
    })
}

/// The refusal of a checkpoint that is not there.
pub fn missing(store: &Store, job: &str, number: u64) -> Error {
    let object = name(job, number);
    Error::refused(format!("there is no checkpoint {number} of job {job}"))
        .line(format!("missing   {object} in {}", store.place()))
        .line("`headwater checkpoint ls` lists those that are there.")
}

/// The newest manifest; `None` for a job that never ran.
///
/// # Errors
/// As [`load`]: a damaged one is never passed over in silence.
pub fn latest(store: &Store, job: &str) -> Result<Option<Manifest>, Error> {
    match numbers(store, job)?.last() {
        Some(number) => load(store, job, *number).map(Some),
        None => Ok(None),
    }
}

/// Creates the manifest that makes a new run the owner of the job.
///
/// # Errors
/// When another run has created that number.
pub fn claim(store: &Store, manifest: &Manifest) -> Result<(), Error> {
    crate::fault::point("claim.manifest.before")?;
    let object = name(&manifest.job, manifest.number);
    let put = store.put_new(&object, &manifest.encode())?;
    crate::fault::point("claim.manifest.after")?;
    match put {
        Put::Written => Ok(()),
        Put::Exists => Err(Error::refused(format!(
            "another run of job {} started at the same moment",
            manifest.job
        ))
        .line(format!("found     {object} in {}", store.place()))
        .line("One job has one live run. If that one is not wanted, stop it, then start again.")),
    }
}
