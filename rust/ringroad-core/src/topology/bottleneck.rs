//! Networks in which a rank sends and receives less than its links carry: the host bottleneck of Basu et al. (Efficient
//! all-to-all collective communication schedules for direct-connect topologies, HPDC 2024). In their augmented graph
//! data that a rank forwards passes through its host, too. Here the NICs forward data, and only the hosts at
//! both ends handle it.
//!
//! ```text
//! bottleneck(ring:3, 1.5)    0       1       2      rank r
//!                            ⇅ 1.5   ⇅ 1.5   ⇅ 1.5  bandwidth between a host and its NIC, in links of the ring
//!                          ┌─3───⇄───4───⇄───5─┐    the NIC of rank r, node 3 + r, which forwards data for others
//!                          └─────────⇄─────────┘
//! ```
//!
//! The network keeps its grid, so that algorithms for grids remain candidates. The links between a rank and its NIC
//! have no latency unless a latency is set for all links.

use super::operators::derived_name;
use super::{Link, Topology, TopologyError, TopologyKind};
use crate::units::NodeId;

impl Topology {
    /// The network with a NIC for every rank: `bottleneck(G, 2)`. The network's links join the NICs. The link between
    /// a rank and its NIC has, in each direction, `capacity` times the bandwidth of the rank's first link.
    pub fn behind_nics(&self, capacity: f64) -> Result<Topology, TopologyError> {
        super::link::check_relative(capacity, 0.0)?;
        if let Some(placed) = self.on_base(|base| base.behind_nics(capacity)) {
            return placed;
        }
        let spec = format!("bottleneck({}, {capacity})", self.wiring());
        let ranks = self.ranks;
        let nic = |node: NodeId| node + ranks;
        let mut links = Vec::with_capacity(2 * ranks + self.links.len());
        for rank in 0..ranks {
            let own =
                self.links_out_of(rank).first().map_or(Link::between(rank, nic(rank)), |id| self.links[*id]);
            let own = Link { latency: 0.0, extra_latency: 0.0, capacity: own.capacity * capacity, ..own };
            links.push(Link { source: rank, target: nic(rank), ..own });
            links.push(Link { source: nic(rank), target: rank, ..own });
        }
        links.extend(self.links.iter().map(|link| Link {
            source: nic(link.source),
            target: nic(link.target),
            ..*link
        }));
        let kind = match self.kind {
            TopologyKind::Graph(_) => TopologyKind::Graph(derived_name(&spec)),
            _ => TopologyKind::Behind(spec),
        };
        let (dimensions, hosts) = (self.dimensions.clone(), self.hosts.clone());
        let routing = self.routing.on_other_links();
        let plain = Topology::plain(kind, ranks, self.nodes + ranks, links);
        Topology { dimensions, hosts, routing, ..plain }.if_connected()
    }
}
