//! Swing: partners alternate between both sides of a ring, so that their distance grows by a third of 2 to the step.
//!
//! De Sensi, Bonato, Saam, Hoefler: Swing, short-cutting rings for higher bandwidth allreduce, NSDI 2024, arXiv
//! 2401.09356, sections 3.1 and 3.2. Even ranks go 1, -1, 3, -5, 11, ... and odd ranks the opposite way. A rank gives a block away
//! in the last step in which it can. Of an odd number of ranks the last one exchanges blocks with every other one
//! directly, about half of them in step 0, a quarter in step 1, and so on.
//!
//! ```text
//! n = 8   step 0    0-1   2-3   4-5   6-7        n = 7   0..5 as for n = 6, and
//!         step 1    1-2   3-4   5-6   7-0                6 with 0 1 2, then 3 4, then 5
//!         step 2    0-3   2-5   4-7   6-1
//! ```
//!
//! Cost: 2 ceil(log2 n) steps (of n - 1 if n is odd), 2(n-1)/n of the vector; each half by a mirror image of the other.
//! Exchanging whole vectors: log2 n steps, log2 n vectors, exact for powers of two.

use super::dimension_wise::{allreduce, line, rotated, whole};
use super::in_trees::{interleaved, perform, Give, Table};
use super::shape::Shape;
use super::{ceil_log, Request};
use crate::schedule::{Motion, Schedule, Step};
use crate::units::{Port, Rank};

/// Reduce-scatter, allgather and allreduce on any torus.
pub(super) fn bandwidth(request: &Request<'_>) -> Schedule {
    let tables: Vec<Table> = request.shape.sizes().iter().map(|size| table(*size)).collect();
    perform(request.name, request.collective, &interleaved(request.shape, &tables, true))
}

/// The allreduce that exchanges whole vectors, for powers of two.
pub(super) fn latency(request: &Request<'_>) -> Schedule {
    allreduce(request.name, request.shape, &rotated(request.shape), |size, _| {
        let exchange = |step| {
            let partner = partner(size, 0, step);
            Step { sends: vec![whole(partner, port_towards(size, 0, partner))], locals: Vec::new() }
        };
        let steps = (0..ceil_log(2, size)).map(exchange).collect();
        Schedule { steps, ..line(request.name, size, Motion::Reflect) }
    })
}

/// Whom `rank` meets; being met is mutual if `ranks` is even.
fn partner(ranks: usize, rank: Rank, step: usize) -> Rank {
    let distance = (1 - (-2isize).pow(step as u32 + 1)) / 3;
    let signed = if rank.is_multiple_of(2) { distance } else { -distance };
    (rank as isize + signed).rem_euclid(ranks as isize) as usize
}

fn port_towards(size: usize, source: usize, destination: usize) -> Port {
    Shape::ring(size).port_towards(source, destination)
}

fn table(size: usize) -> Table {
    let paired = size - size % 2;
    let steps = ceil_log(2, paired);
    let by_partner = |position: usize, level| {
        let parent = partner(paired, position, level);
        Give { level, parent, port: port_towards(size, position, parent) }
    };
    if paired == size {
        let chances = last_chances(size, steps, 0);
        // What position 0 is to the block, another position is to block 0.
        let seen = |block| chances[Motion::Reflect.back(size, block, 0)];
        return Table::symmetric(size, Motion::Reflect, |block| by_partner(0, seen(block)));
    }
    let last_chances: Vec<Vec<usize>> = (0..paired).map(|block| last_chances(paired, steps, block)).collect();
    Table::new(size, |position, block| {
        if position.max(block) < paired {
            by_partner(position, last_chances[block][position])
        } else {
            let level = meeting(paired, steps, position.min(block));
            Give { level, parent: block, port: port_towards(size, position, block) }
        }
    })
}

/// The last step in which each rank can give `block` away such that it still gets home.
fn last_chances(ranks: usize, steps: usize, block: usize) -> Vec<usize> {
    let mut chances = vec![None; ranks];
    chances[block] = Some(steps);
    for step in (0..steps).rev() {
        for rank in 0..ranks {
            let later = |chance: usize| chance > step;
            if chances[rank].is_none() && chances[partner(ranks, rank, step)].is_some_and(later) {
                chances[rank] = Some(step);
            }
        }
    }
    chances.into_iter().map(|chance| chance.expect("every rank reaches every other one")).collect()
}

/// In which step the last of an odd number of ranks meets `rank`.
fn meeting(paired: usize, steps: usize, rank: Rank) -> usize {
    let mut met = 0;
    for step in 0..steps - 1 {
        met += paired.div_ceil(2 << step);
        if rank < met {
            return step;
        }
    }
    steps - 1
}
