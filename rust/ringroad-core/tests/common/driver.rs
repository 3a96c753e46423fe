//! Runs the executors of all ranks in one thread, without I/O, in any order that a seed says.
//!
//! Memory is as hostile as a transport may make it: a receive spoils its target as soon as it is posted, a rendezvous
//! send reads its source only when it is matched, and whatever was started may take any time.

use std::collections::HashMap;
use std::fmt::Write;

use ringroad_core::executor::Executor;
use ringroad_core::plan::{Buffer, Command, Span};
use ringroad_core::Rank;

use super::element::{from_bytes, to_bytes, Element};
use super::Random;

/// What a receive leaves in its target until the message is there.
const SPOILT: u8 = 0xEE;

/// One rank: its executor, and its memory by [`index`].
pub struct Machine {
    pub executor: Executor,
    pub buffers: [Vec<u8>; 3],
    /// What this rank's data is multiplied by.
    pub factor: u8,
}

/// Where a buffer is in [`Machine::buffers`].
pub fn index(buffer: Buffer) -> usize {
    match buffer {
        Buffer::Input => 0,
        Buffer::Output => 1,
        Buffer::Scratch => 2,
    }
}

impl Machine {
    pub fn bytes(&mut self, span: Span) -> &mut [u8] {
        &mut self.buffers[index(span.buffer)][span.offset..span.offset + span.bytes]
    }

    fn read<T: Element>(&mut self, span: Span) -> Vec<T> {
        from_bytes(self.bytes(span))
    }

    /// Does what is no message.
    fn compute<T: Element>(&mut self, command: Command, ranks: usize) {
        let factor = self.factor;
        let (target, mut values): (Span, Vec<T>) = match command {
            Command::Copy { target, source } => (target, self.read(source)),
            Command::Premultiply { target, source } => (target, self.read(source)),
            Command::Reduce { target, left, .. } => (target, self.read(left)),
            Command::Average { target } => (target, self.read(target)),
            Command::Send { .. } | Command::Receive { .. } => unreachable!("messages are not computed"),
        };
        match command {
            Command::Premultiply { .. } => values.iter_mut().for_each(|x| *x = x.scale(factor)),
            Command::Average { .. } => values.iter_mut().for_each(|x| *x = x.divide(ranks)),
            Command::Reduce { right, .. } => {
                values.iter_mut().zip(self.read(right)).for_each(|(x, arrived)| *x = x.add(arrived));
            }
            _ => {}
        }
        self.bytes(target).copy_from_slice(&to_bytes(&values));
    }
}

/// When a send completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// At once.
    Eager,
    /// When the receive is there.
    Rendezvous,
    /// At once if the message has at most this many bytes.
    EagerUpTo(usize),
}

/// Source, destination and number.
type Key = (Rank, Rank, u32);

enum Action {
    Start(Rank, u32, Command),
    Finish(Rank, u32, Command),
    Deliver(Key),
}

enum Sent {
    Eager(Vec<u8>),
    Rendezvous(u32, Span),
}

struct Driver<'a> {
    machines: &'a mut [Machine],
    protocol: Protocol,
    /// What could happen next, in no order.
    possible: Vec<Action>,
    sent: HashMap<Key, Sent>,
    posted: HashMap<Key, (u32, Span)>,
}

/// Runs all executors to their end; the error says who waits for what when nothing can happen any more.
pub fn drive<T: Element>(
    machines: &mut [Machine],
    protocol: Protocol,
    random: &mut Random,
) -> Result<(), String> {
    let ranks = machines.len();
    let mut driver =
        Driver { machines, protocol, possible: Vec::new(), sent: HashMap::new(), posted: HashMap::new() };
    (0..ranks).for_each(|rank| driver.collect(rank));
    while !driver.possible.is_empty() {
        let action = driver.possible.swap_remove(random.below(driver.possible.len()));
        match action {
            Action::Start(rank, number, command) => driver.start(rank, number, command),
            Action::Finish(rank, number, command) => {
                driver.machines[rank].compute::<T>(command, ranks);
                driver.complete(rank, number);
            }
            Action::Deliver(key) => driver.deliver(key),
        }
    }
    driver.outcome()
}

impl Driver<'_> {
    /// Takes what `rank` may start.
    fn collect(&mut self, rank: Rank) {
        while let Some((number, operation)) = self.machines[rank].executor.start() {
            self.possible.push(Action::Start(rank, number, operation.command));
        }
    }

    fn complete(&mut self, rank: Rank, number: u32) {
        self.machines[rank].executor.complete(number);
        self.collect(rank);
    }

    fn start(&mut self, rank: Rank, number: u32, command: Command) {
        match command {
            Command::Send { peer, message, source, .. } => {
                let key = (rank, peer, message);
                let eager = match self.protocol {
                    Protocol::Eager => true,
                    Protocol::Rendezvous => false,
                    Protocol::EagerUpTo(bytes) => source.bytes <= bytes,
                };
                let sent = if eager {
                    Sent::Eager(self.machines[rank].bytes(source).to_vec())
                } else {
                    Sent::Rendezvous(number, source)
                };
                assert!(self.sent.insert(key, sent).is_none(), "{key:?} is sent twice");
                if eager {
                    self.complete(rank, number);
                }
                self.match_up(key);
            }
            Command::Receive { peer, message, target, .. } => {
                let key = (peer, rank, message);
                self.machines[rank].bytes(target).fill(SPOILT);
                assert!(self.posted.insert(key, (number, target)).is_none(), "{key:?} is received twice");
                self.match_up(key);
            }
            _ => self.possible.push(Action::Finish(rank, number, command)),
        }
    }

    fn match_up(&mut self, key: Key) {
        if self.sent.contains_key(&key) && self.posted.contains_key(&key) {
            self.possible.push(Action::Deliver(key));
        }
    }

    fn deliver(&mut self, key: Key) {
        let (source, destination, _) = key;
        let (receive, target) = self.posted.remove(&key).expect("both sides are there");
        let (bytes, send) = match self.sent.remove(&key).expect("both sides are there") {
            Sent::Eager(bytes) => (bytes, None),
            Sent::Rendezvous(number, span) => (self.machines[source].bytes(span).to_vec(), Some(number)),
        };
        assert_eq!(bytes.len(), target.bytes, "both sides of {key:?} agree on its size");
        self.machines[destination].bytes(target).copy_from_slice(&bytes);
        self.complete(destination, receive);
        if let Some(number) = send {
            self.complete(source, number);
        }
    }

    fn outcome(self) -> Result<(), String> {
        let mut stuck = String::new();
        for (rank, machine) in self.machines.iter().enumerate().filter(|(_, m)| !m.executor.is_done()) {
            for (number, operation) in machine.executor.unfinished().take(4) {
                writeln!(stuck, "rank {rank} waits for {number}: {operation:?}").unwrap();
            }
        }
        if stuck.is_empty() && self.sent.is_empty() {
            return Ok(());
        }
        Err(format!("deadlock under {:?}:\n{stuck}unmatched {:?}", self.protocol, self.sent.keys()))
    }
}
