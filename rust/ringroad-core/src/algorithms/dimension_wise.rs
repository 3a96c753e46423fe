//! An allreduce on a torus from allreduces on its rings: all lines of one dimension at once, then those of the next.
//!
//! When a dimension is done, all ranks of a line hold the same, and so the next dimension only ever adds what is
//! disjoint. Slices of the vector that start in different dimensions, and run both ways, keep all ports busy.
//! Where a line first makes every rank complete some blocks and then spreads them, the next dimensions come in between.
//!
//! ```text
//! torus:2x3    slice 0: the columns 0-3, 1-4, 2-5, then the rows 0-1-2, 3-4-5    slice 1: the rows, then the columns
//! ```

use super::shape::Shape;
use crate::collective::Collective;
use crate::schedule::{Axis, ChunkSet, Local, Motion, Schedule, Send, Slice, Step, Symmetry};
use crate::units::Rank;

/// Which dimensions a slice visits, in this order, and whether as a mirror image.
#[derive(Debug, Clone)]
pub(super) struct Course {
    pub order: Vec<usize>,
    pub mirrored: bool,
}

/// One slice, from the first dimension to the last: one port at a time, or one pair of ports.
pub(super) fn single(shape: &Shape) -> Vec<Course> {
    vec![Course { order: shape.order(0), mirrored: false }]
}

/// A slice starting in every dimension.
pub(super) fn rotated(shape: &Shape) -> Vec<Course> {
    let starts = 0..shape.wide().len().max(1);
    starts.map(|first| Course { order: shape.order(first), mirrored: false }).collect()
}

/// A slice starting in every dimension, and the mirror image of each.
pub(super) fn rotated_both_ways(shape: &Shape) -> Vec<Course> {
    let both = |course: Course| [false, true].map(|mirrored| Course { mirrored, ..course.clone() });
    rotated(shape).into_iter().flat_map(both).collect()
}

/// An allreduce on a ring in two parts, between which other dimensions find their place.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Until every rank has some blocks complete.
    pub inward: Schedule,
    /// Those that position 0 then has; all of them, unless the line is symmetric.
    pub complete: ChunkSet,
    /// From then on.
    pub outward: Schedule,
}

/// The allreduce on `shape` of which `line(size, mirrored)` is the allreduce on a ring, with one slice per course. All
/// lines of a shape are symmetric, or none is.
pub(super) fn allreduce(
    name: &str,
    shape: &Shape,
    courses: &[Course],
    line: impl Fn(usize, bool) -> Schedule,
) -> Schedule {
    nested(name, Collective::Allreduce, shape, courses, |course, dimension| {
        let inward = line(shape.sizes()[dimension], course.mirrored);
        let outward = Schedule { steps: Vec::new(), ..inward.clone() };
        Line { complete: ChunkSet::range(0, inward.chunks), inward, outward }
    })
}

/// The allreduce on `shape` of which `line(course, dimension)` is the part in one dimension, with one slice per course.
/// A reduce-scatter is only the way inward, and an allgather the way outward.
pub(super) fn nested(
    name: &str,
    collective: Collective,
    shape: &Shape,
    courses: &[Course],
    line: impl Fn(&Course, usize) -> Line,
) -> Schedule {
    let slice = |course: &Course| {
        let lines: Vec<Line> = (0..shape.sizes().len()).map(|d| line(course, d)).collect();
        on_all_lines(name, collective, shape, &course.order, &lines)
    };
    let slices: Vec<Schedule> = courses.iter().map(slice).collect();
    Schedule::split(name, &slices).expect("all slices have as many chunks")
}

/// `lines[d]` in every line of dimension `d`, dimension after dimension, and back. A chunk for every combination of
/// their chunks.
fn on_all_lines(
    name: &str,
    collective: Collective,
    shape: &Shape,
    order: &[usize],
    lines: &[Line],
) -> Schedule {
    let symmetric = lines.iter().all(|line| line.inward.symmetry.is_some() || line.inward.ranks == 1);
    let blocks = Shape::new(lines.iter().map(|line| line.inward.chunks).collect());
    let mut schedule = Schedule::empty(name, collective, shape.ranks(), blocks.ranks());
    schedule.symmetry = symmetric.then(|| symmetry(lines, &blocks));
    let inward = order.iter().enumerate().map(|(i, d)| (i, *d, &lines[*d].inward));
    let outward = order.iter().enumerate().rev().map(|(i, d)| (i, *d, &lines[*d].outward));
    let inward = inward.filter(|_| collective != Collective::Allgather);
    let outward = outward.filter(|_| collective != Collective::ReduceScatter);
    for (before, dimension, line) in inward.chain(outward) {
        let line = if symmetric { line.clone() } else { line.expand() };
        // Where a line's first position is all that counts, so is the first line.
        let starts: Vec<Rank> = if symmetric {
            vec![0]
        } else {
            (0..shape.ranks()).filter(|rank| shape.coordinates(*rank)[dimension] == 0).collect()
        };
        let stride = shape.stride(dimension);
        let chunks = |set: &ChunkSet| -> ChunkSet {
            let complete = |at: &[usize]| order[..before].iter().all(|d| lines[*d].complete.contains(at[*d]));
            let within = |at: Vec<usize>| set.contains(at[dimension]) && complete(&at);
            (0..blocks.ranks()).filter(|chunk| within(blocks.coordinates(*chunk))).collect()
        };
        for step in &line.steps {
            let mut wide = Step::default();
            for start in &starts {
                let at = |position: usize| start + position * stride;
                wide.sends.extend(step.sends.iter().map(|send| Send {
                    source: at(send.source),
                    destination: at(send.destination),
                    chunks: chunks(&send.chunks),
                    port: 2 * dimension + send.port,
                    ..*send
                }));
                wide.locals.extend(step.locals.iter().map(|local| Local {
                    rank: at(local.rank),
                    chunks: chunks(&local.chunks),
                    ..*local
                }));
            }
            schedule.steps.push(wide);
        }
    }
    schedule
}

fn symmetry(lines: &[Line], blocks: &Shape) -> Symmetry {
    let axis = |line: &Line| match &line.inward.symmetry {
        Some(Symmetry { slices }) => slices[0].axes[0],
        None => Axis { size: line.inward.ranks, blocks: line.inward.chunks, motion: Motion::Shift },
    };
    let slice =
        Slice { axes: lines.iter().map(axis).collect(), chunks: (0..blocks.ranks()).collect(), cycle: None };
    Symmetry { slices: vec![slice] }
}

/// A symmetric allreduce of whole vectors on a ring, without any step yet.
pub(super) fn line(name: &str, size: usize, motion: Motion) -> Schedule {
    let axes = vec![Axis { size, blocks: 1, motion }];
    let slice = Slice { axes, chunks: vec![0], cycle: None };
    let symmetry = Some(Symmetry { slices: vec![slice] });
    Schedule { symmetry, ..Schedule::empty(name, Collective::Allreduce, size, 1) }
}

/// What position 0 sends of the whole vector, to be reduced.
pub(super) fn whole(destination: usize, port: usize) -> Send {
    let (action, chunks) = (crate::schedule::Action::Reduce, ChunkSet::range(0, 1));
    Send { source: 0, destination, chunks, action, port, from: 0, into: 0 }
}
