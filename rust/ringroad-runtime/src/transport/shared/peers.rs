//! The local ranks.
//!
//! Among more than 16 of them a rank polls only those that are *active*, with which it exchanges something: each look
//! reads lines of another process's memory. It looks at the others before it blocks, for messages of any source, and
//! now and then.

use std::sync::Arc;

use ringroad_core::Rank;

use super::peer::LocalPeer;

/// Among at most so many local ranks all are active.
const FEW: usize = if cfg!(test) { 1 } else { 16 };

/// The local ranks, by their numbers.
pub(super) struct LocalPeers {
    /// `None` for ranks that are not local.
    all: Vec<Option<Box<LocalPeer>>>,
    local: Arc<[bool]>,
    ranks: Vec<Rank>,
    active: Vec<Rank>,
    /// The place in `ranks` of the next one to be looked at although it is not active.
    next: usize,
}

impl LocalPeers {
    pub(super) fn new(mut all: Vec<Option<Box<LocalPeer>>>) -> LocalPeers {
        let ranks: Vec<Rank> = (0..all.len()).filter(|rank| all[*rank].is_some()).collect();
        let is_active = ranks.len() <= FEW;
        all.iter_mut().flatten().for_each(|peer| peer.is_active = is_active);
        let active = if is_active { ranks.clone() } else { Vec::new() };
        LocalPeers { local: all.iter().map(Option::is_some).collect(), ranks, all, active, next: 0 }
    }

    /// The numbers of the local ranks.
    #[inline]
    pub(super) fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The ranks that this one exchanges something with at the moment. Only these are looked at in every poll: each look
    /// reads lines of another process's memory.
    #[inline]
    pub(super) fn active(&self) -> &[Rank] {
        &self.active
    }

    /// A local rank, which is active from now on.
    #[inline]
    pub(super) fn activate(&mut self, rank: Rank) -> &mut LocalPeer {
        let peer = self.all[rank].as_mut().expect("the rank is local");
        if !peer.is_active {
            peer.is_active = true;
            // The last look is long ago.
            peer.incoming.missed.set(None);
            self.active.push(rank);
        }
        peer
    }

    /// From now on only those are active that are busy.
    #[inline]
    pub(super) fn retire(&mut self) {
        if self.ranks.len() > FEW {
            let all = &mut self.all;
            self.active.retain(|rank| {
                let peer = all[*rank].as_mut().expect("the rank is local");
                peer.is_active = peer.is_busy();
                peer.is_active
            });
        }
    }

    /// How many ranks are not active.
    #[inline]
    pub(super) fn idle(&self) -> usize {
        self.ranks.len() - self.active.len()
    }

    /// The next rank, if it is not active: each has its turn to be looked at even so.
    pub(super) fn next_idle(&mut self) -> Option<&mut LocalPeer> {
        self.next = (self.next + 1) % self.ranks.len();
        let rank = self.ranks[self.next];
        Some(self.get_mut(rank)).filter(|peer| !peer.is_active)
    }

    /// Notes that it has been checked that none of the active ranks has given up. That is to be checked again while
    /// memory of theirs is being read.
    #[inline]
    pub(super) fn note_check(&mut self) {
        for rank in &self.active {
            let peer = self.all[*rank].as_mut().expect("the rank is local");
            peer.is_unchecked &= peer.incoming.next != peer.incoming.released.before();
        }
    }

    /// For each rank, whether it is local.
    pub(super) fn local(&self) -> Arc<[bool]> {
        self.local.clone()
    }

    #[inline]
    pub(super) fn is_local(&self, rank: Rank) -> bool {
        self.local.get(rank).copied().unwrap_or(false)
    }

    /// A local rank.
    #[inline]
    pub(super) fn get(&self, rank: Rank) -> &LocalPeer {
        self.all[rank].as_ref().expect("the rank is local")
    }

    /// A local rank.
    #[inline]
    pub(super) fn get_mut(&mut self, rank: Rank) -> &mut LocalPeer {
        self.all[rank].as_mut().expect("the rank is local")
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &LocalPeer> {
        self.all.iter().flatten().map(|peer| &**peer)
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LocalPeer> {
        self.all.iter_mut().flatten().map(|peer| &mut **peer)
    }

    /// The active ranks.
    #[inline]
    pub(super) fn iter_active(&self) -> impl Iterator<Item = &LocalPeer> {
        self.active.iter().map(|rank| self.get(*rank))
    }

    /// Whether descriptors wait for slots.
    pub(super) fn wait_for_slots(&self) -> bool {
        self.iter_active().any(|peer| !peer.out.queue.is_empty())
    }
}
