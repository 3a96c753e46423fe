//! Bruck's all-to-all: the digits of a block's distance say by which hops it travels; blocks with a digit in common
//! travel together.
//!
//! Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport
//! message-passing systems, IEEE TPDS 8(11), 1997, section 3. A distance is written with digits of radix r. Digit z of
//! place k takes a block z * r^k ranks further. Each step handles one place, with up to r - 1 messages at once. Ranks
//! on the path keep blocks of others.
//!
//! Digits are balanced, from -(r-1)/2 to r/2, so that both directions are busy in the same step, and blocks that have
//! to go more than half of a ring leave in the other direction (for radix 3 this is known as ReTri). Of a distance and
//! its complement, the one whose digits take fewer hops is used. Radix 2 has the digits 0 and 1, and one message at a
//! time.
//!
//! On a torus every dimension has digits of its own. Dimensions take turns, place by place, and blocks begin in
//! different dimensions. Hosts are a torus of hosts and ranks per host. Each step is either within the hosts or between
//! them, never both, since messages within a host take less time.
//!
//! ```text
//! n = 7, r = 3   rank 0   step 0, digits +1 and -1    blocks for 1 and 5 to 1        blocks for 2 and 6 to 6
//!                         step 1, digits +3 and -3    for 3, its own and rank 1's    for 4, its own and rank 6's
//! ```
//!
//! Cost: the sum over the dimensions of ceil(log_r size) steps; a block is sent once for each nonzero digit of its
//! distance.

use super::shape::in_turns;
use super::{ceil_log, pairwise, CostLine, ScheduleRequest, Shape};
use crate::schedule::{Action, ChunkSet, Schedule, Step};

/// The most messages of a step, plus one.
const MAX_RADIX: usize = 256;
/// With more than `MANY` ranks, at most `FEW_PLACES` places are tried.
const MANY: usize = 1024;
const FEW_PLACES: usize = 4;

/// The radices worth trying: 2, and for every number of places the smallest odd one, whose digits reach equally far in
/// both directions; or the length of the longest dimension, which takes all distances at once. On a ring, that would be
/// the direct all-to-all. With many ranks there are few places, since it takes long to examine a schedule.
pub(super) fn radices(shape: &Shape) -> Vec<usize> {
    let grid = grid(shape);
    let longest = longest(&grid);
    let many = grid.ranks() > MANY;
    let most = if many { FEW_PLACES } else { usize::MAX };
    let least = |places| (2..).find(|radix| ceil_log(*radix, longest) <= places).unwrap_or(longest);
    let odd = (1..=ceil_log(2, longest).min(most)).map(|places| (least(places) | 1).min(longest));
    let is_direct = |radix: usize| radix == longest && grid.wide().len() == 1;
    let odd = odd.filter(|radix| *radix <= MAX_RADIX && !is_direct(*radix));
    let mut radices: Vec<usize> = odd.chain((!many).then_some(2)).collect();
    radices.sort_unstable();
    radices.dedup();
    radices
}

/// Whether this radix is possible.
pub(super) fn admits(shape: &Shape, radix: usize) -> bool {
    (2..=longest(&grid(shape)).clamp(2, MAX_RADIX)).contains(&radix)
}

/// The torus whose dimensions have digits.
fn grid(shape: &Shape) -> Shape {
    match shape.per_host() {
        1 => shape.clone(),
        per_host => Shape::new(vec![shape.ranks() / per_host, per_host]),
    }
}

fn longest(grid: &Shape) -> usize {
    grid.sizes().iter().copied().max().unwrap_or(1)
}

/// How far up a ring each place moves a block that has to go `distance` up, from the lowest place on.
fn leaps(size: usize, radix: usize, distance: usize) -> Vec<usize> {
    let places = ceil_log(radix, size);
    let (size, radix) = (size as isize, radix as isize);
    let written = |mut number: isize| -> Option<Vec<isize>> {
        let mut power = 1;
        let mut leaps = Vec::new();
        for _ in 0..places {
            let digit = (number + (radix - 1) / 2).rem_euclid(radix) - (radix - 1) / 2;
            leaps.push((digit * power).rem_euclid(size));
            number = (number - digit) / radix;
            power *= radix;
        }
        (number == 0).then_some(leaps)
    };
    let effort = |leaps: &Vec<isize>| {
        let hops: isize = leaps.iter().map(|leap| (*leap).min(size - leap)).sum();
        (hops, leaps.iter().filter(|leap| **leap != 0).count())
    };
    let ways = [distance as isize, distance as isize - size].map(written).into_iter().flatten();
    let leaps = ways.min_by_key(effort).expect("one way round is within reach of the digits");
    leaps.into_iter().map(|leap| leap as usize).collect()
}

