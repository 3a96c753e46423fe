//! Breaks a transport on purpose, so that tests can show that nobody hangs and that errors say what went wrong.
//!
//! Faults are data: which operation, and what happens to it. The same faults and the same calls give the same result.

use std::sync::Arc;
use std::time::Instant;

use ringroad_core::{Port, Rank};

use super::shared::Pool;
use super::{Arrived, Event, Failure, Posted, RequestId, Tag, Transport, TransportError, Wait};
use crate::buffer::Region;
use crate::cache::CacheMode;

/// What a fault can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// [`Transport::connect`]. Whatever the fault, it fails.
    Connect,
    /// [`Transport::send`].
    Send,
    /// [`Transport::receive`].
    Receive,
    /// [`Transport::notify`]. Whatever the fault, the notice is lost.
    Notify,
}

/// Which of the operations that fit, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// All of them.
    Every,
    /// This one.
    Nth(u64),
    /// This one and all later ones.
    From(u64),
    /// One in so many, drawn from a seed.
    OneIn {
        /// How many.
        number: u64,
        /// Other seeds give other draws.
        seed: u64,
    },
}

/// What happens to the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A send completes but never arrives; a receive never completes.
    Drop,
    /// It is only posted at the given later call of [`Transport::progress`]. Others with the same tag stay behind it.
    Delay(u64),
    /// Its tag gets another check, as if the two ranks were in different calls.
    CorruptCheck,
    /// It is at most this long.
    Truncate(usize),
    /// The peer fails: it is reported, this and later sends to it are refused, receives from it never complete.
    FailPeer,
    /// It is refused.
    FailPost,
    /// Posting fails, since this rank has no memory for it.
    NoMemory,
    /// The transport panics.
    Panic,
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What it hits.
    pub operation: Operation,
    /// With which peer; `None`: any.
    pub peer: Option<Rank>,
    /// Which of those.
    pub pick: Pick,
    /// What happens to them.
    pub what: What,
}

impl Fault {
    /// Hits every send to any peer.
    pub fn send(what: What) -> Fault {
        Fault { operation: Operation::Send, peer: None, pick: Pick::Every, what }
    }

    /// Hits every receive from any peer.
    pub fn receive(what: What) -> Fault {
        Fault { operation: Operation::Receive, ..Fault::send(what) }
    }

    /// Only with this peer.
    pub fn with_peer(self, peer: Rank) -> Fault {
        Fault { peer: Some(peer), ..self }
    }

    /// Only these.
    pub fn pick(self, pick: Pick) -> Fault {
        Fault { pick, ..self }
    }
}

impl Pick {
    fn hits(self, count: u64) -> bool {
        match self {
            Pick::Every => true,
            Pick::Nth(number) => count == number,
            Pick::From(number) => count >= number,
            Pick::OneIn { number, seed } => mix(seed.wrapping_add(mix(count))).is_multiple_of(number.max(1)),
        }
    }
}

/// One step of splitmix64: a good hash of 64 bits.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A transport that breaks as it is told.
pub struct FaultInjector<T: Transport> {
    inner: T,
    /// Each with the number of operations that fitted so far.
    faults: Vec<(Fault, u64)>,
    /// What is posted later, in the order it was asked for.
    delayed: Vec<(u64, Request)>,
    /// What happened here rather than below.
    events: Vec<Event>,
    failed: Vec<Rank>,
    /// Memory of receives that never complete.
    swallowed: Vec<Body>,
}

#[derive(Clone)]
struct Request {
    operation: Operation,
    peer: Rank,
    port: Port,
    tag: Tag,
    body: Body,
    request: RequestId,
}

/// What a request is about.
#[derive(Clone)]
enum Body {
    /// A send or receive.
    Region(Region),
    /// A send of what stays as it is.
    Lent(Region),
    /// So many bytes that are read where they are.
    Expected(usize),
}

impl Body {
    fn truncate(self, bytes: usize) -> Body {
        let cut = |region: Region| region.part(0..bytes.min(region.len()));
        match self {
            Body::Region(region) => Body::Region(cut(region)),
            Body::Lent(region) => Body::Lent(cut(region)),
            Body::Expected(expected) => Body::Expected(bytes.min(expected)),
        }
    }
}

