//! From evidence to a topology.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::DiscoveryError;
use super::evidence::Evidence;
use super::network::{Cabling, Traced};
use super::nics;
use super::opaque;
use super::racks::are_separate;
use super::ranks::Placed;
use super::rates::Rate;
use super::recognise::{recognise, Recognised};
use super::routes::{routed, NodePaths};
use super::wiring::Wiring;
use crate::topology::{Link, Topology};
use crate::units::{NodeId, Rank};

/// A network as it was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundNetwork {
    /// The network, with rates and routes.
    pub topology: Topology,
    /// The spec of the network of the catalogue that it is, such as `torus:3x3`.
    pub recognised: Option<String>,
    /// The position of each rank on that network.
    pub positions: Option<Vec<Rank>>,
    /// What is known of each link of the topology.
    pub links: Vec<LinkFacts>,
    /// What is not certain or not as it should be, in plain sentences.
    pub notes: Vec<String>,
}

/// What is known of a link.
pub type LinkFacts = Rate;

/// Makes a topology of what was seen and measured.
pub fn assemble(evidence: &Evidence) -> Result<FoundNetwork, DiscoveryError> {
    check(evidence)?;
    let wiring = Wiring::from_traces(&evidence.hosts, &evidence.traces);
    let mut notes = wiring.notes.clone();
    let mut network = Cabling::routed(&wiring, evidence);
    let is_meshed = wiring.is_opaque() && are_separate(evidence);
    let is_joined = network.is_connected();
    if !is_joined || (wiring.is_opaque() && !is_meshed) {
        if wiring.is_opaque() {
            notes.clear();
        }
        if !is_joined {
            notes.push("traces do not join all hosts, so rates alone tell what the network is".to_owned());
        }
        network = opaque::network(evidence, &mut notes);
    }
    notes.extend(wiring.unreached);
    if network.hosts > 1 && evidence.rounds.iter().all(|round| round.flows.is_empty()) {
        notes.push("no rates were measured; they are assumed".to_owned());
    }
    let starved = network.judge_starved();
    if starved > 0 {
        let all = network.cables.len();
        notes
            .push(format!("cores were busy: {starved} of {all} links are taken to be as fast as the others"));
    }
    network.complete(evidence);
    let placed = Placed::new(&network, evidence)?;
    let (recognised, is_early) = recognise(&placed.graph, placed.has_memories);
    if is_early {
        notes.push("the search for a network of the catalogue with this wiring was ended early".to_owned());
    }
    let positions = recognised.as_ref().map(|network| network.place[..evidence.host_of.len()].to_vec());
    let mut spec = recognised.as_ref().map(|network| network.base.spec());
    let (mut topology, mut links, mut numbers) = known(&placed, recognised)?;
    // NICs are those of the ranks in order.
    let in_order = positions.as_ref().is_none_or(|positions| positions.is_sorted());
    let ratio = nics::ratio(evidence, &network, &mut notes);
    if let Some(ratio) = ratio.filter(|_| !placed.has_memories && in_order) {
        (topology, links) = nics::behind(&topology, &links, ratio)?;
        numbers.iter_mut().for_each(|node| *node += topology.ranks());
        spec = spec.map(|spec| format!("bottleneck({spec}, {ratio})"));
    }
    let topology = match network.traced_ways() {
        Traced::None => topology,
        Traced::Some(known, pairs) => {
            let what = "all shortest paths are taken to be used alike";
            notes.push(format!("the paths of {known} of {pairs} pairs of hosts are known: {what}"));
            topology
        }
        Traced::All => with_ways(topology, &placed, &network, &evidence.host_of, &numbers, &mut notes),
    };
    Ok(FoundNetwork { topology, recognised: spec, positions, links, notes })
}

/// The network of the catalogue with the graph's rates, and its ranks where they are, or else the graph; with what is known
/// of each link, and the number of each of the graph's nodes.
fn known(
    placed: &Placed,
    recognised: Option<Recognised>,
) -> Result<(Topology, Vec<LinkFacts>, Vec<NodeId>), DiscoveryError> {
    let graph = &placed.graph;
    let same: Vec<NodeId> = (0..graph.nodes()).collect();
    let Some(Recognised { base, place }) = recognised else {
        return Ok((graph.clone(), placed.rates.clone(), same));
    };
    let ends = |link: &Link| (place[link.source], place[link.target]);
    let of_graph: BTreeMap<(NodeId, NodeId), usize> =
        graph.links().iter().enumerate().map(|(id, link)| (ends(link), id)).collect();
    let mut parallel: BTreeMap<(NodeId, NodeId), usize> = BTreeMap::new();
    base.links().iter().for_each(|link| *parallel.entry((link.source, link.target)).or_insert(0) += 1);
    let facts = |link: &Link| {
        let ends = (link.source, link.target);
        let (id, share) = (of_graph[&ends], parallel[&ends] as f64);
        let rate = placed.rates[id];
        let rate = Rate { bytes_per_second: rate.bytes_per_second / share, ..rate };
        (Link { capacity: graph.links()[id].capacity / share, ..graph.links()[id] }, rate)
    };
    let (links, rates): (Vec<Link>, Vec<Rate>) = base.links().iter().map(facts).unzip();
    let (positions, others) = place.split_at(graph.ranks());
    let topology = base.map_links(|id, link| *link = links[id])?.placed(positions)?;
    let numbers = same[..graph.ranks()].iter().chain(others).copied().collect();
    Ok((topology, rates, numbers))
}

/// The topology with the paths that were traced, if they are known for all pairs of ranks.
fn with_ways(
    topology: Topology,
    placed: &Placed,
    network: &Cabling,
    host_of: &[usize],
    numbers: &[NodeId],
    notes: &mut Vec<String>,
) -> Topology {
    let Some(NodePaths(mut paths)) = placed.paths(network, host_of) else { return topology };
    for (pair, way) in paths.iter_mut().enumerate().filter(|(_, way)| !way.is_empty()) {
        way.iter_mut().for_each(|node| *node = numbers[*node]);
        // Behind NICs the paths of the graph lead from NIC to NIC.
        way.insert(0, pair / host_of.len());
        way.push(pair % host_of.len());
        way.dedup();
    }
    routed(&topology, &NodePaths(paths)).unwrap_or_else(|why| {
        notes.push(format!(
            "all shortest paths are taken to be used alike, since the traced ones make no table: {why}"
        ));
        topology
    })
}

fn check(evidence: &Evidence) -> Result<(), DiscoveryError> {
    let hosts = evidence.hosts.len();
    if evidence.host_of.is_empty() {
        return Err(DiscoveryError::NoRanks);
    }
    match evidence.host_of.iter().enumerate().find(|(_, host)| **host >= hosts) {
        Some((rank, host)) => Err(DiscoveryError::NoHost { rank, host: *host, hosts }),
        None => Ok(()),
    }
}
