//! Prefix chain: the sum travels along all ranks, and every rank adds its vector; pieces follow each other.
//!
//! Sanders, Traff: Parallel prefix (scan) algorithms for MPI, EuroPVM/MPI 2006, the linear pipeline. Every element is
//! added up in the order of the ranks. In an exclusive scan a rank keeps what it has received, and passes on the sum with
//! its own vector.
//!
//! ```text
//! n = 4, two pieces a and b    step 0    0 >a 1
//!                              step 1    0 >b 1 >a 2
//!                              step 2         1 >b 2 >a 3
//!                              step 3              2 >b 3
//! ```
//!
//! Cost: n - 2 + k steps of a k-th of the vector, one vector.

use super::ScheduleRequest;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Local, Schedule, Send, Step};

/// What a rank of an exclusive scan has received is in this slot until the sum has been passed on.
const RECEIVED: usize = 1;

/// Scan and exclusive scan, for any number of ranks.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter: pieces, .. } = *request;
    let ranks = shape.ranks();
    let mut schedule = Schedule::empty(name, collective, ranks, pieces);
    if ranks == 1 {
        return schedule;
    }
    for index in 0..ranks - 2 + pieces {
        // In this step, piece p leaves the rank with the number `index - p`.
        let leaving = (index + 1).saturating_sub(pieces)..(index + 1).min(ranks - 1);
        let mut step = Step::default();
        for rank in leaving {
            let piece = || ChunkSet::range(index - rank, index - rank + 1);
            let local = |rank, action, from, into| Local { rank, chunks: piece(), action, from, into };
            let last = rank + 2 == ranks;
            let send = match collective {
                Collective::Scan => shape.send(rank, rank + 1, piece(), Action::Reduce),
                _ if last => shape.send(rank, rank + 1, piece(), Action::Copy),
                _ => {
                    step.locals.push(local(rank + 1, Action::Reduce, RECEIVED, 0));
                    Send { into: RECEIVED, ..shape.send(rank, rank + 1, piece(), Action::Copy) }
                }
            };
            step.sends.push(send);
            if collective == Collective::Exscan && rank > 0 {
                step.locals.push(local(rank, Action::Copy, RECEIVED, 0));
            }
        }
        schedule.steps.push(step);
    }
    schedule
}
