//! The memtable: the markers since the last seal, in a hash table of fixed size.
//!
//! Invariant: at most half of the slots are taken and the table never grows, so a mark is a probe
//! of a cache line or two and never a rehash. The hash is the low half of the fingerprint, which is
//! uniform by construction.

use super::latest::Latest;

#[derive(Clone, Copy)]
struct Slot {
    fingerprint: u128,
    tick: u64,
    taken: bool,
}

const FREE: Slot = Slot {
    fingerprint: 0,
    tick: 0,
    taken: false,
};

/// Markers by fingerprint, open addressing.
pub(crate) struct Table {
    slots: Vec<Slot>,
    len: usize,
    len_max: usize,
    ticks: Option<(u64, u64)>,
}

impl Table {
    /// Holds up to `len_max` markers.
    pub(crate) fn new(len_max: usize) -> Self {
        let len_max = len_max.max(1);
        let slots = vec![FREE; (2 * len_max).next_power_of_two()];
        Self {
            slots,
            len: 0,
            len_max,
            ticks: None,
        }
    }

    #[inline]
    fn slot(&self, fingerprint: u128) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = fingerprint as usize & mask;
        while self.slots[at].taken && self.slots[at].fingerprint != fingerprint {
            at = (at + 1) & mask;
        }
        at
    }

    /// Marks fingerprints at `tick` until the table is full; how many of them were marked.
    pub(crate) fn mark(&mut self, tick: u64, fingerprints: &[u128]) -> usize {
        let mut marked = 0;
        for fingerprint in fingerprints {
            if self.len == self.len_max {
                break;
            }
            let at = self.slot(*fingerprint);
            let slot = &mut self.slots[at];
            self.len += usize::from(!slot.taken);
            let tick = if slot.taken {
                slot.tick.max(tick)
            } else {
                tick
            };
            *slot = Slot {
                fingerprint: *fingerprint,
                tick,
                taken: true,
            };
            marked += 1;
        }
        if marked > 0 {
            let (first, last) = self.ticks.unwrap_or((tick, tick));
            self.ticks = Some((first.min(tick), last.max(tick)));
        }
        marked
    }

    /// The tick of each fingerprint's marker into `found`, where it is later.
    pub(crate) fn latest(&self, fingerprints: &[u128], found: &mut [Option<u64>]) {
        if self.len == 0 {
            return;
        }
        for (fingerprint, found) in fingerprints.iter().zip(found) {
            let slot = &self.slots[self.slot(*fingerprint)];
            if slot.taken {
                *found = (*found).max(Some(slot.tick));
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The latest tick marked since the table was last empty.
    pub(crate) fn tick_last(&self) -> Option<u64> {
        self.ticks.map(|(_, last)| last)
    }

    /// Moves the markers later than `horizon` to `out`, in no order, and empties the table.
    pub(crate) fn drain(&mut self, horizon: Option<u64>, out: &mut Vec<(u128, Latest)>) {
        let kept = self
            .slots
            .iter()
            .filter(|slot| slot.taken && Some(slot.tick) > horizon);
        out.extend(kept.map(|slot| (slot.fingerprint, Latest(slot.tick))));
        self.clear();
    }

    pub(crate) fn clear(&mut self) {
        if self.len > 0 {
            self.slots.fill(FREE);
        }
        self.len = 0;
        self.ticks = None;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}
