//! Specs of topologies.

use std::str::FromStr;

use super::catalogue::{example, examples, family, names, operator, Operator};
use super::expression::{arguments, commas, depth, Arguments};
use super::family::TopologyResult;
use super::options::{options, SpecOptions};
use super::text::FILES;
use super::{Routing, Topology, TopologyError};
use crate::units::nearest;

/// How many operators may stand within each other.
const MOST_NESTED: usize = 32;

/// Whether the text is the name of a file, which no spec looks like: it has a folder, or ends as files of graphs do.
pub fn names_a_file(text: &str) -> bool {
    let text = text.trim();
    let ending = text.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let first = text.split_once(',').map_or(text, |(first, _)| first);
    first.contains('/') || ending.is_some_and(|ending| FILES.contains(&ending.as_str()))
}

impl Topology {
    /// Reads a spec, with a routing and rates if wanted, as in `torus:4x4,routing=single-path,bandwidth=200Mbit/s`:
    ///
    /// * a family such as `ring:8`, `torus:4x4x2`, `hammingmesh:2x2:4x4`, `fattree:4x8:2` or `circulant:16:3,4`
    ///   ([`families`](super::families) are all);
    /// * a graph that has a name: `petersen`, `octahedron` and more ([`named_graphs`](super::named_graphs));
    /// * what an operator makes of these, such as `line(petersen)`, `product(ring:4, complete:3)` or
    ///   `without(torus:4x4, 0-1, 5>6)` ([`operators`](super::operators)).
    ///
    /// `latency=20us` and `memory=10GB/s` (of hosts) are further rates, and `0-1=50Mbit/s` or `0>1=50Mbit/s` those of a
    /// cable or link. Ranks may stand in another order, as in `torus:2x2@2,0,1,3` ([`Topology::placed`]); this comes last.
    pub fn parse(spec: &str) -> Result<Topology, TopologyError> {
        let (topology, routing) = parts(spec)?;
        topology.with_routing(routing)
    }
}

impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(spec: &str) -> Result<Self, Self::Err> {
        Topology::parse(spec)
    }
}

/// What a spec says, and the routing that it is to have.
pub(super) fn parts(spec: &str) -> Result<(Topology, Routing), TopologyError> {
    if names_a_file(spec) {
        return Err(TopologyError::File { path: spec.to_owned(), examples: examples() });
    }
    if graph(spec)?.is_some() {
        return Err(TopologyError::NeedsLinks(spec.to_owned()));
    }
    let text = spec.trim();
    if depth(text) > MOST_NESTED {
        return Err(unfit(spec, "so many operators within each other are too many; write 32 at most"));
    }
    let (wiring, options) = options(spec, text)?;
    let placed = options.placed(wiring_of(spec, &wiring.to_ascii_lowercase())?)?;
    Ok((options.rated(placed)?, options.routing()))
}

/// What the part of `spec` without its routing says.
fn wiring_of(spec: &str, text: &str) -> Result<Topology, TopologyError> {
    let end = text.find([':', '(']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let known = names().find(|known| *known == name);
    let Some(name) = known else {
        let suggestion = nearest(name, names());
        return Err(TopologyError::UnknownFamily { spec: spec.to_owned(), suggestion, examples: examples() });
    };
    let made = match rest.chars().next() {
        None => Topology::named(name),
        Some('(') => rest[1..].strip_suffix(')').and_then(|inner| apply(operator(name)?, inner)),
        _ => family(name).and_then(|family| family.read(&rest[1..])),
    };
    let example = example(name);
    made.unwrap_or_else(|| Err(TopologyError::Malformed { spec: spec.to_owned(), example }))
}

/// An operand: a spec without routing, which the whole has at its end.
fn operand(text: &str) -> Result<Topology, TopologyError> {
    match options(text, text)? {
        (_, options) if options.are_of_the_whole() => {
            Err(unfit(text, "routing and rates are those of the whole; write them at the end"))
        }
        (wiring, options) => options.placed(wiring_of(text, wiring)?),
    }
}

/// The name of a graph and what follows it, of a spec such as `graph:name`.
pub(super) fn graph(spec: &str) -> Result<Option<(String, SpecOptions)>, TopologyError> {
    let Some(rest) = spec.trim().strip_prefix("graph:") else { return Ok(None) };
    let (name, options) = options(spec, rest)?;
    Ok(Some((name.to_owned(), options)))
}

/// `None` where what stands in the parentheses has not the form that the operator has.
fn apply(operator: &Operator, inner: &str) -> Option<TopologyResult> {
    let Arguments { operands, parameters } = arguments(operator.takes, inner)?;
    match operands.into_iter().map(operand).collect::<Result<Vec<Topology>, _>>() {
        Ok(operands) => (operator.make)(&operands, &parameters),
        Err(error) => Some(Err(error)),
    }
}

/// Of a spec such as `without(ring:8, 0-1)`: the operator, its operands and what follows them, as they are written. `None`
/// for families and graphs with a name. Whether the operands make sense is not looked at.
pub fn operands(spec: &str) -> Option<(&str, Vec<&str>, Vec<&str>)> {
    let spec = spec.trim();
    let commas = commas(spec);
    let wiring = commas.first().map_or(spec, |at| spec[..*at].trim_end());
    let (name, inner) = wiring.split_once('(')?;
    let Arguments { operands, parameters } = arguments(operator(name)?.takes, inner.strip_suffix(')')?)?;
    Some((name, operands, parameters))
}

/// The error for a spec whose operators do not fit together; `what` says what must hold.
fn unfit(spec: &str, what: &'static str) -> TopologyError {
    let example = example(spec.split([':', '(']).next().unwrap_or_default());
    TopologyError::Sizes { spec: spec.to_owned(), what, example }
}
