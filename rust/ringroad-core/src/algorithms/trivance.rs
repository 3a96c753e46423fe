//! Trivance: a rank exchanges with two partners at once, one on each side, at three times the distance in every step.
//!
//! Juerss, Addanki, Schmid: Trivance, arXiv 2602.17254, lemma 1 and figure 4. Distances are 1, 3, 9, ...; if the number
//! of ranks is no power of three, the last distance is the smallest with which every rank is reached. The distances
//! determine which blocks a rank gives away in which step (see `nested`). Erratum: for most other numbers, the byte
//! counts of the authors' simulator are not those of a schedule, as it moves blocks to the less loaded port even if
//! that is in another step.
//!
//! With whole vectors, other numbers than powers of three would count some contributions twice; `windows` explains how
//! to avoid that.
//!
//! ```text
//! n = 7   after step 1    { 0 }                          a block is at home
//!         after step 0    { 0, 2, 5 }                    step 1, distance 2: offsets +2 and -2 give it home
//!         at first        { 0, 1, 2, 3, 4, 5, 6 }        step 0, distance 1: +1 and -1 home, +3 to +2, -3 to -2
//! ```
//!
//! Cost: 2 ceil(log3 n) steps, 2(n-1)/n of the vector over two ports.
//! Exchanging whole vectors: ceil(log3 n) steps, one or two vectors over two ports in each.

use super::dimension_wise::{allreduce, rotated};
use super::shape::Shape;
use super::slots::{exchange, PieceSum};
use super::{distances, nested, windows, ScheduleRequest};
use crate::schedule::{Motion, Schedule};

/// Reduce-scatter, allgather and allreduce on any torus.
pub(super) fn bandwidth(request: &ScheduleRequest<'_>) -> Schedule {
    let distances = |size: &usize| distances::trivance(*size);
    nested::along(request, &request.shape.sizes().iter().map(distances).collect::<Vec<_>>())
}

/// The allreduce that exchanges whole vectors, on any torus.
pub(super) fn latency(request: &ScheduleRequest<'_>) -> Schedule {
    allreduce(request.name, request.shape, &rotated(request.shape), |size, _| {
        whole_vectors(request.name, size)
    })
}

/// The exchange on a ring, with the distances and sums of the plan of `windows`.
pub(super) fn whole_vectors(name: &str, size: usize) -> Schedule {
    let message = |message: &windows::WindowMessage| {
        // A rank that receives from one side sends to the other.
        let destination = (-message.distance).rem_euclid(size as isize) as usize;
        let port = Shape::ring(size).port_towards(0, destination);
        let pieces = message.pieces.iter().map(|piece| 1 << piece).sum();
        PieceSum { destination, port, pieces }
    };
    let steps = windows::messages(&windows::plan(size));
    let steps: Vec<Vec<PieceSum>> = steps.iter().map(|step| step.iter().map(message).collect()).collect();
    exchange(name, size, Motion::Shift, &steps)
}

/// The number of vectors that a rank sends.
pub(super) fn vectors(size: usize) -> usize {
    windows::plan(size).iter().map(Vec::len).sum()
}
