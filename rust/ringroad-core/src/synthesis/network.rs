//! The ranks of a topology and what joins them, as synthesis sees it: a digraph with whole numbers for capacities.
//!
//! Links side by side between two ranks are one arc. It carries what the topology's routing lets them carry together:
//! all links the same share, so that the slowest of them counts, or where each pair has one path the first alone.

use std::ops::Range;
use std::sync::Arc as Shared;

use crate::schedule::{Axis, Group, Motion, Slice};
use crate::topology::{Link, Topology};
use crate::units::{Port, Rank};

/// What joins two neighbours, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    /// Where it starts.
    pub source: Rank,
    /// Where it ends.
    pub target: Rank,
    /// The first port by which it leaves.
    pub port: Port,
    /// How many units of bandwidth it has.
    pub capacity: u64,
}

/// Ranks, and arcs between those that are neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    ranks: usize,
    /// Ranks, and behind them switches and memories where these are part of it.
    nodes: usize,
    /// By source, then as the links are.
    arcs: Vec<Arc>,
    starts: Vec<usize>,
    /// The arcs that end at each rank, in the order of the arcs.
    incoming: Vec<Vec<usize>>,
    /// Bytes per second of one unit of capacity.
    unit: f64,
    /// Of the grid that the ranks form, if they do.
    dimensions: Vec<usize>,
}

/// The largest denominator that capacities relative to the smallest one may have; others are rounded down.
const FINEST: u64 = 1000;

impl Network {
    /// What joins the ranks of a topology directly. Memories and switches, and the links to them, are left out.
    pub fn of(topology: &Topology) -> Network {
        Network::among(topology, topology.ranks())
    }

    /// The same with switches and memories, which pass on what they are given.
    pub fn with_switches(topology: &Topology) -> Network {
        Network::among(topology, topology.nodes())
    }

    /// What joins the first so many nodes.
    fn among(topology: &Topology, nodes: usize) -> Network {
        let mut links: Vec<(Rank, Port, Rank, f64)> = Vec::new();
        for (port, link) in ports(topology).into_iter().zip(topology.links()) {
            if link.source.max(link.target) < nodes {
                links.push((link.source, port, link.target, link.bytes_per_second()));
            }
        }
        // Links of a rank stay in their order.
        links.sort_by_key(|link| link.0);
        let single = topology.routing().takes_one_path();
        let mut bundles: Vec<(Arc, f64)> = Vec::new();
        let mut first = 0;
        for (source, port, target, speed) in links {
            if bundles.get(first).is_some_and(|(arc, _)| arc.source != source) {
                first = bundles.len();
            }
            match bundles[first..].iter_mut().find(|(arc, _)| arc.target == target) {
                // `capacity` counts the links for now, and the slowest one's speed stands beside it.
                Some((arc, slowest)) if !single => {
                    arc.capacity += 1;
                    *slowest = slowest.min(speed);
                }
                Some(_) => {}
                None => bundles.push((Arc { source, target, port, capacity: 1 }, speed)),
            }
        }
        Network::bundled(topology, nodes, bundles)
    }

    /// Of arcs that count their links, each with the speed of its slowest.
    fn bundled(topology: &Topology, nodes: usize, bundles: Vec<(Arc, f64)>) -> Network {
        let slowest = bundles.iter().map(|(_, speed)| *speed).fold(f64::INFINITY, f64::min);
        let whole = |parts: u64| {
            let times = |speed: &f64| speed / slowest * parts as f64;
            bundles.iter().all(|(_, speed)| (times(speed) - times(speed).round()).abs() < 1e-9 * times(speed))
        };
        let parts = (1..FINEST).find(|parts| whole(*parts)).unwrap_or(FINEST);
        let units = |speed: f64| ((speed / slowest * parts as f64 * (1.0 + 1e-9)).floor() as u64).max(1);
        let arc = |(arc, speed): (Arc, f64)| Arc { capacity: arc.capacity * units(speed), ..arc };
        let arcs = bundles.into_iter().map(arc).collect();
        let unit = slowest / parts as f64;
        Network::indexed(topology.ranks(), nodes, arcs, unit, topology.dimensions().to_vec())
    }

    /// Of arcs by source.
    fn indexed(ranks: usize, nodes: usize, arcs: Vec<Arc>, unit: f64, dimensions: Vec<usize>) -> Network {
        let starts = (0..=nodes).map(|node| arcs.partition_point(|arc| arc.source < node)).collect();
        let mut incoming = vec![Vec::new(); nodes];
        arcs.iter().enumerate().for_each(|(id, arc)| incoming[arc.target].push(id));
        Network { ranks, nodes, arcs, starts, incoming, unit, dimensions }
    }

    /// How many ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// How many ranks, switches and memories.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The arcs, by source, in the order of the links.
    pub fn arcs(&self) -> &[Arc] {
        &self.arcs
    }

