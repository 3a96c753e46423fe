//! What a communicator may be told when it is made.

use std::time::Duration;

use ringroad_core::Topology;

use crate::config::Config;

/// What a communicator may be told; everything else comes from [`Config`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Tells communicators on one store apart; "world" where empty.
    pub name: String,
    /// For every call, and for making the communicator.
    pub timeout: Option<Duration>,
    /// The network. Rank 0's counts.
    pub topology: Option<Topology>,
    /// As `RINGROAD_ALGO`. Rank 0's counts.
    pub algorithm: Option<String>,
    /// As `RINGROAD_DETERMINISTIC`. Rank 0's counts.
    pub size_invariant: Option<bool>,
}

impl Options {
    /// What tells the communicator from others on its store.
    pub(crate) fn name(&self) -> &str {
        if self.name.is_empty() {
            "world"
        } else {
            &self.name
        }
    }

    /// For every call, and for making the communicator.
    pub(crate) fn timeout(&self, config: &Config) -> Duration {
        self.timeout.unwrap_or(config.timeout)
    }
}
