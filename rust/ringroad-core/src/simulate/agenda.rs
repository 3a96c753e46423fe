//! The queue of future events. Of events at the same time the one that was entered first comes first, so that
//! simulations are deterministic.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::fair::FlowId;
use crate::units::{Rank, Seconds};

/// The number of a message. Numbers of delivered messages are reused.
pub(super) type MessageId = usize;

/// Something that happens at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Moment {
    /// A rank enters the call.
    Enter(Rank),
    /// A message's start-up is over: it may take its links.
    Depart(MessageId),
    /// A flow has no bytes left. The number is that of the flow's rate changes when the event was entered; if the rate
    /// has changed since, the event does not count.
    Drain(FlowId, u32),
    /// The last byte of a message has left for the end of its stage.
    Left(MessageId),
    /// All bytes of a message are at the end of its stage.
    Arrive(MessageId),
    /// The receiver's processor accepts a message that has arrived.
    Take(MessageId),
    /// A rank's processor has finished a reduction.
    Reduced(Rank),
}

struct AgendaEntry {
    time: Seconds,
    number: u64,
    event: Moment,
}

impl PartialEq for AgendaEntry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for AgendaEntry {}

impl Ord for AgendaEntry {
    /// The earliest entry is the greatest, as the heap needs.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for AgendaEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The queue of future events.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<AgendaEntry>,
    count: u64,
}

impl Agenda {
    pub fn enter(&mut self, time: Seconds, event: Moment) {
        self.heap.push(AgendaEntry { time, number: self.count, event });
        self.count += 1;
    }

    pub fn next_time(&self) -> Option<Seconds> {
        self.heap.peek().map(|entry| entry.time)
    }

    pub fn pop(&mut self) -> Option<(Seconds, Moment)> {
        self.heap.pop().map(|entry| (entry.time, entry.event))
    }
}
