//! Recursive doubling: partners exchange whole vectors, at twice the distance in every step.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005.
//! Other numbers than powers of two are folded (see `fold`).
//!
//! ```text
//! n = 8   step 0    0-1   2-3   4-5   6-7
//!         step 1    0-2   1-3   4-6   5-7
//!         step 2    0-4   1-5   2-6   3-7
//! ```
//!
//! Cost: log2 n steps, log2 n vectors; folded floor(log2 n) + 2 steps, floor(log2 n) + 1 vectors.

use super::dimension_wise::{allreduce, line, single, whole};
use super::fold::fold;
use super::shape::Shape;
use super::Request;
use crate::schedule::{Motion, Schedule, Step};

/// The allreduce on any torus.
pub(super) fn schedule(request: &Request<'_>) -> Schedule {
    let Request { name, shape, .. } = *request;
    let core = |shape: &Shape| {
        allreduce(name, shape, &single(shape), |size, _| {
            let exchange = |bit| {
                let partner = 1usize << bit;
                let port = Shape::ring(size).port_towards(0, partner);
                Step { sends: vec![whole(partner, port)], locals: Vec::new() }
            };
            let steps = (0..size.ilog2()).map(exchange).collect();
            Schedule { steps, ..line(name, size, Motion::Flip) }
        })
    };
    if shape.sizes().iter().all(|size| size.is_power_of_two()) {
        core(shape)
    } else {
        fold(name, shape, |ranks| core(&Shape::ring(ranks)))
    }
}
