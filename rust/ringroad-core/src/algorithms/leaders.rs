//! Leaders: a few ranks add up a share of the vector each, and give the sum to everybody.
//!
//! With one leader this is the linear reduce and broadcast, the oldest allreduce there is; with as many as ranks it would
//! be the direct one. Fit for ranks that take turns on fewer cores: 2k(n-1) messages instead of the direct one's 2n(n-1)
//! are work that somebody has to do, and a leader for each core keeps all of them busy.
//!
//! ```text
//! n = 4, k = 2   0 adds up the first half, 1 the second one: 1, 2, 3 give 0 the first half of theirs, and 0, 2, 3 give 1
//!                the second one; then 0 gives the sum of the first half to 1, 2, 3, and 1 that of the second to 0, 2, 3
//! ```
//!
//! Cost: two steps; a leader sends (n-1)/k of the vector, and what of it the others lead.

use super::Request;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::units::Rank;

/// Allreduce, with any number of leaders up to that of ranks; the first ones lead.
pub(super) fn schedule(request: &Request<'_>) -> Schedule {
    let Request { name, shape, collective, parameter: leaders, .. } = *request;
    let ranks = shape.ranks();
    let mut schedule = Schedule::empty(name, collective, ranks, leaders);
    if ranks == 1 {
        return schedule;
    }
    let with_others = |leader: Rank| (1..ranks).map(move |turn| (leader, (leader + turn) % ranks));
    let pairs = || (0..leaders).flat_map(with_others);
    let send = |source, destination, share, action| {
        shape.send(source, destination, ChunkSet::range(share, share + 1), action)
    };
    schedule.push(pairs().map(|(leader, other)| send(other, leader, leader, Action::Reduce)).collect());
    schedule.push(
        pairs().map(|(leader, other)| send(leader, other, leader, Action::Copy)).collect::<Vec<Send>>(),
    );
    schedule
}
