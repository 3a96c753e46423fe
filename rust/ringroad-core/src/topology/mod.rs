//! Who is wired to whom: a directed multigraph of ranks, hosts' memories and switches.
//!
//! Ranks are the nodes `0..ranks`, memories and switches follow. On grids ranks are numbered like the elements of a C
//! array of the same shape: the last dimension varies fastest, as in NumPy and in torch's `DeviceMesh`. The order of the
//! links says which port they leave by (see [`Topology::port_link`]).

mod error;
mod fat_tree;
mod graph;
mod grid;
mod hamming_mesh;
mod hosts;
mod hypercube;
mod hyperx;
mod link;
mod measure;
mod mesh;
mod parse;
mod policy;
mod routing;
mod stored;
mod switch;
mod torus;
mod twisted_torus;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use error::TopologyError;
pub(crate) use grid::coordinates;
pub use hosts::{MEMORY_CAPACITY, MEMORY_LATENCY};
pub use link::{Link, DEFAULT_BANDWIDTH, DEFAULT_LATENCY};
pub use parse::names_a_file;
pub use policy::Routing;
pub use routing::{Route, Routes, Unreachable};

use crate::units::{LinkId, NodeId, Port, Rank, Seconds};
use hamming_mesh::Boards;
use stored::Stored;

/// The most ranks a topology may have.
pub const MAX_RANKS: usize = 1 << 20;
/// The most links a topology may have: they are held in memory.
pub const MAX_LINKS: usize = 1 << 24;

/// What follows from a spec, besides the sizes of the grid.
#[derive(Debug, Clone, PartialEq)]
enum Family {
    Ring,
    Torus,
    Mesh,
    TwistedTorus,
    HyperX,
    HammingMesh(Boards),
    Hypercube,
    TwistedHypercube,
    Switch,
    /// How many are below each switch, and how much less bandwidth leads up from it, both from the top down.
    FatTree(Vec<usize>, Vec<f64>),
    Hosts,
    /// Its name.
    Graph(String),
}

/// A network. Its [`fmt::Display`] is its spec, which [`Topology::parse`] reads; links are not part of the spec but of
/// the serialised form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Topology {
    family: Family,
    ranks: usize,
    nodes: usize,
    per_host: usize,
    dimensions: Vec<usize>,
    links: Vec<Link>,
    routing: Routing,
}

/// Families.
impl Topology {
    /// A grid of ranks alone.
    fn grid(family: Family, sizes: &[usize], links: Vec<Link>) -> Topology {
        let ranks = sizes.iter().product();
        Topology { dimensions: sizes.to_vec(), ..Topology::plain(family, ranks, ranks, links) }
    }

    /// Ranks that form no grid.
    fn plain(family: Family, ranks: usize, nodes: usize, links: Vec<Link>) -> Topology {
        let routing = Routing::default();
        Topology { family, ranks, nodes, per_host: 1, dimensions: Vec::new(), links, routing }
    }

    /// A ring of `n` ranks: a torus of one dimension.
    pub fn ring(n: usize) -> Result<Topology, TopologyError> {
        check_size(&[n], 2, || format!("ring:{n}"))?;
        Ok(Topology { family: Family::Ring, ..Topology::torus(&[n])? })
    }

    /// A torus with these sizes, one ring per dimension. A dimension of size 2 has two parallel links each way, one
    /// for each port; a dimension of size 1 has none.
    pub fn torus(sizes: &[usize]) -> Result<Topology, TopologyError> {
        check_grid(sizes, 2 * sizes.len(), "torus")?;
        let neighbour = |rank, dimension, up| torus::neighbour(sizes, rank, dimension, up);
        Ok(Topology::grid(Family::Torus, sizes, grid::links(sizes, neighbour)))
    }

    /// A torus without the cables around its ends.
    pub fn mesh(sizes: &[usize]) -> Result<Topology, TopologyError> {
        check_grid(sizes, 2 * sizes.len(), "mesh")?;
        let neighbour = |rank, dimension, up| mesh::neighbour(sizes, rank, dimension, up);
        Ok(Topology::grid(Family::Mesh, sizes, grid::links(sizes, neighbour)))
    }

