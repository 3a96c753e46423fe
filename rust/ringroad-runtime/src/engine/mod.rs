//! Runs calls: drives their executors over a transport.
//!
//! The engine starts the operations that executors allow and reports their completions back. Whatever goes wrong
//! becomes one failure of the whole communicator, of which every rank is notified ([`failing`]). The engine never
//! blocks and is used under a lock; [`crate::engine::progress`] decides who waits, and how.

mod any_source;
#[allow(unsafe_code)]
mod buffers;
mod calls;
mod error_texts;
mod failures;
mod own;
mod peers;
pub(crate) mod progress;
mod recorder;
mod scratch;
mod status;
mod task;

pub(crate) use calls::EndedCalls;
pub use recorder::Recorded;
pub(crate) use status::RankStanding;
pub(crate) use task::Task;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::plan::Command;
use ringroad_core::Rank;

use crate::adaptation::Adaptation;
use crate::bootstrap::EndpointInfo;
use crate::calls::call::CallKey;
use crate::calls::function::FunctionReduction;
use crate::calls::work::Message;
use crate::choice::choices::LoweringSettings;
use crate::error::Error;
use crate::os::machine::cache;
use crate::transport::buffer::Region;
use crate::transport::notice::{FailureReason, Notice};
use crate::transport::{
    Arrived, Event, Failure, Lack, LocalMemory, Posted, RequestId, Tag, Transport, TransportError, ABORTED,
    AWHILE, LOOKED_AT,
};

use self::buffers::CallBuffers;
use self::calls::Calls;
use self::own::Loopback;
use self::peers::{Peers, Suspect, ENDED};
use self::recorder::Recorder;
use self::scratch::Scratch;

/// How long a rank that fails waits for the other ranks' answers.
const ANSWER_TIME: Duration = Duration::from_millis(300);
/// How long to wait for a notice that explains a broken connection better, before the connection counts as the
/// failure.
const SUSPICION: Duration = Duration::from_millis(200);
/// How long calls in flight may go on after a peer gave up, if the peer had ended them before. Shorter than
/// [`SUSPICION`].
const GIVE_UP_GRACE: Duration = Duration::from_millis(100);
/// How long a collective call may go on after a rank has died from which this one needs nothing more. If that rank had
/// ended the call before, the others mostly end it, too, within this time. If not, no call may be left that would report
/// the death: the ranks that need the dead one may be stopped.
const DEATH_GRACE: Duration = Duration::from_secs(1);
/// How long ending everything in flight by force may take.
const ABORT: Duration = Duration::from_secs(1);

/// Runs the calls of one rank of a communicator.
pub(crate) struct Engine {
    name: String,
    transport: Box<dyn Transport>,
    /// For messages to this rank, once there has been one.
    own: Option<Loopback>,
    pub calls: Calls,
    peers: Peers,
    failure: Option<Error>,
    closed: bool,
    scratch: Scratch,
    events: Vec<Event>,
    /// While events are handled, those that have come meanwhile: they have their turn afterwards.
    meanwhile: Option<Vec<Event>>,
    /// Notices that have come and are not handled yet.
    notices: VecDeque<(Rank, Notice)>,
    /// The time at which some of them were first put off.
    put_off_since: Option<Instant>,
    /// Whether a rank that is not local has taken part in a call (see [`Engine::needs_driving`]).
    has_remote_peers: bool,
    /// Calls with at least this many bytes of input and output write results past the caches.
    uncached: usize,
    /// Whether to spin for a message before other operations are started. Ends with the first message that does not
    /// come soon.
    patient: bool,
    /// Records a trace, if somebody wants one.
    recorder: Option<Box<Recorder>>,
    /// Takes note of what calls take, if the ranks follow their network's changes.
    adaptation: Option<Arc<dyn Adaptation>>,
}

