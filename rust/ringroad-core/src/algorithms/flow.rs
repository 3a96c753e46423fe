//! All-to-all along a flow, on any graph of ranks (see [`crate::synthesis::alltoall`]): blocks are passed on from
//! neighbour to neighbour, over ways that keep the busiest link as little busy as can be.
//!
//! Basu et al.: Efficient all-to-all collective communication schedules for direct-connect topologies, HPDC 2024; with
//! equilibration instead of linear programs.
//!
//! ```text
//! 2x2 torus without the cable 0-1    step 0: 0 gives 2 what is for 1, 2 and 3, ...
//!                                    step 1: 2 gives 3 what 0 has for 1 and 3, ...
//! ```
//!
//! Cost: the schedule itself is asked. With steps enough the busiest link carries little more than in any flow; with as few
//! as the longest way has, some more.

use super::Request;
use crate::schedule::Schedule;
use crate::synthesis::alltoall::{concurrent_flow, relayed, Demands};
use crate::synthesis::Network;
use crate::topology::{Lattice, Topology};

/// The most ranks, whose blocks are chunks that are written out, and the most that it is tried for unasked.
const MOST_RANKS: usize = 1 << 10;
const MOST_UNASKED: usize = 1 << 7;
/// How near to the best the flow is, and after how many looks at all pairs it has to do.
const GAP: f64 = 0.01;
const MOST_SWEEPS: usize = 300;
/// Into so many chunks a block is cut, at most.
const PIECES: usize = 8;

pub(super) fn schedule(request: &Request<'_>) -> Result<Schedule, String> {
    let topology = request.topology;
    let network = Network::of(topology);
    let flow = concurrent_flow(&network, &Demands::Uniform, GAP, &mut |now| now.sweep < MOST_SWEEPS);
    let flow = flow.map_err(|why| why.to_string())?;
    Ok(relayed(request.name, &network, &flow, PIECES, request.parameter * topology.diameter()).0)
}

pub(super) fn fits(topology: &Topology) -> bool {
    topology.ranks() <= MOST_RANKS && Network::of(topology).apart().is_none()
}

/// Where links are alike on a torus, straight to every rank is as good.
pub(super) fn worth_trying(topology: &Topology) -> bool {
    topology.ranks() <= MOST_UNASKED && Lattice::of(topology).is_none()
}
