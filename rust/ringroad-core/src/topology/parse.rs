//! Specs of topologies.

use std::str::FromStr;
use strsim::levenshtein;

use super::hamming_mesh::Boards;
use super::{Routing, Topology, TopologyError};

/// The families with an example each.
const FAMILIES: [(&str, &str); 11] = [
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
];

/// How files of graphs are called, besides names with a folder.
const FILES: [&str; 7] = ["json", "graphml", "gml", "csv", "edges", "edgelist", "txt"];

/// An example of every family: `ring:8, torus:4x4x2, ... or hosts:2x4`.
pub(super) fn examples() -> String {
    let (last, others) = FAMILIES.split_last().expect("there are families");
    let others: Vec<&str> = others.iter().map(|family| family.1).collect();
    format!("{} or {}", others.join(", "), last.1)
}

/// How a spec of this family may look.
pub(super) fn example(family: &str) -> &'static str {
    FAMILIES.iter().find(|f| f.0 == family).map_or("ring:8", |f| f.1)
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
    if names_a_file(spec) {
        return Err(TopologyError::File { path: spec.to_owned() });
    }
    if graph(spec)?.is_some() {
        return Err(TopologyError::NeedsLinks(spec.to_owned()));
    }
    let text = spec.trim().to_ascii_lowercase();
    let (wiring, routing) = options(spec, &text)?;
    let (family, rest) = wiring.split_once(':').unwrap_or((wiring, ""));
    let Some(&(_, example)) = FAMILIES.iter().find(|f| f.0 == family) else {
        let suggestion = nearest(family, FAMILIES.iter().map(|f| f.0));
        return Err(TopologyError::UnknownFamily { spec: spec.to_owned(), suggestion });
    };
    let wired = wired(family, rest);
    wired
        .unwrap_or_else(|| Err(TopologyError::Malformed { spec: spec.to_owned(), example }))?
        .with_routing(routing)
}

/// The name of a graph and its routing, of a spec such as `graph:name`.
pub(super) fn graph(spec: &str) -> Result<Option<(String, Routing)>, TopologyError> {
    let Some(rest) = spec.trim().strip_prefix("graph:") else { return Ok(None) };
    let (name, routing) = options(spec, rest)?;
    Ok(Some((name.to_owned(), routing)))
}

/// What comes before the first comma, and the routing that comes after it.
fn options<'a>(spec: &str, text: &'a str) -> Result<(&'a str, Routing), TopologyError> {
    let Some((wiring, option)) = text.split_once(',') else { return Ok((text, Routing::default())) };
    let malformed =
        || TopologyError::Malformed { spec: spec.to_owned(), example: "torus:4x4,routing=single-path" };
    let routing = option.trim().strip_prefix("routing=").ok_or_else(malformed)?;
    Ok((wiring.trim_end(), routing.parse()?))
}

/// `None` where what follows the colon has not the form that the family has.
fn wired(family: &str, rest: &str) -> Option<Result<Topology, TopologyError>> {
    let parts: Vec<&str> = rest.split(':').collect();
    let sizes = |part: &str| part.split('x').map(number).collect::<Option<Vec<usize>>>();
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
        _ => return None,
    })
}

/// Digits only; what is too long for a number is certainly too large a topology.
fn number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

/// Digits, and a fraction where there is one.
fn ratio(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

pub(super) fn join<T: ToString>(sizes: &[T]) -> String {
    sizes.iter().map(T::to_string).collect::<Vec<_>>().join("x")
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
