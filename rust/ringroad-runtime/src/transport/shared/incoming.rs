//! What a rank receives: takes descriptors out of the channels and matches them with the posted receives.

use ringroad_core::Rank;

use super::channel::{makes_room, DescriptorForm};
use super::matching::{ArrivedPart, LocalReceive, TakenDescriptor};
use super::peer::{Incoming, LocalPeer, News};
use super::peers::LocalPeers;
use super::SharedMemory;
use crate::transport::{Event, Failure, LocalMemory, MessageKind, Posted, Returns, Tag, TransportError};

/// A rank that is this many messages of collectives ahead of its receives is held up: its next descriptors stay in its
/// channel, unless something else is expected from it. Otherwise memory would fill up where some ranks only send and
/// their receiver is late.
const AHEAD: usize = if cfg!(miri) { 64 } else { Tag::SEQUENCES as usize };

impl SharedMemory {
    /// Posts a receive. The message may be there already.
    pub(super) fn want(&mut self, wanted: LocalReceive) -> Result<Posted, TransportError> {
        self.check_open()?;
        let key = wanted.tag & Tag::MATCH;
        self.check_local(Tag::unpack(key).source)?;
        let (source, long) = (Tag::unpack(key).source, usize::from(wanted.is_long()));
        self.incoming(source).wanted_long += long;
        // Earlier receives with the same key come first.
        let found = if self.matching.is_wanted(key) { None } else { self.take_first(key) };
        let Some(message) = found else {
            self.peers.activate(source).incoming.wanted += 1;
            self.matching.keep_wanted(key, wanted);
            return Ok(Posted::Pending);
        };
        self.incoming(source).wanted_long -= long;
        let request = wanted.request;
        match self.deliver(message, wanted) {
            Ok(posted) => Ok(posted),
            Err(failure) => {
                self.events.push(Event::Completed { request, result: Err(failure) });
                Ok(Posted::Pending)
            }
        }
    }

    /// The first message with this key, if it has come.
    fn take_first(&mut self, key: u64) -> Option<TakenDescriptor> {
        let Some(message) = self.matching.take_message(key) else { return self.take_until(key) };
        let tag = Tag::unpack(key);
        self.incoming(tag.source).ahead -= usize::from(tag.kind == MessageKind::Collective);
        Some(message)
    }

    /// Takes messages out of a channel up to the next one with this key. Those before it are sorted.
    fn take_until(&mut self, key: u64) -> Option<TakenDescriptor> {
        let source = Tag::unpack(key).source;
        loop {
            let message = self.take_message(source)?;
            if message.tag & Tag::MATCH == key {
                return Some(message);
            }
            self.sort(message);
        }
    }

    /// Takes all descriptors out of all channels. Returns whether there were any.
    pub(super) fn take_all(&mut self) -> bool {
        self.take_from_each(LocalPeers::ranks)
    }

    /// Makes sure that what has come from ranks that are not active has been taken.
    pub(super) fn take_from_idle(&mut self) {
        if self.peers.idle() > 0 {
            self.take_all();
        }
    }

    /// Takes all descriptors out of the channels of those ranks that are active. Returns whether there were any.
    #[inline]
    pub(super) fn take_active(&mut self) -> bool {
        self.take_from_each(LocalPeers::active)
    }

    #[inline]
    fn take_from_each(&mut self, ranks: impl Fn(&LocalPeers) -> &[Rank]) -> bool {
        let mut any = false;
        for index in 0..ranks(&self.peers).len() {
            any |= self.take_from(ranks(&self.peers)[index]);
        }
        any
    }

    #[inline]
    fn take_from(&mut self, rank: Rank) -> bool {
        let first = self.incoming(rank).next;
        while !self.is_held_up(rank) {
            let Some(message) = self.take_message(rank) else { break };
            self.sort(message);
        }
        self.incoming(rank).next > first
    }

    /// Whether a rank's channel is left alone: the rank is far ahead, and neither side waits for anything from the
    /// other.
    #[inline]
    fn is_held_up(&mut self, rank: Rank) -> bool {
        let peer = self.peers.get(rank);
        peer.incoming.ahead >= AHEAD
            && peer.incoming.wanted == 0
            && peer.incoming.flows.is_empty()
            && peer.out.retained.is_empty()
            && !peer.has_failed()
    }

