//! Operators that make graphs from graphs (Zhao et al., "Efficient direct-connect topologies for collective
//! communications", section 5 and appendix F).
//!
//! ```text
//! line(G)             a rank for every link; a link to each rank whose link starts where this rank's link ends
//! line-graph(G)       a rank for every cable; cables that share a rank are joined
//! degree(G, n)        n copies of every rank; each has links to all copies of the neighbours
//! product(G, H, ...)  a copy of each factor for every choice of ranks of the others, numbered like a C array
//! power(G, n)         the product of n copies of G
//! transpose(G)        all links reversed
//! bidirectional(G)    all links, and all links reversed
//! ```
//!
//! A new link has the bandwidth, capacity and latencies of the link that it is made from; in line graphs that is the
//! link that has become its source. The result keeps the routing, except that dimension-ordered routing and tables,
//! which lose their meaning, become minimal routing.

use super::circulant::MOST_DIMENSIONS;
use super::family::check_size;
use super::measure::Adjacency;
use super::{grid, Link, Routing, Topology, TopologyError, TopologyKind, MAX_LINKS};
use crate::units::{LinkId, NodeId, Port, Rank};

/// How a product may look.
pub(super) const PRODUCT: &str = "product(ring:4, complete:3)";

impl Topology {
    /// The line digraph: rank `i` is link `i` of this graph, and has links to the links that leave the end of link `i`,
    /// in the order of these.
    pub fn line(&self) -> Result<Topology, TopologyError> {
        let spec = || format!("line({})", self.wiring());
        self.check_ranks_alone(spec)?;
        let outgoing = outgoing(self);
        let next = self.links.iter().map(|link| outgoing.links_of(link.target).len()).sum();
        check_counts(self.links.len(), next, spec)?;
        let links = line_links(self.ranks, &self.links);
        self.made(spec(), &[self], self.links.len(), links)
    }

    /// The line graph of a graph of cables. It has a rank for each cable, in the order of the cables' first links, and
    /// a cable between two of these ranks for every end that their cables share. The ports of a rank lead to the other
    /// cables at the end where its cable's first link starts, in the order of the ports there, then to those at the
    /// other end.
    pub fn line_graph(&self) -> Result<Topology, TopologyError> {
        let spec = || format!("line-graph({})", self.wiring());
        self.check_ranks_alone(spec)?;
        let outgoing = outgoing(self);
        let next = self.links.iter().map(|link| outgoing.links_of(link.source).len() - 1).sum();
        check_counts(self.links.len() / 2, next, spec)?;
        let cable = self.cables(&outgoing).map_err(|(from, to)| {
            let what = format!(
                "line-graph needs cables, but the link from rank {from} to rank {to} has no link back; use line(...)"
            );
            TopologyError::Graph { spec: spec(), what }
        })?;
        let mut links = Vec::with_capacity(next);
        let mut known = 0;
        for (id, first) in self.links.iter().enumerate() {
            if cable[id] != known {
                continue;
            }
            known += 1;
            for end in [first.source, first.target] {
                let others = outgoing
                    .links_of(end)
                    .iter()
                    .map(|other| cable[*other])
                    .filter(|other| *other != cable[id]);
                links.extend(others.map(|other| Link { source: cable[id], target: other, ..*first }));
            }
        }
        self.made(spec(), &[self], known, links)
    }

    /// For each link, the number of its cable. The n-th link from one rank to another and the n-th link back form a
    /// cable. Cables are numbered in the order of their first links. The error is the source and target of a link
    /// without a link back.
    fn cables(&self, outgoing: &Adjacency) -> Result<Vec<usize>, (NodeId, NodeId)> {
        let mut cable = vec![usize::MAX; self.links.len()];
        let mut cables = 0;
        for (id, link) in self.links.iter().enumerate() {
            if cable[id] != usize::MAX {
                continue;
            }
            let back = outgoing.links_of(link.target).iter();
            let mut back = back.filter(|back| self.links[**back].target == link.source);
            let back = back.find(|back| cable[**back] == usize::MAX).ok_or((link.source, link.target))?;
            (cable[id], cable[*back]) = (cables, cables);
            cables += 1;
        }
        Ok(cable)
    }

