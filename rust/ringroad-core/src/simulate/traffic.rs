//! The messages of all ranks, from their senders to their receivers.
//!
//! Messages by one port to the same peer leave one after the other, as over one connection. A message is a flow while
//! its bytes leave. An empty message waits for its turn, too, but takes no links.

use std::collections::{HashMap, VecDeque};

use super::agenda::{Agenda, MessageId, Moment};
use super::fair::{FairNetwork, FlowId};
use super::paths::{MessagePath, MessagePaths, PathStage};
use crate::units::{Port, Rank, Seconds};

/// Changes of flows within this fraction of the current time count as simultaneous, because they differ by rounding
/// only. Rates are then computed once for all of them.
const TIE: f64 = 1e-12;

/// The operation of one side of a message, and when it started.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartedOperation {
    pub operation: u32,
    pub start: Seconds,
}

pub(super) struct Transmission {
    pub source: Rank,
    pub destination: Rank,
    /// The number of the message among those from the source to the destination.
    pub number: u32,
    pub port: Port,
    pub bytes: usize,
    /// The step of the schedule at the sender.
    pub step: u32,
    pub sender: Option<StartedOperation>,
    pub receiver: Option<StartedOperation>,
    /// The stage of its path at which it is.
    stage: usize,
    /// Whether its start-up is over and it waits for its receiver (rendezvous).
    pub waits: bool,
    pub arrived: bool,
}

#[derive(Default)]
struct PortQueue {
    busy: bool,
    queue: VecDeque<MessageId>,
}

struct FlowProgress {
    message: MessageId,
    /// How many bytes had not left at the time `since`.
    bytes_left: f64,
    since: Seconds,
    /// How often the flow's rate has changed. It distinguishes events from before the last change.
    changes: u32,
}

pub(super) struct Traffic {
    paths: MessagePaths,
    network: FairNetwork,
    messages: Vec<Transmission>,
    free: Vec<MessageId>,
    /// The messages of which one side has been posted. Never iterated over.
    unmatched: HashMap<(Rank, Rank, u32), MessageId>,
    /// The connections. Never iterated over.
    connections: HashMap<(Rank, Rank, Port), PortQueue>,
    flows: Vec<FlowProgress>,
    /// The time until which changes count as simultaneous with the first one since rates were computed.
    settle_by: Seconds,
}

impl Traffic {
    pub fn new(paths: MessagePaths, capacities: impl Iterator<Item = f64>) -> Traffic {
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

    pub fn message(&self, id: MessageId) -> &Transmission {
        &self.messages[id]
    }

    pub fn message_mut(&mut self, id: MessageId) -> &mut Transmission {
        &mut self.messages[id]
    }

    /// The message whose other side has been posted, or a new one.
    fn matched(&mut self, source: Rank, destination: Rank, number: u32) -> MessageId {
        if let Some(id) = self.unmatched.remove(&(source, destination, number)) {
            return id;
        }
        let message = Transmission {
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

    /// Records that the sender has posted message `number`.
    pub fn post_send(
        &mut self,
        (source, destination, number): (Rank, Rank, u32),
        (port, bytes, step): (Port, usize, u32),
        side: StartedOperation,
    ) -> MessageId {
        let id = self.matched(source, destination, number);
        let message = &mut self.messages[id];
        (message.port, message.bytes, message.step, message.sender) = (port, bytes, step, Some(side));
        id
    }

    /// Records that the receiver has posted message `number`.
    pub fn post_receive(
        &mut self,
        (source, destination, number): (Rank, Rank, u32),
        side: StartedOperation,
    ) -> MessageId {
        let id = self.matched(source, destination, number);
        self.messages[id].receiver = Some(side);
        id
    }

    /// Removes a message that both sides have completed.
    pub fn deliver(&mut self, id: MessageId) {
        self.free.push(id);
    }

    fn path(&self, id: MessageId) -> &MessagePath {
        let message = &self.messages[id];
        &self.paths[&(message.source, message.destination)]
    }

    /// The stage at which a message is: its links, and their latency.
    pub fn stage(&self, id: MessageId) -> &PathStage {
        &self.path(id)[self.messages[id].stage]
    }

    pub fn is_at_first_stage(&self, id: MessageId) -> bool {
        self.messages[id].stage == 0
    }

    /// Whether the message's stage ends at its destination.
    pub fn is_at_last_stage(&self, id: MessageId) -> bool {
        self.messages[id].stage + 1 == self.path(id).len()
    }

    /// Lets a message leave its sender, after those before it on its connection. Returns whether it leaves now.
    pub fn depart(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) -> bool {
        let Transmission { source, destination, port, .. } = self.messages[id];
        let connection = self.connections.entry((source, destination, port)).or_default();
        if connection.busy {
            connection.queue.push_back(id);
            return false;
        }
        connection.busy = true;
        self.flow(id, now, agenda);
        true
    }

    /// Lets the message behind `id` on its connection leave, after `id` has left its sender; returns it, if there is
    /// one.
    pub fn next_behind(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) -> Option<MessageId> {
        let Transmission { source, destination, port, .. } = self.messages[id];
        let connection = self.connections.get_mut(&(source, destination, port))?;
        let next = connection.queue.pop_front();
        connection.busy = next.is_some();
        self.flow(next?, now, agenda);
        next
    }

    /// Forwards a message that is stored at the end of a stage.
    pub fn forward(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) {
        self.messages[id].stage += 1;
        self.flow(id, now, agenda);
    }

    fn flow(&mut self, id: MessageId, now: Seconds, agenda: &mut Agenda) {
        let shares = self.stage(id).shares.clone();
        if self.messages[id].bytes == 0 || shares.is_empty() {
            return agenda.enter(now, Moment::Left(id));
        }
        self.note_change(now);
        let flow = self.network.begin(shares);
        let begun =
            FlowProgress { message: id, bytes_left: self.messages[id].bytes as f64, since: now, changes: 0 };
        if flow == self.flows.len() {
            self.flows.push(begun);
        } else {
            // Events of the flow that had this number before must not count for the new flow.
            self.flows[flow] = FlowProgress { changes: self.flows[flow].changes + 1, ..begun };
        }
    }

    /// Whether the rate of a flow has not changed since an event with this number of changes was entered.
    pub fn is_current(&self, flow: FlowId, changes: u32) -> bool {
        self.flows[flow].changes == changes
    }

    /// Ends a flow; returns the message whose bytes have left.
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

    /// Whether rates must be computed before the next event, at time `next`, is handled.
    pub fn must_settle(&self, next: Option<Seconds>) -> bool {
        self.network.is_unsettled() && next.is_none_or(|next| next > self.settle_by)
    }

    /// Computes the rates of all flows, and enters an event for the end of each flow whose rate has changed.
    pub fn settle(&mut self, now: Seconds, agenda: &mut Agenda) {
        let Traffic { network, flows, .. } = self;
        network.settle(|network, id, rate_before| {
            let flow = &mut flows[id];
            flow.bytes_left = (flow.bytes_left - rate_before * (now - flow.since)).max(0.0);
            (flow.since, flow.changes) = (now, flow.changes + 1);
            agenda.enter(now + flow.bytes_left / network.rate(id), Moment::Drain(id, flow.changes));
        });
    }
}
