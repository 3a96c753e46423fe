//! Messages that a rank sends to itself. They need no network: the in-process transport of a group of one carries them.

use ringroad_core::Rank;

use crate::os::machine::LONG;
use crate::transport::buffer::Region;
use crate::transport::in_process::InProcess;
use crate::transport::{Event, Posted, RequestId, Subject, Tag, Transport, TransportError, Unclaimed};

/// The way from a rank to itself. In its group of one, the rank is rank 0.
pub(super) struct Loopback {
    rank: Rank,
    group: InProcess,
}

impl Loopback {
    pub fn new(rank: Rank) -> Loopback {
        let group = InProcess::group_with(1, LONG).pop().expect("a group of one");
        Loopback { rank, group }
    }

    pub fn send(&mut self, tag: Tag, source: Region, request: RequestId) -> Result<Posted, TransportError> {
        self.group.send(0, 0, Tag { source: 0, ..tag }, source, request)
    }

    pub fn receive(
        &mut self,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.group.receive(0, Tag { source: 0, ..tag }, target, request)
    }

    pub fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        let found = self.group.unclaimed(subject.whoever_sends(self.rank)?)?;
        Some(Unclaimed { tag: Tag { source: self.rank, ..found.tag }, ..found })
    }

    pub fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.group.progress(events)
    }

    pub fn arm(&mut self) -> bool {
        self.group.arm()
    }
}