    /// A torus of which one dimension is twice as long as the other one, around which one comes back half the long one
    /// further.
    pub fn twisted_torus(rows: usize, columns: usize) -> Result<Topology, TopologyError> {
        let sizes = [rows, columns];
        check_grid(&sizes, 4, "twisted-torus")?;
        let what = "one dimension must be twice as long as the other one, and that 2 or more";
        let long = twisted_torus::long(&sizes);
        let long = long.ok_or_else(|| unfit(format!("twisted-torus:{rows}x{columns}"), what))?;
        let neighbour =
            |rank, dimension, up| Some(twisted_torus::neighbour(&sizes, long, rank, dimension, up));
        Ok(Topology::grid(Family::TwistedTorus, &sizes, grid::links(&sizes, neighbour)))
    }

    /// Ranks with a link to each one that differs in one coordinate only.
    pub fn hyperx(sizes: &[usize]) -> Result<Topology, TopologyError> {
        check_grid(sizes, 0, "hyperx")?;
        check_grid(sizes, hyperx::degree(sizes), "hyperx")?;
        Ok(Topology::grid(Family::HyperX, sizes, hyperx::links(sizes)))
    }

    /// So many boards (rows, columns), each a mesh of `board` ranks, whose ends are joined by a tree for every row and
    /// column of ranks.
    pub fn hamming_mesh(board: [usize; 2], count: [usize; 2]) -> Result<Topology, TopologyError> {
        let boards = Boards { board, count };
        check_size(&[board, count].concat(), 8, || parse::boards(&boards))?;
        let grid = Topology::grid(Family::HammingMesh(boards), &boards.grid(), boards.links());
        Ok(Topology { nodes: boards.nodes(), ..grid })
    }

    /// 2^`dimensions` ranks with a link to each one whose number differs in one bit.
    pub fn hypercube(dimensions: usize) -> Result<Topology, TopologyError> {
        let sizes = cube(dimensions, 1, || format!("hypercube:{dimensions}"))?;
        Ok(Topology::grid(Family::Hypercube, &sizes, hypercube::links(dimensions, false)))
    }

    /// A hypercube of 3 or more dimensions, two of whose cables are exchanged so that its diameter is one less.
    pub fn twisted_hypercube(dimensions: usize) -> Result<Topology, TopologyError> {
        let sizes = cube(dimensions, 3, || format!("twisted-hypercube:{dimensions}"))?;
        Ok(Topology::grid(Family::TwistedHypercube, &sizes, hypercube::links(dimensions, true)))
    }

    /// `n` ranks with one cable each to a switch that can forward all of them at full bandwidth.
    pub fn switch(n: usize) -> Result<Topology, TopologyError> {
        let ranks = check_size(&[n], 2, || format!("switch:{n}"))?;
        Ok(Topology::plain(Family::Switch, ranks, ranks + 1, switch::links(ranks)))
    }

    /// Levels of switches with so many below each, from the top down; the last size is that of ranks. `ratios` say how
    /// many times as much bandwidth leads into a switch from below as leads up from it, for every level but the highest,
    /// from the top down; one ratio is for all, and none are 1.
    pub fn fat_tree(sizes: &[usize], ratios: &[f64]) -> Result<Topology, TopologyError> {
        let spec = || parse::fat_tree(sizes, ratios);
        let malformed = || TopologyError::Malformed { spec: spec(), example: parse::example("fattree") };
        let levels = sizes.len().checked_sub(1).ok_or_else(malformed)?;
        let ranks = check_size(sizes, 2 * sizes.len(), spec)?;
        let ratios = match *ratios {
            [] => vec![1.0; levels],
            [one] => vec![one; levels],
            ref each => each.to_vec(),
        };
        if ratios.len() != levels {
            return Err(unfit(
                spec(),
                "there is one ratio for all levels of switches below the highest, or one for each",
            ));
        }
        if !ratios.iter().all(|ratio| fat_tree::RATIOS.contains(ratio)) {
            return Err(unfit(
                spec(),
                "bandwidth up is at most that from below, and at least a millionth of it",
            ));
        }
        let links = fat_tree::links(sizes, &ratios);
        Ok(Topology::plain(Family::FatTree(sizes.to_vec(), ratios), ranks, fat_tree::nodes(sizes), links))
    }

