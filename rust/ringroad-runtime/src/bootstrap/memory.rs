//! A store for ranks that are threads of one process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::{Store, StoreError};
use crate::os::lock::{Condvar, Mutex};

/// A store in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<SharedValues>,
}

type SharedValues = Mutex<StoredValues>;

#[derive(Default)]
struct StoredValues {
    /// Shared with those who read them: a thousand ranks ask for the same value at the same time.
    found: HashMap<String, Arc<[u8]>>,
    /// Wakes those who wait for a key, and nobody else.
    awaited: HashMap<String, Arc<Condvar>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// All values whose keys begin with `prefix`.
    pub(crate) fn under(&self, prefix: &str) -> Vec<Arc<[u8]>> {
        let values = self.shared.lock();
        let found = values.found.iter().filter(|(key, _)| key.starts_with(prefix));
        found.map(|(_, value)| value.clone()).collect()
    }

    /// Removes all values whose keys begin with `prefix`.
    pub(crate) fn remove(&self, prefix: &str) {
        self.shared.lock().found.retain(|key, _| !key.starts_with(prefix));
    }

    /// The value of `key`, once there is one, until `deadline` at the latest.
    pub(super) fn wait_for(&self, key: &str, deadline: Instant) -> Option<Arc<[u8]>> {
        let mut values = self.shared.lock();
        loop {
            if let Some(value) = values.found.get(key) {
                return Some(value.clone());
            }
            if Instant::now() >= deadline {
                return None;
            }
            let changed = values.awaited.entry(key.to_owned()).or_default().clone();
            changed.wait_until(&mut values, deadline);
            // The last one to leave in vain removes what woke them.
            let known = values.awaited.get(key);
            if known.is_some_and(|known| Arc::ptr_eq(known, &changed) && Arc::strong_count(known) == 2) {
                values.awaited.remove(key);
            }
        }
    }
}

impl Store for MemoryStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let mut values = self.shared.lock();
        values.found.insert(key.to_owned(), value.into());
        values.awaited.remove(key).iter().for_each(|changed| changed.notify_all());
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.shared.lock().found.get(key).map(|value| value.to_vec()))
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        let start = Instant::now();
        let late = || StoreError::Timeout { key: key.to_owned(), waited: start.elapsed() };
        self.wait_for(key, deadline).map(|value| value.to_vec()).ok_or_else(late)
    }
}