    /// Empties the channels of ranks that are held up, too, since the message that the caller looks for may be there.
    pub(super) fn take_all_held_up(&mut self) {
        for index in 0..self.peers.ranks().len() {
            let rank = self.peers.ranks()[index];
            while self.is_held_up(rank) {
                let Some(message) = self.take_message(rank) else { break };
                self.sort(message);
            }
        }
    }

    /// Takes descriptors out of a channel up to the next one that begins a message.
    #[inline]
    pub(super) fn take_message(&mut self, rank: Rank) -> Option<TakenDescriptor> {
        loop {
            let peer = self.peers.get_mut(rank);
            if !peer.is_open(&self.home) {
                return None;
            }
            let number = peer.incoming.next;
            let descriptor = if peer.incoming.wanted_long == 0 {
                peer.channel(self.home.rank, self.home.size).get(number)?
            } else {
                let (descriptor, news) = peer.next_descriptor(self.home.rank, self.home.size)?;
                if news {
                    self.home.counters_for(rank).tell_distance(peer.cache_probe.mode());
                }
                descriptor
            };
            if !peer.is_sound(&descriptor) && !peer.reach(&descriptor) {
                peer.refuse_descriptor(number, &descriptor);
                return None;
            }
            peer.incoming.next += 1;
            peer.is_unchecked = true;
            self.peers.activate(rank);
            if descriptor.form() == DescriptorForm::Release {
                self.free_slot(rank, number);
                self.note_release(rank, number);
                self.take_back(rank, descriptor.place);
                continue;
            }
            let message = self.peers.get(rank).open(number, &descriptor, &mut self.cells);
            self.free_slot(rank, number);
            match descriptor.form() {
                DescriptorForm::Part => {
                    self.add_part(descriptor.tag, message.arrived);
                    continue;
                }
                DescriptorForm::Flow => self.open_inflow(rank, number, message.bytes),
                _ => {}
            }
            if message.arrived.returns == Returns::ToTransport {
                self.note_release(rank, number);
            }
            return Some(message);
        }
    }

    /// The form and the tag of the next descriptor from this local rank, if it is there.
    #[inline]
    pub(super) fn head(&self, peer: &LocalPeer) -> Option<(DescriptorForm, u64)> {
        if !peer.incoming.is_open {
            return None;
        }
        let next = peer.incoming.next;
        let head = peer.channel(self.home.rank, self.home.size).peek(next);
        // If a descriptor is there now, its line may have left the peer's cache before the next look.
        peer.incoming.missed.set(if head.is_none() { Some(next) } else { None });
        head
    }

    /// Frees the slot of descriptor `number`.
    #[inline]
    fn free_slot(&mut self, rank: Rank, number: u64) {
        self.home.counters_for(rank).free_slots(number + 1);
        if makes_room(number) {
            self.note_news(rank, News::Released);
        }
    }

    /// Records that descriptor `number` of `rank` has been released. Returns whether the counter shows that to the
    /// sender: it cannot while older descriptors are not released.
    pub(super) fn note_release(&mut self, rank: Rank, number: u64) -> bool {
        let released = &mut self.incoming(rank).released;
        if !released.add(number) {
            return false;
        }
        let before = released.before();
        self.home.counters_for(rank).release(before);
        true
    }

    /// Gives a message to the receive that it matches, or keeps it until there is one.
    fn sort(&mut self, message: TakenDescriptor) {
        if Tag::unpack(message.tag).kind == MessageKind::Control {
            // SAFETY: the sender leaves it alone until it is released.
            let payload = unsafe { message.arrived.region.to_vec() };
            self.events.push(Event::Notice { from: message.arrived.peer, payload });
            return self.release(message.arrived);
        }
        let key = message.tag & Tag::MATCH;
        match self.matching.take_wanted(key) {
            Some(wanted) => {
                let incoming = self.incoming(Tag::unpack(key).source);
                incoming.wanted -= 1;
                incoming.wanted_long -= usize::from(wanted.is_long());
                let ended = Event::from_posted(wanted.request, self.deliver(message, wanted));
                self.events.extend(ended);
            }
            None => {
                if Tag::unpack(message.tag).kind == MessageKind::Collective {
                    self.incoming(Tag::unpack(key).source).ahead += 1;
                }
                self.matching.keep_message(message.tag, message);
            }
        }
    }

