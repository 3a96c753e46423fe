//! Every family's constructor: sizes are checked, then its links drawn.

use super::hamming_mesh::Boards;
use super::measure::Adjacency;
use super::{
    fat_tree, graph, grid, hosts, hypercube, hyperx, mesh, parse, switch, torus, twisted_torus, Family, Link,
    Routing, Topology, TopologyError, MAX_LINKS, MAX_RANKS,
};

impl Topology {
    /// A grid of ranks alone.
    fn grid(family: Family, sizes: &[usize], links: Vec<Link>) -> Topology {
        let ranks = sizes.iter().product();
        Topology { dimensions: sizes.to_vec(), ..Topology::plain(family, ranks, ranks, links) }
    }

    /// Ranks that form no grid.
    pub(super) fn plain(family: Family, ranks: usize, nodes: usize, links: Vec<Link>) -> Topology {
        let routing = Routing::default();
        let index = (!links.is_sorted_by_key(|link| link.source))
            .then(|| Adjacency::new(nodes, links.iter().map(|link| link.source)));
        let (dimensions, table) = (Vec::new(), None);
        Topology { family, ranks, nodes, per_host: 1, dimensions, links, index, routing, table }
    }

    /// A ring of `n` ranks: a torus of one dimension.
    pub fn ring(n: usize) -> Result<Topology, TopologyError> {
        check_size(&[n], 2, || format!("ring:{n}"))?;
        Ok(Topology { family: Family::Ring, ..Topology::torus(&[n])? })
    }

    /// A torus with these sizes, one ring per dimension. A dimension of size 2 has two parallel links each way, one
    /// for each port; a dimension of size 1 has none.
    pub fn torus(sizes: &[usize]) -> Result<Topology, TopologyError> {
        check_grid(sizes, 2 * sizes.len(), "torus")?;
        let neighbour = |rank, dimension, up| torus::neighbour(sizes, rank, dimension, up);
        Ok(Topology::grid(Family::Torus, sizes, grid::links(sizes, neighbour)))
    }

    /// A torus without the cables around its ends.
    pub fn mesh(sizes: &[usize]) -> Result<Topology, TopologyError> {
        check_grid(sizes, 2 * sizes.len(), "mesh")?;
        let neighbour = |rank, dimension, up| mesh::neighbour(sizes, rank, dimension, up);
        Ok(Topology::grid(Family::Mesh, sizes, grid::links(sizes, neighbour)))
    }

    /// A torus of which one dimension is twice as long as the other one, around which one comes back half the long one
    /// further.
    pub fn twisted_torus(rows: usize, columns: usize) -> Result<Topology, TopologyError> {
        let sizes = [rows, columns];
        check_grid(&sizes, 4, "twisted-torus")?;
        let what = "one dimension must be twice as long as the other one, and that 2 or more";
        let long = twisted_torus::long(&sizes);
        let long = long.ok_or_else(|| unfit(format!("twisted-torus:{rows}x{columns}"), what))?;
        let neighbour =
            |rank, dimension, up| Some(twisted_torus::neighbour(&sizes, long, rank, dimension, up));
        Ok(Topology::grid(Family::TwistedTorus, &sizes, grid::links(&sizes, neighbour)))
    }

    /// Ranks with a link to each one that differs in one coordinate only.
    pub fn hyperx(sizes: &[usize]) -> Result<Topology, TopologyError> {
        check_grid(sizes, 0, "hyperx")?;
        check_grid(sizes, hyperx::degree(sizes), "hyperx")?;
        Ok(Topology::grid(Family::HyperX, sizes, hyperx::links(sizes)))
    }

    /// So many boards (rows, columns), each a mesh of `board` ranks, whose ends are joined by a tree for every row and
    /// column of ranks.
    pub fn hamming_mesh(board: [usize; 2], count: [usize; 2]) -> Result<Topology, TopologyError> {
        let boards = Boards { board, count };
        check_size(&[board, count].concat(), 8, || parse::boards(&boards))?;
        let grid = Topology::grid(Family::HammingMesh(boards), &boards.grid(), boards.links());
        Ok(Topology { nodes: boards.nodes(), ..grid })
    }

