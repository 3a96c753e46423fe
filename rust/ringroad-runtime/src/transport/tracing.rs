//! Records when every message of a transport began and ended.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use ringroad_core::trace::{Trace, TraceEvent, TraceKind};
use ringroad_core::{Bytes, Rank, Seconds};

use super::wrapper::{Post, Wrapper};
use super::{Event, Kind, Posted, RequestId, Tag, Transport, TransportError};

/// A transport whose messages are recorded.
pub struct Tracer<T: Transport> {
    inner: T,
    rank: Rank,
    handle: TraceHandle,
    /// The algorithms of calls: the latest one of each kind and sequence number.
    algorithms: HashMap<(Kind, u32), Arc<str>>,
}

/// Access to the events that a [`Tracer`] has recorded, from any thread and even after the tracer's end.
#[derive(Clone)]
pub struct TraceHandle {
    start: Instant,
    notes: Arc<Mutex<Notes>>,
}

#[derive(Default)]
struct Notes {
    trace: Trace,
    /// The index of the event of each request in flight.
    open: HashMap<RequestId, usize>,
}

impl TraceHandle {
    fn now(&self) -> Seconds {
        self.start.elapsed().as_secs_f64()
    }

    /// A copy of the trace so far. Messages in flight have no end yet.
    pub fn snapshot(&self) -> Trace {
        self.notes.lock().trace.clone()
    }

    /// Takes the trace so far; a new one begins with the same clock. Messages in flight have no end and get none.
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
    /// Records the messages of `rank`, with a clock that starts now.
    pub fn new(inner: T, rank: Rank) -> (Tracer<T>, TraceHandle) {
        Tracer::since(inner, rank, Instant::now())
    }

    /// Like [`Tracer::new`], with a clock that started at `start`: ranks of one process can share it.
    pub fn since(inner: T, rank: Rank, start: Instant) -> (Tracer<T>, TraceHandle) {
        let handle = TraceHandle { start, notes: Arc::default() };
        (Tracer { inner, rank, handle: handle.clone(), algorithms: HashMap::new() }, handle)
    }

    fn begin(&self, post: &Post) {
        let tag = post.tag;
        let event = TraceEvent {
            kind: if post.body.is_sent() { TraceKind::Send } else { TraceKind::Receive },
            rank: self.rank,
            peer: post.peer,
            bytes: post.body.bytes() as Bytes,
            sequence: tag.sequence,
            message: tag.message,
            step: None,
            algorithm: self.algorithms.get(&(tag.kind, tag.sequence)).cloned(),
            call: None,
            start: self.handle.now(),
            end: None,
        };
        self.handle.begin(event, post.request);
    }

    /// Records the ends of the requests in these events.
    fn end(&self, events: &[Event]) {
        for event in events {
            match event {
                Event::Completed { request, result } => self.handle.end(*request, result.is_ok()),
                Event::Arrived { request, .. } => self.handle.end(*request, true),
                Event::PeerFailed { .. } | Event::Notice { .. } => {}
            }
        }
    }
}

impl<T: Transport> Wrapper for Tracer<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    fn describe(&self) -> String {
        format!("{}, traced", self.inner.describe())
    }

    fn announce(&mut self, tag: Tag, algorithm: &Arc<str>) {
        self.algorithms.insert((tag.kind, tag.sequence), algorithm.clone());
        self.inner.announce(tag, algorithm);
    }

    fn post(&mut self, post: Post) -> Result<Posted, TransportError> {
        self.begin(&post);
        let request = post.request;
        let posted = post.to(&mut self.inner);
        match &posted {
            Ok(Posted::Pending) => {}
            Ok(Posted::Complete | Posted::Arrived(_)) => self.handle.end(request, true),
            Err(_) => self.handle.end(request, false),
        }
        posted
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        let before = events.len();
        let any = self.inner.progress(events);
        self.end(&events[before..]);
        any
    }

    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        let before = events.len();
        self.inner.inspect(next, events);
        self.end(&events[before..]);
    }
}
