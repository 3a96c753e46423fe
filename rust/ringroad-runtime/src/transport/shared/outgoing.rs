//! What a rank sends: its descriptors, the memory that they name, and the peers to be woken.
//!
//! A rank wakes its peers once for all messages that it has posted or released, not once for each: every wake-up
//! needs a full fence.

use ringroad_core::Rank;

use super::channel::{Descriptor, DescriptorForm, Doorbell, INLINE};
use super::cma::{is_found, PRIVATE};
use super::flow::LONG;
use super::peer::{News, Queued, Retained};
use super::{error, SharedMemory};
use crate::transport::buffer::Region;
use crate::transport::{Event, Lack, MessageKind, Posted, RequestId, Tag, TransportError, AWHILE};

/// At most this many bytes may wait to be read after their sends have ended. Further sends end only when peers have
/// read them.
const KEPT: usize = 256 << 20;

impl SharedMemory {
    /// Starts to send. `stays`: the source does not change for as long as somebody holds the region.
    pub(super) fn post(
        &mut self,
        peer: Rank,
        tag: Tag,
        source: Region,
        stays: bool,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.check_local(peer)?;
        self.check_open()?;
        let opened = self.peers.get_mut(peer).open_way(&self.home);
        opened.map_err(|reason| TransportError { lacks: Some(Lack::Memory), ..error(reason) })?;
        // Shorter messages between two ranks leave a copy, so that their sends do not wait for the receiver.
        let least = if self.cma && tag.kind == MessageKind::Collective { PRIVATE } else { LONG };
        if source.len() >= least && self.pool.offset_of(&source).is_none() {
            let address = source.as_ptr().addr() as u64;
            if self.cma && is_found(address, source.len()) {
                let mut descriptor = Descriptor::new(tag.pack(), DescriptorForm::Cma, source.len());
                descriptor.place = address;
                self.put(peer, descriptor, Some(source), Some(request), None);
                return Ok(Posted::Pending);
            }
            if source.len() >= LONG {
                return self.begin_flow(peer, tag, source, request);
            }
        }
        let there = source.as_ptr();
        let (descriptor, region) = self.pack(tag, source)?;
        let waits = region.as_ref().is_some_and(|region| {
            let copied = region.as_ptr() != there;
            !(stays || copied) || self.unread.kept + region.len() > KEPT
        });
        let queued = self.put(peer, descriptor, region, waits.then_some(request), None);
        if let Some(queued) = queued.filter(|_| !waits) {
            queued.request = Some(request);
            return Ok(Posted::Pending);
        }
        Ok(if waits { Posted::Pending } else { Posted::Complete })
    }

    /// Puts a descriptor into the channel to `peer`. `region` is the memory that the peer will read, `request` the send that
    /// ends when the peer has read it, `flow` the first descriptor of the flow that it belongs to. Returns the queue's
    /// entry if the descriptor has to wait for a slot.
    pub(super) fn put(
        &mut self,
        peer: Rank,
        descriptor: Descriptor,
        region: Option<Region>,
        request: Option<RequestId>,
        flow: Option<u64>,
    ) -> Option<&mut Queued> {
        if self.asleep {
            // Another thread blocks or is about to, and could not know that it has to wait for this descriptor, too.
            self.home.own_doorbell().announce_sleep(true);
        }
        let channel = self.home.channel_to(peer);
        let peer = self.peers.activate(peer);
        peer.is_unchecked = true;
        let number = peer.out.next + peer.out.queue.len() as u64;
        if let Some(region) = region {
            match request {
                None => self.unread.kept += region.len(),
                Some(_) => self.unread.waiting += 1,
            }
            peer.out.retained.push_back(Retained { number, region, request, flow });
        }
        if peer.out.queue.is_empty() && peer.has_room(&self.home) {
            channel.put(peer.out.next, &descriptor);
            peer.out.next += 1;
            peer.news = News::Descriptor;
            self.has_news = true;
            return None;
        }
        peer.out.queue.push_back(Queued { descriptor, request: None });
        peer.out.queue.back_mut()
    }