impl Engine {
    pub fn new(
        name: String,
        rank: Rank,
        endpoints: Arc<Vec<EndpointInfo>>,
        lowering: &LoweringSettings,
        mut transport: Box<dyn Transport>,
    ) -> Engine {
        let local = transport.local_memory().map(|memory| memory.ranks()).unwrap_or_default();
        let peers = Peers::new(rank, endpoints, local);
        let here = peers.here();
        let uncached = if here > 1 { cache::share_of_last_level(here) / 4 * 3 } else { usize::MAX };
        Engine {
            name,
            transport,
            own: None,
            calls: Calls::default(),
            peers,
            failure: None,
            closed: false,
            scratch: Scratch::new(lowering.two_areas && here > 1),
            events: Vec::new(),
            meanwhile: None,
            notices: VecDeque::new(),
            put_off_since: None,
            has_remote_peers: false,
            uncached,
            patient: false,
            recorder: None,
            adaptation: None,
        }
    }

    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Tells it what each later call takes.
    pub fn follow(&mut self, adaptation: Arc<dyn Adaptation>) {
        self.adaptation = Some(adaptation);
    }

    /// Whether the transport has to be driven even though no call is in flight here. That is so once a rank that is
    /// not local has taken part in a call.
    ///
    /// Such a peer may still wait for the acknowledgement of its messages: UCX 1.13 may not send it until it is
    /// driven again, and its flushes do not tell. The peer may also send for later calls, and its host may fall
    /// silent meanwhile.
    pub fn needs_driving(&mut self) -> bool {
        !self.closed && self.failure.is_none() && (self.has_remote_peers || self.has_queued())
    }

    fn has_queued(&mut self) -> bool {
        self.transport.local_memory().is_some_and(|memory| memory.has_queued())
    }

    /// Drives the transport if that is necessary although no call is in flight.
    pub fn drive_idle(&mut self) {
        if self.needs_driving() {
            self.poll_transport(|transport, events| transport.inspect(None, events));
        }
    }

    /// Whether this rank has closed its connections.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the error for later calls if the communicator cannot be used any more.
    pub fn check_usable(&self) -> Result<(), Error> {
        if self.closed {
            return Err(Error::Aborted(format!("communicator {:?} is closed; make a new one", self.name)));
        }
        match &self.failure {
            None => Ok(()),
            Some(cause) => {
                let message = format!(
                    "communicator {:?} failed earlier and can only be replaced by a new one; the cause was: {cause}",
                    self.name
                );
                // A loss may be noticed between calls: no call has raised it then.
                Err(match *cause {
                    Error::Peer { rank, .. } => Error::Peer { rank, message },
                    _ => Error::Aborted(message),
                })
            }
        }
    }

    /// Starts a call. `patient`: the caller waits for it and has nothing else to do.
    pub fn submit(&mut self, task: Box<Task>, patient: bool) -> Result<(), Error> {
        self.patient = patient;
        let submitted = self.start(task);
        self.patient = false;
        submitted
    }

    fn start(&mut self, task: Box<Task>) -> Result<(), Error> {
        self.check_usable()?;
        if task.held {
            self.calls.hold(task);
            return Ok(());
        }
        // Before notices are handled, so that a rank that asks what this one called is also told of this call.
        if task.number > 0 {
            self.calls.remember(task.number, task.completion.prepared());
        }
        // A peer that gives up sends a notice before it reuses its memory. Handle notices first, before messages that
        // it sent earlier are read.
        self.handle_notices();
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if self.must_wait(&task) {
            self.await_message(task);
            return Ok(());
        }
        let begun = self.begin(task);
        if self.own.is_some() {
            // The message that a receive waits for may have been this rank's own. Nothing else would tell.
            self.poll_transport(|_, _| ());
            self.match_waiting();
        }
        begun
    }

