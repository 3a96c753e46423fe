//! The positions of a schedule's chunks in the vectors of a call.

use std::ops::Range;

use crate::collective::{Collective, Holding};
use crate::schedule::Schedule;
use crate::units::{ChunkId, Rank};

/// How many elements the blocks of a vector have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts<'a> {
    /// All blocks have this many; for collectives without blocks, the whole vector has.
    Equal(usize),
    /// One count for each rank's block; in an all-to-all one for each pair of ranks, by source, then by target.
    PerBlock(&'a [usize]),
}

impl From<usize> for Counts<'_> {
    fn from(elements: usize) -> Self {
        Counts::Equal(elements)
    }
}

impl<'a> Counts<'a> {
    /// The counts `per_block` where they are given, otherwise `elements` for each block.
    pub fn from_elements(elements: usize, per_block: Option<&'a [usize]>) -> Counts<'a> {
        per_block.map_or(Counts::Equal(elements), Counts::PerBlock)
    }

    /// How many elements the whole vector of a rank has, the longest where they differ; `None` where that overflows.
    pub fn total(self, collective: Collective, ranks: usize) -> Option<usize> {
        match self {
            Counts::Equal(elements) => elements.checked_mul(collective.blocks_per_vector(ranks)),
            Counts::PerBlock(counts) if collective == Collective::Alltoall => {
                // The sum over all ranks must not overflow either.
                sum(counts.iter())?;
                (0..ranks).map(|rank| self.pairs(ranks, rank)?.into_iter().max()).try_fold(0, larger)
            }
            Counts::PerBlock(counts) => sum(counts.iter()),
        }
    }

    /// How many elements the input and the output of a rank have; `None` where that overflows.
    pub fn lengths(self, collective: Collective, ranks: usize, rank: Rank) -> Option<[usize; 2]> {
        if let (Counts::PerBlock(_), Collective::Alltoall) = (self, collective) {
            return self.pairs(ranks, rank);
        }
        let length = |holding| match holding {
            Holding::Nothing => Some(0),
            Holding::Block(own) => Some(self.block(own)),
            Holding::Whole => self.total(collective, ranks),
        };
        Some([length(collective.input(rank))?, length(collective.output(rank))?])
    }

    /// How many elements a rank sends and receives in an all-to-all whose blocks differ; `None` where that overflows.
    fn pairs(self, ranks: usize, rank: Rank) -> Option<[usize; 2]> {
        let Counts::PerBlock(counts) = self else { return None };
        let sent = &counts[rank * ranks..(rank + 1) * ranks];
        Some([sum(sent.iter())?, sum(counts.iter().skip(rank).step_by(ranks))?])
    }

    /// Whether there is a count for every block of the collective.
    pub fn fits(self, collective: Collective, ranks: usize) -> bool {
        match self {
            Counts::Equal(_) => true,
            Counts::PerBlock(counts) if collective == Collective::Alltoall => {
                Some(counts.len()) == ranks.checked_mul(ranks)
            }
            Counts::PerBlock(counts) => counts.len() == ranks && collective.has_blocks(),
        }
    }

    /// How many elements a block has.
    pub fn block(self, block: usize) -> usize {
        match self {
            Counts::Equal(elements) => elements,
            Counts::PerBlock(counts) => counts[block],
        }
    }
}

fn sum<'a>(mut counts: impl Iterator<Item = &'a usize>) -> Option<usize> {
    counts.try_fold(0usize, |sum, count| sum.checked_add(*count))
}

fn larger(most: usize, other: Option<usize>) -> Option<usize> {
    other.map(|other| most.max(other))
}

/// The division of a vector of any length into a schedule's blocks and chunks. All positions and lengths are in
/// elements.
///
/// Chunks need not be equal: in a block of `n` elements and `k` chunks, chunk `j` starts at `n * j / k`. So lengths
/// differ by at most one, and some chunks are empty where there are fewer elements than chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    collective: Collective,
    ranks: usize,
    chunks: usize,
    chunks_per_block: usize,
    /// Where each block starts in the whole vector, and where the last ends. In an all-to-all whose blocks differ:
    /// where each block starts in the inputs of all ranks, laid out one after the other.
    block_starts: Vec<usize>,
    /// In an all-to-all whose blocks differ, where each block starts in the outputs of all ranks.
    output_starts: Option<Vec<usize>>,
    /// The number of the part of every chunk that this layout describes, and how many parts there are.
    part: (usize, usize),
}

impl Layout {
    /// Parts of chunks start at multiples of this many elements, so that they are aligned if the chunks are.
    pub(super) const GRAIN: usize = 64;

