//! Runs the executors of all ranks in one thread, without I/O, in an order that a seed determines.
//!
//! The driver exploits all freedom that a transport has: a receive overwrites its target as soon as it is posted, a
//! rendezvous send reads its source only when it is matched, and operations take any time.

use std::collections::HashMap;
use std::fmt::Write;

use ringroad_core::executor::Executor;
use ringroad_core::plan::{Buffer, Command, Span};
use ringroad_core::Rank;

use super::element::{from_bytes, to_bytes, Element};
use super::Random;

/// The value with which a receive overwrites its target until the message arrives.
const SPOILT: u8 = 0xEE;

/// One rank: its executor, and its buffers by [`index`].
pub struct Machine {
    pub executor: Executor,
    pub buffers: [Vec<u8>; 3],
    /// The factor of [`Command::Premultiply`].
    pub factor: u8,
    /// For each rank, whether it is near.
    pub local: Vec<bool>,
}

/// Where a buffer is in [`Machine::buffers`].
pub fn index(buffer: Buffer) -> usize {
    match buffer {
        Buffer::Input => 0,
        Buffer::Output => 1,
        Buffer::Scratch => 2,
        Buffer::Arrived(_) => unreachable!("it is another rank's memory"),
    }
}

impl Machine {
    pub fn bytes(&mut self, span: Span) -> &mut [u8] {
        &mut self.buffers[index(span.buffer)][span.offset..span.offset + span.bytes]
    }
}

/// When a send completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// When it is posted.
    Eager,
    /// When the receive is posted, too.
    Rendezvous,
    /// As `Eager` for messages of at most this many bytes, as `Rendezvous` for longer ones.
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
    /// The number of the operation; `None` if it has completed early because its source is not written any more.
    Where(Option<u32>, Span),
}

enum Posted {
    Receive(u32, Span),
    /// The numbers of the operation and of the arrival.
    Expect(u32, u32),
}

struct Driver<'a> {
    machines: &'a mut [Machine],
    protocol: Protocol,
    /// The events that could happen next.
    possible: Vec<Action>,
    sent: HashMap<Key, Sent>,
    posted: HashMap<Key, Posted>,
    /// The arrived messages by receiver and arrival: the sender, the number of its operation, and the span.
    arrived: HashMap<(Rank, u32), (Rank, Option<u32>, Span)>,
}

/// Runs all executors to their end. If nothing can happen any more, the error names the operations that ranks wait for.
pub fn drive<T: Element>(
    machines: &mut [Machine],
    protocol: Protocol,
    random: &mut Random,
) -> Result<(), String> {
    let ranks = machines.len();
    let mut driver = Driver {
        machines,
        protocol,
        possible: Vec::new(),
        sent: HashMap::new(),
        posted: HashMap::new(),
        arrived: HashMap::new(),
    };
    (0..ranks).for_each(|rank| driver.collect(rank));
    while !driver.possible.is_empty() {
        let action = driver.possible.swap_remove(random.below(driver.possible.len()));
        match action {
            Action::Start(rank, number, command) => driver.start(rank, number, command),
            Action::Finish(rank, number, command) => {
                driver.perform::<T>(rank, command, ranks);
                driver.complete(rank, number);
            }
            Action::Deliver(key) => driver.deliver(key),
        }
    }
    driver.outcome()
}

