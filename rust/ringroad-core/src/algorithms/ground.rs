//! Where a schedule is made: for ranks that are placed on a network, for their positions there, with the ranks renumbered
//! afterwards.
//!
//! So no algorithm knows of placements ([`Schedule::placed`] renumbers ranks and blocks). A symmetric schedule stays
//! symmetric, and a choice evaluates candidates by their schedules for the positions, which cost as much. Only what
//! depends on the order of ranks (scans, sums in rank order, schedules of the user's own) is made for the ranks.

use super::{Member, Shape};
use crate::collective::Collective;
use crate::schedule::Schedule;
use crate::topology::Topology;
use crate::units::Rank;

/// The network and the collective that a member's schedule is made for. A schedule costs as much there as
/// [`Ground::place`] of it on the network itself, and more of its ranks may act alike.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// The collective, with its root on this network.
    pub collective: Collective,
    /// The position of every rank, where the network is that of positions.
    positions: Option<&'a [Rank]>,
}

impl Ground<'_> {
    /// The schedule of the network itself, of one that is made here.
    pub fn place(&self, schedule: Schedule) -> Schedule {
        match self.positions {
            Some(positions) => schedule.placed(positions).expect("the positions are those of its ranks"),
            None => schedule,
        }
    }

    /// Where the order of ranks matters they count as a ring, although they stand elsewhere.
    pub(super) fn shape(&self) -> Shape {
        match self.topology.positions() {
            Some(positions) => Shape::ring(positions.len()),
            None => Shape::from_topology(self.topology),
        }
    }
}

impl Member {
    /// Where the schedule of `collective` on `topology` is made: where ranks are placed, on the network of their positions.
    /// Only what depends on the order of ranks (scans, additions in this order, and schedules of the user's own) is made
    /// for the ranks as they are.
    pub fn ground<'a>(&self, topology: &'a Topology, collective: Collective) -> Ground<'a> {
        let ordered = collective.is_prefix() || self.in_rank_order(collective) || self.is_given();
        match topology.positions().filter(|_| !ordered) {
            None => Ground { topology, collective, positions: None },
            Some(positions) => {
                // A root that does not exist is refused later.
                let at = |root: Rank| positions.get(root).copied().unwrap_or(root);
                let collective = collective.with_root(collective.root().map_or(0, at));
                Ground { topology: topology.base(), collective, positions: Some(positions) }
            }
        }
    }
}
