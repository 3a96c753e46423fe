//! A [`Plan`] is one rank's part of one call: operations on byte ranges, with their dependencies.
//!
//! Lowering turns a schedule's chunks into byte ranges for any number of elements, cuts long messages into segments so
//! that reduction overlaps transfer, and derives from the ranges which operations depend on each other. There is no
//! barrier between steps: operations that do not touch the same bytes may run at the same time.
//!
//! Both sides of a message derive its size and its number from the schedule and the layout alone, never from where
//! their bytes lie. So each rank may use buffers in place or not, whatever the others do.

mod hazards;
mod layout;
mod lower;

pub use layout::{Counts, Layout};
pub use lower::{LocalRanks, LowerError, LowerOptions, MAX_MESSAGES};

use crate::units::{Port, Rank};

/// The memory that an operation works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// The caller's input.
    Input,
    /// The caller's memory for the result. In place, it is also the input (see [`LowerOptions::in_place`]).
    Output,
    /// Memory of the communicator, [`Plan::scratch`] bytes.
    Scratch,
    /// A message in its sender's memory, which this rank can read but not write. It is valid from the completion of the
    /// [`Command::Expect`] with this number to the [`Command::Release`] with this number.
    Arrived(u32),
}

/// A byte range of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The buffer.
    pub buffer: Buffer,
    /// The position of the first byte in the buffer.
    pub offset: usize,
    /// How many bytes.
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

    /// Whether both ranges have bytes in common.
    pub fn overlaps(self, other: Span) -> bool {
        self.buffer == other.buffer && self.offset.max(other.offset) < self.end().min(other.end())
    }

    fn end(self) -> usize {
        self.offset + self.bytes
    }
}

/// The operands of a reduction: a range of the plan's list of operands (see [`Plan::sources`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    start: u32,
    count: u32,
}

/// What an operation does. All operands of an operation have the same length, or are as many elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Send `source` to `peer`.
    Send {
        /// The receiver.
        peer: Rank,
        /// The port by which the message leaves.
        port: Port,
        /// The number of the message among those from this rank to `peer` within the call.
        message: u32,
        /// The bytes to send.
        source: Span,
        /// Whether nothing writes the source any more within the call. Then a driver that keeps the memory alive may
        /// complete the send before the receiver has read it.
        stays: bool,
    },
    /// Receive from `peer` into `target`.
    Receive {
        /// The sender.
        peer: Rank,
        /// The sender's port.
        port: Port,
        /// The number of the message among those from `peer` to this rank within the call.
        message: u32,
        /// Where the bytes are written.
        target: Span,
    },
    /// Wait for a message of `bytes` bytes from `peer`, whose memory this rank can read. After that the message is
    /// [`Buffer::Arrived`] with this `arrival`.
    Expect {
        /// The sender.
        peer: Rank,
        /// The sender's port.
        port: Port,
        /// The number of the message among those from `peer` to this rank within the call.
        message: u32,
        /// The number of the message among those that are read in their senders' memory.
        arrival: u32,
        /// The length of the message.
        bytes: usize,
    },
    /// Tell the sender that this rank has read the message.
    Release {
        /// The number that the message has in [`Command::Expect`].
        arrival: u32,
    },
    /// `target` = the sources, combined from left to right. The target is one of the sources or overlaps none of them.
    Reduce {
        /// Where the result is written.
        target: Span,
        /// The operands.
        sources: Sources,
        /// A second place where the result is written, while it is in the nearest cache: memory that other ranks read.
        /// It overlaps none of the other operands.
        also: Option<Span>,
    },
    /// `target = source`.
    Copy {
        /// Where the bytes are written.
        target: Span,
        /// Where the bytes are read.
        source: Span,
    },
    /// `target = factor * source`: the multiplication before a premultiplied sum.
    Premultiply {
        /// Where the product is written; may be equal to `source`.
        target: Span,
        /// This rank's data.
        source: Span,
    },
    /// `target` = the elements of `source` in the call's wire format.
    Encode {
        /// Where the encoded bytes are written; overlaps no other operand.
        target: Span,
        /// The elements.
        source: Span,
        /// Where the elements are written to which the encoded bytes are decoded; may be equal to `source`.
        kept: Option<Span>,
    },
    /// `target` = the elements of `source`, which are in the call's wire format, added to `left` where that is given.
    Decode {
        /// Where the elements are written.
        target: Span,
        /// The elements that are added to; may be equal to `target`.
        left: Option<Span>,
        /// The encoded bytes; overlaps no other operand.
        source: Span,
    },
    /// `target = target / ranks`: the division that turns a sum into an average.
    Average {
        /// The finished sum.
        target: Span,
    },
}

