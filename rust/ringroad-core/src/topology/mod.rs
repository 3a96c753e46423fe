//! Networks: a directed multigraph of ranks, hosts' memories and switches.
//!
//! Ranks are the nodes `0..ranks`, memories and switches follow. On grids ranks are numbered like the elements of a C
//! array of the same shape: the last dimension varies fastest, as in NumPy and in torch's `DeviceMesh`. The order of the
//! links says which port they leave by (see [`Topology::port_link`]).

mod bottleneck;
mod catalogue;
mod cayley;
mod circulant;
mod digest;
mod distance_regular;
mod drawing;
mod error;
mod expression;
mod facts;
mod family;
mod fat_tree;
mod geometry;
mod graph;
mod grid;
mod hamming_mesh;
mod hosts;
mod hypercube;
mod hyperx;
mod induced;
mod kautz;
mod lattice;
mod link;
mod listed;
mod measure;
mod mesh;
mod operators;
mod options;
mod parse;
mod placement;
mod policy;
mod routing;
mod stored;
mod switch;
mod table;
mod text;
mod torus;
mod twisted_torus;
mod without;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use catalogue::{families, kinds, named_graphs, operators, Operator};
pub use cayley::CayleyGroup;
pub use drawing::{Drawing, Point};
pub use error::TopologyError;
pub use facts::{moore_steps, GraphFacts, TopologyFacts};
pub use family::Family;
pub(crate) use grid::{coordinates, port_towards};
pub use hosts::{MEMORY_CAPACITY, MEMORY_LATENCY};
pub(crate) use lattice::{Lattice, RingWay};
pub use link::{Link, DEFAULT_BANDWIDTH, DEFAULT_LATENCY};
pub(crate) use measure::connected;
pub use measure::{breadth_first, Adjacency};
pub use parse::{names_a_file, operands};
pub(crate) use placement::inverse;
pub use policy::Routing;
pub use routing::{Route, Routes, Unreachable};
pub use table::{RouteFault, RoutingTable, MAX_HOPS};

use crate::units::{LinkId, NodeId, Port, Rank, Seconds};
use family::{Ends, FamilyLayout, PortRule, Traits};
use placement::Placement;
use stored::Stored;

/// The most ranks a topology may have.
pub const MAX_RANKS: usize = 1 << 20;
/// The most links a topology may have: they are held in memory.
pub const MAX_LINKS: usize = 1 << 24;

/// What a network is made as, from which its spec follows and what is known besides its links.
#[derive(Debug, Clone, PartialEq)]
enum TopologyKind {
    /// A member of a family with a layout of its own.
    Member {
        layout: FamilyLayout,
        spec: String,
        /// The family's own: numbers of the spec that neither the grid nor the links tell.
        parameters: Vec<usize>,
    },
    /// The spec of anything else without a grid; ports are links in turn.
    Listed(String),
    /// The spec; every port is the way to the rank's NIC.
    Behind(String),
    /// The spec, and on grids the link of every rank's ports.
    Without(String, Vec<Option<LinkId>>),
    /// Its name.
    Graph(String),
}

impl TopologyKind {
    fn ends(&self) -> Ends {
        match self {
            TopologyKind::Member { layout, .. } => layout.ends,
            _ => Ends::All,
        }
    }

    fn traits(&self) -> Traits {
        match self {
            TopologyKind::Member { layout, .. } => layout.traits,
            TopologyKind::Without(..) | TopologyKind::Graph(_) => {
                Traits { is_irregular: true, ..Traits::NONE }
            }
            TopologyKind::Listed(_) | TopologyKind::Behind(_) => Traits::NONE,
        }
    }
}

/// A network. Its [`fmt::Display`] is its spec, which [`Topology::parse`] reads; links are not part of the spec but of
/// the serialised form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Topology {
    kind: TopologyKind,
    ranks: usize,
    nodes: usize,
    /// How many ranks each host has; empty where each rank is on its own.
    hosts: Vec<usize>,
    dimensions: Vec<usize>,
    links: Vec<Link>,
    /// The links by source, where they are not in that order.
    index: Option<Adjacency>,
    routing: Routing,
    /// Where that is a table.
    table: Option<Arc<RoutingTable>>,
    /// Where ranks have other numbers than on the network that the kind and the dimensions are of.
    placement: Option<Arc<Placement>>,
}