    /// The graph with `n` copies of every rank. Copy `i` of rank `v` has the number v·n + i. For every link from u to v
    /// there is a link from each copy of u to each copy of v: where the link has port p at u, port p·n + k of copy i
    /// leads to copy (i + k) mod n.
    pub fn degree_expansion(&self, n: usize) -> Result<Topology, TopologyError> {
        let spec = || format!("degree({}, {n})", self.wiring());
        self.check_ranks_alone(spec)?;
        let ranks = check_size(&[self.ranks, n], 0, spec)?;
        check_counts(ranks, self.links.len().saturating_mul(n * n), spec)?;
        let outgoing = outgoing(self);
        let mut links = Vec::with_capacity(self.links.len() * n * n);
        for (source, copy) in (0..ranks).map(|rank| (rank, rank % n)) {
            for id in outgoing.links_of(source / n) {
                let link = self.links[*id];
                let copies = (0..n).map(|further| link.target * n + (copy + further) % n);
                links.extend(copies.map(|target| Link { source, target, ..link }));
            }
        }
        self.made(spec(), &[self], ranks, links)
    }

    /// The product of `n` copies of this graph.
    pub fn power(&self, n: usize) -> Result<Topology, TopologyError> {
        let spec = || format!("power({}, {n})", self.wiring());
        if n > MOST_DIMENSIONS {
            return Err(TopologyError::TooLarge(spec()));
        }
        if n == 0 {
            return Err(TopologyError::Zero(spec()));
        }
        multiply(spec(), &vec![self; n])
    }

    /// The Cartesian product of two or more graphs. Ranks are numbered like the elements of a C array, in which the
    /// last factor varies fastest. The ports of the first factor come first.
    pub fn product(factors: &[&Topology]) -> Result<Topology, TopologyError> {
        let spec = || {
            let factors: Vec<String> = factors.iter().map(|factor| factor.wiring()).collect();
            format!("product({})", factors.join(", "))
        };
        if factors.len() < 2 {
            return Err(TopologyError::Malformed { spec: spec(), example: PRODUCT });
        }
        if factors.len() > MOST_DIMENSIONS {
            return Err(TopologyError::TooLarge(spec()));
        }
        multiply(spec(), factors)
    }

    /// The graph with all links reversed. Links keep their numbers, and a rank's ports are its links in this order.
    pub fn transpose(&self) -> Result<Topology, TopologyError> {
        if let Some(placed) = self.on_base(Topology::transpose) {
            return placed;
        }
        let turned = |link: &Link| Link { source: link.target, target: link.source, ..*link };
        let links = self.links.iter().map(turned).collect();
        self.made(format!("transpose({})", self.wiring()), &[self], self.ranks, links)
    }

    /// The graph and its transpose together. Each node has its links first, then the links into it, reversed, in the
    /// order of the ports that these have at their sources.
    pub fn bidirectional(&self) -> Result<Topology, TopologyError> {
        if let Some(placed) = self.on_base(Topology::bidirectional) {
            return placed;
        }
        let spec = || format!("bidirectional({})", self.wiring());
        check_counts(self.ranks, 2 * self.links.len(), spec)?;
        let outgoing = outgoing(self);
        let incoming = Adjacency::new(self.nodes, self.links.iter().map(|link| link.target));
        let mut port: Vec<Port> = vec![0; self.links.len()];
        for node in 0..self.nodes {
            outgoing.links_of(node).iter().enumerate().for_each(|(at, id)| port[*id] = at);
        }
        let mut links = Vec::with_capacity(2 * self.links.len());
        for node in 0..self.nodes {
            links.extend(outgoing.links_of(node).iter().map(|id| self.links[*id]));
            let mut into: Vec<LinkId> = incoming.links_of(node).to_vec();
            into.sort_by_key(|id| (port[*id], *id));
            links.extend(into.into_iter().map(|id| Link {
                source: node,
                target: self.links[id].source,
                ..self.links[id]
            }));
        }
        self.made(spec(), &[self], self.ranks, links)
    }