    /// Begins the calls that are held, in their order, as long as `is_next` says so. It gives them their numbers. An error is
    /// that of the call.
    pub fn begin_held(&mut self, mut is_next: impl FnMut(&mut Task) -> Result<bool, Error>) {
        // Those after the first begin together with it: how long they take shows nothing.
        let mut adaptation = None;
        while let Some(mut task) = self.calls.next_held() {
            let completion = task.completion.clone();
            self.calls.being_posted = Some(completion.clone());
            let begun = match is_next(&mut task) {
                Ok(false) => {
                    self.calls.hold_on(task);
                    break;
                }
                Ok(true) => {
                    task.held = false;
                    self.submit(task, false)
                }
                Err(error) => Err(error),
            };
            self.calls.being_posted = None;
            if let Err(error) = begun {
                if !completion.is_done() {
                    self.calls.end(&completion, Some(error));
                }
            }
            adaptation = self.adaptation.take().or(adaptation);
        }
        self.calls.being_posted = None;
        self.adaptation = adaptation.or(self.adaptation.take());
    }

    /// Starts a call whose peers are known.
    fn begin(&mut self, mut task: Box<Task>) -> Result<(), Error> {
        let plan = task.executor.plan();
        let rank = self.peers.rank;
        let mut lack = None;
        for peer in plan.peers().iter().copied().filter(|peer| *peer != rank) {
            match self.peers.connect(peer, &mut *self.transport) {
                Ok(()) => {}
                Err((Some(Lack::Connection), reason)) => lack = Some((peer, reason)),
                Err((_, reason)) => self.peers.suspect(peer, reason),
            }
            self.has_remote_peers |= !self.peers.is_local(peer);
        }
        let CallBuffers { input, output, past_caches, .. } = &mut task.buffers;
        *past_caches = input.len() + output.len() >= self.uncached;
        let like = if input.is_empty() { output } else { input };
        (task.buffers.scratch, task.buffers.scratch_range) =
            match self.scratch.take_region(plan.scratch(), like.as_ptr() as usize, &mut *self.transport) {
                Ok(taken) => taken,
                Err(reason) => {
                    self.lack_memory(&task.call().to_string(), &reason);
                    return Err(self.failure.clone().expect("it has just failed"));
                }
            };
        let slot = self.calls.free_slot();
        if self.adaptation.is_some() {
            task.began = task.call().prediction.map(|_| Instant::now());
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.begin_call(slot, &task);
        }
        self.calls.insert(slot, task);
        if let Some((peer, reason)) = lack {
            self.lack_connection(peer, &reason);
        }
        self.advance(slot);
        Ok(())
    }

    /// Does everything that can be done now. Returns whether anything has happened.
    pub fn progress(&mut self) -> bool {
        if !self.calls.is_busy() {
            return false;
        }
        let happened = self.poll_transport(|transport, events| transport.progress(events));
        (!self.calls.waiting().is_empty() && self.match_waiting()) | happened
    }

    /// Handles the notices that have arrived, together with all other events that the transport has.
    fn handle_notices(&mut self) {
        let next = ((self.calls.started + 1) % u64::from(Tag::SEQUENCES)) as u32;
        self.poll_transport(|transport, events| transport.inspect(Some(next), events));
    }

    #[inline]
    fn poll_transport<T>(&mut self, at: impl FnOnce(&mut dyn Transport, &mut Vec<Event>) -> T) -> T {
        let mut events = std::mem::take(&mut self.events);
        let seen = at(&mut *self.transport, &mut events);
        self.own.iter_mut().for_each(|own| _ = own.progress(&mut events));
        self.handle(&mut events);
        self.events = events;
        seen
    }

