//! Ranks that are threads of one process: the transport of tests, examples and notebooks, and the slow twin of UCX.
//!
//! It behaves like a network rather than like memory. A small message is copied at once and its send completes
//! (eager). A larger one completes when a receive has matched it (rendezvous). So a schedule that deadlocks on a
//! network deadlocks here.
//!
//! Every rank has a mailbox behind a lock. The sender or the receiver, whichever finds that a message matches its
//! receive, copies the message while holding the lock of the receiver's mailbox. No thread ever holds two locks.
//! Ports are ignored.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ringroad_core::{Port, Rank};

use super::{
    Description, Event, Failure, MessageKind, Posted, RequestId, Subject, Tag, Transport, TransportError,
    Unclaimed, Wait,
};
use crate::os::lock::{Condvar, Mutex, MutexGuard};
use crate::transport::buffer::Region;

/// Messages of at least this many bytes are sent by rendezvous, unless told otherwise.
pub const EAGER_LIMIT: usize = 64 << 10;

const NAME: &str = "in-process";

/// One rank of a group of threads.
pub struct InProcess {
    rank: Rank,
    eager_limit: usize,
    mailboxes: Arc<[Arc<Mailbox>]>,
    /// For each rank, whether this one watches it.
    connected: Vec<bool>,
    /// Why this rank takes no more part.
    left: Option<&'static str>,
}

#[derive(Default)]
struct Mailbox {
    state: Mutex<MailboxState>,
    doorbell: Condvar,
    /// Why the owner accepts no more messages. Set under the lock.
    gone: OnceLock<&'static str>,
}

#[derive(Default)]
struct MailboxState {
    /// Events that were not reported yet.
    events: Vec<Event>,
    /// Messages that no receive has matched yet, by the bits that a receive compares.
    arrived: HashMap<u64, VecDeque<UnmatchedMessage>>,
    /// How many messages have come before their receives were posted.
    arrivals: u64,
    /// Whether the owner waits for a message without having posted a receive.
    sought: bool,
    /// Receives that wait for their message.
    expected: HashMap<u64, VecDeque<Receive>>,
    /// How many sends of the owner wait in the mailboxes of others.
    sending: usize,
    /// The ranks to be notified of the owner's end.
    watchers: Vec<Rank>,
    sleepers: usize,
    /// How many blocks [`Wait::wake`] still has to end.
    wakes: usize,
}

struct UnmatchedMessage {
    tag: Tag,
    /// Counts the messages that came before their receives.
    order: u64,
    body: Region,
    /// The send that completes when this message is matched; `None` if it was eager.
    waiting: Option<RequestId>,
}

struct Receive {
    tag: Tag,
    target: Region,
    request: RequestId,
}

impl InProcess {
    /// A group of `ranks` ranks, the first is rank 0. Each belongs to one thread.
    pub fn group(ranks: usize) -> Vec<InProcess> {
        InProcess::group_with(ranks, EAGER_LIMIT)
    }

    /// Like [`InProcess::group`], but messages of at least `eager_limit` bytes are sent by rendezvous: all of them if
    /// it is 0, none if it is [`usize::MAX`].
    pub fn group_with(ranks: usize, eager_limit: usize) -> Vec<InProcess> {
        let mailboxes: Arc<[_]> = (0..ranks).map(|_| Arc::<Mailbox>::default()).collect();
        let member = |rank| InProcess {
            rank,
            eager_limit,
            mailboxes: mailboxes.clone(),
            connected: (0..ranks).map(|peer| peer == rank).collect(),
            left: None,
        };
        (0..ranks).map(member).collect()
    }

    /// Which rank this is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.mailboxes.len()
    }

    fn own(&self) -> &Mailbox {
        &self.mailboxes[self.rank]
    }

    fn peer(&self, peer: Rank) -> Result<&Mailbox, TransportError> {
        match self.mailboxes.get(peer) {
            Some(mailbox) => Ok(mailbox),
            None => Err(error(format!("there is no rank {peer} among {} ranks", self.ranks()))),
        }
    }

    fn check_open(&self) -> Result<(), TransportError> {
        match self.left {
            None => Ok(()),
            Some(reason) => Err(error(format!("rank {} can post nothing more: {reason}", self.rank))),
        }
    }

    /// Ends this rank's part: from now on nothing in flight touches its memory, and watchers are told why. With
    /// `discard`, messages that it has sent and no receive has matched yet are lost, too.
    fn leave(&mut self, reason: &'static str, discard: bool) {
        if self.left.is_some() {
            return;
        }
        self.left = Some(reason);
        let (watchers, refused) = {
            let mut state = self.own().state.lock();
            let _ = self.own().gone.set(reason);
            state.expected.clear();
            (mem::take(&mut state.watchers), mem::take(&mut state.arrived))
        };
        for message in refused.into_values().flatten() {
            self.tell_sender(&message, Err(Failure::Broken(format!("rank {} is gone: {reason}", self.rank))));
        }
        for (rank, mailbox) in self.mailboxes.iter().enumerate().filter(|(rank, _)| *rank != self.rank) {
            let mut state = mailbox.state.lock();
            state.withdraw(self.rank, discard);
            if watchers.contains(&rank) {
                state.events.push(failed(self.rank, reason));
                mailbox.ring(state);
            }
        }
    }

    /// Completes the send of a message that waited to be matched.
    fn tell_sender(&self, message: &UnmatchedMessage, result: Result<(), Failure>) {
        let Some(request) = message.waiting else { return };
        let mailbox = &self.mailboxes[message.tag.source];
        let mut state = mailbox.state.lock();
        state.sending -= 1;
        state.events.push(Event::Completed { request, result });
        mailbox.ring(state);
    }
}

