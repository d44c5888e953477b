//! How the markers of one run are laid out in bytes.
//!
//! Fingerprints of a run lie in one contiguous range of high halves. A fingerprint is made relative
//! to the start of that range and shifted left until the range fills 128 bits; its top
//! `bucket_bits` are then the bucket, kept once in the run's index, and the other bits, the
//! *residual*, are stored. A tick is stored as a number of tick units after the run's first tick.
//! An entry is one little-endian integer, `residual << tick_bits | tick`, of `width` bytes.
//!
//! Invariant: `place` and `fingerprint` are inverses within the range, and both keep the order.
//! All arithmetic is total: a shape read from corrupt bytes gives wrong numbers, never a panic.

/// Bytes that must follow the last entry of a buffer, so that entries are read by whole words.
pub(crate) const PAD: usize = 24;
/// With at least this many bits implied, a residual that starts inside a byte fits one u128.
const IMPLIED_BITS_MIN: u32 = 7;
const BUCKET_BITS_MAX: u32 = 28;

/// The bit layout of one run, and the range of high halves and ticks it can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Inclusive range of the high halves of the fingerprints.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) tick_base: u64,
    /// Milliseconds; every tick is `tick_base` plus a multiple of it.
    pub(crate) tick_unit_ms: u64,
    pub(crate) bucket_bits: u32,
    pub(crate) tick_bits: u32,
    shift: u32,
    residual_bits: u32,
    width: usize,
}

impl Shape {
    /// The smallest layout for up to `len` entries in a range, with ticks in `ticks` (inclusive).
    pub(crate) fn fit(
        (first, last): (u64, u64),
        ticks: (u64, u64),
        tick_unit_ms: u64,
        len: usize,
    ) -> Self {
        debug_assert!(first <= last && ticks.0 <= ticks.1 && tick_unit_ms > 0);
        let span = (ticks.1 - ticks.0) / tick_unit_ms;
        let tick_bits = u64::BITS - span.leading_zeros();
        let shift = (last - first).leading_zeros();
        let log = len.max(1).ilog2();
        let bits_min = IMPLIED_BITS_MIN
            .max(log.saturating_sub(5))
            .min(BUCKET_BITS_MAX);
        let bits_max = (log + 2).clamp(bits_min, BUCKET_BITS_MAX);
        let cost = |bits: u32| {
            let entry = (128 - shift - bits + tick_bits).div_ceil(8) as usize;
            // The index holds a bit an entry, a bit a bucket, and samples.
            len * entry + (3 << bits) / 16
        };
        let bucket_bits = (bits_min..=bits_max)
            .min_by_key(|bits| cost(*bits))
            .unwrap_or(bits_min);
        Self::from_parts((first, last), ticks.0, tick_unit_ms, bucket_bits, tick_bits)
            .expect("fit chooses within the bounds that from_parts checks")
    }

    /// A layout from its parts; `None` when they cannot belong to a run.
    pub(crate) fn from_parts(
        (first, last): (u64, u64),
        tick_base: u64,
        tick_unit_ms: u64,
        bucket_bits: u32,
        tick_bits: u32,
    ) -> Option<Self> {
        let bits_good = (IMPLIED_BITS_MIN..=BUCKET_BITS_MAX).contains(&bucket_bits);
        if first > last || tick_unit_ms == 0 || !bits_good || tick_bits > 64 {
            return None;
        }
        let shift = (last - first).leading_zeros();
        let residual_bits = 128 - shift - bucket_bits;
        let width = (residual_bits + tick_bits).div_ceil(8) as usize;
        Some(Self {
            first,
            last,
            tick_base,
            tick_unit_ms,
            bucket_bits,
            tick_bits,
            shift,
            residual_bits,
            width,
        })
    }

    /// Bytes an entry.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn buckets(&self) -> usize {
        1 << self.bucket_bits
    }

    /// The bucket and the residual of a fingerprint; `None` when it is out of the range.
    #[inline]
    pub(crate) fn place(&self, fingerprint: u128) -> Option<(usize, u128)> {
        let high = (fingerprint >> 64) as u64;
        if high < self.first || high > self.last {
            return None;
        }
        let relative = (fingerprint - (u128::from(self.first) << 64)) << self.shift;
        let bucket = (relative >> (128 - self.bucket_bits)) as usize;
        Some((
            bucket,
            (relative << self.bucket_bits) >> (self.bucket_bits + self.shift),
        ))
    }

    /// The fingerprint of a bucket and a residual.
    #[inline]
    pub(crate) fn fingerprint(&self, bucket: usize, residual: u128) -> u128 {
        let relative = ((bucket as u128) << self.residual_bits) | residual;
        relative.wrapping_add(u128::from(self.first) << 64)
    }

    /// Writes an entry at byte `at`, and zeros behind it up to `PAD` bytes from there.
    #[inline]
    pub(crate) fn put(&self, residual: u128, tick: u64, bytes: &mut [u8], at: usize) {
        let delta = (tick - self.tick_base) / self.tick_unit_ms;
        debug_assert!(delta <= self.tick_mask());
        let low = u128::from(delta) | (residual << self.tick_bits);
        let high = if self.tick_bits == 0 {
            0
        } else {
            residual >> (128 - self.tick_bits)
        } as u64;
        let bytes = &mut bytes[at..at + PAD];
        bytes[..16].copy_from_slice(&low.to_le_bytes());
        bytes[16..].copy_from_slice(&high.to_le_bytes());
    }

    /// The residual of the entry that starts at byte `at`.
    #[inline]
    pub(crate) fn residual(&self, bytes: &[u8], at: usize) -> u128 {
        let at = at + (self.tick_bits / 8) as usize;
        let word = bytes[at..]
            .first_chunk()
            .expect("entries are followed by PAD bytes");
        let mask = (1u128 << self.residual_bits) - 1;
        (u128::from_le_bytes(*word) >> (self.tick_bits % 8)) & mask
    }

    /// The tick of the entry that starts at byte `at`.
    #[inline]
    pub(crate) fn tick(&self, bytes: &[u8], at: usize) -> u64 {
        let word = bytes[at..]
            .first_chunk()
            .expect("entries are followed by PAD bytes");
        let delta = u64::from_le_bytes(*word) & self.tick_mask();
        self.tick_base
            .saturating_add(delta.saturating_mul(self.tick_unit_ms))
    }

    /// Which of `count` entries, spread evenly over a bucket, a residual is at; 0 if none.
    #[inline]
    pub(crate) fn interpolate(&self, residual: u128, count: usize) -> usize {
        // At least 36 bits are residual: 128 less the shift (<= 64) and the bucket (<= 28).
        let scaled = (residual >> (self.residual_bits - 32)) as u64;
        ((scaled * count as u64) >> 32) as usize
    }

    fn tick_mask(&self) -> u64 {
        if self.tick_bits == 0 {
            0
        } else {
            u64::MAX >> (64 - self.tick_bits)
        }
    }
}

/// The greatest common divisor; a zero leaves the other as it is.
pub(crate) fn common_unit(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
