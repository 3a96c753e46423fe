//! Where the chunks of a schedule lie in the vectors of a call.

use std::ops::Range;

use crate::collective::{Collective, Holding};
use crate::schedule::Schedule;
use crate::units::{ChunkId, Rank};

/// The division of a vector of any length into a schedule's blocks and chunks. All figures are elements.
///
/// Chunks need not be equal: a block of `n` elements in `k` chunks has its `j`-th at `n * j / k`, so that lengths
/// differ by one at most, and chunks are empty where there are fewer elements than chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    collective: Collective,
    ranks: usize,
    chunks: usize,
    chunks_per_block: usize,
    block_starts: Vec<usize>,
}

impl Layout {
    /// The layout of a call on vectors of `elements`: the whole vector (allreduce, broadcast, reduce), or one rank's
    /// block (all others: the vector then has `ranks * elements`).
    pub fn new(schedule: &Schedule, elements: usize) -> Layout {
        let Schedule { collective, ranks, chunks, .. } = *schedule;
        let blocks = collective.blocks_per_vector(ranks);
        Layout {
            collective,
            ranks,
            chunks,
            chunks_per_block: collective.chunks_per_vector(ranks, chunks) / blocks,
            block_starts: (0..=blocks).map(|b| b * elements).collect(),
        }
    }

    /// How many elements `chunk` has.
    pub fn chunk_len(&self, chunk: ChunkId) -> usize {
        // All blocks that a chunk can be part of (in an all-to-all: two) have the same length.
        let block = match self.collective {
            Collective::Alltoall => chunk / self.chunks_per_block % self.ranks,
            _ => chunk / self.chunks_per_block,
        };
        self.within(block, chunk).len()
    }

    fn within(&self, block: usize, chunk: ChunkId) -> Range<usize> {
        let start = self.block_starts[block];
        let len = self.block_starts[block + 1] - start;
        let piece = chunk % self.chunks_per_block;
        let cut = |j: usize| start + len * j / self.chunks_per_block;
        cut(piece)..cut(piece + 1)
    }

    /// Where the chunk lies in the whole vector, for the collective's block `block`, less what the holding leaves out.
    fn position(&self, holding: Holding, block: usize, chunk: ChunkId) -> usize {
        let base = match holding {
            Holding::Block(own) => self.block_starts[own],
            _ => 0,
        };
        self.within(block, chunk).start - base
    }

    /// Where `chunk` starts in the input of `rank`.
    pub fn input_position(&self, rank: Rank, chunk: ChunkId) -> Option<usize> {
        let block = self.collective.input_block(self.ranks, self.chunks, rank, chunk)?;
        Some(self.position(self.collective.input(rank), block, chunk))
    }

    /// Where `chunk` starts in the output of `rank`.
    pub fn output_position(&self, rank: Rank, chunk: ChunkId) -> Option<usize> {
        let block = self.collective.output_block(self.ranks, self.chunks, rank, chunk)?;
        Some(self.position(self.collective.output(rank), block, chunk))
    }

    fn len(&self, holding: Holding) -> usize {
        match holding {
            Holding::Nothing => 0,
            Holding::Block(own) => self.block_starts[own + 1] - self.block_starts[own],
            Holding::Whole => self.block_starts[self.block_starts.len() - 1],
        }
    }

    /// Elements in the input of `rank`.
    pub fn input_len(&self, rank: Rank) -> usize {
        self.len(self.collective.input(rank))
    }

    /// Elements in the output of `rank`.
    pub fn output_len(&self, rank: Rank) -> usize {
        self.len(self.collective.output(rank))
    }

    /// Where the smaller of the input and output of `rank` lies within the larger when a call is in place.
    pub(super) fn in_place_shift(&self, rank: Rank) -> (usize, usize) {
        match (self.collective.input(rank), self.collective.output(rank)) {
            (Holding::Block(own), Holding::Whole) => (self.block_starts[own], 0),
            (Holding::Whole, Holding::Block(own)) => (0, self.block_starts[own]),
            _ => (0, 0),
        }
    }
}
