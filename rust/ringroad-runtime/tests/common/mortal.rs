//! Death, for transports.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::{Port, Rank};
use ringroad_runtime::buffer::Region;
use ringroad_runtime::cache::CacheMode;
use ringroad_runtime::transport::shared::Pool;
use ringroad_runtime::transport::{Arrived, Event, Posted, RequestId, Tag, Transport, TransportError, Wait};

/// A transport that dies as a process does: from then on it does nothing, and its peers see its end.
pub struct Mortal<T> {
    inner: Option<T>,
    /// How many sends and receives it still posts.
    left: u64,
}

impl<T: Transport> Mortal<T> {
    /// Posts so many sends and receives, then dies.
    pub fn new(inner: T, posts: u64) -> Mortal<T> {
        Mortal { inner: Some(inner), left: posts }
    }

    fn alive(&mut self) -> Option<&mut T> {
        self.inner.as_mut().filter(|_| self.left > 0)
    }

    fn post(
        &mut self,
        post: impl FnOnce(&mut T) -> std::result::Result<Posted, TransportError>,
    ) -> std::result::Result<Posted, TransportError> {
        match self.alive() {
            Some(inner) => {
                let posted = post(inner);
                self.left -= 1;
                posted
            }
            None => Ok(Posted::Pending),
        }
    }
}

struct Never;

impl Wait for Never {
    fn block(&self, _timeout: Duration) {
        thread::yield_now();
    }

    fn wake(&self) {}
}

impl<T: Transport> Transport for Mortal<T> {
    fn describe(&self) -> String {
        if self.inner.is_some() { "mortal" } else { "dead" }.to_owned()
    }

    fn connect(&mut self, peer: Rank) -> std::result::Result<(), TransportError> {
        self.alive().map_or(Ok(()), |inner| inner.connect(peer))
    }

    fn send(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> std::result::Result<Posted, TransportError> {
        self.post(|inner| inner.send(peer, port, tag, source, request))
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> std::result::Result<Posted, TransportError> {
        self.post(|inner| inner.receive(port, tag, target, request))
    }

    fn lend(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> std::result::Result<Posted, TransportError> {
        self.post(|inner| inner.lend(peer, port, tag, source, request))
    }

    fn near(&self) -> Arc<[bool]> {
        self.inner.as_ref().map_or_else(Arc::default, |inner| inner.near())
    }

    fn distance(&self, peer: Rank) -> Option<CacheMode> {
        self.inner.as_ref()?.distance(peer)
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        self.inner.as_ref()?.pool()
    }

    fn has_queued(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.has_queued())
    }

    fn tidy(&mut self) {
        if let Some(inner) = self.alive() {
            inner.tidy();
        }
    }

    fn expect(
        &mut self,
        tag: Tag,
        bytes: usize,
        request: RequestId,
    ) -> std::result::Result<Posted, TransportError> {
        self.post(|inner| inner.expect(tag, bytes, request))
    }

    fn arrived(&mut self, request: RequestId) -> Option<Arrived> {
        // What has come before its death is there until it is driven again.
        self.inner.as_mut()?.arrived(request)
    }

    fn release(&mut self, arrived: Arrived) {
        if let Some(inner) = self.alive() {
            inner.release(arrived);
        }
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        if let Some(inner) = self.alive() {
            inner.notify(peer, payload);
        }
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        if self.left == 0 {
            self.inner = None;
        }
        self.alive().is_some_and(|inner| inner.progress(events))
    }

    fn inspect(&mut self, events: &mut Vec<Event>) {
        if let Some(inner) = self.alive() {
            inner.inspect(events);
        }
    }

    fn hear(&mut self, next: u32, events: &mut Vec<Event>) {
        if let Some(inner) = self.alive() {
            inner.hear(next, events);
        }
    }

    fn linger(&mut self, tag: Tag) {
        if let Some(inner) = self.alive() {
            inner.linger(tag);
        }
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        self.alive()?.unexpected(source, sequence)
    }

    fn unclaimed(&mut self, tag: Tag, source: Option<Rank>) -> Option<Rank> {
        self.alive()?.unclaimed(tag, source)
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        self.alive()?.oldest_unexpected()
    }

    fn arm(&mut self) -> bool {
        self.alive().is_none_or(|inner| inner.arm())
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        // The dead wait for nothing; the others never use theirs after they have been dropped.
        self.inner.as_ref().map_or_else(|| Arc::new(Never) as Arc<dyn Wait>, |inner| inner.waiter())
    }

    fn abort(&mut self, deadline: Instant) {
        if let Some(inner) = self.alive() {
            inner.abort(deadline);
        }
    }

    fn close(&mut self, deadline: Instant) {
        if let Some(inner) = self.alive() {
            inner.close(deadline);
        }
    }
}
