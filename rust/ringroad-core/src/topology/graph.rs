//! Any graph: ranks, switches and links that the user lists.
//!
//! ```text
//! graph:dumbbell    0 ─┐       ┌─ 2     ranks come first, then switches; a line here is a link in each direction, but
//!                      4 ═════ 5        links in one direction suffice if every rank reaches every other one
//!                   1 ─┘       └─ 3
//! ```
//!
//! Links are in the order in which they were given.

use super::measure::connected;
use super::{text, Link, Topology, TopologyError, TopologyKind, MAX_LINKS, MAX_RANKS};

impl Topology {
    /// Any graph: the ranks are its first nodes. Its name becomes part of the spec, `graph:name`, but only the links say
    /// what it is. Every rank must reach every other one.
    pub fn from_links(
        name: &str,
        ranks: usize,
        nodes: usize,
        links: Vec<Link>,
    ) -> Result<Topology, TopologyError> {
        check(name, ranks, nodes, &links)?;
        Ok(Topology::plain(TopologyKind::Graph(name.to_owned()), ranks, nodes, links))
    }

    /// The graph with a grid that algorithms take for a torus, such as that of a torus of which a cable has failed. Its
    /// links stay as they are. An empty one is none.
    pub fn with_dimensions(self, sizes: &[usize]) -> Result<Topology, TopologyError> {
        let wrong = |what: String| Err(TopologyError::Graph { spec: self.spec(), what });
        if !matches!(self.kind, TopologyKind::Graph(_)) {
            return wrong("its grid is given; choose that of a graph".to_owned());
        }
        if let Some(placed) = self.on_base(|base| base.clone().with_dimensions(sizes)) {
            return placed;
        }
        let ranks = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        if !sizes.is_empty() && ranks != Some(self.ranks) {
            let sizes = text::join(sizes);
            return wrong(format!("a grid of {sizes} is not one of its {} ranks", self.ranks));
        }
        Ok(Topology { dimensions: sizes.to_vec(), ..self })
    }
}

/// Says what keeps ranks `0..ranks` of `nodes` nodes from talking to each other over these links.
fn check(name: &str, ranks: usize, nodes: usize, links: &[Link]) -> Result<(), TopologyError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        return Err(TopologyError::Name(name.to_owned()));
    }
    let spec = || format!("graph:{name}");
    let wrong = |what: String| Err(TopologyError::Graph { spec: spec(), what });
    if ranks == 0 {
        return Err(TopologyError::Zero(spec()));
    }
    if ranks > MAX_RANKS {
        return Err(TopologyError::TooLarge(spec()));
    }
    if links.len() > MAX_LINKS || nodes > MAX_LINKS {
        return Err(TopologyError::TooManyLinks(spec()));
    }
    if nodes < ranks {
        return wrong(format!("{nodes} nodes cannot hold {ranks} ranks; count the ranks as nodes, too"));
    }
    for (id, link) in links.iter().enumerate() {
        let Link { source, target, .. } = *link;
        if source.max(target) >= nodes {
            return wrong(format!("link {id} joins {source} to {target}, but nodes are 0 to {}", nodes - 1));
        }
        if source == target {
            return wrong(format!("link {id} joins node {source} to itself; leave it out"));
        }
        link.check()?;
    }
    connected(ranks, nodes, links.iter().map(Link::ends))
        .or_else(|(from, to)| wrong(format!("no path leads from rank {from} to rank {to}; add links")))
}
