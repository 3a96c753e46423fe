//! Sends to local ranks by one transport, and to all others by another.

use std::sync::Arc;
use std::time::Instant;

use ringroad_core::{Port, Rank};

use super::{
    is_earlier, CountedConnection, Description, Event, LocalMemory, Posted, RequestId, Subject, Tag,
    Transport, TransportError, Unclaimed, Wait,
};
use crate::transport::buffer::Region;

/// The transport among ranks of which some are local to each other.
pub struct Routed<N: Transport, F: Transport> {
    local: N,
    remote: F,
    /// For each rank, whether it is local.
    ranks: Arc<[bool]>,
}

impl<N: Transport, F: Transport> Routed<N, F> {
    /// Uses `near` for the ranks that it calls near, and `far` for all others. Blocking on the waiter of `far` must
    /// also end for `near`.
    pub fn new(mut local: N, remote: F) -> Routed<N, F> {
        let ranks = local.local_memory().map(|memory| memory.ranks()).unwrap_or_default();
        Routed { local, remote, ranks }
    }

    fn is_local(&self, rank: Rank) -> bool {
        self.ranks.get(rank).copied().unwrap_or(false)
    }
}

impl<N: Transport, F: Transport> Transport for Routed<N, F> {
    fn describe(&self) -> Description {
        let (local, remote) = (self.local.describe(), self.remote.describe());
        Description { text: format!("{local}, {remote}"), sharing: local.sharing, cma: local.cma, ..remote }
    }

    fn connections(&self) -> Vec<CountedConnection> {
        self.remote.connections()
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        if self.is_local(peer) {
            self.local.connect(peer)
        } else {
            self.remote.connect(peer)
        }
    }

    fn send(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        if self.is_local(peer) {
            self.local.send(peer, port, tag, source, request)
        } else {
            self.remote.send(peer, port, tag, source, request)
        }
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        if self.is_local(tag.source) {
            self.local.receive(port, tag, target, request)
        } else {
            self.remote.receive(port, tag, target, request)
        }
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        if self.is_local(peer) {
            self.local.notify(peer, payload);
        } else {
            self.remote.notify(peer, payload);
        }
    }

    fn local_memory(&mut self) -> Option<&mut dyn LocalMemory> {
        self.local.local_memory()
    }

    fn flush(&mut self) {
        self.local.flush();
        self.remote.flush();
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.local.progress(events) | self.remote.progress(events)
    }

    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        self.local.inspect(next, events);
        self.remote.inspect(next, events);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        if self.is_local(source) {
            self.local.unexpected(source, sequence)
        } else {
            self.remote.unexpected(source, sequence)
        }
    }

    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        self.local.unclaimed(subject).or_else(|| self.remote.unclaimed(subject))
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        // The transports do not tell when a message came: take the message of the earliest call.
        match (self.local.oldest_unexpected(), self.remote.oldest_unexpected()) {
            (Some(local), Some(remote)) if is_earlier(remote.sequence, local.sequence) => Some(remote),
            (local, remote) => local.or(remote),
        }
    }

    fn arm(&mut self) -> bool {
        self.local.arm() && self.remote.arm()
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.remote.waiter()
    }

    fn abort(&mut self, deadline: Instant) {
        self.local.abort(deadline);
        self.remote.abort(deadline);
    }

    fn close(&mut self, deadline: Instant) {
        self.local.close(deadline);
        self.remote.close(deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_process::InProcess;
    use super::super::shared::{Home, SharedMemory};
    use super::super::MessageKind;
    use super::*;
    use crate::os::machine::cache::CacheMode;

    /// The transports of three ranks, of which 0 and 1 are local to each other.
    fn group() -> Vec<Box<dyn Transport>> {
        let homes: Vec<Home> = (0..2).map(|rank| Home::new(rank, 3).unwrap()).collect();
        let beside: Vec<_> = (0..2).map(|rank| vec![homes[1 - rank].beside().unwrap()]).collect();
        homes.iter().zip([1, 0]).for_each(|(home, peer)| home.prepare_for(peer).unwrap());
        let local = homes.into_iter().zip(beside).map(|(home, neighbours)| {
            let waiter = home.waiter().unwrap();
            SharedMemory::new(home, neighbours, waiter, false, CacheMode::Shared).unwrap()
        });
        let mut remote = InProcess::group_with(3, 64).into_iter();
        let mut group: Vec<Box<dyn Transport>> = Vec::new();
        for (local, remote) in local.zip(&mut remote) {
            group.push(Box::new(Routed::new(local, remote)));
        }
        group.extend(remote.map(|remote| Box::new(remote) as Box<dyn Transport>));
        group
    }

    fn tag(source: Rank, sequence: u32) -> Tag {
        Tag { source, kind: MessageKind::Collective, sequence, message: 0, check: 0 }
    }

    #[test]
    fn messages_take_the_way_to_their_ranks() {
        let mut group = group();
        let described = "shared memory (with 1 of 2 ranks), in-process (3 threads, rendezvous from 64 bytes)";
        assert_eq!((&*group[0].describe().text, group[0].describe().sharing), (described, 1));
        assert_eq!(*group[0].local_memory().unwrap().ranks(), [false, true, false]);
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            group[from].connect(to).unwrap();
            group[from].send(to, 0, tag(from, 3), Region::from_slice(&[from as u8; 40]), 1).unwrap();
            group[from].flush();
            let mut events = Vec::new();
            group[to].inspect(None, &mut events);
            assert_eq!(events, []);
            assert_eq!(group[to].unexpected(from, 3), Some(tag(from, 3)));
            let message = Tag::for_message(from, 9);
            group[from].send(to, 0, message, Region::from_slice(&[7u8; 3]), 1).unwrap();
            group[from].flush();
            group[to].inspect(None, &mut events);
            let unclaimed = Some(Unclaimed { tag: message, bytes: 3 });
            assert_eq!(group[to].unclaimed(Subject::new(None, Some(9))), unclaimed);
            assert_eq!(group[to].receive(0, message, Region::zeroed(3), 2).unwrap(), Posted::Complete);
            assert_eq!(group[to].unclaimed(Subject::new(Some(from), None)), None);
            let target = Region::zeroed(40);
            assert_eq!(group[to].receive(0, tag(from, 3), target.clone(), 2).unwrap(), Posted::Complete);
            // SAFETY: the receive has ended.
            #[allow(unsafe_code)]
            let found = unsafe { target.to_vec::<u8>() };
            assert_eq!(found, [from as u8; 40]);
            group[from].notify(to, b"word");
            group[to].inspect(None, &mut events);
            assert_eq!(events, [Event::Notice { from, payload: b"word".to_vec() }]);
        }
    }

    #[test]
    fn the_oldest_message_may_be_on_either_way() {
        for (local, remote) in [(5, 6), (6, 5), (Tag::SEQUENCES - 1, 0), (0, Tag::SEQUENCES - 1)] {
            let mut group = group();
            group[1].send(0, 0, tag(1, local), Region::zeroed(8), 1).unwrap();
            group[2].send(0, 0, tag(2, remote), Region::zeroed(8), 1).unwrap();
            group[0].inspect(None, &mut Vec::new());
            let first = if is_earlier(remote, local) { tag(2, remote) } else { tag(1, local) };
            assert_eq!(group[0].oldest_unexpected(), Some(first));
        }
    }
}
