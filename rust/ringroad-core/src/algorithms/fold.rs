//! Folding: a collective for any number of ranks, made from one for a power of two.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005. The
//! ranks in excess of the largest power of two send their vector to a neighbour and receive the result from it.
//!
//! ```text
//! n = 7   before    1 -> 0    3 -> 2    5 -> 4    6
//!         within         0 ------- 2 ------- 4 -- 6      as ranks 0, 1, 2, 3 of the smaller allreduce
//!         after     1 <- 0    3 <- 2    5 <- 4    6
//! ```
//!
//! In a reduce-scatter, a rank that stands for two handles the blocks of both, and finally returns the other rank's
//! block.
//!
//! Cost: unless n is a power of two, two steps and one vector more than the smaller allreduce. Reduce-scatter: two
//! steps more, and every rank sends (n-1)/n of the vector. Allgather, with p = 2^floor(log2 n): rank 0 sends n - 1
//! blocks in the last step, and before that p - 1 and ceil((n-p)/2) + ceil((n-p)/4) + ... + ceil((n-p)/p).

use super::Shape;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::units::Rank;

/// The allreduce over all ranks of `shape` by means of `core(p)`, an allreduce over a power of two.
pub(super) fn fold(name: &str, shape: &Shape, core: impl Fn(usize) -> Schedule) -> Schedule {
    let ranks = shape.ranks();
    let inner = core(1 << ranks.ilog2());
    if inner.ranks == ranks {
        return inner;
    }
    let inner = inner.expand();
    let extra = ranks - inner.ranks;
    let outer = |rank: Rank| outer(rank, extra);
    let send = |source, destination, chunks, action| shape.send(source, destination, chunks, action);
    let whole = || ChunkSet::range(0, inner.chunks);
    let mut schedule = Schedule::empty(name, Collective::Allreduce, ranks, inner.chunks);
    schedule.push((0..extra).map(|i| send(2 * i + 1, 2 * i, whole(), Action::Reduce)).collect());
    for step in &inner.steps {
        let moved = |s: &Send| send(outer(s.source), outer(s.destination), s.chunks.clone(), s.action);
        schedule.push(step.sends.iter().map(moved).collect());
    }
    schedule.push((0..extra).map(|i| send(2 * i, 2 * i + 1, whole(), Action::Copy)).collect());
    schedule
}

/// The reduce-scatter or allgather over `shape` by means of `core`, which performs it over the largest power of two
/// that fits.
pub(super) fn fold_blocks(shape: &Shape, core: &Schedule) -> Schedule {
    if core.collective == Collective::Allgather {
        let scatter = core.reverse().expect("an allgather can be reversed");
        return fold_blocks(shape, &scatter).reverse().expect("a reduce-scatter can be reversed");
    }
    let ranks = shape.ranks();
    let extra = ranks - core.ranks;
    let outer = |rank: Rank| outer(rank, extra);
    // A rank of the core stands for one rank, or for two if it has received an extra rank's vector.
    let both = |rank: Rank| outer(rank)..outer(rank) + 1 + usize::from(rank < extra);
    let blocks = |chunks: &ChunkSet| -> ChunkSet { chunks.iter().flat_map(both).collect() };
    let mut schedule = Schedule::empty(&core.name, core.collective, ranks, ranks);
    // An extra rank keeps its own part of its own block, to which the rest is added in the end.
    let hand_over = |i: usize| {
        let others: ChunkSet = (0..ranks).filter(|block| *block != 2 * i + 1).collect();
        shape.send(2 * i + 1, 2 * i, others, Action::Reduce)
    };
    schedule.push((0..extra).map(hand_over).collect());
    for step in &core.expand().steps {
        let moved = |s: &Send| shape.send(outer(s.source), outer(s.destination), blocks(&s.chunks), s.action);
        schedule.push(step.sends.iter().map(moved).collect());
    }
    let own = |i: usize| shape.send(2 * i, 2 * i + 1, ChunkSet::range(2 * i + 1, 2 * i + 2), Action::Reduce);
    schedule.push((0..extra).map(own).collect());
    schedule
}

/// The rank that stands for `rank` of the smaller collective, with `extra` ranks in excess.
fn outer(rank: Rank, extra: usize) -> Rank {
    if rank < extra {
        2 * rank
    } else {
        rank + extra
    }
}
