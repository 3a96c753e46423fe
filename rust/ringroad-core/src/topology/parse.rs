//! Specs of topologies.

use std::str::FromStr;
use strsim::levenshtein;

use super::distance_regular::NAMED;
use super::expression::{apply, commas, depth};
use super::families::unfit;
use super::hamming_mesh::Boards;
use super::{cayley, Routing, Topology, TopologyError};

/// The families with an example each.
const FAMILIES: [(&str, &str); 24] = [
    ("ring", "ring:8"),
    ("torus", "torus:4x4x2"),
    ("mesh", "mesh:4x4"),
    ("twisted-torus", "twisted-torus:8x4"),
    ("hyperx", "hyperx:4x4"),
    ("hammingmesh", "hammingmesh:2x2:4x4"),
    ("hypercube", "hypercube:4"),
    ("twisted-hypercube", "twisted-hypercube:3"),
    ("switch", "switch:16"),
    ("fattree", "fattree:4x8"),
    ("hosts", "hosts:2x4"),
    ("circulant", "circulant:16:3,4"),
    ("directed-circulant", "directed-circulant:8:1,3"),
    ("complete", "complete:5"),
    ("complete-bipartite", "complete-bipartite:4"),
    ("hamming", "hamming:2:3"),
    ("kautz", "kautz:4:1"),
    ("generalized-kautz", "generalized-kautz:4:1024"),
    ("de-bruijn", "de-bruijn:2:4"),
    ("uniring", "uniring:4:5"),
    ("biring", "biring:2:5"),
    ("cayley", "cayley:z64*z16^11:34.1,14.14"),
    ("odd-graph", "odd-graph:4"),
    ("doubled-odd-graph", "doubled-odd-graph:4"),
];

/// Families whose last part is a list, with commas in it.
const LISTS: [&str; 3] = ["circulant", "directed-circulant", "cayley"];

/// What makes graphs of graphs, with an example each.
const OPERATORS: [(&str, &str); 9] = [
    ("line", "line(petersen)"),
    ("line-graph", "line-graph(petersen)"),
    ("degree", "degree(ring:5, 2)"),
    ("power", "power(complete:3, 2)"),
    ("product", "product(ring:4, complete:3)"),
    ("transpose", "transpose(kautz:2:2)"),
    ("bidirectional", "bidirectional(kautz:2:2)"),
    ("without", "without(torus:4x4, 0-1, 5>6)"),
    ("bottleneck", "bottleneck(torus:4x4, 2)"),
];

/// How many operators may stand within each other.
const MOST_NESTED: usize = 32;

/// How files of graphs are called, besides names with a folder.
const FILES: [&str; 7] = ["json", "graphml", "gml", "csv", "edges", "edgelist", "txt"];

/// An example of every family, and what there is besides: `ring:8, torus:4x4x2, ... or ...`.
pub(super) fn examples() -> String {
    let families: Vec<&str> = FAMILIES.iter().map(|family| family.1).collect();
    let graphs = "a graph with a name such as petersen, or what an operator makes such as line(petersen)";
    format!("{}, {graphs}", families.join(", "))
}

/// How a spec of this family, or with this operator, may look.
pub(super) fn example(name: &str) -> &'static str {
    let known = FAMILIES.iter().chain(&OPERATORS).find(|known| known.0 == name);
    known.map(|known| known.1).or_else(|| names().find(|known| *known == name)).unwrap_or("ring:8")
}

/// Whatever a spec may begin with.
fn names() -> impl Iterator<Item = &'static str> {
    let spelled = FAMILIES.iter().chain(&OPERATORS).map(|known| known.0);
    spelled.chain(NAMED.iter().map(|graph| graph.0))
}

/// Whether the text is the name of a file, which no spec looks like: it has a folder, or ends as files of graphs do.
pub fn names_a_file(text: &str) -> bool {
    let text = text.trim();
    let ending = text.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    text.contains('/') || ending.is_some_and(|ending| FILES.contains(&ending.as_str()))
}

impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(spec: &str) -> Result<Self, Self::Err> {
        Topology::parse(spec)
    }
}

pub(super) fn topology(spec: &str) -> Result<Topology, TopologyError> {
    let (topology, routing) = parts(spec)?;
    topology.with_routing(routing)
}

/// What a spec says, and the routing that it is to have.
pub(super) fn parts(spec: &str) -> Result<(Topology, Routing), TopologyError> {
    if names_a_file(spec) {
        return Err(TopologyError::File { path: spec.to_owned() });
    }
    if graph(spec)?.is_some() {
        return Err(TopologyError::NeedsLinks(spec.to_owned()));
    }
    let text = spec.trim().to_ascii_lowercase();
    if depth(&text) > MOST_NESTED {
        return Err(unfit(
            spec.to_owned(),
            "so many operators within each other are too many; write 32 at most",
        ));
    }
    let (wiring, routing) = options(spec, &text)?;
    Ok((wiring_of(spec, wiring)?, routing.unwrap_or_default()))
}

