//! Pairwise all-to-all: in step s every rank sends to the rank s + 1 places up, and receives from as far down.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005.
//!
//! ```text
//! n = 7   rank 0    step 0: to 1, from 6    step 1: to 2, from 5    ...    step 5: to 6, from 1
//! ```
//!
//! Cost: n - 1 steps, (n-1)/n of the vector.

use super::Request;
use crate::schedule::{Action, ChunkSet, Schedule, Send};

/// The all-to-all for any number of ranks.
pub(super) fn schedule(request: &Request<'_>) -> Schedule {
    let Request { name, shape, collective, .. } = *request;
    let ranks = shape.ranks();
    let mut schedule = Schedule::empty(name, collective, ranks, ranks * ranks);
    for distance in 1..ranks {
        let send = |source: usize| {
            let destination = (source + distance) % ranks;
            let chunk = source * ranks + destination;
            Send {
                source,
                destination,
                chunks: ChunkSet::range(chunk, chunk + 1),
                action: Action::Copy,
                port: shape.port_towards(source, destination),
                from: 0,
                into: 0,
            }
        };
        schedule.push((0..ranks).map(send).collect());
    }
    schedule
}
