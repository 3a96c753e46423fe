//! The serialised form of a topology. The wiring of a family follows from its spec, and a bandwidth and latency that
//! all links share are stored once. Otherwise all links are listed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{parse, Link, Routing, RoutingTable, Topology, TopologyError, TopologyKind};
use crate::units::Seconds;

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    spec: String,
    /// How many ranks a graph has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ranks: Option<usize>,
    /// How many ranks and switches a graph has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodes: Option<usize>,
    /// The grid of a graph that has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dimensions: Vec<usize>,
    /// The bandwidth of all links, where they are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bandwidth: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency: Option<Seconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<Vec<Link>>,
    /// The table, where the routing is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    routes: Option<Arc<RoutingTable>>,
}

impl From<Topology> for Stored {
    fn from(topology: Topology) -> Self {
        let (spec, routes) = (topology.spec(), topology.table.clone());
        if let TopologyKind::Graph(_) = topology.kind {
            return Stored {
                spec,
                ranks: Some(topology.ranks),
                nodes: Some(topology.nodes),
                dimensions: topology.dimensions,
                links: Some(topology.links),
                routes,
                ..Stored::default()
            };
        }
        let first = topology.links.first();
        let (bandwidth, latency) = (first.map(|l| l.bandwidth), first.map(|l| l.latency));
        let plain =
            Topology::parse(&topology.wiring()).and_then(|plain| plain.with_links(bandwidth, latency));
        if plain.is_ok_and(|plain| plain.links == topology.links) {
            return Stored { spec, bandwidth, latency, routes, ..Stored::default() };
        }
        Stored { spec, links: Some(topology.links), routes, ..Stored::default() }
    }
}

impl TryFrom<Stored> for Topology {
    type Error = TopologyError;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        let Stored { spec, ranks, nodes, dimensions, bandwidth, latency, links, routes } = stored;
        if let Some((name, options)) = parse::graph(&spec)? {
            let (Some(ranks), Some(links)) = (ranks, links) else {
                return Err(TopologyError::NeedsLinks(spec));
            };
            let graph = Topology::from_links(&name, ranks, nodes.unwrap_or(ranks), links)?;
            // The links are between ranks, and the graph's own between positions.
            let graph = match &options.positions {
                Some(positions) => graph.under(positions)?,
                None => graph,
            };
            let graph = graph.with_dimensions(&dimensions)?.with_links(bandwidth, latency)?;
            return routed(options.rated(graph)?, options.routing(), routes);
        }
        if ranks.is_some() || nodes.is_some() || !dimensions.is_empty() {
            return Err(TopologyError::NoGraph(spec));
        }
        let (mut topology, routing) = parse::parts(&spec)?;
        if let Some(links) = links {
            let ends = |links: &[Link]| links.iter().map(|l| (l.source, l.target)).collect::<Vec<_>>();
            if ends(&topology.links) != ends(&links) {
                return Err(TopologyError::Wiring(spec));
            }
            topology = topology.map_links(|id, link| *link = links[id])?;
        }
        routed(topology.with_links(bandwidth, latency)?, routing, routes)
    }
}

fn routed(
    topology: Topology,
    routing: Routing,
    routes: Option<Arc<RoutingTable>>,
) -> Result<Topology, TopologyError> {
    match routes {
        Some(table) if routing == Routing::Table => topology.with_routes(table),
        Some(_) => Err(TopologyError::NoTable { spec: topology.wiring(), routing }),
        None => topology.with_routing(routing),
    }
}
