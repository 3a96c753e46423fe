//! One path for each pair of ranks, such that an all-to-all loads the links nearly as evenly as any flow does.

use ringroad_core::synthesis::alltoall::{concurrent_flow, in_chunks, Concurrent, Demands, Progress, Trip};
use ringroad_core::synthesis::{Arc, Budget, Digraph, Unsuitable};
use ringroad_core::topology::{Routing, RoutingTable, Topology, TopologyError};
use ringroad_core::units::{LinkId, Seconds};

use super::{greedy, NoRoutes};

/// Routes for a topology, with a proof of how good they are.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancedRoutes {
    /// The path of each pair.
    pub table: RoutingTable,
    /// A lower bound in seconds: no routes have a smaller [`RoutingTable::load`], even if they spread pairs over
    /// several paths.
    pub bound: Seconds,
}

/// The most ranks whose paths are balanced: all are kept in memory several times.
const MOST_RANKS: usize = 1 << 12;

/// Computes a flow whose busiest link is at most `1 + gap` times as busy as it must be, as [`concurrent_flow`] does,
/// and rounds it to one path for each pair. Parallel links share the paths of their arc. If the table of shortest paths
/// has a smaller load, returns that instead.
pub fn balanced_routes(
    topology: &Topology,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<BalancedRoutes, NoRoutes> {
    let ranks = topology.ranks();
    if ranks > MOST_RANKS {
        return Err(Unsuitable::TooLarge { ranks, most: MOST_RANKS }.into());
    }
    let (network, flow, bound) = flow(topology, gap, go_on)?;
    let (mut trips, _) = in_chunks(&network, &flow, 1, Budget::UNLIMITED).map_err(Unsuitable::Spent)?;
    trips.sort_unstable_by_key(|trip| (trip.source, trip.target));
    let mut lanes = Lanes::new(topology, &network);
    let mut trips = trips.iter();
    let table = RoutingTable::new(topology.ranks(), |_, _, path| {
        let arcs = trips.next().map(|trip: &Trip| trip.arcs.iter());
        path.extend(arcs.into_iter().flatten().map(|arc| lanes.take_link(*arc as usize) as u32));
        Ok::<(), TopologyError>(())
    })?;
    // On few ranks, rounding can make a flow worse than shortest paths.
    let shortest = greedy::shortest(topology)?;
    let better = shortest.load(topology) < table.load(topology) * (1.0 - 1e-9);
    Ok(BalancedRoutes { table: if better { shortest } else { table }, bound })
}

/// A lower bound on the seconds that the busiest link takes for one byte from every rank to every other one, whatever
/// the routes. `gap` limits how far [`concurrent_flow`] searches.
pub fn least_load(
    topology: &Topology,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Seconds, NoRoutes> {
    flow(topology, gap, go_on).map(|(_, _, bound)| bound)
}

/// The flow of one byte for each pair, with the network that it uses and its lower bound in seconds.
fn flow(
    topology: &Topology,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<(Digraph, Concurrent, Seconds), NoRoutes> {
    // Minimal routing makes every parallel link count, whatever routing the topology has.
    let topology = topology.clone().with_routing(Routing::Minimal)?;
    let network = Digraph::with_switches(&topology);
    let flow = concurrent_flow(&network, &Demands::Uniform, gap, go_on)?;
    let bound = flow.bound / network.unit();
    Ok((network, flow, bound))
}

/// The links that each arc stands for.
struct Lanes<'a> {
    topology: &'a Topology,
    /// Sorted by source and target.
    links: Vec<LinkId>,
    /// Where each arc's links begin and end in `links`.
    ranges: Vec<(usize, usize)>,
    /// The number of paths that each link carries.
    counts: Vec<u64>,
}

impl<'a> Lanes<'a> {
    fn new(topology: &'a Topology, network: &Digraph) -> Lanes<'a> {
        let ends = |link: &LinkId| (topology.links()[*link].source, topology.links()[*link].target);
        let mut links: Vec<LinkId> = (0..topology.links().len()).collect();
        links.sort_by_key(ends);
        let range = |arc: &Arc| {
            let between = (arc.source, arc.target);
            let first = links.partition_point(|link| ends(link) < between);
            (first, links.partition_point(|link| ends(link) <= between))
        };
        let ranges = network.arcs().iter().map(range).collect();
        Lanes { topology, links, ranges, counts: vec![0; topology.links().len()] }
    }

    fn links_of(&self, arc: usize) -> &[LinkId] {
        let (first, end) = self.ranges[arc];
        &self.links[first..end]
    }

    fn speed(&self, link: LinkId) -> f64 {
        self.topology.links()[link].bytes_per_second()
    }

    /// Takes the link of an arc that is least busy with one more path, and counts the path.
    fn take_link(&mut self, arc: usize) -> LinkId {
        let busy = |link: &LinkId| (self.counts[*link] + 1) as f64 / self.speed(*link);
        let least = self.links_of(arc).iter().copied().min_by(|a, b| busy(a).total_cmp(&busy(b)));
        let link = least.unwrap_or_else(|| unreachable!("an arc is made of links"));
        self.counts[link] += 1;
        link
    }
}