    /// 2^`dimensions` ranks with a link to each one whose number differs in one bit.
    pub fn hypercube(dimensions: usize) -> Result<Topology, TopologyError> {
        let sizes = cube(dimensions, 1, || format!("hypercube:{dimensions}"))?;
        Ok(Topology::grid(Family::Hypercube, &sizes, hypercube::links(dimensions, false)))
    }

    /// A hypercube of 3 or more dimensions, two of whose cables are exchanged so that its diameter is one less.
    pub fn twisted_hypercube(dimensions: usize) -> Result<Topology, TopologyError> {
        let sizes = cube(dimensions, 3, || format!("twisted-hypercube:{dimensions}"))?;
        Ok(Topology::grid(Family::TwistedHypercube, &sizes, hypercube::links(dimensions, true)))
    }

    /// `n` ranks with one cable each to a switch that can forward all of them at full bandwidth.
    pub fn switch(n: usize) -> Result<Topology, TopologyError> {
        let ranks = check_size(&[n], 2, || format!("switch:{n}"))?;
        Ok(Topology::plain(Family::Switch, ranks, ranks + 1, switch::links(ranks)))
    }

    /// Levels of switches with so many below each, from the top down; the last size is that of ranks. `ratios` say how
    /// many times as much bandwidth leads into a switch from below as leads up from it, for every level but the highest,
    /// from the top down; one ratio is for all, and none are 1.
    pub fn fat_tree(sizes: &[usize], ratios: &[f64]) -> Result<Topology, TopologyError> {
        let spec = || parse::fat_tree(sizes, ratios);
        let malformed = || TopologyError::Malformed { spec: spec(), example: parse::example("fattree") };
        let levels = sizes.len().checked_sub(1).ok_or_else(malformed)?;
        let ranks = check_size(sizes, 2 * sizes.len(), spec)?;
        let ratios = match *ratios {
            [] => vec![1.0; levels],
            [one] => vec![one; levels],
            ref each => each.to_vec(),
        };
        if ratios.len() != levels {
            return Err(unfit(
                spec(),
                "there is one ratio for all levels of switches below the highest, or one for each",
            ));
        }
        if !ratios.iter().all(|ratio| fat_tree::RATIOS.contains(ratio)) {
            return Err(unfit(
                spec(),
                "bandwidth up is at most that from below, and at least a millionth of it",
            ));
        }
        let links = fat_tree::links(sizes, &ratios);
        Ok(Topology::plain(Family::FatTree(sizes.to_vec(), ratios), ranks, fat_tree::nodes(sizes), links))
    }

    /// So many hosts of `per_host` ranks each, which share their host's memory and its cable to a switch.
    pub fn hosts(hosts: usize, per_host: usize) -> Result<Topology, TopologyError> {
        let ranks = check_size(&[hosts, per_host], 4, || format!("hosts:{hosts}x{per_host}"))?;
        let (nodes, links) = (ranks + hosts + 1, hosts::links(hosts, per_host));
        Ok(Topology { per_host, ..Topology::plain(Family::Hosts, ranks, nodes, links) })
    }

    /// Any graph: the ranks are its first nodes. Its name becomes part of the spec, `graph:name`, but only the links say
    /// what it is. Every rank must reach every other one.
    pub fn from_links(
        name: &str,
        ranks: usize,
        nodes: usize,
        links: Vec<Link>,
    ) -> Result<Topology, TopologyError> {
        graph::check(name, ranks, nodes, &links)?;
        Ok(Topology::plain(Family::Graph(name.to_owned()), ranks, nodes, links))
    }

