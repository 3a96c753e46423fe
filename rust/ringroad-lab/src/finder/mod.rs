//! Finds the networks with a given number of ranks and of links per rank in which collectives take the least time.
//!
//! Zhao et al.: Efficient Direct-Connect Topologies for Collective Communications (arXiv 2202.03356), section 5.4. The
//! time of a collective by breadth-first broadcast ([`bfb`]) has two parts: steps, and a bandwidth term. Few
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
mod closure;
mod draw;
mod evaluate;
mod findings;
mod group;
mod lines;
mod table;

pub use evaluate::{least_bandwidth, GraphCost};
pub use findings::{Findings, FrontierNetwork, Wanted};
pub use lines::{compressed, lines, pruned};
pub use table::{TABLE, TABLE_DEGREE, TABLE_RANKS};

use ringroad_core::collective::Collective;
use ringroad_core::schedule::Schedule;
use ringroad_core::synthesis::{bfb, expand, Digraph, Ratio};
use ringroad_core::topology::Topology;

use closure::{Closure, CostedNetwork};
use table::GraphTable;

/// The largest number of links out of a rank.
pub const MOST_DEGREE: usize = 32;
/// The largest number of ranks.
pub const MOST_RANKS: usize = 1 << 16;
/// Up to this product of ranks squared and links, the costs of networks that are made of others are computed exactly.
const MOST_EXACT: usize = 1 << 25;

/// The names of the algorithms whose costs are stated.
const BREADTH_FIRST: &str = "bfb";
const EXPANDED: &str = "expanded";

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
    /// Networks are not compared by this collective.
    #[error("networks are judged by allreduce, allgather or reduce_scatter, not {0}")]
    Collective(&'static str),
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
    /// The most links out of a rank, and into it.
    pub degree: usize,
    /// Whether every link has a reverse link, so that they form cables.
    pub undirected: bool,
    /// Whether all ranks have that many. Where a generalised Kautz graph would have loops, these are dropped, and some
    /// ranks have one link less.
    pub regular: bool,
    /// The algorithm with these costs: breadth-first broadcast (`bfb`), or the schedule of the smaller network that this
    /// one is made of (`expanded`).
    pub algorithm: &'static str,
    /// The cost.
    pub cost: GraphCost,
}

impl Found {
    /// A network with the costs of each schedule that may be the best one there.
    fn from_point(point: &CostedNetwork) -> Vec<Found> {
        let algorithm = if point.is_expanded() { EXPANDED } else { BREADTH_FIRST };
        let CostedNetwork { ranks, degree, cost, undirected, regular, .. } = *point;
        let known = Found { spec: point.spec(), ranks, degree, undirected, regular, algorithm, cost };
        if !point.is_made() || ranks.saturating_pow(2).saturating_mul(degree) > MOST_EXACT {
            return vec![known];
        }
        let topology = Topology::parse(&known.spec).expect("it is made of known networks");
        let Ok([gather, scatter]) = bfb::costs(&topology) else { return vec![known] };
        let (allgather, reduce_scatter) = (gather.bandwidth(), scatter.bandwidth());
        let cost = GraphCost { steps: gather.loads.len(), allgather, reduce_scatter, ..cost };
        let direct = Found { algorithm: BREADTH_FIRST, cost, ..known.clone() };
        let expanded =
            (point.is_expanded() && !direct.is_as_good_as(&known)).then(|| known.expanded(&topology));
        [direct].into_iter().chain(expanded.flatten()).collect()
    }

    /// The same with the exact costs of the expanded schedule; `None` if that is too large to be made.
    fn expanded(self, topology: &Topology) -> Option<Found> {
        let network = Digraph::from_topology(topology);
        let schedule = |collective| {
            expand::is_suitable(topology)
                .then(|| expand::schedule(EXPANDED, topology, collective).ok())
                .flatten()
        };
        let term =
            |schedule: &Schedule| expand::load(schedule, &network) * Ratio::new(network.degree(), 1u64);
        let (gather, scatter) = (schedule(Collective::Allgather)?, schedule(Collective::ReduceScatter)?);
        let steps = gather.steps.len().max(scatter.steps.len());
        let cost = GraphCost { steps, allgather: term(&gather), reduce_scatter: term(&scatter), ..self.cost };
        Some(Found { cost, ..self })
    }

    /// Whether it is at least as good as the other one in steps and both bandwidth terms.
    fn is_as_good_as(&self, other: &Found) -> bool {
        GraphCost { even: true, ..self.cost }.is_as_good_as(&other.cost)
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
    let table = GraphTable::read(divides);
    let closure = Closure::from_table(&table, (1..=ranks).filter(|size| divides(*size)), degree);
    let points = closure.points(ranks, degree).iter().filter(|point| point.undirected || !undirected);
    let mut kept: Vec<Found> = Vec::new();
    for found in points.flat_map(|point| Found::from_point(point)) {
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
