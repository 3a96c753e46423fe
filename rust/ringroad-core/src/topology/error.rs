//! What can be wrong with a topology.

use super::{parse, Routing, MAX_LINKS, MAX_RANKS};
use crate::units::Seconds;

/// There is no such topology.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TopologyError {
    /// The word before the colon.
    #[error("unknown topology {spec:?}; write {}{}", parse::examples(), did_you_mean(suggestion))]
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
    /// More than [`MAX_LINKS`].
    #[error(
        "topology {0:?} has too many links; at most {MAX_LINKS} can be described, so write smaller sizes"
    )]
    TooManyLinks(String),
    /// Sizes that a family has not.
    #[error("topology {spec:?} cannot be built: {what}; write for example {example}")]
    Sizes {
        /// What was written.
        spec: String,
        /// What must hold.
        what: &'static str,
        /// How it could have been written.
        example: &'static str,
    },
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
    /// A graph without its links.
    #[error("{0:?} is only a name: a graph is known by its links; give the path of its file, such as net.graphml, or the topology itself")]
    NeedsLinks(String),
    /// What only graphs have, stored with another spec.
    #[error("ranks, nodes and dimensions follow from {0:?}; leave them out, or write graph:name")]
    NoGraph(String),
    /// A path where a spec is read.
    #[error("{path:?} names a file, which has to be read first; write {} here", parse::examples())]
    File {
        /// The path.
        path: String,
    },
    /// A graph's name that would spoil its spec.
    #[error("a graph cannot be called {0:?}; take letters, digits, dots, dashes and underscores")]
    Name(String),
    /// What is wrong with a graph.
    #[error("topology {spec:?} cannot be used: {what}")]
    Graph {
        /// Its spec.
        spec: String,
        /// What does not fit, and what would.
        what: String,
    },
    /// A word that is no routing.
    #[error("unknown routing {routing:?}; write {}{}", Routing::ALL.map(Routing::name).join(" or "), did_you_mean(suggestion))]
    UnknownRouting {
        /// What was written.
        routing: String,
        /// The routing with the nearest name.
        suggestion: Option<&'static str>,
    },
    /// A routing that the family has no meaning for.
    #[error("{spec} has no dimensions with links of their own, which {routing} routing follows; take minimal or single-path")]
    Unordered {
        /// The topology.
        spec: String,
        /// What was asked for.
        routing: Routing,
    },
}

fn did_you_mean(suggestion: &Option<&str>) -> String {
    suggestion.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}