impl Driver<'_> {
    /// Starts all operations that `rank` may start.
    fn collect(&mut self, rank: Rank) {
        while let Some(number) = self.machines[rank].executor.start() {
            let operation = *self.machines[rank].executor.operation(number);
            self.possible.push(Action::Start(rank, number, operation.command));
        }
    }

    fn complete(&mut self, rank: Rank, number: u32) {
        self.machines[rank].executor.complete(number);
        self.collect(rank);
    }

    fn start(&mut self, rank: Rank, number: u32, command: Command) {
        match command {
            Command::Send { peer, message, source, stays, .. } => {
                let key = (rank, peer, message);
                let local = self.machines[rank].local[peer];
                let eager = !local
                    && match self.protocol {
                        Protocol::Eager => true,
                        Protocol::Rendezvous => false,
                        Protocol::EagerUpTo(bytes) => source.bytes <= bytes,
                    };
                let sent = match (eager, local && stays) {
                    (true, _) => Sent::Eager(self.machines[rank].bytes(source).to_vec()),
                    (_, true) => Sent::Where(None, source),
                    _ => Sent::Where(Some(number), source),
                };
                let complete = !matches!(sent, Sent::Where(Some(_), _));
                assert!(self.sent.insert(key, sent).is_none(), "{key:?} is sent twice");
                if complete {
                    self.complete(rank, number);
                }
                self.match_up(key);
            }
            Command::Receive { peer, message, target, .. } => {
                self.machines[rank].bytes(target).fill(SPOILT);
                self.post((peer, rank, message), Posted::Receive(number, target));
            }
            Command::Expect { peer, message, arrival, .. } => {
                self.post((peer, rank, message), Posted::Expect(number, arrival));
            }
            _ => self.possible.push(Action::Finish(rank, number, command)),
        }
    }

    fn post(&mut self, key: Key, posted: Posted) {
        assert!(self.posted.insert(key, posted).is_none(), "{key:?} is received twice");
        self.match_up(key);
    }

    fn match_up(&mut self, key: Key) {
        if self.sent.contains_key(&key) && self.posted.contains_key(&key) {
            self.possible.push(Action::Deliver(key));
        }
    }

    fn deliver(&mut self, key: Key) {
        let (source, destination, _) = key;
        let sent = self.sent.remove(&key).expect("both sides are there");
        match self.posted.remove(&key).expect("both sides are there") {
            Posted::Receive(number, target) => {
                let (bytes, send) = match sent {
                    Sent::Eager(bytes) => (bytes, None),
                    Sent::Where(number, span) => (self.machines[source].bytes(span).to_vec(), number),
                };
                assert_eq!(bytes.len(), target.bytes, "both sides of {key:?} agree on its size");
                self.machines[destination].bytes(target).copy_from_slice(&bytes);
                self.complete(destination, number);
                send.into_iter().for_each(|number| self.complete(source, number));
            }
            Posted::Expect(number, arrival) => {
                let Sent::Where(send, span) = sent else { panic!("{key:?} is not where it can be read") };
                self.arrived.insert((destination, arrival), (source, send, span));
                self.complete(destination, number);
            }
        }
    }

    /// The values of a span of `rank`, which may be in the memory of a peer.
    fn read<T: Element>(&mut self, rank: Rank, span: Span) -> Vec<T> {
        let Buffer::Arrived(arrival) = span.buffer else {
            return from_bytes(self.machines[rank].bytes(span));
        };
        let (source, _, place) = self.arrived[&(rank, arrival)];
        from_bytes(self.machines[source].bytes(place.part(span.offset, span.bytes)))
    }

    /// Performs a command that is not a message.
    fn perform<T: Element>(&mut self, rank: Rank, command: Command, ranks: usize) {
        let factor = self.machines[rank].factor;
        let (target, values): (Span, Vec<T>) = match command {
            // Encoded bytes are not whole elements.
            Command::Copy { target, source } if !matches!(source.buffer, Buffer::Arrived(_)) => {
                let bytes = self.machines[rank].bytes(source).to_vec();
                return self.machines[rank].bytes(target).copy_from_slice(&bytes);
            }
            Command::Copy { target, source } => (target, self.read(rank, source)),
            Command::Premultiply { target, source } => {
                (target, self.read(rank, source).into_iter().map(|x: T| x.scale(factor)).collect())
            }
            Command::Reduce { target, sources, also } => {
                let plan = self.machines[rank].executor.plan().clone();
                let sources = plan.sources(sources).iter().map(|span| self.read::<T>(rank, *span));
                let add = |a: Vec<T>, b: Vec<T>| a.into_iter().zip(b).map(|(x, y)| x.add(y)).collect();
                let values = sources.reduce(add).expect("there is something to reduce");
                if let Some(also) = also {
                    self.machines[rank].bytes(also).copy_from_slice(&to_bytes(&values));
                }
                (target, values)
            }
            Command::Encode { target, source, kept } => {
                let values: Vec<T> = self.read(rank, source);
                let bytes = T::encode(&values);
                if let Some(kept) = kept {
                    let rounded = to_bytes(&T::decode(&bytes, values.len()));
                    self.machines[rank].bytes(kept).copy_from_slice(&rounded);
                }
                return self.machines[rank].bytes(target).copy_from_slice(&bytes);
            }
            Command::Decode { target, left, source } => {
                let bytes = self.machines[rank].bytes(source).to_vec();
                let values = T::decode(&bytes, target.bytes / T::BYTES);
                let values = match left {
                    None => values,
                    Some(left) => {
                        self.read(rank, left).into_iter().zip(values).map(|(x, y): (T, T)| x.add(y)).collect()
                    }
                };
                (target, values)
            }
            Command::Average { target } => {
                (target, self.read(rank, target).into_iter().map(|x: T| x.divide(ranks)).collect())
            }
            Command::Release { arrival } => {
                let (source, send, _) = self.arrived.remove(&(rank, arrival)).expect("it has arrived");
                return send.into_iter().for_each(|number| self.complete(source, number));
            }
            Command::Send { .. } | Command::Receive { .. } | Command::Expect { .. } => {
                unreachable!("messages are not computed")
            }
        };
        self.machines[rank].bytes(target).copy_from_slice(&to_bytes(&values));
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