    /// So many hosts of `per_host` ranks each, which share their host's memory and its cable to a switch.
    pub fn hosts(hosts: usize, per_host: usize) -> Result<Topology, TopologyError> {
        let ranks = check_size(&[hosts, per_host], 4, || format!("hosts:{hosts}x{per_host}"))?;
        let (nodes, links) = (ranks + hosts + 1, hosts::links(hosts, per_host));
        Ok(Topology { per_host, ..Topology::plain(Family::Hosts, ranks, nodes, links) })
    }

    /// Any graph: the ranks are its first nodes. Its name becomes part of the spec, `graph:name`, but only the links say
    /// what it is. Every rank must reach every other one.
    pub fn from_links(
        name: &str,
        ranks: usize,
        nodes: usize,
        links: Vec<Link>,
    ) -> Result<Topology, TopologyError> {
        graph::check(name, ranks, nodes, &links)?;
        Ok(Topology::plain(Family::Graph(name.to_owned()), ranks, nodes, links))
    }

    /// The graph with a grid that algorithms take for a torus, such as that of a torus of which a cable has failed. Its
    /// links stay as they are. An empty one is none.
    pub fn with_dimensions(self, sizes: &[usize]) -> Result<Topology, TopologyError> {
        let wrong = |what: String| Err(TopologyError::Graph { spec: self.spec(), what });
        if !matches!(self.family, Family::Graph(_)) {
            return wrong("its grid is given; choose that of a graph".to_owned());
        }
        let ranks = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        if !sizes.is_empty() && ranks != Some(self.ranks) {
            let sizes = parse::join(sizes);
            return wrong(format!("a grid of {sizes} is not one of its {} ranks", self.ranks));
        }
        Ok(Topology { dimensions: sizes.to_vec(), ..self })
    }

    /// Reads a spec: `ring:8`, `torus:4x4x2`, `mesh:4x4`, `twisted-torus:8x4`, `hyperx:4x4`, `hammingmesh:2x2:4x4`,
    /// `hypercube:4`, `twisted-hypercube:3`, `switch:16`, `fattree:4x8`, `fattree:4x8:2` or `hosts:2x4`, each with a
    /// routing if wanted, as in `torus:4x4,routing=single-path`.
    pub fn parse(spec: &str) -> Result<Topology, TopologyError> {
        parse::topology(spec)
    }
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

    /// The same wiring with memory of `capacity` times the network's bandwidth, and with so much extra latency on every
    /// cable between hosts; `None` leaves them alone. Without effect where every rank has its own cable.
    pub fn with_hosts(
        self,
        capacity: Option<f64>,
        extra_latency: Option<Seconds>,
    ) -> Result<Topology, TopologyError> {
        link::check_relative(capacity.unwrap_or(1.0), extra_latency.unwrap_or(0.0))?;
        let memory = if self.family == Family::Hosts { 2 * self.ranks } else { usize::MAX };
        self.map_links(|id, link| match id < memory {
            true if memory < usize::MAX => link.capacity = capacity.unwrap_or(link.capacity),
            true => {}
            false => link.extra_latency = extra_latency.unwrap_or(link.extra_latency),
        })
    }

    /// The same wiring with other properties of links: whatever `change` makes of each. Where they lead stays.
    pub fn map_links(mut self, mut change: impl FnMut(LinkId, &mut Link)) -> Result<Topology, TopologyError> {
        for (id, link) in self.links.iter_mut().enumerate() {
            let Link { source, target, .. } = *link;
            change(id, link);
            (link.source, link.target) = (source, target);
            link.check()?;
        }
        Ok(self)
    }

