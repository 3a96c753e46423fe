//! A [`Plan`] is what one rank has to do for one call: operations on byte ranges with their dependencies.
//!
//! Lowering turns a schedule's chunks into byte ranges for any element count, cuts long messages into segments so that
//! reduction overlaps transfer, and derives from the ranges which operation must wait for which. There is no barrier
//! between steps: whatever does not touch the same bytes may run at once.
//!
//! Both sides of a message derive its size and its number from the schedule and the layout alone, never from where
//! their bytes happen to lie. So the buffers of each rank may be in place or not, as it likes.

mod hazards;
mod layout;
mod lower;

pub use layout::{Counts, Layout};
pub use lower::{LowerError, LowerOptions, Near, MAX_MESSAGES};

use crate::units::{Port, Rank};

/// The memory that an operation works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// What the caller passed in.
    Input,
    /// Where the caller wants the result. In place, this buffer stands for both (see [`LowerOptions::in_place`]).
    Output,
    /// Memory of the communicator, `Plan::scratch` bytes.
    Scratch,
    /// A message where its sender left it: memory of a peer that this rank can read but not write, from
    /// [`Command::Expect`] to [`Command::Release`] of this number.
    Arrived(u32),
}

/// A byte range of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The buffer.
    pub buffer: Buffer,
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub bytes: usize,
}

impl Span {
    /// A range of `bytes` bytes from `offset` on.
    pub fn new(buffer: Buffer, offset: usize, bytes: usize) -> Span {
        Span { buffer, offset, bytes }
    }

    /// The part `offset..offset + bytes` of this range.
    pub fn part(self, offset: usize, bytes: usize) -> Span {
        debug_assert!(offset + bytes <= self.bytes);
        Span { offset: self.offset + offset, bytes, ..self }
    }

    /// Whether they have bytes in common.
    pub fn overlaps(self, other: Span) -> bool {
        self.buffer == other.buffer && self.offset.max(other.offset) < self.end().min(other.end())
    }

    fn end(self) -> usize {
        self.offset + self.bytes
    }
}

/// The operands of a reduction: which of a plan's list (see [`Plan::sources`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    start: u32,
    count: u32,
}

/// What to do. All operands of an operation have the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Send `source` to `peer`.
    Send {
        /// The receiver.
        peer: Rank,
        /// The outlet to use.
        port: Port,
        /// Counts the messages from this rank to `peer` within the call.
        message: u32,
        /// What to send.
        source: Span,
        /// Nothing writes the source any more within the call: who keeps the memory may let the send end before its
        /// receiver has read it.
        stays: bool,
    },
    /// Receive from `peer` into `target`.
    Receive {
        /// The sender.
        peer: Rank,
        /// The sender's outlet.
        port: Port,
        /// Counts the messages from `peer` to this rank within the call.
        message: u32,
        /// Where to.
        target: Span,
    },
    /// Wait for a message of `bytes` bytes from `peer`, whose memory this rank can read; from then on
    /// [`Buffer::Arrived`] of this `arrival` stands for it.
    Expect {
        /// The sender.
        peer: Rank,
        /// The sender's outlet.
        port: Port,
        /// Counts the messages from `peer` to this rank within the call.
        message: u32,
        /// Counts the messages that are read where they are.
        arrival: u32,
        /// The message's length.
        bytes: usize,
    },
    /// Tell the sender that its memory has been read.
    Release {
        /// Which message.
        arrival: u32,
    },
    /// `target` = the sources, combined from left to right. The target is one of them or overlaps none.
    Reduce {
        /// Where the result goes.
        target: Span,
        /// What is combined.
        sources: Sources,
        /// Where it also goes, while it is in the nearest cache: what others will read. Overlaps none of the rest.
        also: Option<Span>,
    },
    /// `target = source`.
    Copy {
        /// Where to.
        target: Span,
        /// Where from.
        source: Span,
    },
    /// `target = factor * source`: the multiplication before a premultiplied sum.
    Premultiply {
        /// Where the product goes; may be equal to `source`.
        target: Span,
        /// This rank's data.
        source: Span,
    },
    /// `target = target / ranks`: the division that turns a sum into an average.
    Average {
        /// The finished sum.
        target: Span,
    },
}

impl Command {
    /// How many bytes it sends, receives or writes.
    pub fn bytes(&self) -> usize {
        match *self {
            Command::Send { source: span, .. }
            | Command::Receive { target: span, .. }
            | Command::Reduce { target: span, .. }
            | Command::Copy { target: span, .. }
            | Command::Premultiply { target: span, .. }
            | Command::Average { target: span } => span.bytes,
            Command::Expect { bytes, .. } => bytes,
            Command::Release { .. } => 0,
        }
    }

