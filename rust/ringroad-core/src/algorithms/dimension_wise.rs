//! An allreduce on a torus, made of allreduces on its rings: all lines of one dimension at once, then those of the
//! next.
//!
//! After a dimension, all ranks of a line hold the same sum, so the next dimension only adds disjoint sums. Slices of
//! the vector that start in different dimensions and run in both directions keep all ports busy. If a line first
//! completes some blocks on each rank and then spreads them, the other dimensions run in between.
//!
//! ```text
//! torus:2x3    slice 0: the columns 0-3, 1-4, 2-5, then the rows 0-1-2, 3-4-5    slice 1: the rows, then the columns
//! ```

use super::shape::Shape;
use crate::collective::Collective;
use crate::schedule::{Axis, ChunkSet, Local, Motion, Schedule, Send, Slice, Step, Symmetry};
use crate::units::{ChunkId, Rank};

/// The order in which a slice visits dimensions, and whether it is a mirror image.
#[derive(Debug, Clone)]
pub(super) struct SliceCourse {
    pub order: Vec<usize>,
    pub mirrored: bool,
}

/// One slice, from the first dimension to the last: it uses one port at a time, or one pair of ports.
pub(super) fn single(shape: &Shape) -> Vec<SliceCourse> {
    vec![SliceCourse { order: shape.order(0), mirrored: false }]
}

/// A slice starting in every dimension.
pub(super) fn rotated(shape: &Shape) -> Vec<SliceCourse> {
    let starts = 0..shape.wide().len().max(1);
    starts.map(|first| SliceCourse { order: shape.order(first), mirrored: false }).collect()
}

/// A slice that starts in every dimension, each with a mirror image.
pub(super) fn rotated_both_ways(shape: &Shape) -> Vec<SliceCourse> {
    let both = |course: SliceCourse| [false, true].map(|mirrored| SliceCourse { mirrored, ..course.clone() });
    rotated(shape).into_iter().flat_map(both).collect()
}

/// An allreduce on a ring in two parts, between which other dimensions run.
#[derive(Debug, Clone)]
pub(super) struct LineAllreduce {
    /// The steps until every rank has completed some blocks.
    pub inward: Schedule,
    /// The blocks that each position has completed. With symmetric lines, only the entry of position 0 is used.
    pub complete: Vec<ChunkSet>,
    /// The steps after that.
    pub outward: Schedule,
}

impl LineAllreduce {
    /// A line with one part only, inward or outward. All positions complete all chunks.
    pub fn one_way(schedule: Schedule, inward: bool) -> LineAllreduce {
        let complete = vec![ChunkSet::range(0, schedule.chunks); schedule.ranks];
        let nothing = Schedule { steps: Vec::new(), ..schedule.clone() };
        let (inward, outward) = if inward { (schedule, nothing) } else { (nothing, schedule) };
        LineAllreduce { inward, complete, outward }
    }
}

/// The allreduce on `shape` with one slice per course, where `line(size, mirrored)` is the allreduce on a ring. Either
/// all lines of a shape are symmetric, or none.
pub(super) fn allreduce(
    name: &str,
    shape: &Shape,
    courses: &[SliceCourse],
    line: impl Fn(usize, bool) -> Schedule,
) -> Schedule {
    nested(name, Collective::Allreduce, shape, courses, |course, dimension| {
        LineAllreduce::one_way(line(shape.sizes()[dimension], course.mirrored), true)
    })
}

/// The allreduce on `shape` with one slice per course, where `line(course, dimension)` is the part of one dimension. A
/// reduce-scatter has the inward parts only, an allgather the outward parts.
pub(super) fn nested(
    name: &str,
    collective: Collective,
    shape: &Shape,
    courses: &[SliceCourse],
    line: impl Fn(&SliceCourse, usize) -> LineAllreduce,
) -> Schedule {
    let slice = |course: &SliceCourse| {
        let lines: Vec<LineAllreduce> = (0..shape.sizes().len()).map(|d| line(course, d)).collect();
        on_all_lines(name, collective, shape, &course.order, &lines)
    };
    let slices: Vec<Schedule> = courses.iter().map(slice).collect();
    Schedule::split(name, &slices).expect("all slices have as many chunks")
}

