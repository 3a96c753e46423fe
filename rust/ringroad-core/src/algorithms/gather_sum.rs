//! Gather and sum: along every ring all ranks gather all vectors, and then add them up in one and the same order.
//!
//! Our own: floating-point addition is not associative, and so exchanges that add up on the way, such as those of
//! trivance-latency, leave every rank with other bits. This takes as many steps and leaves all with the same. The
//! vectors travel as the blocks of Trivance's allgather do, far distances first; each has a slot of its own until all
//! are there. The sum of a ring is the same on all of it, and the next dimension goes on with that.
//!
//! ```text
//! n = 7   step 0    vectors of x - 2 and x + 2 arrive
//!         step 1    those of x - 1 and x + 1, and with them those of x - 3 and x + 3; then ((0 + 1) + 2) + ... + 6
//! ```
//!
//! Cost: the sum over the dimensions of ceil(log3 a) steps and a-1 vectors, over all ports.

use super::dimension_wise::{allreduce, rotated};
use super::distances::trivance;
use super::in_trees::Give;
use super::nested::table;
use super::Request;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Local, Schedule, Send};
use crate::units::{Rank, Slot};

/// The allreduce on any torus. What is added first depends on where a rank stands, and so all of them are written out.
pub(super) fn schedule(request: &Request<'_>) -> Schedule {
    let Request { name, shape, .. } = *request;
    allreduce(name, shape, &rotated(shape), |size, _| line(name, size))
}

fn line(name: &str, size: usize) -> Schedule {
    let table = table(size, &trivance(size));
    let mut schedule = Schedule::empty(name, Collective::Allreduce, size, 1);
    for level in (0..table.levels()).rev() {
        let mut sends = Vec::new();
        for taker in 0..size {
            for vector in 0..size {
                let give = table.give(taker, vector);
                if give.level == level {
                    sends.push(taken(give, taker, vector));
                }
            }
        }
        schedule.push(sends);
    }
    if let Some(last) = schedule.steps.last_mut() {
        last.locals = (0..size).flat_map(|rank| sum(rank, size)).collect();
    }
    schedule
}

/// The table backwards: whoever would have been given the vector passes it on.
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

/// Where a rank keeps a vector. Its own is in slot 0, which is why that of rank 0 is in the slot that its own would
/// have.
fn slot(rank: Rank, vector: Rank) -> Slot {
    match vector {
        own if own == rank => 0,
        0 => rank,
        other => other,
    }
}

/// Adds everything up from rank 0 on: the sum of those before it goes into the rank's own vector, then those after it.
fn sum(rank: Rank, size: usize) -> impl Iterator<Item = Local> {
    let add =
        move |from, into| Local { rank, chunks: ChunkSet::range(0, 1), action: Action::Reduce, from, into };
    let before = (1..rank).map(move |vector| add(slot(rank, vector), slot(rank, 0)));
    let own = (rank > 0).then(|| add(slot(rank, 0), 0));
    let after = (rank + 1..size).map(move |vector| add(slot(rank, vector), 0));
    before.chain(own).chain(after)
}
