//! What an SQL target keeps of the job that writes it, and what a run may do by it.
//!
//! Four tables beside the target's own: `headwater_target` (a row for each target table: its job,
//! its identity, the incarnation that may write), `headwater_applied` (how far each shard is in
//! each partition), `headwater_checkpoint` (the last checkpoint that counts on the target) and
//! `headwater_generation` (how far each generation is, for whoever reads the rows). The last two
//! are tables of their own because every batch holds its row of `headwater_target` locked against
//! writers: in PostgreSQL a stream of such locks can keep an UPDATE waiting for ever.
//!
//! Progress, checkpoint and generations hang on the identity, not on the name of the job: jobs of
//! one name that write different tables of one database do not mix theirs.
//!
//! Invariant: the incarnation of a row never falls, as long as the row is not deleted by hand.
//!
//! It cannot see that the rows of a target were deleted (DELETE, TRUNCATE) while the job was away.

use super::claim::{Applied, Claim, Claimed};
use super::{Role, WriteError};
use crate::error::Error;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Which run may write a target table.
pub(super) const TARGET: &str = "headwater_target";
/// How far shards are.
pub(super) const APPLIED: &str = "headwater_applied";
/// The last checkpoint that counts on the target.
pub(super) const CHECKPOINT: &str = "headwater_checkpoint";
/// How far generations are.
pub(super) const GENERATION: &str = "headwater_generation";

/// A row of `headwater_target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) job: String,
    /// Random, made when a fresh job takes the target.
    pub(super) identity: String,
    pub(super) incarnation: u32,
    /// Random in each process: tells two runs of one number apart.
    pub(super) claimant: String,
}

/// A target table and its row, if it has one.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) table: String,
    pub(super) holder: Option<Holder>,
}

/// What becomes of the rows when the claim is good.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taking {
    pub(super) identity: String,
    /// Identities whose progress is now that of `identity`, and whose checkpoint is forgotten: an
    /// earlier run of the job wrote rows and made no checkpoint.
    pub(super) carried: Vec<String>,
}

/// What a claim is laid over.
pub(super) struct Case<'a> {
    pub(super) claim: &'a Claim,
    pub(super) claimant: &'a str,
    pub(super) found: &'a [Found],
    /// The number in `headwater_checkpoint` for the claim's identity; 0 when there is none.
    pub(super) noted: u64,
    /// `headwater_target` as it stands in SQL.
    pub(super) ledger: &'a str,
}

