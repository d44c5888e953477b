//! What is remembered about connections that were turned away, for the error of the deadline.
//!
//! Invariant: bounded, however many strangers come: one entry for each pair of address and reason,
//! eight entries, the rest is only counted.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

/// Entries kept.
const ENTRIES_MAX: usize = 8;

/// Connections turned away, by source address and reason.
#[derive(Default)]
pub(super) struct Notes {
    entries: Vec<(IpAddr, String, u64)>,
    others: u64,
}

impl Notes {
    /// Remembers one connection; true when its like was not seen before.
    pub(super) fn add(&mut self, from: IpAddr, why: &str) -> bool {
        let known = self
            .entries
            .iter_mut()
            .find(|(ip, text, _)| *ip == from && text == why);
        if let Some((_, _, count)) = known {
            *count += 1;
            return false;
        }
        if self.entries.len() == ENTRIES_MAX {
            self.others += 1;
            return false;
        }
        self.entries.push((from, why.to_owned(), 1));
        true
    }
}

impl fmt::Display for Notes {
    /// Nothing, or sentences that each start with a blank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        for (from, why, count) in &self.entries {
            write!(out, " A connection from {from} {why}")?;
            if *count > 1 {
                write!(out, " ({count} times)")?;
            }
            out.push('.');
        }
        if self.others > 0 {
            write!(out, " {} more connections were turned away.", self.others)?;
        }
        f.write_str(&out)
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES_MAX, Notes};

    #[test]
    fn a_flood_of_strangers_stays_small() {
        let mut notes = Notes::default();
        assert_eq!(notes.to_string(), "");
        for round in 0..1000_u32 {
            let ip = std::net::IpAddr::from(round.to_be_bytes());
            notes.add(ip, "closed");
            notes.add(
                std::net::IpAddr::from([10, 0, 0, 1]),
                "failed authentication",
            );
        }
        assert_eq!(notes.entries.len(), ENTRIES_MAX);
        let text = notes.to_string();
        assert!(text.contains("A connection from 10.0.0.1 failed authentication (1000 times)."));
        assert!(
            text.ends_with(" 993 more connections were turned away."),
            "{text}"
        );
    }
}
