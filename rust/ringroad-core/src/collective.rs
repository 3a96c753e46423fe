//! What each rank holds before a collective and must hold after it.
//!
//! A schedule divides the vector into equal chunks. For collectives with a block per rank (reduce-scatter, allgather,
//! gather, scatter) chunks are grouped: with `k` chunks per block, chunk `b * k + j` is piece `j` of rank `b`'s block.
//! In an all-to-all the chunk `(s * ranks + t) * k + j` is piece `j` of the block that `s` sends to `t`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::{did_you_mean, nearest, ChunkId, Rank};

/// A collective operation. A barrier is an [`Collective::Allreduce`] of one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Collective {
    /// Every rank ends with the reduction of all vectors.
    Allreduce,
    /// Rank `r` ends with block `r` of the reduction of all vectors.
    ReduceScatter,
    /// Every rank ends with the concatenation of all ranks' blocks.
    Allgather,
    /// Every rank ends with the root's vector.
    Broadcast {
        /// The rank whose vector all others receive.
        root: Rank,
    },
    /// The root ends with the reduction of all vectors.
    Reduce {
        /// The rank that ends with the result.
        root: Rank,
    },
    /// The root ends with the concatenation of all ranks' blocks.
    Gather {
        /// The rank that ends with the result.
        root: Rank,
    },
    /// Rank `r` ends with block `r` of the root's vector.
    Scatter {
        /// The rank whose vector is distributed.
        root: Rank,
    },
    /// Rank `t` ends with the concatenation over `s` of the blocks that `s` holds for `t`.
    Alltoall,
    /// Rank `r` ends with the reduction of the vectors of the ranks 0 to `r`.
    Scan,
    /// Rank `r` ends with the reduction of the vectors of the ranks 0 to `r - 1`, rank 0 with nothing.
    Exscan,
}

/// Which part of the vector a rank holds before or after a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// No data.
    Nothing,
    /// One block of the vector.
    Block(usize),
    /// The whole vector.
    Whole,
}

