//! Schedules of a graph made into schedules of graphs that are made of it.
//!
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications (arXiv 2202.03356), section 5.1 to 5.3.
//! A good schedule of a small graph is worth keeping: on what is made of the graph it takes hardly more than its share.
//! With N ranks, d links out of each, and a bandwidth term of T vectors per bandwidth of a rank:
//!
//! ```text
//! line           dN ranks   one step more     T + 1/N
//! degree n       nN ranks   see below         T + (n-1)/(nN)     the step in which a block could be back, if that is later
//! power n        N^n ranks  n times as many   T N/(N-1) (N^n-1)/N^n
//! bidirectional  N ranks    as many           T, if the transposed graph has such a schedule
//! ```
//!
//! The other way to a schedule of the graph that is made is [`super::bfb`] right away, and the way to one of a product:
//! [`best`] takes whichever is faster.

mod gather;
mod maps;
mod spec;
mod wiring;

pub use spec::{best, Workload};

use super::{bfb, Network, Ratio, Unsuitable};
use crate::collective::Collective;
use crate::schedule::{Schedule, TransformError};
use crate::topology::{Topology, TopologyError};
use crate::units::Rank;
use gather::{common, Gather};
use wiring::Wiring;

/// Why a schedule cannot be expanded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExpandError {
    /// Only the two phases of an allreduce can.
    #[error("a schedule of {0} cannot be expanded; expand those of reduce_scatter and allgather")]
    Collective(Collective),
    /// Values are kept apart.
    #[error("schedule {0:?} keeps values apart in slots, and cannot be expanded")]
    Slots(String),
    /// It is for another graph.
    #[error("schedule {name:?} is for {ranks} ranks, and {topology} has {available}; take a schedule of this graph")]
    Ranks {
        /// The schedule's name.
        name: String,
        /// Its ranks.
        ranks: usize,
        /// The graph's spec.
        topology: String,
        /// The graph's ranks.
        available: usize,
    },
    /// It does not keep to links.
    #[error("schedule {name:?} has rank {source_rank} send to rank {destination}, to which no link leads; take one whose messages go to neighbours only")]
    NoLink {
        /// The schedule's name.
        name: String,
        /// The sender.
        source_rank: Rank,
        /// The receiver.
        destination: Rank,
    },
    /// Switches, or links that differ.
    #[error(
        "{0} has switches or links of different bandwidth; expand a graph of ranks alone with equal links"
    )]
    Unequal(String),
    /// There is no such graph.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// There is no breadth-first schedule, which a half or the whole needs.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The phases of an allreduce do not fit together.
    #[error(transparent)]
    Transform(#[from] TransformError),
}

/// A way to make a graph of another one, and with it a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expansion {
    /// Links become ranks.
    Line,
    /// Ranks get so many copies.
    Degree(usize),
    /// The graph becomes so many dimensions.
    Power(usize),
    /// Links go both ways.
    Bidirectional,
}

impl Expansion {
    /// The graph that it makes.
    pub fn topology(self, base: &Topology) -> Result<Topology, TopologyError> {
        match self {
            Expansion::Line => base.line(),
            Expansion::Degree(copies) => base.degree_expansion(copies),
            Expansion::Power(times) => base.power(times),
            Expansion::Bidirectional => base.bidirectional(),
        }
    }

    /// The schedule for what it makes of `base`, of one of an allgather or a reduce-scatter on `base`.
    pub fn schedule(self, base: &Topology, schedule: &Schedule) -> Result<Schedule, ExpandError> {
        self.onto(&self.topology(base)?, base, schedule)
    }

    fn onto(self, made: &Topology, base: &Topology, schedule: &Schedule) -> Result<Schedule, ExpandError> {
        let (name, collective) = (schedule.name.clone(), schedule.collective);
        if schedule.ranks != base.ranks() {
            let (ranks, topology, available) = (schedule.ranks, base.spec(), base.ranks());
            return Err(ExpandError::Ranks { name, ranks, topology, available });
        }
        let gather = Gather::of(schedule)?;
        let wiring = Wiring::of(base, collective == Collective::ReduceScatter)?;
        if let Some((source_rank, destination)) = gather.astray(&wiring) {
            return Err(ExpandError::NoLink { name, source_rank, destination });
        }
        let expanded = match self {
            Expansion::Line => maps::line(&gather, &wiring),
            Expansion::Degree(copies) => maps::degree(&gather, &wiring, copies),
            Expansion::Power(times) => maps::power(&gather, times),
            Expansion::Bidirectional => {
                let other = match collective {
                    Collective::Allgather => Collective::ReduceScatter,
                    _ => Collective::Allgather,
                };
                maps::bidirectional(gather, Gather::of(&bfb::schedule(&name, base, other)?)?)
            }
        };
        expanded.schedule(&name, &Network::of(made), collective)
    }
}

/// An allreduce of a reduce-scatter and an allgather whose blocks may have different numbers of parts.
pub fn allreduce(reduce_scatter: &Schedule, allgather: &Schedule) -> Result<Schedule, TransformError> {
    let chunks = common(reduce_scatter.chunks, allgather.chunks);
    let cut = |schedule: &Schedule| schedule.cut(chunks / schedule.chunks);
    cut(reduce_scatter).compose(&cut(allgather))
}

/// What the busiest link carries in each step, summed over the steps, in vectors.
pub fn load(schedule: &Schedule, network: &Network) -> Ratio {
    let view = schedule.view();
    let capacity = |source: Rank, target: Rank| {
        let arcs = &network.arcs()[network.outgoing(source)];
        arcs.iter().find(|arc| arc.target == target).map_or(1, |arc| arc.capacity)
    };
    let step = |index: usize| {
        let mut sent: Vec<(Rank, Rank, usize)> =
            view.transfers(index).into_iter().map(|t| (t.source, t.destination, t.chunks)).collect();
        sent.sort_unstable();
        let of_arc = |sent: &[(Rank, Rank, usize)]| {
            let chunks: usize = sent.iter().map(|transfer| transfer.2).sum();
            Ratio::new(chunks as u64, capacity(sent[0].0, sent[0].1))
        };
        sent.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).map(of_arc).max().unwrap_or(Ratio::ZERO)
    };
    let sum: Ratio = (0..schedule.steps.len()).map(step).sum();
    sum * Ratio::new(1u64, schedule.chunks_per_vector() as u64)
}
