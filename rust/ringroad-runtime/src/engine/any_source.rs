//! Receives that take a message from any source.
//!
//! Transports can receive only from a given rank. So a receive from any source waits in a list until an unmatched
//! message with its tag has come. Then it becomes a receive from the sender of that message. Messages are matched in
//! the order in which receives were posted: while a receive waits here, all later receives with its tag queue behind
//! it, whatever their source.

use ringroad_core::{Plan, Rank};

use super::{Engine, Task};
use crate::calls::call::Operation;
use crate::transport::Tag;

impl Task {
    /// The source of a receive; `None` if it accepts any.
    fn source(&self) -> Option<Rank> {
        match self.call().key.operation {
            Operation::Receive { peer, .. } => Some(peer),
            _ => None,
        }
    }
}

impl Engine {
    /// Whether a call has to wait in the list until its message has come.
    pub(super) fn must_wait(&self, task: &Task) -> bool {
        match task.call().key.operation {
            Operation::ReceiveAny { .. } => true,
            Operation::Receive { .. } => {
                self.calls.waiting().iter().any(|other| same_subject(other.tag, task.tag))
            }
            _ => false,
        }
    }

    /// Adds a receive to the list, and posts it at once if its message is there.
    pub(super) fn await_message(&mut self, task: Box<Task>) {
        let source = task.source();
        self.calls.enqueue(task);
        self.match_waiting();
        // Connect to all possible senders: otherwise this rank would not notice that one of them has ended.
        let rank = self.peers.rank;
        let may_send = |peer: &Rank| source.map_or(*peer != rank, |source| source == *peer);
        for peer in (0..self.peers.ranks()).filter(may_send) {
            match self.peers.connect(peer, &mut *self.transport) {
                Err(reason) if self.is_needed(peer) => self.peers.suspect(peer, reason),
                _ => {}
            }
        }
    }

    /// Posts the receives whose messages have come. Returns whether there were any.
    pub(super) fn match_waiting(&mut self) -> bool {
        let mut any = false;
        let mut index = 0;
        while let Some(task) = self.calls.waiting().get(index) {
            let (tag, wanted) = (task.tag, task.source());
            let Some(source) = self.transport.unclaimed(tag, wanted) else {
                index += 1;
                continue;
            };
            any = true;
            // The message may have come after an earlier receive was looked at that also accepts it.
            let takes = |task: &Task| {
                same_subject(task.tag, tag) && task.source().is_none_or(|wanted| wanted == source)
            };
            index = self.calls.waiting().iter().position(|task| takes(task)).unwrap_or(index);
            let mut task = self.calls.dequeue(index);
            let completion = task.completion.clone();
            if task.source().is_none() {
                completion.found(source);
                let port = task.ports.get(source).copied().unwrap_or(0);
                task.turn_to(Plan::receive(source, port, task.buffers.output.len()));
            }
            // If this fails, the communicator has failed, and the call gets the same error as all others.
            self.calls.being_posted = Some(completion.clone());
            let begun = self.begin(task);
            self.calls.being_posted = None;
            if let Err(error) = begun {
                self.calls.end(&completion, Some(error));
            }
        }
        any
    }

    /// Whether an operation with `peer` is still pending.
    pub(super) fn is_needed(&self, peer: Rank) -> bool {
        let last = || self.peers.others().all(|other| other == peer || self.peers.broken(other).is_some());
        self.calls.in_flight().any(|task| task.needs(peer))
            || self.calls.waiting().iter().any(|task| match task.source() {
                Some(source) => source == peer,
                None => last(),
            })
    }

    /// Ends all waiting receives with an error.
    pub(super) fn give_up_waiting(&mut self, error: &crate::error::Error) {
        while !self.calls.waiting().is_empty() {
            let task = self.calls.dequeue(0);
            self.calls.end(&task.completion, Some(error.clone()));
        }
    }
}

/// Whether messages with these tags could match the same receive from any source.
fn same_subject(a: Tag, b: Tag) -> bool {
    (a.pack() ^ b.pack()) & Tag::SUBJECT == 0
}
