//! Lower bounds of the cost of a schedule, which show that it cannot be the fastest without finding any route.
//!
//! A message takes at least as many hops as a shortest path has links, and it loads links with its bytes times these
//! hops, however they are spread. The busiest link carries at least as much as each link would if all shared this load
//! equally. Before a schedule is made there is a weaker bound, from its number of steps and from what must reach the
//! ranks whatever the algorithm.

use super::step::{CostError, ScheduleCost, StepCost, StepTotals};
use crate::collective::Collective;
use crate::schedule::View;
use crate::topology::{Topology, Unreachable};
use crate::units::{NodeId, Seconds};

/// The most ranks for which all distances are stored.
const MOST_RANKS: usize = 1 << 12;
/// The factor by which bounds are reduced, so that they stay below the cost although sums in another order round
/// differently. It must be close to 1: a candidate whose bound is flatter than the best line by this factor only would
/// win only for more bytes than a call can have, and need not be assessed.
const BELOW: f64 = 1.0 - 1e-11;
/// The distance of ranks between which no path leads.
const NONE: u16 = u16::MAX;

/// The properties of a topology from which lower bounds follow.
#[derive(Debug, Clone)]
pub struct Bounds<'a> {
    topology: &'a Topology,
    /// The hops from each rank to each rank, by source, then by destination.
    hops: Vec<u16>,
    /// The fewest hops from a rank to another rank that it reaches.
    nearest: u16,
    /// The most hops from a rank to another rank that it reaches.
    farthest: u16,
    /// The bandwidth of all links together.
    capacity: Carried,
    /// The bandwidth of all links that end at ranks.
    inlets: Carried,
    /// The least bandwidth into a rank, and the least bandwidth out of a rank.
    least: [Carried; 2],
    /// The least latency of a link, including its extra latency.
    latency: Seconds,
    /// The least extra latency of a link.
    extra_latency: Seconds,
}

/// The bandwidth of several links together: in units of capacity, and in bytes per second.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    units: f64,
    bytes_per_second: f64,
}

impl Carried {
    fn least(a: Carried, b: Carried) -> Carried {
        let (units, bytes_per_second) = (a.units.min(b.units), a.bytes_per_second.min(b.bytes_per_second));
        Carried { units, bytes_per_second }
    }

    /// The load in vectors and the seconds per byte of each of these links if they share a load of `vectors`.
    fn load_of(self, vectors: f64) -> (f64, f64) {
        let share = |all: f64| if vectors > 0.0 { vectors / all * BELOW } else { 0.0 };
        (share(self.units), share(self.bytes_per_second))
    }
}

impl<'a> Bounds<'a> {
    /// The bounds of a topology; `None` where it has no links, or too many ranks to store their distances.
    pub fn new(topology: &'a Topology) -> Option<Bounds<'a>> {
        let ranks = topology.ranks();
        if ranks > MOST_RANKS || topology.links().is_empty() {
            return None;
        }
        let (mut all, mut into, mut ends) =
            (Carried::default(), Carried::default(), vec![[Carried::default(); 2]; ranks]);
        let (mut latency, mut extra_latency) = (f64::INFINITY, f64::INFINITY);
        for link in topology.links() {
            let add = |sum: &mut Carried| {
                sum.units += link.capacity;
                sum.bytes_per_second += link.bytes_per_second();
            };
            add(&mut all);
            if let Some([incoming, _]) = ends.get_mut(link.target) {
                add(incoming);
                add(&mut into);
            }
            if let Some([_, outgoing]) = ends.get_mut(link.source) {
                add(outgoing);
            }
            latency = latency.min(link.seconds());
            extra_latency = extra_latency.min(link.extra_latency);
        }
        let least = |end: usize| ends.iter().map(|ends| ends[end]).reduce(Carried::least).unwrap_or_default();
        let least = [least(0), least(1)];
        let hops = distances(topology);
        let others = || hops.iter().copied().filter(|hops| (1..NONE).contains(hops));
        let (nearest, farthest) = (others().min().unwrap_or(0), others().max().unwrap_or(0));
        let (capacity, inlets) = (all, into);
        Some(Bounds { topology, hops, nearest, farthest, capacity, inlets, least, latency, extra_latency })
    }

    /// The topology.
    pub fn topology(&self) -> &'a Topology {
        self.topology
    }

