//! What a rank knows of the others: who is local, to whom it is connected, who is gone, and whom it suspects.

use std::sync::Arc;
use std::time::Instant;

use ringroad_core::Rank;

use crate::bootstrap::EndpointInfo;
use crate::os::liveness::Liveness;
use crate::transport::{Lack, Transport, ABORTED, CLOSED};

/// The reason that is given when a peer's process has ended.
pub(super) const ENDED: &str = "its process has ended";

/// A peer whose connection broke while an operation with it was pending, or that died during a collective call.
pub(super) struct Suspect {
    pub peer: Rank,
    pub reason: String,
    pub since: Instant,
}

/// The ranks of a communicator, as one of them sees them.
pub(super) struct Peers {
    pub rank: Rank,
    endpoints: Arc<Vec<EndpointInfo>>,
    /// For each rank, whether it is local; empty if none is.
    local: Arc<[bool]>,
    liveness: Liveness,
    /// The ranks whose processes have ended.
    dead: Vec<Rank>,
    connected: Vec<bool>,
    broken: Vec<Option<String>>,
    /// The ranks that have given up, as far as connections tell: the reason may be replaced by their end.
    pub aborted: Vec<bool>,
    pub suspects: Vec<Suspect>,
}

impl Peers {
    pub fn new(rank: Rank, endpoints: Arc<Vec<EndpointInfo>>, local: Arc<[bool]>) -> Peers {
        Peers {
            rank,
            local,
            liveness: Liveness::new(endpoints[rank].process(), endpoints.iter().map(EndpointInfo::process)),
            dead: Vec::new(),
            connected: vec![false; endpoints.len()],
            broken: vec![None; endpoints.len()],
            aborted: vec![false; endpoints.len()],
            suspects: Vec::new(),
            endpoints,
        }
    }

    /// How many ranks there are, with this one.
    pub fn ranks(&self) -> usize {
        self.endpoints.len()
    }

    /// All ranks but this one.
    pub fn others(&self) -> impl Iterator<Item = Rank> {
        let own = self.rank;
        (0..self.ranks()).filter(move |rank| *rank != own)
    }

    #[inline]
    pub fn is_local(&self, peer: Rank) -> bool {
        self.local.get(peer).copied().unwrap_or(false)
    }

    /// How many ranks share this one's memory, with it.
    pub fn here(&self) -> usize {
        1 + self.local.iter().filter(|local| **local).count()
    }

    pub fn describe(&self, rank: Rank) -> String {
        let endpoint = &self.endpoints[rank];
        format!("{rank} ({}, pid {})", endpoint.host, endpoint.pid)
    }

    /// The lowest rank on the same machine.
    pub fn first_on_machine(&self) -> Rank {
        let own = &self.endpoints[self.rank];
        (0..self.ranks()).find(|rank| self.endpoints[*rank].shares_machine(own)).unwrap_or(self.rank)
    }

    /// The number of rank 0's process, which names the communicator's files.
    pub fn instance(&self) -> u64 {
        self.endpoints[0].instance
    }

    /// Makes sure that the end of `peer` would be noticed; the error says why that is impossible, and what this rank lacks
    /// if that is the reason.
    pub fn connect(
        &mut self,
        peer: Rank,
        transport: &mut dyn Transport,
    ) -> Result<(), (Option<Lack>, String)> {
        if let Some(reason) = &self.broken[peer] {
            return Err((None, reason.clone()));
        }
        if !self.connected[peer] {
            transport.connect(peer).map_err(|error| (error.lacks, error.reason))?;
            self.connected[peer] = true;
        }
        Ok(())
    }

    /// Why nothing more comes from `peer` or is sent to it, if that is so.
    pub fn broken(&self, peer: Rank) -> Option<&str> {
        self.broken[peer].as_deref()
    }

    /// Notes that `peer` is gone: nothing more comes from it or is sent to it.
    pub fn lose(&mut self, peer: Rank, reason: &str) {
        // A goodbye says more than the end of the process, which may be noticed before or after it.
        if self.broken(peer) != Some(CLOSED) {
            self.broken[peer] = Some(reason.to_owned());
        }
    }

    pub fn suspect(&mut self, peer: Rank, reason: String) {
        if !self.suspects.iter().any(|suspect| suspect.peer == peer) {
            self.suspects.push(Suspect { peer, reason, since: Instant::now() });
        }
    }

    /// Why a peer has died, if it has. A rank that closed its connections did so after its last call; its goodbye is
    /// sure to come only if it is local or connected.
    pub fn died(&self, peer: Rank) -> Option<&str> {
        let reason = self.broken(peer).filter(|reason| ![ABORTED, CLOSED].contains(reason))?;
        (self.connected[peer] || self.is_local(peer)).then_some(reason)
    }

    /// The ranks whose processes have ended since the last look.
    pub fn note_dead(&mut self) -> &[Rank] {
        let before = self.dead.len();
        self.dead.extend(self.liveness.ended());
        &self.dead[before..]
    }

    /// Whether the process of `peer` has ended.
    pub fn has_ended(&self, peer: Rank) -> bool {
        self.dead.contains(&peer)
    }
}