impl Request {
    fn same_queue(&self, other: &Request) -> bool {
        let key = |r: &Request| (r.operation == Operation::Send, r.peer, r.tag.pack() & Tag::MATCH);
        key(self) == key(other)
    }
}

impl<T: Transport> FaultInjector<T> {
    /// Where several faults fit, the first of the list happens.
    pub fn new(inner: T, faults: impl IntoIterator<Item = Fault>) -> FaultInjector<T> {
        FaultInjector {
            inner,
            faults: faults.into_iter().map(|fault| (fault, 0)).collect(),
            delayed: Vec::new(),
            events: Vec::new(),
            failed: Vec::new(),
            swallowed: Vec::new(),
        }
    }

    fn fault(&mut self, operation: Operation, peer: Rank) -> Option<What> {
        let mut what = None;
        let fitting = |f: &Fault| f.operation == operation && f.peer.is_none_or(|p| p == peer);
        for (fault, count) in self.faults.iter_mut().filter(|(fault, _)| fitting(fault)) {
            if fault.pick.hits(*count) {
                what = what.or(Some(fault.what));
            }
            *count += 1;
        }
        what
    }

    fn fail(&mut self, peer: Rank) {
        if !self.failed.contains(&peer) {
            self.failed.push(peer);
            self.events.push(Event::PeerFailed { peer, reason: "it failed by injection".to_owned() });
        }
    }

    /// Posts a request that a fault may hit.
    fn post(&mut self, mut request: Request) -> Result<Posted, TransportError> {
        match self.fault(request.operation, request.peer) {
            None => self.pass(request, 0),
            Some(What::Drop) => Ok(self.lose(request)),
            Some(What::Delay(polls)) => self.pass(request, polls),
            Some(What::CorruptCheck) => {
                request.tag.check ^= 1;
                self.pass(request, 0)
            }
            Some(What::Truncate(bytes)) => {
                request.body = request.body.truncate(bytes);
                self.pass(request, 0)
            }
            Some(What::FailPeer) => {
                self.fail(request.peer);
                self.pass(request, 0)
            }
            Some(What::FailPost) => Err(injected("it was refused by injection")),
            Some(What::NoMemory) => {
                Err(TransportError { lacks_memory: true, ..injected("there is no memory by injection") })
            }
            Some(What::Panic) => panic!("it panicked by injection"),
        }
    }

    fn lose(&mut self, request: Request) -> Posted {
        if request.operation == Operation::Send {
            return Posted::Complete;
        }
        self.swallowed.push(request.body);
        Posted::Pending
    }

    /// Posts a request after so many polls, and not before those that it must follow.
    fn pass(&mut self, request: Request, polls: u64) -> Result<Posted, TransportError> {
        if self.failed.contains(&request.peer) {
            return match request.operation {
                Operation::Send => Err(injected("the peer failed by injection")),
                _ => Ok(self.lose(request)),
            };
        }
        if polls > 0 || self.delayed.iter().any(|(_, earlier)| earlier.same_queue(&request)) {
            self.delayed.push((polls, request));
            return Ok(Posted::Pending);
        }
        self.forward(request)
    }

    fn forward(&mut self, r: Request) -> Result<Posted, TransportError> {
        match r.body {
            Body::Region(source) if r.operation == Operation::Send => {
                self.inner.send(r.peer, r.port, r.tag, source, r.request)
            }
            Body::Region(target) => self.inner.receive(r.port, r.tag, target, r.request),
            Body::Lent(source) => self.inner.lend(r.peer, r.port, r.tag, source, r.request),
            Body::Expected(bytes) => self.inner.expect(r.tag, bytes, r.request),
        }
    }

