//! Shared memory: the ranks of one host read each other's memory. Ranks of other hosts cannot be reached.
//!
//! Every rank has a segment that its neighbours map to read. It holds a channel to each neighbour and the messages
//! themselves: a message is a place in the segment. The receiver reduces or copies straight out of it, and then
//! advances a counter in its own segment. So nobody ever writes another process's memory.
//!
//! A message that lies elsewhere in the sender's memory is first copied into the segment, part by part if it is long
//! (see `flow.rs`). Where that is faster, the kernel copies it directly for the receiver instead (see `cma.rs`).
//! Plans for local ranks make the necessary copies themselves and keep their scratch memory in the segment.

mod cache_probe;
mod channel;
mod cma;
mod flow;
mod home;
#[cfg(test)]
mod hostile_peers;
mod incoming;
mod matching;
mod memory_limits;
mod outgoing;
mod peer;
mod peers;
mod pool;
mod release_set;
mod segment;

pub use cma::PRIVATE;
pub use flow::LONG;
pub use home::{Home, MemoryOffer, Neighbour};
pub use pool::Pool;

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::{Port, Rank};

use self::cache_probe::CacheProbe;
use self::channel::{ChannelEnd, Descriptor, DescriptorForm, INLINE};
use self::cma::{is_found, CmaReading};
use self::matching::{DescriptorMatching, LocalReceive};
use self::peer::{LocalPeer, News, Unread};
use self::peers::LocalPeers;
use super::{
    Arrived, Description, Event, LocalMemory, MessageKind, Posted, RequestId, Returns, Subject, Tag,
    Transport, TransportError, Unclaimed, Wait,
};
use crate::os::machine::cache::CacheMode;
use crate::transport::buffer::Region;

/// One in this many polls for messages also reclaims what peers have released, if nothing waits for the releases.
const HOUSEKEEPING: u32 = 256;
/// How many times [`LocalMemory::spin`] polls for the next message: this takes one to five microseconds.
const SPIN: u32 = 100;
/// After this many of these polls, sleeping peers are woken. Mostly no peer sleeps, and the message is there earlier.
const SOON: u32 = 25;
/// At how many ranks that are not active a call looks that begins or ends.
const AT_ONCE: usize = 8;
const PAUSE: Duration = Duration::from_micros(50);

/// Memory in bytes that is set aside for notices, for when the rest of the segment is in use.
const RESERVE: usize = 64 << 10;

/// The transport between the ranks of one host.
pub struct SharedMemory {
    home: Home,
    pool: Arc<Pool>,
    /// Freed when the pool has no memory for a notice, since the notice may be about just that.
    reserve: Option<Region>,
    peers: LocalPeers,
    /// Whether local ranks copy long messages out of this rank's private memory.
    cma: bool,
    /// Long messages that are being copied out of peers' private memory, a slice of each in turn.
    readings: VecDeque<CmaReading>,
    waiter: Arc<dyn Wait>,
    /// Whether anything has happened since the waiter was last told so.
    moved: bool,
    matching: DescriptorMatching,
    /// Memory for messages that come within their descriptors, for reuse.
    cells: Vec<Region>,
    events: Vec<Event>,
    unread: Unread,
    rounds: u32,
    /// Whether some peer may have to be woken.
    has_news: bool,
    asleep: bool,
    ended: bool,
}

impl SharedMemory {
    /// A group of `size` ranks in this process, one transport for each, in the order of ranks.
    pub fn group(size: usize) -> Result<Vec<SharedMemory>, TransportError> {
        let homes =
            (0..size).map(|rank| Home::new(rank, size)).collect::<Result<Vec<_>, _>>().map_err(error)?;
        let beside = |rank| homes.iter().filter(move |home| home.rank != rank).map(Home::beside).collect();
        let neighbours: Vec<Vec<Neighbour>> =
            (0..size).map(beside).collect::<Result<_, _>>().map_err(error)?;
        for (home, local) in homes.iter().zip(&neighbours) {
            local.iter().try_for_each(|one| home.prepare_for(one.rank)).map_err(error)?;
        }
        homes
            .into_iter()
            .zip(neighbours)
            .map(|(home, local)| {
                let waiter = home.waiter().map_err(error)?;
                SharedMemory::new(home, local, waiter, false, CacheMode::Shared)
            })
            .collect()
    }

