//! The schedule of a smaller graph, expanded to the graph that is made of it (see [`crate::synthesis::expand`]).
//!
//! Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356), sections 5.1 to
//! 5.3.
//!
//! ```text
//! degree(ring:4, 2)    step 0: both copies of rank 0 send their blocks to both copies of ranks 1 and 3
//!                      step 1: these pass them on to both copies of rank 2, and to the other copy of rank 0
//! ```
//!
//! Cost: there is no formula; the schedule itself tells. It never takes fewer steps than breadth-first broadcast, but
//! may load links less, because it does not insist on shortest paths.

use super::{ScheduleRequest, SearchObstacle};
use crate::schedule::Schedule;
use crate::synthesis::expand;
use crate::synthesis::expand::ExpandError;

/// Allreduce, reduce-scatter and allgather.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    let ScheduleRequest { name, topology, collective, budget, .. } = *request;
    expand::schedule_within(name, topology, collective, budget).map_err(|why| match why {
        ExpandError::Unsuitable(why) => SearchObstacle::from(why),
        other => SearchObstacle::None(other.to_string()),
    })
}
