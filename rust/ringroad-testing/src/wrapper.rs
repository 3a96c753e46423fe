//! Transports around others. Whatever a wrapper does not override is forwarded here, once for all wrappers.

use std::sync::Arc;
use std::time::Instant;

use ringroad_core::{Port, Rank};

use ringroad_runtime::os::machine::cache::CacheMode;
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::shared::Pool;
use ringroad_runtime::transport::{
    Arrived, Description, Event, LocalMemory, Posted, RequestId, Subject, Tag, Transport, TransportError,
    Unclaimed, Wait,
};

/// A request to be posted.
pub struct Post {
    /// The other rank.
    pub peer: Rank,
    /// The sender's port; 0 for messages that are read in place.
    pub port: Port,
    /// Names the message.
    pub tag: Tag,
    /// The operation and its memory.
    pub body: Body,
    /// The poster's name for the request.
    pub request: RequestId,
}

/// The operation that is posted, and its memory.
pub enum Body {
    /// [`Transport::send`].
    Send(Region),
    /// [`LocalMemory::send_zero_copy`].
    ZeroCopy(Region),
    /// [`Transport::receive`].
    Receive(Region),
    /// [`LocalMemory::expect`] of this many bytes.
    Expect(usize),
}

impl Post {
    /// Posts it to a transport.
    pub fn to(self, transport: &mut impl Transport) -> Result<Posted, TransportError> {
        let Post { peer, port, tag, body, request } = self;
        match body {
            Body::Send(source) => transport.send(peer, port, tag, source, request),
            Body::ZeroCopy(source) => near(transport).send_zero_copy(peer, port, tag, source, request),
            Body::Receive(target) => transport.receive(port, tag, target, request),
            Body::Expect(bytes) => near(transport).expect(tag, bytes, request),
        }
    }
}

impl Body {
    /// The length of the message in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Body::Send(region) | Body::ZeroCopy(region) | Body::Receive(region) => region.len(),
            Body::Expect(bytes) => *bytes,
        }
    }

    /// Whether this rank is the sender.
    pub fn is_sent(&self) -> bool {
        matches!(self, Body::Send(_) | Body::ZeroCopy(_))
    }
}

/// A transport around another one. A wrapper overrides what it changes; everything else goes to the inner transport.
pub trait Wrapper: Send {
    /// The type of the inner transport.
    type Inner: Transport;

    /// The inner transport.
    fn inner(&self) -> &Self::Inner;

    /// The inner transport, mutable.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// See [`Transport::describe`].
    fn describe(&self) -> Description {
        self.inner().describe()
    }

    /// See [`Transport::connect`].
    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        self.inner_mut().connect(peer)
    }

    /// All sends, receives and expects.
    fn post(&mut self, post: Post) -> Result<Posted, TransportError> {
        post.to(self.inner_mut())
    }

    /// See [`Transport::notify`].
    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        self.inner_mut().notify(peer, payload);
    }

    /// See [`Transport::progress`].
    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.inner_mut().progress(events)
    }

    /// See [`Transport::inspect`].
    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        self.inner_mut().inspect(next, events);
    }

    /// See [`Transport::arm`].
    fn arm(&mut self) -> bool {
        self.inner_mut().arm()
    }

    /// See [`Transport::abort`].
    fn abort(&mut self, deadline: Instant) {
        self.inner_mut().abort(deadline);
    }

    /// See [`Transport::close`].
    fn close(&mut self, deadline: Instant) {
        self.inner_mut().close(deadline);
    }
}

/// The local memory of a transport that has some.
fn near(transport: &mut impl Transport) -> &mut dyn LocalMemory {
    transport.local_memory().expect("the transport reads memory of local ranks")
}

/// A wrapper as a transport.
pub struct Wrapped<W>(pub W);

impl<W: Wrapper> Transport for Wrapped<W> {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        self.0.connect(peer)
    }

    fn send(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.0.post(Post { peer, port, tag, body: Body::Send(source), request })
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.0.post(Post { peer: tag.source, port, tag, body: Body::Receive(target), request })
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        self.0.notify(peer, payload);
    }

    fn local_memory(&mut self) -> Option<&mut dyn LocalMemory> {
        self.0.inner_mut().local_memory()?;
        Some(self)
    }

    fn flush(&mut self) {
        self.0.inner_mut().flush();
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.0.progress(events)
    }

    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        self.0.inspect(next, events);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        self.0.inner_mut().unexpected(source, sequence)
    }

    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        self.0.inner_mut().unclaimed(subject)
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        self.0.inner_mut().oldest_unexpected()
    }

    fn arm(&mut self) -> bool {
        self.0.arm()
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.0.inner().waiter()
    }

    fn abort(&mut self, deadline: Instant) {
        self.0.abort(deadline);
    }

    fn close(&mut self, deadline: Instant) {
        self.0.close(deadline);
    }
}

impl<W: Wrapper> LocalMemory for Wrapped<W> {
    fn ranks(&mut self) -> Arc<[bool]> {
        near(self.0.inner_mut()).ranks()
    }

    fn pool(&mut self) -> Arc<Pool> {
        near(self.0.inner_mut()).pool()
    }

    fn copies_by_cma(&mut self) -> bool {
        near(self.0.inner_mut()).copies_by_cma()
    }

    fn distance(&mut self, peer: Rank) -> Option<CacheMode> {
        near(self.0.inner_mut()).distance(peer)
    }

    fn send_zero_copy(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.0.post(Post { peer, port, tag, body: Body::ZeroCopy(source), request })
    }

    fn expect(&mut self, tag: Tag, bytes: usize, request: RequestId) -> Result<Posted, TransportError> {
        self.0.post(Post { peer: tag.source, port: 0, tag, body: Body::Expect(bytes), request })
    }

    fn release(&mut self, arrived: Arrived) {
        near(self.0.inner_mut()).release(arrived);
    }

    fn spin(&mut self, tag: Tag) {
        near(self.0.inner_mut()).spin(tag);
    }

    fn reclaim(&mut self) {
        near(self.0.inner_mut()).reclaim();
    }

    fn has_queued(&mut self) -> bool {
        near(self.0.inner_mut()).has_queued()
    }
}