impl Command {
    /// How many bytes the command sends, receives or writes.
    pub fn bytes(&self) -> usize {
        match *self {
            Command::Send { source: span, .. }
            | Command::Receive { target: span, .. }
            | Command::Reduce { target: span, .. }
            | Command::Copy { target: span, .. }
            | Command::Premultiply { target: span, .. }
            | Command::Encode { source: span, .. }
            | Command::Decode { target: span, .. }
            | Command::Average { target: span } => span.bytes,
            Command::Expect { bytes, .. } => bytes,
            Command::Release { .. } => 0,
        }
    }

    /// The other rank of a message; `None` for commands that send or receive no message.
    pub fn peer(&self) -> Option<Rank> {
        match *self {
            Command::Send { peer, .. } | Command::Receive { peer, .. } | Command::Expect { peer, .. } => {
                Some(peer)
            }
            _ => None,
        }
    }
}

/// A command, and the step of the schedule to which it belongs (for errors and traces).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedCommand {
    /// What the operation does.
    pub command: Command,
    /// The step of the schedule, from 0.
    pub step: u32,
}

/// One rank's part of one collective call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    operations: Vec<PlannedCommand>,
    /// For every operation, how many other operations it waits for.
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
    fn new(
        operations: Vec<PlannedCommand>,
        waits: Vec<Vec<u32>>,
        sources: Vec<Span>,
        scratch: usize,
    ) -> Plan {
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
            "no operation touches a message that has not arrived"
        );
        Plan { operations, pending, starts, dependents, sources, scratch, expects, peers }
    }

    /// A plan without operations.
    pub fn nothing() -> Plan {
        Plan::new(Vec::new(), Vec::new(), Vec::new(), 0)
    }

    /// A plan with a single send of `bytes` input bytes to `peer` by `port`.
    pub fn send(peer: Rank, port: Port, bytes: usize) -> Plan {
        let source = Span::new(Buffer::Input, 0, bytes);
        let command = Command::Send { peer, port, message: 0, source, stays: false };
        Plan::new(vec![PlannedCommand { command, step: 0 }], vec![vec![]], vec![], 0)
    }

    /// A plan with a single receive of `bytes` output bytes that `peer` sends by its `port`.
    pub fn receive(peer: Rank, port: Port, bytes: usize) -> Plan {
        let target = Span::new(Buffer::Output, 0, bytes);
        let command = Command::Receive { peer, port, message: 0, target };
        Plan::new(vec![PlannedCommand { command, step: 0 }], vec![vec![]], vec![], 0)
    }

    /// The operations. Each waits only for operations before it.
    pub fn operations(&self) -> &[PlannedCommand] {
        &self.operations
    }

    /// For every operation, how many other operations must complete before it may start.
    pub fn pending(&self) -> &[u32] {
        &self.pending
    }

    /// The operations that wait for `operation`.
    pub fn dependents(&self, operation: u32) -> &[u32] {
        let index = operation as usize;
        &self.dependents[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// The receivers of the messages that contain bytes of `span`, which `operation` writes, and that wait for
    /// `operation`.
    pub fn readers(&self, operation: u32, span: Span) -> impl Iterator<Item = Rank> + Clone + '_ {
        self.dependents(operation).iter().filter_map(move |dependent| {
            match self.operations[*dependent as usize].command {
                Command::Send { peer, source, .. } if source.overlaps(span) => Some(peer),
                _ => None,
            }
        })
    }

    /// How many bytes of scratch memory the plan needs.
    pub fn scratch(&self) -> usize {
        self.scratch
    }

    /// About how many bytes of memory the plan itself takes.
    pub fn footprint(&self) -> usize {
        let numbers = self.pending.len() + self.starts.len() + self.dependents.len() + self.expects.len();
        let lists = size_of_val(&*self.operations) + size_of_val(&*self.sources) + size_of_val(&*self.peers);
        size_of::<Plan>() + lists + numbers * size_of::<u32>()
    }

    /// The operands of a reduction of this plan, from left to right.
    pub fn sources(&self, sources: Sources) -> &[Span] {
        &self.sources[sources.start as usize..(sources.start + sources.count) as usize]
    }

    /// How many messages are read in their senders' memory: the number of [`Command::Expect`].
    pub fn arrivals(&self) -> usize {
        self.expects.len()
    }

    /// The numbers of the operations that are [`Command::Expect`]. They depend on no other operation.
    pub fn expects(&self) -> &[u32] {
        &self.expects
    }

    /// The ranks to which this rank sends or from which it receives, in ascending order.
    pub fn peers(&self) -> &[Rank] {
        &self.peers
    }
}
