//! Schedules computed for a given graph, exactly or with a bound to compare with.
//!
//! Known algorithms are written for rings, tori and hypercubes. The modules here take any graph and decide who sends
//! what to which neighbour, and when. [`bfb`] works breadth first, so that every block takes shortest paths only.
//! [`trees`] packs trees side by side, for long vectors on graphs with switches, unequal links or failed links.
//! [`expand`] turns schedules of smaller graphs into schedules of larger ones. [`alltoall`] follows a flow.
//!
//! All compute with whole numbers and fractions, so results are the same on every machine and costs are exact. Only
//! `alltoall` uses floating point, with the functions of the crate libm, which return the same bits everywhere. Where
//! the links show that all ranks look alike, one row is made for all.

pub mod alltoall;
pub mod bfb;
mod budget;
mod digraph;
pub mod expand;
mod flow;
mod ratio;
pub mod trees;

pub use budget::{Budget, Spent};
pub use digraph::{Arc, Digraph};
pub use ratio::Ratio;

/// Why no schedule can be made for a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// A rank does not reach another over links between ranks alone.
    #[error(
        "rank {from} reaches rank {to} through switches only, if at all; links between ranks are needed"
    )]
    Apart {
        /// The rank that does not reach the other one.
        from: crate::units::Rank,
        /// The rank that is not reached.
        to: crate::units::Rank,
    },
    /// A rank has too many neighbours.
    #[error("rank {rank} has {neighbours} neighbours; breadth-first schedules handle at most {most}")]
    Degree {
        /// The rank.
        rank: crate::units::Rank,
        /// How many neighbours it has.
        neighbours: usize,
        /// The largest number that is supported.
        most: usize,
    },
    /// There are too many pairs of ranks to keep the paths of all.
    #[error("the paths of {ranks} ranks are too many to search among all of them; {most} ranks is the most")]
    TooLarge {
        /// The number of ranks.
        ranks: usize,
        /// The largest number that is supported.
        most: usize,
    },
    /// Breadth-first schedules do not perform this collective.
    #[error("there are no breadth-first schedules for {0}; choose reduce_scatter, allgather or allreduce")]
    Collective(crate::collective::Collective),
    /// The search was ended.
    #[error(transparent)]
    Spent(#[from] Spent),
}
