//! Dealing fingerprints by their place in a range: the first pass of a radix sort.
//!
//! Fingerprints are uniform, so a deal into about `len / 8` parts leaves parts of about eight.
//! Dealt fingerprints are almost sorted, which is enough for lookups to walk memory forwards, and
//! turns a sort of all into many sorts of a few.
//!
//! Invariant: parts ascend: no fingerprint of a part is less than one of the part before, whether
//! or not it is in the range.

use std::ops::RangeInclusive;

/// Buffers of a deal, kept between deals.
#[derive(Default)]
pub(crate) struct Deal {
    /// Where each part begins in the dealt order; one more than there are parts.
    pub(crate) starts: Vec<u32>,
    /// The place in the dealt order of each item.
    pub(crate) places: Vec<u32>,
}

impl Deal {
    /// Finds the place of each of `fingerprints`, of which there are less than 2^32.
    pub(crate) fn deal<'a>(
        &mut self,
        range: &RangeInclusive<u64>,
        fingerprints: impl ExactSizeIterator<Item = &'a u128>,
    ) {
        let bits = (fingerprints.len() / 8).max(1).ilog2();
        let (first, last) = (*range.start(), *range.end());
        let up = (last - first).leading_zeros();
        self.places.clear();
        self.places.extend(fingerprints.map(|fingerprint| {
            let high = ((fingerprint >> 64) as u64).clamp(first, last) - first;
            let scaled = high.checked_shl(up).unwrap_or(0);
            scaled.checked_shr(u64::BITS - bits).unwrap_or(0) as u32
        }));
        // Shifted by two while counting, so that after the second pass `starts` is right.
        self.starts.clear();
        self.starts.resize((1 << bits) + 2, 0);
        for part in &self.places {
            self.starts[*part as usize + 2] += 1;
        }
        for part in 2..self.starts.len() {
            self.starts[part] += self.starts[part - 1];
        }
        for part in &mut self.places {
            let next = &mut self.starts[*part as usize + 1];
            *part = *next;
            *next += 1;
        }
        self.starts.pop();
    }

    /// Heap bytes.
    pub(crate) fn bytes(&self) -> usize {
        (self.starts.capacity() + self.places.capacity()) * size_of::<u32>()
    }
}
