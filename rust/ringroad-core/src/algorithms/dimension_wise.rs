//! An allreduce on a torus from allreduces on its rings: all lines of one dimension at once, then those of the next.
//!
//! When a dimension is done, all ranks of a line hold the same, and so the next dimension only ever adds what is
//! disjoint. Slices of the vector that start in different dimensions, and run both ways, keep all ports busy.
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

/// The allreduce on `shape` of which `line(size, mirrored)` is the allreduce on a ring, with one slice per course. All
/// lines of a shape are symmetric, or none is.
pub(super) fn allreduce(
    name: &str,
    shape: &Shape,
    courses: &[Course],
    line: impl Fn(usize, bool) -> Schedule,
) -> Schedule {
    let slice = |course: &Course| {
        let lines: Vec<Schedule> = shape.sizes().iter().map(|size| line(*size, course.mirrored)).collect();
        on_all_lines(name, shape, &course.order, &lines)
    };
    let slices: Vec<Schedule> = courses.iter().map(slice).collect();
    Schedule::split(name, &slices).expect("all slices have as many chunks")
}

/// `lines[d]` in every line of dimension `d`, dimension after dimension. A chunk for every combination of their chunks.
fn on_all_lines(name: &str, shape: &Shape, order: &[usize], lines: &[Schedule]) -> Schedule {
    let symmetric = lines.iter().all(|line| line.symmetry.is_some() || line.ranks == 1);
    let blocks = Shape::new(lines.iter().map(|line| line.chunks).collect());
    let mut schedule = Schedule::empty(name, Collective::Allreduce, shape.ranks(), blocks.ranks());
    schedule.symmetry = symmetric.then(|| symmetry(lines, &blocks));
    for &dimension in order {
        let line = if symmetric { lines[dimension].clone() } else { lines[dimension].expand() };
        // Where a line's first position is all that counts, so is the first line.
        let starts: Vec<Rank> = if symmetric {
            vec![0]
        } else {
            (0..shape.ranks()).filter(|rank| shape.coordinates(*rank)[dimension] == 0).collect()
        };
        let stride = shape.stride(dimension);
        let chunks = |set: &ChunkSet| -> ChunkSet {
            (0..blocks.ranks()).filter(|chunk| set.contains(blocks.coordinates(*chunk)[dimension])).collect()
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

fn symmetry(lines: &[Schedule], blocks: &Shape) -> Symmetry {
    let axis = |line: &Schedule| match &line.symmetry {
        Some(Symmetry { slices }) => slices[0].axes[0],
        None => Axis { size: line.ranks, blocks: line.chunks, motion: Motion::Shift },
    };
    let slice = Slice {
        axes: lines.iter().map(axis).collect(),
        chunks: (0..blocks.ranks()).collect(),
        cycle: None,
    };
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
