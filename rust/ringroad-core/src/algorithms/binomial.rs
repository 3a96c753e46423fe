//! Binomial tree: in every step, each rank that has the data passes it on to a rank at half the previous distance.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005. A
//! scatter passes on only the blocks of the receiver's subtree. Reduce and gather are the reverse in time. Ranks count
//! from the root.
//!
//! ```text
//! n = 7   step 0    0 ------------> 4
//!         step 1    0 ----> 2       4 ----> 6
//!         step 2    0 > 1   2 > 3   4 > 5
//! ```
//!
//! Cost, with k = ceil(log2 n) steps: broadcast k vectors; reduce one; scatter (n-1)/n of the vector; gather the larger
//! of n - 2^(k-1) and 2^(k-2) blocks.

use super::{ceil_log, ScheduleRequest};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule};

/// Broadcast, reduce, scatter and gather, for any number of ranks and any root.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let ranks = shape.ranks();
    let forwards = match collective {
        Collective::Reduce { root } => Collective::Broadcast { root },
        Collective::Gather { root } => Collective::Scatter { root },
        other => other,
    };
    let root = forwards.root().expect("a binomial tree has a root");
    let absolute = |relative: usize| (relative + root) % ranks;
    let chunks = if forwards.has_blocks() { ranks } else { 1 };
    let mut schedule = Schedule::empty(name, forwards, ranks, chunks);
    for distance in (0..ceil_log(2, ranks)).rev().map(|bit| 1 << bit) {
        let pass_on = |giver: usize| {
            let (source, destination) = (absolute(giver), absolute(giver + distance));
            let subtree = giver + distance..(giver + 2 * distance).min(ranks);
            let blocks: ChunkSet = subtree.map(absolute).collect();
            let chunks = if forwards.has_blocks() { blocks } else { ChunkSet::range(0, 1) };
            shape.send(source, destination, chunks, Action::Copy)
        };
        schedule.push((0..ranks - distance).step_by(2 * distance).map(pass_on).collect());
    }
    if forwards == collective {
        schedule
    } else {
        schedule.reverse().expect("broadcast and scatter can be reversed")
    }
}
