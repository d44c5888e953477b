//! `headwater checkpoint ls | verify | explain`: what is in the store of a job. Nothing is changed.
//!
//! Reading the store is apart from saying what was found: [`Listing`], [`Verified`] and
//! [`Explained`] are plain facts, each as a text for a person and as JSON for a program.
//!
//! Invariant: they may run beside a live job. What that job deletes meanwhile is not taken for
//! damage.
//!
//! They ask neither topics nor target, so a run may be refused all the same.

mod columns;
mod explain;
mod list;
mod moment;
mod verify;

pub use explain::{Around, Explained};
pub use list::{Held, Listed, Listing, list, listing};
pub use moment::Moment;
pub use verify::{Damage, Object, Verified, verify};

use crate::begin;
use crate::checkpoint::{self, numbers};
use crate::cli::{self, CheckpointArgs, CheckpointVerb};
use crate::config::Config;
use crate::error::Error;
use crate::store::Store;

/// A live job may delete the newest checkpoint behind a newer one while it is read; so often the
/// newest is looked for anew.
const TRIES: usize = 5;

/// Runs the verb.
///
/// # Errors
/// When the store cannot be asked or there is no such checkpoint, and a refusal when it is damaged.
pub fn checkpoint(args: &CheckpointArgs) -> Result<(), Error> {
    let loaded = Config::load(&args.origin)?;
    loaded.notices.iter().for_each(|notice| cli::note(notice));
    let config = loaded.config;
    let store = Store::open(&config.checkpoint.store)?;
    let job = &config.job.job;
    let text = |json: String, text: String| match args.json {
        true => cli::say(&(json + "\n")),
        false => cli::say(&text),
    };
    match args.verb {
        CheckpointVerb::List => {
            let listing = list(&store, job)?;
            text(listing.json(), listing.table())
        }
        CheckpointVerb::Verify { number, all } => {
            let verified = match all {
                true => verify_all(&store, job)?,
                false => vec![verify_one(&store, job, number)?],
            };
            let tables: Vec<String> = verified.iter().map(Verified::table).collect();
            let json = serde_json::to_string(&verified).expect("plain numbers and text");
            text(json, tables.join("\n"))?;
            verified.iter().rev().try_for_each(Verified::verdict)
        }
        CheckpointVerb::Explain { number } => {
            let explained = explain(&store, &config, number)?;
            text(explained.json(), explained.text())
        }
    }
}

/// Every checkpoint that is there, by number.
fn verify_all(store: &Store, job: &str) -> Result<Vec<Verified>, Error> {
    let mut all = Vec::new();
    for number in numbers(store, job)? {
        all.extend(verify(store, job, number)?);
    }
    if all.is_empty() {
        return Err(none(store, job));
    }
    Ok(all)
}

fn verify_one(store: &Store, job: &str, wanted: Option<u64>) -> Result<Verified, Error> {
    found(store, job, wanted, |number| verify(store, job, number))
}

/// Explains a checkpoint; the newest unless one is wanted.
fn explain(store: &Store, config: &Config, wanted: Option<u64>) -> Result<Explained, Error> {
    let job = &config.job.job;
    found(store, job, wanted, |number| {
        let Some(bytes) = store.get(&checkpoint::name(job, number))? else {
            return Ok(None);
        };
        // Says what is wrong, with the object's name.
        let manifest = match checkpoint::Manifest::decode(&bytes) {
            Ok(manifest) => manifest,
            Err(_) => checkpoint::load(store, job, number)?,
        };
        let all = numbers(store, job)?;
        let around = Around {
            place: store.place(),
            bytes: bytes.len() as u64,
            newest: all.last().copied().unwrap_or(number).max(number),
            next_incarnation: begin::next_incarnation(store, job, &all),
            config,
        };
        Ok(Some(Explained::of(&manifest, &around)))
    })
}

/// What `look` finds of the wanted checkpoint, or of the newest.
fn found<T>(
    store: &Store,
    job: &str,
    wanted: Option<u64>,
    look: impl Fn(u64) -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    if let Some(number) = wanted {
        return look(number)?.ok_or_else(|| checkpoint::missing(store, job, number));
    }
    for _ in 0..TRIES {
        let Some(newest) = numbers(store, job)?.last().copied() else {
            return Err(none(store, job));
        };
        if let Some(found) = look(newest)? {
            return Ok(found);
        }
    }
    Err(Error::failed(format!(
        "job {job} makes checkpoints faster than they can be read"
    ))
    .line("Stop it, or give `checkpoint.kept` or `checkpoint.interval` a greater value."))
}

fn none(store: &Store, job: &str) -> Error {
    Error::failed(format!("job {job} has no checkpoint"))
        .line(format!("missing   {job}/manifest/ in {}", store.place()))
        .line("`job` and `checkpoint.store` in the configuration say where it is looked for.")
}

#[cfg(test)]
mod tests {
    use super::{found, none, verify_all};
    use crate::checkpoint::name;
    use crate::error::ErrorKind;
    use crate::store::Store;
    use std::cell::Cell;

    #[test]
    fn the_newest_is_looked_for_anew_when_it_is_gone() {
        let store = Store::memory();
        let none = none(&store, "j");
        let look = |_| Ok(Some(()));
        assert_eq!(found(&store, "j", None, look), Err(none.clone()));
        assert_eq!(verify_all(&store, "j"), Err(none));
        store.put(&name("j", 4), b"").expect("written");
        let looks = Cell::new(0);
        let number = found(&store, "j", None, |number| {
            looks.set(looks.get() + 1);
            store.put(&name("j", 5), b"")?;
            Ok((number == 5).then_some(number))
        });
        assert_eq!((number, looks.get()), (Ok(5), 2));
        let error = found(&store, "j", None, |_| Ok(None::<()>)).expect_err("always gone");
        assert!(error.text.contains("faster"), "{error}");
        let error = found(&store, "j", Some(3), |_| Ok(None::<()>)).expect_err("not there");
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.text.contains("there is no checkpoint 3 of job j"));
    }
}
