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

use super::ceil_log;
use super::in_trees::{perform_both_ways, port_towards, Give, InTrees};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::units::Rank;

/// Reduce-scatter, allgather and allreduce for any number of ranks.
pub(super) fn bandwidth(name: &str, ranks: usize, collective: Collective) -> Schedule {
    let trees = trees(ranks);
    perform_both_ways(name, collective, &trees, &trees)
}

/// The allreduce that exchanges whole vectors, for powers of two.
pub(super) fn latency(name: &str, ranks: usize, _: Collective) -> Schedule {
    let mut schedule = Schedule::empty(name, Collective::Allreduce, ranks, 1);
    for step in 0..ceil_log(2, ranks) {
        let exchange = |source| Send {
            source,
            destination: partner(ranks, source, step),
            chunks: ChunkSet::range(0, 1),
            action: Action::Reduce,
            port: port_towards(ranks, source, partner(ranks, source, step)),
        };
        schedule.push((0..ranks).map(exchange).collect());
    }
    schedule
}

/// Whom `rank` meets; being met is mutual if `ranks` is even.
fn partner(ranks: usize, rank: Rank, step: usize) -> Rank {
    let distance = (1 - (-2isize).pow(step as u32 + 1)) / 3;
    let signed = if rank.is_multiple_of(2) { distance } else { -distance };
    (rank as isize + signed).rem_euclid(ranks as isize) as usize
}

fn trees(ranks: usize) -> InTrees {
    let paired = ranks - ranks % 2;
    let steps = ceil_log(2, paired);
    let last_chances: Vec<Vec<usize>> = (0..paired).map(|block| last_chances(paired, steps, block)).collect();
    InTrees::new(ranks, |rank, block| {
        let (level, parent) = if rank.max(block) < paired {
            let level = last_chances[block][rank];
            (level, partner(paired, rank, level))
        } else {
            (meeting(paired, steps, rank.min(block)), block)
        };
        Give { level, parent, port: port_towards(ranks, rank, parent) }
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
