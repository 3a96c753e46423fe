//! Trees packed side by side, on any graph (see [`crate::synthesis::trees`]): as many from every rank, fewer from ranks with
//! poor links, or undirected ones.
//!
//! Packings: Edmonds: Edge-disjoint branchings, 1973; switches as in Zhao et al.: ForestColl (arXiv 2402.06787). Unequal
//! roots and how undirected trees are grown are ours.
//!
//! ```text
//! 2x2 torus without the cable 0-1, undirected trees    0 - 2 - 3 - 1    2 - 0, 2 - 3 - 1    ...
//! ```
//!
//! Cost: pipelines. The busiest link has its load in about so many parts, one a step, and the trees' height comes on top:
//! the schedule itself is asked.

use super::Request;
use crate::schedule::Schedule;
use crate::synthesis::trees::{undirected, Variant, MOST_RANKS, MOST_RANKS_WEIGHTED};
use crate::topology::Topology;

/// The most ranks for which as many trees from every rank are packed unasked.
const MOST_UNASKED: usize = 32;
/// The most ranks for which fewer trees are, and undirected ones, which take less time.
const MOST_UNASKED_FEW: usize = 128;
const MOST_UNASKED_UNDIRECTED: usize = 512;

pub(super) fn equal(request: &Request<'_>) -> Result<Schedule, String> {
    schedule(Variant::Equal, request)
}

pub(super) fn weighted(request: &Request<'_>) -> Result<Schedule, String> {
    schedule(Variant::Weighted, request)
}

pub(super) fn spanning(request: &Request<'_>) -> Result<Schedule, String> {
    schedule(Variant::Spanning, request)
}

fn schedule(variant: Variant, request: &Request<'_>) -> Result<Schedule, String> {
    let packing = variant.pack(request.topology, request.collective).map_err(|why| why.to_string())?;
    Ok(Schedule { name: request.name.to_owned(), ..packing.schedule(request.parameter) })
}

/// With as many trees from every rank.
pub(super) fn fits_all(topology: &Topology) -> bool {
    topology.ranks() <= MOST_RANKS
}

/// With a few trees.
pub(super) fn fits_few(topology: &Topology) -> bool {
    topology.ranks() <= MOST_RANKS_WEIGHTED
}

/// With undirected trees.
pub(super) fn fits_undirected(topology: &Topology) -> bool {
    fits_few(topology) && undirected(topology)
}

/// Where that does not take long.
pub(super) fn worth_trying_all(topology: &Topology) -> bool {
    topology.is_irregular() && topology.ranks() <= MOST_UNASKED
}

/// Where ranks may have unequal links, as on what is left of a network.
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
