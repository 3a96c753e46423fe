//! Gather and sum: along every ring, all ranks gather all vectors and then add them up in the same order.
//!
//! This algorithm is ours. Floating-point addition is not associative, so exchanges that add on the way, such as those
//! of trivance-latency, leave every rank with different bits. This one takes as many steps and leaves all ranks with
//! the same bits. The vectors travel like the blocks of an allgather, by the distances that load the links least for
//! that number of steps (see `distances`), the last distances first. Each vector has a slot of its own until all are
//! there. All ranks of a ring have the same sum, with which the next dimension continues. There are no members with
//! more and shorter steps: before those gain more than their latency costs, reduce-scatter and allgather are mostly
//! faster.
//!
//! ```text
//! n = 7    step 0    vectors of x - 2 and x + 2 arrive
//!          step 1    those of x - 1 and x + 1, and with them those of x - 3 and x + 3; then ((0 + 1) + 2) + ... + 6
//! ```
//!
//! Cost: the sum over the dimensions of ceil(log3 a) steps and a-1 vectors, over all ports. On a ring of a, the busiest
//! link carries about a/2 times the load of the distances; each dimension does so for 1/D of the vector.

use super::dimension_wise::{allreduce, rotated};
use super::in_trees::Give;
use super::nested::table;
use super::{distances, ScheduleRequest, Shape};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Local, Schedule, Send};
use crate::units::{Rank, Slot};

/// The allreduce on any torus. A rank's position decides its order of operations, so the schedule is written out for
/// all ranks.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, .. } = *request;
    allreduce(name, shape, &rotated(shape), |size, _| line(name, size))
}

fn line(name: &str, size: usize) -> Schedule {
    // Dimensions follow each other, so the search treats each as a single ring.
    let table = table(size, &distances::plan(&[size], &[distances::fewest(size)])[0]);
    let step = |level| {
        let pairs = (0..size).flat_map(|taker| (0..size).map(move |vector| (taker, vector)));
        let given = pairs.map(|(taker, vector)| (table.give(taker, vector), taker, vector));
        let now = given.filter(|(give, ..)| give.level == level);
        now.map(|(give, taker, vector)| taken(give, taker, vector)).collect()
    };
    summed(name, size, (0..table.levels()).rev().map(step))
}

/// Reverses the table: the rank to which the vector would be given sends it.
fn taken(give: Give, taker: Rank, vector: Rank) -> Send {
    Send {
        source: give.parent,
        destination: taker,
        chunks: ChunkSet::range(0, 1),
        action: Action::Copy,
        port: give.port ^ 1,
        from: slot(give.parent, vector),
        into: slot(taker, vector),
    }
}

/// The allreduce in which every rank sends its vector directly to all others at once.
pub(super) fn at_once(name: &str, shape: &Shape) -> Schedule {
    let ranks = shape.ranks();
    let pairs = (1..ranks).flat_map(|turn| (0..ranks).map(move |source| (source, (source + turn) % ranks)));
    let send = |(source, destination)| Send {
        into: slot(destination, source),
        ..shape.send(source, destination, ChunkSet::range(0, 1), Action::Copy)
    };
    summed(name, ranks, [pairs.map(send).collect()])
}

/// An allreduce of steps that bring all vectors to every rank, with the sum at the end of the last step.
fn summed(name: &str, ranks: usize, steps: impl IntoIterator<Item = Vec<Send>>) -> Schedule {
    let mut schedule = Schedule::empty(name, Collective::Allreduce, ranks, 1);
    steps.into_iter().for_each(|sends| schedule.push(sends));
    if let Some(last) = schedule.steps.last_mut() {
        last.locals = (0..ranks).flat_map(|rank| sum(rank, ranks, ChunkSet::range(0, 1))).collect();
    }
    schedule
}

/// The slot in which a rank keeps a vector. Its own is in slot 0, where the sum will be; the others follow in order.
pub(super) fn slot(rank: Rank, vector: Rank) -> Slot {
    if vector == rank {
        0
    } else {
        vector + 1
    }
}

/// Adds these chunks up, from rank 0's vector on, into slot 0. A rank other than 0 first moves its own vector to its
/// place among the others.
pub(super) fn sum(rank: Rank, size: usize, chunks: ChunkSet) -> impl Iterator<Item = Local> {
    let local = move |action, from, into| Local { rank, chunks: chunks.clone(), action, from, into };
    let begin = [(Action::Copy, 0, rank + 1), (Action::Copy, 1, 0)];
    let begin = begin.into_iter().take(if rank > 0 { 2 } else { 0 });
    let all = begin.chain((1..size).map(|vector| (Action::Reduce, vector + 1, 0)));
    all.map(move |(action, from, into)| local(action, from, into))
}