/// The leaps of all distances along each dimension.
fn all_leaps(grid: &Shape, radix: usize) -> Vec<Vec<Vec<usize>>> {
    let of_ring = |size: &usize| (0..*size).map(|distance| leaps(*size, radix, distance)).collect();
    grid.sizes().iter().map(of_ring).collect()
}

/// The all-to-all for any number of ranks.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, parameter: radix, .. } = *request;
    let grid = grid(shape);
    let starts = if shape.per_host() > 1 { 1 } else { grid.wide().len().max(1) };
    on_grid(name, &grid, radix, starts)
}

/// The all-to-all on a grid of ranks, whatever the network, with a step for each dimension of at most 256 ranks:
/// a block first goes to the coordinate of its target in the first dimension, then in the second, and so on. So a rank
/// exchanges messages only with the ranks of its own lines.
pub fn along_dimensions(sizes: &[usize]) -> Schedule {
    let grid = Shape::new(sizes.to_vec());
    on_grid("along-dimensions", &grid, longest(&grid).clamp(2, MAX_RADIX), 1)
}

/// Blocks begin in `starts` different dimensions.
fn on_grid(name: &str, grid: &Shape, radix: usize, starts: usize) -> Schedule {
    let (sizes, leaps) = (grid.sizes(), all_leaps(grid, radix));
    let mut schedule = pairwise::without_steps(name, grid);
    let blocks: Vec<&[usize]> =
        schedule.symmetry.iter().flat_map(|s| &s.slices).map(|s| &s.chunks[..]).collect();
    let places: Vec<usize> = sizes.iter().map(|size| ceil_log(radix, *size)).collect();
    let orders: Vec<Vec<Vec<usize>>> =
        (0..starts).map(|first| in_turns(&places, &grid.order(first))).collect();
    let mut steps = vec![Step::default(); places.iter().sum()];
    for (distance, blocks) in blocks.into_iter().enumerate() {
        let way = grid.coordinates(distance);
        // Spreads the distances along a single dimension evenly over all orders.
        let order: usize = way.iter().enumerate().map(|(dimension, along)| (2 * dimension + 1) * along).sum();
        let mut turns: Vec<(usize, usize, usize)> = Vec::new();
        for (dimension, times) in orders[order % starts].iter().enumerate() {
            let taken = times.iter().zip(&leaps[dimension][way[dimension]]);
            turns.extend(taken.filter(|(_, leap)| **leap > 0).map(|(time, leap)| (*time, dimension, *leap)));
        }
        turns.sort_unstable();
        // The rank whose block of this distance is here.
        let mut source = 0;
        for (time, dimension, leap) in turns {
            let block = ChunkSet::range(blocks[source], blocks[source] + 1);
            let destination = grid.with(0, dimension, leap);
            steps[time].sends.push(grid.send(0, destination, block, Action::Copy));
            let size = sizes[dimension];
            let at = source / grid.stride(dimension) % size;
            source = grid.with(source, dimension, (at + size - leap) % size);
        }
    }
    schedule.steps = steps;
    schedule
}

/// The steps and the volume of the all-to-all.
pub(super) fn cost(request: &ScheduleRequest<'_>) -> CostLine {
    let grid = grid(request.shape);
    let sent = |along: &Vec<Vec<usize>>| {
        let leaps = along.iter().flatten().filter(|leap| **leap > 0).count();
        leaps as f64 / along.len() as f64
    };
    let steps = grid.sizes().iter().map(|size| ceil_log(request.parameter, *size)).sum();
    CostLine { steps, sent: all_leaps(&grid, request.parameter).iter().map(sent).sum() }
}