    /// Whom it talks to.
    pub fn peer(&self) -> Option<Rank> {
        match *self {
            Command::Send { peer, .. } | Command::Receive { peer, .. } | Command::Expect { peer, .. } => {
                Some(peer)
            }
            _ => None,
        }
    }
}

/// A command and the schedule's step it belongs to (for errors and traces).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub command: Command,
    /// The step of the schedule, from 0.
    pub step: u32,
}

/// One rank's part of one collective call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    operations: Vec<Operation>,
    /// For every operation, how many others it waits for.
    pending: Vec<u32>,
    /// The operations that wait for operation `i` are `dependents[starts[i]..starts[i + 1]]`.
    starts: Vec<u32>,
    dependents: Vec<u32>,
    /// The operands of all reductions.
    sources: Vec<Span>,
    scratch: usize,
    expects: Vec<u32>,
    peers: Vec<Rank>,
}

impl Plan {
    fn new(operations: Vec<Operation>, waits: Vec<Vec<u32>>, sources: Vec<Span>, scratch: usize) -> Plan {
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); operations.len()];
        for (operation, before) in waits.iter().enumerate() {
            before.iter().for_each(|b| lists[*b as usize].push(operation as u32));
        }
        let mut starts = vec![0];
        let mut dependents = Vec::new();
        for list in lists {
            dependents.extend(list);
            starts.push(dependents.len() as u32);
        }
        let pending: Vec<u32> = waits.iter().map(|w| w.len() as u32).collect();
        let mut peers: Vec<Rank> = operations.iter().filter_map(|o| o.command.peer()).collect();
        peers.sort_unstable();
        peers.dedup();
        let is_expect = |number: &u32| matches!(operations[*number as usize].command, Command::Expect { .. });
        let expects: Vec<u32> = (0..operations.len() as u32).filter(is_expect).collect();
        assert!(
            expects.iter().all(|number| pending[*number as usize] == 0),
            "nothing touches what has not come"
        );
        Plan { operations, pending, starts, dependents, sources, scratch, expects, peers }
    }

    /// A plan of a single send of `bytes` input bytes to `peer` by `port`.
    pub fn send(peer: Rank, port: Port, bytes: usize) -> Plan {
        let source = Span::new(Buffer::Input, 0, bytes);
        let command = Command::Send { peer, port, message: 0, source, stays: false };
        Plan::new(vec![Operation { command, step: 0 }], vec![vec![]], vec![], 0)
    }

    /// A plan of a single receive of `bytes` output bytes that `peer` sends by its `port`.
    pub fn receive(peer: Rank, port: Port, bytes: usize) -> Plan {
        let target = Span::new(Buffer::Output, 0, bytes);
        let command = Command::Receive { peer, port, message: 0, target };
        Plan::new(vec![Operation { command, step: 0 }], vec![vec![]], vec![], 0)
    }

    /// The operations; one may only wait for those before it.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// For every operation, how many others must complete before it may start.
    pub fn pending(&self) -> &[u32] {
        &self.pending
    }

    /// The operations that wait for `operation`.
    pub fn dependents(&self, operation: u32) -> &[u32] {
        let index = operation as usize;
        &self.dependents[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// Whom the messages go to that carry any of `span`, which `operation` writes, as soon as it is written.
    pub fn readers(&self, operation: u32, span: Span) -> impl Iterator<Item = Rank> + Clone + '_ {
        self.dependents(operation).iter().filter_map(move |dependent| {
            match self.operations[*dependent as usize].command {
                Command::Send { peer, source, .. } if source.overlaps(span) => Some(peer),
                _ => None,
            }
        })
    }

    /// Bytes of scratch memory that the plan needs.
    pub fn scratch(&self) -> usize {
        self.scratch
    }

    /// How many bytes the plan itself takes, about.
    pub fn footprint(&self) -> usize {
        let numbers = self.pending.len() + self.starts.len() + self.dependents.len() + self.expects.len();
        let lists = size_of_val(&*self.operations) + size_of_val(&*self.sources) + size_of_val(&*self.peers);
        size_of::<Plan>() + lists + numbers * size_of::<u32>()
    }

    /// The operands of a reduction of this plan, from left to right.
    pub fn sources(&self, sources: Sources) -> &[Span] {
        &self.sources[sources.start as usize..(sources.start + sources.count) as usize]
    }

    /// How many messages are read where their senders left them.
    pub fn arrivals(&self) -> usize {
        self.expects.len()
    }

    /// The operations that wait for these messages, and for nothing else.
    pub fn expects(&self) -> &[u32] {
        &self.expects
    }

    /// The ranks that this one talks to, ascending.
    pub fn peers(&self) -> &[Rank] {
        &self.peers
    }
}
