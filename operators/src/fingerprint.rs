//! The keyed 128-bit fingerprint of a row: table identity and canonical key.
//!
//! Everywhere in the dataflow a row *is* its fingerprint. Two rows with one fingerprint would make
//! a good READ look stale: with `m` markers and `r` READs the odds are about `m * r / 2^128`, that
//! is 1 in 10^18 for 10^10 of each. The secret keeps a writer of keys from aiming at it.
//!
//! It cannot see a key: canonical form is the caller's, and unequal canonical forms of one key are
//! two rows.

use siphasher::sip128::{Hash128, Hasher128, SipHasher13};
use std::hash::Hasher;

/// Names the function in durable state; a change of function is a new number.
pub const FINGERPRINT_ID: u16 = 1;

/// SipHash-1-3 with 128 bits of output (Aumasson and Bernstein 2012), keyed with the job's secret.
#[derive(Clone, Debug)]
pub struct Fingerprinter {
    keyed: SipHasher13,
}

impl Fingerprinter {
    /// A fingerprinter with the job's secret.
    pub fn new(secret: [u8; 16]) -> Self {
        Fingerprinter {
            keyed: SipHasher13::new_with_key(&secret),
        }
    }

    /// The part that all keys of `table` share; the table's *name*, so that it survives a change of
    /// the configured order.
    pub fn table(&self, table: &str) -> TableFingerprinter {
        let mut keyed = self.keyed;
        keyed.write(&(table.len() as u64).to_le_bytes());
        keyed.write(table.as_bytes());
        TableFingerprinter { keyed }
    }
}

/// Fingerprints the keys of one table.
#[derive(Clone, Debug)]
pub struct TableFingerprinter {
    keyed: SipHasher13,
}

impl TableFingerprinter {
    /// The fingerprint of a canonical key.
    pub fn of(&self, canonical_key: &[u8]) -> u128 {
        let mut keyed = self.keyed;
        keyed.write(canonical_key);
        let Hash128 { h1, h2 } = keyed.finish128();
        (u128::from(h1) << 64) | u128::from(h2)
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprinter;

    #[test]
    fn the_function_is_fixed() {
        // Durable state is keyed by this value: a change needs a new FINGERPRINT_ID.
        let table = Fingerprinter::new([7; 16]).table("public.hello");
        assert_eq!(table.of(b"key"), 277495120392122727400022367168919289517);
    }

    #[test]
    fn table_and_key_do_not_run_together() {
        let all = Fingerprinter::new([7; 16]);
        assert_ne!(all.table("a").of(b"bc"), all.table("ab").of(b"c"));
        assert_ne!(
            all.table("a").of(b"k"),
            Fingerprinter::new([8; 16]).table("a").of(b"k")
        );
    }
}
