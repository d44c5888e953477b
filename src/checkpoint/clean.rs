//! Deletes old manifests, then the runs that no kept manifest names.
//!
//! Invariant: called only when the newest manifest of this run was verified. A run is deleted only
//! when no manifest that stays names it, and never one of a later incarnation; when the chain has a
//! newer manifest than ours, somebody else owns the job and nothing is deleted.
//!
//! It cannot see a run that is being written: there is none while a manifest is written.

use super::manifest::Manifest;
use super::{load, name, numbers};
use crate::error::Error;
use crate::fault;
use crate::store::Store;
use std::collections::BTreeSet;

/// Keeps the newest `kept` manifests.
pub(super) fn clean(store: &Store, newest: &Manifest, kept: usize) -> Result<(), Error> {
    let job = &newest.job;
    let all = numbers(store, job)?;
    if all.last() != Some(&newest.number) {
        return Ok(());
    }
    let (old, keep) = all.split_at(all.len().saturating_sub(kept));
    // A manifest that stays and cannot be read names runs that we cannot know.
    let mut named = BTreeSet::new();
    for number in keep {
        let Ok(manifest) = load(store, job, *number) else {
            return Ok(());
        };
        named.extend(manifest.markers.runs.into_iter().map(|run| run.file));
    }
    for number in old {
        fault::point("clean.manifest.before")?;
        if !is_newest(store, newest)? {
            return Ok(());
        }
        store.delete(&name(job, *number))?;
    }
    let prefix = format!("{job}/runs/");
    for entry in store.list(&prefix)? {
        let incarnation = entry.name.strip_prefix(&prefix);
        let incarnation = incarnation.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        let ours = incarnation.is_some_and(|found| found <= newest.incarnation);
        if ours && !named.contains(&entry.name) {
            fault::point("clean.run.before")?;
            // A successor may go on from an old manifest meanwhile, with runs that ours lacks.
            if !is_newest(store, newest)? {
                return Ok(());
            }
            store.delete(&entry.name)?;
        }
    }
    Ok(())
}

/// Whether the chain still ends with ours.
fn is_newest(store: &Store, newest: &Manifest) -> Result<bool, Error> {
    Ok(numbers(store, &newest.job)?.last() == Some(&newest.number))
}
