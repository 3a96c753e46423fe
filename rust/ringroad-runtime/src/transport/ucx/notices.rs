//! Notices: short messages that are probed for now and then, so that no receive has to be posted for them. Goodbyes
//! are among them. They say that a rank leaves, which UCX itself does not report over shared memory.

use ringroad_core::Rank;
use ucx_sys::UCS_ERR_CONNECTION_RESET;

use super::requests::{PostedRequest, Purpose};
use super::UcxTransport;
use crate::transport::buffer::Region;
use crate::transport::notice::MAX_NOTICE_BYTES;
use crate::transport::{self, Event, MessageKind, Tag, Unclaimed, ABORTED};

/// The kinds of notices, as the message number of the tag.
const PLAIN: u32 = 0;
const CLOSED: u32 = 1;
const ABORT: u32 = 2;
const GRANT: u32 = 3;

impl UcxTransport {
    /// Sends a notice, best effort.
    pub(super) fn send_notice(&mut self, peer: Rank, payload: &[u8]) {
        self.tell(peer, PLAIN, Region::from_slice(payload));
    }

    /// Tells all connected peers that this rank leaves.
    pub(super) fn say_goodbye(&mut self, aborted: bool) {
        let message = if aborted { ABORT } else { CLOSED };
        for peer in 0..self.size {
            self.tell(peer, message, Region::nothing());
        }
    }

    /// Grants a peer further messages of collectives (see [`super::flow`]).
    pub(super) fn grant(&mut self, peer: Rank) {
        self.tell(peer, GRANT, Region::nothing());
    }

    /// Sends a notice by the first device that accepts it. A peer that cannot be reached gets none. No connection is
    /// opened for a goodbye, and none for a notice on devices that lead elsewhere: UCX crashes if a peer goes away
    /// while it answers such a connection, which is likely when there is something to tell.
    fn tell(&mut self, peer: Rank, message: u32, payload: Region) {
        let connected = |device: &usize| matches!(self.devices[*device].endpoints.get(peer), Some(Some(_)));
        let (known, others): (Vec<_>, Vec<_>) = (0..self.devices.len()).partition(connected);
        let may_connect = |device: &usize| message == PLAIN && self.wiring.joins(*device, peer);
        let others = others.into_iter().filter(may_connect).collect::<Vec<_>>();
        let tag = Tag { source: self.rank, kind: MessageKind::Control, sequence: 0, message, check: 0 };
        let _ = known.into_iter().chain(others).any(|device| {
            let post = PostedRequest { purpose: Purpose::NoticeOut, peer, device, request: 0 };
            self.start_send(post, tag, payload.clone()).is_ok()
        });
    }

    /// Starts to receive the notices that have arrived; `drain` reports them.
    pub(super) fn take_notices(&mut self, events: &mut Vec<Event>) {
        let control = Tag { source: 0, kind: MessageKind::Control, sequence: 0, message: 0, check: 0 }.pack();
        for index in 0..self.devices.len() {
            while let Some((message, info)) = self.devices[index].take_message(control, Tag::KIND) {
                let tag = Tag::unpack(info.sender_tag);
                // A notice that is not to be read is received with length 0, so that UCX frees its memory.
                let (purpose, length) = match self.regard(tag, info.length, events) {
                    true => (Purpose::NoticeIn, info.length),
                    false => (Purpose::Nothing, 0),
                };
                let peer = if self.is_peer(tag.source) { tag.source } else { self.rank };
                let post = PostedRequest { purpose, peer, device: index, request: 0 };
                let worker = self.devices[index].worker;
                // A notice that cannot be received is lost; notices are best effort.
                let _ = self.slots.receive_probed(worker, post, message, info.sender_tag, length);
            }
        }
    }

    /// Whether the content of a notice is to be read. Other kinds take effect here: goodbyes, grants, and invalid
    /// notices.
    fn regard(&mut self, tag: Tag, length: usize, events: &mut Vec<Event>) -> bool {
        if !self.is_peer(tag.source) {
            return false;
        }
        let reason = match tag.message {
            PLAIN if length <= MAX_NOTICE_BYTES => return true,
            CLOSED => transport::CLOSED.to_owned(),
            ABORT => ABORTED.to_owned(),
            GRANT if length == 0 && self.granted(tag.source, events) => return false,
            kind => format!("it has sent an invalid notice of kind {kind} and {length} bytes"),
        };
        // UCX may report the failure, too, even before the goodbye has come.
        let is_first = self.failed[tag.source].replace(UCS_ERR_CONNECTION_RESET).is_none();
        if is_first {
            self.drop_held(tag.source);
        }
        if is_first || tag.message == CLOSED {
            events.push(Event::PeerFailed { peer: tag.source, reason });
        }
        false
    }

    /// The first unreceived message that agrees with `tag` in the bits of `mask`. Messages that no peer
    /// can have sent are dropped.
    pub(super) fn probe_message(&mut self, device: usize, tag: u64, mask: u64) -> Option<Unclaimed> {
        loop {
            let found = self.devices[device].probe(tag, mask)?;
            if self.is_peer(found.tag.source) {
                return Some(found);
            }
            let (message, info) = self.devices[device].take_message(tag, mask)?;
            let post = PostedRequest { purpose: Purpose::Nothing, peer: self.rank, device, request: 0 };
            let worker = self.devices[device].worker;
            let _ = self.slots.receive_probed(worker, post, message, info.sender_tag, 0);
        }
    }

    /// Whether a peer of this number exists: anybody who reaches the network may have written the message.
    fn is_peer(&self, source: Rank) -> bool {
        source < self.size && source != self.rank
    }
}
