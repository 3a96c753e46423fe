//! Receives that take a message from whoever sends first.
//!
//! Transports receive from a given rank only. So such a receive waits in a list until a message with its tag has come
//! that nobody else has asked for, and becomes a receive from that rank. Messages go to receives in the order in which
//! these were posted: while one waits here, later receives with its tag, from whomever, queue up behind it.

use ringroad_core::{Plan, Rank};

use super::{Engine, Task};
use crate::call::Operation;
use crate::transport::Tag;

impl Task {
    /// Whom a receive takes a message from; `None` for whoever sends first.
    fn source(&self) -> Option<Rank> {
        match self.call().key.operation {
            Operation::Receive { peer, .. } => Some(peer),
            _ => None,
        }
    }
}

impl Engine {
    /// Whether a call has to wait for a message to come before its receive can be posted.
    pub(super) fn must_wait(&self, task: &Task) -> bool {
        match task.call().key.operation {
            Operation::ReceiveAny { .. } => true,
            Operation::Receive { .. } => self.waiting.iter().any(|other| same_subject(other.tag, task.tag)),
            _ => false,
        }
    }

    /// Puts a receive behind those that wait, and looks whether its message is there.
    pub(super) fn await_message(&mut self, task: Box<Task>) {
        self.active += 1;
        let source = task.source();
        self.waiting.push(task);
        self.match_waiting();
        // Of a rank that is not connected nobody would hear that it has ended.
        let rank = self.rank;
        let may_send = |peer: &Rank| source.map_or(*peer != rank, |source| source == *peer);
        for peer in (0..self.cards.len()).filter(may_send) {
            match self.connect(peer) {
                Err(reason) if self.is_needed(peer) => self.suspect(peer, reason),
                _ => {}
            }
        }
    }

    /// Posts the receives whose messages have come. Returns whether there were any.
    pub(super) fn match_waiting(&mut self) -> bool {
        let mut any = false;
        let mut index = 0;
        while index < self.waiting.len() {
            let (tag, wanted) = (self.waiting[index].tag, self.waiting[index].source());
            let Some(source) = self.transport.unclaimed(tag, wanted) else {
                index += 1;
                continue;
            };
            any = true;
            // It may have come after an earlier receive was looked at that takes it as well.
            let takes = |task: &Task| {
                same_subject(task.tag, tag) && task.source().is_none_or(|wanted| wanted == source)
            };
            index = self.waiting.iter().position(|task| takes(task)).unwrap_or(index);
            let mut task = self.waiting.remove(index);
            self.active -= 1;
            let completion = task.completion.clone();
            if task.source().is_none() {
                completion.found(source);
                let port = task.ports.get(source).copied().unwrap_or(0);
                task.turn_to(Plan::receive(source, port, task.buffers.output.len()));
            }
            // Where that fails the communicator has failed, and the call hears of it as all others do.
            self.beginning = Some(completion.clone());
            let begun = self.begin(task);
            self.beginning = None;
            if let Err(error) = begun {
                self.end(&completion, Some(error));
            }
        }
        any
    }

    /// Whether something is still due from or to `peer`.
    pub(super) fn is_needed(&self, peer: Rank) -> bool {
        let last = || (0..self.cards.len()).all(|r| r == self.rank || r == peer || self.broken[r].is_some());
        self.tasks.iter().flatten().any(|task| task.needs(peer))
            || self.waiting.iter().any(|task| match task.source() {
                Some(source) => source == peer,
                None => last(),
            })
    }

    /// Ends all receives that wait, which nothing can come for any more.
    pub(super) fn give_up_waiting(&mut self, error: &crate::error::Error) {
        for task in std::mem::take(&mut self.waiting) {
            self.active -= 1;
            self.end(&task.completion, Some(error.clone()));
        }
    }
}

/// Whether messages with these tags could be taken by the same receive from any source.
fn same_subject(a: Tag, b: Tag) -> bool {
    (a.pack() ^ b.pack()) & Tag::SUBJECT == 0
}
