//! Transformations of schedules: reversed in time, one after the other, and side by side on slices.

use std::sync::Arc;

use super::rows::{merged, unnumbered};
use super::symmetry::Chart;
use super::{Action, ChunkSet, Local, Schedule, Send, Slice, Step, Symmetry};
use crate::collective::Collective;
use crate::topology::inverse;
use crate::units::{ChunkId, Rank};

/// Why schedules cannot be transformed or combined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// The schedules differ in ranks or chunks.
    #[error("{what} needs schedules of equal ranks and chunks, not {left:?} and {right:?} (ranks, chunks)")]
    Shape {
        /// The transformation.
        what: &'static str,
        /// Ranks and chunks of the first schedule.
        left: (usize, usize),
        /// Ranks and chunks of the other.
        right: (usize, usize),
    },
    /// The collectives do not combine to another one.
    #[error("{what} of {left} and {right} performs no collective")]
    Collectives {
        /// The transformation.
        what: &'static str,
        /// The first collective.
        left: Collective,
        /// The other.
        right: Collective,
    },
    /// There is no schedule to split the vector for.
    #[error("split needs at least one schedule")]
    Empty,
    /// No collective is the reverse of this one.
    #[error("the reverse in time of {0} performs no collective")]
    Reverse(Collective),
    /// The schedule does not have this slice.
    #[error("{name:?} has {slices} slices, and no slice {index}; a schedule that is written out has none")]
    NoSlice {
        /// The schedule's name.
        name: String,
        /// How many slices it has.
        slices: usize,
        /// The requested slice.
        index: usize,
    },
    /// Positions that are not those of the ranks, or a collective for which ranks cannot change their places.
    #[error("the ranks of a schedule of {ranks} cannot be placed at {positions:?} for {collective}; each rank needs a position of its own, and a scan has its ranks in order")]
    Positions {
        /// How many ranks the schedule has.
        ranks: usize,
        /// The positions.
        positions: Vec<Rank>,
        /// The collective.
        collective: Collective,
    },
    /// A schedule with slots cannot be reversed: combined slots cannot be separated.
    #[error("a schedule whose ranks combine slots cannot be reversed")]
    Slots,
}

impl Schedule {
    /// The same messages backwards in time: the last step comes first, receivers become senders, copies become
    /// reductions, and the other way round. This turns a reduce-scatter into an allgather, a broadcast into a reduce, a
    /// gather into a scatter, and the other way round.
    ///
    /// Ports become the opposite ports (`port ^ 1`), which on rings and tori are the other direction.
    pub fn reverse(&self) -> Result<Schedule, TransformError> {
        let collective = self.reversed_collective().ok_or(TransformError::Reverse(self.collective))?;
        if self.slots() > 1 {
            return Err(TransformError::Slots);
        }
        let only_copies = matches!(self.collective, Collective::Gather { .. } | Collective::Scatter { .. });
        let chart = self.symmetry.as_ref().map(|symmetry| Chart::new(symmetry, self.chunks));
        let flip = |send: &Send| {
            let flipped = Send {
                source: send.destination,
                destination: send.source,
                chunks: send.chunks.clone(),
                action: match send.action {
                    Action::Reduce => Action::Copy,
                    Action::Copy if only_copies => Action::Copy,
                    Action::Copy => Action::Reduce,
                },
                port: send.port ^ 1,
                ..*send
            };
            match &chart {
                Some(chart) => chart.rebased(&flipped),
                None => flipped,
            }
        };
        let flipped = |step: &Step| Step { sends: step.sends.iter().map(flip).collect(), locals: Vec::new() };
        let steps = self.steps.iter().rev().map(flipped).collect();
        Ok(Schedule { collective, steps, symmetry: self.symmetry.clone(), ..self.without_steps() })
    }

    /// The collective that the schedule reversed in time performs, where there is one.
    fn reversed_collective(&self) -> Option<Collective> {
        Some(match self.collective {
            Collective::Allreduce => Collective::Allreduce,
            Collective::ReduceScatter => Collective::Allgather,
            Collective::Allgather => Collective::ReduceScatter,
            Collective::Broadcast { root } => Collective::Reduce { root },
            Collective::Reduce { root } => Collective::Broadcast { root },
            Collective::Gather { root } => Collective::Scatter { root },
            Collective::Scatter { root } => Collective::Gather { root },
            Collective::Alltoall | Collective::Scan | Collective::Exscan => return None,
        })
    }

    fn without_steps(&self) -> Schedule {
        Schedule::empty(&self.name, self.collective, self.ranks, self.chunks)
    }

