//! Breaks a transport on purpose, so that tests can show that no rank hangs and that errors say what went wrong.
//!
//! Faults are data: which operations they hit, and what happens to those. The same faults and the same calls give the
//! same result.

use std::time::Instant;

use ringroad_core::random::Random;
use ringroad_core::Rank;

use crate::wrapper::{Body, Post, Wrapped, Wrapper};
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::{
    Description, Event, Failure, Lack, Posted, Tag, Transport, TransportError,
};

/// The methods of a transport that a fault can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// [`Transport::connect`]. It fails, whatever the fault.
    Connect,
    /// [`Transport::send`].
    Send,
    /// [`Transport::receive`].
    Receive,
    /// [`Transport::notify`]. The notice is lost, whatever the fault.
    Notify,
}

/// Which of the matching operations a fault hits, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// All of them.
    Every,
    /// This one.
    Nth(u64),
    /// This one and all later ones.
    From(u64),
    /// One in `number`, drawn from a seed.
    OneIn {
        /// How many operations there are for one that is hit.
        number: u64,
        /// The seed; others give other draws.
        seed: u64,
    },
}

/// What happens to the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A send completes but never arrives; a receive never completes.
    Drop,
    /// It is only posted at the given later call of [`Transport::progress`]. Later operations with the same tag wait
    /// for it.
    Delay(u64),
    /// Its tag gets another check, as if the two ranks were in different calls.
    CorruptCheck,
    /// It is cut to at most this many bytes.
    Truncate(usize),
    /// The peer fails: that is reported, this and later sends to it are refused, and receives from it never complete.
    FailPeer,
    /// Posting is refused.
    FailPost,
    /// Posting fails for lack of memory on this rank.
    NoMemory,
    /// The transport panics.
    Panic,
}

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The method that it hits.
    pub method: Method,
    /// The peer of the operation; `None`: any.
    pub peer: Option<Rank>,
    /// Which of the matching operations.
    pub pick: Pick,
    /// What happens to them.
    pub what: What,
}

impl Fault {
    /// A fault of every send to any peer.
    pub fn send(what: What) -> Fault {
        Fault { method: Method::Send, peer: None, pick: Pick::Every, what }
    }

    /// A fault of every receive from any peer.
    pub fn receive(what: What) -> Fault {
        Fault { method: Method::Receive, ..Fault::send(what) }
    }

    /// The same fault, only with this peer.
    pub fn with_peer(self, peer: Rank) -> Fault {
        Fault { peer: Some(peer), ..self }
    }

