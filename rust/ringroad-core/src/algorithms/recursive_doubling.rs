//! Recursive doubling: partners exchange whole vectors, at twice the distance in every step.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005. Other
//! numbers than powers of two are folded (see `fold`).
//!
//! ```text
//! n = 8   step 0    0-1   2-3   4-5   6-7
//!         step 1    0-2   1-3   4-6   5-7
//!         step 2    0-4   1-5   2-6   3-7
//! ```
//!
//! Cost: log2 n steps, log2 n vectors; folded floor(log2 n) + 2 steps, floor(log2 n) + 1 vectors. On all ports, a slice
//! starts in every dimension, each with a mirror image: the same steps and volume.

use super::dimension_wise::{allreduce, rotated_both_ways, single};
use super::fold::fold;
use super::halving_doubling::table;
use super::shape::Shape;
use super::{shape_merged, ScheduleRequest};
use crate::schedule::Schedule;

/// The allreduce on any torus.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, .. } = *request;
    let core = |shape: &Shape| allreduce(name, shape, &single(shape), |size, _| exchanges(name, size, false));
    if shape.sizes().iter().all(|size| size.is_power_of_two()) {
        core(shape)
    } else {
        fold(name, shape, |ranks| core(&Shape::ring(ranks)))
    }
}

/// The same on all ports, for sizes that are powers of two.
pub(super) fn multiport(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, .. } = *request;
    allreduce(name, shape, &rotated_both_ways(shape), |size, mirrored| exchanges(name, size, mirrored))
}

/// The partners of halving and doubling exchange whole vectors.
fn exchanges(name: &str, size: usize, mirrored: bool) -> Schedule {
    let table = if mirrored { table(size).mirrored() } else { table(size) };
    shape_merged::allreduce(name, &table).expect("partners have the same of all blocks")
}
