//! Schedules made for a given graph, exactly or with a bound to compare with.
//!
//! Known algorithms are written for rings, tori and hypercubes. What is here takes any graph, and finds who sends what to
//! which neighbour when: [`bfb`] breadth first, so that every block takes shortest ways only, [`trees`] along trees packed
//! side by side, for long vectors on switched, unequal and damaged graphs, [`expand`] by maps of schedules of smaller graphs.
//! [`finder`] looks for the graph itself, [`routes`] for the path of each pair of ranks.

pub mod alltoall;
pub mod bfb;
pub mod expand;
pub mod finder;
mod flow;
mod network;
mod ratio;
pub mod routes;
pub mod trees;

pub use network::{Arc, Network};
pub use ratio::Ratio;

/// Why a graph has no such schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// Ranks cannot reach each other from rank to rank alone.
    #[error(
        "rank {from} reaches rank {to} through switches only, if at all; links between ranks are needed"
    )]
    Apart {
        /// A rank.
        from: crate::units::Rank,
        /// Another one that it does not reach.
        to: crate::units::Rank,
    },
    /// More neighbours than can be looked into.
    #[error("rank {rank} has {neighbours} neighbours; at most {most} can be looked into")]
    Degree {
        /// The rank.
        rank: crate::units::Rank,
        /// How many neighbours it has.
        neighbours: usize,
        /// How many there may be.
        most: usize,
    },
    /// Something else is performed.
    #[error("{0} is not performed so")]
    Collective(crate::collective::Collective),
}
