//! The ranks of a topology and the links between them, as synthesis sees them: a directed graph with whole numbers as
//! capacities.
//!
//! Parallel links between two ranks are one arc, with the sum of their bandwidths: routing gives each a share by its
//! bandwidth. If each pair of ranks has one path, only the first link counts.

use std::ops::Range;
use std::sync::Arc as Shared;

use crate::schedule::{Axis, Group, Motion, Slice};
use crate::topology::{Link, Topology};
use crate::units::{Port, Rank};

/// The links from a rank to a neighbour, in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arc {
    /// The rank where it starts.
    pub source: Rank,
    /// The rank where it ends.
    pub target: Rank,
    /// The port of its first link.
    pub port: Port,
    /// Its bandwidth in units of [`Digraph::unit`], rounded down where units are too coarse.
    pub capacity: u64,
    /// Its bandwidth in bytes per second, not rounded.
    pub bandwidth: f64,
}

/// Ranks, and the arcs between neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct Digraph {
    ranks: usize,
    /// The number of ranks, switches and memories. Ranks come first; the others are counted only if the network
    /// includes them.
    nodes: usize,
    /// Sorted by source; arcs of one source are in the order of the links.
    arcs: Vec<Arc>,
    starts: Vec<usize>,
    /// The arcs that end at each rank, in the order of the arcs.
    incoming: Vec<Vec<usize>>,
    /// Bytes per second of one unit of capacity.
    unit: f64,
    /// The sizes of the grid that the ranks form; empty if they form none.
    dimensions: Vec<usize>,
}

/// The largest denominator of bandwidths as multiples of the smallest one. Bandwidths that need a larger one are
/// rounded down.
const FINEST: u64 = 1000;

/// The largest fraction of the bandwidth `slowest` of which all `bandwidths` are multiples, or the smallest fraction.
pub(super) fn unit(bandwidths: impl Iterator<Item = f64> + Clone, slowest: f64) -> f64 {
    let whole = |parts: &u64| {
        let mut times = bandwidths.clone().map(|bandwidth| bandwidth / slowest * *parts as f64);
        times.all(|times| (times - times.round()).abs() < 1e-9 * times)
    };
    slowest / (1..FINEST).find(whole).unwrap_or(FINEST) as f64
}

/// A bandwidth in whole units, at least one.
pub(super) fn in_units(bandwidth: f64, unit: f64) -> u64 {
    ((bandwidth / unit * (1.0 + 1e-9)).floor() as u64).max(1)
}

impl Digraph {
    /// The network of a topology's ranks and the links between them, without switches, memories and their links.
    pub fn from_topology(topology: &Topology) -> Digraph {
        Digraph::among(topology, topology.ranks())
    }

    /// The network of a topology with its switches and memories, which forward what they receive.
    pub fn with_switches(topology: &Topology) -> Digraph {
        Digraph::among(topology, topology.nodes())
    }

    /// The network of the first `nodes` nodes.
    fn among(topology: &Topology, nodes: usize) -> Digraph {
        let mut links: Vec<(Rank, Port, Rank, f64)> = Vec::new();
        for (port, link) in ports(topology).into_iter().zip(topology.links()) {
            if link.source.max(link.target) < nodes {
                links.push((link.source, port, link.target, link.bytes_per_second()));
            }
        }
        // The sort is stable: links of a rank keep their order.
        links.sort_by_key(|link| link.0);
        let single = topology.routing().takes_one_path();
        let slowest = links.iter().map(|(.., speed)| *speed).fold(f64::INFINITY, f64::min);
        let mut arcs: Vec<Arc> = Vec::new();
        let mut first = 0;
        for (source, port, target, bandwidth) in links {
            if arcs.get(first).is_some_and(|arc| arc.source != source) {
                first = arcs.len();
            }
            match arcs[first..].iter_mut().find(|arc| arc.target == target) {
                Some(arc) if !single => arc.bandwidth += bandwidth,
                Some(_) => {}
                None => arcs.push(Arc { source, target, port, capacity: 1, bandwidth }),
            }
        }
        let unit = unit(arcs.iter().map(|arc| arc.bandwidth), slowest);
        arcs.iter_mut().for_each(|arc| arc.capacity = in_units(arc.bandwidth, unit));
        Digraph::indexed(topology.ranks(), nodes, arcs, unit, topology.dimensions().to_vec())
    }

