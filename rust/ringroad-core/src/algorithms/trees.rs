//! Trees packed side by side, on any graph (see [`crate::synthesis::trees`]): equally many from every rank, fewer from
//! ranks with poor links, or undirected ones.
//!
//! Packings: Edmonds: Edge-disjoint branchings, 1973; switches as in Zhao et al.: ForestColl (arXiv 2402.06787). The
//! choice of roots and the growth of undirected trees are ours.
//!
//! ```text
//! 2x2 torus without the cable 0-1, undirected trees    0 - 2 - 3 - 1    2 - 0, 2 - 3 - 1    ...
//! ```
//!
//! Cost: pipelines. The steps are about as many as the parts of the busiest link's load plus the height of the trees.
//! There is no formula; the schedule itself tells.

use super::{ScheduleRequest, SearchObstacle};
use crate::schedule::Schedule;
use crate::synthesis::trees::{undirected, Unpackable, Variant, MOST_RANKS, MOST_RANKS_WEIGHTED};
use crate::topology::Topology;

/// The most ranks for which equal trees are a candidate without being asked for.
const MOST_UNASKED: usize = 32;
/// The same for weighted trees and for undirected ones, which take less time.
const MOST_UNASKED_FEW: usize = 128;
const MOST_UNASKED_UNDIRECTED: usize = 512;

pub(super) fn equal(request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    schedule(Variant::Equal, request)
}

pub(super) fn weighted(request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    schedule(Variant::Weighted, request)
}

pub(super) fn spanning(request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    schedule(Variant::Spanning, request)
}

fn schedule(variant: Variant, request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    let ScheduleRequest { name, topology, collective, parameter, budget, .. } = *request;
    let packing = variant.pack(topology, collective, budget).map_err(|error| match error {
        Unpackable::Spent(spent) => SearchObstacle::Spent(spent),
        other => SearchObstacle::None(other.to_string()),
    })?;
    Ok(Schedule { name: name.to_owned(), ..packing.schedule(parameter, budget)? })
}

/// Equal trees, for collectives without a root.
pub(super) fn fits_all(topology: &Topology) -> bool {
    topology.ranks() <= MOST_RANKS
}

/// Trees from few roots.
pub(super) fn fits_few(topology: &Topology) -> bool {
    topology.ranks() <= MOST_RANKS_WEIGHTED
}

/// Undirected trees.
pub(super) fn fits_undirected(topology: &Topology) -> bool {
    fits_few(topology) && undirected(topology)
}

/// Packing equal trees takes long, so only small irregular networks try them.
pub(super) fn worth_trying_all(topology: &Topology) -> bool {
    topology.is_irregular() && topology.ranks() <= MOST_UNASKED
}

/// Irregular networks may have unequal links, such as after a failure.
pub(super) fn worth_trying_few(topology: &Topology) -> bool {
    topology.is_irregular() && topology.ranks() <= MOST_UNASKED_FEW
}

pub(super) fn worth_trying_undirected(topology: &Topology) -> bool {
    topology.is_irregular() && topology.ranks() <= MOST_UNASKED_UNDIRECTED
}

/// Long pipelines of many ranks take long to make.
pub(super) fn parts(ranks: usize) -> Vec<usize> {
    vec![64, if ranks <= MOST_UNASKED_FEW { 2048 } else { 1024 }]
}
