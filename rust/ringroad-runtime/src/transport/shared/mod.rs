//! Shared memory: the ranks of one host read each other's memory; everybody else is reached by another transport.
//!
//! Every rank has a segment that its neighbours map to read. In it lie a lane to each of them, and what it sends
//! them: messages are places in the segment. Their receivers reduce or copy straight out of it, and say when they are
//! done with it by a counter in their own segment. So nobody ever writes another process's memory.
//!
//! A message from elsewhere in the sender's memory is copied into the segment first, part by part if it is long
//! (see `flow.rs`), or, where that is faster, the kernel copies it out of there for the receiver (see `private.rs`). Plans for
//! near ranks do the copying themselves, where it is needed, and keep their scratch memory in the segment.

mod available;
mod flow;
mod gauge;
mod home;
mod incoming;
mod lane;
mod outgoing;
mod peer;
mod pool;
mod private;
mod released;
mod segment;
mod tags;
#[cfg(test)]
mod unsound;

pub use flow::LONG;
pub use home::{Home, Neighbour, Offer};
pub use pool::Pool;
pub use private::PRIVATE;

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::{Port, Rank};

use self::flow::Room;
use self::gauge::Gauge;
use self::incoming::Wanted;
use self::lane::{End, Form, Parcel, INLINE};
use self::peer::{Message, News, Peer};
use self::private::{is_found, Reading};
use self::tags::{Queue, Tags};
use super::events::EventWait;
use super::ucx::UcxTransport;
use super::{Arrived, Event, Kind, Posted, RequestId, Returns, Tag, Transport, TransportError, Wait};
use crate::buffer::Region;
use crate::cache::CacheMode;

/// So many messages are noted as candidates for the oldest before any is left out.
const OLDEST: usize = 32;
/// How often looking for messages comes with a look for releases that nobody waits for.
const HOUSEKEEPING: u32 = 256;
/// How often a rank looks for the next message before it does anything else: for one to five microseconds.
const LINGER: u32 = 100;
/// After how many of these looks those are woken who sleep: mostly nobody does, and the message is there.
const SOON: u32 = 25;
const PAUSE: Duration = Duration::from_micros(50);

/// Bytes for notices when nothing else of the segment is left.
const RESERVE: usize = 64 << 10;

/// The transport among ranks of which some share a host.
pub struct SharedMemory {
    home: Home,
    pool: Arc<Pool>,
    /// Given back to the pool when it has no memory for a notice: others are to hear just that.
    reserve: Option<Region>,
    /// By rank; `None` for those that are not near.
    peers: Vec<Option<Box<Peer>>>,
    near: Arc<[bool]>,
    /// Whether others read long messages out of this rank's private memory.
    private: bool,
    /// Long messages that are being copied out of others' private memory, in turns.
    readings: VecDeque<Reading>,
    ranks: Vec<Rank>,
    network: Option<UcxTransport>,
    waiter: Arc<dyn Wait>,
    /// The same, where there is no network.
    own_waiter: Option<Arc<EventWait>>,
    /// What has come and nobody has asked for yet, and the other way round.
    unclaimed: Tags<Queue<Message>>,
    unclaimed_number: u64,
    /// The numbers and keys of what has come so of collectives, the oldest first, with some that were asked for since.
    oldest: VecDeque<(u64, u64)>,
    /// When there are so many, those are left out that were asked for.
    oldest_room: usize,
    wanted: Tags<Queue<Wanted>>,
    /// What has come to be read in its place, until that is asked for: soon.
    arrived: VecDeque<(RequestId, Arrived)>,
    /// Memory for messages that come inside their parcels.
    cells: Vec<Region>,
    events: Vec<Event>,
    /// Bytes that others may be reading after the call.
    kept: usize,
    /// Sends that end when others have read.
    waiting: usize,
    /// What others have read of flows, and has not been used again yet.
    room: Vec<Room>,
    rounds: u32,
    /// Whether some peer is to be woken.
    has_news: bool,
    asleep: bool,
    ended: bool,
}

