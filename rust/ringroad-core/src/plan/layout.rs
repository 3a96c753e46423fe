//! Where the chunks of a schedule lie in the vectors of a call.

use std::ops::Range;

use crate::collective::{Collective, Holding};
use crate::schedule::Schedule;
use crate::units::{ChunkId, Rank};

/// How many elements the blocks of a vector have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts<'a> {
    /// As many each; for collectives without blocks, the whole vector.
    Equal(usize),
    /// As many as is said for each rank. Not for an all-to-all, whose blocks belong to two ranks.
    PerRank(&'a [usize]),
}

impl From<usize> for Counts<'_> {
    fn from(elements: usize) -> Self {
        Counts::Equal(elements)
    }
}

impl<'a> Counts<'a> {
    /// Those of each rank, where they are told, else as many each.
    pub fn of(elements: usize, per_rank: Option<&'a [usize]>) -> Counts<'a> {
        per_rank.map_or(Counts::Equal(elements), Counts::PerRank)
    }

    /// Elements in the whole vector of a rank, or `None` where they overflow.
    pub fn total(self, collective: Collective, ranks: usize) -> Option<usize> {
        match self {
            Counts::Equal(elements) => elements.checked_mul(collective.blocks_per_vector(ranks)),
            Counts::PerRank(counts) => counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count)),
        }
    }

    /// Whether there is a count for every block of the collective.
    pub fn fits(self, collective: Collective, ranks: usize) -> bool {
        match self {
            Counts::Equal(_) => true,
            Counts::PerRank(counts) => {
                counts.len() == ranks && collective.has_blocks() && collective != Collective::Alltoall
            }
        }
    }

    /// Elements in the block of a rank.
    pub fn block(self, rank: Rank) -> usize {
        match self {
            Counts::Equal(elements) => elements,
            Counts::PerRank(counts) => counts[rank],
        }
    }
}

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
    /// Which part of every chunk is meant, of how many.
    part: (usize, usize),
}

impl Layout {
    /// Parts of chunks begin at multiples of so many elements, so that they are aligned if the chunks are.
    pub(super) const GRAIN: usize = 64;

    /// The layout of a call on blocks of so many elements; there must be a count for every block.
    pub fn new<'a>(schedule: &Schedule, counts: impl Into<Counts<'a>>) -> Layout {
        let Schedule { collective, ranks, chunks, .. } = *schedule;
        let (counts, blocks) = (counts.into(), collective.blocks_per_vector(ranks));
        let mut block_starts = vec![0];
        block_starts.extend((0..blocks).scan(0, |end, block| {
            *end += counts.block(block);
            Some(*end)
        }));
        Layout {
            collective,
            ranks,
            chunks,
            chunks_per_block: collective.chunks_per_vector(ranks, chunks) / blocks,
            block_starts,
            part: (0, 1),
        }
    }

    /// The same with part number `part` of `parts` of every chunk, as if there were no others.
    pub(super) fn take_part(&mut self, part: usize, parts: usize) {
        self.part = (part, parts);
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
        let (start, len) = (cut(piece), cut(piece + 1) - cut(piece));
        let (part, parts) = self.part;
        let border = |part: usize| {
            if part == parts {
                len
            } else {
                len * part / parts / Layout::GRAIN * Layout::GRAIN
            }
        };
        start + border(part)..start + border(part + 1)
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

    /// Elements in the whole vector.
    pub fn total(&self) -> usize {
        self.len(Holding::Whole)
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