/// Properties of links, and routing.
impl Topology {
    /// The same wiring with this bandwidth (bytes per second) and latency on every link; `None` leaves them alone. Where
    /// links differ in capacity or have extra latency, they still do.
    pub fn with_links(
        self,
        bandwidth: Option<f64>,
        latency: Option<Seconds>,
    ) -> Result<Topology, TopologyError> {
        link::check(bandwidth.unwrap_or(DEFAULT_BANDWIDTH), latency.unwrap_or(DEFAULT_LATENCY))?;
        self.map_links(|_, link| {
            link.bandwidth = bandwidth.unwrap_or(link.bandwidth);
            link.latency = latency.unwrap_or(link.latency);
        })
    }

    /// The same wiring where every node takes so many seconds to pass a message on, or to take it in, in addition to what
    /// links take now. A latency that is said to be that of a cable alone, as the 100 ns of Swing's section 5, needs
    /// this (300 ns there); [`DEFAULT_LATENCY`] includes it.
    pub fn with_processing(self, seconds: Seconds) -> Result<Topology, TopologyError> {
        link::check_relative(1.0, seconds)?;
        self.map_links(|_, link| link.extra_latency += seconds)
    }

    /// The same wiring with other properties of links: whatever `change` makes of each. Where they lead stays.
    pub fn map_links(mut self, mut change: impl FnMut(LinkId, &mut Link)) -> Result<Topology, TopologyError> {
        for (id, link) in self.links.iter_mut().enumerate() {
            let Link { source, target, .. } = *link;
            change(id, link);
            (link.source, link.target) = (source, target);
            link.check()?;
        }
        if let Some(placement) = &mut self.placement {
            for (own, link) in Arc::make_mut(placement).base.links.iter_mut().zip(&self.links) {
                *own = Link { source: own.source, target: own.target, ..*link };
            }
        }
        Ok(self)
    }

    /// The same wiring with other routes; a table comes with [`Topology::with_routes`].
    pub fn with_routing(self, routing: Routing) -> Result<Topology, TopologyError> {
        match routing {
            Routing::DimensionOrdered if !self.is_ordered() => {
                Err(TopologyError::Unordered { spec: self.spec(), routing })
            }
            Routing::Table if self.table.is_none() => Err(TopologyError::NeedsRoutes(self.wiring())),
            Routing::Table => Ok(self),
            _ if self.placement.is_some() => {
                let placed = self.on_base(|base| base.clone().with_routing(routing));
                placed.unwrap_or(Ok(self))
            }
            _ => Ok(Topology { routing, table: None, ..self }),
        }
    }

    /// Which paths bytes take.
    pub fn routing(&self) -> Routing {
        self.routing
    }
}

/// What it is.
impl Topology {
    /// How many ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// How many ranks, memories and switches.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The links; a [`LinkId`] is an index into them.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// How many ranks share a host's memory, rank `r` that of host `r / per_host`; 1 where each is on its own, and where
    /// hosts have different numbers of ranks or ranks are placed in another order ([`Topology::hosts_of_ranks`] has those).
    pub fn per_host(&self) -> usize {
        hosts::equal_size(&self.hosts).unwrap_or(1)
    }

    /// The host of every rank. Hosts have the numbers 0, 1, ... in the order of their ranks; where ranks are placed, in
    /// the order of these ranks' positions.
    pub fn hosts_of_ranks(&self) -> Vec<usize> {
        if let Some(Placement { base, positions, .. }) = self.placement.as_deref() {
            if !base.hosts.is_empty() {
                let hosts = base.hosts_of_ranks();
                return positions.iter().map(|position| hosts[*position]).collect();
            }
        }
        match self.hosts.is_empty() {
            true => (0..self.ranks).collect(),
            false => hosts::host_by_rank(&self.hosts),
        }
    }