    /// The slow check: deadlines, notices, and messages of other calls.
    pub fn inspect(&mut self) {
        self.look_everywhere();
        self.check_messages_of_calls_in_flight();
        self.check_messages_of_ended_calls();
        let now = Instant::now();
        self.suspect_the_dead();
        // A peer that has left may have sent everything before.
        let patience = |suspect: &Suspect| match self.is_needed(suspect.peer) {
            true => Some(SUSPICION),
            false => self.death_reason(suspect.peer).map(|_| DEATH_GRACE),
        };
        let verdicts: Vec<_> =
            self.peers.suspects.iter().map(|s| patience(s).map(|p| now - s.since > p)).collect();
        if let Some(index) = verdicts.iter().position(|verdict| *verdict == Some(true)) {
            let suspect = self.peers.suspects.swap_remove(index);
            let (rank, message) = (suspect.peer, self.describe_loss(&suspect));
            self.fail(Error::Peer { rank, message: message.clone() }, FailureReason::Peer { rank }, message);
        } else {
            let mut verdicts = verdicts.into_iter();
            self.peers.suspects.retain(|_| verdicts.next().flatten().is_some());
        }
        let is_late = |task: &&Task| task.is_late(now);
        let begun =
            self.calls.in_flight().find(is_late).map(|task| (task.number, self.describe_timeout(task)));
        let waiting = || self.calls.waiting().iter().map(|task| &**task).find(is_late);
        let late = begun.or_else(|| waiting().map(|task| (task.number, self.describe_timeout_before(task))));
        let held = || self.calls.held().find(is_late);
        let late = late.or_else(|| held().map(|task| (self.calls.called, self.describe_timeout_held(task))));
        if let Some((number, message)) = late {
            self.late(number, message);
        }
    }

    fn suspect_the_dead(&mut self) {
        for peer in 0..self.peers.ranks() {
            if let Some(reason) = self.death_reason(peer).map(str::to_owned) {
                self.peers.suspect(peer, reason);
            }
        }
    }

    /// Why a rank has died, if it has and belongs to a collective call in flight here.
    fn death_reason(&self, peer: Rank) -> Option<&str> {
        let reason = self.peers.died(peer)?;
        self.calls.in_flight().any(|task| task.number > 0 && !task.executor.is_done()).then_some(reason)
    }

    fn look_everywhere(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.transport.inspect(None, &mut events);
        let gone = |peer| Event::PeerFailed { peer, reason: ENDED.to_owned() };
        events.extend(self.peers.note_dead().iter().copied().map(gone));
        self.handle(&mut events);
        self.events = events;
    }

    /// The ranks that have died, and how that is known. A rank that has only given up does not count.
    pub fn lost(&mut self) -> Vec<(Rank, String)> {
        let connected = !self.closed && self.failure.is_none();
        if connected {
            self.look_everywhere();
        } else {
            self.peers.note_dead();
        }
        let broken =
            |peer: Rank| self.peers.broken(peer).filter(|_| connected).filter(|reason| *reason != ABORTED);
        let reason = |peer: Rank| {
            let ended = self.peers.has_ended(peer).then_some(ENDED);
            ended.or_else(|| broken(peer)).map(|reason| (peer, reason.to_owned()))
        };
        (0..self.peers.ranks()).filter_map(reason).collect()
    }

    pub fn arm(&mut self) -> bool {
        // A message for a receive from any source may have come along with notices.
        !self.match_waiting() && self.own.as_mut().is_none_or(Loopback::arm) && self.transport.arm()
    }

    /// Closes the connections after the last call. Calls that are still in flight fail.
    pub fn close(&mut self, timeout: Duration) {
        if self.closed {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.connections = self.transport.connections();
        }
        if self.failure.is_none() {
            if self.calls.is_busy() {
                self.leave(format!(
                    "rank {} closed the communicator during a call",
                    self.peers.describe(self.peers.rank)
                ));
            } else {
                self.transport.close(Instant::now() + timeout);
            }
        }
        self.closed = true;
        self.write_trace();
    }

    fn handle(&mut self, events: &mut Vec<Event>) {
        // A notice may have waited for a call that has just been made.
        if events.is_empty() && self.notices.is_empty() {
            return;
        }
        // Notices first: a failure over another event has to know what the other ranks say about it. Calls that end now
        // have to know who has given up.
        for event in events.iter() {
            match event {
                Event::Notice { from, payload } => self.note(*from, payload),
                Event::PeerFailed { peer, reason } if reason == ABORTED => self.peers.aborted[*peer] = true,
                _ => {}
            }
        }
        match &mut self.meanwhile {
            // A call looks for events before it ends. If it handled them, and calls ended by them did the same, many
            // calls that end one after the other would need a deep stack.
            Some(meanwhile) => meanwhile.append(events),
            None => self.handle_all(events),
        }
        while let Some((from, notice)) = self.next_notice() {
            self.fail_as_told(from, notice);
        }
    }