    /// The same wiring with other routes.
    pub fn with_routing(self, routing: Routing) -> Result<Topology, TopologyError> {
        if routing == Routing::DimensionOrdered && !self.is_ordered() {
            return Err(TopologyError::Unordered { spec: self.spec(), routing });
        }
        Ok(Topology { routing, ..self })
    }

    /// Which shortest paths bytes take.
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

    /// How many ranks share a host's memory, rank `r` that of host `r / per_host`; 1 where each is on its own.
    pub fn per_host(&self) -> usize {
        self.per_host
    }

    /// The sizes of the grid that the ranks form, which algorithms take for a torus; a ring has one, and switches, fat
    /// trees and hosts have none, nor have graphs unless told. Not every grid is cabled as a torus: see
    /// [`Topology::is_torus`].
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// Whether it is a ring or torus and so looks the same from every rank.
    pub fn is_torus(&self) -> bool {
        matches!(self.family, Family::Ring | Family::Torus)
    }

    /// Whether ports are cables between ranks: from the upper port of one to the lower port of its neighbour, where there
    /// is a neighbour.
    pub fn has_cabled_ports(&self) -> bool {
        self.is_torus() || matches!(self.family, Family::Mesh | Family::TwistedTorus)
    }

    /// Whether ranks that differ in one coordinate reach each other by links of that dimension.
    fn is_ordered(&self) -> bool {
        let other = matches!(self.family, Family::TwistedTorus | Family::TwistedHypercube | Family::Graph(_));
        !self.dimensions.is_empty() && !other
    }

    /// The text that [`Topology::parse`] makes this wiring of; a graph's is only its name.
    pub fn spec(&self) -> String {
        let sizes = || parse::join(&self.dimensions);
        let wiring = match &self.family {
            Family::Ring => format!("ring:{}", self.ranks),
            Family::Torus => format!("torus:{}", sizes()),
            Family::Mesh => format!("mesh:{}", sizes()),
            Family::TwistedTorus => format!("twisted-torus:{}", sizes()),
            Family::HyperX => format!("hyperx:{}", sizes()),
            Family::HammingMesh(boards) => parse::boards(boards),
            Family::Hypercube => format!("hypercube:{}", self.dimensions.len()),
            Family::TwistedHypercube => format!("twisted-hypercube:{}", self.dimensions.len()),
            Family::Switch => format!("switch:{}", self.ranks),
            Family::FatTree(sizes, ratios) => parse::fat_tree(sizes, ratios),
            Family::Hosts => format!("hosts:{}x{}", self.ranks / self.per_host, self.per_host),
            Family::Graph(name) => format!("graph:{name}"),
        };
        match self.routing {
            Routing::Minimal => wiring,
            routing => format!("{wiring},routing={routing}"),
        }
    }

    /// The link by which `port` leaves `rank`, where there is one. On grids port `2d` leads to the neighbour above in
    /// dimension `d`, or towards it, and `2d + 1` to the one below; over the border of a mesh there is none. Behind a
    /// switch, on fat trees and hosts every port is the uplink. In a graph without a grid the ports of a rank are its
    /// links in turn.
    pub fn port_link(&self, rank: Rank, port: Port) -> Option<LinkId> {
        if rank >= self.ranks {
            return None;
        }
        let (sizes, dimension, up) = (&self.dimensions, port / 2, port.is_multiple_of(2));
        match &self.family {
            Family::Ring | Family::Torus => torus::port_link(sizes, rank, port),
            Family::TwistedTorus => (port < 4).then_some(4 * rank + port),
            Family::HyperX => hyperx::port_link(sizes, rank, port),
            Family::Hypercube | Family::TwistedHypercube => hypercube::port_link(sizes.len(), rank, port),
            Family::Mesh | Family::HammingMesh(_) if dimension >= sizes.len() => None,
            Family::Mesh => self.link_to(rank, mesh::neighbour(sizes, rank, dimension, up)?, up),
            Family::HammingMesh(boards) => self.link_to(rank, boards.neighbour(rank, dimension, up)?, up),
            Family::Switch | Family::FatTree(..) | Family::Hosts => Some(switch::uplink(rank)),
            Family::Graph(_) => {
                let own = (0..self.links.len()).filter(|id| self.links[*id].source == rank);
                if sizes.is_empty() {
                    let own: Vec<LinkId> = own.collect();
                    return own.get(port % own.len().max(1)).copied();
                }
                let neighbour =
                    (dimension < sizes.len()).then(|| torus::neighbour(sizes, rank, dimension, up))??;
                let mut there = own.filter(|id| self.links[*id].target == neighbour);
                if up {
                    there.next()
                } else {
                    there.last()
                }
            }
        }
    }

