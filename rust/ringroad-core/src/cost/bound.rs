//! What a schedule costs at least: enough to see that it cannot be the fastest, without looking for any route.
//!
//! A message takes no fewer hops than there are links on a shortest way, and what it puts on links is its bytes times
//! these hops, however they are spread: the busiest link carries no less than all would if they shared that alike. Less
//! still is known before a schedule is made: its steps, and what must reach the ranks whatever the algorithm.

use super::step::{CostError, ScheduleCost, StepCost, Work};
use crate::collective::Collective;
use crate::schedule::View;
use crate::topology::{Topology, Unreachable};
use crate::units::{NodeId, Seconds};

/// The most ranks of which all distances are kept.
const MOST_RANKS: usize = 1 << 12;
/// Sums in another order differ by less than this: bounds stay below what they bound. They must not by much: what has a
/// bound that is less steep by as much wins for more bytes than there are, and need not be looked at.
const BELOW: f64 = 1.0 - 1e-11;
/// No way leads there.
const NONE: u16 = u16::MAX;

/// What any schedule on a topology is subject to.
#[derive(Debug, Clone)]
pub struct Bounds<'a> {
    topology: &'a Topology,
    /// From each rank to each; ranks in rows.
    hops: Vec<u16>,
    /// The fewest and the most from a rank to another one that it reaches.
    nearest: u16,
    farthest: u16,
    /// What all links carry together: in units of capacity, and in bytes per second.
    capacity: Carried,
    /// What those carry together that end at ranks.
    inlets: Carried,
    /// The least that ends at a rank, and the least that starts at one.
    least: [Carried; 2],
    /// The shortest that a hop takes, and of that the link's own.
    latency: Seconds,
    extra_latency: Seconds,
}

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

    /// What a load of so many vectors takes if all of these links share it.
    fn of(self, vectors: f64) -> (f64, f64) {
        let share = |all: f64| if vectors > 0.0 { vectors / all * BELOW } else { 0.0 };
        (share(self.units), share(self.bytes_per_second))
    }
}

impl<'a> Bounds<'a> {
    /// The bounds of a topology, unless it has too many ranks to keep their distances.
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

    /// What any schedule costs at least that performs `collective` in so many steps, or in some number of them.
    pub fn of_collective(&self, collective: Collective, steps: Option<usize>) -> ScheduleCost {
        let ranks = self.topology.ranks();
        let others = (ranks - 1) as f64;
        // What reaches all ranks together, and what must reach and leave each of them. Reducing to everybody takes as much
        // again as gathering (Patarasuk and Yuan 2009, on bandwidth-optimal allreduce).
        let block = others / ranks as f64;
        let (all, reaches, leaves) = match collective {
            _ if ranks == 1 => (0.0, 0.0, 0.0),
            Collective::Allreduce => (2.0 * others, 1.0, 1.0),
            Collective::ReduceScatter => (others, 0.0, block),
            Collective::Allgather => (others, block, 0.0),
            Collective::Alltoall => (others, block, block),
            Collective::Broadcast { .. } | Collective::Reduce { .. } => (others, 0.0, 0.0),
            Collective::Gather { .. } | Collective::Scatter { .. } => (block, 0.0, 0.0),
        };
        let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
        let ends = larger(self.least[0].of(reaches), self.least[1].of(leaves));
        // In an all-to-all every block goes all the way.
        let hops = match collective {
            Collective::Alltoall => {
                self.hops.iter().filter(|hops| **hops != NONE).map(|hops| f64::from(*hops)).sum()
            }
            _ => 0.0,
        };
        let ways = self.capacity.of(hops / ranks as f64);
        let (link_load, seconds_per_byte) = larger(larger(self.inlets.of(all), ends), ways);
        let count = steps.unwrap_or(usize::from(ranks > 1));
        let rooted = collective.root().is_some();
        let nearest = self.nearest as usize;
        let mut steps = vec![StepCost { messages: 1, ..self.hops(nearest) }; count];
        if let Some(first) = steps.first_mut() {
            // What is to come from the farthest rank may come over ranks in between, a step later each.
            let farthest = if rooted { nearest } else { self.farthest as usize };
            let hops = farthest.saturating_sub((count - 1) * nearest).max(nearest);
            let all = Work { sent: all * BELOW, ..Work::default() };
            *first = StepCost { messages: 1, link_load, seconds_per_byte, all, ..self.hops(hops) };
        }
        ScheduleCost { steps, busiest_link: link_load }
    }

    /// What so many hops in a row take.
    fn hops(&self, hops: usize) -> StepCost {
        let latency = hops as f64 * self.latency * BELOW;
        let extra_latency = hops as f64 * self.extra_latency * BELOW;
        StepCost { hops, latency, extra_latency, ..StepCost::default() }
    }

    /// What a step costs at least as far as links are concerned, where a vector has so many chunks.
    pub(super) fn of_step(&self, view: &View<'_>, step: usize, vector: f64) -> Result<StepCost, CostError> {
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
        let (link_load, seconds_per_byte) = self.capacity.of(load as f64 / vector);
        Ok(StepCost { link_load, seconds_per_byte, ..self.hops(most) })
    }
}

/// How many links each rank is from each.
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

    /// No bound is above what it bounds, whatever counts, on networks of all kinds.
    #[test]
    fn nothing_costs_less() {
        let plain = CostModel { message_latency: 0.3e-6, reduce_cost: 5e-11, ..CostModel::default() };
        let stated = CostModel { bandwidth: Some(1e9), hop_latency: Some(2e-6), ..plain };
        let crowded = CostModel { bandwidth: Some(8e10), cores: Some(2), ..plain };
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
                    let cost = ScheduleCost::of(&schedule, &topology).unwrap();
                    let built = ScheduleCost::at_least(std::slice::from_ref(&schedule), &bounds).unwrap();
                    let early = bounds.of_collective(collective, Some(cost.steps.len()));
                    let any = bounds.of_collective(collective, None);
                    for model in [plain, stated, crowded] {
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