    fn check_shape(&self, other: &Schedule, what: &'static str) -> Result<(), TransformError> {
        let (left, right) = ((self.ranks, self.chunks), (other.ranks, other.chunks));
        if left == right {
            Ok(())
        } else {
            Err(TransformError::Shape { what, left, right })
        }
    }

    /// This schedule followed by `after`. Reduce-scatter and allgather make an allreduce, scatter and allgather a
    /// broadcast, reduce-scatter and gather a reduce.
    pub fn compose(&self, after: &Schedule) -> Result<Schedule, TransformError> {
        self.check_shape(after, "compose")?;
        let collective = match (self.collective, after.collective) {
            (Collective::ReduceScatter, Collective::Allgather) => Collective::Allreduce,
            (Collective::Scatter { root }, Collective::Allgather) => Collective::Broadcast { root },
            (Collective::ReduceScatter, Collective::Gather { root }) => Collective::Reduce { root },
            (left, right) => return Err(TransformError::Collectives { what: "compose", left, right }),
        };
        let (mut steps, more, symmetry) = if self.symmetry == after.symmetry {
            (self.steps.clone(), after.steps.clone(), self.symmetry.clone())
        } else {
            (self.expand().steps, after.expand().steps, None)
        };
        steps.extend(more);
        Ok(Schedule { collective, steps, symmetry, ..self.without_steps() })
    }

    /// The same schedule with every chunk cut into `times` equal chunks, written out.
    pub fn cut(&self, times: usize) -> Schedule {
        let mut cut = self.expand();
        cut.chunks *= times;
        let finer = |chunks: &mut ChunkSet| {
            let runs = chunks.runs().iter().map(|(start, end)| (start * times, end * times));
            *chunks = ChunkSet::from(runs.collect::<Vec<_>>());
        };
        for step in &mut cut.steps {
            step.sends.iter_mut().for_each(|send| finer(&mut send.chunks));
            step.locals.iter_mut().for_each(|local| finer(&mut local.chunks));
        }
        cut
    }

    /// The schedule where rank `r` does what this schedule's rank `positions[r]` does, on
    /// [`Topology::placed`](crate::Topology::placed) ranks. It performs the same collective: the root and the blocks of ranks
    /// are renumbered, too.
    pub fn placed(&self, positions: &[Rank]) -> Result<Schedule, TransformError> {
        let (ranks, collective) = (self.ranks, self.collective);
        let fitting = inverse(positions).filter(|all| all.len() == ranks && !collective.is_prefix());
        let Some(rank_at) = fitting else {
            return Err(TransformError::Positions { ranks, positions: positions.to_vec(), collective });
        };
        let rank_at: Arc<[Rank]> = rank_at.into();
        let mut placed = self.clone();
        placed.collective = collective.with_root(collective.root().map_or(0, |root| rank_at[root]));
        let blocks = collective.blocks(ranks);
        let pieces = self.chunks / blocks.max(1);
        let block = |block: usize| match collective {
            Collective::Alltoall => rank_at[block / ranks] * ranks + rank_at[block % ranks],
            _ if collective.has_blocks() => rank_at[block],
            _ => block,
        };
        let number = |chunk: ChunkId| block(chunk / pieces) * pieces + chunk % pieces;
        let renumber = |chunks: &mut ChunkSet| {
            if collective.has_blocks() {
                *chunks = chunks.iter().map(number).collect();
            }
        };
        for step in &mut placed.steps {
            for send in &mut step.sends {
                (send.source, send.destination) = (rank_at[send.source], rank_at[send.destination]);
                renumber(&mut send.chunks);
            }
            for local in &mut step.locals {
                local.rank = rank_at[local.rank];
                renumber(&mut local.chunks);
            }
        }
        for slice in placed.symmetry.iter_mut().flat_map(|symmetry| &mut symmetry.slices) {
            slice.chunks.iter_mut().for_each(|chunk| *chunk = number(*chunk));
            *slice = slice.clone().renumbered(&rank_at);
        }
        Ok(placed)
    }

    /// The same schedule with chunk `c` renumbered to `numbers[c]`. Numbers that change the order of chunks are valid
    /// only in an allreduce.
    pub(crate) fn renumbered(mut self, numbers: &[ChunkId]) -> Schedule {
        let renumber = |chunks: &mut ChunkSet| *chunks = chunks.iter().map(|chunk| numbers[chunk]).collect();
        for step in &mut self.steps {
            step.sends.iter_mut().for_each(|send| renumber(&mut send.chunks));
            step.locals.iter_mut().for_each(|local| renumber(&mut local.chunks));
        }
        for slice in self.symmetry.iter_mut().flat_map(|symmetry| &mut symmetry.slices) {
            slice.chunks.iter_mut().for_each(|chunk| *chunk = numbers[*chunk]);
        }
        self
    }

