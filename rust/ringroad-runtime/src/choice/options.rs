//! What the caller may say about a communicator when it is made.

use std::time::Duration;

use ringroad_core::{Rank, Topology};

use crate::config::Config;
use crate::os::messages::print_message;

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
    /// Whether these are some of the ranks of a communicator, which may lack algorithms that were named for all of them.
    pub is_part: bool,
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

/// The part of a network that these ranks stand on; `None` if it cannot be made. Then the first of them says so.
pub fn part_of(topology: Option<Topology>, ranks: &[Rank], is_first: bool) -> Option<Topology> {
    let topology = topology?;
    match topology.induced(ranks) {
        Ok(part) => Some(part),
        Err(error) => {
            dropped(&topology, &error.to_string(), is_first);
            None
        }
    }
}

/// The network, if it has so many ranks. Otherwise the first of them says that it is not used.
pub(crate) fn fitting(topology: Option<Topology>, ranks: usize, is_first: bool) -> Option<Topology> {
    let topology = topology?;
    if topology.ranks() == ranks {
        return Some(topology);
    }
    dropped(
        &topology,
        &format!("these are {ranks} processes of any jobs, and it has {} ranks", topology.ranks()),
        is_first,
    );
    None
}

fn dropped(topology: &Topology, reason: &str, is_first: bool) {
    if is_first {
        print_message(&format!("warning: the network of a new group is detected, since {topology} does not describe it: {reason}"));
    }
}
