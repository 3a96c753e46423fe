//! Bruck: two messages in every step, to ranks once and twice as far on the same side, at three times the distance in
//! every step.
//!
//! Bruck, Ho: Efficient global combine operations in multi-port message-passing systems, PPL 3(4), 1993; Bruck, Ho,
//! Kipnis, Upfal, Weathersby, TPDS 8(11), 1997, for two ports. A rank gives a block away according to the lowest digit
//! other than 0 of its offset from the block's own rank, written with digits 0, 1, 2. Near ranks come first, when
//! messages are large, unlike in the paper.
//!
//! ```text
//! n = 8   after step 1    { 0 }                  a block is at home
//!         after step 0    { 0, 3, 6 }            step 1, distances 3 and 6: offsets 3 and 6 give it home
//!         at first        { 0, 1, ..., 7 }       step 0, distances 1 and 2: 1, 2 home, 4, 5 to 3, 7 to 6
//! ```
//!
//! With whole vectors, by the generalised allreduce for two ports (see `generalized`): a step that finds N parts leaves
//! N' = ceil(N/3) of them and sends the others as one or two sums, N' or N' - 1 and 2N', 2N' - 1 or 2N' - 2 ranks down.
//! With one port both are members of that family, r = 0 and r = L.
//!
//! Cost: 2 ceil(log3 n) steps, 2(n-1)/n of the vector over two ports.
//! Exchanging whole vectors: ceil(log3 n) steps, two vectors each, but one in the last if n <= 2/3 of a power of three.

use super::dimension_wise::{allreduce, rotated};
use super::generalized::Group;
use super::in_trees::{interleaved, perform, Give, Table};
use super::shape::Shape;
use super::{ceil_log, CostLine, Request};
use crate::collective::Collective;
use crate::schedule::{Motion, Schedule};

/// Reduce-scatter, allgather and allreduce on any torus.
pub(super) fn bandwidth(request: &Request<'_>) -> Schedule {
    let tables: Vec<Table> = request.shape.sizes().iter().map(|size| table(*size)).collect();
    perform(request.name, request.collective, &interleaved(request.shape, &tables, false))
}

/// The allreduce that exchanges whole vectors.
pub(super) fn latency(request: &Request<'_>) -> Schedule {
    allreduce(request.name, request.shape, &rotated(request.shape), |size, _| {
        let all = Group::cyclic(size, false, true).line(2, ceil_log(3, size)).inward;
        Schedule { collective: Collective::Allreduce, ..all }
    })
}

/// Steps and volume of the allreduce that exchanges whole vectors.
pub(super) fn latency_cost(request: &Request<'_>) -> CostLine {
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
