//! In which step of a schedule every message is sent and every local operation is performed.
//!
//! Two instructions are in order if they follow each other in a thread block or if one waits for the other. A schedule
//! has steps instead: in each, ranks first send, then receive, then combine values of their own. So an order between
//! two instructions is a distance of 0 or 1 between their steps, and a message has the same step at both ends. The
//! steps are the smallest numbers that keep all distances. Where distances form a cycle that is longer than 0, there
//! are none.

use std::collections::HashMap;

use super::document::{Instruction, Program, StepKind};
use crate::interchange::InterchangeError;
use crate::units::Rank;

/// The steps of a program.
pub(super) struct Levels {
    /// All messages.
    pub messages: Vec<MatchedMessage>,
    /// The instructions that are local operations, with their steps, such that none waits for a later one.
    pub locals: Vec<(usize, usize)>,
}

/// A message.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatchedMessage {
    /// The instruction that sends it.
    pub sender: usize,
    /// The instruction that receives it.
    pub receiver: usize,
    /// Its step.
    pub level: usize,
}

/// What an instruction does in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepRole {
    Send,
    Receive,
    /// Receives, and then combines values of its own.
    Combine,
    Local,
}

const NONE: u32 = u32::MAX;

/// The nodes of an instruction: those of its messages or of its local operation. A `nop` has one node for each role of
/// what follows.
#[derive(Clone, Copy)]
struct Nodes {
    receive: u32,
    send: u32,
    local: u32,
    nop: u32,
}

struct Graph<'a> {
    program: &'a Program,
    /// Whether the file states the steps. Then messages of one connection may have the same step.
    stated: bool,
    nodes: Vec<Nodes>,
    /// The line of each node, and the lowest step that it may have.
    lines: Vec<usize>,
    lowest: Vec<usize>,
    edges: Vec<(u32, u32, u32)>,
    messages: Vec<MatchedMessage>,
}

/// Finds the steps of a program.
pub(super) fn levels(program: &Program) -> Result<Levels, InterchangeError> {
    let communicates = |i: &&Instruction| i.kind != StepKind::NOTHING;
    let stated = program.instructions.iter().filter(communicates).all(|i| i.round.is_some());
    let empty = Nodes { receive: NONE, send: NONE, local: NONE, nop: NONE };
    let mut graph = Graph {
        program,
        stated,
        nodes: vec![empty; program.instructions.len()],
        lines: Vec::new(),
        lowest: Vec::new(),
        edges: Vec::new(),
        messages: pairs(program)?,
    };
    graph.make_nodes();
    graph.make_edges();
    graph.solve()
}

/// Finds which instruction receives which message.
fn pairs(program: &Program) -> Result<Vec<MatchedMessage>, InterchangeError> {
    let mut connections: HashMap<(Rank, Rank, usize, bool), usize> = HashMap::new();
    for (index, block) in program.blocks.iter().enumerate() {
        let ends = [(block.send, true), (block.receive, false)];
        for (peer, sends) in ends.into_iter().filter_map(|(peer, sends)| Some((peer?, sends))) {
            let used = |i: &Instruction| if sends { i.kind.sends } else { i.kind.receives };
            if !program.instructions[block.range.clone()].iter().any(used) {
                continue;
            }
            if let Some(other) = connections.insert((block.rank, peer, block.channel, sends), index) {
                let (verb, other) =
                    (if sends { "sends to" } else { "receives from" }, program.blocks[other].line);
                let what = format!(
                    "tb: the one in line {other} also {verb} gpu {peer} over channel {}",
                    block.channel
                );
                return Err(InterchangeError::at(block.line, what));
            }
        }
    }
    let mut messages = Vec::new();
    let using = |block: usize, used: fn(&Instruction) -> bool| {
        let range = program.blocks[block].range.clone();
        range.filter(move |index| used(&program.instructions[*index]))
    };
    // In the order of the file, so that the result does not depend on the order of a hash table.
    for (index, block) in program.blocks.iter().enumerate() {
        if let Some(peer) = block.send {
            let mut receivers = connections
                .get(&(peer, block.rank, block.channel, false))
                .into_iter()
                .flat_map(|other| using(*other, |i| i.kind.receives));
            for sender in using(index, |i| i.kind.sends) {
                let line = program.instructions[sender].line;
                let receiver = receivers.next().ok_or_else(|| {
                    let what =
                        format!("gpu {peer} does not receive this message over channel {}", block.channel);
                    InterchangeError::at(line, what)
                })?;
                let (sent, received) = (&program.instructions[sender], &program.instructions[receiver]);
                if sent.count != received.count {
                    let what = format!(
                        "it sends cnt={}, but gpu {peer} receives cnt={} in line {}",
                        sent.count, received.count, received.line
                    );
                    return Err(InterchangeError::at(line, what));
                }
                messages.push(MatchedMessage { sender, receiver, level: 0 });
            }
        }
        if let Some(peer) = block.receive {
            let sent = connections
                .get(&(peer, block.rank, block.channel, true))
                .map_or(0, |other| using(*other, |i| i.kind.sends).count());
            if let Some(unsent) = using(index, |i| i.kind.receives).nth(sent) {
                let what = format!("gpu {peer} does not send this message over channel {}", block.channel);
                return Err(InterchangeError::at(program.instructions[unsent].line, what));
            }
        }
    }
    Ok(messages)
}

