//! Which entries of a run lie in which bucket.
//!
//! A bit vector: for each bucket in order, a one for each of its entries, then a zero. With about
//! one entry a bucket that is two bits an entry, where a table of offsets would take 32. The start
//! of every `1 << step_bits`-th bucket is sampled, so finding a bucket reads a few words.
//!
//! Invariant: exactly one zero a bucket and one one an entry, followed by at least one word of
//! zeros, so no scan runs off the end. Positions fit in a u32.

/// Bits between two samples that `IndexWriter` aims at.
const SAMPLE_BITS: usize = 128;
/// Entries and buckets of a run together stay below this, so positions fit in a u32.
pub(crate) const POSITIONS_MAX: usize = u32::MAX as usize - 128;

/// The bucket index of a run.
#[derive(Debug)]
pub(crate) struct BucketIndex {
    words: Vec<u64>,
    samples: Vec<u32>,
    step_bits: u32,
}

impl BucketIndex {
    /// Where the search for `bucket` begins: bucket and bit position of the sample before it.
    #[inline]
    pub(crate) fn sample(&self, bucket: usize) -> (usize, usize) {
        let sample = bucket >> self.step_bits;
        (sample << self.step_bits, self.samples[sample] as usize)
    }

    /// The word that holds a bit position; lookups touch it early so that its fetch overlaps.
    #[inline]
    pub(crate) fn word(&self, position: usize) -> u64 {
        self.words[position / 64]
    }

    /// The range of entries of `bucket`, searched from what `sample` gave for it.
    #[inline]
    pub(crate) fn entries(&self, bucket: usize, sample: (usize, usize)) -> (usize, usize) {
        let mut skip = (bucket - sample.0) as u32;
        let mut position = sample.1;
        if skip > 0 {
            let mut at = position / 64;
            let mut zeros = !self.words[at] & (u64::MAX << (position % 64));
            let mut count = zeros.count_ones();
            while count < skip {
                skip -= count;
                at += 1;
                zeros = !self.words[at];
                count = zeros.count_ones();
            }
            position = at * 64 + select(zeros, skip - 1) as usize + 1;
        }
        let start = position - bucket;
        (start, start + self.ones_from(position))
    }

    #[inline]
    fn ones_from(&self, position: usize) -> usize {
        let mut at = position / 64;
        let rest = !self.words[at] >> (position % 64);
        if rest != 0 {
            return rest.trailing_zeros() as usize;
        }
        let mut ones = 64 - position % 64;
        at += 1;
        while self.words[at] == u64::MAX {
            ones += 64;
            at += 1;
        }
        ones + self.words[at].trailing_ones() as usize
    }

    /// A walk over the entries that begins at `bucket`, with the number of its first entry.
    pub(crate) fn walk_from(&self, bucket: usize) -> (IndexWalk, usize) {
        let (start, _) = self.entries(bucket, self.sample(bucket));
        let position = start + bucket;
        let word = self.words[position / 64] & (u64::MAX << (position % 64));
        (
            IndexWalk {
                at: position / 64,
                word,
                entry: start,
            },
            start,
        )
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Rebuilds an index from its words, which must hold `len` ones and `buckets` zeros before the
    /// word of padding; `None` when they do not.
    pub(crate) fn from_words(words: &[u64], len: usize, buckets: usize) -> Option<Self> {
        if len.checked_add(buckets)? > POSITIONS_MAX || words.len() != word_count(len, buckets) {
            return None;
        }
        let ones: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        if ones != len {
            return None;
        }
        let mut writer = IndexWriter::new(len, buckets);
        for (at, word) in words.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let position = at * 64 + rest.trailing_zeros() as usize;
                let bucket = position - writer.len;
                if bucket >= buckets {
                    return None;
                }
                writer.push(bucket);
                rest &= rest - 1;
            }
        }
        Some(writer.finish(len))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * 8 + self.samples.capacity() * 4
    }
}

/// Words of an index: its bits, and at least one word of padding.
pub(crate) fn word_count(len: usize, buckets: usize) -> usize {
    (len + buckets) / 64 + 2
}

/// The position of the set bit of `word` that has `skip` set bits below it.
#[inline]
fn select(mut word: u64, mut skip: u32) -> u32 {
    let mut at = 0;
    for half in [32, 16, 8] {
        let below = (word & ((1 << half) - 1)).count_ones();
        if below <= skip {
            skip -= below;
            word >>= half;
            at += half;
        }
    }
    for _ in 0..skip {
        word &= word - 1;
    }
    at + word.trailing_zeros()
}

/// Walks the buckets of a run's entries in order. Knows no end: the run knows how many there are.
#[derive(Debug, Clone)]
pub(crate) struct IndexWalk {
    at: usize,
    word: u64,
    entry: usize,
}

impl IndexWalk {
    /// The bucket of the next entry. There must be one.
    #[inline]
    pub(crate) fn next(&mut self, index: &BucketIndex) -> usize {
        while self.word == 0 {
            self.at += 1;
            self.word = index.words[self.at];
        }
        let position = self.at * 64 + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        self.entry += 1;
        position + 1 - self.entry
    }
}

/// Builds an index from buckets in ascending order.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    index: BucketIndex,
    buckets: usize,
    /// The bucket whose entries are being written, and how many entries there are so far.
    open: usize,
    len: usize,
}

impl IndexWriter {
    /// For up to `len_max` entries in `buckets` buckets.
    pub(crate) fn new(len_max: usize, buckets: usize) -> Self {
        let fill = 1 + len_max / buckets;
        let step_bits = (SAMPLE_BITS / fill).max(1).ilog2();
        let mut samples = Vec::with_capacity((buckets >> step_bits) + 1);
        samples.push(0);
        let words = Vec::with_capacity(word_count(len_max, buckets));
        Self {
            index: BucketIndex {
                words,
                samples,
                step_bits,
            },
            buckets,
            open: 0,
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, bucket: usize) {
        debug_assert!(self.open <= bucket && bucket < self.buckets);
        self.close_before(bucket);
        let position = self.len + bucket;
        while self.index.words.len() <= position / 64 {
            self.index.words.push(0);
        }
        self.index.words[position / 64] |= 1 << (position % 64);
        self.len += 1;
    }

    /// Ends every bucket before `bucket`.
    #[inline]
    fn close_before(&mut self, bucket: usize) {
        let step_bits = self.index.step_bits;
        // Most entries need no new sample, so the common way has no loop.
        for sample in (self.open >> step_bits) + 1..=bucket >> step_bits {
            self.index
                .samples
                .push((self.len + (sample << step_bits)) as u32);
        }
        self.open = bucket;
    }

    /// The index of what was pushed, which must be `len` entries.
    pub(crate) fn finish(mut self, len: usize) -> BucketIndex {
        debug_assert_eq!(len, self.len);
        self.close_before(self.buckets - 1);
        self.index.words.resize(word_count(len, self.buckets), 0);
        self.index.words.shrink_to_fit();
        self.index
    }

    pub(crate) fn bytes(&self) -> usize {
        self.index.bytes()
    }
}
