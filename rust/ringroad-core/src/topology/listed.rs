//! Constructors shared by families and operators without a grid, where the ports of a rank are its links in order.

use super::{connected, Link, Topology, TopologyError, TopologyKind};
use crate::units::{Port, Rank};

impl Topology {
    /// A network without switches that has these links. An error where a rank does not reach another one.
    pub(super) fn listed(spec: String, ranks: usize, links: Vec<Link>) -> Result<Topology, TopologyError> {
        Topology::plain(TopologyKind::Listed(spec), ranks, ranks, links).if_connected()
    }

    /// A network where port `p` of each rank leads to `target(rank, p)`. Ports that would lead to the rank itself are
    /// left out.
    pub(super) fn regular(
        spec: String,
        ranks: usize,
        degree: usize,
        target: impl Fn(Rank, Port) -> Rank,
    ) -> Result<Topology, TopologyError> {
        let mut links = Vec::with_capacity(ranks * degree);
        for rank in 0..ranks {
            let targets = (0..degree).map(|port| target(rank, port));
            links.extend(targets.filter(|to| *to != rank).map(|to| Link::between(rank, to)));
        }
        Topology::listed(spec, ranks, links)
    }

    /// A network of ranks joined by cables. The ports of a rank are in the order of its neighbours' numbers.
    pub(super) fn cabled(
        spec: &str,
        ranks: usize,
        cables: impl Iterator<Item = (Rank, Rank)>,
    ) -> Result<Topology, TopologyError> {
        let mut ends: Vec<(Rank, Rank)> = cables.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        ends.sort_unstable();
        let links = ends.into_iter().map(|(a, b)| Link::between(a, b)).collect();
        Topology::listed(spec.to_owned(), ranks, links)
    }

    /// The same network under another spec that makes the same links.
    pub(super) fn called(self, spec: impl Into<String>) -> Topology {
        Topology { kind: TopologyKind::Listed(spec.into()), ..self }
    }

    /// The network itself, or an error where a rank does not reach another one.
    pub(super) fn if_connected(self) -> Result<Topology, TopologyError> {
        match connected(self.ranks, self.nodes, self.links.iter().map(Link::ends)) {
            Ok(()) => Ok(self),
            Err((from, to)) => {
                let what =
                    format!("no path leads from rank {from} to rank {to}, and every rank must reach all");
                Err(TopologyError::Graph { spec: self.spec(), what })
            }
        }
    }
}
