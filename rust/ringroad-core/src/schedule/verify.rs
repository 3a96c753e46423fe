//! The counting verifier: it replays a schedule symbolically and proves that every rank ends with the right data.
//!
//! A chunk at a rank holds a multiset of contributions, one for each rank whose data went in. Since a contribution that
//! is held twice is already an error, sets suffice to count if every reduction checks that its sets are disjoint.
//! (Without this check a verifier accepts a block that is added twice.)

use super::symmetry::Chart;
use super::{Action, ChunkSet, Local, Schedule, Send, Symmetry};
use crate::units::{ChunkId, Rank, Slot};

/// For one chunk, the set of ranks whose data went into each slot of each rank, as bits.
struct ChunkState {
    ranks: usize,
    words: usize,
    bits: Vec<u64>,
    /// Where the collective only copies, the rank that the chunk comes from; sets then have one bit.
    origin: Option<Rank>,
}

type Contributions = [u64];

impl ChunkState {
    fn new(ranks: usize, slots: usize, origin: Option<Rank>) -> ChunkState {
        let words = if origin.is_some() { 1 } else { ranks.div_ceil(64) };
        ChunkState { ranks, words, bits: vec![0; ranks * slots * words], origin }
    }

    fn place(&self, rank: Rank, slot: Slot) -> std::ops::Range<usize> {
        let start = (slot * self.ranks + rank) * self.words;
        start..start + self.words
    }

    fn get(&self, rank: Rank, slot: Slot) -> &Contributions {
        &self.bits[self.place(rank, slot)]
    }

    fn insert(&mut self, rank: Rank, contribution: Rank) {
        let start = self.place(rank, 0).start;
        let bit = if self.origin.is_some() { 0 } else { contribution };
        self.bits[start + bit / 64] |= 1 << (bit % 64);
    }

    fn copy(&mut self, rank: Rank, slot: Slot, from: &Contributions) {
        let place = self.place(rank, slot);
        self.bits[place].copy_from_slice(from);
    }

    /// Adds `from` to a slot; returns the lowest rank whose data is in both, where there is one.
    fn add(&mut self, rank: Rank, slot: Slot, from: &Contributions) -> Option<Rank> {
        let mut doubled = None;
        let place = self.place(rank, slot);
        for (i, (a, b)) in self.bits[place].iter_mut().zip(from).enumerate() {
            if *a & b != 0 && doubled.is_none() {
                doubled = Some(i * 64 + (*a & b).trailing_zeros() as usize);
            }
            *a |= b;
        }
        doubled.map(|bit| self.origin.unwrap_or(bit))
    }

    /// The lowest rank that is in `set` but not in `other`.
    fn difference(&self, set: &Contributions, other: &Contributions) -> Option<Rank> {
        let words = set.iter().zip(other).map(|(a, b)| a & !b).enumerate();
        let mut bits =
            words.filter(|(_, word)| *word != 0).map(|(i, w)| i * 64 + w.trailing_zeros() as usize);
        bits.next().map(|bit| self.origin.unwrap_or(bit))
    }
}

fn is_empty(set: &Contributions) -> bool {
    set.iter().all(|word| *word == 0)
}

/// Why a schedule does not perform its collective. Steps count from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The schedule names ranks or chunks that do not exist, or is inconsistent otherwise.
    #[error("schedule is malformed: {0}")]
    Malformed(String),
    /// A rank sends a chunk that it does not have.
    #[error("step {step}: rank {rank} sends chunk {chunk} to rank {destination} without holding any of it")]
    NotHeld {
        /// The step.
        step: usize,
        /// The sender.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
        /// The receiver.
        destination: Rank,
    },
    /// A reduction into a chunk of which the receiver has nothing. It should be a copy.
    #[error("step {step}: rank {rank} reduces data from rank {source_rank} into chunk {chunk}, of which it holds nothing; copy the chunk instead")]
    NothingToReduce {
        /// The step.
        step: usize,
        /// The receiver.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
        /// The sender.
        source_rank: Rank,
    },
    /// A contribution is added a second time.
    #[error("step {step}: rank {rank} adds the contribution of rank {contribution} to chunk {chunk} a second time, from rank {source_rank}")]
    Doubled {
        /// The step.
        step: usize,
        /// The receiver.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
        /// The rank whose data is added twice.
        contribution: Rank,
        /// The sender.
        source_rank: Rank,
    },
    /// A copy and another message write the same chunk in one step, so that the result depends on their order of
    /// arrival.
    #[error("step {step}: chunk {chunk} of rank {rank} is overwritten and written again in the same step")]
    Conflict {
        /// The step.
        step: usize,
        /// The receiver.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
    },
    /// A required chunk ends incomplete.
    #[error(
        "after step {last_step}: chunk {chunk} of rank {rank} lacks the contribution of rank {contribution}"
    )]
    Lost {
        /// The last step.
        last_step: usize,
        /// The rank that ends without it.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
        /// The rank whose data is missing.
        contribution: Rank,
    },
    /// A required chunk ends with data that does not belong there.
    #[error("after step {last_step}: chunk {chunk} of rank {rank} holds a contribution of rank {contribution} that does not belong there")]
    Misplaced {
        /// The last step.
        last_step: usize,
        /// The rank that ends with it.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
        /// The rank whose data does not belong there.
        contribution: Rank,
    },
}

