//! Queues by tag, for posted receives and for messages.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// The entries under one key. Mostly there is one: tags repeat only if many calls are in flight.
pub(super) struct Queue<T> {
    pub(super) first: T,
    pub(super) others: VecDeque<T>,
}

pub(super) type Tags<T> = HashMap<u64, T, BuildHasherDefault<TagHasher>>;

/// Hashes tags and request numbers, which differ in few bits: a multiplication spreads them.
#[derive(Default)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are 64-bit numbers")
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key ^ key >> 20) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product ^ (product >> 64)) as u64;
    }
}

/// Puts a value at the end of the queue under `key`.
pub(super) fn push<T>(queues: &mut Tags<Queue<T>>, key: u64, value: T) {
    match queues.entry(key) {
        Entry::Vacant(place) => {
            place.insert(Queue { first: value, others: VecDeque::new() });
        }
        Entry::Occupied(mut queue) => queue.get_mut().others.push_back(value),
    }
}

/// Takes the first value of the queue under `key`. Removes queues that become empty.
pub(super) fn pop<T>(queues: &mut Tags<Queue<T>>, key: u64) -> Option<T> {
    if queues.is_empty() {
        return None;
    }
    let Entry::Occupied(mut queue) = queues.entry(key) else { return None };
    match queue.get_mut().others.pop_front() {
        Some(next) => Some(std::mem::replace(&mut queue.get_mut().first, next)),
        None => Some(queue.remove().first),
    }
}
