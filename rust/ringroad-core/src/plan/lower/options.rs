//! The options of lowering, and its errors.

use std::sync::Arc;

use super::MAX_MESSAGES;
use crate::collective::Collective;
use crate::units::{ChunkId, Rank};
use crate::wire::Wire;

/// The local ranks: those whose memory this rank can read and which can read its memory. They can read each other's
/// scratch memory, and with `input` and `output` also the caller's buffers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LocalRanks {
    /// For each rank, whether it is local. Empty where no rank is.
    pub ranks: Arc<[bool]>,
    /// The most bytes in one message between local ranks, as [`LowerOptions::segment`].
    pub segment: usize,
    /// Whether local ranks can also read [`Buffer::Input`](crate::plan::Buffer::Input).
    pub input: bool,
    /// Whether local ranks can also read [`Buffer::Output`](crate::plan::Buffer::Output).
    pub output: bool,
    /// The fewest bytes of a message that receivers read in place. Shorter messages are copied to scratch memory first,
    /// so that the sender's call need not wait until its peers have read them.
    pub zero_copy: usize,
    /// The fewest bytes of a message that local ranks copy out of a buffer that they cannot map; `None` where they
    /// cannot.
    pub copies: Option<usize>,
}

impl LocalRanks {
    pub(super) fn has(&self, rank: Rank) -> bool {
        self.ranks.get(rank).copied().unwrap_or(false)
    }
}

/// The options of lowering.
///
/// Message sizes depend on `segment`, `pack`, `part`, `wire` and `local.segment`, so all ranks of a call must use the same
/// values. Two ranks must agree whether they are local to each other. The other options may differ between ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LowerOptions {
    /// Whether input and output share memory. The smaller of them is at its natural place within the larger. The plan
    /// calls both [`Buffer::Output`](crate::plan::Buffer::Output) and does not use
    /// [`Buffer::Input`](crate::plan::Buffer::Input). Without effect on a rank that has only one of them.
    pub in_place: bool,
    /// Whether to multiply this rank's data by the call's factor first.
    pub premultiply: bool,
    /// Whether to divide the result by the number of ranks at the end.
    pub average: bool,
    /// The most bytes in one message (rounded to whole elements). Longer messages are cut, so that reduction overlaps
    /// transfer.
    pub segment: usize,
    /// Scattered runs of chunks are packed into one message until the message has more than this many bytes.
    pub pack: usize,
    /// How many bytes of scratch memory messages that are reduced cycle through.
    pub window: usize,
    /// The local ranks.
    pub local: LocalRanks,
    /// About the most bytes of the vector that are processed at a time. A longer vector is processed in parts, one
    /// after the other, that use the same scratch memory, which so stays in the caches.
    pub part: usize,
    /// Whether parts alternate between two areas of scratch memory, so that a part can start while other ranks still
    /// read that of the part before. Otherwise all parts use one area, of which more stays in the caches.
    pub two_areas: bool,
    /// The format of the elements in messages; `None`: as they are. The elements must be floating-point numbers, which
    /// the collective copies or adds up.
    pub wire: Option<Wire>,
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
            local: LocalRanks::default(),
            part: usize::MAX,
            two_areas: true,
            wire: None,
        }
    }
}

/// Why a schedule cannot be lowered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// The schedule does not have this rank.
    #[error("rank {rank} is not one of the schedule's {ranks} ranks")]
    NoSuchRank {
        /// The requested rank.
        rank: Rank,
        /// How many ranks the schedule has.
        ranks: usize,
    },
    /// The vector's size in bytes overflows.
    #[error("a block of {elements} elements of {element_bytes} bytes is too large for this machine")]
    TooLarge {
        /// How many elements a block, or the vector, has.
        elements: usize,
        /// How many bytes an element has.
        element_bytes: usize,
    },
    /// The counts are not one for every block.
    #[error("{collective} over {ranks} ranks cannot have {counts} counts; give one for each rank's block, or in an alltoall for each pair of ranks")]
    Counts {
        /// The collective.
        collective: Collective,
        /// How many ranks there are.
        ranks: usize,
        /// How many counts there are.
        counts: usize,
    },
    /// More messages between two ranks than tags can number.
    #[error(
        "the schedule sends more than {MAX_MESSAGES} messages from one rank to rank {peer}; use one with fewer steps"
    )]
    TooManyMessages {
        /// The receiver or sender.
        peer: Rank,
    },
    /// The schedule uses data that the rank does not hold. Verified schedules never do.
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