    /// The same fault, only for these operations.
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

/// A good hash of 64 bits.
fn mix(seed: u64) -> u64 {
    Random::new(seed).bits()
}

/// A transport with injected faults.
pub type FaultInjector<T> = Wrapped<Injector<T>>;

/// Injects faults into a transport.
pub struct Injector<T: Transport> {
    inner: T,
    /// The faults, each with the number of operations that have matched so far.
    faults: Vec<(Fault, u64)>,
    /// Requests to be posted later, in the order of the calls, each with the number of polls until then.
    delayed: Vec<(u64, Post)>,
    /// Events of injected faults.
    events: Vec<Event>,
    failed: Vec<Rank>,
    /// Memory of receives that never complete.
    swallowed: Vec<Body>,
}

fn truncate(body: Body, bytes: usize) -> Body {
    let cut = |region: Region| region.part(0..bytes.min(region.len()));
    match body {
        Body::Send(region) => Body::Send(cut(region)),
        Body::ZeroCopy(region) => Body::ZeroCopy(cut(region)),
        Body::Receive(region) => Body::Receive(cut(region)),
        Body::Expect(expected) => Body::Expect(bytes.min(expected)),
    }
}

fn same_queue(a: &Post, b: &Post) -> bool {
    let key = |post: &Post| (post.body.is_sent(), post.peer, post.tag.pack() & Tag::MATCH);
    key(a) == key(b)
}

impl<T: Transport> Wrapped<Injector<T>> {
    /// If several faults match an operation, the first of the list takes effect.
    pub fn new(inner: T, faults: impl IntoIterator<Item = Fault>) -> FaultInjector<T> {
        Wrapped(Injector {
            inner,
            faults: faults.into_iter().map(|fault| (fault, 0)).collect(),
            delayed: Vec::new(),
            events: Vec::new(),
            failed: Vec::new(),
            swallowed: Vec::new(),
        })
    }
}

impl<T: Transport> Injector<T> {
    fn fault(&mut self, method: Method, peer: Rank) -> Option<What> {
        let mut what = None;
        let fitting = |f: &Fault| f.method == method && f.peer.is_none_or(|p| p == peer);
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

    fn lose(&mut self, post: Post) -> Posted {
        if post.body.is_sent() {
            return Posted::Complete;
        }
        self.swallowed.push(post.body);
        Posted::Pending
    }

    /// Posts a request after `polls` polls, and not before earlier ones of the same queue.
    fn pass(&mut self, post: Post, polls: u64) -> Result<Posted, TransportError> {
        if self.failed.contains(&post.peer) {
            return match post.body.is_sent() {
                true => Err(injected("the peer failed by injection")),
                false => Ok(self.lose(post)),
            };
        }
        if polls > 0 || self.delayed.iter().any(|(_, earlier)| same_queue(earlier, &post)) {
            self.delayed.push((polls, post));
            return Ok(Posted::Pending);
        }
        post.to(&mut self.inner)
    }

    /// Posts the requests that have waited long enough.
    fn post_delayed(&mut self) {
        let mut waiting: Vec<(u64, Post)> = Vec::new();
        for (polls, post) in std::mem::take(&mut self.delayed) {
            let polls = polls.saturating_sub(1);
            if polls > 0 || waiting.iter().any(|(_, earlier)| same_queue(earlier, &post)) {
                waiting.push((polls, post));
                continue;
            }
            let request = post.request;
            let posted = post.to(&mut self.inner).map_err(|error| match error.lacks {
                Some(Lack::Memory) => Failure::Memory(error.to_string()),
                _ => Failure::Broken(error.to_string()),
            });
            self.events.extend(Event::from_posted(request, posted));
        }
        self.delayed = waiting;
    }
}

fn injected(reason: &str) -> TransportError {
    TransportError { transport: "fault injector", reason: reason.to_owned(), lacks: None }
}

impl<T: Transport> Wrapper for Injector<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    fn describe(&self) -> Description {
        let inner = self.inner.describe();
        Description { text: format!("{inner}, with {} faults injected", self.faults.len()), ..inner }
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        match self.fault(Method::Connect, peer) {
            None => self.inner.connect(peer),
            Some(what) => {
                if what == What::FailPeer {
                    self.fail(peer);
                }
                Err(injected("it was not connected by injection"))
            }
        }
    }

    fn post(&mut self, mut post: Post) -> Result<Posted, TransportError> {
        let method = if post.body.is_sent() { Method::Send } else { Method::Receive };
        match self.fault(method, post.peer) {
            None => self.pass(post, 0),
            Some(What::Drop) => Ok(self.lose(post)),
            Some(What::Delay(polls)) => self.pass(post, polls),
            Some(What::CorruptCheck) => {
                post.tag.check ^= 1;
                self.pass(post, 0)
            }
            Some(What::Truncate(bytes)) => {
                post.body = truncate(post.body, bytes);
                self.pass(post, 0)
            }
            Some(What::FailPeer) => {
                self.fail(post.peer);
                self.pass(post, 0)
            }
            Some(What::FailPost) => Err(injected("it was refused by injection")),
            Some(What::NoMemory) => Err(TransportError {
                lacks: Some(Lack::Memory),
                ..injected("there is no memory by injection")
            }),
            Some(What::Panic) => panic!("it panicked by injection"),
        }
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        match self.fault(Method::Notify, peer) {
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

    /// Delayed requests count calls of `progress`, so nobody may block meanwhile.
    fn arm(&mut self) -> bool {
        self.delayed.is_empty() && self.events.is_empty() && self.inner.arm()
    }

    fn abort(&mut self, deadline: Instant) {
        self.delayed.clear();
        self.inner.abort(deadline);
        self.swallowed.clear();
    }

    /// Posts the delayed requests first.
    fn close(&mut self, deadline: Instant) {
        for (polls, _) in &mut self.delayed {
            *polls = 0;
        }
        self.post_delayed();
        self.inner.close(deadline);
    }
}