    /// Bytes per second of one unit of capacity.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// The numbers of the arcs that leave a rank.
    pub fn outgoing(&self, rank: Rank) -> Range<usize> {
        self.starts[rank]..self.starts[rank + 1]
    }

    /// The numbers of the arcs that end at a rank.
    pub fn incoming(&self, rank: Rank) -> &[usize] {
        &self.incoming[rank]
    }

    /// The most units that leave, or reach, a rank.
    pub fn degree(&self) -> u64 {
        let sum =
            |arcs: &mut dyn Iterator<Item = usize>| arcs.map(|arc| self.arcs[arc].capacity).sum::<u64>();
        let most = |rank| sum(&mut self.outgoing(rank)).max(sum(&mut self.incoming[rank].iter().copied()));
        (0..self.ranks).map(most).max().unwrap_or(0)
    }

    /// The port by which a rank reaches its neighbour.
    pub fn port(&self, source: Rank, target: Rank) -> Option<Port> {
        let arcs = &self.arcs[self.outgoing(source)];
        arcs.iter().find(|arc| arc.target == target).map(|arc| arc.port)
    }

    /// The same arcs the other way round. Ports stay those of the arcs as they were.
    pub fn transposed(&self) -> Network {
        let turned = |arc: &Arc| Arc { source: arc.target, target: arc.source, ..*arc };
        let mut arcs: Vec<Arc> = self.arcs.iter().map(turned).collect();
        // Of all arcs to a rank those that leave by the same port come at the same place.
        arcs.sort_by_key(|arc| (arc.source, arc.port));
        Network::indexed(self.ranks, self.nodes, arcs, self.unit, self.dimensions.clone())
    }

    /// The sizes of the grid that the ranks form, if they do.
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// How many arcs lead from every rank to `goal`, at least; `u32::MAX` where none do.
    pub fn hops_to(&self, goal: Rank) -> Vec<u32> {
        self.hops(goal, |here| self.incoming[here].iter().map(|arc| self.arcs[*arc].source))
    }

    /// How many arcs lead from `start` to every rank, at least; `u32::MAX` where none do.
    pub fn hops_from(&self, start: Rank) -> Vec<u32> {
        self.hops(start, |here| self.arcs[self.outgoing(here)].iter().map(|arc| arc.target))
    }

    /// A rank, and one that it does not reach, if there are such.
    pub fn apart(&self) -> Option<(Rank, Rank)> {
        // Whoever reaches rank 0 reaches all that it reaches.
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

    /// The slice, without its chunks, that the ranks make if all of them look alike: on a grid each moves to any other by
    /// a shift, else by multiplication in a group of which the arcs are generators.
    pub(super) fn symmetry(&self) -> Option<Slice> {
        if self.is_shifted() {
            let axis = |size: &usize| Axis { size: *size, blocks: *size, motion: Motion::Shift };
            return Some(Slice::on_grid(self.dimensions.iter().map(axis).collect(), Vec::new()));
        }
        let group = Group::new(self.permutations()?)?;
        Some(Slice::of_group(Shared::new(group), Vec::new()))
    }

    /// Whether there is a grid on which every rank has the arcs of rank 0, shifted.
    fn is_shifted(&self) -> bool {
        let kinds = |rank: Rank| {
            let mut kinds: Vec<_> = self.outgoing(rank).map(|arc| self.kind(arc)).collect();
            kinds.sort_unstable();
            kinds
        };
        let first = kinds(0);
        !self.dimensions.is_empty() && (1..self.ranks).all(|rank| kinds(rank) == first)
    }

    /// What an arc is like on a grid: how far it leads, by which port, and how much it carries.
    fn kind(&self, arc: usize) -> (usize, Port, u64) {
        let Arc { source, target, port, capacity } = self.arcs[arc];
        let (mut offset, mut stride) = (0, self.ranks);
        for size in &self.dimensions {
            stride /= size;
            offset += (target / stride % size + size - source / stride % size) % size * stride;
        }
        (offset, port, capacity)
    }

    /// Which arcs of other ranks each arc is like, as numbers from 0, if all ranks look alike.
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
        Some(alike)
    }

    /// Where the arcs of rank 0 lead, and those that are alike at every other rank, if there are as many of the same
    /// capacities and each kind is a permutation.
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

/// For every link the port by which it leaves, if it leaves a rank. Without a grid a rank's ports are its links in turn.
/// On a grid they are those of [`Topology::port_link`]; a link that is none of them leaves as a message to its end does.
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

/// The port of the first dimension in which two ranks differ, by which the shorter way around begins.
fn towards(topology: &Topology, source: Rank, target: Rank) -> Port {
    let (sizes, from, to) =
        (topology.dimensions(), topology.coordinates(source), topology.coordinates(target));
    let dimension = (0..sizes.len()).find(|d| from[*d] != to[*d]).unwrap_or(0);
    let up = (to[dimension] + sizes[dimension] - from[dimension]) % sizes[dimension];
    2 * dimension + usize::from(2 * up > sizes[dimension])
}
