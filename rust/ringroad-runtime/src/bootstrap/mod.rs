//! How the ranks of a job find each other: a store of keys and values, and the rendezvous of ranks there.
//!
//! A [`Store`] is what the ranks share before they have connections: a directory ([`FileStore`]), memory
//! ([`MemoryStore`]), a server in rank 0's process ([`JobStore`]), or another service behind the trait. At a [`Rendezvous`] each rank publishes a [`EndpointInfo`].

mod endpoint_info;
mod exchange;
mod file;
mod handle;
mod hosts;
mod memory;
pub(crate) mod neighbourhood;
mod notes;
mod presence_check;
mod refusals;
mod rendezvous;
mod seal;
mod tcp;

use std::time::{Duration, Instant};

use ringroad_core::Rank;

#[cfg(fuzzing)]
pub(crate) use self::{
    exchange::compare,
    rendezvous::{read_place, unpack, End},
    seal::{open, seal},
};
pub(crate) use endpoint_info::hex;
pub use endpoint_info::EndpointInfo;
pub(crate) use exchange::identity;
pub use exchange::BootstrapError;
pub use file::FileStore;
pub use handle::Handle;
pub(crate) use hosts::{hosts, interface, leaders, share_loopback};
pub use memory::MemoryStore;
pub use notes::Notes;
pub use presence_check::PresenceCheck;
pub use rendezvous::Rendezvous;
pub(crate) use rendezvous::{check_rank, refused, unreadable};
pub use tcp::{
    ask_all, ask_at, local_processes, stacks_by, Inquiry, JobPlace, JobStore, LocalProcess, Report,
    Unanswered,
};
pub(crate) use tcp::{report_by, Reporter};
pub(crate) use tcp::{Heard, LifeLine, ProcessLine, Question, Server, TcpStore, UnreachableProcess};

use crate::error::Error;

/// How ranks tell each other what they have found: in the store while they meet, by calls later.
pub(crate) trait Exchange {
    /// Publishes a value, of at most so many bytes, and returns the values of all ranks.
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Error>;

    /// Rank 0 publishes a value, and all ranks return it.
    fn share(&mut self, kind: &str, value: Option<Vec<u8>>) -> Result<Vec<u8>, Error> {
        Ok(self.collect(kind, &value.unwrap_or_default(), usize::MAX)?.swap_remove(0))
    }
}

impl Exchange for Rendezvous {
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Error> {
        Ok(Rendezvous::collect(self, &format!("network.{kind}"), value, most)?)
    }
}

/// Keys and values that all ranks of a job can read and write. Values are small; a key is set once or rarely.
pub trait Store: Send + Sync {
    /// Sets the value of `key` for all ranks, atomically.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// The value of `key` now, if there is one.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Waits for the value of `key`, until `deadline` at the latest.
    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError>;

    /// Returns an error if the user has interrupted. Code that waits long calls this regularly.
    fn go_on(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Waits until those whom this process serves the store have read a rank's goodbye, until `deadline` at the latest.
    fn until_told(&self, _deadline: Instant) {}

    /// The host that serves the store, as a name or an address, if there is one. Ranks listen on the network that
    /// leads there.
    fn host(&self) -> Option<String> {
        None
    }
}

/// Why a store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No rank set the key in time.
    #[error("nobody set {key:?} in the store within {:.1} s; check that every rank is running and uses the same store, or allow more time (RINGROAD_TIMEOUT)", waited.as_secs_f64())]
    Timeout {
        /// The key.
        key: String,
        /// How long this rank waited.
        waited: Duration,
    },
    /// The server of the store has not answered so far, which says nothing else of it.
    #[error("{0} has not answered so far: it is busy or stopped, the network between is cut, or long packets are lost on it (MTU?); allow more time (timeout=, RINGROAD_TIMEOUT)")]
    Silent(String),
    /// The user has interrupted.
    #[error("it was interrupted")]
    Interrupted,
    /// A process of the group is lost.
    #[error("{message}")]
    Lost {
        /// Its rank.
        rank: Rank,
        /// The whole text.
        message: String,
    },
    /// The store does not work.
    #[error("cannot {action} in the store: {reason}")]
    Failed {
        /// What was tried.
        action: String,
        /// Why it failed, and what to do.
        reason: String,
    },
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Timeout { .. } | StoreError::Silent(_) => Error::Timeout(error.to_string()),
            StoreError::Lost { rank, message } => Error::Peer { rank, message },
            _ => Error::Store(error.to_string()),
        }
    }
}

/// A part of a store. Every communicator has its own part, so that keys do not clash.
#[derive(Debug, Clone)]
pub struct PrefixStore<S> {
    prefix: String,
    inner: S,
}

impl<S: Store> PrefixStore<S> {
    /// The part of `inner` whose keys begin with `prefix` and a slash.
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

    fn until_told(&self, deadline: Instant) {
        self.inner.until_told(deadline);
    }

    fn host(&self) -> Option<String> {
        self.inner.host()
    }
}