impl MailboxState {
    fn withdraw(&mut self, source: Rank, eager_too: bool) {
        for messages in self.arrived.values_mut() {
            messages.retain(|m| m.tag.source != source || (m.waiting.is_none() && !eager_too));
        }
        self.arrived.retain(|_, messages| !messages.is_empty());
    }
}

impl Mailbox {
    /// Wakes the owner, who may be blocking, after the lock was released.
    fn ring(&self, state: MutexGuard<'_, MailboxState>) {
        drop(state);
        self.doorbell.notify_all();
    }
}

fn error(reason: String) -> TransportError {
    TransportError { transport: NAME, reason, lacks: None }
}

fn gone(peer: Rank, reason: &str) -> TransportError {
    error(format!("rank {peer} is gone: {reason}"))
}

fn failed(peer: Rank, reason: &str) -> Event {
    Event::PeerFailed { peer, reason: reason.to_owned() }
}

/// Takes the first value of the queue under `key`. Removes queues that become empty.
fn pop<T>(queues: &mut HashMap<u64, VecDeque<T>>, key: u64) -> Option<T> {
    let queue = queues.get_mut(&key)?;
    let first = queue.pop_front();
    if queue.is_empty() {
        queues.remove(&key);
    }
    first
}

/// Copies a message to its receive's memory, if check and length are as expected. The lock of the receiver's mailbox
/// is held.
fn deliver(tag: Tag, body: &Region, expected: Tag, target: &Region) -> Result<(), Failure> {
    if tag.check != expected.check {
        return Err(Failure::Check { found: tag, bytes: Some(body.len()) });
    }
    let length = Failure::Length { found: Some(body.len()), expected: target.len() };
    if body.len() > target.len() || body.len() < target.len() && tag.kind != MessageKind::PointToPoint {
        return Err(length);
    }
    // SAFETY: the poster of each request leaves its region alone until the request has ended. Neither has: both are
    // reported after this, and a rank that aborts withdraws its requests under the lock that is held here.
    #[allow(unsafe_code)]
    unsafe {
        target.part(0..body.len()).copy_from(body);
    }
    if body.len() == target.len() {
        Ok(())
    } else {
        Err(length)
    }
}

/// The copy of an eager message that stays with the receiver.
fn copy_of(source: &Region) -> Region {
    let body = Region::zeroed(source.len());
    // SAFETY: the copy is new; the poster leaves the source alone until the send has ended.
    #[allow(unsafe_code)]
    unsafe {
        body.copy_from(source);
    }
    body
}

impl Transport for InProcess {
    fn describe(&self) -> Description {
        let text = format!("{NAME} ({} threads, rendezvous from {} bytes)", self.ranks(), self.eager_limit);
        Description { text, ..Description::default() }
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        let mailbox = self.peer(peer)?;
        if self.connected[peer] {
            return Ok(());
        }
        let mut state = mailbox.state.lock();
        state.watchers.push(self.rank);
        drop(state);
        if let Some(reason) = mailbox.gone.get() {
            let mut state = self.own().state.lock();
            state.events.push(failed(peer, reason));
            self.own().ring(state);
        }
        self.connected[peer] = true;
        Ok(())
    }

