//! The error type of discovery.

use crate::topology::TopologyError;

/// Why evidence makes no topology.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DiscoveryError {
    /// There is no rank.
    #[error("nothing can be discovered without ranks; report the host of every rank")]
    NoRanks,
    /// A rank is on a host that is not listed.
    #[error(
        "rank {rank} is on host {host}, and hosts are numbered below {hosts}; report the facts of every host"
    )]
    NoHost {
        /// The rank.
        rank: usize,
        /// Its host.
        host: usize,
        /// How many hosts there are.
        hosts: usize,
    },
    /// What was found is no valid topology.
    #[error("what was found of the network makes no topology: {0}")]
    Topology(#[from] TopologyError),
}