impl Case<'_> {
    /// Whether the claim is good; `fresh` is the identity of a target that is taken anew.
    ///
    /// # Errors
    /// See [`super::Sink::claim`].
    pub(super) fn judge(&self, fresh: &str) -> Result<Taking, Error> {
        for found in self.found {
            if let Some(holder) = &found.holder {
                self.owner(&found.table, holder)?;
            }
        }
        if let Some(identity) = &self.claim.identity {
            self.same(identity)?;
            return Ok(Taking {
                identity: identity.clone(),
                carried: Vec::new(),
            });
        }
        if self.claim.checkpoint > 0 {
            self.same("")?;
        }
        let holders = || self.found.iter().filter_map(|found| found.holder.as_ref());
        let mine = |holder: &Holder| holder.claimant == self.claimant;
        if let Some(first) = holders().next()
            && self.found.iter().all(|found| {
                let holder = found.holder.as_ref();
                holder.is_some_and(|holder| mine(holder) && holder.identity == first.identity)
            })
        {
            // The claim of this very process, made again.
            return Ok(Taking {
                identity: first.identity.clone(),
                carried: Vec::new(),
            });
        }
        let carried: BTreeSet<&String> = holders().map(|holder| &holder.identity).collect();
        Ok(Taking {
            identity: fresh.to_owned(),
            carried: carried.into_iter().cloned().collect(),
        })
    }

    /// The job is the same and no newer run has it.
    fn owner(&self, table: &str, holder: &Holder) -> Result<(), Error> {
        let Claim {
            job, incarnation, ..
        } = self.claim;
        let give_up = format!(
            "DELETE FROM {} WHERE job = '{}';",
            self.ledger,
            holder.job.replace('\'', "''")
        );
        if holder.job != *job {
            return Err(
                Error::refused(format!("target table {table} belongs to another job"))
                    .line(format!("its job   {}", holder.job))
                    .line(format!("this job  {job}"))
                    .line("Two jobs would undo each other's rows. Take another target, or, when")
                    .line("the other job is over for good, let go of what it held:")
                    .line(give_up),
            );
        }
        let sides = |error: Error| {
            error
                .line(format!("the target  incarnation {}", holder.incarnation))
                .line(format!("this run    incarnation {incarnation}"))
        };
        if holder.incarnation > *incarnation {
            let what = format!("a newer run of job `{job}` has taken target table {table}");
            return Err(sides(Error::refused(what))
                .line("End this run if the newer one is at work. If `checkpoint.store` was lost")
                .line("or put back from a copy, and no run is at work, start anew after")
                .line(give_up));
        }
        if holder.incarnation == *incarnation && holder.claimant != self.claimant {
            let what = format!("another run of job `{job}` has taken target table {table}");
            return Err(sides(Error::refused(what))
                .line("Two runs have one number only if they use different stores. Give all")
                .line("runs of the job one `checkpoint.store`; a start with it takes over."));
        }
        Ok(())
    }

    /// The target is the one that the checkpoint was made with, and not an older copy.
    fn same(&self, identity: &str) -> Result<(), Error> {
        let checkpoint = self.claim.checkpoint;
        for Found { table, holder } in self.found {
            let has = holder.as_ref().map(|holder| holder.identity.as_str());
            if has != Some(identity) {
                let what =
                    format!("target table {table} is not the one that the job has written so far");
                let known = match identity {
                    "" => "nothing",
                    known => known,
                };
                let has = has.unwrap_or("nothing: the table was made anew, or never written");
                return Err(Error::refused(what)
                    .line(format!("checkpoint {checkpoint} knows it by  {known}"))
                    .line(format!("the target says      {has}"))
                    .line("Rows that the checkpoint counts as written would be missing.")
                    .line("Put back the old target, or start anew: an empty target and an empty")
                    .line("`checkpoint.store`."));
            }
        }
        if self.noted < checkpoint {
            let what = "the target is an older copy: its stored progress is behind the checkpoint";
            return Err(Error::refused(what)
                .line(format!("this start  checkpoint {checkpoint}"))
                .line(format!("the target  checkpoint {}", self.noted))
                .line("Rows that the checkpoint counts as written would be missing.")
                .line("Put back a newer copy of the target, or start from a checkpoint that it")
                .line("has, or anew: an empty target and an empty `checkpoint.store`."));
        }
        Ok(())
    }
}

/// What this process has claimed a target for.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Option<Claimant>>);

#[derive(Clone, Debug)]
struct Claimant {
    token: String,
    incarnation: u32,
    identity: String,
}

impl Held {
    /// Makes a claim, as the same claimant each time.
    ///
    /// # Errors
    /// Those of `make`.
    pub(super) fn claim(
        &self,
        incarnation: u32,
        make: impl FnOnce(&str) -> Result<Claimed, Error>,
    ) -> Result<Claimed, Error> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let token = match &*held {
            Some(claimant) => claimant.token.clone(),
            None => token()?,
        };
        let claimed = make(&token)?;
        *held = Some(Claimant {
            token,
            incarnation,
            identity: claimed.identity.clone().unwrap_or_default(),
        });
        Ok(claimed)
    }

    /// The incarnation that was claimed for.
    ///
    /// # Errors
    /// When nothing was.
    pub(super) fn incarnation(&self) -> Result<u32, WriteError> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let claimant = held.as_ref().ok_or_else(|| {
            let what = "a checkpoint is to count on a target that was not claimed here";
            WriteError::Fatal(Error::failed(what))
        })?;
        Ok(claimant.incarnation)
    }

    /// A guard that knows what was claimed. `target` is for messages.
    pub(super) fn guard(
        &self,
        job: &str,
        incarnation: u32,
        target: String,
        tables: usize,
    ) -> Guard {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = held.as_ref().filter(|held| held.incarnation == incarnation);
        Guard {
            job: job.to_owned(),
            incarnation,
            target,
            tables,
            seen: same.map(|held| held.identity.clone()),
        }
    }
}

