//! The keys of the last deletes of a topic: a tombstone carries no table, its `d` did.
//!
//! Debezium writes a tombstone right after its `d`, with the same key bytes and hence in the same
//! partition, so a few are enough. After a restart the first tombstone may find nothing; what then
//! happens is the decoder's decision.

/// How many are remembered; other partitions may come between a `d` and its tombstone.
const KEYS_MAX: usize = 32;

/// Raw keys of deletes, each with what became of its `d`.
#[derive(Clone, Debug)]
pub(crate) struct Recent<T> {
    keys: Vec<(Vec<u8>, T)>,
    next: usize,
}

impl<T: Copy> Recent<T> {
    /// Nothing remembered.
    pub(crate) fn new() -> Self {
        Recent {
            keys: Vec::new(),
            next: 0,
        }
    }

    /// Remembers what the `d` of this key was.
    pub(crate) fn push(&mut self, key: &[u8], what: T) {
        if self.keys.len() < KEYS_MAX {
            self.keys.push((key.to_vec(), what));
            return;
        }
        let slot = &mut self.keys[self.next];
        slot.0.clear();
        slot.0.extend_from_slice(key);
        slot.1 = what;
        self.next = (self.next + 1) % KEYS_MAX;
    }

    /// What the last `d` of this key was.
    pub(crate) fn find(&self, key: &[u8]) -> Option<T> {
        // `next` is the oldest: the newest stands before it.
        let (newer, older) = self.keys.split_at(self.next);
        newer
            .iter()
            .rev()
            .chain(older.iter().rev())
            .find(|(of, _)| of == key)
            .map(|(_, what)| *what)
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS_MAX, Recent};

    #[test]
    fn the_newest_of_a_key_counts_and_the_oldest_goes() {
        let mut recent = Recent::new();
        assert_eq!(recent.find(b"a"), None);
        recent.push(b"a", 0);
        for index in 1..KEYS_MAX {
            recent.push(format!("k{index}").as_bytes(), index);
        }
        recent.push(b"k5", 500);
        assert_eq!(recent.find(b"k5"), Some(500));
        assert_eq!(recent.find(b"a"), None);
    }
}