    /// The result of an operator. Its spec determines it, unless an operand is a `graph:`, whose spec is only a name:
    /// then the result is a `graph:`, too.
    fn made(
        &self,
        spec: String,
        operands: &[&Topology],
        ranks: usize,
        links: Vec<Link>,
    ) -> Result<Topology, TopologyError> {
        let nodes = ranks + self.nodes - self.ranks;
        let is_graph = operands.iter().any(|operand| matches!(operand.kind, TopologyKind::Graph(_)));
        let kind =
            if is_graph { TopologyKind::Graph(derived_name(&spec)) } else { TopologyKind::Listed(spec) };
        let (hosts, routing) = (self.hosts.clone(), self.routing.on_other_links());
        Topology { hosts, routing, ..Topology::plain(kind, ranks, nodes, links) }.if_connected()
    }

    fn check_ranks_alone(&self, spec: impl Fn() -> String) -> Result<(), TopologyError> {
        if self.nodes == self.ranks {
            return Ok(());
        }
        let what =
            format!("{} has switches, which are not ranks; use a graph without switches", self.wiring());
        Err(TopologyError::Graph { spec: spec(), what })
    }
}

impl Routing {
    /// The routing of a graph made from one with this routing, where grid and link numbers are lost.
    pub(super) fn on_other_links(self) -> Routing {
        match self {
            Routing::DimensionOrdered | Routing::Table => Routing::Minimal,
            same => same,
        }
    }
}

/// The name of a graph that an operator has made from a `graph:`: for `line(graph:petersen)` it is `line-petersen`.
pub(super) fn derived_name(spec: &str) -> String {
    let spec = spec.replace("graph:", "").replace('>', "-to-");
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    spec.split(|c| !plain(c)).filter(|word| !word.is_empty()).collect::<Vec<&str>>().join("-")
}

fn outgoing(topology: &Topology) -> Adjacency {
    Adjacency::new(topology.nodes, topology.links.iter().map(|link| link.source))
}

fn check_counts(ranks: usize, links: usize, spec: impl Fn() -> String) -> Result<(), TopologyError> {
    check_size(&[ranks], 0, &spec)?;
    match links <= MAX_LINKS {
        true => Ok(()),
        false => Err(TopologyError::TooManyLinks(spec())),
    }
}

/// The links of the line digraph of `links`.
pub(super) fn line_links(nodes: usize, links: &[Link]) -> Vec<Link> {
    let outgoing = Adjacency::new(nodes, links.iter().map(|link| link.source));
    let on = |(source, link): (LinkId, &Link)| {
        let link = *link;
        outgoing.links_of(link.target).iter().map(move |target| Link { source, target: *target, ..link })
    };
    // Room for all at once: a list that grows takes twice as much, and there may be millions.
    let mut made = Vec::with_capacity(links.iter().map(|link| outgoing.links_of(link.target).len()).sum());
    made.extend(links.iter().enumerate().flat_map(on));
    made
}

fn multiply(spec: String, factors: &[&Topology]) -> Result<Topology, TopologyError> {
    let sizes: Vec<usize> = factors.iter().map(|factor| factor.ranks).collect();
    for factor in factors {
        factor.check_ranks_alone(|| spec.clone())?;
    }
    let ranks = check_size(&sizes, 0, || spec.clone())?;
    let links = factors.iter().map(|factor| ranks / factor.ranks * factor.links.len()).sum();
    check_counts(ranks, links, || spec.clone())?;
    let outgoing: Vec<Adjacency> = factors.iter().map(|factor| outgoing(factor)).collect();
    let mut made = Vec::with_capacity(links);
    for source in 0..ranks {
        let at = grid::coordinates(&sizes, source);
        for (dimension, factor) in factors.iter().enumerate() {
            let moved = |to: Rank| grid::moved(&sizes, source, dimension, to);
            let own = outgoing[dimension].links_of(at[dimension]).iter().map(|id| factor.links[*id]);
            made.extend(own.map(|link| Link { source, target: moved(link.target), ..link }));
        }
    }
    factors[0].made(spec, factors, ranks, made)
}
