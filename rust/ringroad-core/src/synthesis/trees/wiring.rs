//! The wires that bytes take from rank to rank, with memories and switches.

use std::collections::VecDeque;

use crate::synthesis::digraph::{in_units, ports, unit};
use crate::topology::Topology;
use crate::units::{NodeId, Port};

/// Parallel links in one direction.
#[derive(Debug, Clone)]
pub(super) struct WireBundle {
    pub source: NodeId,
    pub target: NodeId,
    /// Their total bandwidth in units of [`WireGraph::unit`].
    pub capacity: u64,
    /// The ports by which they leave, if they leave a rank.
    pub ports: Vec<Port>,
}

/// Nodes, of which the first are ranks, and the wires between them.
#[derive(Debug, Clone)]
pub(super) struct WireGraph {
    pub ranks: usize,
    pub nodes: usize,
    pub wires: Vec<WireBundle>,
    /// Bytes per second of one unit of capacity.
    pub unit: f64,
}

impl WireGraph {
    /// The wires of a topology. Parallel links are one wire, with the bandwidth of all that the topology's routing takes:
    /// with single paths only the first.
    pub fn from_topology(topology: &Topology) -> WireGraph {
        let single = topology.routing().takes_one_path();
        let mut found: Vec<(WireBundle, f64)> = Vec::new();
        let mut from: Vec<Vec<usize>> = vec![Vec::new(); topology.nodes()];
        let mut slowest = f64::INFINITY;
        for (port, link) in ports(topology).into_iter().zip(topology.links()) {
            let speed = link.bytes_per_second();
            slowest = slowest.min(speed);
            let known = from[link.source].iter().find(|wire| found[**wire].0.target == link.target);
            match known.map(|wire| &mut found[*wire]) {
                Some((wire, all)) if !single => {
                    wire.ports.push(port);
                    *all += speed;
                }
                Some(_) => {}
                None => {
                    let (source, target) = (link.source, link.target);
                    from[source].push(found.len());
                    found.push((WireBundle { source, target, capacity: 1, ports: vec![port] }, speed));
                }
            }
        }
        let unit = unit(found.iter().map(|(_, speed)| *speed), slowest);
        let wire = |(wire, speed): (WireBundle, f64)| WireBundle { capacity: in_units(speed, unit), ..wire };
        let wires = found.into_iter().map(wire).collect();
        let (ranks, nodes) = (topology.ranks(), topology.nodes());
        WireGraph { ranks, nodes, wires, unit }
    }

    /// The same wires reversed, with the same numbers.
    pub fn transposed(&self) -> WireGraph {
        let turned =
            |wire: &WireBundle| WireBundle { source: wire.target, target: wire.source, ..wire.clone() };
        WireGraph { wires: self.wires.iter().map(turned).collect(), ..*self }
    }

    /// For every wire, one that leads back with the same capacity; `None` if some wire has none.
    pub fn opposites(&self) -> Option<Vec<usize>> {
        let from = self.from();
        let back = |wire: &WireBundle| {
            let fits = |other: &&usize| {
                let other = &self.wires[**other];
                other.target == wire.source && other.capacity == wire.capacity
            };
            from[wire.target].iter().find(fits).copied()
        };
        self.wires.iter().map(back).collect()
    }

    /// The wires that leave each node.
    pub fn from(&self) -> Vec<Vec<usize>> {
        let mut from = vec![Vec::new(); self.nodes];
        self.wires.iter().enumerate().for_each(|(id, wire)| from[wire.source].push(id));
        from
    }

    /// The smallest number of wires from `start` to every node; `usize::MAX` for nodes that it does not reach.
    pub fn hops_from(&self, from: &[Vec<usize>], start: NodeId) -> Vec<usize> {
        let mut hops = vec![usize::MAX; self.nodes];
        let mut queue = VecDeque::from([start]);
        hops[start] = 0;
        while let Some(here) = queue.pop_front() {
            for next in from[here].iter().map(|wire| self.wires[*wire].target) {
                if hops[next] == usize::MAX {
                    hops[next] = hops[here] + 1;
                    queue.push_back(next);
                }
            }
        }
        hops
    }

    /// Whether the network has nodes other than ranks.
    pub fn has_switches(&self) -> bool {
        self.nodes > self.ranks
    }
}