/// The chunks of a torus: one for every combination of its lines' chunks. If the vector has a block for every rank,
/// lines have a block for every position, and pieces of blocks combine to pieces of blocks.
struct ChunkNumbering {
    /// For every dimension, the number of chunks of its line, and the number of chunks per block.
    lines: Vec<(usize, usize)>,
}

impl ChunkNumbering {
    fn new(collective: Collective, lines: &[LineAllreduce]) -> ChunkNumbering {
        let pieces = |line: &Schedule| if collective.has_blocks() { line.chunks / line.ranks } else { 1 };
        ChunkNumbering {
            lines: lines.iter().map(|line| (line.inward.chunks, pieces(&line.inward))).collect(),
        }
    }

    fn chunks(&self) -> usize {
        self.lines.iter().map(|(chunks, _)| chunks).product()
    }

    /// All combinations of these chunks of every line, in row-major order.
    fn product(&self, chunks: &[Vec<ChunkId>]) -> Vec<ChunkId> {
        let mut combined = vec![(0, 0)];
        for ((all, pieces), own) in self.lines.iter().zip(chunks) {
            let with = |(block, piece): (usize, usize)| {
                own.iter().map(move |c| (block * (all / pieces) + c / pieces, piece * pieces + c % pieces))
            };
            combined = combined.into_iter().flat_map(with).collect();
        }
        let pieces: usize = self.lines.iter().map(|(_, pieces)| pieces).product();
        combined.into_iter().map(|(block, piece)| block * pieces + piece).collect()
    }
}

/// Runs `lines[d]` in every line of dimension `d`: the inward parts dimension by dimension, then the outward parts in
/// reverse order. The chunks are the combinations of the lines' chunks.
fn on_all_lines(
    name: &str,
    collective: Collective,
    shape: &Shape,
    order: &[usize],
    lines: &[LineAllreduce],
) -> Schedule {
    let symmetric = lines.iter().all(|line| line.inward.symmetry.is_some() || line.inward.ranks == 1);
    let numbering = ChunkNumbering::new(collective, lines);
    let mut schedule = Schedule::empty(name, collective, shape.ranks(), numbering.chunks());
    schedule.symmetry = symmetric.then(|| symmetry(lines, &numbering));
    let slices = schedule.symmetry.iter().flat_map(|symmetry| &symmetry.slices).map(|slice| &slice.chunks);
    let slices: Vec<ChunkSet> = slices.map(|chunks| chunks.iter().copied().collect()).collect();
    let inward = order.iter().enumerate().map(|(i, d)| (i, *d, &lines[*d].inward));
    let outward = order.iter().enumerate().rev().map(|(i, d)| (i, *d, &lines[*d].outward));
    let inward = inward.filter(|_| collective != Collective::Allgather);
    let outward = outward.filter(|_| collective != Collective::ReduceScatter);
    for (before, dimension, line) in inward.chain(outward) {
        let line = if symmetric { line.clone() } else { line.expand() };
        // With symmetry, only the first position of the first line counts.
        let starts: Vec<Rank> = if symmetric {
            vec![0]
        } else {
            (0..shape.ranks()).filter(|rank| shape.coordinates(*rank)[dimension] == 0).collect()
        };
        let stride = shape.stride(dimension);
        // For each slice, the chunks of the line that starts here.
        let chunks = |start: Rank, set: &ChunkSet| -> Vec<ChunkSet> {
            let place = shape.coordinates(start);
            let of_dimension = |d: usize| -> Vec<ChunkId> {
                if d == dimension {
                    set.iter().collect()
                } else if order[..before].contains(&d) {
                    lines[d].complete[place[d]].iter().collect()
                } else {
                    (0..lines[d].inward.chunks).collect()
                }
            };
            let all = numbering.product(&(0..lines.len()).map(of_dimension).collect::<Vec<_>>());
            if slices.len() <= 1 {
                return vec![all.into_iter().collect()];
            }
            let within = |slice: &ChunkSet| all.iter().copied().filter(|c| slice.contains(*c)).collect();
            slices.iter().map(within).filter(|chunks: &ChunkSet| !chunks.is_empty()).collect()
        };
        // If all positions have completed the same chunks, all lines have.
        let same = |d: &usize| lines[*d].complete.windows(2).all(|pair| pair[0] == pair[1]);
        let alike = order[..before].iter().all(same);
        for step in &line.steps {
            let mut wide = Step::default();
            let of_first = |set: &ChunkSet| chunks(0, set);
            let first_sends: Vec<_> = step.sends.iter().map(|send| of_first(&send.chunks)).collect();
            let first_locals: Vec<_> = step.locals.iter().map(|local| of_first(&local.chunks)).collect();
            let chunks = |start: Rank, first: &[ChunkSet], set: &ChunkSet| {
                if alike || start == 0 { first.to_vec() } else { chunks(start, set) }.into_iter()
            };
            for start in &starts {
                let at = |position: usize| start + position * stride;
                for (send, first) in step.sends.iter().zip(&first_sends) {
                    wide.sends.extend(chunks(*start, first, &send.chunks).map(|chunks| Send {
                        source: at(send.source),
                        destination: at(send.destination),
                        chunks,
                        port: 2 * dimension + send.port,
                        ..*send
                    }));
                }
                for (local, first) in step.locals.iter().zip(&first_locals) {
                    let all = chunks(*start, first, &local.chunks);
                    wide.locals.extend(all.map(|chunks| Local { rank: at(local.rank), chunks, ..*local }));
                }
            }
            schedule.steps.push(wide);
        }
    }
    schedule
}

