//! Steps and volumes that several algorithms share.

use super::super::{butterfly, ceil_log, CostLine, ScheduleRequest, Shape};
use crate::collective::Collective;

pub(super) fn always(_: &ScheduleRequest<'_>) -> bool {
    true
}

/// The steps from neighbour to neighbour all around the ring.
pub(super) fn around(shape: &Shape) -> usize {
    shape.ranks() - 1
}

/// One step, or none for a single rank.
pub(super) fn at_once(shape: &Shape) -> usize {
    usize::from(shape.ranks() > 1)
}

/// The steps from neighbour to neighbour half way around every dimension.
pub(super) fn half_around(shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| size / 2).sum()
}

/// The sum over the dimensions of ceil(log size), to this base.
pub(super) fn logs(base: usize, shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| ceil_log(base, *size)).sum()
}

/// Swing leaves out the last one of an odd number of ranks.
pub(super) fn swings(shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| ceil_log(2, size - size % 2)).sum()
}

/// Every dimension has a phase with as many steps as the longest dimension needs.
pub(super) fn buckets(shape: &Shape) -> usize {
    let longest = shape.sizes().iter().max().map_or(0, |size| size - 1);
    shape.wide().len() * longest
}

/// Every rank sends every block once, except its own.
pub(super) fn all_but_own(steps: usize, shape: &Shape) -> CostLine {
    let ranks = shape.ranks() as f64;
    CostLine { steps, sent: (ranks - 1.0) / ranks }
}

/// `per_step` whole vectors in every step.
pub(super) fn vectors(steps: usize, per_step: usize) -> CostLine {
    CostLine { steps, sent: (steps * per_step) as f64 }
}

pub(super) fn then(first: CostLine, second: CostLine) -> CostLine {
    CostLine { steps: first.steps + second.steps, sent: first.sent + second.sent }
}

pub(super) fn twice(phase: CostLine) -> CostLine {
    then(phase, phase)
}

/// An allreduce over the largest power of two, with an exchange with the ranks in excess before and after; tori of
/// powers of two need no exchange.
pub(super) fn folded(shape: &Shape, core: fn(usize) -> CostLine) -> CostLine {
    let ranks = shape.ranks();
    let power = 1 << ranks.ilog2();
    if power == ranks {
        core(power)
    } else {
        then(core(power), CostLine { steps: 2, sent: 1.0 })
    }
}

pub(super) fn folded_steps(shape: &Shape) -> usize {
    let ranks = shape.ranks();
    ranks.ilog2() as usize + if ranks.is_power_of_two() { 0 } else { 2 }
}

/// See `fold`.
pub(super) fn folded_allgather(shape: &Shape) -> CostLine {
    let ranks = shape.ranks();
    let power = 1 << ranks.ilog2();
    if power == ranks {
        return all_but_own(folded_steps(shape), shape);
    }
    let extra: usize = (1..=ranks.ilog2()).map(|bit| (ranks - power).div_ceil(1 << bit)).sum();
    CostLine { steps: folded_steps(shape), sent: (ranks - 1 + power - 1 + extra) as f64 / ranks as f64 }
}

/// See `elimination`.
pub(super) fn eliminated(shape: &Shape) -> CostLine {
    let ranks = shape.ranks();
    let power = 1 << ranks.ilog2();
    let core = twice(all_but_own(ceil_log(2, power), &Shape::ring(power)));
    if power == ranks {
        return core;
    }
    then(core, CostLine { steps: 2, sent: 0.5 / (1 << ranks.trailing_zeros()) as f64 })
}

pub(super) fn butterflies(request: &ScheduleRequest<'_>) -> CostLine {
    let factors = request.shape.sizes().iter().filter_map(|size| butterfly::factors(*size));
    factors.map(|[twos, threes]| then(vectors(twos, 1), vectors(threes, 2))).fold(vectors(0, 0), then)
}

/// An exclusive scan first moves the vectors on by one rank.
pub(super) fn doubled_prefixes(request: &ScheduleRequest<'_>) -> CostLine {
    let ranks = request.shape.ranks();
    match request.collective {
        Collective::Exscan if ranks > 1 => vectors(1 + ceil_log(2, ranks - 1), 1),
        _ => vectors(ceil_log(2, ranks), 1),
    }
}

pub(super) fn along_a_chain(request: &ScheduleRequest<'_>) -> CostLine {
    match request.shape.ranks() {
        1 => vectors(0, 0),
        ranks => CostLine { steps: ranks - 2 + request.parameter, sent: 1.0 },
    }
}

/// The busiest rank has a parent and two children in one tree, and a parent in the other.
pub(super) fn two_trees(request: &ScheduleRequest<'_>) -> CostLine {
    let ranks = request.shape.ranks();
    if ranks == 1 {
        return vectors(0, 0);
    }
    let sent = (ranks.min(4) as f64) / 2.0;
    CostLine { steps: 2 * ranks.ilog2() as usize + request.parameter - 1, sent }
}

pub(super) fn below_root(request: &ScheduleRequest<'_>) -> CostLine {
    match request.shape.ranks() {
        1 => vectors(0, 0),
        ranks => CostLine { steps: (ranks - 1).ilog2() as usize + request.parameter, sent: 1.0 },
    }
}

pub(super) fn scatter(request: &ScheduleRequest<'_>) -> CostLine {
    all_but_own(ceil_log(2, request.shape.ranks()), request.shape)
}

/// Binomial: the busiest rank is the root's farthest or second farthest child, which sends its whole subtree.
pub(super) fn gather(request: &ScheduleRequest<'_>) -> CostLine {
    let ranks = request.shape.ranks();
    let steps = ceil_log(2, ranks);
    let blocks = match steps {
        0 => 0,
        1 => 1,
        _ => (ranks - (1 << (steps - 1))).max(1 << (steps - 2)),
    };
    CostLine { steps, sent: blocks as f64 / ranks as f64 }
}
