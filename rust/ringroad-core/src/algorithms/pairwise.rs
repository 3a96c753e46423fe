//! Pairwise all-to-all: in every step all ranks send over the same distance, which grows from step to step.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005. On a
//! torus, the distance is the same in every dimension.
//!
//! ```text
//! n = 7   rank 0    step 0: to 1, from 6    step 1: to 2, from 5    ...    step 5: to 6, from 1
//! ```
//!
//! Cost: n - 1 steps, (n-1)/n of the vector.

use super::{ScheduleRequest, Shape};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Slice, Step, Symmetry};
use crate::units::Rank;

/// The all-to-all for any number of ranks.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, .. } = *request;
    let step = |destination| Step {
        sends: vec![shape.send(0, destination, ChunkSet::range(destination, destination + 1), Action::Copy)],
        locals: Vec::new(),
    };
    let mut schedule = without_steps(name, shape);
    schedule.steps = (1..shape.ranks()).map(step).collect();
    schedule
}

/// An all-to-all without steps, in which all ranks act alike. There is one slice per distance: slice `d` has the block
/// from rank 0 to rank `d` and, at position `s`, the block that goes equally far from rank `s`.
pub(super) fn without_steps(name: &str, shape: &Shape) -> Schedule {
    let ranks = shape.ranks();
    let coordinates: Vec<Vec<usize>> = (0..ranks).map(|rank| shape.coordinates(rank)).collect();
    let moved = |rank: Rank, by: Rank| -> Rank {
        let places = coordinates[rank].iter().zip(&coordinates[by]).zip(shape.sizes());
        places.fold(0, |rank, ((x, y), size)| rank * size + (x + y) % size)
    };
    let slice = |distance| {
        let chunks = (0..ranks).map(|source| source * ranks + moved(source, distance)).collect();
        Slice::on_grid(shape.shifts(), chunks)
    };
    let mut schedule = Schedule::empty(name, Collective::Alltoall, ranks, ranks * ranks);
    schedule.symmetry = Some(Symmetry { slices: (0..ranks).map(slice).collect() });
    schedule
}
