//! Ranks on the hosts of a network: as a graph, in which hosts with several ranks have a memory.

use super::evidence::Evidence;
use super::network::Cabling;
use super::rates::{How, Rate};
use super::rounding::median;
use super::routes::NodePaths;
use crate::topology::{Link, Topology, TopologyError, DEFAULT_BANDWIDTH, MEMORY_CAPACITY, MEMORY_LATENCY};
use crate::units::Rank;

/// The name of a graph that is found.
const NAME: &str = "discovered";

/// A network with its ranks.
pub(super) struct Placed {
    pub graph: Topology,
    /// The node of each node of the network: a host's is its memory, if it has one, or its rank.
    pub node_of: Vec<usize>,
    /// What is known of each link of the graph.
    pub rates: Vec<Rate>,
    /// Whether the hosts have memories.
    pub has_memories: bool,
}

impl Placed {
    pub fn new(network: &Cabling, evidence: &Evidence) -> Result<Placed, TopologyError> {
        let (ranks, hosts) = (evidence.host_of.len(), network.hosts);
        let mut ranks_of = vec![Vec::new(); hosts];
        evidence.host_of.iter().enumerate().for_each(|(rank, host)| ranks_of[*host].push(rank));
        let has_memories = ranks_of.iter().any(|ranks| ranks.len() > 1);
        // Nodes: ranks, memories, then hosts without ranks, which only forward, and switches.
        let mut next = ranks;
        let mut node_of = vec![usize::MAX; network.nodes];
        for host in 0..hosts {
            match ranks_of[host][..] {
                [] => {}
                [rank] if !has_memories => node_of[host] = rank,
                _ => (node_of[host], next) = (next, next + 1),
            }
        }
        for node in node_of.iter_mut().filter(|node| **node == usize::MAX) {
            (*node, next) = (next, next + 1);
        }
        let bandwidth = usual(network);
        let memory = memory_rate(bandwidth);
        let mut links: Vec<(Link, Rate)> = Vec::new();
        for (rank, host) in evidence.host_of.iter().enumerate().filter(|_| has_memories) {
            let link = Link {
                bandwidth,
                capacity: memory.bytes_per_second / bandwidth,
                latency: MEMORY_LATENCY,
                ..Link::between(rank, node_of[*host])
            };
            links.push((link, memory));
            links.push((Link { source: link.target, target: link.source, ..link }, memory));
        }
        let least = network.cables.iter().map(|cable| cable.seconds).fold(f64::INFINITY, f64::min);
        let latency = if has_memories { MEMORY_LATENCY.min(least) } else { least };
        for cable in &network.cables {
            let link = Link::between(node_of[cable.from], node_of[cable.to]);
            let capacity = cable.rate.bytes_per_second / bandwidth;
            let extra_latency = cable.seconds - latency;
            links.push((Link { bandwidth, capacity, latency, extra_latency, ..link }, cable.rate));
        }
        links.sort_by_key(|(link, _)| (link.source, link.target));
        let (links, rates) = links.into_iter().unzip();
        let graph = Topology::from_links(NAME, ranks, next, links)?;
        Ok(Placed { graph, node_of, rates, has_memories })
    }
}

impl Placed {
    /// The nodes on the way from each rank to each other one, if it is known for all.
    pub fn paths(&self, network: &Cabling, host_of: &[usize]) -> Option<NodePaths> {
        let ranks = host_of.len();
        let way = |(from, to): (Rank, Rank)| {
            if from == to {
                return Some(Vec::new());
            }
            let (first, last) = (host_of[from], host_of[to]);
            let cables = if first == last { &Vec::new() } else { network.paths.get(&(first, last))? };
            let between = cables.iter().map(|cable| self.node_of[network.cables[*cable].to]);
            let mut way = vec![from, self.node_of[first]];
            way.extend(between);
            way.push(to);
            way.dedup();
            Some(way)
        };
        (0..ranks * ranks).map(|pair| way((pair / ranks, pair % ranks))).collect::<Option<_>>().map(NodePaths)
    }
}

/// The rate that most cables of hosts have, as near as the median tells.
fn usual(network: &Cabling) -> f64 {
    let of_hosts = |kind: fn(bool, bool) -> bool| {
        let cables = network.cables.iter();
        let cables = cables.filter(move |cable| kind(cable.from < network.hosts, cable.to < network.hosts));
        median(cables.map(|cable| cable.rate.bytes_per_second))
    };
    of_hosts(|from, to| from || to).or_else(|| of_hosts(|_, _| true)).unwrap_or(DEFAULT_BANDWIDTH)
}

/// What a rank copies in its host's memory, which does not depend on the network; but it is faster than that.
fn memory_rate(bandwidth: f64) -> Rate {
    let bytes_per_second = MEMORY_CAPACITY * bandwidth.max(DEFAULT_BANDWIDTH);
    Rate { bytes_per_second, spread: 0.0, how: How::Assumed }
}