    /// How many ranks each host has; empty where each rank is on its own.
    pub(crate) fn host_sizes(&self) -> &[usize] {
        &self.hosts
    }

    /// The sizes of the grid that the ranks form, which algorithms take for a torus; a ring has one, and switches, fat
    /// trees and hosts have none, nor have graphs unless told. Not every grid is cabled as a torus: see
    /// [`Topology::is_torus`].
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// Whether it is a ring or torus and so looks the same from every rank.
    pub fn is_torus(&self) -> bool {
        self.kind.traits().is_torus
    }

    /// Whether ports are cables between ranks: from the upper port of one to the lower port of its neighbour, where there
    /// is a neighbour.
    pub fn has_cabled_ports(&self) -> bool {
        self.kind.traits().has_cabled_ports
    }

    /// Whether ranks may have unequal links: on a mesh, in any graph as somebody has drawn it, and where links have failed.
    pub fn is_irregular(&self) -> bool {
        self.kind.traits().is_irregular
    }

    /// Whether ranks that differ in one coordinate reach each other by links of that dimension.
    fn is_ordered(&self) -> bool {
        !self.dimensions.is_empty() && self.kind.traits().is_ordered
    }

    /// The text that [`Topology::parse`] makes this wiring of; a graph's is only its name.
    pub fn spec(&self) -> String {
        if let Some(Placement { base, positions, .. }) = self.placement.as_deref() {
            return format!("{}@{}", base.spec(), text::list(positions));
        }
        match self.routing {
            Routing::Minimal => self.wiring(),
            routing => format!("{},routing={routing}", self.wiring()),
        }
    }

    /// The spec without routing.
    pub(crate) fn wiring(&self) -> String {
        if let Some(Placement { base, positions, .. }) = self.placement.as_deref() {
            return format!("{}@{}", base.wiring(), text::list(positions));
        }
        match &self.kind {
            TopologyKind::Member { spec, .. } => spec.clone(),
            TopologyKind::Listed(spec) | TopologyKind::Behind(spec) | TopologyKind::Without(spec, _) => {
                spec.clone()
            }
            TopologyKind::Graph(name) => format!("graph:{name}"),
        }
    }

    /// See [`TopologyKind::Member`].
    fn parameters(&self) -> &[usize] {
        match &self.kind {
            TopologyKind::Member { parameters, .. } => parameters,
            _ => &[],
        }
    }

    fn ports(&self) -> PortRule {
        match &self.kind {
            TopologyKind::Member { layout, .. } => layout.ports,
            TopologyKind::Behind(_) => PortRule::Uplink,
            TopologyKind::Graph(_) if !self.dimensions.is_empty() => {
                PortRule::Neighbour(|graph, rank, d, up| torus::neighbour(&graph.dimensions, rank, d, up))
            }
            TopologyKind::Listed(_) | TopologyKind::Without(..) | TopologyKind::Graph(_) => PortRule::InTurn,
        }
    }

    /// The link by which `port` leaves `rank`, where there is one. On grids port `2d` leads to the neighbour above in
    /// dimension `d`, or towards it, and `2d + 1` to the one below; over the border of a mesh there is none. Behind a
    /// switch or NIC, on fat trees and hosts every port is the uplink. In everything else without a grid the ports of a
    /// rank are its links in turn.
    pub fn port_link(&self, rank: Rank, port: Port) -> Option<LinkId> {
        if rank >= self.ranks {
            return None;
        }
        if let Some(placement) = &self.placement {
            return placement.base.port_link(placement.position(rank), port);
        }
        let (sizes, dimension, up) = (&self.dimensions, port / 2, port.is_multiple_of(2));
        match (&self.kind, self.ports()) {
            (TopologyKind::Without(_, links), _) if !sizes.is_empty() => {
                (dimension < sizes.len()).then(|| links[2 * sizes.len() * rank + port])?
            }
            (_, PortRule::InTurn) => self.link_in_turn(rank, port),
            (_, PortRule::Uplink) => Some(2 * rank),
            (_, PortRule::Formula(link)) => link(sizes, rank, port),
            (_, PortRule::Neighbour(_)) if dimension >= sizes.len() => None,
            (_, PortRule::Neighbour(neighbour)) => {
                self.link_to(rank, neighbour(self, rank, dimension, up)?, up)
            }
        }
    }