/// What the part of `spec` without its routing says.
fn wiring_of(spec: &str, text: &str) -> Result<Topology, TopologyError> {
    let end = text.find([':', '(']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let known = names().find(|known| *known == name);
    let Some(name) = known else {
        let suggestion = nearest(name, names());
        return Err(TopologyError::UnknownFamily { spec: spec.to_owned(), suggestion });
    };
    let made = match rest.chars().next() {
        None => Topology::named(name),
        Some('(') => rest[1..].strip_suffix(')').and_then(|inner| apply(name, inner)),
        _ => wired(name, &rest[1..]),
    };
    let example = example(name);
    made.unwrap_or_else(|| Err(TopologyError::Malformed { spec: spec.to_owned(), example }))
}

/// An operand: a spec without routing, which the whole has at its end.
pub(super) fn operand(text: &str) -> Result<Topology, TopologyError> {
    match options(text, text)? {
        (wiring, None) => wiring_of(text, wiring),
        _ => Err(unfit(text.to_owned(), "routing is that of the whole; write it at the end")),
    }
}

/// The name of a graph and its routing, of a spec such as `graph:name`.
pub(super) fn graph(spec: &str) -> Result<Option<(String, Routing)>, TopologyError> {
    let Some(rest) = spec.trim().strip_prefix("graph:") else { return Ok(None) };
    let (name, routing) = options(spec, rest)?;
    Ok(Some((name.to_owned(), routing.unwrap_or_default())))
}

/// What comes before the comma that is not one of a list, and the routing that comes after it.
fn options<'a>(spec: &str, text: &'a str) -> Result<(&'a str, Option<Routing>), TopologyError> {
    let is_list = text.split_once(':').is_some_and(|(family, _)| LISTS.contains(&family));
    let goes_on =
        |at: &usize| is_list && text[at + 1..].trim_start().starts_with(|c: char| c.is_ascii_digit());
    let Some(at) = commas(text).into_iter().find(|at| !goes_on(at)) else { return Ok((text, None)) };
    let malformed =
        || TopologyError::Malformed { spec: spec.to_owned(), example: "torus:4x4,routing=single-path" };
    let routing = text[at + 1..].trim().strip_prefix("routing=").ok_or_else(malformed)?;
    Ok((text[..at].trim_end(), Some(routing.parse()?)))
}

/// `None` where what follows the colon has not the form that the family has.
fn wired(family: &str, rest: &str) -> Option<Result<Topology, TopologyError>> {
    let parts: Vec<&str> = rest.split(':').collect();
    let sizes = |part: &str| part.split('x').map(number).collect::<Option<Vec<usize>>>();
    let numbers = |part: &str| part.split(',').map(|n| number(n.trim())).collect::<Option<Vec<usize>>>();
    match (family, parts.as_slice()) {
        ("cayley", [group, generators]) => return Some(cayley::read(group, generators)),
        ("circulant", [n, list]) => return Some(Topology::circulant(number(n)?, &numbers(list)?)),
        ("directed-circulant", [n, list]) => {
            return Some(Topology::directed_circulant(number(n)?, &numbers(list)?))
        }
        _ => {}
    }
    let first = sizes(parts[0])?;
    Some(match (family, first.as_slice(), &parts[1..]) {
        ("ring", &[n], []) => Topology::ring(n),
        ("torus", sizes, []) => Topology::torus(sizes),
        ("mesh", sizes, []) => Topology::mesh(sizes),
        ("twisted-torus", &[rows, columns], []) => Topology::twisted_torus(rows, columns),
        ("hyperx", sizes, []) => Topology::hyperx(sizes),
        ("hammingmesh", &[a, b], [count]) => match *sizes(count)? {
            [c, d] => Topology::hamming_mesh([a, b], [c, d]),
            _ => return None,
        },
        ("hypercube", &[dimensions], []) => Topology::hypercube(dimensions),
        ("twisted-hypercube", &[dimensions], []) => Topology::twisted_hypercube(dimensions),
        ("switch", &[n], []) => Topology::switch(n),
        ("fattree", sizes, []) => Topology::fat_tree(sizes, &[]),
        ("fattree", sizes, [ratios]) => {
            Topology::fat_tree(sizes, &ratios.split('x').map(ratio).collect::<Option<Vec<f64>>>()?)
        }
        ("hosts", &[hosts, per_host], []) => Topology::hosts(hosts, per_host),
        ("complete", &[n], []) => Topology::complete(n),
        ("complete-bipartite", &[n], []) => Topology::complete_bipartite(n, n),
        ("complete-bipartite", &[a, b], []) => Topology::complete_bipartite(a, b),
        ("odd-graph", &[k], []) => Topology::odd_graph(k),
        ("doubled-odd-graph", &[k], []) => Topology::doubled_odd_graph(k),
        (_, &[a], [b]) => {
            let b = number(b)?;
            match family {
                "hamming" => Topology::hamming(a, b),
                "kautz" => Topology::kautz(a, b),
                "generalized-kautz" => Topology::generalized_kautz(a, b),
                "de-bruijn" => Topology::de_bruijn(a, b),
                "uniring" => Topology::uniring(a, b),
                "biring" => Topology::biring(a, b),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Digits only; what is too long for a number is certainly too large a topology.
pub(super) fn number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

/// Digits, and a fraction where there is one.
pub(super) fn ratio(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

pub(super) fn join<T: ToString>(sizes: &[T]) -> String {
    sizes.iter().map(T::to_string).collect::<Vec<_>>().join("x")
}

/// Numbers with commas between them.
pub(super) fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

pub(super) fn boards(boards: &Boards) -> String {
    format!("hammingmesh:{}:{}", join(&boards.board), join(&boards.count))
}

pub(super) fn fat_tree(sizes: &[usize], ratios: &[f64]) -> String {
    let tree = format!("fattree:{}", join(sizes));
    match ratios.split_first() {
        None => tree,
        Some((first, rest)) if rest.iter().all(|ratio| ratio == first) => match *first == 1.0 {
            true => tree,
            false => format!("{tree}:{first}"),
        },
        Some(_) => format!("{tree}:{}", join(ratios)),
    }
}

/// The name with the fewest typing errors, where there are two or fewer.
pub(super) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, name) = names.map(|name| (levenshtein(word, name), name)).min()?;
    (distance <= 2).then_some(name)
}
