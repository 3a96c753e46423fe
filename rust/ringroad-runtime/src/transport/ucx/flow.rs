//! Flow control. UCX accepts every message, so a rank that only sends could fill the memory of a slower receiver.
//!
//! The receiver counts the messages of collectives that it has received, and now and then grants more by a notice. A
//! sender that is far ahead holds further messages back until then. Messages between two ranks are not counted: only
//! the user knows in which order the receiver takes them.

use std::collections::VecDeque;

use ringroad_core::Rank;

use super::requests::PostedRequest;
use super::UcxTransport;
use crate::transport::buffer::Region;
use crate::transport::{Event, Failure, Lack, MessageKind, Posted, Tag, TransportError};

/// How many messages of collectives to one rank may be on their way or unreceived.
const AHEAD: u64 = 1 << 14;
/// How many further messages a notice grants.
const BATCH: u64 = AHEAD / 4;

/// The messages of collectives between this rank and another.
#[derive(Default)]
pub(super) struct FlowControl {
    /// How many sent messages have not been granted again yet.
    sent: u64,
    /// How many received messages have not been granted to the sender yet.
    received: u64,
    /// Messages that wait for a grant, in order.
    held: VecDeque<(PostedRequest, Tag, Region)>,
}

impl UcxTransport {
    /// Sends a message, or holds it back until the receiver grants more.
    #[inline]
    pub(super) fn send_in_turn(
        &mut self,
        post: PostedRequest,
        tag: Tag,
        source: Region,
    ) -> Result<Posted, TransportError> {
        if tag.kind == MessageKind::Collective && self.failed.get(post.peer).is_some_and(Option::is_none) {
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

    /// Counts a message that has been received, and grants more if enough have come.
    #[inline]
    pub(super) fn count_received(&mut self, from: Rank, kind: MessageKind) {
        if kind == MessageKind::Collective {
            let flow = &mut self.flows[from];
            flow.received += 1;
            if flow.received == BATCH {
                flow.received = 0;
                self.grant(from);
            }
        }
    }

    /// Whether any message waits for a grant.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        self.held > 0
    }

    /// Handles a grant by a peer: sends messages that were held back. Returns `false` if the grant is invalid, since
    /// fewer messages were sent.
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
                Err(TransportError { lacks, reason, .. }) => match lacks {
                    Some(what @ Lack::Connection) => {
                        events.push(Event::Lacks { peer: by, what, reason });
                        continue;
                    }
                    Some(Lack::Memory) => Err(Failure::Memory(reason)),
                    None => Err(Failure::Broken(reason)),
                },
            };
            events.push(Event::Completed { request: post.request, result });
        }
        true
    }

    /// Drops the messages that are held back for a rank that has failed.
    pub(super) fn drop_held(&mut self, peer: Rank) {
        self.held -= std::mem::take(&mut self.flows[peer].held).len();
    }
}