    fn link_in_turn(&self, rank: Rank, port: Port) -> Option<LinkId> {
        let own = self.links_out_of(rank);
        own.get(port % own.len().max(1)).copied()
    }

    /// The first link from a rank to its neighbour, or the last one.
    fn link_to(&self, rank: Rank, neighbour: NodeId, first: bool) -> Option<LinkId> {
        let own = self.links_out_of(rank);
        let mut there = own.iter().copied().filter(|id| self.links[*id].target == neighbour);
        if first {
            there.next()
        } else {
            there.next_back()
        }
    }

    /// The links that leave a node, ascending.
    pub fn links_out_of(&self, node: NodeId) -> Vec<LinkId> {
        if node >= self.nodes {
            return Vec::new();
        }
        if let Some(index) = &self.index {
            return index.links_of(node).to_vec();
        }
        let start = self.links.partition_point(|link| link.source < node);
        let end = start + self.links[start..].iter().take_while(|link| link.source == node).count();
        (start..end).collect()
    }

    /// Of every link, the rank that it leaves and the first port by which it does: [`Topology::port_link`] of these is
    /// the link. `None` for links out of switches, and for those that no port of a grid leads to.
    pub fn link_ports(&self) -> Vec<Option<(Rank, Port)>> {
        let mut ports = vec![None; self.links.len()];
        let in_turn = matches!(self.ports(), PortRule::InTurn);
        for rank in 0..self.ranks {
            if in_turn && self.dimensions.is_empty() {
                let own = self.links_out_of(rank).into_iter().enumerate();
                own.for_each(|(port, link)| ports[link] = Some((rank, port)));
                continue;
            }
            for port in 0..(2 * self.dimensions.len()).max(1) {
                if let Some(link) = self.port_link(rank, port) {
                    ports[link].get_or_insert((rank, port));
                }
            }
        }
        ports
    }

    /// The first port by which a cable of a grid leads from `source` to its neighbour `destination`.
    pub fn port_to(&self, source: Rank, destination: Rank) -> Option<Port> {
        let ends = |port| self.port_link(source, port).map(|link| self.links[link].target);
        (0..2 * self.dimensions.len()).find(|port| ends(*port) == Some(destination))
    }

    /// The port by which a message leaves `source`: on a grid that of the cable to `destination`, or else of the shorter
    /// way in the first dimension in which they differ. 0 where there is no grid.
    pub fn port_towards(&self, source: Rank, destination: Rank) -> Port {
        if self.dimensions.is_empty() {
            return 0;
        }
        let (from, to) = (self.position(source), self.position(destination));
        let towards = || grid::port_towards(&self.dimensions, from, to);
        self.port_to(source, destination).unwrap_or_else(towards)
    }

    /// The place of `rank` on the grid, one coordinate per dimension; empty where there is none.
    pub fn coordinates(&self, rank: Rank) -> Vec<usize> {
        grid::coordinates(&self.dimensions, self.position(rank))
    }

    /// The rank at these coordinates, taken modulo the sizes; the inverse of [`Topology::coordinates`] on grids, and
    /// `None` where the number of coordinates is not that of the dimensions or there is no grid.
    pub fn rank_at(&self, coordinates: &[usize]) -> Option<Rank> {
        let fits = !self.dimensions.is_empty() && coordinates.len() == self.dimensions.len();
        let position = fits.then(|| grid::rank_at(&self.dimensions, coordinates))?;
        Some(self.placement.as_ref().map_or(position, |placement| placement.node(position)))
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec())
    }
}

#[cfg(test)]
mod tests;