    /// Makes the transport of the rank that owns `home`.
    ///
    /// - `neighbours`: the local ranks. Each can read this rank, and `home` has been prepared for it.
    /// - `waiter`: blocks until a neighbour rings this rank's doorbell, at the latest.
    /// - `cma`: the neighbours can read this rank's private memory. They do so for long messages, if this rank
    ///   can tell which of its own memory the kernel finds.
    /// - `cache`: whether the ranks seem to share a cache.
    pub fn new(
        home: Home,
        neighbours: Vec<Neighbour>,
        waiter: Arc<dyn Wait>,
        cma: bool,
        cache: CacheMode,
    ) -> Result<SharedMemory, TransportError> {
        let mut peers: Vec<Option<Box<LocalPeer>>> = (0..home.size).map(|_| None).collect();
        let address = home.address();
        for Neighbour { rank, segment, doorbell, cma } in neighbours {
            let cma = cma.ok();
            let (out, incoming) = Default::default();
            let (news, cache_probe) = (News::Nothing, CacheProbe::new(cache));
            peers[rank] = Some(Box::new(LocalPeer {
                rank,
                segment,
                doorbell,
                cma,
                out,
                incoming,
                left: false,
                flaw: None,
                news,
                cache_probe,
                is_active: false,
                is_unchecked: false,
            }));
        }
        let pool = Pool::new(home.segment.clone());
        Ok(SharedMemory {
            reserve: pool.allocate(RESERVE).ok(),
            pool,
            home,
            peers: LocalPeers::new(peers),
            cma: cma && is_found(address, size_of::<u64>()),
            readings: VecDeque::new(),
            waiter,
            moved: false,
            matching: DescriptorMatching::default(),
            cells: Vec::new(),
            events: Vec::new(),
            unread: Unread::default(),
            rounds: 0,
            has_news: false,
            asleep: false,
            ended: false,
        })
    }

    #[inline]
    fn check_local(&self, peer: Rank) -> Result<(), TransportError> {
        if !self.peers.is_local(peer) {
            return Err(error(format!("rank {peer} shares no memory with this one")));
        }
        Ok(())
    }

    fn check_open(&self) -> Result<(), TransportError> {
        if self.ended {
            return Err(error("the transport has been closed"));
        }
        Ok(())
    }

    fn wake_up(&mut self) {
        self.asleep = false;
        self.home.own_doorbell().announce_awake();
        // The lines that were missing before may have left the senders' caches meanwhile.
        self.peers.iter_active().for_each(|peer| peer.incoming.missed.set(None));
        // The rank that woke this one has written to the pipe. The pipe may also be empty.
        let _ = (&self.home.doorbell[0]).read(&mut [0; 64]);
    }

