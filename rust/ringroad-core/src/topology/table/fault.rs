//! Checks whether a table of routes fits a topology.

use super::super::{Topology, TopologyError};
use super::RoutingTable;
use crate::units::{LinkId, NodeId};

/// What is wrong with the path of a pair of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    /// There is no path.
    #[error("it has no path")]
    Missing,
    /// There are several paths.
    #[error("it is spread over several paths, but a table holds one; use single-path routing")]
    Split,
    /// The path has a link that does not exist.
    #[error("its path takes link {link}, and links are numbered below {links}")]
    NoLink {
        /// The number of the link.
        link: LinkId,
        /// How many links there are.
        links: usize,
    },
    /// A link does not start where the link before it ends, or the first link does not start at the source.
    #[error("its path is at node {at} but takes link {link}, which starts at node {start}")]
    Gap {
        /// The link.
        link: LinkId,
        /// The node at which the link starts.
        start: NodeId,
        /// The node at which the path has arrived.
        at: NodeId,
    },
    /// The path visits a node twice.
    #[error("its path comes to node {0} twice")]
    Twice(NodeId),
    /// The path ends at another node.
    #[error("its path ends at node {0}")]
    End(NodeId),
    /// No path leads up and then down.
    #[error("no path leads up and then down; up-down routing needs a link back for every link")]
    UpDown,
}

/// Checks that the table has a simple path over links of this topology for every pair of its ranks.
pub(super) fn check(table: &RoutingTable, topology: &Topology) -> Result<(), TopologyError> {
    if table.ranks != topology.ranks() {
        let (spec, ranks, found) = (topology.wiring(), topology.ranks(), table.ranks);
        return Err(TopologyError::TableSize { spec, ranks, found });
    }
    // The number of the last path that visited each node.
    let mut seen = vec![0; topology.nodes()];
    for (number, (source, target)) in table.pairs().enumerate() {
        check_path(topology, source, target, table.path(source, target), number + 1, &mut seen)
            .map_err(|fault| topology.bad_route(source, target, fault))?;
    }
    Ok(())
}

fn check_path(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    path: &[u32],
    number: usize,
    seen: &mut [usize],
) -> Result<(), RouteFault> {
    if path.is_empty() {
        return Err(RouteFault::Missing);
    }
    let links = topology.links();
    let mut at = source;
    seen[at] = number;
    for id in path.iter().map(|id| *id as LinkId) {
        let link = links.get(id).ok_or(RouteFault::NoLink { link: id, links: links.len() })?;
        if link.source != at {
            return Err(RouteFault::Gap { link: id, start: link.source, at });
        }
        at = link.target;
        if std::mem::replace(&mut seen[at], number) == number {
            return Err(RouteFault::Twice(at));
        }
    }
    match at == target {
        true => Ok(()),
        false => Err(RouteFault::End(at)),
    }
}
