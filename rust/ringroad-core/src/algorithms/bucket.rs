//! Bucket: rings along one dimension of a torus after the other, with a slice for every port.
//!
//! Barnett, Littlefield, Payne, van de Geijn: Global combine on mesh architectures with wormhole routing, IPPS 1993;
//! Jain, Sabharwal: Optimal bucket algorithms for large MPI collectives on torus interconnects, ICS 2010. Every slice
//! has a dimension to start in, and a direction. It is reduce-scattered along the rings of that dimension, and what is
//! left along those of the next dimension. The allgather runs backwards, with blocks going around in the same
//! direction. All slices change to their next dimensions at the same time, even if some have shorter rings, so that no
//! two slices ever share a link.
//!
//! ```text
//! torus:2x3    slice    phase 0                     phase 1                     for each there is one
//!              0        columns, in 1 of 2 steps    rows, 2 steps               that goes downwards
//!              1        rows, 2 steps               columns, in 1 of 2 steps
//! ```
//!
//! Cost: 2D (a-1) steps, where a is the largest of D dimensions; 2(n-1)/n of the vector, by 2D ports; one phase takes
//! half.

use super::in_trees::{perform, InTrees, Table};
use super::ring::upwards;
use super::shape::one_by_one;
use super::ScheduleRequest;
use crate::schedule::Schedule;

/// Reduce-scatter, allgather and allreduce on tori.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let up: Vec<Table> = shape.sizes().iter().map(|size| upwards(*size)).collect();
    let down: Vec<Table> = up.iter().map(Table::mirrored).collect();
    let levels: Vec<usize> = up.iter().map(Table::levels).collect();
    let longest = levels.iter().copied().max().unwrap_or(0);
    let both_ways = |first| {
        let times = one_by_one(&levels, &shape.order(first), longest);
        let trees = |tables: &[Table]| InTrees::product(shape, tables.to_vec(), times.clone());
        [(trees(&up), trees(&down)), (trees(&down), trees(&up))]
    };
    let slices: Vec<(InTrees, InTrees)> = (0..shape.wide().len()).flat_map(both_ways).collect();
    perform(name, collective, &slices)
}
