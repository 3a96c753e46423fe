//! Folding: a collective for any number of ranks from one for a power of two.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005.
//! Of p ranks as many as exceed the power of two below p lend their vector to a neighbour and get the result from it.
//!
//! ```text
//! n = 7   before    1 -> 0    3 -> 2    5 -> 4    6
//!         within         0 ------- 2 ------- 4 -- 6      as ranks 0, 1, 2, 3 of the smaller allreduce
//!         after     1 <- 0    3 <- 2    5 <- 4    6
//! ```
//!
//! In a reduce-scatter a rank of the smaller one stands for the blocks of both, and returns but the lender's block.
//!
//! Cost: two steps and one vector more than the smaller allreduce, unless n is a power of two. Reduce-scatter: two
//! steps more, and everybody sends (n-1)/n of the vector. Allgather, with p = 2^floor(log2 n): rank 0 passes on n - 1
//! blocks at last, and before that p - 1 and ceil((n-p)/2) + ceil((n-p)/4) + ... + ceil((n-p)/p).

use super::Shape;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::units::Rank;

/// The allreduce over `ranks` ranks that leaves the work to `core`, an allreduce over a power of two.
pub(super) fn fold(name: &str, shape: &Shape, core: impl Fn(usize) -> Schedule) -> Schedule {
    let ranks = shape.ranks();
    let inner = core(1 << ranks.ilog2());
    if inner.ranks == ranks {
        return inner;
    }
    let inner = inner.expand();
    let lenders = ranks - inner.ranks;
    let outer = |rank: Rank| outer(rank, lenders);
    let send = |source, destination, chunks, action| shape.send(source, destination, chunks, action);
    let whole = || ChunkSet::range(0, inner.chunks);
    let mut schedule = Schedule::empty(name, Collective::Allreduce, ranks, inner.chunks);
    schedule.push((0..lenders).map(|i| send(2 * i + 1, 2 * i, whole(), Action::Reduce)).collect());
    for step in &inner.steps {
        let moved = |s: &Send| send(outer(s.source), outer(s.destination), s.chunks.clone(), s.action);
        schedule.push(step.sends.iter().map(moved).collect());
    }
    schedule.push((0..lenders).map(|i| send(2 * i, 2 * i + 1, whole(), Action::Copy)).collect());
    schedule
}

/// The reduce-scatter or allgather over `shape` that leaves the work to `core`, which performs it over the power of two
/// below.
pub(super) fn fold_blocks(shape: &Shape, core: &Schedule) -> Schedule {
    if core.collective == Collective::Allgather {
        let scatter = core.reverse().expect("an allgather can be reversed");
        return fold_blocks(shape, &scatter).reverse().expect("a reduce-scatter can be reversed");
    }
    let ranks = shape.ranks();
    let lenders = ranks - core.ranks;
    let outer = |rank: Rank| outer(rank, lenders);
    // Behind a rank of the core that somebody has lent to, there is the lender.
    let both = |rank: Rank| outer(rank)..outer(rank) + 1 + usize::from(rank < lenders);
    let blocks = |chunks: &ChunkSet| -> ChunkSet { chunks.iter().flat_map(both).collect() };
    let mut schedule = Schedule::empty(&core.name, core.collective, ranks, ranks);
    // A lender keeps its own part of its own block, to which the rest is added in the end.
    let lend = |i: usize| {
        let others: ChunkSet = (0..ranks).filter(|block| *block != 2 * i + 1).collect();
        shape.send(2 * i + 1, 2 * i, others, Action::Reduce)
    };
    schedule.push((0..lenders).map(lend).collect());
    for step in &core.expand().steps {
        let moved = |s: &Send| shape.send(outer(s.source), outer(s.destination), blocks(&s.chunks), s.action);
        schedule.push(step.sends.iter().map(moved).collect());
    }
    let own = |i: usize| shape.send(2 * i, 2 * i + 1, ChunkSet::range(2 * i + 1, 2 * i + 2), Action::Reduce);
    schedule.push((0..lenders).map(own).collect());
    schedule
}

/// The rank that is `rank` in the smaller collective.
fn outer(rank: Rank, lenders: usize) -> Rank {
    if rank < lenders {
        2 * rank
    } else {
        rank + lenders
    }
}
