//! Poisoned keys: those whose last mutation could not be decoded, each with its tick.
//!
//! Such a mutation has its marker like any other, so a READ of before it is not emitted; but the
//! target has nothing that stands for it, so that READ is quarantined and not dropped.
//!
//! Invariant: a mark stays until a later whole row or DELETE of its key, or until the marker of the
//! same mutation is forgotten. Only mutations change it.
//!
//! It cannot say what the mutation would have done; the dead letters have it as it came. It is kept
//! in memory: there are few bad records, or somebody acts.

use std::collections::BTreeMap;

/// One poisoned key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoisonMark {
    /// Of the key.
    pub fingerprint: u128,
    /// The tick of its last mutation that could not be decoded.
    pub tick_ms: u64,
}

/// The poisoned keys of one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poison(BTreeMap<u128, u64>);

impl Poison {
    /// As a checkpoint has left it.
    pub(crate) fn of(marks: Vec<PoisonMark>) -> Poison {
        let mut poison = Poison::default();
        for mark in marks {
            poison.set(mark.fingerprint, mark.tick_ms);
        }
        poison
    }

    pub(crate) fn set(&mut self, fingerprint: u128, tick_ms: u64) {
        let known = self.0.entry(fingerprint).or_default();
        *known = tick_ms.max(*known);
    }

    pub(crate) fn clear(&mut self, fingerprint: u128) {
        self.0.remove(&fingerprint);
    }

    /// Whether a key is poisoned: one branch while none is.
    #[inline]
    pub(crate) fn holds(&self, fingerprint: u128) -> bool {
        !self.0.is_empty() && self.0.contains_key(&fingerprint)
    }

    /// The tick of a key's mark.
    #[inline]
    pub(crate) fn of_key(&self, fingerprint: u128) -> Option<u64> {
        match self.0.is_empty() {
            true => None,
            false => self.0.get(&fingerprint).copied(),
        }
    }

    /// Forgets the marks of mutations whose markers are forgotten.
    pub(crate) fn forget_through(&mut self, horizon: u64) {
        if !self.0.is_empty() {
            self.0.retain(|_, tick| *tick > horizon);
        }
    }

    /// All of them.
    pub(crate) fn marks(&self) -> Vec<PoisonMark> {
        let marks = self.0.iter();
        let mark = |(fingerprint, tick): (&u128, &u64)| PoisonMark {
            fingerprint: *fingerprint,
            tick_ms: *tick,
        };
        marks.map(mark).collect()
    }
}