    /// The first link from a rank to its neighbour, or the last one, where links are in the order of their sources.
    fn link_to(&self, rank: Rank, neighbour: NodeId, first: bool) -> Option<LinkId> {
        let start = self.links.partition_point(|link| link.source < rank);
        let own = self.links[start..].iter().take_while(|link| link.source == rank);
        let mut there = own.enumerate().filter(|(_, link)| link.target == neighbour).map(|(i, _)| start + i);
        if first {
            there.next()
        } else {
            there.last()
        }
    }

    /// The first port by which a cable of a grid leads from `source` to its neighbour `destination`.
    pub fn port_to(&self, source: Rank, destination: Rank) -> Option<Port> {
        let ends = |port| self.port_link(source, port).map(|link| self.links[link].target);
        (0..2 * self.dimensions.len()).find(|port| ends(*port) == Some(destination))
    }

    /// The place of `rank` on the grid, one coordinate per dimension; empty where there is none.
    pub fn coordinates(&self, rank: Rank) -> Vec<usize> {
        grid::coordinates(&self.dimensions, rank)
    }

    /// The rank at these coordinates, taken modulo the sizes; the inverse of [`Topology::coordinates`] on grids, and
    /// `None` where the number of coordinates is not that of the dimensions or there is no grid.
    pub fn rank_at(&self, coordinates: &[usize]) -> Option<Rank> {
        let fits = !self.dimensions.is_empty() && coordinates.len() == self.dimensions.len();
        fits.then(|| grid::rank_at(&self.dimensions, coordinates))
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec())
    }
}

/// How many ranks these sizes make, each of which accounts for `links` links at most.
fn check_size(sizes: &[usize], links: usize, spec: impl Fn() -> String) -> Result<usize, TopologyError> {
    if sizes.contains(&0) {
        return Err(TopologyError::Zero(spec()));
    }
    let ranks = sizes
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size))
        .filter(|ranks| *ranks <= MAX_RANKS)
        .ok_or_else(|| TopologyError::TooLarge(spec()))?;
    match ranks.checked_mul(links) {
        Some(links) if links <= MAX_LINKS => Ok(ranks),
        _ => Err(TopologyError::TooManyLinks(spec())),
    }
}

fn check_grid(sizes: &[usize], links: usize, family: &str) -> Result<usize, TopologyError> {
    let spec = || format!("{family}:{}", parse::join(sizes));
    if sizes.is_empty() {
        return Err(TopologyError::Malformed { spec: spec(), example: parse::example(family) });
    }
    check_size(sizes, links, spec)
}

/// The grid of a hypercube of `least` dimensions or more.
fn cube(dimensions: usize, least: usize, spec: impl Fn() -> String) -> Result<Vec<usize>, TopologyError> {
    if dimensions < least {
        return Err(unfit(
            spec(),
            if least == 1 { "it needs a dimension" } else { "it needs 3 dimensions or more" },
        ));
    }
    if dimensions > MAX_RANKS.ilog2() as usize {
        return Err(TopologyError::TooLarge(spec()));
    }
    let sizes = vec![2; dimensions];
    check_size(&sizes, dimensions, spec)?;
    Ok(sizes)
}

fn unfit(spec: String, what: &'static str) -> TopologyError {
    let example = parse::example(spec.split(':').next().unwrap_or_default());
    TopologyError::Sizes { spec, what, example }
}

#[cfg(test)]
mod tests;
