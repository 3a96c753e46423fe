//! What the caller may say about a communicator when it is made.

use std::time::Duration;

use ringroad_core::Topology;

use crate::config::Config;

/// What the caller may say; everything else comes from [`Config`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Distinguishes communicators on one store; "world" if empty.
    pub name: String,
    /// The timeout of every call, and of making the communicator.
    pub timeout: Option<Duration>,
    /// The network. Only rank 0's value is used.
    pub topology: Option<Topology>,
    /// As `RINGROAD_ALGO`. Only rank 0's value is used.
    pub algorithm: Option<String>,
    /// As `RINGROAD_DETERMINISTIC`. Only rank 0's value is used.
    pub size_invariant: Option<bool>,
}

impl Options {
    /// The name that distinguishes the communicator on its store.
    pub(crate) fn name(&self) -> &str {
        if self.name.is_empty() {
            "world"
        } else {
            &self.name
        }
    }

    /// The timeout of every call, and of making the communicator.
    pub(crate) fn timeout(&self, config: &Config) -> Duration {
        self.timeout.unwrap_or(config.timeout)
    }
}
