//! Nested offsets: a reduce-scatter by any distances that reach every rank, from few large ones to many small ones.
//!
//! An offset is a rank's position relative to a block's own rank. Which blocks a rank gives away in which step follows
//! from nested sets of offsets, which are made from the last step to the first: the first set has the offset 0, the
//! next also the offsets that lie one distance to either side of it, and so on (see `distances`). An offset belongs to
//! the step in which it is added. The sets are symmetric, so both ports carry the same load, except for the offset n/2,
//! which mirror images share.
//!
//! Trivance is the member with the fewest steps. The member with distances of 1 has the least load; it is the ring of
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications, arXiv 2202.03356, appendix E.1.
//!
//! ```text
//! n = 8, distances 1, 1, 2    after step 2    { 0 }                          a block is at its own rank
//!                             after step 1    { 0, 2, 6 }                    step 2: +2 and -2 give it home
//!                             after step 0    { 0, 1, 2, 3, 5, 6, 7 }        step 1: +1 and -1 home, +3 to +2, -3 to -2
//!                             at first        all                            step 0: 4 to 3, or as a mirror image to 5
//! ```
//!
//! Cost: 2 K steps for K distances, 2(n-1)/n of the vector over two ports; K is ceil(log3 n) plus the parameter, at
//! most n/2.

use super::in_trees::{interleaved, perform, Give, Table};
use super::shape::Shape;
use super::{distances, ScheduleRequest};
use crate::schedule::{Motion, Schedule};
use crate::units::Port;

/// The member with the least load for the number of steps given by the parameter.
pub(super) fn least_load(request: &ScheduleRequest<'_>) -> Schedule {
    along(request, &distances::plan(request.shape.sizes(), &levels(request.shape, request.parameter)))
}

/// From neighbour to neighbour, half way around the ring in both directions.
pub(super) fn neighbours(request: &ScheduleRequest<'_>) -> Schedule {
    let ones = |size: &usize| vec![1; size / 2];
    along(request, &request.shape.sizes().iter().map(ones).collect::<Vec<_>>())
}

/// The numbers of extra distances worth trying. Without the member that has all distances 1, which is an algorithm of
/// its own.
pub(super) fn extras(shape: &Shape) -> Vec<usize> {
    let mut extras: Vec<usize> =
        distances::members(shape.sizes()).into_iter().map(|(extra, _)| extra).collect();
    extras.truncate((extras.len() - 1).max(1));
    extras
}

/// The number of distances of every dimension: `extra` more than the fewest, as far as that helps.
pub(super) fn levels(shape: &Shape, extra: usize) -> Vec<usize> {
    shape.sizes().iter().map(|&size| (distances::fewest(size) + extra).min(size / 2)).collect()
}

/// Reduce-scatter, allgather or allreduce by these distances in every dimension.
pub(super) fn along(request: &ScheduleRequest<'_>, distances: &[Vec<usize>]) -> Schedule {
    let sizes = request.shape.sizes();
    let tables = sizes.iter().zip(distances).map(|(size, distances)| table(*size, distances));
    let both_ways = sizes.iter().any(|size| size.is_multiple_of(2));
    let trees = interleaved(request.shape, &tables.collect::<Vec<_>>(), both_ways);
    perform(request.name, request.collective, &trees)
}

/// The table for distances that reach every offset from offset 0, if each is used at most once in either direction.
pub(super) fn table(size: usize, distances: &[usize]) -> Table {
    let mut ways: Vec<Option<(usize, Port)>> = vec![None; size];
    ways[0] = Some((distances.len(), 0));
    for (step, &distance) in distances.iter().enumerate().rev() {
        let inside: Vec<bool> = ways.iter().map(Option::is_some).collect();
        for offset in (0..size).filter(|offset| !inside[*offset]) {
            let leads_in = |port: &Port| inside[moved(size, offset, distance, *port)];
            // Offsets in the lower half prefer to go down, those in the upper half to go up, which balances the ports.
            let nearer = usize::from(2 * offset <= size);
            ways[offset] = [nearer, nearer ^ 1].into_iter().find(leads_in).map(|port| (step, port));
        }
    }
    Table::symmetric(size, Motion::Shift, |block| {
        let (level, port) = ways[(size - block) % size].expect("the distances reach every offset");
        Give { level, parent: moved(size, 0, distances[level], port), port }
    })
}

/// The position that is `distance` away by `port`.
fn moved(size: usize, place: usize, distance: usize, port: Port) -> usize {
    (place + if port == 0 { distance } else { size - distance }) % size
}