    /// Does what can be done now. `everywhere`: also for ranks that are not active.
    #[inline]
    fn poll_peers(&mut self, everywhere: bool) -> bool {
        let mut any = match everywhere || self.rounds.is_multiple_of(HOUSEKEEPING) {
            true => self.take_all(),
            false => self.take_active(),
        };
        if !self.readings.is_empty() {
            any |= self.read_on();
        }
        if self.peers.wait_for_slots() {
            any |= self.fill();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.unread.waiting > 0 || self.rounds.is_multiple_of(HOUSEKEEPING) {
            any |= self.take_back_read();
        }
        if !self.unread.room.is_empty() {
            any |= self.refill();
        }
        self.ring();
        self.peers.retire();
        any
    }

    /// Whether each channel is empty or begins with a message of the collective call `next`, and nothing else is to be
    /// done. Returns `false` now and then even so, so that releases are reclaimed.
    #[inline]
    fn has_only(&mut self, next: u32) -> bool {
        for _ in 0..self.peers.idle().min(AT_ONCE) {
            let Some(peer) = self.peers.next_idle() else { continue };
            let (rank, number) = (peer.rank, peer.incoming.next);
            let has = peer.is_open(&self.home) && peer.channel(self.home.rank, self.home.size).has(number);
            if has || peer.has_failed() {
                self.peers.activate(rank).is_unchecked = true;
            }
        }
        let next = Tag::for_collective(0, next);
        let is_of_next = |(form, tag)| {
            !matches!(form, DescriptorForm::Release | DescriptorForm::Part)
                && tag & Tag::CALL & !Tag::SOURCE == next
        };
        let is_quiet = |peer: &LocalPeer| {
            self.head(peer).is_none_or(is_of_next) && peer.out.queue.is_empty() && !peer.has_failed()
        };
        self.events.is_empty()
            && self.peers.iter_active().all(is_quiet)
            && !self.rounds.wrapping_add(1).is_multiple_of(HOUSEKEEPING)
    }

    /// Ends this rank's part. The others notice it once they have taken all descriptors.
    fn leave(&mut self, end: ChannelEnd) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.home.own_goodbye().announce_end(end);
        for index in 0..self.peers.ranks().len() {
            self.note_news(self.peers.ranks()[index], News::Descriptor);
        }
        self.ring();
    }
}

fn error(reason: impl Into<String>) -> TransportError {
    TransportError { transport: "shared memory", reason: reason.into(), lacks: None }
}

impl Transport for SharedMemory {
    fn describe(&self) -> Description {
        let local = match self.peers.ranks().len() + 1 {
            all if all == self.home.size => "shared memory".to_owned(),
            some => format!("shared memory (with {} of {} ranks)", some - 1, self.home.size - 1),
        };
        let text = if self.cma { format!("{local}, cma") } else { local };
        Description { text, sharing: self.peers.ranks().len(), cma: self.cma, ..Description::default() }
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        self.check_open()?;
        self.check_local(peer)
    }

    fn send(
        &mut self,
        peer: Rank,
        _port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.post(peer, tag, source, false, request)
    }

    fn receive(
        &mut self,
        _port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.want(LocalReceive { tag: tag.pack(), bytes: target.len(), request, target: Some(target) })
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        if !self.peers.is_local(peer) {
            return;
        }
        let tag =
            Tag { source: self.home.rank, kind: MessageKind::Control, sequence: 0, message: 0, check: 0 };
        let packed = self.pack(tag, Region::from_slice(payload)).or_else(|_| {
            self.reserve = None;
            self.pack(tag, Region::from_slice(payload))
        });
        // Best effort: if there is no memory left at all, the peer gets no notice.
        if let Ok((descriptor, region)) = packed {
            self.put(peer, descriptor, region, None, None);
            self.ring();
        }
    }

    #[inline]
    fn local_memory(&mut self) -> Option<&mut dyn LocalMemory> {
        Some(self)
    }

    #[inline]
    fn flush(&mut self) {
        self.ring();
    }

