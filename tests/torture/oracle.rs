//! The oracle: the rows of a target against the rows that the history ends in.
//!
//! Invariant: it looks at nothing that the job says.
//!
//! It cannot see what later records have hidden: the auditor does.

use crate::history::{History, Seen};
use std::collections::BTreeMap;

/// How a target differs from the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// Keys of both that show another change, or the right one from the wrong topic.
    pub(crate) stale: Vec<u32>,
    /// Keys that the source has no more, or never had.
    pub(crate) resurrected: Vec<u32>,
    /// Keys that the target lacks.
    pub(crate) lost: Vec<u32>,
}

impl Differences {
    /// Rows of the set difference, both ways.
    pub(crate) fn rows(&self) -> u64 {
        (2 * self.stale.len() + self.resurrected.len() + self.lost.len()) as u64
    }

    /// In words, with some keys as examples.
    pub(crate) fn words(&self) -> String {
        let some = |keys: &[u32]| format!("{} {:?}", keys.len(), &keys[..keys.len().min(5)]);
        format!(
            "stale {}, resurrected {}, lost {}",
            some(&self.stale),
            some(&self.resurrected),
            some(&self.lost)
        )
    }
}

/// Compares.
pub(crate) fn compare(history: &History, found: &BTreeMap<u32, Seen>) -> Differences {
    let truth = history.truth();
    let mut differences = Differences::default();
    for (key, row) in &truth {
        match found.get(key) {
            None => differences.lost.push(*key),
            Some(other) if other != row => differences.stale.push(*key),
            Some(_) => (),
        }
    }
    let gone = found.keys().filter(|key| !truth.contains_key(key));
    differences.resurrected.extend(gone);
    differences
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::history::Builder;

    #[test]
    fn each_way_to_differ_is_seen() {
        let mut builder = Builder::new(1, &[true, true, true, true, true], 1, 1);
        builder.change(0, false);
        builder.change(1, true);
        let history = builder.build();
        let live = |seq| (seq, "live".to_owned());
        let read = |seq| (seq, "read".to_owned());
        let right = history.truth();
        assert_eq!(
            right.clone().into_iter().collect::<Vec<_>>(),
            [(0, live(1)), (2, read(0)), (3, read(0)), (4, read(0))]
        );
        assert_eq!(compare(&history, &right).rows(), 0);
        let wrong = [(0, read(0)), (1, live(1)), (2, read(0)), (3, live(0))];
        let found = compare(&history, &wrong.into_iter().collect());
        assert_eq!(found.stale, [0, 3]);
        assert_eq!(found.resurrected, [1]);
        assert_eq!(found.lost, [4]);
        assert_eq!(found.rows(), 6);
    }
}
