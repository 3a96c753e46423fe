//! Bruck: in every step, two messages to ranks at one and two times a distance on the same side. The distance triples
//! from step to step.
//!
//! Bruck, Ho: Efficient global combine operations in multi-port message-passing systems, PPL 3(4), 1993; Bruck, Ho,
//! Kipnis, Upfal, Weathersby, TPDS 8(11), 1997, for two ports. When a rank gives a block away depends on the rank's
//! offset from the block's own rank: on the lowest nonzero digit of the offset in base 3. Unlike in the paper, the
//! nearest ranks come first, when messages are large.
//!
//! ```text
//! n = 8   after step 1    { 0 }                  a block is at its own rank
//!         after step 0    { 0, 3, 6 }            step 1, distances 3 and 6: offsets 3 and 6 give it home
//!         at first        { 0, 1, ..., 7 }       step 0, distances 1 and 2: 1, 2 home, 4, 5 to 3, 7 to 6
//! ```
//!
//! The exchange of whole vectors uses the generalised allreduce for two ports (see `generalized`): a step that starts
//! with N parts leaves N' = ceil(N/3) of them and sends the others as one or two sums, N' or N' - 1 and 2N', 2N' - 1 or
//! 2N' - 2 ranks down. With one port, both variants are members of that family, r = 0 and r = L.
//!
//! Cost: 2 ceil(log3 n) steps, 2(n-1)/n of the vector over two ports. Exchanging whole vectors: ceil(log3 n) steps with
//! two vectors each, but one in the last step if n <= 2/3 of a power of three.

use super::dimension_wise::{allreduce, rotated};
use super::generalized::FoldedGroup;
use super::in_trees::{interleaved, perform, Give, Table};
use super::shape::Shape;
use super::{ceil_log, CostLine, ScheduleRequest};
use crate::collective::Collective;
use crate::schedule::{Motion, Schedule};

/// Reduce-scatter, allgather and allreduce on any torus.
pub(super) fn bandwidth(request: &ScheduleRequest<'_>) -> Schedule {
    let tables: Vec<Table> = request.shape.sizes().iter().map(|size| table(*size)).collect();
    perform(request.name, request.collective, &interleaved(request.shape, &tables, false))
}

/// The allreduce that exchanges whole vectors.
pub(super) fn latency(request: &ScheduleRequest<'_>) -> Schedule {
    allreduce(request.name, request.shape, &rotated(request.shape), |size, _| {
        let all = FoldedGroup::cyclic(size, false, true).line(2, ceil_log(3, size)).inward;
        Schedule { collective: Collective::Allreduce, ..all }
    })
}

/// The steps and the volume of the allreduce that exchanges whole vectors.
pub(super) fn latency_cost(request: &ScheduleRequest<'_>) -> CostLine {
    let steps = |size: &usize| ceil_log(3, *size);
    let single = |size: &&usize| **size > 1 && **size <= 2 * 3usize.pow(steps(size) as u32 - 1);
    let sizes = request.shape.sizes();
    let steps = sizes.iter().map(steps).sum();
    CostLine { steps, sent: (2 * steps - sizes.iter().filter(single).count()) as f64 }
}

fn table(size: usize) -> Table {
    let ring = Shape::ring(size);
    Table::symmetric(size, Motion::Shift, |block| {
        let offset = size - block;
        let mut level = 0;
        let mut power = 1;
        while offset.is_multiple_of(3 * power) {
            level += 1;
            power *= 3;
        }
        let parent = size - offset % (3 * power);
        Give { level, parent, port: ring.port_towards(0, parent) }
    })
}
