//! Trivance between blocks and whole vectors: some steps of reduce-scatter, an exchange of what is left, then
//! allgather.
//!
//! After j steps of Trivance's reduce-scatter on a ring of 3^j m ranks, the ranks whose numbers differ by multiples of
//! 3^j hold the same one of 3^j blocks, each with the sum over 3^j neighbours. These ranks form a ring of m, on which
//! Trivance's exchange of whole vectors is an allreduce of the block. So every step of reduce-scatter costs one more
//! step and reduces the data to a third. Kolmakov, Zhang: A Generalization of the Allreduce Operation, arXiv
//! 2004.09362, offer the same choice for one port. The exchanges are those of Juerss, Addanki, Schmid: Trivance, arXiv
//! 2602.17254. On a torus, the reduce-scatter goes through all dimensions before the exchange does.
//!
//! ```text
//! n = 9, j = 1    step 0    reduce-scatter    0 gives block 1 to 1 and block 2 to 8
//!                 step 1    exchange          0 sends block 0 to 3 and to 6
//!                 step 2    allgather         0 gets block 1 from 1 and block 2 from 8
//! ```
//!
//! Cost: 2j + ceil(log3 m) steps; 2(3^j-1)/3^j of the vector, plus 1/3^j of the vector for each vector that the
//! exchange sends.

use super::in_trees::{perform, InTrees, Table};
use super::shape::{in_turns, Shape};
use super::{ceil_log, distances, nested, trivance, ScheduleRequest};
use crate::collective::Collective;
use crate::schedule::{Axis, ChunkSet, Local, Schedule, Send, Step};
use crate::units::ChunkId;

/// The allreduce on a torus with a dimension that is a multiple of three.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, parameter, .. } = *request;
    let blocks = blocks(shape, parameter);
    let starts = 0..shape.wide().len();
    let slices: Vec<Schedule> =
        starts.map(|first| slice(name, shape, &blocks, &shape.order(first))).collect();
    Schedule::split(name, &slices).expect("all slices have as many blocks")
}

/// The number of blocks along every dimension: a factor of three for each of `steps` steps, as long as the size is
/// divisible.
pub(super) fn blocks(shape: &Shape, steps: usize) -> Shape {
    Shape::new(shape.sizes().iter().map(|size| 3usize.pow(steps.min(threes(*size)) as u32)).collect())
}

/// The largest number of steps that makes a difference.
pub(super) fn most_steps(shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| threes(*size)).max().unwrap_or(0)
}

/// How often the size can be divided by three.
fn threes(size: usize) -> usize {
    (1..=ceil_log(3, size)).take_while(|power| size.is_multiple_of(3usize.pow(*power as u32))).count()
}

/// One slice, which visits dimensions in this order. It is the allreduce on a torus with one rank per block, extended
/// to all ranks, with the exchanges between its reduce-scatter and its allgather.
fn slice(name: &str, shape: &Shape, blocks: &Shape, order: &[usize]) -> Schedule {
    let tables = blocks.sizes().iter().map(|size| nested::table(*size, &distances::trivance(*size)));
    let tables: Vec<Table> = tables.collect();
    let levels: Vec<usize> = tables.iter().map(Table::levels).collect();
    let trees = InTrees::product(blocks, tables, in_turns(&levels, order));
    let mut schedule = perform(name, Collective::Allreduce, &[(trees.clone(), trees)]);
    schedule.ranks = shape.ranks();
    let symmetry = schedule.symmetry.as_mut().expect("the tables are symmetric");
    let slice = &mut symmetry.slices[0];
    slice.axes.iter_mut().zip(shape.sizes()).for_each(|(axis, size)| *axis = Axis { size: *size, ..*axis });
    let own = slice.chunks[0];
    for send in schedule.steps.iter_mut().flat_map(|step| &mut step.sends) {
        send.destination = widened(send, shape, blocks);
    }
    let exchanges = order.iter().flat_map(|dimension| exchange(name, shape, blocks, *dimension, own));
    let middle = schedule.steps.len() / 2;
    schedule.steps.splice(middle..middle, exchanges);
    schedule
}

/// The destination, on the large torus, of a send on the small torus: equally far, in the same direction.
fn widened(send: &Send, shape: &Shape, blocks: &Shape) -> usize {
    let dimension = send.port / 2;
    let (size, small) = (shape.sizes()[dimension], blocks.sizes()[dimension]);
    let coordinate = blocks.coordinates(send.destination)[dimension];
    let downwards = send.port % 2 == 1;
    let coordinate = if downwards { size - small + coordinate } else { coordinate };
    shape.with(0, dimension, coordinate)
}

/// The exchange of position 0's own block along a dimension, among the positions that hold the same block.
fn exchange(name: &str, shape: &Shape, blocks: &Shape, dimension: usize, own: ChunkId) -> Vec<Step> {
    let apart = blocks.sizes()[dimension];
    let line = trivance::whole_vectors(name, shape.sizes()[dimension] / apart);
    let chunks = || ChunkSet::range(own, own + 1);
    let send = |send: &Send| Send {
        destination: shape.with(0, dimension, send.destination * apart),
        chunks: chunks(),
        port: 2 * dimension + send.port,
        ..*send
    };
    let local = |local: &Local| Local { chunks: chunks(), ..*local };
    let placed = |step: &Step| Step {
        sends: step.sends.iter().map(send).collect(),
        locals: step.locals.iter().map(local).collect(),
    };
    line.steps.iter().map(placed).collect()
}
