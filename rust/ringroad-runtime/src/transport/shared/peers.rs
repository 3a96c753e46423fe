//! The local ranks.

use std::sync::Arc;

use ringroad_core::Rank;

use super::peer::Peer;

/// The local ranks, by their numbers.
pub(super) struct Peers {
    /// `None` for ranks that are not local.
    all: Vec<Option<Box<Peer>>>,
    local: Arc<[bool]>,
    ranks: Vec<Rank>,
}

impl Peers {
    pub(super) fn new(all: Vec<Option<Box<Peer>>>) -> Peers {
        Peers {
            local: all.iter().map(Option::is_some).collect(),
            ranks: (0..all.len()).filter(|rank| all[*rank].is_some()).collect(),
            all,
        }
    }

    /// The numbers of the local ranks.
    #[inline]
    pub(super) fn ranks(&self) -> &[Rank] {
        &self.ranks
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
    pub(super) fn get(&self, rank: Rank) -> &Peer {
        self.all[rank].as_ref().expect("the rank is local")
    }

    /// A local rank.
    #[inline]
    pub(super) fn get_mut(&mut self, rank: Rank) -> &mut Peer {
        self.all[rank].as_mut().expect("the rank is local")
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.all.iter().flatten().map(|peer| &**peer)
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.all.iter_mut().flatten().map(|peer| &mut **peer)
    }

    /// Whether parcels wait for slots.
    pub(super) fn wait_for_slots(&self) -> bool {
        self.ranks.iter().any(|rank| !self.get(*rank).out.queue.is_empty())
    }
}