/// What a message or a local operation does to one chunk.
#[derive(Clone, Copy)]
struct ChunkMove {
    step: u32,
    /// Whether it is a local operation, which follows after all messages of the step.
    local: bool,
    source: u32,
    destination: u32,
    action: Action,
    from: u32,
    into: u32,
}

/// The most slots of one chunk at all ranks, times the number of ranks, where the ranks whose contributions each slot
/// holds must be kept.
const MOST_SETS: usize = 1 << 31;

impl Schedule {
    /// Proves that the schedule performs its collective, or returns where it does not.
    ///
    /// Chunks do not influence each other, so each is replayed alone, and memory is needed for one state per rank. Most
    /// reductions only join parts of one division of the ranks, whose sizes are then enough; for others, each state is a
    /// set of ranks.
    /// Neighbouring chunks of a block that travel in the same messages are replayed once: a short file may name
    /// millions of chunks in each message. Of a symmetric schedule only one chunk of each slice is replayed. That is
    /// enough, because the symmetry defines what happens to the others.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.check_indices().map_err(VerifyError::Malformed)?;
        let slots = self.slots();
        match &self.symmetry {
            None => self.written_columns(|chunk, column| self.replay(chunk, slots, column)),
            Some(symmetry) => {
                let columns = self.representative_columns(symmetry);
                let mut chunks = symmetry.representatives().zip(&columns);
                chunks.try_for_each(|(chunk, column)| self.replay(chunk, slots, column))
            }
        }
    }

    /// Visits chunks with the moves that concern them, in order: the first chunk of each block, and every chunk that has
    /// other moves than the one before it.
    fn written_columns(
        &self,
        mut visit: impl FnMut(ChunkId, &[ChunkMove]) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        let mut moves = Vec::new();
        // The first chunk of each run, the number of its move, and the end of the run.
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        let mut note = |one: ChunkMove, chunks: &ChunkSet| {
            let number = moves.len() as u32;
            runs.extend(chunks.runs().iter().map(|(start, end)| (*start as u32, number, *end as u32)));
            moves.push(one);
        };
        for (index, step) in self.steps.iter().enumerate() {
            for send in &step.sends {
                note(send_move(index, send, (send.source, send.destination)), &send.chunks);
            }
            step.locals.iter().for_each(|local| note(local_move(index, local, local.rank), &local.chunks));
        }
        runs.sort_unstable();
        let mut runs = runs.into_iter().peekable();
        let per_block = self.chunks / self.collective.blocks(self.ranks);
        let (mut chunk, mut current, mut column) = (0, Vec::<(u32, u32)>::new(), Vec::new());
        while chunk < self.chunks {
            current.retain(|(_, end)| *end as usize > chunk);
            while let Some((_, number, end)) = runs.next_if(|(start, ..)| *start as usize == chunk) {
                current.push((number, end));
            }
            current.sort_unstable();
            column.clear();
            column.extend(current.iter().map(|(number, _)| moves[*number as usize]));
            visit(chunk, &column)?;
            let changes = current.iter().map(|(_, end)| *end).chain(runs.peek().map(|(start, ..)| *start));
            let next_block = (chunk / per_block + 1) * per_block;
            chunk = changes.map(|change| change as usize).fold(next_block, usize::min);
        }
        Ok(())
    }

    /// For each slice, all moves of its first block.
    fn representative_columns(&self, symmetry: &Symmetry) -> Vec<Vec<ChunkMove>> {
        let chart = Chart::new(symmetry, self.chunks);
        let mut columns: Vec<Vec<ChunkMove>> = vec![Vec::new(); symmetry.slices.len()];
        for (index, step) in self.steps.iter().enumerate() {
            for send in &step.sends {
                let all = chart.carriers(send).into_iter().map(|pair| send_move(index, send, pair));
                columns[chart.slice_of(&send.chunks)].extend(all);
            }
            for local in &step.locals {
                let all = chart.holders(local).into_iter().map(|rank| local_move(index, local, rank));
                columns[chart.slice_of(&local.chunks)].extend(all);
            }
        }
        columns
    }

    fn replay(&self, chunk: ChunkId, slots: usize, column: &[ChunkMove]) -> Result<(), VerifyError> {
        let copied = !self.collective.reduces();
        if !copied && self.adds_parts(chunk, slots, column) {
            return Ok(());
        }
        let sets = self.ranks.saturating_mul(if copied { 1 } else { self.ranks }).saturating_mul(slots);
        if sets > MOST_SETS {
            let Schedule { ranks, .. } = self;
            let what = format!("{ranks} ranks with {slots} slots would take too much memory to verify");
            return Err(VerifyError::Malformed(what));
        }
        let origin = copied.then(|| self.collective.origin(self.ranks, self.chunks, chunk));
        let mut state = ChunkState::new(self.ranks, slots, origin);
        let mut sent = Vec::new();
        for rank in 0..self.ranks {
            if self.collective.input_block(self.ranks, self.chunks, rank, chunk).is_some() {
                state.insert(rank, rank);
            }
        }
        for moves in column.chunk_by(|a, b| a.step == b.step && a.local == b.local) {
            if moves[0].local {
                for one in moves {
                    let read = state.get(one.source as usize, one.from as usize).to_vec();
                    apply(&mut state, chunk, one, &read)?;
                }
            } else {
                check_conflicts(chunk, moves)?;
                // Read all values before writing any: the sends of a step see the state at its start.
                sent.clear();
                moves.iter().for_each(|m| sent.extend(state.get(m.source as usize, m.from as usize)));
                let mut all = moves.iter().zip(sent.chunks_exact(state.words));
                all.try_for_each(|(one, sent)| apply(&mut state, chunk, one, sent))?;
            }
        }
        self.check_end(chunk, &state)
    }

    /// Replays a chunk of an allreduce, a reduce or a reduce-scatter without sets of contributions. If every addition
    /// joins two whole parts of one division of the ranks, it adds nothing twice, and what has as many contributions as
    /// there are ranks has all. Returns false where an addition is of another kind, or something is wrong.
    fn adds_parts(&self, chunk: ChunkId, slots: usize, column: &[ChunkMove]) -> bool {
        const NONE: u32 = u32::MAX;
        let ranks = self.ranks;
        // The part that each slot of each rank holds. Rank `r` alone is part `r`; parts that were joined are gone.
        let mut held = vec![NONE; ranks * slots];
        for (rank, held) in held.iter_mut().enumerate().take(ranks) {
            if self.collective.input_block(ranks, self.chunks, rank, chunk).is_some() {
                *held = rank as u32;
            }
        }
        let mut sizes = vec![1u32; ranks];
        let mut gone = vec![false; ranks];
        let mut apply = |held: &mut [u32], one: &ChunkMove, read: u32| {
            let place = &mut held[one.into as usize * ranks + one.destination as usize];
            if read != NONE && one.action == Action::Copy {
                *place = read;
                return true;
            }
            let here = *place;
            if read == NONE || here == NONE || read == here || gone[read as usize] || gone[here as usize] {
                return false;
            }
            (gone[read as usize], gone[here as usize]) = (true, true);
            sizes.push(sizes[read as usize] + sizes[here as usize]);
            gone.push(false);
            *place = sizes.len() as u32 - 1;
            true
        };
        let at = |held: &[u32], one: &ChunkMove| held[one.from as usize * ranks + one.source as usize];
        for moves in column.chunk_by(|a, b| a.step == b.step && a.local == b.local) {
            let sent: Vec<u32> = if moves[0].local {
                Vec::new()
            } else if check_conflicts(chunk, moves).is_err() {
                return false;
            } else {
                moves.iter().map(|one| at(&held, one)).collect()
            };
            for (index, one) in moves.iter().enumerate() {
                let read = sent.get(index).copied().unwrap_or_else(|| at(&held, one));
                if !apply(&mut held, one, read) {
                    return false;
                }
            }
        }
        (0..ranks).all(|rank| {
            self.collective.output_block(ranks, self.chunks, rank, chunk).is_none()
                || self.collective.contributors(ranks, rank) == (0..ranks)
                    && held[rank] != NONE
                    && sizes[held[rank] as usize] as usize == ranks
        })
    }

    fn check_end(&self, chunk: ChunkId, state: &ChunkState) -> Result<(), VerifyError> {
        let last_step = self.steps.len().saturating_sub(1);
        let mut all = ChunkState { bits: vec![0; state.words], ranks: 1, ..*state };
        let mut inserted = 0;
        for rank in 0..self.ranks {
            if self.collective.output_block(self.ranks, self.chunks, rank, chunk).is_none() {
                continue;
            }
            match state.origin {
                Some(origin) => all.insert(0, origin),
                // They begin with rank 0, and a later rank has no fewer.
                None => {
                    let contributors = self.collective.contributors(self.ranks, rank);
                    (inserted..contributors.end).for_each(|contributor| all.insert(0, contributor));
                    inserted = contributors.end;
                }
            }
            let expected = all.get(0, 0);
            let held = state.get(rank, 0);
            if let Some(contribution) = state.difference(held, expected) {
                return Err(VerifyError::Misplaced { last_step, rank, chunk, contribution });
            }
            if let Some(contribution) = state.difference(expected, held) {
                return Err(VerifyError::Lost { last_step, rank, chunk, contribution });
            }
        }
        Ok(())
    }
}

