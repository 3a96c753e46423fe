//! A local rank, as this one sees it: its segment, and the messages in both directions.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use ringroad_core::Rank;

use super::cache_probe::{is_clock_fast, CacheProbe};
use super::channel::{
    ChannelEnd, Counters, Descriptor, DescriptorChannel, DescriptorForm, Doorbell, SegmentGoodbye, INLINE,
    SLOTS,
};
use super::cma::Cma;
use super::flow::{Inflow, Outflow, PartMemory, LONG, PART};
use super::home::{channels, control, Home, COUNTERS, DOORBELL, GOODBYE};
use super::matching::{ArrivedPart, TakenDescriptor};
use super::release_set::Released;
use super::segment::Segment;
use crate::transport::buffer::Region;
use crate::transport::notice::MAX_NOTICE_BYTES;
use crate::transport::{self, Arrived, Event, MessageKind, RequestId, Returns, Tag};

/// The segment of a local rank, and the messages in both directions.
pub(super) struct LocalPeer {
    pub(super) rank: Rank,
    pub(super) segment: Arc<Segment>,
    pub(super) doorbell: File,
    /// The peer's private memory, if it can be read.
    pub(super) cma: Option<Cma>,
    pub(super) out: Outgoing,
    pub(super) incoming: Incoming,
    /// Whether the peer's end has been reported.
    pub(super) left: bool,
    /// Why the peer cannot be trusted any more, until that is reported.
    pub(super) flaw: Option<String>,
    /// What the peer has to be woken for, if it sleeps.
    pub(super) news: News,
    /// Measures whether the peer shares a cache with this rank.
    pub(super) cache_probe: CacheProbe,
    /// Whether it is one of [`super::peers::LocalPeers::active`].
    pub(super) is_active: bool,
    /// Whether the two have exchanged descriptors since it was last checked that the peer has not given up.
    pub(super) is_unchecked: bool,
}

/// What a peer has not been woken for yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum News {
    #[default]
    Nothing,
    /// Descriptors have been released or taken out of their slots.
    Released,
    /// A descriptor has been put.
    Descriptor,
}

#[derive(Default)]
pub(super) struct Outgoing {
    /// Whether the channel has memory.
    is_open: bool,
    /// The number of the next descriptor to be put into the channel.
    pub(super) next: u64,
    /// At least all descriptors before this one have left their slots.
    pub(super) taken: u64,
    /// Descriptors that wait for a slot.
    pub(super) queue: VecDeque<Queued>,
    /// Memory that the peer may be reading, by descriptor number.
    pub(super) retained: VecDeque<Retained>,
    /// Long messages of which further parts will be put.
    pub(super) flows: Vec<Outflow>,
}

pub(super) struct Queued {
    pub(super) descriptor: Descriptor,
    /// The send that ends when the descriptor gets its slot: until then this transport has to be driven.
    pub(super) request: Option<RequestId>,
}

pub(super) struct Retained {
    pub(super) number: u64,
    pub(super) region: Region,
    /// The send that ends when the peer has read the memory.
    pub(super) request: Option<RequestId>,
    /// The first descriptor of the flow that this is a part of.
    pub(super) flow: Option<u64>,
}

/// What peers may still read, all of them together.
#[derive(Default)]
pub(super) struct Unread {
    /// Bytes of sends that have ended.
    pub(super) kept: usize,
    /// The number of sends that end when peers have read or taken everything.
    pub(super) waiting: usize,
    /// Parts of flows that peers have read and that hold no new part yet.
    pub(super) room: Vec<PartMemory>,
}