    /// Makes a network of arcs that are sorted by source.
    fn indexed(ranks: usize, nodes: usize, arcs: Vec<Arc>, unit: f64, dimensions: Vec<usize>) -> Digraph {
        let starts = (0..=nodes).map(|node| arcs.partition_point(|arc| arc.source < node)).collect();
        let mut incoming = vec![Vec::new(); nodes];
        arcs.iter().enumerate().for_each(|(id, arc)| incoming[arc.target].push(id));
        Digraph { ranks, nodes, arcs, starts, incoming, unit, dimensions }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The number of ranks, switches and memories.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// All arcs, sorted by source; arcs of one source are in the order of the links.
    pub fn arcs(&self) -> &[Arc] {
        &self.arcs
    }

    /// Bytes per second of one unit of capacity.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// The bandwidth of every arc in units of capacity, not rounded to whole ones.
    pub fn capacities(&self) -> Vec<f64> {
        self.arcs.iter().map(|arc| arc.bandwidth / self.unit).collect()
    }

    /// The numbers of the arcs that leave a rank.
    pub fn outgoing(&self, rank: Rank) -> Range<usize> {
        self.starts[rank]..self.starts[rank + 1]
    }

    /// The numbers of the arcs that end at a rank.
    pub fn incoming(&self, rank: Rank) -> &[usize] {
        &self.incoming[rank]
    }

    /// The largest total capacity of the arcs that leave one rank, or that end at one rank.
    pub fn degree(&self) -> u64 {
        let sum =
            |arcs: &mut dyn Iterator<Item = usize>| arcs.map(|arc| self.arcs[arc].capacity).sum::<u64>();
        let most = |rank| sum(&mut self.outgoing(rank)).max(sum(&mut self.incoming[rank].iter().copied()));
        (0..self.ranks).map(most).max().unwrap_or(0)
    }

    /// The port by which a rank reaches a neighbour; `None` if no arc leads there.
    pub fn port(&self, source: Rank, target: Rank) -> Option<Port> {
        let arcs = &self.arcs[self.outgoing(source)];
        arcs.iter().find(|arc| arc.target == target).map(|arc| arc.port)
    }

    /// The same network with all arcs reversed. Each arc keeps its port.
    pub fn transposed(&self) -> Digraph {
        let turned = |arc: &Arc| Arc { source: arc.target, target: arc.source, ..*arc };
        let mut arcs: Vec<Arc> = self.arcs.iter().map(turned).collect();
        // Where all ranks look alike, arcs of one kind then have the same position at every rank.
        arcs.sort_by_key(|arc| (arc.source, arc.port));
        Digraph::indexed(self.ranks, self.nodes, arcs, self.unit, self.dimensions.clone())
    }

    /// The sizes of the grid that the ranks form; empty if they form none.
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// The smallest number of arcs from each node to `goal`; `u32::MAX` for nodes that do not reach it.
    pub fn hops_to(&self, goal: Rank) -> Vec<u32> {
        self.hops(goal, |here| self.incoming[here].iter().map(|arc| self.arcs[*arc].source))
    }

    /// The smallest number of arcs from `start` to each node; `u32::MAX` for nodes that it does not reach.
    pub fn hops_from(&self, start: Rank) -> Vec<u32> {
        self.hops(start, |here| self.arcs[self.outgoing(here)].iter().map(|arc| arc.target))
    }

    /// A pair of ranks of which the first does not reach the second; `None` if all ranks reach each other.
    pub fn apart(&self) -> Option<(Rank, Rank)> {
        // If every rank reaches rank 0, and rank 0 reaches every rank, all reach each other.
        let beyond = |hops: Vec<u32>| (0..self.ranks).find(|rank| hops[*rank] == u32::MAX);
        let from = beyond(self.hops_to(0)).map(|from| (from, 0));
        from.or_else(|| beyond(self.hops_from(0)).map(|to| (0, to)))
    }

    fn hops<N: Iterator<Item = Rank>>(&self, start: Rank, neighbours: impl Fn(Rank) -> N) -> Vec<u32> {
        let mut hops = vec![u32::MAX; self.nodes];
        let mut queue = vec![start];
        hops[start] = 0;
        let mut next = 0;
        while let Some(&here) = queue.get(next) {
            next += 1;
            for near in neighbours(here) {
                if hops[near] == u32::MAX {
                    hops[near] = hops[here] + 1;
                    queue.push(near);
                }
            }
        }
        hops
    }

    /// The slice, without its chunks, that describes the symmetry if all ranks look alike. On a grid, shifts take each
    /// rank to any other; elsewhere, multiplications in a group of which the arcs are generators do.
    pub(super) fn symmetry(&self) -> Option<Slice> {
        if self.is_shifted() {
            let axis = |size: &usize| Axis { size: *size, blocks: *size, motion: Motion::Shift };
            return Some(Slice::on_grid(self.dimensions.iter().map(axis).collect(), Vec::new()));
        }
        let group = Group::new(self.permutations()?)?;
        Some(Slice::from_group(Shared::new(group), Vec::new()))
    }

    /// Whether the ranks form a grid on which every rank has the arcs of rank 0, shifted.
    fn is_shifted(&self) -> bool {
        let kinds = |rank: Rank| {
            let mut kinds: Vec<_> = self.outgoing(rank).map(|arc| self.kind(arc)).collect();
            kinds.sort_unstable();
            kinds
        };
        let first = kinds(0);
        !self.dimensions.is_empty() && (1..self.ranks).all(|rank| kinds(rank) == first)
    }

    /// The kind of an arc on a grid: its offset, its port and its capacity.
    fn kind(&self, arc: usize) -> (usize, Port, u64) {
        let Arc { source, target, port, capacity, .. } = self.arcs[arc];
        let (mut offset, mut stride) = (0, self.ranks);
        for size in &self.dimensions {
            stride /= size;
            offset += (target / stride % size + size - source / stride % size) % size * stride;
        }
        (offset, port, capacity)
    }

    /// The kind of each arc, as a number from 0, if all ranks look alike; every rank has one arc of each kind, and arcs of
    /// one kind have the same bandwidth. `None` otherwise.
    pub(super) fn alike(&self) -> Option<Vec<usize>> {
        if self.nodes > self.ranks {
            return None;
        }
        let mut alike = vec![0; self.arcs.len()];
        let shifted = self.is_shifted();
        if !shifted {
            Group::new(self.permutations()?)?;
        }
        for rank in 0..self.ranks {
            let mut own: Vec<usize> = self.outgoing(rank).collect();
            if shifted {
                own.sort_by_key(|arc| self.kind(*arc));
            }
            own.into_iter().enumerate().for_each(|(number, arc)| alike[arc] = number);
        }
        // Capacities may be rounded; two arcs of one kind must not differ even so.
        let mut of_kind = vec![None; self.outgoing(0).len()];
        let same =
            |(arc, kind): (&Arc, &usize)| *of_kind[*kind].get_or_insert(arc.bandwidth) == arc.bandwidth;
        let same = self.arcs.iter().zip(&alike).all(same);
        same.then_some(alike)
    }

    /// For each arc of rank 0, the targets of the corresponding arc of every rank. `None` unless all ranks have equally
    /// many arcs with the same ports and capacities.
    fn permutations(&self) -> Option<Vec<Vec<Rank>>> {
        let first = &self.arcs[self.outgoing(0)];
        let alike = |rank: Rank| {
            let own = &self.arcs[self.outgoing(rank)];
            own.len() == first.len()
                && own.iter().zip(first).all(|(a, b)| (a.port, a.capacity) == (b.port, b.capacity))
        };
        if !(0..self.ranks).all(alike) {
            return None;
        }
        let along =
            |index: usize| (0..self.ranks).map(|r| self.arcs[self.starts[r] + index].target).collect();
        Some((0..first.len()).map(along).collect())
    }
}

/// The port of every link: by which it leaves its rank. Without a grid, a rank's ports count its links in turn. On a
/// grid, ports are those of [`Topology::port_link`]; any other link between ranks has the port that a message to its
/// end would take.
pub(super) fn ports(topology: &Topology) -> Vec<Port> {
    let (links, shape) = (topology.links(), topology.dimensions().len());
    let mut ports = vec![None; links.len()];
    let mut used = vec![0; topology.nodes()];
    for rank in 0..if shape > 0 { topology.ranks() } else { 0 } {
        for port in (0..2 * shape).rev() {
            let link = topology.port_link(rank, port).filter(|link| links[*link].source == rank);
            link.into_iter().for_each(|link| ports[link] = Some(port));
        }
    }
    let turn = |(link, port): (&Link, Option<Port>)| {
        let next = used[link.source];
        used[link.source] += 1;
        let inside = shape > 0 && link.source.max(link.target) < topology.ranks();
        port.unwrap_or_else(|| if inside { towards(topology, link.source, link.target) } else { next })
    };
    links.iter().zip(ports).map(turn).collect()
}

/// The port of the first dimension in which two ranks differ, in the direction of the shorter way around.
fn towards(topology: &Topology, source: Rank, target: Rank) -> Port {
    let (sizes, from, to) =
        (topology.dimensions(), topology.coordinates(source), topology.coordinates(target));
    let dimension = (0..sizes.len()).find(|d| from[*d] != to[*d]).unwrap_or(0);
    let up = (to[dimension] + sizes[dimension] - from[dimension]) % sizes[dimension];
    2 * dimension + usize::from(2 * up > sizes[dimension])
}
