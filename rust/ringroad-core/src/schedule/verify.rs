//! The counting verifier: replays a schedule symbolically and proves that every rank ends with what it must.
//!
//! A chunk at a rank holds a multiset of contributions, one per rank whose data went in. Since a contribution held
//! twice is already an error, sets with a disjointness check at every reduction count exactly. (A verifier that joins
//! sets without the check accepts a block that is added twice.)

use std::fmt;

use super::{Action, Schedule};
use crate::units::{ChunkId, Rank};

/// A set of ranks whose data went into a chunk.
#[derive(Clone, PartialEq, Eq)]
struct Contributions {
    words: Vec<u64>,
}

impl Contributions {
    fn empty(ranks: usize) -> Self {
        Contributions { words: vec![0; ranks.div_ceil(64)] }
    }

    fn all(ranks: usize) -> Self {
        let mut set = Self::empty(ranks);
        (0..ranks).for_each(|r| set.insert(r));
        set
    }

    fn insert(&mut self, rank: Rank) {
        self.words[rank / 64] |= 1 << (rank % 64);
    }

    fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Adds `other`; returns a rank that both hold, if there is one.
    fn add(&mut self, other: &Contributions) -> Option<Rank> {
        let mut doubled = None;
        for (i, (a, b)) in self.words.iter_mut().zip(&other.words).enumerate() {
            if *a & b != 0 && doubled.is_none() {
                doubled = Some(i * 64 + (*a & b).trailing_zeros() as usize);
            }
            *a |= b;
        }
        doubled
    }

    /// The ranks, ascending.
    fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        (0..self.words.len() * 64).filter(|r| self.words[r / 64] >> (r % 64) & 1 == 1)
    }
}

impl fmt::Debug for Contributions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Why a schedule does not perform its collective. Steps count from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Ranks or chunks that do not exist.
    #[error("schedule is malformed: {0}")]
    Malformed(String),
    /// A rank sends what it does not have.
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
    /// A reduction into nothing: the receiver has none of the chunk to reduce with. A copy is meant.
    #[error("step {step}: rank {rank} reduces into chunk {chunk}, of which it holds nothing, what comes from rank {source_rank}")]
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
        /// Whose data is doubled.
        contribution: Rank,
        /// The sender.
        source_rank: Rank,
    },
    /// A copy and another message write the same chunk in one step, so that the result depends on chance.
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
        /// Whose data is missing.
        contribution: Rank,
    },
    /// A required chunk ends with data that does not belong there.
    #[error("after step {last_step}: chunk {chunk} of rank {rank} holds a contribution of rank {contribution} that is none of it")]
    Misplaced {
        /// The last step.
        last_step: usize,
        /// The rank that ends with it.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
        /// Whose data is out of place.
        contribution: Rank,
    },
}

/// What one chunk's column of the schedule does: `(step, source, destination, action)` in order.
type Column = Vec<(u32, u32, u32, Action)>;

impl Schedule {
    /// Proves that the schedule performs its collective, or says where it does not.
    ///
    /// Chunks do not influence each other, so each is replayed alone: memory is one state per rank.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.check_indices().map_err(VerifyError::Malformed)?;
        let mut columns: Vec<Column> = vec![Vec::new(); self.chunks];
        for (step, sends) in self.steps.iter().enumerate() {
            for send in &sends.sends {
                for chunk in send.chunks.iter() {
                    columns[chunk].push((
                        step as u32,
                        send.source as u32,
                        send.destination as u32,
                        send.action,
                    ));
                }
            }
        }
        columns.iter().enumerate().try_for_each(|(chunk, column)| self.verify_chunk(chunk, column))
    }

    fn initial(&self, rank: Rank, chunk: ChunkId) -> Contributions {
        let mut set = Contributions::empty(self.ranks);
        if self.collective.input_block(self.ranks, self.chunks, rank, chunk).is_some() {
            set.insert(rank);
        }
        set
    }

    fn verify_chunk(&self, chunk: ChunkId, column: &Column) -> Result<(), VerifyError> {
        let mut state: Vec<Contributions> = (0..self.ranks).map(|r| self.initial(r, chunk)).collect();
        for moves in column.chunk_by(|a, b| a.0 == b.0) {
            let step = moves[0].0 as usize;
            // Read before anything is written: all sends of a step see the state at its beginning.
            let sent: Vec<Contributions> = moves.iter().map(|m| state[m.1 as usize].clone()).collect();
            for (i, (&(_, source, destination, action), sent)) in moves.iter().zip(sent).enumerate() {
                let (source_rank, rank) = (source as usize, destination as usize);
                if sent.is_empty() {
                    return Err(VerifyError::NotHeld { step, rank: source_rank, chunk, destination: rank });
                }
                let meets_copy = |m: &(u32, u32, u32, Action)| {
                    m.2 == destination && (action == Action::Copy || m.3 == Action::Copy)
                };
                if moves[..i].iter().any(meets_copy) {
                    return Err(VerifyError::Conflict { step, rank, chunk });
                }
                match action {
                    Action::Copy => state[rank] = sent,
                    Action::Reduce if state[rank].is_empty() => {
                        return Err(VerifyError::NothingToReduce { step, rank, chunk, source_rank });
                    }
                    Action::Reduce => {
                        if let Some(contribution) = state[rank].add(&sent) {
                            return Err(VerifyError::Doubled {
                                step,
                                rank,
                                chunk,
                                contribution,
                                source_rank,
                            });
                        }
                    }
                }
            }
        }
        self.check_end(chunk, &state)
    }

    fn check_end(&self, chunk: ChunkId, state: &[Contributions]) -> Result<(), VerifyError> {
        let last_step = self.steps.len().saturating_sub(1);
        let expected = if self.collective.reduces() {
            Contributions::all(self.ranks)
        } else {
            let mut origin = Contributions::empty(self.ranks);
            origin.insert(self.collective.origin(self.ranks, self.chunks, chunk));
            origin
        };
        for (rank, held) in state.iter().enumerate() {
            if self.collective.output_block(self.ranks, self.chunks, rank, chunk).is_none()
                || *held == expected
            {
                continue;
            }
            let differs =
                |a: &Contributions, b: &Contributions| a.iter().find(|r| !b.iter().any(|s| s == *r));
            if let Some(contribution) = differs(held, &expected) {
                return Err(VerifyError::Misplaced { last_step, rank, chunk, contribution });
            }
            if let Some(contribution) = differs(&expected, held) {
                return Err(VerifyError::Lost { last_step, rank, chunk, contribution });
            }
        }
        Ok(())
    }
}
