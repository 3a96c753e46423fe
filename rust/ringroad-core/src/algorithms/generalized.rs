//! Generalised allreduce: every step halves the number of parts that are left, for several results at once, so that the
//! second phase is `r` steps shorter.
//!
//! Kolmakov, Zhang: A generalization of the allreduce operation, arXiv 2004.09362, sections 7 to 9. Position x of rank
//! p is the part of block p - x that p holds. A step that starts with n positions sends the upper floor(n/2) of them
//! the same number of ranks down, onto the lower ones. If n is odd, position 0 receives nothing. In the end position 0
//! is left, whose block is complete. The second phase is the first one reversed.
//!
//! The same messages shifted by j complete position j. R = ceil(n / 2^(L-r)) such results at once, with L = ceil(log2
//! n), make the last r steps of the second phase unnecessary; the paper takes 2^r of them. The results share all parts
//! but one. Position j for result j itself, which receives nothing in an odd step, is from then on another sum than
//! position j for the other results. So a rank keeps it apart, in slot 0, and the parts for other results in slot 1.
//! For r = L this is a census (Bar-Noy, Kipnis, Schieber, PPL 3(1), 1993): all positions do the same, and the vector is
//! not divided.
//!
//! With bit flips instead of shifts, for powers of two, nothing has to be kept apart: r = 0 is recursive halving, r = L
//! recursive doubling. Its steps may come in any order; here the nearest ranks come first, when messages are large.
//!
//! ```text
//! n = 7, r = 0   step 0    0 1 2 3 (4 5 6)    4 5 6 go to rank - 3, onto 1 2 3
//!                step 1    0 1 (2 3)          2 3 go to rank - 2, onto 0 1
//!                step 2    0 (1)              1 goes to rank - 1, onto 0
//!        r = 1   step 0    0 1 2 3 (4 5 6 0)  also for result 1, where 1 2 3 4 5 6 0 replace 0 1 2 3 4 5 6;
//!                          slot 0 of 0 and 1 stays, slot 1 of 1 2 3 4 gets slot 0 plus what arrives
//!                step 1    0 1 (2 3 4)        slot 1 goes to rank - 2, onto 0 1 2
//!                step 2    0 (1 2)            slot 1 goes to rank - 1, onto slot 0 of 0 1
//! ```
//!
//! Dimensions of a torus are nested: the second dimension continues with what the first has left. The last ones save
//! the steps.
//!
//! Cost: 2L - r steps. With N_0 = n and N_{i+1} = ceil(N_i / 2), step i sends min(n, floor(N_i / 2) + R - 1) of n
//! blocks, and its counterpart in the second phase floor(N_i / 2); at most (2(n-1) + (2^r - 1)(L-1)) / n of the vector
//! for r < L. Erratum: (36) and (44) count no reduction for n = 2, r = 1. With bit flips: 2(n-R)/n + rR/n of the
//! vector.

use std::ops::Range;

use super::dimension_wise::{nested, rotated, rotated_both_ways, LineAllreduce, SliceCourse};
use super::shape::{in_turns, Shape};
use super::{ceil_log, CostLine, ScheduleRequest};
use crate::collective::Collective;
use crate::schedule::{Action, Axis, ChunkSet, Local, Motion, Schedule, Send, Slice, Step, Symmetry};
use crate::units::{Rank, Seconds, Slot};

/// The allreduce with `r` steps saved, and for r = 0 also reduce-scatter and allgather, on any torus.
pub(super) fn cyclic(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter, .. } = *request;
    let whole = parameter == levels(shape);
    // If only start-up time matters, one message is better than two halves.
    let courses = if whole { rotated(shape) } else { rotated_both_ways(shape) };
    nested(name, collective, shape, &courses, |course, dimension| {
        let group = FoldedGroup::cyclic(shape.sizes()[dimension], course.mirrored, whole);
        group.line(1, saved(shape, &course.order, parameter)[dimension])
    })
}

/// The allreduce with `r` steps saved, for a power of two of ranks in each dimension.
pub(super) fn bitwise(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, parameter, .. } = *request;
    let whole = parameter == levels(shape);
    let courses = if whole { rotated(shape) } else { rotated_both_ways(shape) };
    let slice = |course: &SliceCourse| {
        let group = FoldedGroup::bitwise(shape, course, whole);
        let LineAllreduce { inward, outward, .. } = group.line(1, parameter);
        // Chunks that travel together get adjacent numbers.
        inward.compose(&outward).expect("the way back is of the same group").renumbered(&group.positions())
    };
    let slices: Vec<Schedule> = courses.iter().map(slice).collect();
    Schedule::split(name, &slices).expect("all slices have as many chunks")
}

