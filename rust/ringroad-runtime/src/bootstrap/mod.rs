//! How the ranks of a job find each other: a store of keys and values, and how they meet there.
//!
//! A [`Store`] is what a job has in common before it has connections: a directory ([`FileStore`]), memory
//! ([`MemoryStore`]) or somebody else's service behind the trait. At a [`Meeting`] each rank publishes a [`Card`].

mod card;
mod exchange;
mod file;
mod handle;
mod meeting;
mod memory;
mod seal;
mod tcp;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use card::hex;
pub use card::Card;
pub(crate) use exchange::identity;
pub use exchange::BootstrapError;
pub use file::FileStore;
pub use handle::Handle;
pub use meeting::Meeting;
pub(crate) use meeting::{check_rank, refused, unreadable};
pub use memory::MemoryStore;
pub(crate) use tcp::{Promise, Server, TcpStore, Unreachable};

use crate::error::Error;

/// Keys and values that all ranks of a job can read and write. Values are small; a key is set once or rarely.
pub trait Store: Send + Sync {
    /// Makes `value` what everybody finds under `key`, all of it at once.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// What is under `key` now.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// What is under `key`, as soon as there is something, and until `deadline` at the latest.
    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError>;

    /// An error where the user has had enough. Who waits for long asks every now and then.
    fn go_on(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The host that serves it, a name or an address, where there is one: ranks listen on the network that leads there.
    fn host(&self) -> Option<String> {
        None
    }
}

/// A store did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nobody set the key in time.
    #[error("nobody set {key:?} in the store within {:.1} s; check that every rank is running and uses the same store, or allow more time (RINGROAD_TIMEOUT)", waited.as_secs_f64())]
    Timeout {
        /// Which key.
        key: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The user has had enough.
    #[error("it was interrupted")]
    Interrupted,
    /// The store does not work.
    #[error("cannot {action} in the store: {reason}")]
    Failed {
        /// What was tried.
        action: String,
        /// Why it did not work, and what to do.
        reason: String,
    },
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Timeout { .. } => Error::Timeout(error.to_string()),
            _ => Error::Store(error.to_string()),
        }
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        (**self).set(key, value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(key)
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        (**self).wait(key, deadline)
    }

    fn go_on(&self) -> Result<(), StoreError> {
        (**self).go_on()
    }

    fn host(&self) -> Option<String> {
        (**self).host()
    }
}

/// A part of a store: every communicator has its own, so that keys do not clash.
#[derive(Debug, Clone)]
pub struct PrefixStore<S> {
    prefix: String,
    inner: S,
}

impl<S: Store> PrefixStore<S> {
    /// The keys of `inner` that begin with `prefix` and a slash.
    pub fn new(prefix: impl Into<String>, inner: S) -> PrefixStore<S> {
        PrefixStore { prefix: prefix.into(), inner }
    }

    fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }
}

impl<S: Store> Store for PrefixStore<S> {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.inner.set(&self.key(key), value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(&self.key(key))
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        self.inner.wait(&self.key(key), deadline)
    }

    fn go_on(&self) -> Result<(), StoreError> {
        self.inner.go_on()
    }

    fn host(&self) -> Option<String> {
        self.inner.host()
    }
}