    fn deliver(&mut self, message: TakenDescriptor, wanted: LocalReceive) -> Result<Posted, Failure> {
        let wrong = if message.tag != wanted.tag {
            Some(Failure::Check { found: Tag::unpack(message.tag), bytes: Some(message.bytes) })
        } else if message.bytes != wanted.bytes && !wanted.takes(message.bytes) {
            Some(Failure::Length { found: Some(message.bytes), expected: wanted.bytes })
        } else {
            None
        };
        if let Some(failure) = wrong {
            if message.came == ArrivedPart::FirstPart {
                self.refuse_inflow(message.arrived);
            } else {
                self.release(message.arrived);
            }
            return Err(failure);
        }
        match (message.came, &wanted.target) {
            (ArrivedPart::FirstPart, _) => {
                return self.take_inflow(message.arrived, message.bytes, wanted).map(|()| Posted::Pending);
            }
            (ArrivedPart::Address(address), _) => {
                return self.read_by_cma(message.arrived, address, message.bytes, wanted)
            }
            (ArrivedPart::Whole, None) => return Ok(Posted::Arrived(message.arrived)),
            (ArrivedPart::Whole, Some(target)) => {
                self.ring_before(target.len());
                // SAFETY: the sender leaves its memory alone until it is released, and the poster leaves the
                // target alone.
                unsafe {
                    match message.bytes < wanted.bytes {
                        true => target.part(0..message.bytes).copy_from(&message.arrived.region),
                        false => target.copy_from(&message.arrived.region),
                    }
                };
                self.release(message.arrived);
            }
        }
        wanted.has_taken(message.bytes).map(|()| Posted::Complete)
    }

