//! What can be wrong with a topology.

use super::{RouteFault, Routing, MAX_HOPS, MAX_LINKS, MAX_RANKS};
use crate::units::{LinkId, NodeId, Seconds};

/// There is no such topology.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TopologyError {
    /// The word before the colon.
    #[error("unknown topology {spec:?}; write {examples}{}", did_you_mean(suggestion))]
    UnknownFamily {
        /// What was written.
        spec: String,
        /// The family with the nearest name.
        suggestion: Option<&'static str>,
        /// What could have been written.
        examples: String,
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
    #[error("{path:?} names a file, which has to be read first; write {examples} here")]
    File {
        /// The path.
        path: String,
        /// What could have been written.
        examples: String,
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
    /// A routing by a table without the table.
    #[error("the routes of {0} are a table, which must come with it; give the topology itself, or the JSON that holds its routes")]
    NeedsRoutes(String),
    /// A table with another routing.
    #[error(
        "{spec} has {routing} routing and a table of routes; write routing=table, or leave the table out"
    )]
    NoTable {
        /// The topology.
        spec: String,
        /// Its routing.
        routing: Routing,
    },
    /// A table for another number of ranks.
    #[error("{spec} has {ranks} ranks, and the table has routes for {found}; make a table of its own")]
    TableSize {
        /// The topology.
        spec: String,
        /// How many ranks it has.
        ranks: usize,
        /// How many the table is for.
        found: usize,
    },
    /// A table has no proper path for a pair of ranks.
    #[error("rank {from} has no route to rank {to} on {spec}: {fault}")]
    Route {
        /// The topology.
        spec: String,
        /// Where the path starts.
        from: NodeId,
        /// Where it should end.
        to: NodeId,
        /// What is wrong with it.
        fault: RouteFault,
    },
    /// More than [`MAX_HOPS`].
    #[error("the routes of {ranks} ranks have more than {MAX_HOPS} hops in all, which is the most that a table holds; take fewer ranks")]
    TooManyHops {
        /// How many ranks there are.
        ranks: usize,
    },
    /// More channels than a table counts.
    #[error("the routes on {spec} need more than 256 virtual channels; take shorter routes, or the other way to channels")]
    TooManyChannels {
        /// The topology.
        spec: String,
    },
    /// Messages may wait for each other.
    #[error("routes on {spec} can deadlock: messages on them may wait for each other in a circle of {} links, {}", circle.len(), listed(circle))]
    Deadlock {
        /// The topology.
        spec: String,
        /// Links and channels, each waited for by who holds the one before.
        circle: Vec<(LinkId, u8)>,
    },
}

fn listed(circle: &[(LinkId, u8)]) -> String {
    let hop = |(link, channel): &(LinkId, u8)| format!("{link} (channel {channel})");
    circle.iter().map(hop).collect::<Vec<String>>().join(", ")
}

fn did_you_mean(suggestion: &Option<&str>) -> String {
    suggestion.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}
