//! Breadth-first broadcast, on any graph of ranks (see [`crate::synthesis::bfb`]).
//!
//! Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356), section 5.
//!
//! ```text
//! Petersen graph    step 0: each rank sends its own block to its three neighbours
//!                   step 1: and to each neighbour the blocks of the two others
//! ```
//!
//! Cost: as many steps per phase as the diameter. If all ranks look alike, each sends (n-1)/n of the vector per phase;
//! elsewhere, central ranks pass on more.

use super::{CostLine, ScheduleRequest, SearchObstacle};
use crate::collective::Collective;
use crate::schedule::Schedule;
use crate::synthesis::bfb;
use crate::topology::Topology;

/// The most ranks of a graph whose schedule is written out for all ranks.
const MAX_WRITTEN: usize = 4096;

/// Whether every rank reaches every other one over links between ranks, and the schedule is small enough.
pub(super) fn fits(topology: &Topology) -> bool {
    let fits = |symmetric: bool| symmetric || topology.ranks() <= MAX_WRITTEN;
    topology.is_torus() || bfb::is_suitable(topology).is_ok_and(fits)
}

/// Allreduce, reduce-scatter and allgather.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    let ScheduleRequest { name, topology, collective, budget, .. } = *request;
    bfb::schedule_within(name, topology, collective, budget).map_err(SearchObstacle::from)
}

/// The cost of the schedule.
pub(super) fn cost(request: &ScheduleRequest<'_>) -> Result<CostLine, SearchObstacle> {
    let ranks = request.shape.ranks();
    let reach = bfb::reach(request.topology)?;
    let phases = if request.collective == Collective::Allreduce { 2 } else { 1 };
    let sent = match reach.symmetric || ranks == 1 {
        true => (phases * (ranks - 1)) as f64 / ranks as f64,
        false => schedule(request)?.max_sent(),
    };
    Ok(CostLine { steps: phases * reach.steps, sent })
}
