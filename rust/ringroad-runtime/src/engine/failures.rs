//! Giving up: notifies every rank of a failure and its reason.
//!
//! The other ranks raise the same kind of error, with the message of the rank that noticed. A rank that leaves during
//! a call, because it closes or a signal interrupts it, is a lost peer for the others, and stays one for later calls.
//! A rank that has died may have sent everything before, so it counts as lost at once only if a call needs it; a
//! collective call that goes on for another second without needing it fails, too, because the ranks that need it may
//! be stopped. A panic while the engine is driven is such a failure. So is a lack of memory for a message: it is
//! reported as that and not as a dead peer, and a small part of the segment is reserved for the report.
//!
//! A call checks for failures before it takes up messages and before it reports success: data from a sender that has
//! given up meanwhile is never returned as valid. If the sender says that the call had ended there, the data is
//! valid, and the call may still end here.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Instant;

use ringroad_core::Rank;

use super::{Engine, Task, ABORT, ANSWER_TIME, GIVE_UP_GRACE};
use crate::calls::call::{generation, generation_of};
use crate::error::Error;
use crate::transport::notice::{FailureReason, Notice};
use crate::transport::{Event, Tag};

impl Engine {
    /// Looks for messages with the numbers of calls in flight whose senders have made a different call.
    pub(super) fn check_messages_of_calls_in_flight(&mut self) {
        let calls: Vec<(u64, Tag)> = self.calls.in_flight().map(|task| (task.number, task.tag)).collect();
        for (number, tag) in calls.into_iter().filter(|(number, _)| *number > 0) {
            for source in self.peers.others() {
                let unexpected = self.transport.unexpected(source, tag.sequence);
                if unexpected.is_some_and(|t| t.check != tag.check && generation(t) == generation(tag)) {
                    return self.mismatch(number, String::new());
                }
            }
        }
    }

    /// Looks for unmatched messages of calls that have ended here: their senders have made a different call.
    pub(super) fn check_messages_of_ended_calls(&mut self) {
        let Some(tag) = self.transport.oldest_unexpected() else { return };
        // Of the call numbers that the tag can mean, take the one that is not far ahead.
        let sequences = u64::from(Tag::SEQUENCES);
        let behind = (self.calls.started + sequences - u64::from(tag.sequence)) % sequences;
        let Some(number) = self.calls.started.checked_sub(behind).filter(|n| *n > 0) else { return };
        let ended = !self.calls.in_flight().any(|task| task.number == number);
        if ended && generation(tag) == generation_of(number) {
            self.mismatch(number, String::new());
        }
    }

    /// Gives up because ranks have made different calls. For messages between two ranks (`number` 0), `found` says
    /// what came.
    pub(super) fn mismatch(&mut self, number: u64, found: String) {
        if self.failure.is_some() {
            return;
        }
        if number == 0 {
            let message = format!("rank {}: {found}", self.peers.describe(self.peers.rank));
            return self.fail(Error::Mismatch(message.clone()), FailureReason::Abort, message);
        }
        self.compare_calls(FailureReason::Mismatch { number }, String::new());
    }

    /// Gives up because a deadline has passed. `message` says what this rank was doing.
    pub fn late(&mut self, number: u64, message: String) {
        if self.failure.is_some() {
            return;
        }
        match number {
            0 => self.compare_messages(message),
            _ => self.compare_calls(FailureReason::Timeout { number }, message),
        }
    }

    /// Tells the other ranks for which messages this rank waits, collects their answers, and gives up. The error says
    /// what the ranks wait for, from one to the next. `message` says what this rank was doing.
    fn compare_messages(&mut self, message: String) {
        let told = self.notice(FailureReason::LateMessage, message);
        let message = told.message.clone();
        let answers = self.exchange_notices(told);
        let told = self.describe_messages(&answers);
        self.fail_here(Error::Timeout(format!("{message}. {told}")));
    }

    /// What this rank tells the others when it gives up.
    fn notice(&self, reason: FailureReason, message: String) -> Notice {
        let (calls, ended) = (self.calls.recent(), self.calls.last_ended());
        let messages =
            if reason == FailureReason::LateMessage { self.unfinished_messages() } else { Vec::new() };
        Notice { reason, message, calls, ended, messages }
    }

    /// Tells the other ranks which calls this rank made recently, collects their answers, and gives up. `message` says
    /// what this rank was doing.
    fn compare_calls(&mut self, reason: FailureReason, message: String) {
        let answers = self.exchange_notices(self.notice(reason, message.clone()));
        let error = self.describe_difference(reason, message, answers);
        self.fail_here(error);
    }

    /// Takes the next notice that has to be handled now.
    pub(super) fn next_notice(&mut self) -> Option<(Rank, Notice)> {
        let waits =
            !self.calls.waiting().is_empty() || self.calls.in_flight().any(|task| !task.executor.is_done());
        let is_due = |(from, notice): &(Rank, Notice)| {
            // Other ranks may be ahead: a notice about a call that this rank has not made yet is handled when it
            // makes the call, or when it waits for something else.
            let is_ahead = !waits && notice.reason.number().is_some_and(|number| number > self.calls.called);
            !self.can_put_off(*from, notice) && (!is_ahead || self.is_of_call_in_flight(*from, notice))
        };
        let index = self.notices.iter().position(is_due);
        let gives_up = |(from, notice): &(Rank, Notice)| notice.is_of_own_end(*from);
        if index.is_none() && self.notices.iter().any(gives_up) {
            self.put_off_since.get_or_insert_with(Instant::now);
        }
        self.notices.remove(index?)
    }

    /// Whether a rank has given up within a call that is in flight here. Its messages for that call may have been
    /// read after their memory was reused.
    fn is_of_call_in_flight(&self, from: Rank, notice: &Notice) -> bool {
        self.calls.in_flight().any(|task| match task.number {
            0 => task.executor.plan().peers().contains(&from),
            number => number > notice.ended,
        })
    }