    /// Makes a descriptor of these bytes. They are within the descriptor, or in memory of the segment, which is returned,
    /// too.
    pub(super) fn pack(
        &mut self,
        tag: Tag,
        source: Region,
    ) -> Result<(Descriptor, Option<Region>), TransportError> {
        if source.len() <= INLINE {
            let mut descriptor = Descriptor::new(tag.pack(), DescriptorForm::Inline, source.len());
            let target = descriptor.inline.as_mut_ptr().cast::<u8>();
            // SAFETY: the bytes fit; the poster leaves the source alone until the send has ended.
            unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len()) };
            return Ok((descriptor, None));
        }
        let mut descriptor = Descriptor::new(tag.pack(), DescriptorForm::Segment, source.len());
        if let Some(offset) = self.pool.offset_of(&source) {
            descriptor.place = offset as u64;
            return Ok((descriptor, Some(source)));
        }
        let copy = self.allocate(source.len())?;
        self.ring_before(source.len());
        // SAFETY: the copy is new and has the same length; the poster leaves the source alone until the send has
        // ended.
        unsafe { copy.copy_from(&source) };
        descriptor.place = self.place_of(&copy);
        Ok((descriptor, Some(copy)))
    }

    /// Notes news for a peer, to wake it later together with all others: a fence before each read of a doorbell would
    /// cost more than the rest of a short message.
    #[inline]
    pub(super) fn note_news(&mut self, rank: Rank, news: News) {
        let peer = self.peers.activate(rank);
        peer.news = peer.news.max(news);
        self.has_news = true;
    }

    /// Wakes all peers that there are news for.
    #[inline]
    pub(super) fn ring(&mut self) {
        if std::mem::take(&mut self.has_news) {
            Doorbell::before_look();
            for index in 0..self.peers.active().len() {
                self.peers.get_mut(self.peers.active()[index]).ring();
            }
        }
    }

    /// Wakes them before `bytes` bytes are copied, if that takes long.
    #[inline]
    pub(super) fn ring_before(&mut self, bytes: usize) {
        if bytes >= AWHILE {
            self.ring();
        }
    }

    /// Allocates memory in the segment for a message, or a part of one.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<Region, TransportError> {
        self.pool.allocate_to_return(bytes).or_else(|_| {
            // Peers may have read enough meanwhile.
            self.take_back_read();
            let again = self.pool.allocate_to_return(bytes);
            again.map_err(|reason| TransportError { lacks: Some(Lack::Memory), ..error(reason) })
        })
    }

    pub(super) fn place_of(&self, region: &Region) -> u64 {
        self.pool.offset_of(region).expect("it is from the pool") as u64
    }

    /// Puts the descriptors that waited for slots, as far as there are slots. Returns whether there were any.
    pub(super) fn fill(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.peers.active().len() {
            let rank = self.peers.active()[index];
            let peer = self.peers.get_mut(rank);
            let mut put = false;
            while !peer.out.queue.is_empty() && peer.has_room(&self.home) {
                let Queued { descriptor, request } = peer.out.queue.pop_front().expect("it is not empty");
                self.home.channel_to(rank).put(peer.out.next, &descriptor);
                peer.out.next += 1;
                put = true;
                let completed = |request| Event::Completed { request, result: Ok(()) };
                self.events.extend(request.map(completed));
            }
            if put {
                peer.news = News::Descriptor;
                self.has_news = true;
                any = true;
            }
        }
        any
    }

    /// Reclaims the memory that peers have read. Returns whether sends have ended by that.
    pub(super) fn take_back_read(&mut self) -> bool {
        let before = self.events.len();
        for index in 0..self.peers.active().len() {
            let rank = self.peers.active()[index];
            let peer = self.peers.get_mut(rank);
            if peer.out.retained.is_empty() {
                continue;
            }
            let released = peer.released(self.home.rank);
            while peer.out.retained.front().is_some_and(|retained| retained.number < released) {
                let retained = peer.out.retained.pop_front().expect("it is not empty");
                retained.end(rank, &mut self.unread, &mut self.events);
            }
        }
        self.events.len() > before
    }

    /// Reclaims the memory of a descriptor that has been released before older ones.
    pub(super) fn take_back(&mut self, rank: Rank, number: u64) {
        let retained = &mut self.peers.get_mut(rank).out.retained;
        let found = retained.binary_search_by_key(&number, |retained| retained.number).ok();
        if let Some(retained) = found.and_then(|index| retained.remove(index)) {
            retained.end(rank, &mut self.unread, &mut self.events);
        }
    }
}
