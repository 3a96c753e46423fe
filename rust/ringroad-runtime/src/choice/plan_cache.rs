//! A cache that keeps values for later, up to a number of bytes.

use std::hash::Hash;

use lru::LruCache;

/// Values that take at most `most` bytes together. The least recently used ones are evicted first. The latest value
/// always stays, however long it is.
pub(crate) struct BoundedCache<K, V> {
    entries: LruCache<K, SizedValue<V>>,
    bytes: usize,
    most: usize,
}

struct SizedValue<V> {
    value: V,
    bytes: usize,
}

impl<K: Hash + Eq, V> BoundedCache<K, V> {
    pub fn new(most: usize) -> BoundedCache<K, V> {
        BoundedCache { entries: LruCache::unbounded(), bytes: 0, most }
    }

    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Adds a value that takes `bytes` bytes besides its own size and that of its key.
    pub fn insert(&mut self, key: K, value: V, bytes: usize) {
        let bytes = bytes + size_of::<(K, SizedValue<V>)>();
        self.bytes += bytes;
        if let Some(before) = self.entries.put(key, SizedValue { value, bytes }) {
            self.bytes -= before.bytes;
        }
        while self.bytes > self.most && self.entries.len() > 1 {
            self.bytes -= self.entries.pop_lru().map_or(0, |(_, oldest)| oldest.bytes);
        }
    }

    /// The value that was added or used last, with its key.
    pub fn latest(&self) -> Option<(&K, &V)> {
        self.entries.iter().next().map(|(key, entry)| (key, &entry.value))
    }

    /// How many bytes the values take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: usize = size_of::<(u32, SizedValue<u32>)>();

    fn has(kept: &BoundedCache<u32, u32>) -> Vec<u32> {
        let mut keys: Vec<u32> = kept.entries.iter().map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let mut kept = BoundedCache::new(5 * (ENTRY + 100));
        (0..5).for_each(|key| kept.insert(key, key, 100));
        assert_eq!([0, 2, 99].map(|key| kept.get(&key).copied()), [Some(0), Some(2), None]);
        assert_eq!(kept.latest(), Some((&2, &2)));
        kept.insert(5, 5, 300);
        assert_eq!(has(&kept), [0, 2, 5]);
        assert_eq!(kept.bytes, 3 * ENTRY + 500);
    }

    #[test]
    fn the_bytes_are_those_of_what_is_there() {
        let mut kept = BoundedCache::new(1 << 16);
        for round in 0..if cfg!(miri) { 700 } else { 10_000_u32 } {
            let key = round * 7919 % 301;
            if kept.get(&key).is_none_or(|value| value % 3 == 0) {
                kept.insert(key, round, (round % 1000) as usize);
            }
            assert!(kept.bytes <= 1 << 16 && kept.latest().is_some_and(|(latest, _)| *latest == key));
        }
        assert_eq!(kept.bytes, kept.entries.iter().map(|(_, entry)| entry.bytes).sum::<usize>());
    }

    #[test]
    fn one_that_is_too_long_stays_alone() {
        let mut kept = BoundedCache::new(1000);
        (0..3).for_each(|key| kept.insert(key, key, 5000));
        assert_eq!((has(&kept), kept.bytes), (vec![2], 5000 + ENTRY));
    }
}