    /// Handles these events and those that come meanwhile.
    fn handle_all(&mut self, events: &mut Vec<Event>) {
        self.meanwhile = Some(Vec::new());
        while !events.is_empty() {
            for event in events.drain(..) {
                match event {
                    Event::Completed { request, result: Ok(()) } => self.completed(request, None),
                    Event::Arrived { request, arrived } => self.completed(request, Some(arrived)),
                    Event::Completed { request, result: Err(failure) } => {
                        self.request_failed(request, failure)
                    }
                    Event::Lacks { peer, what: Lack::Connection, reason } => {
                        self.lack_connection(peer, &reason);
                    }
                    Event::Lacks { peer, what: Lack::Memory, reason } => {
                        let what = format!("what rank {} sends", self.peers.describe(peer));
                        self.lack_memory(&what, &reason);
                    }
                    Event::PeerFailed { peer, reason } => self.lose(peer, reason),
                    Event::Notice { .. } => {}
                }
            }
            self.meanwhile.iter_mut().for_each(|meanwhile| events.append(meanwhile));
        }
        self.meanwhile = None;
    }

    fn completed(&mut self, request: RequestId, arrived: Option<Arrived>) {
        let (slot, number) = ((request >> 32) as usize, request as u32);
        // After a failure, requests may end whose call is gone.
        if let Some(task) = self.calls.get_mut(slot) {
            if let Command::Expect { arrival, .. } = task.executor.operation(number).command {
                task.buffers.arrived[arrival as usize] = arrived;
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.end_operation(request);
            }
            task.executor.complete(number);
            self.advance(slot);
        }
    }