    #[inline]
    fn incoming(&mut self, rank: Rank) -> &mut Incoming {
        &mut self.peers.get_mut(rank).incoming
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::buffer::Region;
    use crate::transport::{Subject, Transport};

    const ROUNDS: u32 = if cfg!(miri) { 300 } else { 10_000 };

    fn tag(kind: MessageKind, sequence: u32) -> Tag {
        Tag { source: 0, kind, sequence, message: 0, check: 0 }
    }

    /// The records of finished messages do not grow while one older message waits.
    fn check(early: MessageKind) {
        let [mut sender, mut receiver]: [SharedMemory; 2] =
            SharedMemory::group(2).unwrap().try_into().ok().unwrap();
        let mut events = Vec::new();
        let mut exchange = |sequence, receive: bool| {
            let source = Region::zeroed(100);
            sender.send(1, 0, tag(early, sequence), source, 1).unwrap();
            receiver.progress(&mut events);
            if receive {
                receiver.receive(0, tag(early, sequence), Region::zeroed(100), 2).unwrap();
            }
            sender.progress(&mut events);
        };
        exchange(ROUNDS, false);
        (0..ROUNDS).for_each(|sequence| exchange(sequence, true));
        let (sent, received) = (&sender.peers.get(1).out, receiver.incoming(0));
        assert!(received.released.ranges() <= 1, "{early:?}: {} are remembered", received.released.ranges());
        assert!(sent.retained.len() <= 2, "{early:?}: {} are retained", sent.retained.len());
        assert!(
            receiver.matching.candidates_for_oldest() <= 64,
            "{early:?}: {} may be the oldest",
            receiver.matching.candidates_for_oldest()
        );
    }

    /// A rank that only sends is held up: the number of unmatched messages stays bounded while the receiver waits for
    /// other ranks. All messages are there when they are received, also those that come later.
    #[test]
    fn a_rank_that_is_far_ahead_is_held_up() {
        let [mut sender, mut receiver, mut other]: [SharedMemory; 3] =
            SharedMemory::group(3).unwrap().try_into().ok().unwrap();
        let mut events = Vec::new();
        let total = 3 * AHEAD as u32;
        let number =
            |sequence| Tag { message: sequence / Tag::SEQUENCES, ..tag(MessageKind::Collective, sequence) };
        let from_other = Tag { source: 2, ..tag(MessageKind::PointToPoint, 0) };
        receiver.receive(0, from_other, Region::zeroed(8), 1).unwrap();
        let mut pending = 0;
        for sequence in 0..total {
            let posted = sender.send(1, 0, number(sequence), Region::zeroed(8), 1).unwrap();
            pending += usize::from(posted == Posted::Pending);
            receiver.progress(&mut events);
        }
        assert_eq!(receiver.incoming(0).ahead, AHEAD);
        assert!(pending > 0 && sender.peers.wait_for_slots());
        // A message from the rank that the receiver waits for arrives, and so does the last one from the rank that is
        // held up, once it is received.
        other.send(1, 0, from_other, Region::zeroed(8), 1).unwrap();
        receiver.progress(&mut events);
        assert!(matches!(&events[..], [Event::Completed { request: 1, result: Ok(()) }]), "{events:?}");
        let last = tag(MessageKind::PointToPoint, 0);
        sender.send(1, 0, last, Region::zeroed(8), 2).unwrap();
        receiver.receive(0, last, Region::zeroed(8), 2).unwrap();
        for _ in 0..total {
            sender.progress(&mut Vec::new());
            receiver.progress(&mut events);
        }
        assert!(matches!(&events[..], [_, Event::Completed { request: 2, result: Ok(()) }]), "{events:?}");
        for sequence in 0..total {
            let posted = receiver.receive(0, number(sequence), Region::zeroed(8), 3).unwrap();
            assert_eq!(posted, Posted::Complete, "{sequence}");
        }
        assert_eq!((receiver.incoming(0).ahead, receiver.incoming(0).wanted), (0, 0));
    }

    /// Ranks that nothing is expected from are not polled, and their channels take no memory. Whatever they send is found
    /// before this rank blocks, when it looks for messages of any source, and soon as calls begin and end.
    #[test]
    fn ranks_that_nothing_is_expected_from_are_heard() {
        let [mut sender, mut receiver, mut other]: [SharedMemory; 3] =
            SharedMemory::group(3).unwrap().try_into().ok().unwrap();
        let mut events = Vec::new();
        let mut poll = |receiver: &mut SharedMemory| {
            (0..3).for_each(|_| _ = receiver.progress(&mut events));
            (receiver.peers.active().len(), events.len())
        };
        assert_eq!(poll(&mut receiver), (0, 0));
        sender.send(1, 0, tag(MessageKind::PointToPoint, 0), Region::zeroed(8), 1).unwrap();
        sender.flush();
        assert_eq!(poll(&mut receiver), (0, 0));
        assert!(!receiver.arm());
        let any = Subject::new(None, None);
        assert_eq!(receiver.unclaimed(any).map(|found| found.tag.source), Some(0));
        receiver.receive(0, tag(MessageKind::PointToPoint, 0), Region::zeroed(8), 2).unwrap();
        receiver.inspect(None, &mut Vec::new());
        assert_eq!(poll(&mut receiver), (0, 0));
        sender.send(1, 0, tag(MessageKind::PointToPoint, 1), Region::zeroed(8), 3).unwrap();
        assert_eq!(receiver.unclaimed(any).map(|found| found.tag.sequence), Some(1));
        other.notify(1, b"word");
        let mut told = Vec::new();
        receiver.inspect(Some(1), &mut told);
        assert!(matches!(&told[..], [Event::Notice { from: 2, .. }]), "{told:?}");
        other.abort(std::time::Instant::now());
        receiver.inspect(Some(1), &mut told);
        assert!(matches!(&told[1..], [Event::PeerFailed { peer: 2, .. }]), "{told:?}");
        let is_open = |from: &SharedMemory, to| from.home.counters_for(to).is_open();
        assert!(is_open(&sender, 1) && is_open(&other, 1));
        assert!(!is_open(&sender, 2) && !is_open(&receiver, 0) && !is_open(&receiver, 2));
    }

    #[test]
    fn a_message_that_waits_makes_nothing_grow() {
        check(MessageKind::PointToPoint);
        check(MessageKind::Collective);
    }
}
