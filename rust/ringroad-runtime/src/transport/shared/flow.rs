//! Flows: long messages that are not in the segment pass through it in parts. The sender copies the next part in
//! while the receiver copies the last one out. So a message takes little longer than one copy, the parts stay in the
//! caches, and little of the segment is used.
//!
//! The first descriptor is matched like any other. The later parts name it by its number. The memory of a part is reused
//! once it has been released. So a flow waits for its receiver, and its sender has to be driven meanwhile.

use std::collections::VecDeque;

use ringroad_core::Rank;

use super::channel::{Descriptor, DescriptorForm};
use super::matching::LocalReceive;
use super::SharedMemory;
pub use crate::os::machine::LONG;
pub(super) use crate::os::machine::PART;
use crate::transport::buffer::Region;
use crate::transport::{
    Arrived, Event, Failure, LocalMemory, Posted, RequestId, Returns, Tag, TransportError,
};

/// How many parts of a flow are in the segment at a time, so that neither side waits for each step of the other.
const PARTS: usize = 4;

// No flow ends before its receiver has come.
const _: () = assert!(LONG > PART * PARTS);

/// A flow that this rank sends.
pub(super) struct Outflow {
    /// The number of its first descriptor.
    first: u64,
    source: Region,
    /// How many bytes have been put.
    put: usize,
    /// The send, which ends when all bytes have been put.
    request: RequestId,
}

/// A flow that this rank receives.
pub(super) struct Inflow {
    /// The number of its first descriptor.
    pub(super) first: u64,
    bytes: usize,
    /// How many bytes have come.
    come: usize,
    /// How many bytes have been copied out.
    taken: usize,
    /// Parts that have come before a receive matched the flow.
    parts: VecDeque<Arrived>,
    goes: Goes,
}

impl Inflow {
    /// Whether the next part may have `bytes` bytes.
    pub(super) fn expects(&self, bytes: usize) -> bool {
        (1..=PART.min(self.bytes - self.come)).contains(&bytes)
    }
}

/// The destination of a flow.
enum Goes {
    /// No receive has matched it yet.
    Open,
    /// This receive, and this memory.
    To(LocalReceive, Region),
    /// None: it did not fit the receive that it matched.
    Nowhere,
}

/// Memory of a part that has been read: the receiving rank, the number of the flow's first descriptor, and the memory.
pub(super) type PartMemory = (Rank, u64, Region);

impl SharedMemory {
    /// Begins to send a long message that is not in the segment.
    pub(super) fn begin_flow(
        &mut self,
        rank: Rank,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        let region = self.allocate(PART)?;
        let bytes = source.len();
        self.ring();
        // SAFETY: the part is new; the poster leaves the source alone until the send has ended.
        unsafe { region.copy_from(&source.part(0..PART)) };
        let mut descriptor = Descriptor::new(tag.pack(), DescriptorForm::Flow, bytes);
        descriptor.place = self.place_of(&region);
        let out = &mut self.peers.get_mut(rank).out;
        let first = out.next + out.queue.len() as u64;
        out.flows.push(Outflow { first, source, put: PART, request });
        self.unread.waiting += 1;
        self.put(rank, descriptor, Some(region), None, Some(first));
        for _ in 1..PARTS {
            // If the segment has no more memory, one part is enough.
            let Ok(region) = self.pool.allocate_to_return(PART) else { break };
            self.put_part((rank, first, region));
        }
        Ok(Posted::Pending)
    }

    /// Puts the next parts of flows into the memory of parts that have been read. Returns whether there was any.
    pub(super) fn refill(&mut self) -> bool {
        let room = std::mem::take(&mut self.unread.room);
        let any = !room.is_empty();
        room.into_iter().for_each(|room| self.put_part(room));
        any
    }

    /// Puts the next part of a flow into this memory, if a part is left.
    fn put_part(&mut self, (rank, first, region): PartMemory) {
        self.ring();
        let flows = &mut self.peers.get_mut(rank).out.flows;
        let Some(index) = flows.iter().position(|flow| flow.first == first) else { return };
        let flow = &mut flows[index];
        let end = flow.source.len().min(flow.put + PART);
        let part = region.part(0..end - flow.put);
        // SAFETY: the part is new or has been released; the poster leaves the source alone until the send has ended.
        unsafe { part.copy_from(&flow.source.part(flow.put..end)) };
        flow.put = end;
        let ended = (end == flow.source.len()).then(|| flows.swap_remove(index).request);
        let mut descriptor = Descriptor::new(first, DescriptorForm::Part, part.len());
        descriptor.place = self.place_of(&part);
        let queued = self.put(rank, descriptor, Some(part), None, Some(first));
        let Some(request) = ended else { return };
        match queued {
            Some(queued) => queued.request = Some(request),
            None => self.events.push(Event::Completed { request, result: Ok(()) }),
        }
        self.unread.waiting -= 1;
    }

