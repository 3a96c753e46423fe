//! What is left of a network when links have failed.

use super::{Family, Routing, Topology};
use crate::units::LinkId;

impl Topology {
    /// The same nodes without some of the links, and the number that each link left had before. Not every rank may reach
    /// every other one. Bytes go around failed links in any order of dimensions.
    pub(crate) fn without_links(&self, failed: &[LinkId]) -> (Topology, Vec<LinkId>) {
        let left: Vec<LinkId> = (0..self.links.len()).filter(|link| !failed.contains(link)).collect();
        let links = left.iter().map(|link| self.links[*link]).collect();
        let routing = match self.routing {
            Routing::DimensionOrdered => Routing::Minimal,
            same => same,
        };
        let graph = Topology::plain(Family::Graph("degraded".to_owned()), self.ranks, self.nodes, links);
        (Topology { routing, ..graph }, left)
    }
}
