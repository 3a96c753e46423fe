//! Routing: which of several paths bytes take.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::TopologyError;
use crate::units::nearest;

/// How routes are chosen. All routings but tables use shortest paths only, and are the same on every machine. The
/// length of a path is its number of links, whatever their latency and bandwidth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Every shortest path carries the same share; parallel links count as different paths. This is the limit of
    /// minimal adaptive routing, which the papers' cost models assume.
    #[default]
    Minimal,
    /// Bytes follow one dimension after the other, in order, and within a dimension spread as with
    /// [`Routing::Minimal`]: to the opposite side of a ring half go each way. For grids whose dimensions have links of
    /// their own.
    DimensionOrdered,
    /// One shortest path carries everything: at every node the first link, in the order of their numbers, that leads
    /// closer to the destination.
    SinglePath,
    /// A [`RoutingTable`](super::RoutingTable), which comes with the topology, has one path for each pair of ranks.
    Table,
}

impl Routing {
    /// The routings that need no table.
    pub const ALL: [Routing; 3] = [Routing::Minimal, Routing::DimensionOrdered, Routing::SinglePath];

    /// Whether all bytes from one rank to another take the same path.
    pub fn takes_one_path(self) -> bool {
        matches!(self, Routing::SinglePath | Routing::Table)
    }

    /// The name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Routing::Minimal => "minimal",
            Routing::DimensionOrdered => "dimension-ordered",
            Routing::SinglePath => "single-path",
            Routing::Table => "table",
        }
    }
}

impl Routing {
    /// The routing in one line.
    pub fn summary(self) -> &'static str {
        match self {
            Routing::Minimal => "spread over all shortest paths; the default",
            Routing::DimensionOrdered => "one dimension after the other; on grids only",
            Routing::SinglePath => "one shortest path, over the first links",
            Routing::Table => "one path for each pair of ranks, from a table",
        }
    }
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Routing {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let word = text.trim().to_ascii_lowercase();
        let mut known = Routing::ALL.into_iter().chain([Routing::Table]);
        known.find(|routing| routing.name() == word).ok_or_else(|| {
            let suggestion = nearest(&word, Routing::ALL.iter().map(|routing| routing.name()));
            TopologyError::UnknownRouting { routing: text.to_owned(), suggestion }
        })
    }
}