    /// A lower bound of the cost of any schedule that performs `collective` in `steps` steps, or in any number of them.
    pub fn collective_cost(&self, collective: Collective, steps: Option<usize>) -> ScheduleCost {
        let ranks = self.topology.ranks();
        let others = (ranks - 1) as f64;
        // What must reach all ranks together, and what must reach and leave each of them, as fractions of the
        // message. An allreduce takes twice as much as an allgather (Patarasuk and Yuan 2009, on bandwidth-optimal
        // allreduce).
        let block = others / ranks as f64;
        let (all, reaches, leaves) = match collective {
            _ if ranks == 1 => (0.0, 0.0, 0.0),
            Collective::Allreduce => (2.0 * others, 1.0, 1.0),
            Collective::ReduceScatter => (others, 0.0, block),
            Collective::Allgather => (others, block, 0.0),
            Collective::Alltoall => (others, block, block),
            Collective::Broadcast { .. }
            | Collective::Reduce { .. }
            | Collective::Scan
            | Collective::Exscan => (others, 0.0, 0.0),
            Collective::Gather { .. } | Collective::Scatter { .. } => (block, 0.0, 0.0),
        };
        let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
        let ends = larger(self.least[0].load_of(reaches), self.least[1].load_of(leaves));
        // In an all-to-all every block takes all hops from its source to its target.
        let hops = match collective {
            Collective::Alltoall => {
                self.hops.iter().filter(|hops| **hops != NONE).map(|hops| f64::from(*hops)).sum()
            }
            _ => 0.0,
        };
        let ways = self.capacity.load_of(hops / ranks as f64);
        let (link_load, seconds_per_byte) = larger(larger(self.inlets.load_of(all), ends), ways);
        let count = steps.unwrap_or(usize::from(ranks > 1));
        // Not all ranks need the data of all others.
        let partial = collective.root().is_some() || collective.is_prefix();
        let nearest = self.nearest as usize;
        let mut steps = vec![StepCost { messages: 1, ..self.hops(nearest) }; count];
        if let Some(first) = steps.first_mut() {
            // Data of the farthest rank may come over ranks in between, one step for each of them.
            let farthest = if partial { nearest } else { self.farthest as usize };
            let hops = farthest.saturating_sub((count - 1) * nearest).max(nearest);
            let all = StepTotals { sent: all * BELOW, ..StepTotals::default() };
            *first = StepCost { messages: 1, link_load, seconds_per_byte, all, ..self.hops(hops) };
        }
        ScheduleCost { steps, busiest_link: link_load }
    }

    /// A lower bound of the latencies of a route of `hops` hops.
    fn hops(&self, hops: usize) -> StepCost {
        let latency = hops as f64 * self.latency * BELOW;
        let extra_latency = hops as f64 * self.extra_latency * BELOW;
        StepCost { hops, latency, extra_latency, ..StepCost::default() }
    }

    /// A lower bound of the part of a step's cost that depends on links, for a vector of `vector` chunks.
    pub(super) fn step_cost(&self, view: &View<'_>, step: usize, vector: f64) -> Result<StepCost, CostError> {
        let ranks = self.topology.ranks();
        let (mut most, mut load) = (0, 0);
        for transfer in view.transfers(step) {
            let (source_node, destination) = (transfer.source, transfer.destination);
            let hops = self.hops[source_node * ranks + destination];
            if hops == NONE {
                let (topology, nodes) = (self.topology.spec(), self.topology.nodes());
                return Err(Unreachable { source_node, destination, topology, nodes }.into());
            }
            most = most.max(hops as usize);
            load += hops as usize * transfer.chunks;
        }
        let (link_load, seconds_per_byte) = self.capacity.load_of(load as f64 / vector);
        Ok(StepCost { link_load, seconds_per_byte, ..self.hops(most) })
    }
}

/// The hops from each rank to each rank, by source, then by destination.
fn distances(topology: &Topology) -> Vec<u16> {
    let (ranks, nodes) = (topology.ranks(), topology.nodes());
    let mut next: Vec<Vec<NodeId>> = vec![Vec::new(); nodes];
    topology.links().iter().for_each(|link| next[link.source].push(link.target));
    next.iter_mut().for_each(|targets| {
        targets.sort_unstable();
        targets.dedup();
    });
    let mut all = Vec::with_capacity(ranks * ranks);
    for start in 0..ranks {
        let mut hops = vec![NONE; nodes];
        let mut queue = vec![start];
        hops[start] = 0;
        let mut done = 0;
        while let Some(&node) = queue.get(done) {
            done += 1;
            for &target in &next[node] {
                if hops[target] == NONE {
                    hops[target] = hops[node] + 1;
                    queue.push(target);
                }
            }
        }
        all.extend_from_slice(&hops[..ranks]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::available;
    use crate::cost::CostModel;

    /// No bound is above the cost, with several models, on networks of all kinds.
    #[test]
    fn nothing_costs_less() {
        let plain = CostModel { message_latency: 0.3e-6, reduce_cost: 5e-11, ..CostModel::default() };
        let stated = CostModel { bandwidth: Some(1e9), hop_latency: Some(2e-6), ..plain };
        let oversubscribed = CostModel { bandwidth: Some(8e10), cores: Some(2), ..plain };
        let specs = [
            "switch:6",
            "hosts:2x3",
            "torus:3x4",
            "mesh:2x5",
            "hypercube:4",
            "hyperx:3x4",
            "twisted-torus:6x3",
            "directed-circulant:9:1,2",
            "without(torus:4x4, 0-1)",
        ];
        for topology in specs.map(|spec| Topology::parse(spec).unwrap()) {
            let bounds = Bounds::new(&topology).unwrap();
            for collective in Collective::ALL {
                for member in available(&topology, collective) {
                    let schedule = member.build(&topology, collective).unwrap();
                    let cost = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
                    let built = ScheduleCost::at_least(std::slice::from_ref(&schedule), &bounds).unwrap();
                    let early = bounds.collective_cost(collective, Some(cost.steps.len()));
                    let any = bounds.collective_cost(collective, None);
                    for model in [plain, stated, oversubscribed] {
                        for bytes in [0, 1 << 10, 1 << 30] {
                            let seconds = [&any, &early, &built, &cost].map(|c| model.seconds(c, bytes));
                            let what =
                                format!("{member}: {collective} on {topology}, {bytes} bytes: {seconds:?}");
                            assert!(seconds[..3].iter().all(|bound| *bound <= seconds[3]), "{what}");
                        }
                    }
                    assert_eq!(built.steps.len(), cost.steps.len(), "{member} on {topology}");
                }
            }
        }
    }
}
