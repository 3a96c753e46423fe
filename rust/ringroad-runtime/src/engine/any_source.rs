//! Receives that take a message from whoever sends first.
//!
//! Transports receive from a given rank only. So such a receive waits in a list until a message with its tag has come
//! that nobody else has asked for, and becomes a receive from that rank. Messages go to receives in the order in which
//! these were posted: while one waits here, later receives with its tag, from whomever, queue up behind it.

use std::sync::Arc;

use ringroad_core::{Plan, Rank};

use super::{Engine, Job};
use crate::call::Operation;
use crate::transport::Tag;
use crate::work::Completion;

/// A receive that is not posted yet.
pub(super) struct Waiting {
    pub job: Job,
    pub completion: Arc<Completion>,
}

impl Waiting {
    /// Whom it receives from; `None` for whoever sends first.
    fn source(&self) -> Option<Rank> {
        match self.job.call.operation {
            Operation::Receive { peer, .. } => Some(peer),
            _ => None,
        }
    }
}

impl Engine {
    /// Whether a job has to wait for a message to come before its receive can be posted.
    pub(super) fn must_wait(&self, job: &Job) -> bool {
        match job.call.operation {
            Operation::ReceiveAny { .. } => true,
            Operation::Receive { .. } => {
                self.waiting.iter().any(|waiting| same_subject(waiting.job.tag, job.tag))
            }
            _ => false,
        }
    }

    /// Puts a receive behind those that wait, and looks whether its message is there.
    pub(super) fn await_message(&mut self, job: Job, completion: Arc<Completion>) {
        self.active += 1;
        let waiting = Waiting { job, completion };
        let source = waiting.source();
        self.waiting.push(waiting);
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
            let (tag, wanted) = (self.waiting[index].job.tag, self.waiting[index].source());
            let Some(source) = self.transport.unclaimed(tag, wanted) else {
                index += 1;
                continue;
            };
            any = true;
            // It may have come after an earlier receive was looked at that takes it as well.
            let takes = |waiting: &Waiting| {
                same_subject(waiting.job.tag, tag) && waiting.source().is_none_or(|wanted| wanted == source)
            };
            index = self.waiting.iter().position(takes).unwrap_or(index);
            let waiting = self.waiting.remove(index);
            let anybody = waiting.source().is_none();
            let Waiting { mut job, completion } = waiting;
            self.active -= 1;
            if anybody {
                let port = job.ports.get(source).copied().unwrap_or(0);
                job.plan = Arc::new(Plan::receive(source, port, job.output.len()));
                completion.found(source);
            }
            // Where that fails the communicator has failed, and the call hears of it as all others do.
            if let Err(error) = self.begin(job, completion.clone()) {
                self.end(completion, Some(error));
            }
        }
        any
    }

    /// Whether something is still due from or to `peer`.
    pub(super) fn is_needed(&self, peer: Rank) -> bool {
        let last = || (0..self.cards.len()).all(|r| r == self.rank || r == peer || self.broken[r].is_some());
        self.tasks.iter().flatten().any(|task| task.needs(peer))
            || self.waiting.iter().any(|waiting| match waiting.source() {
                Some(source) => source == peer,
                None => last(),
            })
    }

    /// Ends all receives that wait, which nothing can come for any more.
    pub(super) fn give_up_waiting(&mut self, error: &crate::error::Error) {
        for Waiting { completion, .. } in std::mem::take(&mut self.waiting) {
            self.active -= 1;
            self.end(completion, Some(error.clone()));
        }
    }
}

/// Whether messages with these tags could be taken by the same receive from any source.
fn same_subject(a: Tag, b: Tag) -> bool {
    (a.pack() ^ b.pack()) & Tag::SUBJECT == 0
}