    /// Posts what has waited long enough.
    fn post_delayed(&mut self) {
        let mut waiting: Vec<(u64, Request)> = Vec::new();
        for (polls, request) in std::mem::take(&mut self.delayed) {
            let polls = polls.saturating_sub(1);
            if polls > 0 || waiting.iter().any(|(_, earlier)| earlier.same_queue(&request)) {
                waiting.push((polls, request));
                continue;
            }
            let number = request.request;
            let result = match self.forward(request) {
                Ok(Posted::Pending) => continue,
                Ok(Posted::Complete) => Ok(()),
                Err(error) if error.lacks_memory => Err(Failure::Memory(error.to_string())),
                Err(error) => Err(Failure::Broken(error.to_string())),
            };
            self.events.push(Event::Completed { request: number, result });
        }
        self.delayed = waiting;
    }
}

fn injected(reason: &str) -> TransportError {
    TransportError { transport: "fault injector", reason: reason.to_owned(), lacks_memory: false }
}

impl<T: Transport> Transport for FaultInjector<T> {
    fn describe(&self) -> String {
        format!("{}, with {} faults injected", self.inner.describe(), self.faults.len())
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        match self.fault(Operation::Connect, peer) {
            None => self.inner.connect(peer),
            Some(what) => {
                if what == What::FailPeer {
                    self.fail(peer);
                }
                Err(injected("it was not connected by injection"))
            }
        }
    }

    fn announce(&mut self, tag: Tag, algorithm: &Arc<str>) {
        self.inner.announce(tag, algorithm);
    }

    fn send(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        let (operation, body) = (Operation::Send, Body::Region(source));
        self.post(Request { operation, peer, port, tag, body, request })
    }

    fn lend(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        let (operation, body) = (Operation::Send, Body::Lent(source));
        self.post(Request { operation, peer, port, tag, body, request })
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        let (operation, peer, body) = (Operation::Receive, tag.source, Body::Region(target));
        self.post(Request { operation, peer, port, tag, body, request })
    }

    fn near(&self) -> Arc<[bool]> {
        self.inner.near()
    }

    fn distance(&self, peer: Rank) -> Option<CacheMode> {
        self.inner.distance(peer)
    }

    fn private(&self) -> bool {
        self.inner.private()
    }

    fn has_queued(&self) -> bool {
        self.inner.has_queued()
    }

    fn tidy(&mut self) {
        self.inner.tidy();
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        self.inner.pool()
    }

    fn expect(&mut self, tag: Tag, bytes: usize, request: RequestId) -> Result<Posted, TransportError> {
        let (operation, peer, body) = (Operation::Receive, tag.source, Body::Expected(bytes));
        self.post(Request { operation, peer, port: 0, tag, body, request })
    }

    fn arrived(&mut self, request: RequestId) -> Option<Arrived> {
        self.inner.arrived(request)
    }

    fn release(&mut self, arrived: Arrived) {
        self.inner.release(arrived);
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        match self.fault(Operation::Notify, peer) {
            None => self.inner.notify(peer, payload),
            Some(What::FailPeer) => self.fail(peer),
            Some(_) => {}
        }
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.post_delayed();
        let any = !self.events.is_empty();
        events.append(&mut self.events);
        self.inner.progress(events) || any
    }

    fn inspect(&mut self, events: &mut Vec<Event>) {
        self.inner.inspect(events);
    }

    fn hear(&mut self, next: u32, events: &mut Vec<Event>) {
        self.inner.hear(next, events);
    }

    fn linger(&mut self, tag: Tag) {
        self.inner.linger(tag);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        self.inner.unexpected(source, sequence)
    }

    fn unclaimed(&mut self, tag: Tag, source: Option<Rank>) -> Option<Rank> {
        self.inner.unclaimed(tag, source)
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        self.inner.oldest_unexpected()
    }

    /// What is delayed counts calls of `progress`, so nobody may sleep meanwhile.
    fn arm(&mut self) -> bool {
        self.delayed.is_empty() && self.events.is_empty() && self.inner.arm()
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.inner.waiter()
    }

    fn abort(&mut self, deadline: Instant) {
        self.delayed.clear();
        self.inner.abort(deadline);
        self.swallowed.clear();
    }

    /// Posts what is still delayed first.
    fn close(&mut self, deadline: Instant) {
        for (polls, _) in &mut self.delayed {
            *polls = 0;
        }
        self.post_delayed();
        self.inner.close(deadline);
    }
}
