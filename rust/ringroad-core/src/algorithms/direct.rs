//! Direct: every rank exchanges with every other one, all at once.
//!
//! Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport
//! message-passing systems, IEEE TPDS 8(11), 1997: with a port for each rank, one round is enough. Suits ranks that
//! read each other's memory, and medium messages behind a switch. Every rank begins with the rank after it, so that
//! they do not all send to the same rank first.
//!
//! ```text
//! n = 4   reduce-scatter    0 gives block 1 to 1, 2 to 2, 3 to 3; 1 gives block 2 to 2, 3 to 3, 0 to 0; ...
//!         allgather         0 gives block 0 to 1, 2, 3; 1 gives block 1 to 2, 3, 0; ...
//!         on vectors        the same with whole vectors, and every rank adds up 0 + 1 + 2 + 3
//! ```
//!
//! Only a block's own rank reduces it: in the same step it adds all other parts to its own. A reduce is a
//! reduce-scatter and a gather. An all-to-all is the pairwise one with all its steps at once. Short vectors are sent
//! whole, which saves a step (`gather_sum` explains how all ranks get the same bits).
//!
//! Cost: one step, (n-1)/n of the vector; allreduce twice that, or one step, n-1 vectors; broadcast one step, n-1
//! vectors; reduce two steps, one vector; gather one step, a block; scatter and all-to-all one step, (n-1)/n.

use super::{gather_sum, pairwise, ScheduleRequest};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send, Slice, Symmetry};
use crate::units::Rank;

/// With more ranks, the messages of one step and the routes of all pairs would be too many.
pub(super) const MAX_RANKS: usize = 256;

/// Every collective, for any number of ranks and any root.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let part = |collective| schedule(&ScheduleRequest { collective, ..*request });
    let composed =
        |first: Schedule, second: &Schedule| first.compose(second).expect("both have a block for every rank");
    let block = |rank: Rank| ChunkSet::range(rank, rank + 1);
    let copy = |source, destination, chunks| shape.send(source, destination, chunks, Action::Copy);
    let with_others = |root: Rank, chunks: usize, send: &dyn Fn(Rank) -> Send| {
        let mut schedule = Schedule::empty(name, collective, shape.ranks(), chunks);
        schedule.push((1..shape.ranks()).map(|turn| send((root + turn) % shape.ranks())).collect());
        schedule
    };
    match collective {
        Collective::Allreduce => composed(part(Collective::ReduceScatter), &part(Collective::Allgather)),
        Collective::ReduceScatter => phase(request, Action::Reduce, block),
        Collective::Allgather => phase(request, Action::Copy, |_| block(0)),
        Collective::Broadcast { root } => with_others(root, 1, &|rank| copy(root, rank, block(0))),
        Collective::Reduce { root } => {
            composed(part(Collective::ReduceScatter), &part(Collective::Gather { root }))
        }
        Collective::Gather { root } => {
            with_others(root, shape.ranks(), &|rank| copy(rank, root, block(rank)))
        }
        Collective::Scatter { root } => {
            with_others(root, shape.ranks(), &|rank| copy(root, rank, block(rank)))
        }
        Collective::Alltoall => {
            let mut schedule = pairwise::schedule(request);
            let sends = schedule.steps.drain(..).flat_map(|step| step.sends).collect();
            schedule.push(sends);
            schedule
        }
        Collective::Scan | Collective::Exscan => unreachable!("the catalogue does not offer it"),
    }
}

/// One step in which rank 0 sends every other rank a block; shifts determine what the other ranks send.
fn phase(request: &ScheduleRequest<'_>, action: Action, block: impl Fn(Rank) -> ChunkSet) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let ranks = shape.ranks();
    let mut schedule = Schedule::empty(name, collective, ranks, ranks);
    let slice = Slice::on_grid(shape.shifts(), (0..ranks).collect());
    schedule.symmetry = Some(Symmetry { slices: vec![slice] });
    schedule.push((1..ranks).map(|rank| shape.send(0, rank, block(rank), action)).collect());
    schedule
}

/// The allreduce that exchanges whole vectors.
pub(super) fn latency(request: &ScheduleRequest<'_>) -> Schedule {
    gather_sum::at_once(request.name, request.shape)
}
