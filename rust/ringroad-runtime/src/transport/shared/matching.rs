//! What waits for each other: messages, and receives.

use ringroad_core::Rank;

use crate::transport::buffer::Region;
use crate::transport::matching;
use crate::transport::{Arrived, Failure, MessageKind, Posted, RequestId, Returns, Tag, LOOKED_AT};

/// A receive that has been posted.
pub(super) struct LocalReceive {
    pub(super) tag: u64,
    pub(super) bytes: usize,
    pub(super) request: RequestId,
    /// Where to copy the message; `None` if it is read in the sender's memory.
    pub(super) target: Option<Region>,
}

impl LocalReceive {
    /// Whether the message is so long that measuring the time of a look at its channel costs nothing noticeable.
    pub(super) fn is_long(&self) -> bool {
        self.bytes >= LOOKED_AT
    }

    /// The memory to copy a message of so many bytes to, if it cannot be read in the sender's: the target, or new scratch
    /// memory.
    pub(super) fn room(&self, bytes: usize) -> Result<Region, Failure> {
        match &self.target {
            Some(target) => Ok(target.part(0..bytes)),
            None => Region::scratch(self.bytes).map_err(|error| Failure::Memory(error.to_string())),
        }
    }

    /// Whether a message of another length is put into the receive's memory.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes < self.bytes && Tag::unpack(self.tag).kind == MessageKind::PointToPoint
    }

    /// The result of a receive into whose memory a message of so many bytes was put.
    pub(super) fn has_taken(&self, bytes: usize) -> Result<(), Failure> {
        if bytes == self.bytes {
            return Ok(());
        }
        Err(Failure::Length { found: Some(bytes), expected: self.bytes })
    }

    /// What the receive has led to after all of the message has been copied to its [`LocalReceive::room`].
    pub(super) fn copied(&self, peer: Rank, room: Region) -> Result<Posted, Failure> {
        match self.target {
            Some(_) => self.has_taken(room.len()).map(|()| Posted::Complete),
            None => Ok(Posted::Arrived(Arrived { region: room, peer, returns: Returns::Nowhere })),
        }
    }
}

/// A descriptor that has been taken out of its channel.
pub(super) struct TakenDescriptor {
    /// Packed, as in [`LocalReceive`]: reading a tag that was just written in pieces would stall.
    pub(super) tag: u64,
    pub(super) bytes: usize,
    pub(super) came: ArrivedPart,
    pub(super) arrived: Arrived,
}

/// Which part of a message has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrivedPart {
    Whole,
    FirstPart,
    /// None: this is its address in the sender's private memory.
    Address(u64),
}

/// Messages without receives, and receives without messages.
pub(super) type DescriptorMatching = matching::Matching<TakenDescriptor, LocalReceive>;
