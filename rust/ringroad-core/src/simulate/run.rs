//! The event loop of a simulation: the executors of all ranks, their processors and the network.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::agenda::{Agenda, MessageId, Moment};
use super::record::SimulationRecord;
use super::scenario::Conditions;
use super::traffic::{StartedOperation, Traffic};
use super::{Outcome, Pace, Simulator};
use crate::cost::{CostModel, Inlets};
use crate::executor::Executor;
use crate::plan::{Command, Plan, PlannedCommand};
use crate::synthesis::{Budget, Spent};
use crate::trace::TraceKind;
use crate::units::{Rank, Seconds};

/// After so many events a simulation asks whether it may go on.
const BUDGET_CHECK_INTERVAL: u64 = 64;

/// A reduction that waits for the processor or is in progress.
struct PendingReduction {
    kind: TraceKind,
    operation: u32,
    step: u32,
    bytes: usize,
    start: Seconds,
    seconds: Seconds,
}

/// A rank: its executor, and its processor, which starts messages, accepts messages and reduces.
struct SimulatedRank {
    executor: Executor,
    /// Operations that may start but belong to steps that have not started, by step.
    held: BTreeMap<u32, Vec<(u32, PlannedCommand)>>,
    reductions: VecDeque<PendingReduction>,
    slowness: f64,
    /// Where transfers and reductions overlap: how long the processor could have reduced during the step's transfer.
    credit: Seconds,
    /// When the processor may start its next message.
    next_post: Seconds,
    /// When the processor may accept its next message.
    next_take: Seconds,
    /// For each port, when it may accept the next message of another rank than its last one, and that last rank.
    ports: Vec<(Seconds, Rank)>,
}

pub(super) struct SimulationRun<'a> {
    simulator: &'a Simulator,
    machines: Vec<SimulatedRank>,
    inlets: Inlets,
    traffic: Traffic,
    agenda: Agenda,
    record: SimulationRecord,
    late: Vec<Seconds>,
    now: Seconds,
    /// When each core is free, where ranks share cores ([`crate::cost::CostModel::cores`]); else empty.
    cores: Vec<Seconds>,
    /// The last step whose operations may start.
    gate: u32,
    /// In synchronous steps, the messages that will leave together.
    departures: Vec<MessageId>,
    /// In synchronous steps, when the last messages left together.
    departed: Seconds,
    /// In synchronous steps, the messages that will arrive together.
    arrivals: Vec<MessageId>,
}

