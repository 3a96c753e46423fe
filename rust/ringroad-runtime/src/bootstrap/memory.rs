//! A store for ranks that are threads of one process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::{Store, StoreError};
use crate::os::lock::{Condvar, Mutex};

/// A store in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    values: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// All values whose keys begin with `prefix`.
    pub(crate) fn under(&self, prefix: &str) -> Vec<Vec<u8>> {
        let values = self.shared.values.lock();
        values.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(_, value)| value.clone()).collect()
    }

    /// Removes all values whose keys begin with `prefix`.
    pub(crate) fn remove(&self, prefix: &str) {
        self.shared.values.lock().retain(|key, _| !key.starts_with(prefix));
    }
}

impl Store for MemoryStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.shared.values.lock().insert(key.to_owned(), value.to_vec());
        self.shared.changed.notify_all();
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.shared.values.lock().get(key).cloned())
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        let start = Instant::now();
        let mut values = self.shared.values.lock();
        loop {
            if let Some(value) = values.get(key) {
                return Ok(value.clone());
            }
            if Instant::now() >= deadline {
                return Err(StoreError::Timeout { key: key.to_owned(), waited: start.elapsed() });
            }
            self.shared.changed.wait_until(&mut values, deadline);
        }
    }
}