/// A slice for every combination of the lines' slices.
fn symmetry(lines: &[LineAllreduce], numbering: &ChunkNumbering) -> Symmetry {
    let mut grids: Vec<(Vec<Axis>, Vec<Vec<ChunkId>>)> = vec![Default::default()];
    for LineAllreduce { inward, .. } in lines {
        let all = (0..inward.chunks).collect();
        let alone = Axis { size: inward.ranks, blocks: inward.chunks, motion: Motion::Shift };
        let own: Vec<(Axis, Vec<ChunkId>)> = match &inward.symmetry {
            Some(Symmetry { slices }) => slices.iter().map(|s| (s.axes[0], s.chunks.clone())).collect(),
            None => vec![(alone, all)],
        };
        let with = |(axes, chunks): (Vec<Axis>, Vec<Vec<ChunkId>>)| {
            let longer = |(axis, more): &(Axis, Vec<ChunkId>)| {
                ([&axes[..], &[*axis]].concat(), [&chunks[..], std::slice::from_ref(more)].concat())
            };
            own.iter().map(longer).collect::<Vec<_>>()
        };
        grids = grids.into_iter().flat_map(with).collect();
    }
    let slice = |(axes, chunks): (_, Vec<_>)| Slice::on_grid(axes, numbering.product(&chunks));
    Symmetry { slices: grids.into_iter().map(slice).collect() }
}

/// A symmetric allreduce of whole vectors on a ring, without steps.
pub(super) fn line(name: &str, size: usize, motion: Motion) -> Schedule {
    let axes = vec![Axis { size, blocks: 1, motion }];
    let slice = Slice::on_grid(axes, vec![0]);
    let symmetry = Some(Symmetry { slices: vec![slice] });
    Schedule { symmetry, ..Schedule::empty(name, Collective::Allreduce, size, 1) }
}

/// A message of position 0 with the whole vector, to be reduced.
pub(super) fn whole(destination: usize, port: usize) -> Send {
    let (action, chunks) = (crate::schedule::Action::Reduce, ChunkSet::range(0, 1));
    Send { source: 0, destination, chunks, action, port, from: 0, into: 0 }
}