impl SharedMemory {
    /// A group of `size` ranks within this process; each belongs to one thread.
    pub fn group(size: usize) -> Result<Vec<SharedMemory>, TransportError> {
        let homes =
            (0..size).map(|rank| Home::new(rank, size)).collect::<Result<Vec<_>, _>>().map_err(error)?;
        let beside = |rank| homes.iter().filter(move |home| home.rank != rank).map(Home::beside).collect();
        let neighbours: Vec<Vec<Neighbour>> =
            (0..size).map(beside).collect::<Result<_, _>>().map_err(error)?;
        for (home, near) in homes.iter().zip(&neighbours) {
            near.iter().try_for_each(|near| home.prepare_for(near.rank)).map_err(error)?;
        }
        homes
            .into_iter()
            .zip(neighbours)
            .map(|(home, near)| SharedMemory::new(home, near, None, false, CacheMode::Near))
            .collect()
    }

    /// `neighbours` are the ranks that this one can read and that can read it, for which its memory has been prepared; all
    /// others need the `network`. `private`:
    /// they are to read long messages out of private memory, which they can; they do if this rank can tell what is there.
    /// `cache`: how far they seem to be.
    pub fn new(
        home: Home,
        neighbours: Vec<Neighbour>,
        network: Option<UcxTransport>,
        private: bool,
        cache: CacheMode,
    ) -> Result<SharedMemory, TransportError> {
        let (waiter, own_waiter): (Arc<dyn Wait>, _) = match &network {
            Some(network) => (network.waiter(), None),
            None => {
                let own = Arc::new(EventWait::new(vec![home.bell().map_err(error)?]).map_err(error)?);
                (own.clone(), Some(own))
            }
        };
        let mut peers: Vec<Option<Box<Peer>>> = (0..home.size).map(|_| None).collect();
        let address = home.address();
        for Neighbour { rank, segment, bell, private } in neighbours {
            let private = private.ok();
            let (out, incoming) = Default::default();
            let (news, gauge) = (News::Nothing, Gauge::new(cache));
            peers[rank] = Some(Box::new(Peer {
                rank,
                segment,
                bell,
                private,
                out,
                incoming,
                left: false,
                flaw: None,
                news,
                gauge,
            }));
        }
        let pool = Pool::new(home.segment.clone());
        Ok(SharedMemory {
            reserve: pool.allocate(RESERVE).ok(),
            pool,
            near: peers.iter().map(Option::is_some).collect(),
            ranks: (0..home.size).filter(|rank| peers[*rank].is_some()).collect(),
            home,
            peers,
            private: private && is_found(address, size_of::<u64>()),
            readings: VecDeque::new(),
            network,
            waiter,
            own_waiter,
            unclaimed: Tags::default(),
            unclaimed_number: 0,
            oldest: VecDeque::new(),
            oldest_room: OLDEST,
            wanted: Tags::default(),
            arrived: VecDeque::new(),
            cells: Vec::new(),
            events: Vec::new(),
            kept: 0,
            waiting: 0,
            room: Vec::new(),
            rounds: 0,
            has_news: false,
            asleep: false,
            ended: false,
        })
    }

    fn network(&mut self, peer: Rank) -> Result<&mut UcxTransport, TransportError> {
        self.network.as_mut().ok_or_else(|| error(format!("there is no way to rank {peer}")))
    }

    fn check_open(&self) -> Result<(), TransportError> {
        if self.ended {
            return Err(error("the transport has been closed"));
        }
        Ok(())
    }

    fn get_up(&mut self) {
        self.asleep = false;
        self.home.own_bell().get_up();
        // What came meanwhile may have left the sender's cache.
        self.peers.iter().flatten().for_each(|peer| peer.incoming.missed.set(None));
        // Whoever woke this rank has written to the pipe; there may be nothing.
        let _ = (&self.home.bell[0]).read(&mut [0; 64]);
    }

    #[inline]
    fn look(&mut self) -> bool {
        let mut any = self.take_all();
        if !self.readings.is_empty() {
            any |= self.read_on();
        }
        if self.peers_wait_for_slots() {
            any |= self.fill();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.waiting > 0 || self.rounds.is_multiple_of(HOUSEKEEPING) {
            any |= self.reclaim();
        }
        if !self.room.is_empty() {
            any |= self.refill();
        }
        self.ring();
        any
    }

    fn is_near(&self, rank: Rank) -> bool {
        self.near.get(rank).copied().unwrap_or(false)
    }

    /// Takes no more part: the others hear of it when they have taken all that was put.
    fn leave(&mut self, end: End) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.home.own_farewell().say(end);
        let ranks = self.ranks.clone();
        ranks.into_iter().for_each(|rank| self.tell(rank, News::Parcel));
        self.ring();
    }
}

