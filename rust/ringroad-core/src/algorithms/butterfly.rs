//! Butterfly: groups of two or three ranks exchange whole vectors, and all ranks of a group add them up in the same
//! order.
//!
//! Recursive doubling with groups of three as well as two, which takes two ports (Bruck, Ho, Kipnis, Upfal, Weathersby:
//! Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE TPDS 8(11), 1997). The
//! alignment is ours: all ranks of a group hold sums of the same ranks and add them in the order of their digits, so
//! that all ranks end with the same bits. Factors of two come first: at the last and largest distance, the third rank
//! of a group is next to the first.
//!
//! ```text
//! n = 6   step 0    0-1     2-3     4-5
//!         step 1    0-2-4   1-3-5        (0 + 2) + 4 on 0 and on 2; 4 keeps 0 and 2 apart until both are there
//! ```
//!
//! Cost: one step for each factor of a size; 1 vector for a factor of two and 2 for a factor of three.

use super::dimension_wise::{allreduce, line, rotated, whole};
use super::{ScheduleRequest, Shape};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Local, Motion, Schedule, Send, Step};
use crate::units::Rank;

/// The allreduce on tori whose sizes have no factors other than two and three. In groups of three, a rank's position
/// decides which sum it forms first, so the schedule is written out for all ranks.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, .. } = *request;
    if shape.sizes().iter().all(|size| size.is_power_of_two()) {
        return allreduce(name, shape, &rotated(shape), |size, _| pairs(name, size));
    }
    allreduce(name, shape, &rotated(shape), |size, _| {
        let mut schedule = Schedule::empty(name, Collective::Allreduce, size, 1);
        let [twos, threes] = factors(size).expect("no other factors than two and three");
        let mut stride = 1;
        for radix in [2].repeat(twos).into_iter().chain([3].repeat(threes)) {
            schedule.steps.push(exchange(size, radix, stride));
            stride *= radix;
        }
        schedule
    })
}

/// On a ring of a power of two, all ranks act alike.
fn pairs(name: &str, size: usize) -> Schedule {
    let ring = Shape::ring(size);
    let mut schedule = line(name, size, Motion::Flip);
    for distance in (0..size.ilog2()).map(|bit| 1 << bit) {
        schedule.push(vec![whole(distance, ring.port_towards(0, distance))]);
    }
    schedule
}

/// The number of factors of two and of three; `None` if there are others.
pub(super) fn factors(mut size: usize) -> Option<[usize; 2]> {
    let count = [2, 3].map(|factor| {
        let mut count = 0;
        while size > 0 && size.is_multiple_of(factor) {
            size /= factor;
            count += 1;
        }
        count
    });
    (size == 1).then_some(count)
}

/// Ranks that differ in one digit only exchange their vectors.
fn exchange(size: usize, radix: usize, stride: usize) -> Step {
    let ring = Shape::ring(size);
    let mut step = Step::default();
    for rank in 0..size {
        let digit = rank / stride % radix;
        // The first two ranks may add what arrives, in this order. The last one must add the others before its own.
        let apart = digit == 2;
        for other in (0..radix).filter(|other| *other != digit) {
            let source = rank + other * stride - digit * stride;
            let (action, into) = if apart { (Action::Copy, other + 1) } else { (Action::Reduce, 0) };
            step.sends.push(Send { into, ..ring.send(source, rank, ChunkSet::range(0, 1), action) });
        }
        if apart {
            step.locals.extend([add(rank, 2, 1), add(rank, 1, 0)]);
        }
    }
    step
}

fn add(rank: Rank, from: usize, into: usize) -> Local {
    Local { rank, chunks: ChunkSet::range(0, 1), action: Action::Reduce, from, into }
}