    /// Starts all operations that the task's executor allows.
    fn advance(&mut self, slot: usize) {
        let Some(task) = self.calls.get_mut(slot) else { return };
        let mut trouble: Option<(Rank, TransportError)> = None;
        let mut reductions = Vec::new();
        while let Some(number) = task.executor.start() {
            let request = (slot as u64) << 32 | u64::from(number);
            if let Some(recorder) = &mut self.recorder {
                recorder.begin_operation(request, *task.executor.operation(number), task);
            }
            let posted = match task.executor.operation(number).command {
                Command::Send { peer, port, message, source, stays } => {
                    let tag =
                        Tag { source: self.peers.rank, message: task.tag.message | message, ..task.tag };
                    let source = task.buffers.region(source);
                    let posted = if peer == self.peers.rank {
                        self.own.get_or_insert_with(|| Loopback::new(peer)).send(tag, source, request)
                    } else if stays && self.peers.is_local(peer) {
                        memory(&mut self.transport).send_zero_copy(peer, port, tag, source, request)
                    } else {
                        self.transport.send(peer, port, tag, source, request)
                    };
                    (peer, posted)
                }
                Command::Receive { peer, port, message, target } => {
                    let tag = Tag { source: peer, message: task.tag.message | message, ..task.tag };
                    let target = task.buffers.target(task.executor.plan(), number, target);
                    let posted = match peer == self.peers.rank {
                        true => {
                            self.own.get_or_insert_with(|| Loopback::new(peer)).receive(tag, target, request)
                        }
                        false => self.transport.receive(port, tag, target, request),
                    };
                    (peer, posted)
                }
                Command::Expect { peer, message, arrival, bytes, .. } => {
                    let tag = Tag { source: peer, message: task.tag.message | message, ..task.tag };
                    let memory = memory(&mut self.transport);
                    // For a long message, the look that finds it is measured, to learn whether its sender shares a
                    // cache.
                    if self.patient && bytes < LOOKED_AT {
                        memory.spin(tag);
                    }
                    match memory.expect(tag, bytes, request) {
                        Ok(Posted::Arrived(arrived)) => {
                            task.buffers.arrived[arrival as usize] = Some(arrived);
                            (peer, Ok(Posted::Complete))
                        }
                        posted => {
                            self.patient = false;
                            (peer, posted)
                        }
                    }
                }
                Command::Release { arrival } => {
                    let arrived = task.buffers.arrived[arrival as usize].take();
                    let arrived = arrived.expect("it is released once, after it has come");
                    memory(&mut self.transport).release(arrived);
                    (self.peers.rank, Ok(Posted::Complete))
                }
                // What involves no other rank is done at once. Peers are woken before if it takes a while.
                local => {
                    if local.bytes() >= AWHILE {
                        self.transport.flush();
                    }
                    if let Some(function) = &task.function {
                        if let Some(sources) = task.buffers.operands(task.executor.plan(), local) {
                            let (function, flipped) = (function.clone(), task.call().flipped);
                            reductions.push(FunctionReduction { request, function, sources, flipped });
                            continue;
                        }
                    }
                    let (plan, ranks) = (task.executor.plan(), self.peers.ranks() as u32);
                    let CallKey { op, dtype, .. } = task.call().key;
                    let format = task.call().format(task.number);
                    let distance = |peer| self.transport.local_memory()?.distance(peer);
                    task.buffers.perform(plan, number, (op, dtype, format), task.factor, ranks, distance);
                    (self.peers.rank, Ok(Posted::Complete))
                }
            };
            match posted {
                (_, Ok(Posted::Complete)) => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.end_operation(request);
                    }
                    task.executor.complete(number);
                }
                (_, Ok(Posted::Pending)) => {}
                (_, Ok(Posted::Arrived(_))) => unreachable!("only what is expected arrives"),
                (peer, Err(error)) => trouble = Some((peer, error)),
            }
        }
        // Peers are woken once for all that was posted. Functions of the user's own run later, without any lock.
        self.transport.flush();
        let is_done = task.executor.is_done();
        self.calls.reduce(reductions);
        if is_done {
            // As in `start`: the messages that have arrived are valid only if their senders have not given up
            // meanwhile and have made the same calls.
            self.handle_notices();
            self.check_messages_of_ended_calls();
            self.check_for_aborts(slot);
            self.finish(slot, None);
        }
        // Last, because it may fail all calls, this one included.
        if let Some((peer, TransportError { lacks, reason, .. })) = trouble {
            match lacks {
                None => self.peers.suspect(peer, reason),
                Some(Lack::Memory) => self.lack_memory_for_message(slot, peer, &reason),
                Some(Lack::Connection) => self.lack_connection(peer, &reason),
            }
        }
    }

    /// Gives up for lack of memory for a message to or from a peer.
    fn lack_memory_for_message(&mut self, slot: usize, peer: Rank, reason: &str) {
        let Some(task) = self.calls.get(slot) else { return };
        let bytes = task.buffers.input.len().max(task.buffers.output.len());
        let what = format!(
            "a message between it and rank {} ({}, {bytes} bytes)",
            self.peers.describe(peer),
            task.call()
        );
        self.lack_memory(&what, reason);
    }

    /// Gives up since this process cannot open a connection to a peer.
    fn lack_connection(&mut self, peer: Rank, reason: &str) {
        let own = self.peers.describe(self.peers.rank);
        let message = format!("rank {own} gives up while it was {}: {reason}", self.describe_need(peer));
        self.fail(Error::Transport(message.clone()), FailureReason::Abort, message);
    }

    /// Gives up for lack of memory.
    fn lack_memory(&mut self, what: &str, reason: &str) {
        let message = format!(
            "rank {} has no memory for {what}: {reason}. Free arrays of Communicator.empty; receive messages \
             before more are sent, since they wait in shared memory; or allow the process more memory",
            self.peers.describe(self.peers.rank)
        );
        self.fail(Error::Memory(message.clone()), FailureReason::Abort, message);
    }

    /// Gives up if a peer of this call has aborted and no notice of it has come: the peer's memory may have been read
    /// after it was reused.
    fn check_for_aborts(&mut self, slot: usize) {
        let Some(task) = self.calls.get(slot) else { return };
        let gave_up = |peer: &&Rank| self.peers.aborted[**peer];
        let Some(&peer) = task.executor.plan().peers().iter().find(gave_up) else { return };
        if self.failure.is_none() && !self.notices.iter().any(|(from, _)| *from == peer) {
            let message = format!(
                "rank {} gave up while rank {} was {}",
                self.peers.describe(peer),
                self.peers.describe(self.peers.rank),
                self.describe_call(task)
            );
            self.fail(Error::Aborted(message.clone()), FailureReason::Abort, message);
        }
    }

    /// Goes on with a call after a reduction of the caller's own, or fails if that has failed.
    pub fn reduced(&mut self, request: RequestId, result: Result<Region, String>) {
        // The call may have failed meanwhile: then its memory is not written any more.
        let Some(task) = self.calls.get((request >> 32) as usize) else { return };
        match result {
            Ok(result) => {
                task.buffers.reduced(task.executor.operation(request as u32).command, &result);
                self.completed(request, None);
            }
            Err(text) => {
                let message = format!(
                    "rank {} could not combine values in {}: {text}",
                    self.peers.describe(self.peers.rank),
                    task.call()
                );
                self.fail(Error::Aborted(message.clone()), FailureReason::Abort, message);
            }
        }
    }

    fn finish(&mut self, slot: usize, error: Option<Error>) {
        let Some(mut task) = self.calls.remove(slot) else { return };
        if let Some(recorder) = self.recorder.as_mut().filter(|_| error.is_none()) {
            recorder.end_call(slot);
        }
        if error.is_some() {
            // The transport may still be using the memory: let its requests be the last owners.
            return self.calls.end(&task.completion, error);
        }
        let timed = task.began.take().zip(task.call().prediction);
        if let (Some(adaptation), Some((began, prediction))) = (&self.adaptation, timed) {
            adaptation.after_call(prediction, began.elapsed());
        }
        debug_assert!(task.buffers.arrived.iter().all(Option::is_none), "what has arrived is released");
        let CallBuffers { input, output, scratch, .. } = &mut task.buffers;
        (*input, *output) = (Region::nothing(), Region::nothing());
        task.function = None;
        let scratch = std::mem::replace(scratch, Region::nothing());
        self.scratch.keep(scratch);
        self.calls.end(&task.completion, None);
        if task.is_reusable() {
            self.calls.keep_task(task);
        }
    }

    /// Notes that `peer` is gone: nothing more comes from it or is sent to it.
    fn lose(&mut self, peer: Rank, reason: String) {
        self.peers.lose(peer, &reason);
        if self.is_needed(peer) {
            self.peers.suspect(peer, reason);
        }
    }

    fn request_failed(&mut self, request: RequestId, failure: Failure) {
        let slot = (request >> 32) as usize;
        let Some(task) = self.calls.get(slot) else { return };
        let Some(peer) = task.executor.operation(request as u32).command.peer() else { return };
        match failure {
            Failure::Broken(reason) => self.peers.suspect(peer, reason),
            Failure::Memory(reason) => self.lack_memory_for_message(slot, peer, &reason),
            Failure::Length { found: Some(bytes), expected } if bytes < expected && task.shorter => {
                let (tag, dtype) = (task.tag.user(), task.call().key.dtype);
                task.completion.found(Message { source: peer, tag, bytes, dtype });
                self.completed(request, None);
            }
            Failure::Check { .. } | Failure::Length { .. } => {
                let (number, found) = (task.number, error_texts::misfit(task.call(), peer, &failure));
                self.mismatch(number, found);
            }
        }
    }
}

/// The operations of local ranks, for commands that plans contain only for those.
fn memory(transport: &mut Box<dyn Transport>) -> &mut dyn LocalMemory {
    transport.local_memory().expect("a rank is local")
}
