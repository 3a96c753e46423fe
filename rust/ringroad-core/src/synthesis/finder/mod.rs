//! Finds the networks with a given number of ranks and of links per rank in which collectives take the least time.
//!
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications (arXiv 2202.03356), section 5.4. The
//! time of a collective by breadth-first broadcast ([`super::bfb`]) has two parts: steps, and a bandwidth term. Few
//! steps require a small diameter; a small term requires equally busy links. The bytes, the start-up time and the
//! bandwidth decide which network is the best, so the result is all networks of which no other one is at least as good
//! in both parts.
//! ```text
//! bases: known graphs, random Cayley graphs (a table has the good ones)
//!    -> line graphs, copies, powers, products, both directions: all that have the right size, with costs by formulas
//!    -> exact costs of the few that are left -> those of which no other one is at least as good
//! ```
//! Beyond the paper: random Cayley digraphs as bases, most of which have equally busy links and hardly more steps than
//! necessary; copies without an additional step if links have reverse links; and exact costs of the networks that are
//! made.

mod bases;
mod bounds;
mod closure;
mod draw;
mod evaluate;
mod group;
mod lines;
mod random;
mod table;

pub use bounds::{moore_steps, undirected_moore_steps};
pub use evaluate::{least_bandwidth, Cost};
pub use lines::{lines, pruned};
pub use table::{TABLE_DEGREE, TABLE_RANKS};

use super::bfb;
use crate::topology::Topology;
use closure::{Closure, Point};
use table::Table;

/// The largest number of links out of a rank.
pub const MOST_DEGREE: usize = 32;
/// The largest number of ranks.
pub const MOST_RANKS: usize = 1 << 16;
/// Up to this product of ranks squared and links, the costs of networks that are made of others are computed exactly.
const MOST_EXACT: usize = 1 << 25;

/// Why no network is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The number of ranks or links is out of range.
    #[error("no networks with {ranks} ranks and {degree} links per rank are known; ask for 2 to {MOST_RANKS} ranks and 1 to {MOST_DEGREE} links")]
    Size {
        /// The number of ranks.
        ranks: usize,
        /// The number of links per rank.
        degree: usize,
    },
    /// No network has the requested properties.
    #[error("no network with {ranks} ranks and {degree} links in both directions per rank is known; ask for an even number of links, or for one-way links")]
    Nothing {
        /// The number of ranks.
        ranks: usize,
        /// The number of links per rank.
        degree: usize,
    },
}

/// A network that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its spec, for [`Topology::parse`].
    pub spec: String,
    /// The number of ranks.
    pub ranks: usize,
    /// The number of links out of each rank, which is also the number into each rank.
    pub degree: usize,
    /// Whether every link has a reverse link, so that they form cables.
    pub undirected: bool,
    /// The cost of breadth-first broadcast.
    pub cost: Cost,
}

impl Found {
    fn new(point: &Point) -> Found {
        let spec = point.spec();
        let mut cost = point.cost;
        if point.is_made() && point.ranks.saturating_pow(2).saturating_mul(point.degree) <= MOST_EXACT {
            let made = Topology::parse(&spec).ok();
            let costs = made.and_then(|topology| bfb::costs(&topology).ok());
            if let Some([gather, scatter]) = costs {
                let steps = gather.loads.len();
                cost = Cost {
                    steps,
                    allgather: gather.bandwidth(),
                    reduce_scatter: scatter.bandwidth(),
                    ..cost
                };
            }
        }
        Found { spec, ranks: point.ranks, degree: point.degree, undirected: point.undirected, cost }
    }

    /// Whether it is at least as good as the other one in steps and both bandwidth terms.
    fn is_as_good_as(&self, other: &Found) -> bool {
        Cost { even: true, ..self.cost }.is_as_good_as(&other.cost)
    }
}

/// The networks with `ranks` ranks and `degree` links out of each of which no other one is at least as good, the fewest
/// steps first. With `undirected`, only networks in which every link has a reverse link.
pub fn find(ranks: usize, degree: usize, undirected: bool) -> Result<Vec<Found>, FindError> {
    if !(2..=MOST_RANKS).contains(&ranks) || !(1..=MOST_DEGREE).contains(&degree) {
        return Err(FindError::Size { ranks, degree });
    }
    // The ranks of a network are a multiple of the ranks of the networks that it is made of.
    let divides = |size: usize| size > 0 && ranks.is_multiple_of(size);
    let table = Table::read(divides);
    let closure = Closure::of(&table, (1..=ranks).filter(|size| divides(*size)), degree);
    let points = closure.points(ranks, degree).iter().filter(|point| point.undirected || !undirected);
    let mut kept: Vec<Found> = Vec::new();
    for found in points.map(|point| Found::new(point)) {
        if !kept.iter().any(|other| other.is_as_good_as(&found)) {
            kept.retain(|other| !found.is_as_good_as(other));
            kept.push(found);
        }
    }
    kept.sort_by_key(|found| (found.cost.steps, found.cost.allreduce()));
    match kept.is_empty() {
        true => Err(FindError::Nothing { ranks, degree }),
        false => Ok(kept),
    }
}
