//! What is kept for later, as long as there is room for it.

use std::collections::HashMap;
use std::hash::Hash;

/// Values that take so many bytes together, or fewer: those that were not used for the longest time go first. The latest
/// stays, however long it is.
pub(crate) struct Kept<K, V> {
    entries: HashMap<K, Entry<V>>,
    bytes: usize,
    most: usize,
    /// Counts what was asked for and added.
    uses: u64,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K: Hash + Eq, V> Kept<K, V> {
    pub fn new(most: usize) -> Kept<K, V> {
        Kept { entries: HashMap::new(), bytes: 0, most, uses: 0 }
    }

    pub fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        entry.used = self.uses;
        Some(&entry.value)
    }

    /// Adds a value that takes so many bytes, with its key.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.uses += 1;
        let bytes = bytes + size_of::<(K, Entry<V>)>();
        self.bytes += bytes;
        if let Some(before) = self.entries.insert(key, Entry { value, bytes, used: self.uses }) {
            self.bytes -= before.bytes;
        }
        if self.bytes > self.most {
            self.make_room();
        }
    }

    /// How many bytes they take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes more than it has to, so that it need not look through all of them for every new one.
    #[cold]
    fn make_room(&mut self) {
        let mut ages: Vec<(u64, usize)> =
            self.entries.values().map(|entry| (entry.used, entry.bytes)).collect();
        ages.sort_unstable();
        let mut oldest = 0;
        for (used, bytes) in ages {
            oldest = used;
            if self.bytes <= self.most / 4 * 3 || used == self.uses {
                break;
            }
            self.bytes -= bytes;
        }
        self.entries.retain(|_, entry| entry.used >= oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: usize = size_of::<(u32, Entry<u32>)>();

    fn has(kept: &Kept<u32, u32>) -> Vec<u32> {
        let mut keys: Vec<u32> = kept.entries.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let mut kept = Kept::new(10 * (ENTRY + 100));
        (0..10).for_each(|key| kept.insert(key, key, 100));
        assert_eq!(has(&kept).len(), 10);
        assert_eq!([0, 2, 99].map(|key| kept.get(&key).copied()), [Some(0), Some(2), None]);
        kept.insert(10, 10, 100);
        assert_eq!(has(&kept), [0, 2, 6, 7, 8, 9, 10]);
        assert_eq!(kept.bytes, 7 * (ENTRY + 100));
    }

    #[test]
    fn the_bytes_are_those_of_what_is_there() {
        let mut kept = Kept::new(1 << 16);
        for round in 0..if cfg!(miri) { 700 } else { 10_000_u32 } {
            let key = round * 7919 % 301;
            if kept.get(&key).is_none_or(|value| value % 3 == 0) {
                kept.insert(key, round, (round % 1000) as usize);
            }
            assert!(kept.bytes <= 1 << 16 && kept.entries.contains_key(&key));
        }
        assert_eq!(kept.bytes, kept.entries.values().map(|entry| entry.bytes).sum::<usize>());
    }

    #[test]
    fn one_that_is_too_long_stays_alone() {
        let mut kept = Kept::new(1000);
        (0..3).for_each(|key| kept.insert(key, key, 5000));
        assert_eq!((has(&kept), kept.bytes), (vec![2], 5000 + ENTRY));
    }
}
