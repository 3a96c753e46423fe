//! Receives that take a message from any source or with any tag, and probes.
//!
//! Transports can receive only a message whose source and tag are given. So other receives wait in a list until an
//! unmatched message has come that they accept. Then each becomes a receive of that message. Messages are matched in the
//! order in which receives were posted: while a receive waits here, all later ones that could take the same message
//! queue behind it. A probe waits in the same list, and leaves the message to the receives after it.

use ringroad_core::Rank;

use super::{Engine, Task};
use crate::calls::call::{code_of, Operation, PROC_NULL};
use crate::calls::work::Message;
use crate::error::Error;
use crate::kernels::dtype::DType;
use crate::transport::buffer::Region;
use crate::transport::{Lack, Subject, Unclaimed};

impl Task {
    fn subject(&self) -> Subject {
        self.call().key.operation.subject()
    }

    /// Whether it receives a message of any type that kernels do not know.
    fn is_of_bytes(&self) -> bool {
        self.call().key.dtype == DType::OF_BYTES
    }

    /// The source of a receive; `None` if it accepts any.
    fn source(&self) -> Option<Rank> {
        self.call().key.operation.ends().and_then(|(peer, _)| peer)
    }
}

impl Engine {
    /// Whether a call has to wait in the list until its message has come.
    pub(super) fn must_wait(&self, task: &Task) -> bool {
        if task.source() == Some(PROC_NULL) {
            return false;
        }
        match task.call().key.operation {
            Operation::ReceiveAny { .. } | Operation::Probe { .. } => true,
            Operation::Receive { .. } => {
                task.is_of_bytes()
                    || self.calls.waiting().iter().any(|other| other.subject().overlaps(task.subject()))
            }
            _ => false,
        }
    }

    /// Adds a receive to the list, and posts it at once if its message is there.
    pub(super) fn await_message(&mut self, task: Box<Task>) {
        let source = task.source();
        self.calls.enqueue(task);
        self.match_waiting();
        self.watch_senders(source);
    }

    /// Connects to all possible senders: otherwise this rank would not notice that one of them has ended.
    fn watch_senders(&mut self, source: Option<Rank>) {
        if self.calls.waiting().iter().all(|task| task.source() != source) {
            return; // The message was there.
        }
        let rank = self.peers.rank;
        let may_send = |peer: &Rank| *peer != rank && source.is_none_or(|source| source == *peer);
        for peer in (0..self.peers.ranks()).filter(may_send) {
            match self.peers.connect(peer, &mut *self.transport) {
                Err((Some(Lack::Connection), reason)) => return self.lack_connection(peer, &reason),
                Err((_, reason)) if self.is_needed(peer) => self.peers.suspect(peer, reason),
                _ => {}
            }
        }
    }

    /// The first message of this subject that no receive has taken.
    pub fn glance(&mut self, subject: Subject) -> Result<Option<Message>, Error> {
        self.check_usable()?;
        self.poll_transport(|transport, events| transport.inspect(None, events));
        self.match_waiting();
        self.check_usable()?;
        Ok(self.unclaimed(subject).map(Message::from_unclaimed))
    }

    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        let own = self.own.as_mut().and_then(|own| own.unclaimed(subject));
        own.or_else(|| self.transport.unclaimed(subject))
    }

    /// Posts the receives whose messages have come, and ends such probes. Returns whether there were any.
    pub(super) fn match_waiting(&mut self) -> bool {
        let mut any = false;
        let mut index = 0;
        while let Some(task) = self.calls.waiting().get(index) {
            let Some(found) = self.unclaimed(task.subject()) else {
                index += 1;
                continue;
            };
            any = true;
            // The message may have come after an earlier receive was looked at that also accepts it.
            let takes = |task: &Task| task.subject().includes(found.tag.pack());
            index = self.calls.waiting().iter().position(|task| takes(task)).unwrap_or(index);
            let task = self.calls.dequeue(index);
            self.give(found, task);
        }
        any
    }

    /// Gives a message to a call that waited for it.
    fn give(&mut self, found: Unclaimed, mut task: Box<Task>) {
        let completion = task.completion.clone();
        let operation = task.call().key.operation;
        if !matches!(operation, Operation::Receive { .. }) {
            completion.found(Message::from_unclaimed(found));
        }
        let allocates = task.call().key.allocates;
        if task.is_of_bytes() && (allocates || code_of(found.tag.check) == DType::OF_BYTES.code()) {
            task.tag.check = found.tag.check;
        }
        if allocates {
            let Ok(region) = Region::scratch(found.bytes) else {
                return self.calls.end(&completion, Some(self.no_room(found)));
            };
            completion.allocate(region.clone());
            task.buffers.output = region;
        }
        match operation {
            Operation::Probe { .. } => return self.calls.end(&completion, None),
            Operation::ReceiveAny { .. } => task.turn_to(found.tag),
            _ => {}
        }
        // If this fails, the communicator has failed, and the call gets the same error as all others.
        self.calls.being_posted = Some(completion.clone());
        let begun = self.begin(task);
        self.calls.being_posted = None;
        if let Err(error) = begun {
            self.calls.end(&completion, Some(error));
        }
    }

    /// The error of a receive that would allocate its memory; the message stays for another.
    fn no_room(&self, found: Unclaimed) -> Error {
        let (own, peer) = (self.peers.describe(self.peers.rank), self.peers.describe(found.tag.source));
        Error::Memory(format!(
            "rank {own} has no memory for a message of {} bytes from rank {peer}; allow the process more memory, or \
             send parts",
            found.bytes
        ))
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
    pub(super) fn give_up_waiting(&mut self, error: &Error) {
        while !self.calls.waiting().is_empty() {
            let task = self.calls.dequeue(0);
            self.calls.end(&task.completion, Some(error.clone()));
        }
    }
}