    /// Notes that a flow of `bytes` bytes has begun to come in. The first part stays with its message until a receive
    /// matches it.
    pub(super) fn open_inflow(&mut self, rank: Rank, first: u64, bytes: usize) {
        let flow = Inflow { first, bytes, come: PART, taken: 0, parts: VecDeque::new(), goes: Goes::Open };
        self.peers.get_mut(rank).incoming.flows.push(flow);
    }

    /// Gives a flow of `bytes` bytes with its first part to the receive that it matches. The receive ends with an event, since the
    /// last part comes only after a release.
    pub(super) fn take_inflow(
        &mut self,
        part: Arrived,
        bytes: usize,
        wanted: LocalReceive,
    ) -> Result<(), Failure> {
        match wanted.room(bytes) {
            Ok(to) => {
                self.direct_inflow(part, Goes::To(wanted, to));
                Ok(())
            }
            Err(failure) => {
                self.refuse_inflow(part);
                Err(failure)
            }
        }
    }

    /// Reads a flow to its end and drops the bytes.
    pub(super) fn refuse_inflow(&mut self, part: Arrived) {
        self.direct_inflow(part, Goes::Nowhere);
    }

    /// From now on, flows neither read from their sources nor write to their targets.
    pub(super) fn forget_flows(&mut self) {
        for peer in self.peers.iter_mut() {
            peer.out.flows.clear();
            for flow in &mut peer.incoming.flows {
                if let Goes::To(..) = flow.goes {
                    flow.goes = Goes::Nowhere;
                }
            }
        }
    }

    fn direct_inflow(&mut self, part: Arrived, goes: Goes) {
        let (rank, Returns::ToSender(first)) = (part.peer, part.returns) else {
            unreachable!("a part is in the sender's segment");
        };
        let flow = self.find_inflow(rank, first);
        flow.goes = goes;
        flow.parts.push_front(part);
        self.drain_inflow(rank, first);
    }

    /// Adds the next part to a flow.
    pub(super) fn add_part(&mut self, first: u64, part: Arrived) {
        let rank = part.peer;
        let flow = self.find_inflow(rank, first);
        flow.come += part.region.len();
        flow.parts.push_back(part);
        self.drain_inflow(rank, first);
    }

    fn find_inflow(&mut self, rank: Rank, first: u64) -> &mut Inflow {
        let flows = &mut self.peers.get_mut(rank).incoming.flows;
        flows
            .iter_mut()
            .find(|flow| flow.first == first)
            .expect("parts come after the first and before the end")
    }

    /// Copies the parts that have come to the target, unless no receive has matched the flow yet.
    fn drain_inflow(&mut self, rank: Rank, first: u64) {
        let flow = self.find_inflow(rank, first);
        let target = match &flow.goes {
            Goes::Open => return,
            Goes::To(_, target) => Some(target.clone()),
            Goes::Nowhere => None,
        };
        let (mut taken, bytes) = (flow.taken, flow.bytes);
        for part in std::mem::take(&mut flow.parts) {
            let end = taken + part.region.len();
            if let Some(target) = &target {
                self.ring();
                // SAFETY: the sender leaves the part alone until it is released, and the poster leaves the target
                // alone.
                unsafe { target.part(taken..end).copy_from(&part.region) };
            }
            taken = end;
            self.release(part);
        }
        self.find_inflow(rank, first).taken = taken;
        if taken == bytes {
            self.end_inflow(rank, first);
        }
    }

    fn end_inflow(&mut self, rank: Rank, first: u64) {
        let flows = &mut self.peers.get_mut(rank).incoming.flows;
        let index = flows.iter().position(|flow| flow.first == first).expect("it has just been found");
        let Goes::To(wanted, region) = flows.swap_remove(index).goes else { return };
        self.events.extend(Event::from_posted(wanted.request, wanted.copied(rank, region)));
    }
}
