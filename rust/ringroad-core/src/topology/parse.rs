//! Specs of topologies, and what can be wrong with them.

use std::str::FromStr;
use strsim::levenshtein;

use super::{Topology, MAX_RANKS};
use crate::units::Seconds;

/// The families with an example each.
const FAMILIES: [(&str, &str); 4] =
    [("ring", "ring:8"), ("torus", "torus:4x4x2"), ("switch", "switch:16"), ("hosts", "hosts:2x4")];

/// There is no such topology.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TopologyError {
    /// The word before the colon.
    #[error("unknown topology {spec:?}; write ring:8, torus:4x4x2, switch:16 or hosts:2x4{}", suggestion.map(|s| format!(" (did you mean {s}?)")).unwrap_or_default())]
    UnknownFamily {
        /// What was written.
        spec: String,
        /// The family with the nearest name.
        suggestion: Option<&'static str>,
    },
    /// What follows the colon.
    #[error("malformed topology {spec:?}; write for example {example}")]
    Malformed {
        /// What was written.
        spec: String,
        /// How it could have been written.
        example: &'static str,
    },
    /// A size of zero.
    #[error("topology {0:?} has no ranks; write sizes of 1 or more")]
    Zero(String),
    /// More than [`MAX_RANKS`].
    #[error("topology {0:?} is too large; write sizes whose product is at most {MAX_RANKS}")]
    TooLarge(String),
    /// Zero, negative or not finite.
    #[error(
        "a link cannot carry {0} bytes per second; give a positive number, for example 12.5e9 for 100 Gb/s"
    )]
    Bandwidth(f64),
    /// Zero, negative or not finite.
    #[error("a link cannot have {0} times the bandwidth; give a positive number, for example 2")]
    Capacity(f64),
    /// Negative or not finite.
    #[error("a link cannot take {0} seconds; give zero or a positive number, for example 0.5e-6")]
    Latency(Seconds),
    /// Stored links that differ from the spec they are stored with.
    #[error(
        "the links are not those of {0:?}; write them in the order of Topology::links, or the spec alone"
    )]
    Wiring(String),
}

impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(spec: &str) -> Result<Self, Self::Err> {
        Topology::parse(spec)
    }
}

pub(super) fn topology(spec: &str) -> Result<Topology, TopologyError> {
    let text = spec.trim().to_ascii_lowercase();
    let (family, sizes) = text.split_once(':').unwrap_or((&text, ""));
    let Some(&(_, example)) = FAMILIES.iter().find(|f| f.0 == family) else {
        return Err(TopologyError::UnknownFamily { spec: spec.to_owned(), suggestion: nearest(family) });
    };
    let malformed = || TopologyError::Malformed { spec: spec.to_owned(), example };
    let sizes = sizes.split('x').map(number).collect::<Option<Vec<usize>>>().ok_or_else(malformed)?;
    match (family, sizes.as_slice()) {
        ("torus", sizes) => Topology::torus(sizes),
        ("ring", &[n]) => Topology::ring(n),
        ("switch", &[n]) => Topology::switch(n),
        ("hosts", &[hosts, per_host]) => Topology::hosts(hosts, per_host),
        _ => Err(malformed()),
    }
}

/// Digits only; what is too long for a number is certainly too large a topology.
fn number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

pub(super) fn join(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

fn nearest(word: &str) -> Option<&'static str> {
    let (distance, name) = FAMILIES.iter().map(|f| (levenshtein(word, f.0), f.0)).min()?;
    (distance <= 2).then_some(name)
}
