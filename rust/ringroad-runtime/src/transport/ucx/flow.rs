//! Flow control: UCX takes in whatever comes, so a rank that only sends could fill the memory of one that is behind.
//!
//! The receiver counts the messages of collectives and grants more of them now and then, by a notice. A sender that is
//! far ahead keeps what comes next until then. Messages between two ranks are not counted: which one the receiver wants
//! first is for the user to say.

use std::collections::VecDeque;

use ringroad_core::Rank;

use super::requests::Post;
use super::UcxTransport;
use crate::buffer::Region;
use crate::transport::{Event, Failure, Kind, Posted, Tag, TransportError};

/// So many messages of collectives may be on their way to a rank, or wait there.
const AHEAD: u64 = 1 << 14;
/// A notice grants so many more.
const BATCH: u64 = AHEAD / 4;

/// The messages of collectives between this rank and another.
#[derive(Default)]
pub(super) struct Flow {
    /// Not granted yet.
    sent: u64,
    /// Not told yet.
    received: u64,
    /// What waits to be granted, in order.
    held: VecDeque<(Post, Tag, Region)>,
}

impl UcxTransport {
    /// Sends a message, or keeps it until the receiver grants more.
    #[inline]
    pub(super) fn send_in_turn(
        &mut self,
        post: Post,
        tag: Tag,
        source: Region,
    ) -> Result<Posted, TransportError> {
        if tag.kind == Kind::Collective && self.failed.get(post.peer).is_some_and(Option::is_none) {
            let flow = &mut self.flows[post.peer];
            if flow.sent >= AHEAD {
                flow.held.push_back((post, tag, source));
                self.held += 1;
                return Ok(Posted::Pending);
            }
            flow.sent += 1;
        }
        self.start_send(post, tag, source)
    }

    /// Counts a message that has been received, and grants more if it is time.
    #[inline]
    pub(super) fn count_received(&mut self, from: Rank, kind: Kind) {
        if kind == Kind::Collective {
            let flow = &mut self.flows[from];
            flow.received += 1;
            if flow.received == BATCH {
                flow.received = 0;
                self.grant(from);
            }
        }
    }

    /// Whether any message waits to be granted.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.held > 0
    }

    /// A peer has received more: sends what has waited for that. `false` where it cannot have.
    pub(super) fn granted(&mut self, by: Rank, events: &mut Vec<Event>) -> bool {
        let Some(left) = self.flows[by].sent.checked_sub(BATCH) else { return false };
        self.flows[by].sent = left;
        while self.flows[by].sent < AHEAD {
            let Some((post, tag, source)) = self.flows[by].held.pop_front() else { break };
            self.held -= 1;
            self.flows[by].sent += 1;
            let result = match self.start_send(post, tag, source) {
                Ok(Posted::Pending) => continue,
                Ok(Posted::Complete | Posted::Arrived(_)) => Ok(()),
                Err(error) if error.lacks_memory => Err(Failure::Memory(error.reason)),
                Err(error) => Err(Failure::Broken(error.reason)),
            };
            events.push(Event::Completed { request: post.request, result });
        }
        true
    }

    /// Nothing more is sent to a rank that has failed.
    pub(super) fn drop_held(&mut self, peer: Rank) {
        self.held -= std::mem::take(&mut self.flows[peer].held).len();
    }
}