    fn send(
        &mut self,
        peer: Rank,
        _port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        debug_assert_eq!(tag.source, self.rank, "a message must say who sends it");
        self.check_open()?;
        self.connect(peer)?;
        let rendezvous = source.len() >= self.eager_limit;
        if rendezvous {
            // Counted first: once the message is out, its receiver may complete it at any time.
            self.own().state.lock().sending += 1;
        }
        let key = tag.pack() & Tag::MATCH;
        let mailbox = &self.mailboxes[peer];
        let mut state = mailbox.state.lock();
        let posted = if let Some(reason) = mailbox.gone.get() {
            Err(gone(peer, reason))
        } else if let Some(receive) = pop(&mut state.expected, key) {
            let result = deliver(tag, &source, receive.tag, &receive.target);
            state.events.push(Event::Completed { request: receive.request, result });
            mailbox.ring(state);
            Ok(Posted::Complete)
        } else {
            let (body, waiting) = if rendezvous { (source, Some(request)) } else { (copy_of(&source), None) };
            state.arrivals += 1;
            let order = state.arrivals;
            state.arrived.entry(key).or_default().push_back(UnmatchedMessage { tag, order, body, waiting });
            if mem::take(&mut state.sought) {
                state.wakes = state.wakes.max(1);
                mailbox.ring(state);
            }
            return Ok(if rendezvous { Posted::Pending } else { Posted::Complete });
        };
        if rendezvous {
            self.own().state.lock().sending -= 1;
        }
        posted
    }

    fn receive(
        &mut self,
        _port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.check_open()?;
        self.connect(tag.source)?;
        // Read first: a rank that is gone now has put all its messages into the mailbox.
        let source_gone = self.mailboxes[tag.source].gone.get();
        let key = tag.pack() & Tag::MATCH;
        let mut state = self.own().state.lock();
        let Some(message) = pop(&mut state.arrived, key) else {
            if let Some(reason) = source_gone {
                return Err(gone(tag.source, reason));
            }
            state.expected.entry(key).or_default().push_back(Receive { tag, target, request });
            return Ok(Posted::Pending);
        };
        let result = deliver(message.tag, &message.body, tag, &target);
        let posted = match result {
            Ok(()) => Posted::Complete,
            Err(_) => {
                state.events.push(Event::Completed { request, result });
                Posted::Pending
            }
        };
        drop(state);
        self.tell_sender(&message, Ok(()));
        Ok(posted)
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        let Ok(mailbox) = self.peer(peer) else { return };
        let mut state = mailbox.state.lock();
        state.events.push(Event::Notice { from: self.rank, payload: payload.to_vec() });
        mailbox.ring(state);
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        let mut state = self.own().state.lock();
        let any = !state.events.is_empty();
        events.append(&mut state.events);
        any
    }

    fn inspect(&mut self, _next: Option<u32>, events: &mut Vec<Event>) {
        self.progress(events);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        let call = Tag::for_collective(source, sequence) & Tag::CALL;
        let state = self.own().state.lock();
        let first =
            state.arrived.iter().filter(|(key, _)| *key & Tag::CALL == call).min_by_key(|(key, _)| **key);
        first.and_then(|(_, messages)| messages.front()).map(|message| message.tag)
    }

    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        let mut state = self.own().state.lock();
        let fitting = state.arrived.iter().filter(|(key, _)| subject.includes(**key));
        let oldest = fitting.filter_map(|(_, messages)| messages.front()).min_by_key(|message| message.order);
        let found = oldest.map(|message| Unclaimed { tag: message.tag, bytes: message.body.len() });
        state.sought |= found.is_none();
        found
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        let state = self.own().state.lock();
        let firsts = state.arrived.values().filter_map(|messages| messages.front());
        firsts.filter(|m| m.tag.kind == MessageKind::Collective).min_by_key(|m| m.order).map(|m| m.tag)
    }

    fn arm(&mut self) -> bool {
        self.own().state.lock().events.is_empty()
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.mailboxes[self.rank].clone()
    }

    fn abort(&mut self, _deadline: Instant) {
        self.leave(super::ABORTED, true);
    }

    fn close(&mut self, deadline: Instant) {
        let mailbox = self.own();
        let mut state = mailbox.state.lock();
        while state.sending > 0 && !mailbox.doorbell.wait_until(&mut state, deadline).timed_out() {}
        drop(state);
        self.leave(super::CLOSED, false);
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.leave("it has ended without closing its connections", true);
    }
}

/// Events stay in the mailbox until they are reported, so that a block which comes late ends at once: nothing that
/// happens between [`Transport::arm`] and here is missed.
impl Wait for Mailbox {
    fn block(&self, timeout: Duration) {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state.lock();
        state.sleepers += 1;
        while state.events.is_empty() && state.wakes == 0 {
            let timed_out = match deadline {
                Some(deadline) => self.doorbell.wait_until(&mut state, deadline).timed_out(),
                None => {
                    self.doorbell.wait(&mut state);
                    false
                }
            };
            if timed_out {
                break;
            }
        }
        state.sleepers -= 1;
        state.wakes = state.wakes.saturating_sub(1);
    }

    fn wake(&self) {
        let mut state = self.state.lock();
        state.wakes = state.sleepers.max(1);
        self.ring(state);
    }
}