/// The most steps that can be saved: the number of steps of a phase.
pub(super) fn levels(shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| ceil_log(2, *size)).sum()
}

/// The number of steps that each dimension saves, if dimensions come in this order. The last ones, which send least,
/// save first.
fn saved(shape: &Shape, order: &[usize], parameter: usize) -> Vec<usize> {
    let mut left = parameter;
    let mut saved = vec![0; shape.sizes().len()];
    for &dimension in order.iter().rev() {
        saved[dimension] = left.min(ceil_log(2, shape.sizes()[dimension]));
        left -= saved[dimension];
    }
    saved
}

/// The steps and the volume of the allreduce.
pub(super) fn cost(request: &ScheduleRequest<'_>) -> CostLine {
    let ScheduleRequest { shape, parameter, .. } = *request;
    let courses = rotated(shape);
    let mut sent = 0.0;
    for SliceCourse { order, .. } in &courses {
        let saved = saved(shape, order, parameter);
        let mut left = 1.0;
        for &dimension in order {
            let size = shape.sizes()[dimension];
            let counts = counts(size, 1);
            let back = counts.len() - 1 - saved[dimension];
            let results = counts[back];
            let there: usize = counts[..counts.len() - 1].iter().map(|n| size.min(n / 2 + results - 1)).sum();
            let blocks = there + counts[..back].iter().map(|n| n / 2).sum::<usize>();
            sent += left * blocks as f64 / size as f64 / courses.len() as f64;
            left *= results as f64 / size as f64;
        }
    }
    CostLine { steps: 2 * levels(shape) - parameter, sent }
}

/// The best parameter by equation (37) of the paper, for vectors of `bytes`, messages that take `alpha` and `beta` for
/// every byte, and reductions that take `gamma` for every byte. It minimises (36), an upper bound, over the real
/// numbers. To compare the costs of all members, as [`crate::cost`] does, is exact.
pub fn best_r(ranks: usize, bytes: usize, alpha: Seconds, beta: Seconds, gamma: Seconds) -> usize {
    let (ranks, bytes, most) = (ranks as f64, bytes as f64, ceil_log(2, ranks));
    let network = alpha / (bytes * (beta + 2.0 * gamma));
    let size = ranks / ((ranks.log2() - 1.0) * std::f64::consts::LN_2);
    (network.log2() + size.log2()).round().clamp(0.0, most as f64) as usize
}

/// The number of positions at the start of each step, and the final 1, if a step sends by `ports` ports.
fn counts(ranks: usize, ports: usize) -> Vec<usize> {
    std::iter::successors(Some(ranks), |n| (*n > 1).then(|| n.div_ceil(ports + 1))).collect()
}

/// A reduction: from a slot into a slot, for these positions.
type SlotReduction = (Slot, Slot, Range<usize>);

/// How a rank handles what arrives by a port for these positions, if it keeps its results' own parts in slot 0 apart
/// from slot 1, or begins to: the action, the slot, and the reductions that follow.
fn keep(onto: &Range<usize>, port: usize, apart: bool) -> (Action, Slot, Vec<SlotReduction>) {
    let spare = 2 + port;
    match (onto.start, apart) {
        // Position 0, which is the results' own part, receives it, too.
        (0, _) => (Action::Copy, spare, vec![(spare, 0, 0..1), (spare, 1, 1..onto.end)]),
        (_, true) => (Action::Reduce, 1, Vec::new()),
        (_, false) if port == 0 => (Action::Copy, 1, vec![(0, 1, onto.clone())]),
        (_, false) => (Action::Copy, spare, vec![(spare, 1, onto.clone())]),
    }
}

/// A group that takes rank 0 to every rank, with the order in which its elements are folded.
pub(super) struct FoldedGroup {
    shape: Shape,
    motion: Motion,
    mirrored: bool,
    /// Whether the vector is not divided.
    whole: bool,
    /// For each position at rank 0, the rank that owns the block. Rank 0 sends to this rank what moves down by that
    /// many positions.
    places: Vec<Rank>,
}

impl FoldedGroup {
    /// The shifts of a ring.
    pub fn cyclic(size: usize, mirrored: bool, whole: bool) -> FoldedGroup {
        let places = (0..size).map(|x| (size - x) % size).collect();
        FoldedGroup { shape: Shape::ring(size), motion: Motion::Shift, mirrored, whole, places }
    }

