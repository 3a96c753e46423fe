//! Operations between local ranks, which read each other's memory.

use std::sync::Arc;

use ringroad_core::{Port, Rank};

use super::shared::Pool;
use super::{Posted, RequestId, Tag, TransportError};
use crate::os::machine::cache::CacheMode;
use crate::transport::buffer::Region;

/// A message that can be read where its sender left it.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The message's bytes, in the sender's memory. They may only be read.
    pub region: Region,
    /// The sender.
    pub(crate) peer: Rank,
    /// The owner, which may use the memory again.
    pub(crate) returns: Returns,
}

/// The owner of a message's memory, which may use it again once it has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// The sender, which gave the message this number among its descriptors to this rank.
    ToSender(u64),
    /// The transport that delivered the message.
    ToTransport,
    /// Nobody else: it is a copy that belongs to this rank.
    Nowhere,
}

/// What a transport can do between *local* ranks, which can read each other's memory.
///
/// A message between local ranks is a place in the sender's memory. The receiver may read it there
/// ([`LocalMemory::expect`]) instead of receiving a copy.
pub trait LocalMemory {
    /// For each rank, whether it is local.
    fn ranks(&mut self) -> Arc<[bool]>;

    /// The pool of memory that local ranks can read.
    fn pool(&mut self) -> Arc<Pool>;

    /// Whether local ranks copy long messages directly out of this rank's private memory.
    fn copies_by_cma(&mut self) -> bool;

    /// Whether this rank and `peer` share a cache, as far as known ([`CacheMode::Shared`]: they do). `None` if `peer`
    /// is not a local rank.
    fn distance(&mut self, peer: Rank) -> Option<CacheMode>;

    /// Like [`send`](super::Transport::send) to a local rank, but without a copy. The source must not change for as
    /// long as somebody holds the region: the send may end before the peer has read it.
    fn send_zero_copy(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError>;

    /// Waits for a message of `bytes` bytes from `tag.source`, a local rank, and leaves it in the sender's memory. The
    /// message comes as [`Posted::Arrived`] or [`Event::Arrived`](super::Event::Arrived).
    fn expect(&mut self, tag: Tag, bytes: usize, request: RequestId) -> Result<Posted, TransportError>;

    /// Tells the sender that the message has been read, so that its memory may be used again.
    fn release(&mut self, arrived: Arrived);

    /// Spins until a message from `tag.source`, a local rank, has come, or for a few microseconds at most: too short a
    /// time to do anything else.
    fn spin(&mut self, tag: Tag);

    /// Drops the regions that local ranks have read.
    fn reclaim(&mut self);

    /// Whether a message is still queued although its call may have ended.
    fn has_queued(&mut self) -> bool;
}
