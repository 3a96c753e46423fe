//! Elimination: halving and doubling for any number of ranks, where three ranks become two whenever a rank is left
//! over.
//!
//! Rabenseifner, Traff: More efficient reduction algorithms for non-power-of-two number of processors in
//! message-passing parallel systems, EuroPVM/MPI 2004. Ranks form pairs. One rank of each pair continues with the lower
//! half of what they hold, the other with the upper half, so that there are two groups of half the size. If the number
//! is odd, three ranks x, y, z become two: y and z exchange halves, and in the next step z gives its half to x, and x
//! gives the other half to y. That makes x and y one step late. A late rank becomes x of the next three, where x is
//! idle at first, or makes its partner late. So exactly one rank of every group is late, and the whole ends one step
//! late.
//!
//! ```text
//! n = 7   step 0    1 = 2              3 = 4   5 = 6      1 goes on with the upper half, 2 with the lower half
//!         step 1    2 > 0    0 > 1     3 = 5   4 = 6      lower half: 0 3 5; upper half: 1 4 6
//!         step 2    5 > 0    0 > 3     6 > 1   1 > 4      0, 3, 1 and 4 end with a quarter each; then backwards
//! ```
//!
//! Cost, with p = 2^floor(log2 n) and q the largest power of two that divides n, unless n = p: 2 log2 p + 2 steps. The
//! first y sends one half more than others, in all 2(p-1)/p + 1/(2q) of the vector. The largest messages of all steps
//! add up to 2 + 1/q - 2/p of it. Folding takes as many steps, and for these two volumes 2(p-1)/p + 1 and 2(p-1)/p + 2.

use std::ops::Range;

use super::Shape;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule};
use crate::units::{ChunkId, Rank};

/// Ranks that reduce a part of the vector among themselves. The first rank may be one step late.
struct ReducingGroup {
    ranks: Vec<Rank>,
    chunks: Range<ChunkId>,
}

/// A message: step, source, destination and chunks.
type GroupMessage = (usize, Rank, Rank, Range<ChunkId>);

/// The allreduce on any shape, with ranks in the order of their numbers.
pub(super) fn allreduce(name: &str, shape: &Shape) -> Schedule {
    let ranks = shape.ranks();
    let rounds = ranks.ilog2() as usize;
    let mut groups = vec![ReducingGroup { ranks: (0..ranks).collect(), chunks: 0..1 << rounds }];
    let mut messages: Vec<GroupMessage> = Vec::new();
    let mut late = false;
    for round in 0..rounds {
        groups = groups.iter().flat_map(|group| halve(group, round, late, &mut messages)).collect();
        late |= !(ranks >> round).is_multiple_of(2);
    }
    let mut schedule = Schedule::empty(name, Collective::Allreduce, ranks, 1 << rounds);
    for step in 0..rounds + usize::from(late) {
        let now = messages.iter().filter(|message| message.0 == step);
        let send = |(_, source, destination, chunks): &GroupMessage| {
            shape.send(*source, *destination, ChunkSet::range(chunks.start, chunks.end), Action::Reduce)
        };
        schedule.push(now.map(send).collect());
    }
    let back = schedule.reverse().expect("an allreduce can be reversed");
    schedule.steps.extend(back.steps);
    schedule
}

/// One round: splits a group into the ranks that continue with the lower half of the chunks and those with the upper
/// half.
fn halve(
    group: &ReducingGroup,
    round: usize,
    late: bool,
    messages: &mut Vec<GroupMessage>,
) -> [ReducingGroup; 2] {
    let ReducingGroup { ranks, chunks } = group;
    let middle = chunks.start.midpoint(chunks.end);
    let [mut lower, mut upper] =
        [chunks.start..middle, middle..chunks.end].map(|chunks| ReducingGroup { ranks: Vec::new(), chunks });
    let mut pairs = &ranks[..];
    let mut delay = usize::from(late);
    if let [x, y, z, rest @ ..] = pairs {
        if !ranks.len().is_multiple_of(2) {
            messages.push((round, *y, *z, lower.chunks.clone()));
            messages.push((round, *z, *y, upper.chunks.clone()));
            messages.push((round + 1, *z, *x, lower.chunks.clone()));
            messages.push((round + 1, *x, *y, upper.chunks.clone()));
            lower.ranks.push(*x);
            upper.ranks.push(*y);
            (pairs, delay) = (rest, 0);
        }
    }
    for pair in pairs.chunks_exact(2) {
        messages.push((round + delay, pair[0], pair[1], upper.chunks.clone()));
        messages.push((round + delay, pair[1], pair[0], lower.chunks.clone()));
        lower.ranks.push(pair[0]);
        upper.ranks.push(pair[1]);
        delay = 0;
    }
    [lower, upper]
}
