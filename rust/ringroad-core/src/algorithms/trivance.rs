//! Trivance: a rank exchanges with two partners at once, one on each side, at three times the distance in every step.
//!
//! Juerss, Addanki, Schmid: Trivance, arXiv 2602.17254, lemma 1 and figure 4. Distances are 1, 3, 9, ... and for other
//! numbers than powers of three the last is the least that still reaches everybody. Which blocks a rank at a given
//! offset from their own rank gives away is read from nested sets of offsets, made from the last step to the first: an
//! offset belongs to the step in which it first appears. The sets are symmetric, and so both ports carry the same load
//! (but for the offset n/2).
//!
//! ```text
//! n = 7   after step 1    { 0 }                          a block is at home
//!         after step 0    { 0, 2, 5 }                    step 1, distance 2: offsets +2 and -2 give it home
//!         at first        { 0, 1, 2, 3, 4, 5, 6 }        step 0, distance 1: +1 and -1 home, +3 to +2, -3 to -2
//! ```
//!
//! Cost: 2 ceil(log3 n) steps, 2(n-1)/n of the vector over two ports.
//! Exchanging whole vectors: log3 n steps, 2 log3 n vectors over two ports, exact for powers of three.

use super::dimension_wise::{allreduce, line, rotated, whole};
use super::in_trees::{interleaved, perform, Give, InTrees, Table};
use super::shape::Shape;
use super::{ceil_log, Request};
use crate::schedule::{Motion, Schedule, Step};
use crate::units::Port;

/// Reduce-scatter, allgather and allreduce on any torus.
pub(super) fn bandwidth(request: &Request<'_>) -> Schedule {
    let table = |size: &usize| nested(*size, &distances(*size));
    let tables: Vec<Table> = request.shape.sizes().iter().map(table).collect();
    perform(request.name, request.collective, &slices(request.shape, &tables))
}

/// The allreduce that exchanges whole vectors, for powers of three.
pub(super) fn latency(request: &Request<'_>) -> Schedule {
    allreduce(request.name, request.shape, &rotated(request.shape), |size, _| {
        let exchange = |distance| {
            let sends = [0, 1].map(|port| whole(moved(size, 0, distance, port), port)).to_vec();
            Step { sends, locals: Vec::new() }
        };
        let steps = distances(size).into_iter().map(exchange).collect();
        Schedule { steps, ..line(request.name, size, Motion::Shift) }
    })
}

/// Of an even number of ranks one is as far up as down; mirror images share it out.
pub(super) fn slices(shape: &Shape, tables: &[Table]) -> Vec<(InTrees, InTrees)> {
    interleaved(shape, tables, shape.sizes().iter().any(|size| size.is_multiple_of(2)))
}

/// 1, 3, 9, ... and last half of what is then left to cover.
pub(super) fn distances(ranks: usize) -> Vec<usize> {
    let steps = ceil_log(3, ranks);
    let distance = |step: usize| {
        let power = 3usize.pow(step as u32);
        if step + 1 == steps {
            (ranks - power).div_ceil(2)
        } else {
            power
        }
    };
    (0..steps).map(distance).collect()
}

/// The place `distance` further by `port`.
fn moved(ranks: usize, place: usize, distance: usize, port: Port) -> usize {
    (place + if port == 0 { distance } else { ranks - distance }) % ranks
}

/// The table of any distances by which every offset can be reached from offset 0, each used at most once either way.
pub(super) fn nested(size: usize, distances: &[usize]) -> Table {
    let mut ways: Vec<Option<(usize, Port)>> = vec![None; size];
    ways[0] = Some((distances.len(), 0));
    for (step, &distance) in distances.iter().enumerate().rev() {
        let inside: Vec<bool> = ways.iter().map(Option::is_some).collect();
        for offset in (0..size).filter(|offset| !inside[*offset]) {
            let leads_in = |port: &Port| inside[moved(size, offset, distance, *port)];
            // The lower half prefers to go down and the upper half to go up, which balances the ports.
            let nearer = usize::from(2 * offset <= size);
            ways[offset] = [nearer, nearer ^ 1].into_iter().find(leads_in).map(|port| (step, port));
        }
    }
    Table::symmetric(size, Motion::Shift, |block| {
        let (level, port) = ways[(size - block) % size].expect("the distances reach every offset");
        Give { level, parent: moved(size, 0, distances[level], port), port }
    })
}
