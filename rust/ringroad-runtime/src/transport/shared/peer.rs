//! A near rank, as this one sees it: its memory, and what goes to and fro.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use ringroad_core::Rank;

use super::flow::{Inflow, Outflow, Room, LONG, PART};
use super::gauge::{is_clock_fast, Gauge};
use super::home::{lanes, BELL, COUNTERS, FAREWELL};
use super::lane::{Bell, Counters, End, Farewell, Form, Lane, Parcel, INLINE, SLOTS};
use super::private::Private;
use super::released::Released;
use super::segment::Segment;
use crate::buffer::Region;
use crate::notice::LONGEST;
use crate::transport::{self, Arrived, Event, Kind, RequestId, Returns, Tag};

/// The memory of a near rank, and what goes to and fro.
pub(super) struct Peer {
    pub(super) rank: Rank,
    pub(super) segment: Arc<Segment>,
    pub(super) bell: File,
    /// Its private memory, where that can be read.
    pub(super) private: Option<Private>,
    pub(super) out: Outgoing,
    pub(super) incoming: Incoming,
    /// Whether its end has been reported.
    pub(super) left: bool,
    /// What it has written that makes no sense, until that is reported.
    pub(super) flaw: Option<String>,
    /// What it is to be woken for, if it sleeps.
    pub(super) news: News,
    /// How far it is.
    pub(super) gauge: Gauge,
}

/// What a peer has not been woken for yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum News {
    #[default]
    Nothing,
    /// Something has been released, or there is room.
    Released,
    /// There is a parcel.
    Parcel,
}

#[derive(Default)]
pub(super) struct Outgoing {
    /// The number of the next parcel to be put into the lane.
    pub(super) next: u64,
    /// All parcels before this one have left their slots, at least.
    pub(super) taken: u64,
    /// Parcels that wait for a slot.
    pub(super) queue: VecDeque<Queued>,
    /// What the peer may be reading, by parcel number.
    pub(super) lent: VecDeque<Lent>,
    /// Long messages of which some is still to be put.
    pub(super) flows: Vec<Outflow>,
}

pub(super) struct Queued {
    pub(super) parcel: Parcel,
    /// The send that ends when the parcel gets its slot: until then somebody has to drive this transport.
    pub(super) request: Option<RequestId>,
}

pub(super) struct Lent {
    pub(super) number: u64,
    pub(super) region: Region,
    /// The send that ends with it.
    pub(super) request: Option<RequestId>,
    /// The first parcel of the flow that it is a part of.
    pub(super) flow: Option<u64>,
}

