//! How to lower, and why that may be impossible.

use std::sync::Arc;

use super::MAX_MESSAGES;
use crate::collective::Collective;
use crate::units::{ChunkId, Rank};

/// The ranks whose memory this rank can read, as they can read its own: its scratch memory, and where said more.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Near {
    /// For each rank, whether it is one. None are where this is empty.
    pub ranks: Arc<[bool]>,
    /// The most bytes in one message between such ranks, as [`LowerOptions::segment`].
    pub segment: usize,
    /// They can also read [`Buffer::Input`](crate::plan::Buffer::Input).
    pub input: bool,
    /// They can also read [`Buffer::Output`](crate::plan::Buffer::Output).
    pub output: bool,
    /// Shorter messages are copied to scratch memory first, even where they can be read where they are: then the call
    /// need not wait until that has been done.
    pub lend: usize,
    /// From how many bytes on such ranks copy out of memory that they cannot read otherwise.
    pub copies: Option<usize>,
}

impl Near {
    pub(super) fn has(&self, rank: Rank) -> bool {
        self.ranks.get(rank).copied().unwrap_or(false)
    }
}

/// How to lower.
///
/// Message sizes depend on `segment`, `pack`, `part` and `near`'s segment, so all ranks of a call must use the same; two ranks
/// must agree whether they are near each other. The other fields are each rank's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LowerOptions {
    /// Input and output share memory: the smaller one is at its natural place within the larger, which the plan calls
    /// [`Buffer::Output`](crate::plan::Buffer::Output); [`Buffer::Input`](crate::plan::Buffer::Input) is not used. Without effect on a rank that has only one of them.
    pub in_place: bool,
    /// Multiply this rank's data by the call's factor first.
    pub premultiply: bool,
    /// Divide the result by the number of ranks last.
    pub average: bool,
    /// The most bytes in one message (rounded to whole elements). Longer ones are cut, so that reduction overlaps transfer.
    pub segment: usize,
    /// Scattered chunks of up to this many bytes travel together, packed; larger ones apart.
    pub pack: usize,
    /// Bytes of scratch memory that receives to be reduced cycle through.
    pub window: usize,
    /// Whose memory can be read.
    pub near: Near,
    /// The most bytes of the vector at a time, or about as many: more are taken one part after the other, by the same
    /// scratch memory, which stays in the caches so.
    pub part: usize,
    /// Parts take turns with two areas of scratch memory, so that one can begin while others still read what belongs to
    /// the one before. Else all use one, of which more stays in the caches.
    pub two_areas: bool,
}

impl Default for LowerOptions {
    fn default() -> Self {
        LowerOptions {
            in_place: false,
            premultiply: false,
            average: false,
            segment: 512 << 10,
            pack: 32 << 10,
            window: 4 << 20,
            near: Near::default(),
            part: usize::MAX,
            two_areas: true,
        }
    }
}

/// Why a schedule cannot be lowered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// No such rank.
    #[error("rank {rank} is not one of the schedule's {ranks} ranks")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many there are.
        ranks: usize,
    },
    /// The vector's size in bytes overflows.
    #[error("a block of {elements} elements of {element_bytes} bytes is too large for this machine")]
    TooLarge {
        /// Elements in a block, or in the vector.
        elements: usize,
        /// Bytes in each.
        element_bytes: usize,
    },
    /// Not one count for every block.
    #[error("{collective} over {ranks} ranks cannot have {counts} counts; give one for each rank's block, or in an alltoall for each pair of ranks")]
    Counts {
        /// The collective.
        collective: Collective,
        /// How many ranks.
        ranks: usize,
        /// How many counts.
        counts: usize,
    },
    /// More messages between two ranks than tags can tell apart.
    #[error(
        "the schedule sends more than {MAX_MESSAGES} messages from one rank to rank {peer}; use one with fewer steps"
    )]
    TooManyMessages {
        /// The receiver or sender.
        peer: Rank,
    },
    /// The schedule uses data that is not there. Verified schedules never do.
    #[error("step {step}: rank {rank} needs chunk {chunk} but does not hold it; verify the schedule first")]
    NotHeld {
        /// The step.
        step: usize,
        /// The rank.
        rank: Rank,
        /// The chunk.
        chunk: ChunkId,
    },
}
