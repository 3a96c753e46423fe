//! The base networks, from which others are made: families with a formula, good graphs with a name, and the table's
//! graphs.

use super::draw::{draw, Urn};
use super::evaluate::{cayley, kautz, GraphCost};
use super::group::MetacyclicGroup;
use super::table::{GraphKind, GraphTable, TableEntry, TABLE_DEGREE, TABLE_RANKS};

/// A network that is not made of others.
#[derive(Debug, Clone)]
pub(super) struct BaseNetwork {
    pub(super) name: Name,
    pub(super) cost: GraphCost,
    /// Whether every link has a reverse link.
    pub(super) undirected: bool,
    /// Whether all ranks have as many links as the degree says.
    pub(super) regular: bool,
}

/// What the spec of a base is made from.
#[derive(Debug, Clone)]
pub(super) enum Name {
    Spec(String),
    /// The number of a random draw, and whether every link has a reverse link.
    Drawn(usize, bool),
}

impl BaseNetwork {
    /// The base that an entry of the table describes.
    fn from_entry(entry: &TableEntry, ranks: usize, degree: usize) -> BaseNetwork {
        let name = match entry.kind {
            GraphKind::Kautz => Name::Spec(format!("generalized-kautz:{degree}:{ranks}")),
            kind => Name::Drawn(entry.number, kind == GraphKind::Undirected),
        };
        let regular = entry.kind != GraphKind::Kautz || ranks.is_multiple_of(degree + 1);
        BaseNetwork { name, cost: entry.cost, undirected: entry.kind == GraphKind::Undirected, regular }
    }
}

impl Name {
    pub(super) fn spec(&self, ranks: usize, degree: usize) -> String {
        match self {
            Name::Spec(spec) => spec.clone(),
            Name::Drawn(number, undirected) => {
                let drawn = Urn::new(ranks, degree, *undirected).draw(*number);
                drawn.expect("only what has been drawn has a cost").spec()
            }
        }
    }
}

/// Distance-regular graphs, which have links in both directions and the least bandwidth term: name, ranks, degree,
/// steps.
pub(super) const DISTANCE_REGULAR: [(&str, usize, usize, usize); 17] = [
    ("petersen", 10, 3, 2),
    ("heawood", 14, 3, 3),
    ("doubled-odd-graph:3", 20, 3, 5),
    ("tutte-8-cage", 30, 3, 4),
    ("tutte-12-cage", 126, 3, 6),
    ("octahedron", 6, 4, 2),
    ("k55-minus-matching", 10, 4, 3),
    ("heawood-distance-3", 14, 4, 3),
    ("line-graph(petersen)", 15, 4, 3),
    ("line-graph(heawood)", 21, 4, 3),
    ("pg23-incidence", 26, 4, 3),
    ("ag24-incidence", 32, 4, 4),
    ("odd-graph:4", 35, 4, 3),
    ("line-graph(tutte-8-cage)", 45, 4, 4),
    ("gq33-incidence", 80, 4, 4),
    ("line-graph(tutte-12-cage)", 189, 4, 6),
    ("gh33-incidence", 728, 4, 6),
];

