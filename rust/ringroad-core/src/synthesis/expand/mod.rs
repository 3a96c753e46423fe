//! Schedules of graphs that are made of smaller graphs, derived from the smaller graphs' schedules.
//!
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications (arXiv 2202.03356), section 5.1 to
//! 5.3. A good schedule of a small graph stays good: on a graph made of it, the expanded schedule costs little more.
//! With N ranks, d links out of each, and a bandwidth term of T vectors per bandwidth of a rank:
//!
//! ```text
//! line           dN ranks   one step more     T + 1/N
//! degree n       nN ranks   see below         T + (n-1)/(nN)
//! power n        N^n ranks  n times as many   T N/(N-1) (N^n-1)/N^n
//! bidirectional  N ranks    as many           T, if the transposed graph has such a schedule
//! ```
//!
//! With degree n, each block also returns to the other copies of its rank. That takes place in the first step before
//! which all ranks with a link to the block's rank have it; if the base schedule has no such step, one is added.
//!
//! The alternative is a schedule by [`super::bfb`] on the expanded graph itself, which also serves products. That one
//! never takes more steps, and in most cases loads links as little. But it uses shortest paths only, so where ranks
//! do not look alike its bandwidth term may be larger: on `degree(generalized-kautz:3:15, 2)`, 31/20 against 29/20.

mod gather;
mod maps;
mod spec;
mod wiring;

pub use spec::{is_suitable, may_help, schedule, schedule_within, MOST_RANKS};

use super::{Budget, Digraph, Ratio, Unsuitable};
use crate::collective::Collective;
use crate::schedule::{Schedule, TransformError};
use crate::topology::{Topology, TopologyError};
use crate::units::Rank;
use gather::{common, Gather};
use wiring::LinkIndex;

/// Why a schedule cannot be expanded.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExpandError {
    /// Only the two phases of an allreduce can be expanded.
    #[error("a schedule of {0} cannot be expanded; expand those of reduce_scatter and allgather")]
    Collective(Collective),
    /// The schedule keeps several values of a chunk apart.
    #[error("schedule {0:?} keeps values apart in slots and cannot be expanded; take one without slots")]
    Slots(String),
    /// The schedule is for another graph.
    #[error("schedule {name:?} is for {ranks} ranks, and {topology} has {available}; take a schedule of this graph")]
    Ranks {
        /// The schedule's name.
        name: String,
        /// The schedule's number of ranks.
        ranks: usize,
        /// The graph's spec.
        topology: String,
        /// The graph's number of ranks.
        available: usize,
    },
    /// The schedule has a message between ranks without a link.
    #[error("schedule {name:?} has rank {source_rank} send to rank {destination}, to which no link leads; take one whose messages go to neighbours only")]
    NoLink {
        /// The schedule's name.
        name: String,
        /// The sender.
        source_rank: Rank,
        /// The receiver.
        destination: Rank,
    },
    /// The graph has switches, or links of different bandwidth.
    #[error(
        "{0} has switches or links of different bandwidth; expand a graph of ranks alone with equal links"
    )]
    Unequal(String),
    /// The graph's spec does not say that it is made of another one.
    #[error("{0} is not made by line, degree, power or bidirectional; choose bfb, which suits any graph")]
    Plain(String),
    /// The schedule would take too much memory.
    #[error("an expanded schedule of {ranks} ranks with {parts} parts per block is too large; choose bfb")]
    Large {
        /// The number of ranks.
        ranks: usize,
        /// The number of parts of each rank's block.
        parts: usize,
    },
    /// The expanded graph does not exist.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The graph has no breadth-first schedule, of which the expansion needs one.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// The phases of an allreduce do not fit together.
    #[error(transparent)]
    Transform(#[from] TransformError),
}

/// A way to make a larger graph, and its schedule, out of a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expansion {
    /// Each link becomes a rank.
    Line,
    /// Each rank becomes this many copies.
    Degree(usize),
    /// The product of the graph with itself, with this many factors.
    Power(usize),
    /// Each link gets a reverse link.
    Bidirectional,
}

impl Expansion {
    /// The expanded graph.
    pub fn topology(self, base: &Topology) -> Result<Topology, TopologyError> {
        match self {
            Expansion::Line => base.line(),
            Expansion::Degree(copies) => base.degree_expansion(copies),
            Expansion::Power(times) => base.power(times),
            Expansion::Bidirectional => base.bidirectional(),
        }
    }

    /// The schedule for the expanded graph, made from a schedule of an allgather or a reduce-scatter on `base`.
    pub fn schedule(self, base: &Topology, schedule: &Schedule) -> Result<Schedule, ExpandError> {
        self.onto(&self.topology(base)?, base, schedule, Budget::UNLIMITED)
    }

    fn onto(
        self,
        made: &Topology,
        base: &Topology,
        schedule: &Schedule,
        budget: Budget<'_>,
    ) -> Result<Schedule, ExpandError> {
        let (name, collective) = (schedule.name.clone(), schedule.collective);
        if schedule.ranks != base.ranks() {
            let (ranks, topology, available) = (schedule.ranks, base.spec(), base.ranks());
            return Err(ExpandError::Ranks { name, ranks, topology, available });
        }
        let gather = Gather::from_schedule(schedule)?;
        let wiring = LinkIndex::from_topology(base, collective == Collective::ReduceScatter)?;
        if let Some((source_rank, destination)) = gather.astray(&wiring) {
            return Err(ExpandError::NoLink { name, source_rank, destination });
        }
        budget.check().map_err(Unsuitable::Spent)?;
        let expanded = match self {
            Expansion::Line => maps::line(&gather, &wiring)?,
            Expansion::Degree(copies) => maps::degree(&gather, &wiring, copies)?,
            Expansion::Power(times) => maps::power(&gather, times)?,
            Expansion::Bidirectional => {
                let other = match collective {
                    Collective::Allgather => Collective::ReduceScatter,
                    _ => Collective::Allgather,
                };
                maps::bidirectional(gather, Gather::from_schedule(&spec::best(&name, base, other, budget)?)?)?
            }
        };
        budget.check().map_err(Unsuitable::Spent)?;
        expanded.schedule(&name, &Digraph::from_topology(made), collective)
    }
}

/// The allreduce of a reduce-scatter and an allgather. Their blocks may have different numbers of parts.
pub fn allreduce(reduce_scatter: &Schedule, allgather: &Schedule) -> Result<Schedule, TransformError> {
    let chunks = common(reduce_scatter.chunks, allgather.chunks);
    let cut = |schedule: &Schedule| schedule.cut(chunks / schedule.chunks);
    cut(reduce_scatter).compose(&cut(allgather))
}

/// The load of the busiest link per unit of capacity, summed over the steps, as a fraction of the message.
pub fn load(schedule: &Schedule, network: &Digraph) -> Ratio {
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