impl<'a> SimulationRun<'a> {
    pub fn new(
        simulator: &'a Simulator,
        plans: Vec<Arc<Plan>>,
        conditions: &Conditions,
        inlets: Inlets,
        traffic: Traffic,
        record: SimulationRecord,
    ) -> SimulationRun<'a> {
        let machine = |(rank, (plan, slowness)): (Rank, (Arc<Plan>, &f64))| SimulatedRank {
            executor: Executor::new(plan),
            held: BTreeMap::new(),
            reductions: VecDeque::new(),
            slowness: *slowness,
            credit: 0.0,
            next_post: 0.0,
            next_take: 0.0,
            ports: vec![(0.0, rank); inlets.ports(rank)],
        };
        SimulationRun {
            simulator,
            machines: plans.into_iter().zip(&conditions.slowness).enumerate().map(machine).collect(),
            inlets,
            traffic,
            agenda: Agenda::default(),
            record,
            late: conditions.late.clone(),
            now: 0.0,
            cores: vec![0.0; simulator.model.cores.unwrap_or(0)],
            gate: if simulator.pace == Pace::Free { u32::MAX } else { 0 },
            departures: Vec::new(),
            departed: 0.0,
            arrivals: Vec::new(),
        }
    }

    /// Goes on to the end, and asks again and again whether it may.
    pub fn finish(mut self, budget: Budget<'_>) -> Result<Outcome, Spent> {
        for (rank, late) in self.late.iter().enumerate() {
            self.agenda.enter(*late, Moment::Enter(rank));
        }
        for event in 0u64.. {
            if event.is_multiple_of(BUDGET_CHECK_INTERVAL) {
                budget.check()?;
            }
            let next = self.agenda.next_time();
            if self.traffic.must_settle(next) {
                self.traffic.settle(self.now, &mut self.agenda);
            } else if let Some((time, event)) = self.agenda.pop() {
                self.handle(time, event);
            } else if !self.advance() {
                break;
            }
        }
        let stuck = self.machines.iter().position(|machine| !machine.executor.is_done());
        assert!(stuck.is_none(), "rank {stuck:?} cannot go on, though the schedule is verified");
        let (trace, step_loads) = self.record.details();
        Ok(Outcome {
            seconds: self.record.finished.iter().copied().fold(0.0, f64::max),
            finished: self.record.finished,
            step_ends: self.record.step_ends,
            messages: self.record.messages,
            loads: self.record.loads,
            step_loads,
            trace,
        })
    }

    fn handle(&mut self, time: Seconds, event: Moment) {
        if let Moment::Drain(flow, changes) = event {
            // An event from before the flow's rate changed is ignored; it does not even advance the time.
            if !self.traffic.is_current(flow, changes) {
                return;
            }
        }
        self.now = self.now.max(time);
        match event {
            Moment::Enter(rank) => self.collect(rank),
            Moment::Depart(message) => self.depart(message),
            Moment::Drain(flow, _) => {
                let message = self.traffic.drain(flow, self.now);
                self.left(message);
            }
            Moment::Left(message) => self.left(message),
            Moment::Arrive(message) => self.arrive(message),
            Moment::Take(message) => self.received(message),
            Moment::Reduced(rank) => self.reduced(rank),
        }
    }

    /// Starts all operations that `rank` may start.
    fn collect(&mut self, rank: Rank) {
        while let Some(number) = self.machines[rank].executor.start() {
            let operation = *self.machines[rank].executor.operation(number);
            if operation.step > self.gate {
                self.machines[rank].held.entry(operation.step).or_default().push((number, operation));
            } else {
                self.start(rank, number, operation);
            }
        }
        if self.machines[rank].executor.is_done() {
            self.record.finished[rank] = self.record.finished[rank].max(self.now);
        }
    }

    /// Starts an operation. An operation that takes no time completes at once, and then the caller must collect the
    /// operations that may start.
    fn start(&mut self, rank: Rank, number: u32, operation: PlannedCommand) {
        let side = StartedOperation { operation: number, start: self.now };
        match operation.command {
            Command::Send { peer, port, message, source, .. } => {
                let about = (port, source.bytes, operation.step);
                let id = self.traffic.post_send((rank, peer, message), about, side);
                self.record.messages += 1;
                self.post(rank, id);
            }
            Command::Receive { peer, message, .. } | Command::Expect { peer, message, .. } => {
                let id = self.traffic.post_receive((peer, rank, message), side);
                let message = self.traffic.message_mut(id);
                if message.arrived {
                    self.accept_message(id);
                } else if std::mem::take(&mut message.waits) {
                    self.leave(id);
                }
            }
            Command::Reduce { .. } | Command::Encode { .. } | Command::Decode { .. } => {
                let machine = &mut self.machines[rank];
                let CostModel { reduce_cost, codec_cost, .. } = self.simulator.model;
                let (kind, bytes, cost) = match operation.command {
                    Command::Reduce { target, sources, .. } => {
                        let sources = machine.executor.plan().sources(sources).len();
                        (TraceKind::Reduce, target.bytes * (sources - 1), reduce_cost)
                    }
                    Command::Encode { .. } => (TraceKind::Encode, operation.command.bytes(), codec_cost),
                    command => (TraceKind::Decode, command.bytes(), codec_cost),
                };
                let all = bytes as f64 * cost * machine.slowness;
                let seconds = (all - machine.credit).max(0.0);
                machine.credit = (machine.credit - all).max(0.0);
                if seconds > 0.0 {
                    self.reduce(
                        rank,
                        PendingReduction {
                            kind,
                            operation: number,
                            step: operation.step,
                            bytes,
                            start: self.now,
                            seconds,
                        },
                    );
                } else {
                    self.complete(rank, number, operation.step);
                }
            }
            Command::Copy { .. }
            | Command::Premultiply { .. }
            | Command::Average { .. }
            | Command::Release { .. } => self.complete(rank, number, operation.step),
        }
    }

    fn complete(&mut self, rank: Rank, number: u32, step: u32) {
        self.machines[rank].executor.complete(number);
        self.record.complete(step, self.now);
    }

    /// Starts the start-up of a send.
    fn post(&mut self, rank: Rank, message: MessageId) {
        if self.simulator.pace == Pace::Synchronous {
            return self.departures.push(message);
        }
        let (model, machine) = (&self.simulator.model, &mut self.machines[rank]);
        let at = machine.next_post.max(self.now);
        let start_up = model.step_latency * machine.slowness;
        let seconds = model.message_latency * machine.slowness;
        let departure = if self.cores.is_empty() {
            machine.next_post = at + seconds;
            at + start_up
        } else {
            // The sender's half of the message. Its core is busy meanwhile.
            let end = occupy(&mut self.cores, at, seconds / 2.0);
            self.machines[rank].next_post = end;
            end + start_up
        };
        self.agenda.enter(departure, Moment::Depart(message));
    }

    /// Handles the end of a message's start-up.
    fn depart(&mut self, id: MessageId) {
        let free = self.simulator.pace == Pace::Free;
        let message = self.traffic.message_mut(id);
        if free && message.receiver.is_none() && message.bytes > self.simulator.eager {
            message.waits = true;
        } else {
            self.leave(id);
        }
    }

    fn leave(&mut self, id: MessageId) {
        if self.traffic.depart(id, self.now, &mut self.agenda) {
            self.record.load(self.traffic.message(id), &self.traffic.stage(id).shares);
        }
    }

    /// Handles that the last byte of a message has left for the end of its stage.
    fn left(&mut self, id: MessageId) {
        let latency = self.traffic.stage(id).latency;
        if self.simulator.pace == Pace::Synchronous && self.traffic.is_at_last_stage(id) {
            self.arrivals.push(id);
        } else {
            self.agenda.enter(self.now + latency, Moment::Arrive(id));
        }
        if !self.traffic.is_at_first_stage(id) {
            return;
        }
        if let Some(next) = self.traffic.next_behind(id, self.now, &mut self.agenda) {
            self.record.load(self.traffic.message(next), &self.traffic.stage(next).shares);
        }
        let message = self.traffic.message(id);
        let (source, step) = (message.source, message.step);
        let side = message.sender.expect("a message that leaves has been posted");
        self.record.message(TraceKind::Send, message, side, self.now);
        self.complete(source, side.operation, step);
        self.collect(source);
    }

    /// Handles that all bytes of a message are at the end of its stage.
    fn arrive(&mut self, id: MessageId) {
        if !self.traffic.is_at_last_stage(id) {
            self.traffic.forward(id, self.now, &mut self.agenda);
            return self.record.load(self.traffic.message(id), &self.traffic.stage(id).shares);
        }
        let message = self.traffic.message_mut(id);
        message.arrived = true;
        let destination = message.destination;
        if message.receiver.is_some() {
            self.accept_message(id);
            self.collect(destination);
        }
    }

    /// Lets the receiver's processor accept a message that has arrived and whose receive is posted, at once or when its
    /// turn comes: at free pace a processor accepts one message after the other. In synchronous steps this time is part
    /// of the start-up.
    fn accept_message(&mut self, id: MessageId) {
        let (source, rank) = (self.traffic.message(id).source, self.traffic.message(id).destination);
        let (model, machine) = (&self.simulator.model, &mut self.machines[rank]);
        let mut at = machine.next_take.max(self.now);
        if self.simulator.pace == Pace::Free {
            // The message arrives by the port whose last message had the same source, or by the port that is free
            // first.
            let order = |a: &&mut (Seconds, Rank), b: &&mut (Seconds, Rank)| {
                (a.1 != source).cmp(&(b.1 != source)).then(a.0.total_cmp(&b.0))
            };
            let port = machine.ports.iter_mut().min_by(order);
            if let Some(port) = port.filter(|_| self.inlets.pass(source, rank)) {
                at = if port.1 == source { at } else { at.max(port.0) };
                *port = (at + model.incast_latency * machine.slowness, source);
            }
            let seconds = model.message_latency * machine.slowness;
            if self.cores.is_empty() {
                machine.next_take = at + seconds;
            } else {
                // The receiver's half of the message.
                at = occupy(&mut self.cores, at, seconds / 2.0);
                machine.next_take = at;
            }
        }
        if at > self.now {
            self.agenda.enter(at, Moment::Take(id));
        } else {
            self.accept(id);
        }
    }

    fn received(&mut self, id: MessageId) {
        let rank = self.traffic.message(id).destination;
        self.accept(id);
        self.collect(rank);
    }

    fn accept(&mut self, id: MessageId) {
        let message = self.traffic.message(id);
        let (rank, step) = (message.destination, message.step);
        let side = message.receiver.expect("a message is accepted only when its receive is posted");
        self.record.message(TraceKind::Receive, message, side, self.now);
        self.traffic.deliver(id);
        self.complete(rank, side.operation, step);
    }

    fn reduce(&mut self, rank: Rank, reduction: PendingReduction) {
        let idle = self.machines[rank].reductions.is_empty();
        let seconds = reduction.seconds;
        self.machines[rank].reductions.push_back(reduction);
        if idle {
            let end = self.reduction_end(seconds);
            self.agenda.enter(end, Moment::Reduced(rank));
        }
    }

    /// When a reduction ends that could begin now.
    fn reduction_end(&mut self, seconds: Seconds) -> Seconds {
        if self.cores.is_empty() {
            self.now + seconds
        } else {
            occupy(&mut self.cores, self.now, seconds)
        }
    }

    /// Handles the end of the first reduction in the queue, and starts the next one.
    fn reduced(&mut self, rank: Rank) {
        let reductions = &mut self.machines[rank].reductions;
        let done = reductions.pop_front().expect("the reduction that has ended is in the queue");
        if let Some(next) = reductions.front_mut() {
            next.start = self.now;
            let seconds = next.seconds;
            let end = self.reduction_end(seconds);
            self.agenda.enter(end, Moment::Reduced(rank));
        }
        self.record.computation(done.kind, rank, done.bytes, done.step, [done.start, self.now]);
        self.complete(rank, done.operation, done.step);
        self.collect(rank);
    }

    /// Called when no event is left. In synchronous steps this starts the next phase: all messages of a step leave
    /// together, or arrive together, or the next step starts for all ranks. Returns whether a phase has started.
    fn advance(&mut self) -> bool {
        if self.simulator.pace == Pace::Free {
            return false;
        }
        if !self.departures.is_empty() {
            let at = self.now + self.startup();
            self.departed = at;
            let departures = std::mem::take(&mut self.departures).into_iter();
            departures.for_each(|message| self.agenda.enter(at, Moment::Depart(message)));
            return true;
        }
        if !self.arrivals.is_empty() {
            let arrivals = std::mem::take(&mut self.arrivals);
            let latency = arrivals.iter().map(|id| self.traffic.stage(*id).latency).fold(0.0, f64::max);
            let at = self.now + latency;
            if self.simulator.model.overlapped {
                let transfer = self.now - self.departed;
                self.machines.iter_mut().for_each(|machine| machine.credit = transfer);
            }
            arrivals.into_iter().for_each(|message| self.agenda.enter(at, Moment::Arrive(message)));
            return true;
        }
        self.open_gate()
    }

    /// The start-up time of a step: until all ranks have posted their messages, plus the incast of the busiest port.
    fn startup(&self) -> Seconds {
        let model = &self.simulator.model;
        let mut counts = vec![[0usize; 3]; self.machines.len()];
        let mut pairs = Vec::new();
        for id in &self.departures {
            let message = self.traffic.message(*id);
            counts[message.source][0] += 1;
            counts[message.destination][1] += 1;
            pairs.push((message.source, message.destination));
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs.retain(|(source, destination)| self.inlets.pass(*source, *destination));
        pairs.into_iter().for_each(|(_, destination)| counts[destination][2] += 1);
        let (mut posting, mut incast) = (0.0f64, 0.0f64);
        let all = self.departures.len() as f64;
        for (rank, ([sent, received, senders], machine)) in counts.into_iter().zip(&self.machines).enumerate()
        {
            let busiest = sent.max(received);
            let further =
                model.shared_out(all, busiest as f64 / 2.0).unwrap_or(busiest.saturating_sub(1) as f64);
            posting = posting.max((model.step_latency + further * model.message_latency) * machine.slowness);
            let waiting = self.inlets.further(rank, senders) as f64 * model.incast_latency;
            incast = incast.max(waiting * machine.slowness);
        }
        posting + incast
    }

    /// Starts the next step for all ranks; returns whether there is one.
    fn open_gate(&mut self) -> bool {
        let first = |machine: &SimulatedRank| machine.held.keys().next().copied();
        let Some(step) = self.machines.iter().filter_map(first).min() else { return false };
        self.gate = step;
        for rank in 0..self.machines.len() {
            if let Some(operations) = self.machines[rank].held.remove(&step) {
                operations.into_iter().for_each(|(number, operation)| self.start(rank, number, operation));
                self.collect(rank);
            }
        }
        true
    }
}

/// Gives the core that is free first so much work, which may begin at `from`. Returns when the work ends.
fn occupy(cores: &mut [Seconds], from: Seconds, seconds: Seconds) -> Seconds {
    let core = cores.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("a model has one core or more");
    *core = core.max(from) + seconds;
    *core
}