    /// The layout of a call on blocks with these counts of elements. There must be a count for every block.
    pub fn new<'a>(schedule: &Schedule, counts: impl Into<Counts<'a>>) -> Layout {
        let Schedule { collective, ranks, chunks, .. } = *schedule;
        let (counts, blocks) = (counts.into(), collective.blocks_per_vector(ranks));
        let starts = |blocks: &mut dyn Iterator<Item = usize>| {
            let ends = blocks.scan(0, |end, block| {
                *end += counts.block(block);
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect::<Vec<usize>>()
        };
        let pairs = matches!(counts, Counts::PerBlock(_)) && collective == Collective::Alltoall;
        let block_starts = starts(&mut (0..if pairs { ranks * ranks } else { blocks }));
        let transposed = |place: usize| place % ranks * ranks + place / ranks;
        let output_starts = pairs.then(|| starts(&mut (0..ranks * ranks).map(transposed)));
        Layout {
            collective,
            ranks,
            chunks,
            chunks_per_block: collective.chunks_per_vector(ranks, chunks) / blocks,
            block_starts,
            output_starts,
            part: (0, 1),
        }
    }

    /// Restricts the layout to part number `part` of `parts` of every chunk.
    pub(super) fn take_part(&mut self, part: usize, parts: usize) {
        self.part = (part, parts);
    }

    /// How many elements `chunk` has.
    pub fn chunk_len(&self, chunk: ChunkId) -> usize {
        let block = match self.collective {
            // The two blocks that contain the chunk, one at each rank of the pair, have the same length.
            Collective::Alltoall if self.output_starts.is_none() => {
                chunk / self.chunks_per_block % self.ranks
            }
            _ => chunk / self.chunks_per_block,
        };
        self.within(&self.block_starts, block, chunk).len()
    }

    /// The range of the chunk's part, for a chunk of `block`, where blocks start at `starts`.
    fn within(&self, starts: &[usize], block: usize, chunk: ChunkId) -> Range<usize> {
        let start = starts[block];
        let len = starts[block + 1] - start;
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

    /// Where a chunk of `block` starts in the buffer of a rank with this holding.
    fn position(&self, holding: Holding, block: usize, chunk: ChunkId) -> usize {
        let base = match holding {
            Holding::Block(own) => self.block_starts[own],
            _ => 0,
        };
        self.within(&self.block_starts, block, chunk).start - base
    }

    /// Where a chunk starts in the input or output of `rank`, in an all-to-all whose blocks differ. `starts` are those
    /// of the inputs or outputs of all ranks.
    fn position_of_pair(&self, starts: &[usize], rank: Rank, peer: Rank, chunk: ChunkId) -> usize {
        let first = rank * self.ranks;
        self.within(starts, first + peer, chunk).start - starts[first]
    }

    /// Where `chunk` starts in the input of `rank`; `None` where the input does not contain it.
    pub fn input_position(&self, rank: Rank, chunk: ChunkId) -> Option<usize> {
        let block = self.collective.input_block(self.ranks, self.chunks, rank, chunk)?;
        if self.output_starts.is_some() {
            return Some(self.position_of_pair(&self.block_starts, rank, block, chunk));
        }
        Some(self.position(self.collective.input(rank), block, chunk))
    }

    /// Where `chunk` starts in the output of `rank`; `None` where the output does not contain it.
    pub fn output_position(&self, rank: Rank, chunk: ChunkId) -> Option<usize> {
        let block = self.collective.output_block(self.ranks, self.chunks, rank, chunk)?;
        if let Some(starts) = &self.output_starts {
            return Some(self.position_of_pair(starts, rank, block, chunk));
        }
        Some(self.position(self.collective.output(rank), block, chunk))
    }

    fn len(&self, holding: Holding) -> usize {
        match holding {
            Holding::Nothing => 0,
            Holding::Block(own) => self.block_starts[own + 1] - self.block_starts[own],
            Holding::Whole => self.block_starts[self.block_starts.len() - 1],
        }
    }

    fn len_of_pairs(&self, starts: &[usize], rank: Rank) -> usize {
        starts[(rank + 1) * self.ranks] - starts[rank * self.ranks]
    }

    /// How many elements the whole vector has, the longest where ranks' vectors differ.
    pub fn total(&self) -> usize {
        if self.output_starts.is_none() {
            return self.len(Holding::Whole);
        }
        let lengths = (0..self.ranks).map(|rank| self.input_len(rank).max(self.output_len(rank)));
        lengths.max().unwrap_or(0)
    }

    /// How many elements the input of `rank` has.
    pub fn input_len(&self, rank: Rank) -> usize {
        match self.output_starts {
            Some(_) => self.len_of_pairs(&self.block_starts, rank),
            None => self.len(self.collective.input(rank)),
        }
    }

    /// How many elements the output of `rank` has.
    pub fn output_len(&self, rank: Rank) -> usize {
        match &self.output_starts {
            Some(starts) => self.len_of_pairs(starts, rank),
            None => self.len(self.collective.output(rank)),
        }
    }

    /// Where the input and the output of `rank` start in their common memory when a call is in place.
    pub(super) fn in_place_shift(&self, rank: Rank) -> (usize, usize) {
        match (self.collective.input(rank), self.collective.output(rank)) {
            (Holding::Block(own), Holding::Whole) => (self.block_starts[own], 0),
            (Holding::Whole, Holding::Block(own)) => (0, self.block_starts[own]),
            _ => (0, 0),
        }
    }
}
