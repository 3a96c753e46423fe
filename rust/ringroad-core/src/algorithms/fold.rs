//! Folding: an allreduce for any number of ranks from one for a power of two.
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
//! Cost: two steps and one vector more than the smaller allreduce, unless n is a power of two.

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
    let outer = |rank: Rank| if rank < lenders { 2 * rank } else { rank + lenders };
    let send = |source, destination, chunks, action| Send {
        source,
        destination,
        chunks,
        action,
        port: shape.port_towards(source, destination),
        from: 0,
        into: 0,
    };
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