fn error(reason: impl Into<String>) -> TransportError {
    TransportError { transport: "shared memory", reason: reason.into(), lacks_memory: false }
}

impl Transport for SharedMemory {
    fn describe(&self) -> String {
        let near = match self.ranks.len() + 1 {
            all if all == self.home.size => "shared memory".to_owned(),
            some => format!("shared memory (with {} of {} ranks)", some - 1, self.home.size - 1),
        };
        let near = if self.private { format!("{near}, cma") } else { near };
        match &self.network {
            None => near,
            Some(network) => format!("{near}, {}", network.describe()),
        }
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        self.check_open()?;
        if self.is_near(peer) {
            return Ok(());
        }
        self.network(peer)?.connect(peer)
    }

    fn send(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.post(peer, port, tag, source, false, request)
    }

    fn lend(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.post(peer, port, tag, source, true, request)
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        if !self.is_near(tag.source) {
            return self.network(tag.source)?.receive(port, tag, target, request);
        }
        self.want(Wanted { tag: tag.pack(), bytes: target.len(), request, target: Some(target) })
    }

    fn near(&self) -> Arc<[bool]> {
        self.near.clone()
    }

    fn tidy(&mut self) {
        self.reclaim();
    }

    #[inline]
    fn flush(&mut self) {
        self.ring();
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        Some(self.pool.clone())
    }

    fn distance(&self, peer: Rank) -> Option<CacheMode> {
        let peer = self.peers[peer].as_ref()?;
        Some(peer.counters(self.home.rank).distance().unwrap_or(peer.gauge.mode()))
    }

    fn private(&self) -> bool {
        self.private
    }

    fn expect(&mut self, tag: Tag, bytes: usize, request: RequestId) -> Result<Posted, TransportError> {
        if !self.is_near(tag.source) {
            return Err(error(format!("rank {}'s memory cannot be read", tag.source)));
        }
        self.want(Wanted { tag: tag.pack(), bytes, request, target: None })
    }

    fn arrived(&mut self, request: RequestId) -> Option<Arrived> {
        // What was there when it was expected is the latest.
        let index = self.arrived.iter().rposition(|(of, _)| *of == request)?;
        self.arrived.swap_remove_back(index).map(|(_, arrived)| arrived)
    }

    fn release(&mut self, arrived: Arrived) {
        let number = match arrived.returns {
            Returns::ToSender(number) => number,
            // SAFETY: it is a cell, which is as long.
            Returns::ToTransport => return self.cells.push(unsafe { arrived.region.regrow(INLINE) }),
            Returns::Nowhere => return,
        };
        if self.note_release(arrived.peer, number) {
            self.tell(arrived.peer, News::Released);
        } else {
            let mut parcel = Parcel::new(0, Form::Release, 0);
            parcel.place = number;
            self.put(arrived.peer, parcel, None, None, None);
        }
    }

    fn has_queued(&self) -> bool {
        !self.ended && self.peers_wait_for_slots()
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        if !self.is_near(peer) {
            if let Some(network) = &mut self.network {
                network.notify(peer, payload);
            }
            return;
        }
        let tag = Tag { source: self.home.rank, kind: Kind::Control, sequence: 0, message: 0, check: 0 };
        let packed = self.pack(tag, Region::of(payload)).or_else(|_| {
            self.reserve = None;
            self.pack(tag, Region::of(payload))
        });
        // Best effort: where there is no memory left at all, the peer is told nothing.
        if let Ok((parcel, region)) = packed {
            self.put(peer, parcel, region, None, None);
            self.ring();
        }
    }

