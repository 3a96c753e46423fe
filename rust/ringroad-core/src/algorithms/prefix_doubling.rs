//! Prefix doubling: every rank sends what it has added up so far to the rank at twice the previous distance.
//!
//! Hillis, Steele: Data parallel algorithms, CACM 29(12), 1986. After a step at distance `d`, a rank has the sum of the
//! last `2d` ranks up to itself. An exclusive scan first moves all vectors on by one rank.
//!
//! ```text
//! n = 6   step 0    0 > 1 > 2 > 3 > 4 > 5           every rank to the next one
//!         step 1    0 -> 2   1 -> 3   2 -> 4   3 -> 5
//!         step 2    0 ---> 4   1 ---> 5
//! ```
//!
//! Cost: ceil(log2 n) steps with a vector each; an exclusive scan ceil(log2(n - 1)) + 1.

use super::ScheduleRequest;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule};

/// Scan and exclusive scan, for any number of ranks.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, .. } = *request;
    let ranks = shape.ranks();
    let mut schedule = Schedule::empty(name, collective, ranks, 1);
    let vector = || ChunkSet::range(0, 1);
    let first = usize::from(collective == Collective::Exscan);
    if first > 0 {
        let pass_on = |rank| shape.send(rank, rank + 1, vector(), Action::Copy);
        schedule.push((0..ranks - 1).map(pass_on).collect());
    }
    let mut distance = 1;
    while first + distance < ranks {
        let add = |rank| shape.send(rank, rank + distance, vector(), Action::Reduce);
        schedule.push((first..ranks - distance).map(add).collect());
        distance *= 2;
    }
    schedule
}
