//! Direct, ordered: like direct, but the rank that reduces a block adds up rank 0's part, then rank 1's, and so on.
//!
//! Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport
//! message-passing systems, IEEE TPDS 8(11), 1997, for the exchange; the order is ours. In direct, a block's sum begins
//! with the rank to which the block belongs. The division into blocks depends on the vector's length, and so do the
//! last bits of an element's sum. Here they do not: every element is reduced in the same order, that of gather-sum and
//! direct-latency. The price is memory for the parts of all ranks.
//!
//! ```text
//! n = 4   reduce-scatter    0 gives block 1 to 1, 2 to 2, 3 to 3; ...; then all add up ((0 + 1) + 2) + 3
//!         allgather         as direct: 0 gives block 0 to 1, 2, 3; ...
//! ```
//!
//! Cost: that of direct, one step, (n-1)/n of the vector; allreduce twice that; reduce two steps, one vector.

use super::direct;
use super::gather_sum::{slot, sum};
use super::ScheduleRequest;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send, Step};

/// Every collective that reduces, for any number of ranks and any root.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let reduced = || reduce_scatter(&ScheduleRequest { collective: Collective::ReduceScatter, ..*request });
    let then = |collective| {
        let after = direct::schedule(&ScheduleRequest { collective, ..*request });
        reduced().compose(&after).expect("both have a block for every rank")
    };
    match request.collective {
        Collective::Reduce { root } => then(Collective::Gather { root }),
        Collective::Allreduce => then(Collective::Allgather),
        _ => reduced(),
    }
}

/// Blocks arrive in slots of their own and are added up there.
fn reduce_scatter(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let ranks = shape.ranks();
    let mut schedule = Schedule::empty(name, collective, ranks, ranks);
    let block = |rank| ChunkSet::range(rank, rank + 1);
    let pairs = (1..ranks).flat_map(|turn| (0..ranks).map(move |source| (source, (source + turn) % ranks)));
    let send = |(source, destination)| Send {
        into: slot(destination, source),
        ..shape.send(source, destination, block(destination), Action::Copy)
    };
    if ranks > 1 {
        let locals = (0..ranks).flat_map(|rank| sum(rank, ranks, block(rank))).collect();
        schedule.steps.push(Step { sends: pairs.map(send).collect(), locals });
    }
    schedule
}