    #[inline]
    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        if self.asleep {
            self.get_up();
        }
        let mut any = self.look();
        if any {
            match (&mut self.network, &self.own_waiter) {
                (Some(network), _) => network.note_progress(),
                (None, Some(waiter)) => waiter.note_progress(),
                (None, None) => {}
            }
        }
        any |= !self.events.is_empty();
        events.append(&mut self.events);
        if let Some(network) = &mut self.network {
            any |= network.progress(events);
        }
        any
    }

    #[inline]
    fn hear(&mut self, next: u32, events: &mut Vec<Event>) {
        let next = Tag::of_collective(0, next);
        let is_of_next = |(form, tag)| {
            !matches!(form, Form::Release | Form::Part) && tag & Tag::CALL & Tag::SUBJECT == next
        };
        let is_quiet = |peer: &Peer| {
            self.head(peer).is_none_or(is_of_next) && peer.out.queue.is_empty() && !peer.has_failed()
        };
        let quiet = self.events.is_empty() && self.peers.iter().flatten().all(|peer| is_quiet(peer));
        if !quiet || self.rounds.wrapping_add(1).is_multiple_of(HOUSEKEEPING) {
            return self.inspect(events);
        }
        self.rounds = self.rounds.wrapping_add(1);
        if let Some(network) = &mut self.network {
            network.inspect(events);
        }
    }

    fn linger(&mut self, tag: Tag) {
        if !self.is_near(tag.source) || self.unclaimed.contains_key(&(tag.pack() & Tag::MATCH)) {
            return;
        }
        for round in 0..LINGER {
            let peer = self.peers[tag.source].as_ref().expect("the rank is near");
            if self.head(peer).is_some() {
                return;
            }
            if round == SOON {
                self.ring();
            }
            std::hint::spin_loop();
        }
    }

    fn inspect(&mut self, events: &mut Vec<Event>) {
        // In this order: what a rank put before it left is found before its end is told.
        let mut ends = Vec::new();
        for peer in self.peers.iter_mut().flatten() {
            ends.extend(peer.hear_end());
        }
        self.look();
        events.append(&mut self.events);
        events.extend(ends);
        if let Some(network) = &mut self.network {
            network.inspect(events);
        }
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        if !self.is_near(source) {
            return self.network.as_mut()?.unexpected(source, sequence);
        }
        let call = Tag::of_collective(source, sequence);
        let key = self.unclaimed.keys().filter(|key| *key & Tag::CALL == call).min()?;
        Some(Tag::unpack(self.unclaimed[key].first.tag))
    }

    fn unclaimed(&mut self, tag: Tag, source: Option<Rank>) -> Option<Rank> {
        self.take_whatever_is_ahead();
        let mask = if source.is_some() { Tag::MATCH } else { Tag::SUBJECT };
        let wanted = Tag { source: source.unwrap_or(0), ..tag }.pack() & mask;
        let fitting = self.unclaimed.iter().filter(|(key, _)| *key & mask == wanted);
        let near =
            fitting.min_by_key(|(_, messages)| messages.first.order).map(|(key, _)| Tag::unpack(*key).source);
        near.or_else(|| self.network.as_mut()?.unclaimed(tag, source))
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        let near = loop {
            let Some((order, key)) = self.oldest.front() else { break None };
            match self.unclaimed.get(key) {
                Some(messages) if messages.first.order <= *order => {
                    break Some(Tag::unpack(messages.first.tag))
                }
                _ => self.oldest.pop_front(),
            };
        };
        let far = self.network.as_mut().and_then(Transport::oldest_unexpected);
        match (near, far) {
            (Some(near), Some(far)) if super::is_earlier(far.sequence, near.sequence) => Some(far),
            (near, far) => near.or(far),
        }
    }

    fn arm(&mut self) -> bool {
        self.asleep = true;
        self.home.own_bell().lie_down(self.waiting > 0 || self.peers_wait_for_slots());
        if self.look() || !self.events.is_empty() {
            return false;
        }
        self.network.as_mut().is_none_or(|network| network.arm())
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.waiter.clone()
    }

    /// Others may go on reading what they were sent: it stays where it is until they have said that they are done. What this
    /// rank reads ends here.
    fn abort(&mut self, deadline: Instant) {
        self.leave(End::Aborted);
        self.wanted.clear();
        for peer in self.peers.iter_mut().flatten() {
            (peer.incoming.wanted, peer.incoming.wanted_long) = (0, 0);
        }
        self.readings.clear();
        self.forget_flows();
        if let Some(network) = &mut self.network {
            network.abort(deadline);
        }
    }

    fn close(&mut self, deadline: Instant) {
        while self.peers_wait_for_slots() && Instant::now() < deadline {
            self.look();
            std::thread::sleep(PAUSE);
        }
        self.leave(End::Closed);
        if let Some(network) = &mut self.network {
            network.close(deadline);
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.leave(End::Dropped);
        if self.peers.iter().flatten().any(|peer| !peer.out.lent.is_empty()) {
            self.pool.keep_all();
        }
    }
}