/// Lets a writer write as long as its run has the target.
pub(super) struct Guard {
    job: String,
    incarnation: u32,
    /// For messages.
    target: String,
    /// Target tables that must have a row.
    tables: usize,
    /// The identity, once this run was seen to have the target.
    seen: Option<String>,
}

impl Guard {
    pub(super) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Whether this run was seen to have the target.
    pub(super) fn has_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// Looks at the rows of the target tables, read in the transaction that is to write. The
    /// identity, or why nothing may be written.
    ///
    /// # Errors
    /// [`WriteError::Fatal`] when the target was taken away, [`WriteError::Retry`] when this run
    /// has not taken it yet.
    pub(super) fn check(&mut self, rows: &[Holder]) -> Result<&str, WriteError> {
        let newer = rows.iter().find(|row| {
            let lower = row.incarnation < self.incarnation;
            row.job != self.job || row.incarnation > self.incarnation || (lower && self.has_seen())
        });
        if let Some(row) = newer {
            let other = match row.job == self.job {
                true => String::new(),
                false => format!(" of job `{}`", row.job),
            };
            let what = format!(
                "fenced: incarnation {}{other} has taken over the target {}",
                row.incarnation, self.target
            );
            return Err(WriteError::Fatal(
                Error::refused(what)
                    .line(format!(
                        "this run  incarnation {} of job `{}`",
                        self.incarnation, self.job
                    ))
                    .line("It must not write any more. Leave the newer run at work."),
            ));
        }
        let mut all = rows.len() >= self.tables;
        all &= rows.iter().all(|row| row.incarnation == self.incarnation);
        let Some(first) = rows.first().filter(|_| all) else {
            return Err(self.without());
        };
        let identity = self.seen.get_or_insert_with(|| first.identity.clone());
        if rows.iter().any(|row| row.identity != *identity) {
            return Err(self.without());
        }
        Ok(self.seen.as_deref().expect("set above"))
    }

    fn without(&self) -> WriteError {
        let incarnation = self.incarnation;
        if !self.has_seen() {
            return WriteError::Retry(format!(
                "{}: incarnation {incarnation} has not taken the target yet",
                self.target
            ));
        }
        let what = format!(
            "{}: the row of a target table in {TARGET} is gone",
            self.target
        );
        WriteError::Fatal(
            Error::refused(what)
                .line(format!(
                    "expected  incarnation {incarnation} of job `{}`",
                    self.job
                ))
                .line("The table was made anew, or the row deleted, while the job was writing.")
                .line("Rows written before may be missing. Start anew, into an empty target."),
        )
    }
}

/// A number that nobody else has.
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failed(format!("no random numbers here: {error}")))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// What `headwater_applied` says: role, topic, partition and the farthest shard of it.
///
/// # Errors
/// When a role or a partition is none.
pub(super) fn applied(rows: Vec<(String, String, i64, i64)>) -> Result<Vec<Applied>, Error> {
    let roles = [Role::Mutations, Role::Snapshot];
    let one = |(word, topic, partition, next_offset): (String, String, i64, i64)| {
        let role = roles.into_iter().find(|role| role.word() == word);
        let (Some(role), Ok(partition)) = (role, u32::try_from(partition)) else {
            return Err(
                Error::failed(format!("{APPLIED} of the target cannot be read"))
                    .line(format!("found     role {word}, partition {partition}"))
                    .line("expected  mutations or snapshot, and a partition number")
                    .line("A newer Headwater may have written it: use that one."),
            );
        };
        Ok(Applied {
            role,
            topic,
            partition,
            next_offset: unsigned(next_offset),
        })
    };
    rows.into_iter().map(one).collect()
}

/// A number as SQL keeps it; no offset or checkpoint is that large.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number as SQL kept it.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// An incarnation as SQL kept it; what is none is greater than all.
pub(super) fn incarnation(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