    /// The flips of bits, one bit of each dimension in turn.
    fn bitwise(shape: &Shape, course: &SliceCourse, whole: bool) -> FoldedGroup {
        let bits: Vec<usize> = shape.sizes().iter().map(|size| ceil_log(2, *size)).collect();
        let (times, levels) = (in_turns(&bits, &course.order), levels(shape));
        // The upper half of the positions is sent first: their highest bit is that of the first step.
        let place = |x: usize| -> Rank {
            let bit = |(bit, time): (usize, &usize)| (x >> (levels - 1 - time) & 1) << bit;
            let coordinate = |times: &Vec<usize>| -> usize { times.iter().enumerate().map(bit).sum() };
            (0..times.len()).map(|d| coordinate(&times[d]) * shape.stride(d)).sum()
        };
        let places = (0..shape.ranks()).map(place).collect();
        FoldedGroup { shape: shape.clone(), motion: Motion::Flip, mirrored: course.mirrored, whole, places }
    }

    /// The position of every block at rank 0.
    fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.places.len()];
        let places = self.places.iter().enumerate();
        places.for_each(|(x, place)| positions[self.mirror(*place)] = x);
        positions
    }

    /// Both phases, the second without its last `saved` steps.
    pub fn line(&self, ports: usize, saved: usize) -> LineAllreduce {
        let counts = counts(self.places.len(), ports);
        let back = counts.len() - 1 - saved;
        let results = counts[back];
        let mut mirror = self.fold(&counts, ports, 1);
        mirror.steps.truncate(back);
        LineAllreduce {
            inward: self.fold(&counts, ports, results),
            complete: vec![self.chunks(0..1, results)],
            outward: mirror.reverse().expect("a single result needs no slots"),
        }
    }

    /// The steps after which rank 0 holds `results` results.
    fn fold(&self, counts: &[usize], ports: usize, results: usize) -> Schedule {
        let mut schedule = self.empty();
        let mut apart = false;
        for pair in counts.windows(2) {
            let (found, left) = (pair[0], pair[1]);
            // The number of ports that send one position less and leave position 0 alone.
            let short = (ports + 1) * left - found;
            // Whether every position is the same sum for all results, or this no longer matters.
            let direct = results == 1 || left == 1 || !apart && short == 0;
            let mut step = Step::default();
            let mut start = left;
            for port in 0..ports {
                let onto = usize::from(port < short)..left;
                let (shift, positions) = (start - onto.start, start..start + onto.len());
                start = positions.end;
                if onto.is_empty() {
                    continue;
                }
                let (action, into, then) =
                    if direct { (Action::Reduce, 0, Vec::new()) } else { keep(&onto, port, apart) };
                let local = |(from, into, onto)| self.local(from, into, self.chunks(onto, results));
                step.locals.extend(then.into_iter().map(local));
                let send = self.send(shift, self.chunks(positions, results), action);
                step.sends.push(Send { from: usize::from(apart), into, ..send });
            }
            apart |= !direct;
            schedule.steps.push(step);
        }
        schedule
    }

    /// The blocks at these positions of rank 0, for `results` results.
    fn chunks(&self, positions: Range<usize>, results: usize) -> ChunkSet {
        if self.whole {
            return ChunkSet::range(0, 1);
        }
        let ranks = self.places.len();
        let positions = match self.motion {
            Motion::Shift => positions.start..(positions.end + results - 1).min(positions.start + ranks),
            // Both are aligned ranges of a power of two.
            _ if positions.len() < results => 0..results,
            _ => positions,
        };
        positions.map(|x| self.mirror(self.places[x % ranks])).collect()
    }

    fn send(&self, shift: usize, chunks: ChunkSet, action: Action) -> Send {
        let place = self.places[shift];
        let port = self.shape.port_towards(0, place) ^ usize::from(self.mirrored);
        Send { source: 0, destination: self.mirror(place), chunks, action, port, from: 0, into: 0 }
    }

    fn local(&self, from: Slot, into: Slot, chunks: ChunkSet) -> Local {
        Local { rank: 0, chunks, action: Action::Reduce, from, into }
    }

    fn mirror(&self, rank: Rank) -> Rank {
        if !self.mirrored {
            return rank;
        }
        let coordinates = self.shape.coordinates(rank).into_iter().zip(self.shape.sizes()).enumerate();
        coordinates.map(|(d, (x, size))| (size - x) % size * self.shape.stride(d)).sum()
    }

    fn empty(&self) -> Schedule {
        let motion = if self.mirrored { self.motion.mirrored() } else { self.motion };
        let axis = |size: &usize| Axis { size: *size, blocks: if self.whole { 1 } else { *size }, motion };
        let (ranks, chunks) = (self.places.len(), if self.whole { 1 } else { self.places.len() });
        let axes = self.shape.sizes().iter().map(axis).collect();
        let slice = Slice::on_grid(axes, (0..chunks).collect());
        let symmetry = Some(Symmetry { slices: vec![slice] });
        Schedule { symmetry, ..Schedule::empty("", Collective::ReduceScatter, ranks, chunks) }
    }
}