    /// The graph with a grid that algorithms take for a torus, such as that of a torus of which a cable has failed. Its
    /// links stay as they are. An empty one is none.
    pub fn with_dimensions(self, sizes: &[usize]) -> Result<Topology, TopologyError> {
        let wrong = |what: String| Err(TopologyError::Graph { spec: self.spec(), what });
        if !matches!(self.family, Family::Graph(_)) {
            return wrong("its grid is given; choose that of a graph".to_owned());
        }
        let ranks = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
        if !sizes.is_empty() && ranks != Some(self.ranks) {
            let sizes = parse::join(sizes);
            return wrong(format!("a grid of {sizes} is not one of its {} ranks", self.ranks));
        }
        Ok(Topology { dimensions: sizes.to_vec(), ..self })
    }

    /// Reads a spec, with a routing if wanted, as in `torus:4x4,routing=single-path`:
    ///
    /// * a family: `ring:8`, `torus:4x4x2`, `mesh:4x4`, `twisted-torus:8x4`, `hyperx:4x4`, `hammingmesh:2x2:4x4`,
    ///   `hypercube:4`, `twisted-hypercube:3`, `switch:16`, `fattree:4x8`, `fattree:4x8:2`, `hosts:2x4`, `circulant:16:3,4`,
    ///   `directed-circulant:8:1,3`, `complete:5`, `complete-bipartite:4`, `hamming:2:3`, `kautz:4:1`,
    ///   `generalized-kautz:4:1024`, `de-bruijn:2:4`, `uniring:4:5`, `biring:2:5`, `cayley:z64*z16^11:34.1,14.14`,
    ///   `odd-graph:4`, `doubled-odd-graph:4`;
    /// * a graph that has a name: `petersen`, `octahedron` and more;
    /// * what an operator makes of these: `line(petersen)`, `line-graph(petersen)`, `degree(ring:5, 2)`,
    ///   `power(complete:3, 2)`, `product(ring:4, complete:3)`, `transpose(kautz:2:2)`, `bidirectional(kautz:2:2)`,
    ///   `without(torus:4x4, 0-1, 5>6)`, `bottleneck(torus:4x4, 2)`.
    pub fn parse(spec: &str) -> Result<Topology, TopologyError> {
        parse::topology(spec)
    }
}

/// How many ranks these sizes make, each of which accounts for `links` links at most.
pub(super) fn check_size(
    sizes: &[usize],
    links: usize,
    spec: impl Fn() -> String,
) -> Result<usize, TopologyError> {
    if sizes.contains(&0) {
        return Err(TopologyError::Zero(spec()));
    }
    let ranks = sizes
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size))
        .filter(|ranks| *ranks <= MAX_RANKS)
        .ok_or_else(|| TopologyError::TooLarge(spec()))?;
    match ranks.checked_mul(links) {
        Some(links) if links <= MAX_LINKS => Ok(ranks),
        _ => Err(TopologyError::TooManyLinks(spec())),
    }
}

fn check_grid(sizes: &[usize], links: usize, family: &str) -> Result<usize, TopologyError> {
    let spec = || format!("{family}:{}", parse::join(sizes));
    if sizes.is_empty() {
        return Err(TopologyError::Malformed { spec: spec(), example: parse::example(family) });
    }
    check_size(sizes, links, spec)
}

/// The grid of a hypercube of `least` dimensions or more.
fn cube(dimensions: usize, least: usize, spec: impl Fn() -> String) -> Result<Vec<usize>, TopologyError> {
    if dimensions < least {
        return Err(unfit(
            spec(),
            if least == 1 { "it needs a dimension" } else { "it needs 3 dimensions or more" },
        ));
    }
    if dimensions > MAX_RANKS.ilog2() as usize {
        return Err(TopologyError::TooLarge(spec()));
    }
    let sizes = vec![2; dimensions];
    check_size(&sizes, dimensions, spec)?;
    Ok(sizes)
}

pub(super) fn unfit(spec: String, what: &'static str) -> TopologyError {
    let example = parse::example(spec.split([':', '(']).next().unwrap_or_default());
    TopologyError::Sizes { spec, what, example }
}
