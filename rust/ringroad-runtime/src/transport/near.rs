//! What ranks of a host can do beyond sending copies: read each other's memory.

use std::sync::Arc;

use ringroad_core::{Port, Rank};

use super::shared::Pool;
use super::{Posted, RequestId, Tag, TransportError};
use crate::buffer::Region;
use crate::cache::CacheMode;

/// A message that can be read where its sender left it.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its bytes, in the sender's memory: nobody may write them.
    pub region: Region,
    /// Whose.
    pub(crate) peer: Rank,
    /// Who uses its memory again.
    pub(crate) returns: Returns,
}

/// Who uses memory again that has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// The sender, who counts its messages to this rank.
    ToSender(u64),
    /// The transport that it came by.
    ToTransport,
    /// Nobody.
    Nowhere,
}

/// What a transport can do for *near* ranks: each of them can read memory of the other.
///
/// Between near ranks a message is its place, which the receiver may read there ([`NearMemory::expect`]) instead of having
/// it copied.
pub trait NearMemory {
    /// For each rank whether it is near.
    fn ranks(&mut self) -> Arc<[bool]>;

    /// The memory that near ranks can read.
    fn pool(&mut self) -> Arc<Pool>;

    /// Whether near ranks copy long messages out of this rank's private memory.
    fn copies_private(&mut self) -> bool;

    /// Whether what this rank writes reaches a near rank through a cache of both; `None` for others.
    fn distance(&mut self, peer: Rank) -> Option<CacheMode>;

    /// As [`send`](super::Transport::send) to a near rank, of a source that stays as it is for as long as somebody holds the
    /// region: the send may end before the peer has read it.
    fn send_zero_copy(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError>;

    /// Waits for a message of `bytes` bytes from `tag.source`, a near rank, without moving it: it comes as
    /// [`Posted::Arrived`] or [`Event::Arrived`](super::Event::Arrived).
    fn expect(&mut self, tag: Tag, bytes: usize, request: RequestId) -> Result<Posted, TransportError>;

    /// Tells the sender that its memory has been read.
    fn release(&mut self, arrived: Arrived);

    /// Spins until a message of `tag.source`, a near rank, has come, for so short a time that nothing else could be done
    /// meanwhile.
    fn spin(&mut self, tag: Tag);

    /// Lets go of regions that near ranks have read.
    fn reclaim(&mut self);

    /// Whether something waits to be sent that no call in flight stands for.
    fn has_queued(&mut self) -> bool;
}
