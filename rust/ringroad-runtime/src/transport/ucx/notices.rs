//! Notices: short messages that are looked for now and then, so that nobody need keep a receive posted for them. Among them
//! are farewells, which say that a rank leaves: over shared memory UCX itself does not tell.

use ringroad_core::Rank;
use ucx_sys::UCS_ERR_CONNECTION_RESET;

use super::requests::{Post, Purpose};
use super::UcxTransport;
use crate::buffer::Region;
use crate::notice::LONGEST;
use crate::transport::{Event, Kind, Tag, ABORTED};

/// What a rank says of itself when it leaves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Farewell {
    Closed,
    Aborted,
}

/// Tells the kinds of notices apart, as the tag's message.
const PLAIN: u32 = 0;
const CLOSED: u32 = 1;
const ABORT: u32 = 2;
const GRANT: u32 = 3;

impl UcxTransport {
    /// Sends a notice, as best as it can.
    pub(super) fn send_notice(&mut self, peer: Rank, payload: &[u8]) {
        self.tell(peer, PLAIN, Region::of(payload));
    }

    /// Tells all that it is connected to that this rank leaves.
    pub(super) fn say_farewell(&mut self, farewell: Farewell) {
        let message = match farewell {
            Farewell::Closed => CLOSED,
            Farewell::Aborted => ABORT,
        };
        for peer in 0..self.size {
            self.tell(peer, message, Region::nothing());
        }
    }

    /// Lets a peer send more messages of collectives (see [`super::flow`]).
    pub(super) fn grant(&mut self, peer: Rank) {
        self.tell(peer, GRANT, Region::nothing());
    }

    /// By the first device that takes it: whoever cannot be reached is told nothing. Nobody is connected to for a farewell,
    /// and devices that lead elsewhere do not connect for a notice: UCX crashes if a peer goes away while it answers such
    /// a connection, as peers do when there is something to tell.
    fn tell(&mut self, peer: Rank, message: u32, payload: Region) {
        let connected = |device: &usize| matches!(self.devices[*device].endpoints.get(peer), Some(Some(_)));
        let (known, others): (Vec<_>, Vec<_>) = (0..self.devices.len()).partition(connected);
        let may_connect = |device: &usize| message == PLAIN && self.wiring.joins(*device, peer);
        let others = others.into_iter().filter(may_connect).collect::<Vec<_>>();
        let tag = Tag { source: self.rank, kind: Kind::Control, sequence: 0, message, check: 0 };
        let _ = known.into_iter().chain(others).any(|device| {
            let post = Post { purpose: Purpose::NoticeOut, peer, device, request: 0 };
            self.start_send(post, tag, payload.clone()).is_ok()
        });
    }

    /// Starts to receive the notices that have arrived; `drain` reports them.
    pub(super) fn take_notices(&mut self, events: &mut Vec<Event>) {
        let control = Tag { source: 0, kind: Kind::Control, sequence: 0, message: 0, check: 0 }.pack();
        for index in 0..self.devices.len() {
            while let Some((message, info)) = self.devices[index].take(control, Tag::KIND) {
                let tag = Tag::unpack(info.sender_tag);
                // What is not to be read is received all the same, into nothing, so that UCX gives up its memory.
                let (purpose, length) = match self.regard(tag, info.length, events) {
                    true => (Purpose::NoticeIn, info.length),
                    false => (Purpose::Nothing, 0),
                };
                let peer = if self.is_peer(tag.source) { tag.source } else { self.rank };
                let post = Post { purpose, peer, device: index, request: 0 };
                let worker = self.devices[index].worker;
                // A notice that cannot be received is lost, which its sender was told to expect.
                let _ = self.slots.receive_probed(worker, post, message, info.sender_tag, length);
            }
        }
    }

    /// Whether a notice is to be read; reports what it says of its sender by being there.
    fn regard(&mut self, tag: Tag, length: usize, events: &mut Vec<Event>) -> bool {
        if !self.is_peer(tag.source) {
            return false;
        }
        let reason = match tag.message {
            PLAIN if length <= LONGEST => return true,
            CLOSED => "it has closed its connections".to_owned(),
            ABORT => ABORTED.to_owned(),
            GRANT if length == 0 && self.granted(tag.source, events) => return false,
            kind => format!("it has sent a notice of kind {kind} and {length} bytes, which makes no sense"),
        };
        // UCX may find out by itself, too.
        if self.failed[tag.source].replace(UCS_ERR_CONNECTION_RESET).is_none() {
            self.drop_held(tag.source);
            events.push(Event::PeerFailed { peer: tag.source, reason });
        }
        false
    }

    /// The tag of the first message that nobody has received and that agrees with `tag` in the bits of `mask`. What no peer
    /// can have sent is thrown away.
    pub(super) fn look(&mut self, device: usize, tag: u64, mask: u64) -> Option<Tag> {
        loop {
            let found = Tag::unpack(self.devices[device].probe(tag, mask)?);
            if self.is_peer(found.source) {
                return Some(found);
            }
            let (message, info) = self.devices[device].take(tag, mask)?;
            let post = Post { purpose: Purpose::Nothing, peer: self.rank, device, request: 0 };
            let worker = self.devices[device].worker;
            let _ = self.slots.receive_probed(worker, post, message, info.sender_tag, 0);
        }
    }

    /// Whether a message can be of this rank: whoever reaches the network may have written it.
    fn is_peer(&self, source: Rank) -> bool {
        source < self.size && source != self.rank
    }
}
