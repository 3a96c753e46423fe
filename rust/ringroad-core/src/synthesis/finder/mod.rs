//! Finds networks: of so many ranks with so many links each, those in which collectives take the least time.
//!
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications (arXiv 2202.03356), section 5.4. How long
//! a collective takes by breadth-first broadcast ([`super::bfb`]) has two parts: steps, and a bandwidth term. Few steps need
//! a small diameter, a small term needs links that are all equally busy. Networks of which no other one is better in
//! both are worth knowing, since which is the best depends on the bytes, the start-up time and the bandwidth.
//!
//! ```text
//! bases: known graphs, Cayley graphs drawn by lot (a table has the good ones)
//!    -> line graphs, copies, powers, products, both directions (all that make up the size: their costs are formulas)
//!    -> costs of the few that are left, exactly -> those that no other one is better than
//! ```
//!
//! Beyond the paper: drawn Cayley digraphs as bases, which mostly leave every link equally busy with hardly more steps than
//! the diameter must have; copies without a further step over links both ways; and a look at what is made.

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

/// The most links out of a rank.
pub const MOST_DEGREE: usize = 32;
/// The most ranks.
pub const MOST_RANKS: usize = 1 << 16;
/// Up to so many ranks squared times links, what is made of others is looked at itself.
const MOST_EXACT: usize = 1 << 25;

/// Why nothing can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// Sizes out of range.
    #[error("no networks of {ranks} ranks with {degree} links each are known; ask for 2 to {MOST_RANKS} ranks and 1 to {MOST_DEGREE} links")]
    Size {
        /// How many ranks.
        ranks: usize,
        /// How many links.
        degree: usize,
    },
    /// The search came to nothing.
    #[error("no network of {ranks} ranks has {degree} links both ways at each, as far as is known; ask for an even number of links, or for links one way")]
    Nothing {
        /// How many ranks.
        ranks: usize,
        /// How many links.
        degree: usize,
    },
}

/// A network worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How it is made: [`Topology::parse`] reads it.
    pub spec: String,
    /// How many ranks it has.
    pub ranks: usize,
    /// How many links lead out of each rank, and how many into it.
    pub degree: usize,
    /// Whether every link has one back: a cable.
    pub undirected: bool,
    /// Of breadth-first broadcast.
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

    /// Whether it is as good as the other one in steps and both bandwidth terms.
    fn is_as_good_as(&self, other: &Found) -> bool {
        Cost { even: true, ..self.cost }.is_as_good_as(&other.cost)
    }
}

/// The networks of so many ranks and links out of each of which no other one is better, the fewest steps first. With
/// `undirected` only those in which every link has one back.
pub fn find(ranks: usize, degree: usize, undirected: bool) -> Result<Vec<Found>, FindError> {
    if !(2..=MOST_RANKS).contains(&ranks) || !(1..=MOST_DEGREE).contains(&degree) {
        return Err(FindError::Size { ranks, degree });
    }
    // Whatever is made has a multiple of the ranks of what it is made of.
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
