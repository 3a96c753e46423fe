//! The words for indices and quantities. Quantities are SI: bytes and seconds, never multiples of them.

/// A process of the group, `0..ranks`.
pub type Rank = usize;
/// A vertex of a [`crate::Topology`]: ranks come first, then switches.
pub type NodeId = usize;
/// An edge of a [`crate::Topology`].
pub type LinkId = usize;
/// A piece of the vector, `0..Schedule::chunks`.
pub type ChunkId = usize;
/// An outlet of a rank. On tori port `2d` leads along dimension `d` upwards and `2d + 1` downwards, so that
/// `port ^ 1` is the opposite direction.
pub type Port = usize;
/// One of the places in which a rank keeps a value of a chunk. Slot 0 is the vector itself: at first the input, at the
/// end the result.
pub type Slot = usize;
/// Bytes.
pub type Bytes = u64;
/// Seconds.
pub type Seconds = f64;