    /// What a symmetric schedule does with one slice, as a schedule of the whole vector. It uses only the ports of this
    /// slice.
    pub fn on_slice(&self, index: usize) -> Result<Schedule, TransformError> {
        let slices = self.symmetry.iter().flat_map(|symmetry| &symmetry.slices);
        let Some(slice) = slices.clone().nth(index) else {
            return Err(TransformError::NoSlice { name: self.name.clone(), slices: slices.count(), index });
        };
        let mut own = slice.chunks.clone();
        own.sort_unstable();
        let ours = |chunks: &ChunkSet| chunks.max().is_some_and(|chunk| own.binary_search(&chunk).is_ok());
        let mut alone = Schedule { chunks: own.len(), ..self.without_steps() };
        alone.symmetry = Some(Symmetry { slices: vec![slice.clone()] });
        alone.steps = self.steps.clone();
        for step in &mut alone.steps {
            step.sends.retain(|send| ours(&send.chunks));
            step.locals.retain(|local| ours(&local.chunks));
        }
        alone.steps.retain(|step| !(step.sends.is_empty() && step.locals.is_empty()));
        let mut numbers = vec![0; self.chunks];
        own.into_iter().enumerate().for_each(|(number, chunk)| numbers[chunk] = number);
        Ok(alone.renumbered(&numbers))
    }

    /// Divides the vector into as many equal slices as there are `parts`, and runs the parts side by side, step by
    /// step: part `i` works on slice `i` (of every block, where the collective has blocks). Messages between the same
    /// two ranks with the same port, action and slots become one message.
    pub fn split(name: &str, parts: &[Schedule]) -> Result<Schedule, TransformError> {
        let first = parts.first().ok_or(TransformError::Empty)?;
        for part in parts {
            first.check_shape(part, "split")?;
            if part.collective != first.collective {
                let (left, right) = (first.collective, part.collective);
                return Err(TransformError::Collectives { what: "split", left, right });
            }
        }
        if parts.iter().any(|part| part.symmetry.is_none())
            && parts.iter().any(|part| part.symmetry.is_some())
        {
            let expanded: Vec<Schedule> = parts.iter().map(Schedule::expand).collect();
            return Schedule::split(name, &expanded);
        }
        let per_block = first.chunks / first.collective.blocks(first.ranks);
        let place = |part: usize, chunk: ChunkId| -> ChunkId {
            (chunk / per_block * parts.len() + part) * per_block + chunk % per_block
        };
        let placed = |part, chunks: &ChunkSet| match *chunks.runs() {
            // Chunks of one block stay together.
            [(start, end)] if start / per_block == (end - 1) / per_block => {
                ChunkSet::range(place(part, start), place(part, end - 1) + 1)
            }
            _ => chunks.iter().map(|c| place(part, c)).collect(),
        };
        let mut joint = Schedule::empty(name, first.collective, first.ranks, first.chunks * parts.len());
        let slices: Vec<Slice> = (parts.iter().enumerate())
            .flat_map(|(part, schedule)| {
                let slices = schedule.symmetry.iter().flat_map(|symmetry| &symmetry.slices);
                slices.map(move |slice| {
                    let chunks = slice.chunks.iter().map(|chunk| place(part, *chunk)).collect();
                    Slice { chunks, ..slice.clone() }
                })
            })
            .collect();
        joint.symmetry = first.symmetry.is_some().then_some(Symmetry { slices });
        for index in 0..parts.iter().map(|p| p.steps.len()).max().unwrap_or(0) {
            let mut step = Step::default();
            for (part, schedule) in parts.iter().enumerate() {
                let Some(slice) = schedule.steps.get(index) else { continue };
                let send = |send: &Send| Send { chunks: placed(part, &send.chunks), ..*send };
                step.sends.extend(slice.sends.iter().map(send));
                let local = |local: &Local| Local { chunks: placed(part, &local.chunks), ..*local };
                step.locals.extend(slice.locals.iter().map(local));
            }
            if joint.symmetry.is_none() {
                step.sends = unnumbered(merged(step.sends.into_iter()));
            }
            if !(step.sends.is_empty() && step.locals.is_empty()) {
                joint.steps.push(step);
            }
        }
        Ok(joint)
    }
}
