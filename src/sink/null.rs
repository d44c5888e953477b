//! A target that takes everything and keeps only counts; for benches.
//!
//! It cannot fail.

use super::{
    Applied, Change, Claim, Claimed, Fence, Place, ReplaySafety, Row, RowForm, Sink, WriteError,
    Writer,
};
use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts rows.
#[derive(Clone, Debug, Default)]
pub struct Null {
    upserts: Arc<AtomicU64>,
    deletes: Arc<AtomicU64>,
}

impl Null {
    /// Upserts and deletes written so far.
    pub fn counts(&self) -> (u64, u64) {
        (
            self.upserts.load(Ordering::Relaxed),
            self.deletes.load(Ordering::Relaxed),
        )
    }
}

impl Sink for Null {
    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn row_form(&self) -> RowForm {
        RowForm::Whole
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Nothing is written, so nobody can write too late.
    fn claim(&self, _claim: &Claim) -> Result<Claimed, Error> {
        Ok(Claimed {
            fence: Fence::Fenced,
            ..Claimed::default()
        })
    }

    fn writer(&self, _place: Place) -> Result<Box<dyn Writer>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Writer for Null {
    fn write(&mut self, rows: &[Row<'_>], _applied: &[Applied]) -> Result<(), WriteError> {
        let deletes = rows
            .iter()
            .filter(|row| row.change == Change::Delete)
            .count() as u64;
        self.deletes.fetch_add(deletes, Ordering::Relaxed);
        self.upserts
            .fetch_add(rows.len() as u64 - deletes, Ordering::Relaxed);
        Ok(())
    }
}
