//! The messages of all ranks, from their senders to their receivers.
//!
//! Messages by one port to the same peer leave one after the other, as over one connection; each is a flow while it
//! leaves. An empty message takes its turn, but no links.

use std::collections::{HashMap, VecDeque};

use super::agenda::{Agenda, Event, MessageId};
use super::fair::{FairNetwork, FlowId};
use super::paths::{Path, Paths, Stage};
use crate::units::{Port, Rank, Seconds};

/// Flows that end within this part of the time so far end together, for they differ by rounding only: one division of
/// the links serves all.
const TIE: f64 = 1e-12;

/// One side's operation and when it began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    pub operation: u32,
    pub start: Seconds,
}

pub(super) struct Message {
    pub source: Rank,
    pub destination: Rank,
    /// Counts the messages between the two.
    pub number: u32,
    pub port: Port,
    pub bytes: usize,
    /// The sender's step.
    pub step: u32,
    pub sender: Option<Side>,
    pub receiver: Option<Side>,
    /// Where on its path it is.
    stage: usize,
    /// Its start-up is over, but it waits for its receiver.
    pub waits: bool,
    pub arrived: bool,
}

#[derive(Default)]
struct Connection {
    busy: bool,
    queue: VecDeque<MessageId>,
}

struct Flow {
    message: MessageId,
    bytes_left: f64,
    /// When that was so.
    since: Seconds,
    changes: u32,
}

pub(super) struct Traffic {
    paths: Paths,
    network: FairNetwork,
    messages: Vec<Message>,
    free: Vec<MessageId>,
    /// Messages of which one side has been heard of. This and the connections are only looked up.
    unmatched: HashMap<(Rank, Rank, u32), MessageId>,
    connections: HashMap<(Rank, Rank, Port), Connection>,
    flows: Vec<Flow>,
    /// Until when changes belong to the same moment.
    settle_by: Seconds,
}

impl Traffic {
    pub fn new(paths: Paths, capacities: impl Iterator<Item = f64>) -> Traffic {
        Traffic {
            paths,
            network: FairNetwork::new(capacities),
            messages: Vec::new(),
            free: Vec::new(),
            unmatched: HashMap::new(),
            connections: HashMap::new(),
            flows: Vec::new(),
            settle_by: 0.0,
        }
    }

    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id]
    }

    pub fn message_mut(&mut self, id: MessageId) -> &mut Message {
        &mut self.messages[id]
    }

    fn matched(&mut self, source: Rank, destination: Rank, number: u32) -> MessageId {
        if let Some(id) = self.unmatched.remove(&(source, destination, number)) {
            return id;
        }
        let message = Message {
            source,
            destination,
            number,
            port: 0,
            bytes: 0,
            step: 0,
            sender: None,
            receiver: None,
            stage: 0,
            waits: false,
            arrived: false,
        };
        let id = self.free.pop().unwrap_or(self.messages.len());
        if id == self.messages.len() {
            self.messages.push(message);
        } else {
            self.messages[id] = message;
        }
        self.unmatched.insert((source, destination, number), id);
        id
    }

    /// The sender has posted message `number`.
    pub fn post_send(
        &mut self,
        (source, destination, number): (Rank, Rank, u32),
        (port, bytes, step): (Port, usize, u32),
        side: Side,
    ) -> MessageId {
        let id = self.matched(source, destination, number);
        let message = &mut self.messages[id];
        (message.port, message.bytes, message.step, message.sender) = (port, bytes, step, Some(side));
        id
    }

    /// The receiver has posted message `number`.
    pub fn post_receive(
        &mut self,
        (source, destination, number): (Rank, Rank, u32),
        side: Side,
    ) -> MessageId {
        let id = self.matched(source, destination, number);
        self.messages[id].receiver = Some(side);
        id
    }

    /// Forgets a message that both sides are done with.
    pub fn deliver(&mut self, id: MessageId) {
        self.free.push(id);
    }

    fn path(&self, id: MessageId) -> &Path {
        let message = &self.messages[id];
        &self.paths[&(message.source, message.destination)]
    }

    /// The links that a message takes now, and how long after that it is at their end.
    pub fn stage(&self, id: MessageId) -> &Stage {
        &self.path(id)[self.messages[id].stage]
    }

    pub fn is_at_first_stage(&self, id: MessageId) -> bool {
        self.messages[id].stage == 0
    }

    /// Whether the end of the message's stage is its destination.
    pub fn is_at_last_stage(&self, id: MessageId) -> bool {
        self.messages[id].stage + 1 == self.path(id).len()
    }

    /// Lets a message leave its sender, when those before it have left. Returns whether that is now.
    pub fn depart(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) -> bool {
        let Message { source, destination, port, .. } = self.messages[id];
        let connection = self.connections.entry((source, destination, port)).or_default();
        if connection.busy {
            connection.queue.push_back(id);
            return false;
        }
        connection.busy = true;
        self.flow(id, now, agenda);
        true
    }

    /// After `id` has left its sender: the message behind it, which leaves now.
    pub fn next_behind(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) -> Option<MessageId> {
        let Message { source, destination, port, .. } = self.messages[id];
        let connection = self.connections.get_mut(&(source, destination, port))?;
        let next = connection.queue.pop_front();
        connection.busy = next.is_some();
        self.flow(next?, now, agenda);
        next
    }

    /// Lets a message that was stored on its way go on.
    pub fn forward(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) {
        self.messages[id].stage += 1;
        self.flow(id, now, agenda);
    }

    fn flow(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) {
        let shares = self.stage(id).shares.clone();
        if self.messages[id].bytes == 0 || shares.is_empty() {
            return agenda.enter(now, Event::Left(id));
        }
        self.note_change(now);
        let flow = self.network.begin(shares);
        let begun = Flow { message: id, bytes_left: self.messages[id].bytes as f64, since: now, changes: 0 };
        if flow == self.flows.len() {
            self.flows.push(begun);
        } else {
            // What was entered for the flow that had this number before must not be taken for this one's.
            self.flows[flow] = Flow { changes: self.flows[flow].changes + 1, ..begun };
        }
    }

    /// Whether a flow is still expected to drain at the time that was entered with this number of changes.
    pub fn is_current(&self, flow: FlowId, changes: u32) -> bool {
        self.flows[flow].changes == changes
    }

    /// Ends a flow; the message that has left.
    pub fn drain(&mut self, flow: FlowId, now: Seconds) -> MessageId {
        self.note_change(now);
        self.network.end(flow);
        self.flows[flow].changes += 1;
        self.flows[flow].message
    }

    fn note_change(&mut self, now: Seconds) {
        if !self.network.is_unsettled() {
            self.settle_by = now * (1.0 + TIE);
        }
    }

    /// Whether rates must be settled before an event of this time is looked at.
    pub fn must_settle(&self, next: Option<Seconds>) -> bool {
        self.network.is_unsettled() && next.is_none_or(|next| next > self.settle_by)
    }

    /// Divides the links among the flows that there are now, and enters when each will have drained.
    pub fn settle(&mut self, now: Seconds, agenda: &mut Agenda) {
        let Traffic { network, flows, .. } = self;
        network.settle(|network, id, rate_before| {
            let flow = &mut flows[id];
            flow.bytes_left = (flow.bytes_left - rate_before * (now - flow.since)).max(0.0);
            (flow.since, flow.changes) = (now, flow.changes + 1);
            agenda.enter(now + flow.bytes_left / network.rate(id), Event::Drain(id, flow.changes));
        });
    }
}