impl Collective {
    /// All collectives, with root 0 where there is a root.
    pub const ALL: [Collective; 10] = [
        Collective::Allreduce,
        Collective::ReduceScatter,
        Collective::Allgather,
        Collective::Broadcast { root: 0 },
        Collective::Reduce { root: 0 },
        Collective::Gather { root: 0 },
        Collective::Scatter { root: 0 },
        Collective::Alltoall,
        Collective::Scan,
        Collective::Exscan,
    ];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Allreduce => "allreduce",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Allgather => "allgather",
            Collective::Broadcast { .. } => "broadcast",
            Collective::Reduce { .. } => "reduce",
            Collective::Gather { .. } => "gather",
            Collective::Scatter { .. } => "scatter",
            Collective::Alltoall => "alltoall",
            Collective::Scan => "scan",
            Collective::Exscan => "exscan",
        }
    }

    /// The root, where the collective has one.
    pub fn root(self) -> Option<Rank> {
        match self {
            Collective::Broadcast { root }
            | Collective::Reduce { root }
            | Collective::Gather { root }
            | Collective::Scatter { root } => Some(root),
            _ => None,
        }
    }

    /// The same collective with another root; unchanged where it has no root.
    pub fn with_root(self, root: Rank) -> Collective {
        match self {
            Collective::Broadcast { .. } => Collective::Broadcast { root },
            Collective::Reduce { .. } => Collective::Reduce { root },
            Collective::Gather { .. } => Collective::Gather { root },
            Collective::Scatter { .. } => Collective::Scatter { root },
            other => other,
        }
    }

    /// Whether the collective reduces contributions of several ranks.
    pub fn reduces(self) -> bool {
        matches!(self, Collective::Allreduce | Collective::ReduceScatter | Collective::Reduce { .. })
            || self.is_prefix()
    }

    /// Whether every rank gets the reduction of the ranks before it, each another one.
    pub fn is_prefix(self) -> bool {
        matches!(self, Collective::Scan | Collective::Exscan)
    }

    /// The ranks whose vectors are reduced to the result of `rank`, in a collective that reduces.
    pub fn contributors(self, ranks: usize, rank: Rank) -> Range<Rank> {
        match self {
            Collective::Scan => 0..rank + 1,
            Collective::Exscan => 0..rank,
            _ => 0..ranks,
        }
    }

    /// Whether the vector consists of one block per rank.
    pub fn has_blocks(self) -> bool {
        !self.is_prefix()
            && !matches!(
                self,
                Collective::Allreduce | Collective::Broadcast { .. } | Collective::Reduce { .. }
            )
    }

    /// How many blocks one rank's vector has: `ranks`, or 1 where the whole vector is a single block.
    pub fn blocks_per_vector(self, ranks: usize) -> usize {
        if self.has_blocks() {
            ranks
        } else {
            1
        }
    }

    /// How many blocks the chunks of a schedule form in all: in an all-to-all one for every pair of ranks, otherwise
    /// those of one vector.
    pub fn blocks(self, ranks: usize) -> usize {
        if self == Collective::Alltoall {
            ranks.saturating_mul(ranks)
        } else {
            self.blocks_per_vector(ranks)
        }
    }

    /// What `rank` holds before the collective.
    pub fn input(self, rank: Rank) -> Holding {
        match self {
            Collective::Allreduce
            | Collective::ReduceScatter
            | Collective::Reduce { .. }
            | Collective::Alltoall
            | Collective::Scan
            | Collective::Exscan => Holding::Whole,
            Collective::Allgather | Collective::Gather { .. } => Holding::Block(rank),
            Collective::Broadcast { root } | Collective::Scatter { root } => {
                if rank == root {
                    Holding::Whole
                } else {
                    Holding::Nothing
                }
            }
        }
    }

    /// What `rank` holds after the collective.
    pub fn output(self, rank: Rank) -> Holding {
        match self {
            Collective::Allreduce
            | Collective::Allgather
            | Collective::Broadcast { .. }
            | Collective::Alltoall
            | Collective::Scan => Holding::Whole,
            Collective::Exscan if rank > 0 => Holding::Whole,
            Collective::Exscan => Holding::Nothing,
            Collective::ReduceScatter | Collective::Scatter { .. } => Holding::Block(rank),
            Collective::Reduce { root } | Collective::Gather { root } => {
                if rank == root {
                    Holding::Whole
                } else {
                    Holding::Nothing
                }
            }
        }
    }

    /// How many chunks form one rank's vector, in a schedule with `chunks` chunks.
    pub fn chunks_per_vector(self, ranks: usize, chunks: usize) -> usize {
        if self == Collective::Alltoall {
            chunks / ranks
        } else {
            chunks
        }
    }

    /// The block of `rank`'s input vector that contains `chunk`, or `None` where `rank` does not hold the chunk at the
    /// start. Collectives without blocks have the single block 0.
    pub fn input_block(self, ranks: usize, chunks: usize, rank: Rank, chunk: ChunkId) -> Option<usize> {
        if self == Collective::Alltoall {
            let (source, target) = pair(ranks, chunks, chunk);
            return (source == rank).then_some(target);
        }
        self.block_within(self.input(rank), ranks, chunks, chunk)
    }

    /// As [`Collective::input_block`], for the output vector.
    pub fn output_block(self, ranks: usize, chunks: usize, rank: Rank, chunk: ChunkId) -> Option<usize> {
        if self == Collective::Alltoall {
            let (source, target) = pair(ranks, chunks, chunk);
            return (target == rank).then_some(source);
        }
        self.block_within(self.output(rank), ranks, chunks, chunk)
    }

    fn block_within(self, holding: Holding, ranks: usize, chunks: usize, chunk: ChunkId) -> Option<usize> {
        let block = if self.has_blocks() { chunk / (chunks / ranks) } else { 0 };
        match holding {
            Holding::Nothing => None,
            Holding::Block(own) => (own == block).then_some(block),
            Holding::Whole => Some(block),
        }
    }

    /// The rank that holds `chunk` at the start, in a collective that does not reduce; meaningless in one that does.
    pub fn origin(self, ranks: usize, chunks: usize, chunk: ChunkId) -> Rank {
        match self {
            Collective::Allgather | Collective::Gather { .. } => chunk / (chunks / ranks),
            Collective::Alltoall => pair(ranks, chunks, chunk).0,
            other => other.root().unwrap_or(0),
        }
    }
}

/// The source and the target of a chunk of an all-to-all.
fn pair(ranks: usize, chunks: usize, chunk: ChunkId) -> (Rank, Rank) {
    let block = chunk / (chunks / (ranks * ranks));
    (block / ranks, block % ranks)
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.root() {
            Some(root) => write!(f, " (root {root})"),
            None => Ok(()),
        }
    }
}

/// Whether `text` names `name`: case does not matter, and `-` and `_` are the same.
pub(crate) fn is_name(text: &str, name: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    text == name || text.len() == name.len() && text.bytes().map(plain).eq(name.bytes().map(plain))
}

/// A text that names no collective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown collective {name:?}; {meant}one of: {all}", name = .0, meant = did_you_mean(nearest(.0, names())), all = names().collect::<Vec<_>>().join(", "))]
pub struct UnknownCollective(pub String);

fn names() -> impl Iterator<Item = &'static str> {
    Collective::ALL.into_iter().map(Collective::name)
}

impl FromStr for Collective {
    type Err = UnknownCollective;

    /// Reads a name of any case, with or without `_` and `-` (torch writes all_reduce), or MPI's bcast; the root is 0.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let letters = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
        let wanted = match letters(text).as_str() {
            "bcast" => "broadcast".to_owned(),
            other => other.to_owned(),
        };
        let found = Collective::ALL.into_iter().find(|collective| letters(collective.name()) == wanted);
        found.ok_or_else(|| UnknownCollective(text.to_owned()))
    }
}