impl Graph<'_> {
    fn node(&mut self, line: usize, lowest: usize) -> u32 {
        self.lines.push(line);
        self.lowest.push(lowest);
        self.lines.len() as u32 - 1
    }

    fn make_nodes(&mut self) {
        let program = self.program;
        let lowest = |i: &Instruction| i.round.map_or(0, |(round, _)| round);
        for number in 0..self.messages.len() {
            let MatchedMessage { sender, receiver, .. } = self.messages[number];
            let (sent, received) = (&program.instructions[sender], &program.instructions[receiver]);
            // What receives and sends states the step in which it receives.
            let stated = if sent.kind.receives { 0 } else { lowest(sent) };
            let node = self.node(received.line, stated.max(lowest(received)));
            self.nodes[sender].send = node;
            self.nodes[receiver].receive = node;
        }
        for (index, instruction) in program.instructions.iter().enumerate() {
            if instruction.kind.is_local() {
                self.nodes[index].local = self.node(instruction.line, lowest(instruction));
            } else if instruction.kind == StepKind::NOTHING {
                self.nodes[index].nop = self.node(instruction.line, 0);
                self.node(instruction.line, 0);
                self.node(instruction.line, 0);
            }
        }
    }

    /// How many steps what has the second role must come after what has the first.
    fn distance(&self, first: StepRole, second: StepRole) -> u32 {
        let apart = match (first, second) {
            (StepRole::Send, StepRole::Send) => !self.stated,
            (StepRole::Send, _) => false,
            (StepRole::Receive, StepRole::Receive | StepRole::Combine) => !self.stated,
            (_, StepRole::Local) => false,
            _ => true,
        };
        u32::from(apart)
    }

    fn make_edges(&mut self) {
        for (index, instruction) in self.program.instructions.iter().enumerate() {
            let Nodes { receive, send, .. } = self.nodes[index];
            if receive != NONE && send != NONE {
                self.edges.push((receive, send, 1));
            }
            let first = self.program.blocks[instruction.block].range.start;
            let previous = (index > first).then(|| index - 1);
            for before in previous.into_iter().chain(instruction.waits) {
                self.order(before, index);
            }
        }
    }

    /// Puts one instruction after another.
    fn order(&mut self, before: usize, after: usize) {
        let entries = self.entries(after);
        let Nodes { receive, send, local, nop } = self.nodes[before];
        let combines = {
            let Instruction { kind, source, target, .. } = self.program.instructions[before];
            kind.reduces && kind.stores && source != target
        };
        let received = if combines { StepRole::Combine } else { StepRole::Receive };
        for (entry, role) in entries {
            for (exit, first) in [(receive, received), (send, StepRole::Send), (local, StepRole::Local)] {
                if exit != NONE {
                    self.edges.push((exit, entry, self.distance(first, role)));
                }
            }
            if nop != NONE {
                self.edges.push((nop + place(role), entry, 0));
            }
        }
    }

    /// The nodes of an instruction that must come after what it waits for.
    fn entries(&self, index: usize) -> Vec<(u32, StepRole)> {
        let Nodes { receive, send, local, nop } = self.nodes[index];
        if nop != NONE {
            return [StepRole::Send, StepRole::Receive, StepRole::Local]
                .map(|role| (nop + place(role), role))
                .to_vec();
        }
        let (node, role) = if receive != NONE {
            (receive, StepRole::Receive)
        } else if send != NONE {
            (send, StepRole::Send)
        } else {
            (local, StepRole::Local)
        };
        vec![(node, role)]
    }

    /// Finds the steps, component by component.
    fn solve(mut self) -> Result<Levels, InterchangeError> {
        let count = self.lines.len();
        let mut starts = vec![0usize; count + 1];
        self.edges.iter().for_each(|(from, ..)| starts[*from as usize + 1] += 1);
        (0..count).for_each(|node| starts[node + 1] += starts[node]);
        let mut next = starts.clone();
        let mut targets = vec![(0, 0); self.edges.len()];
        for (from, to, distance) in &self.edges {
            targets[next[*from as usize]] = (*to, *distance);
            next[*from as usize] += 1;
        }
        let after = |node: u32| &targets[starts[node as usize]..starts[node as usize + 1]];
        let components = components(count, after);
        let order = components.iter().rev();
        let mut numbers = vec![0u32; count];
        for (number, component) in components.iter().enumerate() {
            component.iter().for_each(|node| numbers[*node as usize] = number as u32);
        }
        self.check_cycles(&components, &numbers, after)?;
        let mut levels = std::mem::take(&mut self.lowest);
        let mut places = vec![0; count];
        for (position, component) in order.enumerate() {
            let level = component.iter().map(|node| levels[*node as usize]).max().unwrap_or(0);
            for node in component {
                (levels[*node as usize], places[*node as usize]) = (level, position);
            }
            for (to, distance) in component.iter().flat_map(|node| after(*node)) {
                let lowest = level + *distance as usize;
                let other = &mut levels[*to as usize];
                *other = lowest.max(*other);
            }
        }
        let message = |message: &MatchedMessage| MatchedMessage {
            level: levels[self.nodes[message.sender].send as usize],
            ..*message
        };
        let messages = self.messages.iter().map(message).collect();
        let all = 0..self.program.instructions.len();
        let mut locals: Vec<usize> = all.filter(|index| self.nodes[*index].local != NONE).collect();
        locals.sort_by_key(|index| places[self.nodes[*index].local as usize]);
        let locals =
            locals.into_iter().map(|index| (index, levels[self.nodes[index].local as usize])).collect();
        Ok(Levels { messages, locals })
    }

    /// Refuses what waits for itself.
    fn check_cycles<'g>(
        &self,
        components: &[Vec<u32>],
        numbers: &[u32],
        after: impl Fn(u32) -> &'g [(u32, u32)],
    ) -> Result<(), InterchangeError> {
        let is_message = |node: &u32| (*node as usize) < self.messages.len();
        let mut local = vec![false; self.lines.len()];
        self.nodes.iter().filter(|n| n.local != NONE).for_each(|n| local[n.local as usize] = true);
        for component in components {
            // Messages in both directions may be in the same step; nothing else may wait for itself.
            let waits = component.len() > 1
                && (!component.iter().any(is_message) || component.iter().any(|n| local[*n as usize]));
            let same = |node: &u32, (to, distance): &(u32, u32)| {
                numbers[*to as usize] == numbers[*node as usize] && *distance > 0
            };
            let apart = |node: &&u32| after(**node).iter().any(|edge| same(node, edge));
            if let Some(node) = component.iter().find(apart).or(component.first().filter(|_| waits)) {
                let mut lines: Vec<usize> = component.iter().map(|node| self.lines[*node as usize]).collect();
                lines.sort_unstable();
                lines.dedup();
                let others: Vec<String> = lines.iter().take(8).map(usize::to_string).collect();
                let dots = if lines.len() > 8 { ", ..." } else { "" };
                let what = format!(
                    "this waits for itself, by way of the lines {}{dots}; in a schedule a message is received in the step in which it is sent",
                    others.join(", ")
                );
                return Err(InterchangeError::at(self.lines[*node as usize], what));
            }
        }
        Ok(())
    }
}