fn send_move(step: usize, send: &Send, (source, destination): (Rank, Rank)) -> ChunkMove {
    ChunkMove {
        step: step as u32,
        local: false,
        source: source as u32,
        destination: destination as u32,
        action: send.action,
        from: send.from as u32,
        into: send.into as u32,
    }
}

fn local_move(step: usize, local: &Local, rank: Rank) -> ChunkMove {
    ChunkMove {
        step: step as u32,
        local: true,
        source: rank as u32,
        destination: rank as u32,
        action: local.action,
        from: local.from as u32,
        into: local.into as u32,
    }
}

/// Checks that no message of a step overwrites what another message of the step writes.
fn check_conflicts(chunk: ChunkId, moves: &[ChunkMove]) -> Result<(), VerifyError> {
    let mut written: Vec<(u32, u32, Action)> =
        moves.iter().map(|m| (m.destination, m.into, m.action)).collect();
    written.sort_unstable_by_key(|w| (w.0, w.1));
    let copies = |pair: &[(u32, u32, Action)]| pair[0].2 == Action::Copy || pair[1].2 == Action::Copy;
    let conflict =
        |pair: &&[(u32, u32, Action)]| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && copies(pair);
    match written.windows(2).find(conflict) {
        Some(pair) => {
            Err(VerifyError::Conflict { step: moves[0].step as usize, rank: pair[0].0 as usize, chunk })
        }
        None => Ok(()),
    }
}

fn apply(
    state: &mut ChunkState,
    chunk: ChunkId,
    one: &ChunkMove,
    read: &Contributions,
) -> Result<(), VerifyError> {
    let (step, source_rank, rank) = (one.step as usize, one.source as usize, one.destination as usize);
    let into = one.into as usize;
    if is_empty(read) {
        return Err(VerifyError::NotHeld { step, rank: source_rank, chunk, destination: rank });
    }
    match one.action {
        Action::Copy => state.copy(rank, into, read),
        Action::Reduce if is_empty(state.get(rank, into)) => {
            return Err(VerifyError::NothingToReduce { step, rank, chunk, source_rank });
        }
        Action::Reduce => {
            if let Some(contribution) = state.add(rank, into, read) {
                return Err(VerifyError::Doubled { step, rank, chunk, contribution, source_rank });
            }
        }
    }
    Ok(())
}
