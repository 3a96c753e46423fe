//! How a rank waits for others: until a deadline, and as long as the user does not interrupt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bootstrap::{Server, Store, StoreError};
use crate::config::{Config, Secret};
use crate::error::{Error, Result};

/// How often a rank that waits checks whether the caller has interrupted.
pub(super) const SLICE: Duration = Duration::from_millis(50);
/// Called many times a second while a rank waits for others. Returns an error if the user has interrupted.
pub type GoOn = Arc<dyn Fn() -> std::result::Result<(), StoreError> + Send + Sync>;

/// How long to wait for others.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub start: Instant,
    pub deadline: Instant,
    pub go_on: &'a GoOn,
}

impl<'a> Patience<'a> {
    pub fn new(timeout: Duration, go_on: &'a GoOn) -> Patience<'a> {
        let start = Instant::now();
        Patience { start, deadline: start + timeout, go_on }
    }

    /// The time that is left until the deadline.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The end of the next slice of waiting; an error if there is none. `text` says what has not happened.
    pub fn next(&self, text: impl Fn() -> String) -> Result<Instant> {
        let now = Instant::now();
        (self.go_on)()?;
        if now >= self.deadline {
            return Err(Error::Timeout(format!("{}; allow more time (timeout=, RINGROAD_TIMEOUT)", text())));
        }
        Ok(self.deadline.min(now + SLICE))
    }
}

/// A store whose users check whether the caller has interrupted.
pub struct Heeding {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Returns an error if the caller has interrupted.
    pub go_on: GoOn,
}

impl Store for Heeding {
    fn set(&self, key: &str, value: &[u8]) -> std::result::Result<(), StoreError> {
        self.store.set(key, value)
    }

    fn get(&self, key: &str) -> std::result::Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn wait(&self, key: &str, deadline: Instant) -> std::result::Result<Vec<u8>, StoreError> {
        self.store.wait(key, deadline)
    }

    fn go_on(&self) -> std::result::Result<(), StoreError> {
        (self.go_on)()
    }

    fn until_told(&self, deadline: Instant) {
        self.store.until_told(deadline);
    }

    fn host(&self) -> Option<String> {
        self.store.host()
    }
}

/// The server of this process, which others find by its handles.
pub(super) fn server(config: &Config) -> Result<Arc<Server>> {
    Server::for_process(config.secret.as_ref().map(Secret::reveal))
        .map_err(|error| Error::Transport(format!("cannot listen for other ranks: {error}")))
}
