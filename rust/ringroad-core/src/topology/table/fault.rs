//! What can be wrong with a table of routes.

use super::super::{Topology, TopologyError};
use super::RoutingTable;
use crate::units::{LinkId, NodeId};

/// What is wrong with the path of a pair of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    /// There is none.
    #[error("it has no path")]
    Missing,
    /// There are several.
    #[error("it is spread over several paths, and a table has one; take single-path routing")]
    Split,
    /// A link that does not exist.
    #[error("its path takes link {link}, and links are numbered below {links}")]
    NoLink {
        /// Its number.
        link: LinkId,
        /// How many there are.
        links: usize,
    },
    /// A link that does not start where the one before it ends, or not at the source.
    #[error("its path takes link {link}, which starts at node {start}, when it is at node {at}")]
    Gap {
        /// The link.
        link: LinkId,
        /// Where it starts.
        start: NodeId,
        /// Where the path is.
        at: NodeId,
    },
    /// A node twice.
    #[error("its path comes to node {0} twice")]
    Twice(NodeId),
    /// It ends elsewhere.
    #[error("its path ends at node {0}")]
    End(NodeId),
    /// None that leads up and then down.
    #[error("no path leads up and then down; up-down routing is for links with one back")]
    UpDown,
}

/// Whether the table has a simple path over links of this topology for every pair of its ranks.
pub(super) fn check(table: &RoutingTable, topology: &Topology) -> Result<(), TopologyError> {
    if table.ranks != topology.ranks() {
        let (spec, ranks, found) = (topology.wiring(), topology.ranks(), table.ranks);
        return Err(TopologyError::TableSize { spec, ranks, found });
    }
    // The number of the last path that came to each node.
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