impl Retained {
    pub(super) fn end(self, peer: Rank, unread: &mut Unread, events: &mut Vec<Event>) {
        match self.request {
            None => {
                unread.kept -= self.region.len();
                unread.room.extend(self.flow.map(|first| (peer, first, self.region)));
            }
            Some(request) => {
                unread.waiting -= 1;
                events.push(Event::Completed { request, result: Ok(()) });
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Incoming {
    /// Whether the peer's channel has memory, and is mapped.
    pub(super) is_open: bool,
    /// The number of the next descriptor to be taken.
    pub(super) next: u64,
    /// The number of posted receives whose messages have not come, and of those for long messages.
    pub(super) wanted: usize,
    pub(super) wanted_long: usize,
    /// The number of messages of collectives that have come and that no receive has matched yet.
    pub(super) ahead: usize,
    /// The descriptor for which the last look was in vain. The next look brings its line from the peer's cache.
    pub(super) missed: Cell<Option<u64>>,
    pub(super) released: Released,
    /// Long messages of which further parts will come.
    pub(super) flows: Vec<Inflow>,
}

impl Incoming {
    /// Whether a part of `bytes` bytes may still come, of the flow that began with descriptor `first`.
    fn expects_part(&self, first: u64, bytes: usize) -> bool {
        let flow = self.flows.iter().find(|flow| flow.first == first);
        flow.is_some_and(|flow| flow.expects(bytes))
    }
}

impl LocalPeer {
    /// Whether something may be expected from the peer, or is to be done for it.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        let Incoming { wanted, flows, .. } = &self.incoming;
        let Outgoing { queue, retained, .. } = &self.out;
        *wanted > 0
            || self.is_unchecked
            || self.news > News::Nothing
            || !(flows.is_empty() && queue.is_empty() && retained.is_empty())
    }

    /// Whether the peer's channel to the rank of `home` can be read. Until the peer sends something, it has no memory.
    #[inline]
    pub(super) fn is_open(&mut self, home: &Home) -> bool {
        self.incoming.is_open || self.open_channel(home)
    }

    #[cold]
    fn open_channel(&mut self, home: &Home) -> bool {
        if !self.counters(home.rank).is_open() {
            return false;
        }
        let control = control(home.size);
        if self.segment.mapped() < control {
            match self.segment.with_pool(control) {
                Ok(wider) => self.segment = Arc::new(wider),
                Err(reason) => {
                    self.flaw.get_or_insert_with(|| unreadable(&reason));
                    return false;
                }
            }
        }
        self.incoming.is_open = true;
        true
    }

    /// Makes sure that the channel from the rank of `home` has memory.
    #[inline]
    pub(super) fn open_way(&mut self, home: &Home) -> Result<(), String> {
        if !self.out.is_open {
            home.open_channel_to(self.rank)?;
            self.out.is_open = true;
        }
        Ok(())
    }

    /// The channel from this peer to `rank`, of `size` ranks, which is open.
    #[inline]
    pub(super) fn channel(&self, rank: Rank, size: usize) -> &DescriptorChannel {
        // SAFETY: within the peer's segment, which is laid out as ours. The content of a channel is checked before it is
        // used.
        unsafe { &*self.segment.at(channels(size) + rank * size_of::<DescriptorChannel>()).cast() }
    }

    /// The counters of the descriptors that the peer has taken from `rank`.
    #[inline]
    pub(super) fn counters(&self, rank: Rank) -> &Counters {
        // SAFETY: as above.
        unsafe { &*self.segment.at(COUNTERS + rank * size_of::<Counters>()).cast() }
    }

    /// How the peer has ended, until that has been reported.
    #[inline]
    fn end(&self) -> Option<ChannelEnd> {
        // SAFETY: as above.
        let goodbye: &SegmentGoodbye = unsafe { &*self.segment.at(GOODBYE).cast() };
        goodbye.said().filter(|_| !self.left)
    }

    #[inline]
    pub(super) fn has_left(&self) -> bool {
        self.end().is_some()
    }

    /// Whether [`LocalPeer::take_end`] would return something.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.has_left() || self.flaw.is_some()
    }

    /// The peer's end or its mistake as an event. Returns each peer's end only once.
    #[inline]
    pub(super) fn take_end(&mut self) -> Option<Event> {
        let flaw = self.flaw.take().filter(|_| !self.left);
        let reason = flaw.or_else(|| self.end().map(|end| ending(end).to_owned()))?;
        self.left = true;
        Some(Event::PeerFailed { peer: self.rank, reason })
    }

    /// Notes that the peer has written something invalid.
    #[cold]
    fn refuse(&mut self, what: String) {
        self.flaw.get_or_insert_with(|| format!("its shared memory holds invalid data: {what}"));
    }

    /// Notes that this descriptor is invalid. Neither the descriptor nor a later one is taken.
    #[cold]
    pub(super) fn refuse_descriptor(&mut self, number: u64, descriptor: &Descriptor) {
        let (form, bytes, place) = (descriptor.form(), descriptor.bytes(), descriptor.place);
        self.refuse(format!("descriptor {number} ({form:?}) is about {bytes} bytes at {place:#x}"));
    }

    /// Whether a descriptor from the peer is valid.
    #[inline]
    pub(super) fn is_sound(&self, descriptor: &Descriptor) -> bool {
        let bytes = descriptor.bytes();
        let fits = |bytes| lies_within(descriptor.place, bytes, self.segment.mapped());
        match descriptor.form() {
            DescriptorForm::Inline => bytes <= INLINE && self.may_send(descriptor),
            DescriptorForm::Segment => fits(bytes) && self.may_send(descriptor),
            DescriptorForm::Flow => bytes >= LONG && fits(PART) && self.may_send(descriptor),
            DescriptorForm::Cma => {
                lies_within(descriptor.place, bytes, usize::MAX) && self.may_send(descriptor)
            }
            DescriptorForm::Part => fits(bytes) && self.incoming.expects_part(descriptor.tag, bytes),
            DescriptorForm::Release => descriptor.place < self.out.next,
            DescriptorForm::Unknown => false,
        }
    }

    /// Maps the memory that a descriptor names, if it is in the peer's segment and not mapped yet. Returns whether the
    /// descriptor is valid then.
    #[cold]
    pub(super) fn reach(&mut self, descriptor: &Descriptor) -> bool {
        let bytes = match descriptor.form() {
            DescriptorForm::Segment | DescriptorForm::Part => descriptor.bytes(),
            DescriptorForm::Flow => PART,
            _ => return false,
        };
        let is_new = |end: &usize| *end > self.segment.mapped() && *end <= self.segment.len();
        let Some(end) = (descriptor.place as usize).checked_add(bytes).filter(is_new) else { return false };
        match self.segment.wider(end) {
            Ok(wider) => self.segment = Arc::new(wider),
            Err(reason) => {
                self.flaw.get_or_insert_with(|| unreadable(&reason));
            }
        }
        self.is_sound(descriptor)
    }

    /// Whether a message of the peer can have this tag.
    #[inline]
    fn may_send(&self, descriptor: &Descriptor) -> bool {
        let tag = Tag::unpack(descriptor.tag);
        let may_notify = || {
            matches!(descriptor.form(), DescriptorForm::Inline | DescriptorForm::Segment)
                && descriptor.bytes() <= MAX_NOTICE_BYTES
        };
        tag.source == self.rank && (tag.kind != MessageKind::Control || may_notify())
    }

    /// The number up to which the peer has released all descriptors from `rank`.
    #[inline]
    pub(super) fn released(&mut self, rank: Rank) -> u64 {
        let released = self.counters(rank).released();
        if released <= self.out.next {
            return released;
        }
        self.refuse(format!("{released} descriptors are released, of {}", self.out.next));
        0
    }

    /// Wakes the peer if it blocks or is about to, and waits for this kind of news. [`Doorbell::before_look`] must have
    /// been called before.
    #[inline]
    pub(super) fn ring(&mut self) {
        // SAFETY: as above.
        let doorbell: &Doorbell = unsafe { &*self.segment.at(DOORBELL).cast() };
        let news = std::mem::take(&mut self.news);
        if news > News::Nothing && doorbell.is_asleep(news == News::Released) {
            // If the pipe is full, the peer will wake up anyway.
            let _ = (&self.doorbell).write(&[1]);
        }
    }
}

impl LocalPeer {
    /// The next descriptor for `rank`, of `size` ranks, if it is there. If the last look was in vain, also measures how
    /// long this one takes and returns whether the measured distance has to be told to the peer. Separate from the
    /// path of short messages, which it would slow down.
    #[cold]
    pub(super) fn next_descriptor(&mut self, rank: Rank, size: usize) -> Option<(Descriptor, bool)> {
        let number = self.incoming.next;
        let channel = self.channel(rank, size);
        let missed = self.incoming.missed.get() == Some(number);
        let start = (missed && is_clock_fast()).then(|| {
            // Reads another slot first, so that the page lookup is not measured.
            std::hint::black_box(channel.has(number.wrapping_sub(1)));
            Instant::now()
        });
        let Some(descriptor) = channel.get(number) else {
            self.incoming.missed.set(Some(number));
            return None;
        };
        Some((descriptor, start.is_some_and(|start| self.cache_probe.found(start))))
    }

    /// Whether the channel from the rank of `home` to this peer has a free slot.
    #[inline]
    pub(super) fn has_room(&mut self, home: &Home) -> bool {
        if self.out.next - self.out.taken < SLOTS as u64 {
            return self.open_way(home).is_ok();
        }
        let taken = self.counters(home.rank).taken();
        if !(self.out.taken..=self.out.next).contains(&taken) {
            self.refuse(format!("{taken} descriptors are taken, of {}", self.out.next));
            return false;
        }
        self.out.taken = taken;
        self.out.next - self.out.taken < SLOTS as u64
    }

    /// The message of a valid descriptor. Content within the descriptor is moved to one of `cells`, or to a new cell.
    pub(super) fn open(
        &self,
        number: u64,
        descriptor: &Descriptor,
        cells: &mut Vec<Region>,
    ) -> TakenDescriptor {
        let bytes = descriptor.bytes();
        let (came, region) = match descriptor.form() {
            DescriptorForm::Inline => {
                let cell = cells.pop().unwrap_or_else(|| Region::zeroed(INLINE));
                // SAFETY: nobody else has the cell, which is of this length.
                unsafe { cell.as_ptr().cast::<[u64; INLINE / 8]>().write(descriptor.inline) };
                (ArrivedPart::Whole, cell.shrink(bytes))
            }
            DescriptorForm::Cma => (ArrivedPart::Address(descriptor.place), Region::nothing()),
            form => {
                let offset = descriptor.place as usize;
                let there = if form == DescriptorForm::Flow { PART } else { bytes };
                // SAFETY: within the mapping, as the descriptor is valid. The region keeps the segment; nobody in this
                // process writes to it.
                let region = unsafe { Region::foreign(self.segment.at(offset), there, self.segment.clone()) };
                let came =
                    if form == DescriptorForm::Flow { ArrivedPart::FirstPart } else { ArrivedPart::Whole };
                (came, region)
            }
        };
        let inline = descriptor.form() == DescriptorForm::Inline;
        let returns = if inline { Returns::ToTransport } else { Returns::ToSender(number) };
        let arrived = Arrived { region, peer: self.rank, returns };
        TakenDescriptor { tag: descriptor.tag, bytes, came, arrived }
    }
}

fn unreadable(reason: &str) -> String {
    format!("its shared memory cannot be read: {reason}")
}

fn ending(end: ChannelEnd) -> &'static str {
    match end {
        ChannelEnd::Closed => transport::CLOSED,
        ChannelEnd::Aborted => transport::ABORTED,
        ChannelEnd::Dropped => "it has ended without closing its connections",
    }
}

/// Whether `bytes` bytes from `place` on end at or before `end`.
#[inline]
fn lies_within(place: u64, bytes: usize, end: usize) -> bool {
    place.checked_add(bytes as u64).is_some_and(|last| last <= end as u64)
}
