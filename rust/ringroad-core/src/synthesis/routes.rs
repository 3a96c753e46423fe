//! One path for each pair of ranks, such that an all-to-all loads links as evenly as any flow does, or nearly so.

use super::alltoall::{concurrent_flow, in_chunks, Concurrent, Demands, Progress, Trip};
use super::{Network, Unsuitable};
use crate::topology::{Routing, RoutingTable, Topology, TopologyError};
use crate::units::{LinkId, Seconds};

/// Routes for a topology, with proof of how good they are.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancedRoutes {
    /// The paths.
    pub table: RoutingTable,
    /// No routes, even if pairs are spread over several paths, have a smaller [`RoutingTable::load`].
    pub bound: Seconds,
}

/// Why there are none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoRoutes {
    /// The graph has no flow.
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    /// There is no such table.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// Finds a flow whose busiest link is at most `1 + gap` times as busy as it must be, as [`concurrent_flow`] does, and rounds
/// it to a path for each pair. Links side by side share their paths. Where single shortest paths are better, they are it.
pub fn balanced_routes(
    topology: &Topology,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<BalancedRoutes, NoRoutes> {
    let (network, flow, bound) = flow(topology, gap, go_on)?;
    let (mut trips, _) = in_chunks(&network, &flow, 1);
    trips.sort_unstable_by_key(|trip| (trip.source, trip.target));
    let mut lanes = Lanes::new(topology, &network);
    let mut trips = trips.iter();
    let table = RoutingTable::new(topology.ranks(), |_, _, path| {
        let arcs = trips.next().map(|trip: &Trip| trip.arcs.iter());
        path.extend(arcs.into_iter().flatten().map(|arc| lanes.take(*arc as usize) as u32));
        Ok::<(), TopologyError>(())
    })?;
    // On few ranks a flow may round worse.
    let shortest = RoutingTable::shortest(topology)?;
    let better = shortest.load(topology) < table.load(topology) * (1.0 - 1e-9);
    Ok(BalancedRoutes { table: if better { shortest } else { table }, bound })
}

/// How long the busiest link takes at least for a byte from every rank to every other one, whatever the routes.
pub fn least_load(
    topology: &Topology,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Seconds, NoRoutes> {
    flow(topology, gap, go_on).map(|(_, _, bound)| bound)
}

/// The flow of one for each pair, and what it proves.
fn flow(
    topology: &Topology,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<(Network, Concurrent, Seconds), NoRoutes> {
    // With all links side by side, whatever routes there are so far.
    let topology = topology.clone().with_routing(Routing::Minimal)?;
    let network = Network::with_switches(&topology);
    let flow = concurrent_flow(&network, &Demands::Uniform, gap, go_on)?;
    let lanes = Lanes::new(&topology, &network);
    let bound = flow.bound / network.unit() * lanes.least_part(&network);
    Ok((network, flow, bound))
}

/// The links of each arc.
struct Lanes<'a> {
    topology: &'a Topology,
    /// By source and target, and where those of each arc begin and end.
    links: Vec<LinkId>,
    ranges: Vec<(usize, usize)>,
    /// How many paths each link carries.
    counts: Vec<u64>,
}

impl<'a> Lanes<'a> {
    fn new(topology: &'a Topology, network: &Network) -> Lanes<'a> {
        let ends = |link: &LinkId| (topology.links()[*link].source, topology.links()[*link].target);
        let mut links: Vec<LinkId> = (0..topology.links().len()).collect();
        links.sort_by_key(ends);
        let range = |arc: &super::Arc| {
            let between = (arc.source, arc.target);
            let first = links.partition_point(|link| ends(link) < between);
            (first, links.partition_point(|link| ends(link) <= between))
        };
        let ranges = network.arcs().iter().map(range).collect();
        Lanes { topology, links, ranges, counts: vec![0; topology.links().len()] }
    }

    fn of(&self, arc: usize) -> &[LinkId] {
        let (first, end) = self.ranges[arc];
        &self.links[first..end]
    }

    fn speed(&self, link: LinkId) -> f64 {
        self.topology.links()[link].bytes_per_second()
    }

    /// The link of an arc that is the least busy with another path.
    fn take(&mut self, arc: usize) -> LinkId {
        let busy = |link: &LinkId| (self.counts[*link] + 1) as f64 / self.speed(*link);
        let least = self.of(arc).iter().copied().min_by(|a, b| busy(a).total_cmp(&busy(b)));
        let link = least.unwrap_or_else(|| unreachable!("an arc is made of links"));
        self.counts[link] += 1;
        link
    }

    /// The smallest part of what the links of an arc carry that its capacity counts: less than 1 where bandwidths have been
    /// rounded, or links side by side are unequal.
    fn least_part(&self, network: &Network) -> f64 {
        let part = |(arc, counted): (usize, &super::Arc)| {
            let speed: f64 = self.of(arc).iter().map(|link| self.speed(*link)).sum();
            counted.capacity as f64 * network.unit() / speed
        };
        let parts = network.arcs().iter().enumerate().map(part);
        // What is whole but for rounding is whole.
        parts.filter(|part| *part < 1.0 - 1e-9).fold(1.0, f64::min)
    }
}
