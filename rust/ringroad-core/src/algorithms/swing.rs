//! Swing: partners alternate between both sides of a ring, at distances of about 2^(s+1)/3 in step s.
//!
//! De Sensi, Bonato, Saam, Hoefler: Swing, short-cutting rings for higher bandwidth allreduce, NSDI 2024, arXiv
//! 2401.09356, sections 3.1 and 3.2. Even ranks use the offsets 1, -1, 3, -5, 11, ..., odd ranks the opposite ones. A
//! rank gives a block away in the last step in which it can. If the number of ranks is odd, the last rank exchanges
//! blocks directly with every other one: about half of them in step 0, a quarter in step 1, and so on.
//!
//! ```text
//! n = 8   step 0    0-1   2-3   4-5   6-7        n = 7   0..5 as for n = 6, and
//!         step 1    1-2   3-4   5-6   7-0                6 with 0 1 2, then 3 4, then 5
//!         step 2    0-3   2-5   4-7   6-1
//! ```
//!
//! Cost: 2 ceil(log2 n) steps (of n - 1 if n is odd), 2(n-1)/n of the vector; a mirror image takes half of it.
//! Exchanging whole vectors: as many steps as one phase has, and ceil(log2 n) vectors; a mirror image takes half of
//! each. One vector per step is enough for n = 2^k and 3 * 2^k, if sums that not all ranks need are kept apart (see
//! `slots`); for other numbers a step would send several.

use super::dimension_wise::{allreduce, rotated_both_ways};
use super::in_trees::{interleaved, perform, Give, Table};
use super::shape::Shape;
use super::{ceil_log, shape_merged, ScheduleRequest};
use crate::schedule::{Motion, Schedule};
use crate::units::{Port, Rank};

/// Reduce-scatter, allgather and allreduce on any torus.
pub(super) fn bandwidth(request: &ScheduleRequest<'_>) -> Schedule {
    let tables: Vec<Table> = request.shape.sizes().iter().map(|size| table(*size)).collect();
    perform(request.name, request.collective, &interleaved(request.shape, &tables, true))
}

/// The allreduce that exchanges whole vectors, for 2^k and 3 * 2^k ranks in each dimension.
pub(super) fn latency(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, .. } = *request;
    allreduce(name, shape, &rotated_both_ways(shape), |size, mirrored| {
        let table = if mirrored { table(size).mirrored() } else { table(size) };
        shape_merged::allreduce(name, &table).expect("the catalogue admits no other sizes")
    })
}

/// The partner of `rank` in a step. If `ranks` is even, partners are mutual.
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
    if size <= 3 {
        // All ranks exchange at once.
        return Table::symmetric(size, Motion::Shift, |parent| Give {
            level: 0,
            parent,
            port: port_towards(size, 0, parent),
        });
    }
    // For odd positions, all directions are reversed.
    let motion = Motion::Reflect;
    let last_chances = last_chances(paired, steps);
    let chance = |position, block| last_chances[motion.back(paired, block, position)];
    if paired == size {
        return Table::symmetric(size, motion, |block| by_partner(0, chance(0, block)));
    }
    Table::new(size, |position, block| {
        if position.max(block) < paired {
            by_partner(position, chance(position, block))
        } else {
            let level = meeting(paired, steps, position.min(block));
            Give { level, parent: block, port: port_towards(size, position, block) }
        }
    })
}

/// The last step in which each rank can give block 0 away such that it still reaches rank 0.
fn last_chances(ranks: usize, steps: usize) -> Vec<usize> {
    let mut chances = vec![None; ranks];
    chances[0] = Some(steps);
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

/// The step in which the last one of an odd number of ranks exchanges blocks with `rank`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_vectors_fit_where_the_catalogue_says() {
        for size in (1..=128usize).filter(|size| *size <= 3 || size.is_multiple_of(2)) {
            let fits = matches!(size >> size.trailing_zeros(), 1 | 3);
            for table in [table(size), table(size).mirrored()] {
                assert_eq!(shape_merged::allreduce("swing", &table).is_some(), fits, "n = {size}");
            }
        }
    }
}