    #[inline]
    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        let woken = self.asleep;
        if woken {
            self.wake_up();
        }
        let any = self.poll_peers(woken);
        self.moved |= any;
        let any = any | !self.events.is_empty();
        events.append(&mut self.events);
        any
    }

    #[inline]
    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        if next.is_some_and(|next| self.has_only(next)) {
            self.rounds = self.rounds.wrapping_add(1);
            return self.peers.note_check();
        }
        // In this order, what a rank put before it left is found before its end is reported.
        let mut ends = Vec::new();
        if next.is_none() {
            self.peers.iter_mut().for_each(|peer| ends.extend(peer.take_end()));
        }
        for index in 0..self.peers.active().len() {
            ends.extend(self.peers.get_mut(self.peers.active()[index]).take_end());
        }
        self.peers.note_check();
        self.poll_peers(next.is_none());
        events.append(&mut self.events);
        events.extend(ends);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        let call = Tag::for_collective(source, sequence);
        self.matching.unclaimed_tag(call)
    }

    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        self.take_from_idle();
        self.take_all_held_up();
        self.matching.first_of(subject).map(|(tag, message)| Unclaimed { tag, bytes: message.bytes })
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        self.matching.oldest()
    }

    fn arm(&mut self) -> bool {
        if std::mem::take(&mut self.moved) {
            self.waiter.note_progress();
        }
        self.asleep = true;
        self.home.own_doorbell().announce_sleep(self.unread.waiting > 0 || self.peers.wait_for_slots());
        !self.poll_peers(true) && self.events.is_empty()
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.waiter.clone()
    }

    /// Peers may go on reading the messages that they were sent: these stay where they are until the peers have
    /// released them. This rank stops reading.
    fn abort(&mut self, _deadline: Instant) {
        self.leave(ChannelEnd::Aborted);
        self.matching.forget_wanted();
        for peer in self.peers.iter_mut() {
            (peer.incoming.wanted, peer.incoming.wanted_long) = (0, 0);
        }
        self.readings.clear();
        self.forget_flows();
    }

    fn close(&mut self, deadline: Instant) {
        while self.peers.wait_for_slots() && Instant::now() < deadline {
            self.poll_peers(true);
            std::thread::sleep(PAUSE);
        }
        self.leave(ChannelEnd::Closed);
    }
}

impl LocalMemory for SharedMemory {
    fn ranks(&mut self) -> Arc<[bool]> {
        self.peers.local()
    }

    fn pool(&mut self) -> Arc<Pool> {
        self.pool.clone()
    }

    fn copies_by_cma(&mut self) -> bool {
        self.cma
    }

    fn distance(&mut self, peer: Rank) -> Option<CacheMode> {
        if !self.peers.is_local(peer) {
            return None;
        }
        let peer = self.peers.get(peer);
        Some(peer.counters(self.home.rank).distance().unwrap_or(peer.cache_probe.mode()))
    }

    fn send_zero_copy(
        &mut self,
        peer: Rank,
        _port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.post(peer, tag, source, true, request)
    }

    fn expect(&mut self, tag: Tag, bytes: usize, request: RequestId) -> Result<Posted, TransportError> {
        self.want(LocalReceive { tag: tag.pack(), bytes, request, target: None })
    }

    fn release(&mut self, arrived: Arrived) {
        let number = match arrived.returns {
            Returns::ToSender(number) => number,
            // SAFETY: it is a cell, whose memory has this length.
            Returns::ToTransport => return self.cells.push(unsafe { arrived.region.regrow(INLINE) }),
            Returns::Nowhere => return,
        };
        if self.note_release(arrived.peer, number) {
            self.note_news(arrived.peer, News::Released);
        } else {
            let mut descriptor = Descriptor::new(0, DescriptorForm::Release, 0);
            descriptor.place = number;
            self.put(arrived.peer, descriptor, None, None, None);
        }
    }

    fn spin(&mut self, tag: Tag) {
        if self.matching.first(tag.pack() & Tag::MATCH).is_some() {
            return;
        }
        for round in 0..SPIN {
            let is_open = self.peers.get_mut(tag.source).is_open(&self.home);
            if is_open && self.head(self.peers.get(tag.source)).is_some() {
                return;
            }
            if round == SOON {
                self.ring();
            }
            std::hint::spin_loop();
        }
    }

    fn reclaim(&mut self) {
        self.take_back_read();
    }

    fn has_queued(&mut self) -> bool {
        !self.ended && self.peers.wait_for_slots()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.leave(ChannelEnd::Dropped);
        if self.peers.iter().any(|peer| !peer.out.retained.is_empty()) {
            self.pool.keep_all();
        }
    }
}
