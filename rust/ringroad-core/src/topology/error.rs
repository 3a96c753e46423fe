//! The error type of topologies.

use super::{RouteFault, Routing, MAX_HOPS, MAX_LINKS, MAX_RANKS};
use crate::units::{did_you_mean, NodeId, NotAQuantity, Seconds};

/// Why a topology cannot be made, changed or used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TopologyError {
    /// The word before the colon names no family.
    #[error("unknown topology {spec:?}; {}{examples}", did_you_mean(*suggestion))]
    UnknownFamily {
        /// The text that was read.
        spec: String,
        /// The family with the nearest name.
        suggestion: Option<&'static str>,
        /// What could have been written.
        examples: String,
    },
    /// The text after the colon does not have the family's form.
    #[error("malformed topology {spec:?}; write for example {example}")]
    Malformed {
        /// The text that was read.
        spec: String,
        /// A correct spec of the family.
        example: &'static str,
    },
    /// A size of zero.
    #[error("topology {0:?} has no ranks; write sizes of 1 or more")]
    Zero(String),
    /// More ranks than [`MAX_RANKS`].
    #[error("topology {0:?} is too large; write sizes whose product is at most {MAX_RANKS}")]
    TooLarge(String),
    /// More links than [`MAX_LINKS`].
    #[error(
        "topology {0:?} has too many links; at most {MAX_LINKS} can be described, so write smaller sizes"
    )]
    TooManyLinks(String),
    /// A word before a `=` that means nothing.
    #[error("topology {spec:?} says {option:?}, which means nothing; write routing=single-path, bandwidth=200Mbit/s, latency=20us or memory=10GB/s (of hosts), or the bandwidth of a cable, 0-1=50Mbit/s, or of a link, 0>1=50Mbit/s")]
    Option {
        /// The text that was read.
        spec: String,
        /// What comes after a comma.
        option: String,
    },
    /// Something that is said twice.
    #[error("topology {spec:?} says {option} twice; write it once")]
    Twice {
        /// The text that was read.
        spec: String,
        /// What is said.
        option: String,
    },
    /// A rate that is none.
    #[error("topology {spec:?}: {option} is wrong: {error}")]
    Rate {
        /// The text that was read.
        spec: String,
        /// What the rate is of.
        option: String,
        /// What is wrong.
        error: NotAQuantity,
    },
    /// Positions that are not those of a network's ranks.
    #[error("ranks of {spec} cannot be placed at {found:?}; write the position of every rank, each of the {ranks} from 0 on once, such as torus:2x2@2,0,1,3")]
    Positions {
        /// The network.
        spec: String,
        /// How many ranks it has.
        ranks: usize,
        /// The positions that were given.
        found: String,
    },
    /// Sizes that the family does not allow.
    #[error("topology {spec:?} cannot be built: {what}; write for example {example}")]
    Sizes {
        /// The text that was read.
        spec: String,
        /// What must hold.
        what: &'static str,
        /// A correct spec of the family.
        example: &'static str,
    },
    /// A bandwidth that is zero, negative or not finite.
    #[error(
        "a link cannot carry {0} bytes per second; give a positive number, for example 12.5e9 for 100 Gb/s"
    )]
    Bandwidth(f64),
    /// A capacity that is zero, negative or not finite.
    #[error("a link cannot have {0} times the bandwidth; give a positive number, for example 2")]
    Capacity(f64),
    /// A latency that is negative or not finite.
    #[error("a link cannot take {0} seconds; give zero or a positive number, for example 0.5e-6")]
    Latency(Seconds),
    /// Stored links whose ends are not those that the stored spec determines.
    #[error(
        "the links are not those of {0:?}; write them in the order of Topology::links, or the spec alone"
    )]
    Wiring(String),
    /// A graph without its links.
    #[error("{0:?} is only the name of a graph, and the links are missing; give the path of its file, such as net.graphml, or the topology itself")]
    NeedsLinks(String),
    /// Fields that only graphs have, stored with another spec.
    #[error("ranks, nodes and dimensions follow from {0:?}; leave them out, or write graph:name")]
    NoGraph(String),
    /// A path where a spec is expected.
    #[error("{path:?} names a file, which has to be read first; write {examples} here")]
    File {
        /// The path.
        path: String,
        /// What could have been written.
        examples: String,
    },
    /// A name of a graph with characters that a spec cannot contain.
    #[error("a graph cannot be called {0:?}; use letters, digits, dots, dashes and underscores")]
    Name(String),
    /// A graph that cannot be used.
    #[error("topology {spec:?} cannot be used: {what}")]
    Graph {
        /// The spec of the graph.
        spec: String,
        /// What is wrong, and how to correct it.
        what: String,
    },
    /// A word that names no routing.
    #[error("unknown routing {routing:?}; {}one of: {}", did_you_mean(*suggestion), Routing::ALL.map(Routing::name).join(", "))]
    UnknownRouting {
        /// The text that was read.
        routing: String,
        /// The routing with the nearest name.
        suggestion: Option<&'static str>,
    },
    /// A routing that needs dimensions, for a topology without them.
    #[error("{routing} routing needs dimensions with links of their own, which {spec} does not have; use minimal or single-path")]
    Unordered {
        /// The topology.
        spec: String,
        /// The requested routing.
        routing: Routing,
    },
    /// Table routing without a table.
    #[error("{0} has table routing, but the table of routes is missing; give the topology itself, or the JSON that contains its routes")]
    NeedsRoutes(String),
    /// A table with another routing.
    #[error(
        "{spec} has {routing} routing and a table of routes; write routing=table, or leave the table out"
    )]
    NoTable {
        /// The topology.
        spec: String,
        /// The routing of the topology.
        routing: Routing,
    },
    /// A table for another number of ranks.
    #[error(
        "{spec} has {ranks} ranks, but the table has routes for {found}; make a table for this topology"
    )]
    TableSize {
        /// The topology.
        spec: String,
        /// How many ranks the topology has.
        ranks: usize,
        /// How many ranks the table is for.
        found: usize,
    },
    /// A table without a valid path for a pair of ranks.
    #[error("rank {from} has no route to rank {to} on {spec}: {fault}")]
    Route {
        /// The topology.
        spec: String,
        /// Where the path starts.
        from: NodeId,
        /// Where it should end.
        to: NodeId,
        /// What is wrong with the path.
        fault: RouteFault,
    },
    /// More hops than [`MAX_HOPS`].
    #[error("the routes of {ranks} ranks have more than {MAX_HOPS} hops in all, which is the most that a table holds; use fewer ranks")]
    TooManyHops {
        /// How many ranks there are.
        ranks: usize,
    },
}