/// The numbers `m`, `k` and `r` of a group, and the generators as pairs.
type KnownGroup = (usize, usize, usize, &'static [(usize, usize)]);

/// Cayley digraphs found by a longer search.
const FOUND: [KnownGroup; 8] = [
    (8, 1, 1, &[(1, 0), (3, 0)]),
    (8, 2, 3, &[(5, 1), (3, 0)]),
    (9, 1, 1, &[(1, 0), (3, 0), (4, 0)]),
    (13, 1, 1, &[(1, 0), (2, 0), (6, 0), (9, 0)]),
    (16, 1, 1, &[(1, 0), (7, 0)]),
    (16, 1, 1, &[(1, 0), (2, 0), (3, 0), (6, 0)]),
    (32, 8, 3, &[(0, 1), (27, 1), (22, 7), (7, 6)]),
    (64, 16, 11, &[(34, 1), (14, 14), (23, 12), (33, 7)]),
];

/// All bases with this number of ranks and of links out of each rank.
pub(super) fn bases(table: &GraphTable, ranks: usize, degree: usize) -> Vec<BaseNetwork> {
    let mut bases = named(ranks, degree);
    let in_table = ranks <= TABLE_RANKS && degree <= TABLE_DEGREE;
    let entries = if in_table { table.entries(ranks, degree).to_vec() } else { search(ranks, degree) };
    bases.extend(entries.iter().map(|entry| BaseNetwork::from_entry(entry, ranks, degree)));
    bases
}

fn named(ranks: usize, degree: usize) -> Vec<BaseNetwork> {
    let mut bases = Vec::new();
    let mut add = |spec: String, cost: GraphCost, undirected: bool| {
        bases.push(BaseNetwork { name: Name::Spec(spec), cost, undirected, regular: true });
    };
    let optimal = |steps: usize| GraphCost::optimal(ranks, steps);
    if ranks == degree + 1 {
        add(format!("complete:{ranks}"), optimal(1), true);
    }
    if ranks == 2 * degree && degree > 1 {
        add(format!("complete-bipartite:{degree}"), optimal(2), true);
    }
    for (name, _, _, steps) in DISTANCE_REGULAR.iter().filter(|graph| (graph.1, graph.2) == (ranks, degree)) {
        add((*name).to_owned(), optimal(*steps), true);
    }
    if ranks > 2 && degree == 2 {
        add(format!("ring:{ranks}"), optimal(ranks / 2), true);
    } else if ranks > 2 && degree.is_multiple_of(2) {
        add(format!("biring:{degree}:{ranks}"), optimal(ranks / 2), true);
    }
    if ranks > 2 || degree > 1 {
        add(format!("uniring:{degree}:{ranks}"), optimal(ranks - 1), ranks == 2);
    }
    if degree == 4 && ranks >= 7 {
        // The smallest diameter of a circulant with two offsets (Zhao et al., Theorem 22).
        let m = (1..).find(|m| 2 * m * m + 2 * m + 1 >= ranks).unwrap_or(1);
        let generators = [m, ranks - m, m + 1, ranks - m - 1];
        if let Some(cost) = cayley(&MetacyclicGroup::cyclic(ranks), &generators, usize::MAX) {
            add(format!("circulant:{ranks}:{m},{}", m + 1), cost, true);
        }
    }
    for (m, k, r, pairs) in FOUND {
        if m * k == ranks && pairs.len() == degree {
            let generators: Vec<usize> = pairs.iter().map(|(x, c)| x * k + c).collect();
            let group = MetacyclicGroup::new(m, k, r).expect("these are groups");
            if let Some(cost) = cayley(&group, &generators, usize::MAX) {
                add(group.cayley(&generators), cost, false);
            }
        }
    }
    bases
}

/// The largest product of links and ranks for which all ranks of a graph are examined, outside the table.
const MOST_ROWS: usize = 1 << 26;

/// Searches for the entries that the table would have if it covered this size.
fn search(ranks: usize, degree: usize) -> Vec<TableEntry> {
    let mut found = Vec::new();
    if degree < 2 || ranks <= degree {
        return found;
    }
    for (kind, undirected) in [(GraphKind::Directed, false), (GraphKind::Undirected, true)] {
        let drawn = draw(ranks, degree, undirected);
        found.extend(drawn.into_iter().map(|(number, cost)| TableEntry { kind, number, cost }));
    }
    let fewest = found.iter().map(|entry| entry.cost.steps).min().unwrap_or(usize::MAX);
    if ranks.saturating_mul(ranks).saturating_mul(degree) <= MOST_ROWS {
        let cost = kautz(ranks, degree, fewest);
        found.extend(cost.map(|cost| TableEntry { kind: GraphKind::Kautz, number: 0, cost }));
    }
    found
}
