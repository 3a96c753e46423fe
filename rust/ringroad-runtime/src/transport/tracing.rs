//! Writes down when every message of a transport began and ended.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use ringroad_core::trace::{Trace, TraceEvent, TraceKind};
use ringroad_core::{Bytes, Port, Rank, Seconds};

use super::shared::Pool;
use super::{Arrived, Event, Kind, Posted, RequestId, Tag, Transport, TransportError, Wait};
use crate::buffer::Region;
use crate::cache::CacheMode;

/// A transport whose messages are written down.
pub struct Tracer<T: Transport> {
    inner: T,
    rank: Rank,
    handle: TraceHandle,
    /// The algorithms of calls, the latest of each sequence number.
    algorithms: HashMap<(Kind, u32), Arc<str>>,
}

/// Access to what a [`Tracer`] has written down, from any thread and beyond the tracer's end.
#[derive(Clone)]
pub struct TraceHandle {
    start: Instant,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Default)]
struct Notes {
    trace: Trace,
    /// Which event belongs to which request in flight.
    open: HashMap<RequestId, usize>,
}

impl TraceHandle {
    fn now(&self) -> Seconds {
        self.start.elapsed().as_secs_f64()
    }

    /// A copy of the trace so far. What is in flight has no end yet.
    pub fn snapshot(&self) -> Trace {
        self.notes.lock().trace.clone()
    }

    /// The trace so far, which begins anew with the same clock. What is in flight has no end and gets none.
    pub fn take(&self) -> Trace {
        mem::take(&mut *self.notes.lock()).trace
    }

    fn begin(&self, event: TraceEvent, request: RequestId) {
        let mut notes = self.notes.lock();
        let number = notes.trace.events.len();
        notes.open.insert(request, number);
        notes.trace.events.push(event);
    }

    fn end(&self, request: RequestId, successful: bool) {
        let now = self.now();
        let mut notes = self.notes.lock();
        if let Some(number) = notes.open.remove(&request) {
            notes.trace.events[number].end = successful.then_some(now);
        }
    }
}

impl<T: Transport> Tracer<T> {
    /// Writes down the messages of `rank`, on a clock that starts now.
    pub fn new(inner: T, rank: Rank) -> (Tracer<T>, TraceHandle) {
        Tracer::since(inner, rank, Instant::now())
    }

    /// As [`Tracer::new`], on a clock that starts at `start`: ranks of one process can share it.
    pub fn since(inner: T, rank: Rank, start: Instant) -> (Tracer<T>, TraceHandle) {
        let handle = TraceHandle { start, notes: Arc::default() };
        (Tracer { inner, rank, handle: handle.clone(), algorithms: HashMap::new() }, handle)
    }

    fn begin(&self, kind: TraceKind, peer: Rank, tag: Tag, bytes: usize, request: RequestId) {
        let event = TraceEvent {
            kind,
            rank: self.rank,
            peer,
            bytes: bytes as Bytes,
            sequence: tag.sequence,
            message: tag.message,
            step: None,
            algorithm: self.algorithms.get(&(tag.kind, tag.sequence)).cloned(),
            start: self.handle.now(),
            end: None,
        };
        self.handle.begin(event, request);
    }

    fn posted(
        &self,
        request: RequestId,
        posted: Result<Posted, TransportError>,
    ) -> Result<Posted, TransportError> {
        match &posted {
            Ok(Posted::Pending) => {}
            Ok(Posted::Complete) => self.handle.end(request, true),
            Err(_) => self.handle.end(request, false),
        }
        posted
    }

    /// Writes down what has ended among the events that `at` adds.
    fn look<R>(&mut self, events: &mut Vec<Event>, at: impl FnOnce(&mut T, &mut Vec<Event>) -> R) -> R {
        let before = events.len();
        let seen = at(&mut self.inner, events);
        for event in &events[before..] {
            if let Event::Completed { request, result } = event {
                self.handle.end(*request, result.is_ok());
            }
        }
        seen
    }
}

impl<T: Transport> Transport for Tracer<T> {
    fn describe(&self) -> String {
        format!("{}, traced", self.inner.describe())
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        self.inner.connect(peer)
    }

    fn announce(&mut self, tag: Tag, algorithm: &Arc<str>) {
        self.algorithms.insert((tag.kind, tag.sequence), algorithm.clone());
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
        self.begin(TraceKind::Send, peer, tag, source.len(), request);
        let posted = self.inner.send(peer, port, tag, source, request);
        self.posted(request, posted)
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.begin(TraceKind::Receive, tag.source, tag, target.len(), request);
        let posted = self.inner.receive(port, tag, target, request);
        self.posted(request, posted)
    }

    fn lend(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.begin(TraceKind::Send, peer, tag, source.len(), request);
        let posted = self.inner.lend(peer, port, tag, source, request);
        self.posted(request, posted)
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

    fn near(&self) -> Arc<[bool]> {
        self.inner.near()
    }

    fn distance(&self, peer: Rank) -> Option<CacheMode> {
        self.inner.distance(peer)
    }

    fn private(&self) -> bool {
        self.inner.private()
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        self.inner.pool()
    }

    fn expect(&mut self, tag: Tag, bytes: usize, request: RequestId) -> Result<Posted, TransportError> {
        self.begin(TraceKind::Receive, tag.source, tag, bytes, request);
        let posted = self.inner.expect(tag, bytes, request);
        self.posted(request, posted)
    }

    fn arrived(&mut self, request: RequestId) -> Option<Arrived> {
        self.inner.arrived(request)
    }

    fn release(&mut self, arrived: Arrived) {
        self.inner.release(arrived);
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        self.inner.notify(peer, payload);
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.look(events, T::progress)
    }

    fn inspect(&mut self, events: &mut Vec<Event>) {
        self.look(events, T::inspect);
    }

    fn hear(&mut self, next: u32, events: &mut Vec<Event>) {
        self.look(events, |inner, events| inner.hear(next, events));
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

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.inner.waiter()
    }

    fn abort(&mut self, deadline: Instant) {
        self.inner.abort(deadline);
    }

    fn close(&mut self, deadline: Instant) {
        self.inner.close(deadline);
    }
}
