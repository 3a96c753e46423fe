//! Leaders: a few ranks each reduce one share of the vector and send the sum to all ranks.
//!
//! With one leader, this is the linear reduce and broadcast, the oldest allreduce; with as many leaders as ranks, it
//! would be the direct one. It suits ranks that take turns on fewer cores: somebody has to process every message, and
//! there are only 2k(n-1) of them instead of the direct algorithm's 2n(n-1). A leader for each core keeps all cores
//! busy.
//!
//! ```text
//! n = 4, k = 2   step 0    1, 2, 3 send the first half of theirs to 0; 0, 2, 3 send the second half to 1
//!                step 1    0 sends the sum of the first half to 1, 2, 3; 1 sends that of the second half to 0, 2, 3
//! ```
//!
//! Cost: two steps; a leader sends (n-1)/k of the vector, plus the shares that the other leaders reduce.

use super::ScheduleRequest;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::units::Rank;

/// The allreduce with any number of leaders up to the number of ranks. The first ranks are the leaders.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter: leaders, .. } = *request;
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