    /// Whether the notice can be put off: the sender has given up, but had ended calls that are still in flight here.
    /// Its messages for them are valid, and for a short time the calls may still end.
    fn can_put_off(&self, from: Rank, notice: &Notice) -> bool {
        let has_ended = |task: &Task| (1..=notice.ended).contains(&task.number);
        notice.is_of_own_end(from)
            && self.put_off_since.is_none_or(|since| since.elapsed() < GIVE_UP_GRACE)
            && self.calls.in_flight().any(has_ended)
    }

    /// Tells all ranks what this one says and collects what they say, for a limited time. `None` for ranks that have not
    /// answered.
    fn exchange_notices(&mut self, mine: Notice) -> Vec<Option<Notice>> {
        self.notify_all(&mine);
        let mut notices = vec![None; self.peers.ranks()];
        notices[self.peers.rank] = Some(mine);
        let deadline = Instant::now() + ANSWER_TIME;
        let mut events = Vec::new();
        loop {
            self.notices.drain(..).for_each(|(from, notice)| notices[from] = Some(notice));
            if notices.iter().all(Option::is_some) || Instant::now() > deadline {
                return notices;
            }
            self.transport.progress(&mut events);
            self.transport.inspect(None, &mut events);
            for event in events.drain(..) {
                if let Event::Notice { from, payload } = event {
                    self.note(from, &payload);
                }
            }
            std::thread::yield_now();
        }
    }

    /// Keeps a notice until it is handled. A sender of an invalid notice counts as lost.
    pub(super) fn note(&mut self, from: Rank, payload: &[u8]) {
        match Notice::parse(payload, self.peers.ranks()) {
            Some(notice) => self.notices.push_back((from, notice)),
            None => self.lose(from, "it has sent an invalid notice".to_owned()),
        }
    }

    /// Fails as another rank's notice says.
    pub(super) fn fail_as_told(&mut self, from: Rank, notice: Notice) {
        if self.failure.is_some() {
            return;
        }
        let told = |message: &str| format!("{message} (as rank {} says)", self.peers.describe(from));
        match notice.reason {
            FailureReason::Mismatch { .. } => {
                let reason = notice.reason;
                self.notices.push_front((from, notice));
                self.compare_calls(reason, String::new());
            }
            FailureReason::Timeout { number } => {
                let reason = notice.reason;
                let own = self.calls.in_flight().find(|task| task.number == number);
                let here = own.map(|t| {
                    format!("; rank {} was {}", self.peers.describe(self.peers.rank), self.describe_call(t))
                });
                let message = format!("{}{}", told(&notice.message), here.unwrap_or_default());
                self.notices.push_front((from, notice));
                self.compare_calls(reason, message);
            }
            FailureReason::Peer { rank } => {
                let message = told(&notice.message);
                self.fail(Error::Peer { rank, message }, FailureReason::Peer { rank }, notice.message);
            }
            FailureReason::LateMessage => {
                let message = told(&notice.message);
                self.notices.push_front((from, notice));
                self.compare_messages(message);
            }
            FailureReason::Abort => {
                let message = told(&notice.message);
                self.fail(Error::Aborted(message), FailureReason::Abort, notice.message);
            }
        }
    }

    /// Gives up the communicator because this rank leaves it: for the others, a member is lost.
    pub fn leave(&mut self, message: String) {
        self.fail(Error::Aborted(message.clone()), FailureReason::Peer { rank: self.peers.rank }, message);
    }

    /// Gives up the communicator, on this rank and on all others.
    pub fn fail(&mut self, error: Error, reason: FailureReason, message: String) {
        if self.failure.is_some() || self.closed {
            return;
        }
        self.notify_all(&self.notice(reason, message));
        // Let the notices leave before the connections are cut.
        let deadline = Instant::now() + ANSWER_TIME / 3;
        let mut events = Vec::new();
        while Instant::now() < deadline {
            self.transport.progress(&mut events);
            events.clear();
            std::thread::yield_now();
        }
        self.fail_here(error);
    }

    fn fail_here(&mut self, error: Error) {
        self.failure = Some(error.clone());
        self.own = None;
        self.transport.abort(Instant::now() + ABORT);
        self.end_all(&error);
    }

    fn end_all(&mut self, error: &Error) {
        self.calls.drop_reductions();
        for slot in self.calls.slots() {
            self.finish(slot, Some(error.clone()));
        }
        while let Some(task) = self.calls.next_held() {
            self.calls.end(&task.completion, Some(error.clone()));
        }
        self.give_up_waiting(error);
        if let Some(completion) = self.calls.being_posted.take() {
            self.calls.end(&completion, Some(error.clone()));
        }
    }

    /// Gives up the communicator after a panic with the message `what`. The cleanup may panic again.
    pub fn give_up(&mut self, what: &str) -> Error {
        let message = format!("rank {} hit a bug in ringroad: {what}", self.peers.describe(self.peers.rank));
        let error = Error::Aborted(message.clone());
        attempt(|| self.fail(error.clone(), FailureReason::Abort, message));
        if self.failure.is_none() && !self.closed {
            attempt(|| self.fail_here(error.clone()));
        }
        let error = self.failure.clone().unwrap_or(error);
        attempt(|| self.end_all(&error));
        error
    }

    fn notify_all(&mut self, notice: &Notice) {
        let payload = notice.to_bytes();
        for peer in self.peers.others() {
            if self.peers.broken(peer).is_none() {
                self.transport.notify(peer, &payload);
            }
        }
    }
}

/// Does something that may panic, and ignores that: the first panic is reported.
fn attempt(action: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(action));
}