impl Lent {
    pub(super) fn end(
        self,
        peer: Rank,
        kept: &mut usize,
        waiting: &mut usize,
        room: &mut Vec<Room>,
        events: &mut Vec<Event>,
    ) {
        match self.request {
            None => {
                *kept -= self.region.len();
                room.extend(self.flow.map(|first| (peer, first, self.region)));
            }
            Some(request) => {
                *waiting -= 1;
                events.push(Event::Completed { request, result: Ok(()) });
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Incoming {
    /// The number of the next parcel to be taken.
    pub(super) next: u64,
    /// How many messages are waited for, and how many long ones.
    pub(super) wanted: usize,
    pub(super) wanted_long: usize,
    /// How many messages of collectives have come that nobody has asked for yet.
    pub(super) ahead: usize,
    /// One that has been looked for in vain: the next look brings it from the peer.
    pub(super) missed: Cell<Option<u64>>,
    pub(super) released: Released,
    /// Long messages of which some is still to come.
    pub(super) flows: Vec<Inflow>,
}

impl Incoming {
    /// Whether so many bytes of the flow that began with this parcel may still come.
    fn expects_part(&self, first: u64, bytes: usize) -> bool {
        let flow = self.flows.iter().find(|flow| flow.first == first);
        flow.is_some_and(|flow| flow.expects(bytes))
    }
}

/// A parcel that has been taken out of its lane.
pub(super) struct Message {
    /// Packed, as in [`Wanted`]: a tag in pieces waits in vain for the stores before it to be forwarded.
    pub(super) tag: u64,
    /// Counts what nobody had asked for when it came.
    pub(super) order: u64,
    pub(super) bytes: usize,
    pub(super) came: Came,
    pub(super) arrived: Arrived,
}

/// What has come of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Whole,
    FirstPart,
    /// Where it is in its sender's private memory.
    Address(u64),
}

impl Peer {
    /// The lane from this peer to `rank`, of `size`.
    #[inline]
    pub(super) fn lane(&self, rank: Rank, size: usize) -> &Lane {
        // SAFETY: within the peer's segment, which is laid out as ours; what is in a lane is looked at before it is believed.
        unsafe { &*self.segment.at(lanes(size) + rank * size_of::<Lane>()).cast() }
    }

    /// What the peer has taken from `rank`.
    #[inline]
    pub(super) fn counters(&self, rank: Rank) -> &Counters {
        // SAFETY: as above.
        unsafe { &*self.segment.at(COUNTERS + rank * size_of::<Counters>()).cast() }
    }

    /// Its end, until somebody has heard of it.
    #[inline]
    fn end(&self) -> Option<End> {
        // SAFETY: as above.
        let farewell: &Farewell = unsafe { &*self.segment.at(FAREWELL).cast() };
        farewell.heard().filter(|_| !self.left)
    }

    #[inline]
    pub(super) fn has_left(&self) -> bool {
        self.end().is_some()
    }

    /// Whether there is something to tell with [`Peer::hear_end`].
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.has_left() || self.flaw.is_some()
    }

    /// Its end, or that it cannot be believed, the first time that somebody asks.
    #[inline]
    pub(super) fn hear_end(&mut self) -> Option<Event> {
        let flaw = self.flaw.take().filter(|_| !self.left);
        let reason = flaw.or_else(|| self.end().map(|end| ending(end).to_owned()))?;
        self.left = true;
        Some(Event::PeerFailed { peer: self.rank, reason })
    }

    /// It has written something that makes no sense.
    #[cold]
    fn refuse(&mut self, what: String) {
        self.flaw.get_or_insert_with(|| format!("its shared memory makes no sense: {what}"));
    }

    /// Nothing that follows this parcel is taken.
    #[cold]
    pub(super) fn refuse_parcel(&mut self, number: u64, parcel: &Parcel) {
        let (form, bytes, place) = (parcel.form(), parcel.bytes(), parcel.place);
        self.refuse(format!("parcel {number} ({form:?}) is about {bytes} bytes at {place:#x}"));
    }

    /// Whether a parcel that it has put can be meant so.
    #[inline]
    pub(super) fn is_sound(&self, parcel: &Parcel) -> bool {
        let bytes = parcel.bytes();
        let fits = |bytes| lies_within(parcel.place, bytes, self.segment.mapped());
        match parcel.form() {
            Form::Inline => bytes <= INLINE && self.may_send(parcel),
            Form::Segment => fits(bytes) && self.may_send(parcel),
            Form::Flow => bytes >= LONG && fits(PART) && self.may_send(parcel),
            Form::Private => lies_within(parcel.place, bytes, usize::MAX) && self.may_send(parcel),
            Form::Part => fits(bytes) && self.incoming.expects_part(parcel.tag, bytes),
            Form::Release => parcel.place < self.out.next,
            Form::Unknown => false,
        }
    }

    /// Maps what a parcel is about, if that is in the peer's segment and not mapped yet. Returns whether the parcel can be
    /// meant so then.
    #[cold]
    pub(super) fn reach(&mut self, parcel: &Parcel) -> bool {
        let bytes = match parcel.form() {
            Form::Segment | Form::Part => parcel.bytes(),
            Form::Flow => PART,
            _ => return false,
        };
        let is_new = |end: &usize| *end > self.segment.mapped() && *end <= self.segment.len();
        let Some(end) = (parcel.place as usize).checked_add(bytes).filter(is_new) else { return false };
        match self.segment.wider(end) {
            Ok(wider) => self.segment = Arc::new(wider),
            Err(reason) => {
                self.flaw.get_or_insert_with(|| format!("its shared memory cannot be read: {reason}"));
            }
        }
        self.is_sound(parcel)
    }

    /// Whether a message can have this tag.
    #[inline]
    fn may_send(&self, parcel: &Parcel) -> bool {
        let tag = Tag::unpack(parcel.tag);
        let may_notify =
            || matches!(parcel.form(), Form::Inline | Form::Segment) && parcel.bytes() <= LONGEST;
        tag.source == self.rank && (tag.kind != Kind::Control || may_notify())
    }

    /// How many parcels from `rank` it has released.
    #[inline]
    pub(super) fn released(&mut self, rank: Rank) -> u64 {
        let released = self.counters(rank).released();
        if released <= self.out.next {
            return released;
        }
        self.refuse(format!("{released} parcels are released, of {}", self.out.next));
        0
    }

    /// Wakes it, if it is about to block or does, and waits for the news; [`Bell::before_look`] goes before.
    #[inline]
    pub(super) fn ring(&mut self) {
        // SAFETY: as above.
        let bell: &Bell = unsafe { &*self.segment.at(BELL).cast() };
        let news = std::mem::take(&mut self.news);
        if news > News::Nothing && bell.is_asleep(news == News::Released) {
            // If the pipe is full it will be woken anyway.
            let _ = (&self.bell).write(&[1]);
        }
    }
}

impl Peer {
    /// The next parcel for `rank`, of `size`, if it is there; notes how far away that has been if the last look was in vain, and
    /// returns also whether there is something to tell of that. Apart from the short messages' way, which it would slow down.
    #[cold]
    pub(super) fn look(&mut self, rank: Rank, size: usize) -> Option<(Parcel, bool)> {
        let number = self.incoming.next;
        let lane = self.lane(rank, size);
        let missed = self.incoming.missed.get() == Some(number);
        let start = (missed && is_clock_fast()).then(|| {
            // So that looking up the page is not counted.
            std::hint::black_box(lane.has(number.wrapping_sub(1)));
            Instant::now()
        });
        let Some(parcel) = lane.get(number) else {
            self.incoming.missed.set(Some(number));
            return None;
        };
        Some((parcel, start.is_some_and(|start| self.gauge.found(start))))
    }

    /// Whether there is a free slot in the lane to this peer from `rank`.
    #[inline]
    pub(super) fn has_room(&mut self, rank: Rank) -> bool {
        if self.out.next - self.out.taken < SLOTS as u64 {
            return true;
        }
        let taken = self.counters(rank).taken();
        if !(self.out.taken..=self.out.next).contains(&taken) {
            self.refuse(format!("{taken} parcels are taken, of {}", self.out.next));
            return false;
        }
        self.out.taken = taken;
        self.out.next - self.out.taken < SLOTS as u64
    }

    /// A parcel that is sound. What has come inside it goes to one of `cells`, or a new one.
    pub(super) fn open(&self, number: u64, parcel: &Parcel, cells: &mut Vec<Region>) -> Message {
        let bytes = parcel.bytes();
        let (came, region) = match parcel.form() {
            Form::Inline => {
                let cell = cells.pop().unwrap_or_else(|| Region::zeroed(INLINE));
                // SAFETY: nobody else has the cell, and it is as long.
                unsafe { cell.as_ptr().cast::<[u64; INLINE / 8]>().write(parcel.inline) };
                (Came::Whole, cell.shrink(bytes))
            }
            Form::Private => (Came::Address(parcel.place), Region::nothing()),
            form => {
                let offset = parcel.place as usize;
                let there = if form == Form::Flow { PART } else { bytes };
                // SAFETY: within the mapping, as the parcel is sound. The region keeps it; nobody here writes it.
                let region = unsafe { Region::foreign(self.segment.at(offset), there, self.segment.clone()) };
                let came = if form == Form::Flow { Came::FirstPart } else { Came::Whole };
                (came, region)
            }
        };
        let inline = parcel.form() == Form::Inline;
        let returns = if inline { Returns::ToTransport } else { Returns::ToSender(number) };
        let arrived = Arrived { region, peer: self.rank, returns };
        Message { tag: parcel.tag, order: 0, bytes, came, arrived }
    }
}

fn ending(end: End) -> &'static str {
    match end {
        End::Closed => "it has closed its connections",
        End::Aborted => transport::ABORTED,
        End::Dropped => "it has ended without closing its connections",
    }
}

/// Whether so many bytes from `place` on end before `end`.
#[inline]
fn lies_within(place: u64, bytes: usize, end: usize) -> bool {
    place.checked_add(bytes as u64).is_some_and(|last| last <= end as u64)
}
