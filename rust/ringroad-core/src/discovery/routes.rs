//! The routes that were traced, as those of a topology.

use std::collections::BTreeMap;

use crate::topology::{Routes, Routing, RoutingTable, Topology, TopologyError};
use crate::units::{LinkId, NodeId, Rank};

/// The nodes on the way from each rank to each other one, the ends included, by source, then by target; empty from a
/// rank to itself.
pub(super) struct NodePaths(pub Vec<Vec<NodeId>>);

/// The topology with these routes. Where they are those of a routing, it has this; otherwise a table. The error says why
/// it can have none.
pub(super) fn routed(topology: &Topology, paths: &NodePaths) -> Result<Topology, String> {
    for routing in Routing::ALL {
        if let Ok(same) = topology.clone().with_routing(routing) {
            if takes(&same, paths) {
                return Ok(same);
            }
        }
    }
    let mut link_of: BTreeMap<(NodeId, NodeId), LinkId> = BTreeMap::new();
    for (id, link) in topology.links().iter().enumerate() {
        if link_of.insert((link.source, link.target), id).is_some() {
            return Err("it has parallel links".to_owned());
        }
    }
    let ranks = topology.ranks();
    let table = RoutingTable::new(ranks, |source, target, path| {
        let way = &paths.0[source * ranks + target];
        let links = way.windows(2).map(|pair| link_of.get(&(pair[0], pair[1])).map(|link| *link as u32));
        // A link that is missing leaves a gap, which the check of the table finds.
        path.extend(links.flatten());
        Ok::<(), TopologyError>(())
    });
    table.and_then(|table| topology.clone().with_routes(table)).map_err(|error| error.to_string())
}

/// Whether the topology's own routes are these.
fn takes(topology: &Topology, paths: &NodePaths) -> bool {
    let (mut routes, ranks) = (Routes::new(topology), topology.ranks());
    let mut same = |source: Rank, target: Rank| {
        let Ok(route) = routes.route(source, target) else { return false };
        let ends = |link: &(LinkId, f64)| (topology.links()[link.0].source, topology.links()[link.0].target);
        let mut taken: Vec<(NodeId, NodeId)> = route.shares.iter().map(ends).collect();
        let way = &paths.0[source * ranks + target];
        let mut expected: Vec<(NodeId, NodeId)> = way.windows(2).map(|pair| (pair[0], pair[1])).collect();
        for pairs in [&mut taken, &mut expected] {
            pairs.sort_unstable();
            pairs.dedup();
        }
        taken == expected
    };
    (0..ranks * ranks).map(|pair| (pair % ranks, pair / ranks)).all(|(source, target)| same(source, target))
}
