//! All-to-all along a flow, on any graph of ranks (see [`crate::synthesis::alltoall`]): neighbours pass blocks on, over
//! paths that keep the load of the busiest link as small as possible.
//!
//! Basu et al.: Efficient all-to-all collective communication schedules for direct-connect topologies, HPDC 2024; with
//! equilibration instead of linear programs.
//!
//! ```text
//! 2x2 torus without the cable 0-1    step 0: 0 sends 2 its blocks for 1, 2 and 3, ...
//!                                    step 1: 2 sends 3 the blocks from 0 for 1 and 3, ...
//! ```
//!
//! Cost: there is no formula; the schedule itself tells. With enough steps the busiest link carries little more than in
//! any flow. With as few steps as the longest path has links, it carries somewhat more.
//!
//! A relay stores each chunk that it forwards in memory of its own. `python/ringroad/lab/programs.py` states the same
//! problem as linear programs, with which tests and `reproduce basu` compare.

use super::{ScheduleRequest, SearchObstacle};
use crate::schedule::Schedule;
use crate::synthesis::alltoall::{concurrent_flow, relayed, Demands, Limits, Progress};
use crate::synthesis::Digraph;
use crate::topology::{Lattice, Topology};

/// The most ranks, since all blocks are written out; and the most with which it is a candidate without being asked for.
const MOST_RANKS: usize = 1 << 10;
const MOST_UNASKED: usize = 1 << 7;
/// The gap to the best flow at which the search ends, and the most iterations over all pairs.
const GAP: f64 = 0.01;
const MOST_ITERATIONS: usize = 300;
/// The most chunks of a block.
const PIECES: usize = 8;

pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    let ScheduleRequest { name, topology, parameter, budget, .. } = *request;
    let network = Digraph::from_topology(topology);
    let go_on = &mut |now: &Progress| now.iteration < MOST_ITERATIONS && budget.check().is_ok();
    let flow = concurrent_flow(&network, &Demands::Uniform, GAP, go_on)?;
    // A flow that was ended early would depend on the speed of this machine.
    budget.check()?;
    let limits = Limits { pieces: Some(PIECES), steps: Some(parameter * topology.diameter()) };
    Ok(relayed(name, &network, &flow, limits, budget)?.schedule)
}

pub(super) fn fits(topology: &Topology) -> bool {
    topology.ranks() <= MOST_RANKS && Digraph::from_topology(topology).apart().is_none()
}

/// On a torus with equal links, sending directly to every rank is as good.
pub(super) fn worth_trying(topology: &Topology) -> bool {
    topology.ranks() <= MOST_UNASKED && Lattice::from_topology(topology).is_none()
}