/// Which of the three nodes of a `nop` belongs to a role.
fn place(role: StepRole) -> u32 {
    match role {
        StepRole::Send => 0,
        StepRole::Receive | StepRole::Combine => 1,
        StepRole::Local => 2,
    }
}

/// The strongly connected components of a graph, each after those that it leads to (Tarjan, SIAM J. Comput. 1972).
fn components<'g>(count: usize, after: impl Fn(u32) -> &'g [(u32, u32)]) -> Vec<Vec<u32>> {
    let mut found = Vec::new();
    let mut number = vec![NONE; count];
    let mut lowest = vec![0; count];
    let mut open = vec![false; count];
    let (mut stack, mut path): (Vec<u32>, Vec<(u32, usize)>) = (Vec::new(), Vec::new());
    let mut next = 0;
    for root in 0..count as u32 {
        if number[root as usize] != NONE {
            continue;
        }
        path.push((root, 0));
        while let Some((node, edge)) = path.last_mut() {
            let at = *node as usize;
            if *edge == 0 && number[at] == NONE {
                (number[at], lowest[at], open[at]) = (next, next, true);
                next += 1;
                stack.push(*node);
            }
            if let Some((to, _)) = after(*node).get(*edge) {
                *edge += 1;
                let to = *to;
                if number[to as usize] == NONE {
                    path.push((to, 0));
                } else if open[to as usize] {
                    lowest[at] = lowest[at].min(number[to as usize]);
                }
                continue;
            }
            let node = *node;
            path.pop();
            if let Some((parent, _)) = path.last() {
                let parent = *parent as usize;
                lowest[parent] = lowest[parent].min(lowest[at]);
            }
            if lowest[at] == number[at] {
                let start = stack.iter().rposition(|other| *other == node).expect("the node is on the stack");
                let component = stack.split_off(start);
                component.iter().for_each(|node| open[*node as usize] = false);
                found.push(component);
            }
        }
    }
    found
}
