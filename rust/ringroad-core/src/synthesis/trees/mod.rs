//! Trees packed side by side, which together use all links of any graph: with switches, with several ranks per host,
//! with links of unequal bandwidth, and with failed links.
//!
//! * `equal`: every rank roots equally many trees, which carry its part of the vector. The packing is optimal
//!   (Edmonds). For broadcast and reduce, only the root has trees.
//! * `weighted`: an allreduce need not cut the vector into equal parts, so ranks with poor links root fewer trees. On
//!   a torus with failed links, equal parts lose a quarter of the bandwidth at once, weighted ones next to nothing.
//! * `spanning`: undirected trees, each used up and down.
//!
//! All of them are pipelines. A schedule spreads the load of the busiest link over about as many steps as the caller
//! asks for, and takes a few more steps, according to the height of the trees. Many steps suit long vectors, few steps
//! short ones.

mod packing;
mod rate;
mod spanning;
mod splitting;
mod timetable;
mod wiring;

#[cfg(test)]
mod tests;

use packing::{pack, Batch, SwitchedArc};
use rate::{least_roots, rate};
use spanning::{rooms, spanning_trees, TwoWayLink};
use splitting::without_switches;
use timetable::{Forest, Lane, Tree, TreeCourse, TreeEdge};
use wiring::WireGraph;

use super::ratio::{gcd, Ratio};
use super::{Budget, Spent};
use crate::collective::Collective;
use crate::schedule::Schedule;
use crate::topology::Topology;
use crate::units::{Port, Rank};

/// The kinds of trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Equally many trees from every rank.
    Equal,
    /// Fewer trees from ranks with poorer links.
    Weighted,
    /// Undirected trees.
    Spanning,
}

/// Why trees cannot be packed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpackable {
    /// Trees of this kind do not perform the collective.
    #[error("{variant} trees do not perform {collective}; choose {instead}")]
    Collective {
        /// The kind of trees.
        variant: &'static str,
        /// The collective that was asked for.
        collective: Collective,
        /// The collectives that they perform.
        instead: &'static str,
    },
    /// There are too many ranks to pack trees in time.
    #[error("{variant} trees are packed for up to {most} ranks, not {ranks}")]
    TooLarge {
        /// The kind of trees.
        variant: &'static str,
        /// The number of ranks.
        ranks: usize,
        /// The largest number of ranks.
        most: usize,
    },
    /// Undirected trees need a counterpart for every link, and no switches.
    #[error("undirected trees need links between ranks that lead both ways with equal bandwidth, and no switches; choose equal or weighted trees")]
    OneWay,
    /// The search found no trees.
    #[error("no trees have been found that reach every rank")]
    NoTrees,
    /// The search was ended.
    #[error(transparent)]
    Spent(#[from] Spent),
}

/// Trees side by side, with their load and its lower bound.
#[derive(Debug, Clone)]
pub struct Packing {
    variant: Variant,
    collective: Collective,
    wiring: WireGraph,
    forest: Forest,
    /// The least load that such trees can have, if it is known.
    bound: Option<Ratio>,
}

/// The most ranks for which each rank may root trees. The packing time grows with the third power of the ranks.
pub const MOST_RANKS: usize = 256;
/// The most ranks for which a few trees are packed.
pub const MOST_RANKS_WEIGHTED: usize = 2048;

impl Variant {
    /// All kinds.
    pub const ALL: [Variant; 3] = [Variant::Equal, Variant::Weighted, Variant::Spanning];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Equal => "equal",
            Variant::Weighted => "weighted",
            Variant::Spanning => "spanning",
        }
    }

    /// Packs trees of this kind.
    pub fn pack(
        self,
        topology: &Topology,
        collective: Collective,
        budget: Budget<'_>,
    ) -> Result<Packing, Unpackable> {
        match self {
            Variant::Equal => Packing::equal(topology, collective, budget),
            Variant::Weighted if collective == Collective::Allreduce => Packing::weighted(topology, budget),
            Variant::Weighted => Err(self.unfit(collective, "allreduce")),
            Variant::Spanning => Packing::spanning(topology, collective, budget),
        }
    }

    fn unfit(self, collective: Collective, instead: &'static str) -> Unpackable {
        Unpackable::Collective { variant: self.name(), collective, instead }
    }
}

impl Packing {
    /// The optimal packing with equally many trees from every rank, or with trees from the collective's root only. For
    /// allgather, reduce-scatter, allreduce, broadcast and reduce.
    pub fn equal(
        topology: &Topology,
        collective: Collective,
        budget: Budget<'_>,
    ) -> Result<Packing, Unpackable> {
        let variant = Variant::Equal;
        let ranks = topology.ranks();
        let (weights, most) = match collective {
            Collective::Allgather | Collective::ReduceScatter | Collective::Allreduce => {
                (vec![1; ranks], MOST_RANKS)
            }
            Collective::Broadcast { root } | Collective::Reduce { root } => {
                ((0..ranks).map(|rank| u64::from(rank == root)).collect(), MOST_RANKS_WEIGHTED)
            }
            other => {
                let instead = "allreduce, reduce_scatter, allgather, broadcast or reduce";
                return Err(variant.unfit(other, instead));
            }
        };
        variant.check_size(ranks, most)?;
        let wiring = WireGraph::from_topology(topology);
        let spreads = !matches!(collective, Collective::ReduceScatter | Collective::Reduce { .. });
        let mut bound = Ratio::ZERO;
        let total = weights.iter().sum();
        let mut forest = Forest::default();
        let mut ways: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        let opposites = wiring.opposites();
        let down =
            if spreads || opposites.is_some() { Some(optimal(&wiring, &weights, budget)?) } else { None };
        if let (true, Some(found)) = (spreads, &down) {
            bound = found.bound(total);
            ways[1] = forest.plant(&wiring, found, None);
        }
        if collective.reduces() {
            // If links lead both ways with equal bandwidth, trees that fit downwards fit upwards, too.
            let turned = wiring.transposed();
            let other;
            let (found, wires) = match (&down, &opposites) {
                (Some(found), Some(opposites)) => (found, opposites.clone()),
                _ => {
                    other = optimal(&turned, &weights, budget)?;
                    (&other, (0..wiring.wires.len()).collect())
                }
            };
            bound = found.bound(total);
            ways[0] = forest.plant(&wiring, found, Some(&wires));
        }
        forest.pair_up(&ways);
        let bound = match collective {
            Collective::Allreduce => least_load(&wiring),
            _ => Some(bound),
        };
        Ok(Packing { variant, collective, wiring, forest, bound })
    }

    /// Trees for an allreduce, where each rank may root any number of trees, so that ranks with poor links limit the
    /// rate only as far as their links do.
    pub fn weighted(topology: &Topology, budget: Budget<'_>) -> Result<Packing, Unpackable> {
        let variant = Variant::Weighted;
        variant.check_size(topology.ranks(), MOST_RANKS_WEIGHTED)?;
        let wiring = WireGraph::from_topology(topology);
        let opposites = wiring.opposites();
        let turned = wiring.transposed();
        let networks: &[&WireGraph] = if opposites.is_some() { &[&wiring] } else { &[&wiring, &turned] };
        let mut found = weigh(networks, budget)?;
        found.sort_by_key(|weighing| std::cmp::Reverse(Ratio::new(weighing.trees, weighing.scale)));
        for Weighing { capacities, roots, .. } in found {
            let mut forest = Forest::default();
            let mut ways: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
            let Some(down) = ArcTrees::over(&wiring, &capacities, &roots, budget)? else { continue };
            ways[1] = forest.plant(&wiring, &down, None);
            ways[0] = match &opposites {
                Some(opposites) => forest.plant(&wiring, &down, Some(opposites)),
                None => {
                    let Some(up) = ArcTrees::over(&turned, &capacities, &roots, budget)? else { continue };
                    let same: Vec<usize> = (0..wiring.wires.len()).collect();
                    forest.plant(&wiring, &up, Some(&same))
                }
            };
            forest.pair_up(&ways);
            let bound = least_load(&wiring);
            return Ok(Packing { variant, collective: Collective::Allreduce, wiring, forest, bound });
        }
        Err(Unpackable::NoTrees)
    }

    /// Undirected trees between ranks whose links lead both ways, for allreduce, broadcast and reduce.
    pub fn spanning(
        topology: &Topology,
        collective: Collective,
        budget: Budget<'_>,
    ) -> Result<Packing, Unpackable> {
        let variant = Variant::Spanning;
        let fits = matches!(
            collective,
            Collective::Allreduce | Collective::Broadcast { .. } | Collective::Reduce { .. }
        );
        if !fits {
            return Err(variant.unfit(collective, "allreduce, broadcast or reduce"));
        }
        variant.check_size(topology.ranks(), MOST_RANKS_WEIGHTED)?;
        let wiring = WireGraph::from_topology(topology);
        let opposites = wiring.opposites().filter(|_| !wiring.has_switches()).ok_or(Unpackable::OneWay)?;
        let mut forest = Forest { lanes: wiring.lanes(), ..Forest::default() };
        let links: Vec<usize> = (0..wiring.wires.len()).filter(|wire| *wire < opposites[*wire]).collect();
        let link = |wire: &usize| {
            let wire = &wiring.wires[*wire];
            TwoWayLink { ends: [wire.source, wire.target], room: wire.capacity }
        };
        let links_between: Vec<TwoWayLink> = links.iter().map(link).collect();
        let trees = spanning_trees(wiring.ranks, &rooms(wiring.ranks, &links_between), budget)?;
        if trees.is_empty() && wiring.ranks > 1 {
            return Err(Unpackable::NoTrees);
        }
        for tree in trees {
            let tree = match collective.root() {
                Some(root) => tree.rooted(wiring.ranks, root),
                None => tree.centred(wiring.ranks),
            };
            let lane = |(parent, child, link): (usize, usize, usize), up: bool| {
                let wire = links[link];
                let down = wiring.wires[wire].source == parent;
                TreeEdge { parent, child, lane: if down != up { wire } else { opposites[wire] } }
            };
            let mut plant = |up| {
                let edges = tree.edges.iter().map(|edge| lane(*edge, up)).collect();
                forest.trees.push(Tree { edges });
                forest.trees.len() - 1
            };
            let up = collective.reduces().then(|| plant(true));
            let down = (!matches!(collective, Collective::Reduce { .. })).then(|| plant(false));
            forest.courses.push(TreeCourse { up, down });
        }
        let bound = match collective {
            Collective::Allreduce => least_load(&wiring),
            _ => None,
        };
        Ok(Packing { variant, collective, wiring, forest, bound })
    }

    /// The schedule that spreads the load of the busiest link over about `parts` steps.
    pub fn schedule(&self, parts: usize, budget: Budget<'_>) -> Result<Schedule, Spent> {
        let name = format!("trees:{}-{parts}", self.variant.name());
        self.forest.schedule(&name, &self.wiring, self.collective, parts, budget)
    }

    /// The number of equal parts of the vector. Each part takes one tree for reducing, one for spreading, or one of
    /// each.
    pub fn trees(&self) -> usize {
        self.forest.courses.len()
    }

    /// The largest number of edges that a part of the vector takes one after the other. The schedule has about `parts`
    /// steps plus this number.
    pub fn height(&self) -> usize {
        self.forest.height()
    }

    /// The load of the busiest link for a vector of size 1, relative to a link with a bandwidth of one
    /// [`Packing::unit`].
    pub fn load(&self) -> Ratio {
        let loads = self.forest.loads(self.wiring.wires.len());
        let ratio = |(load, wire): (&u64, &wiring::WireBundle)| {
            Ratio::new(*load, wire.capacity * self.forest.courses.len().max(1) as u64)
        };
        loads.iter().zip(&self.wiring.wires).map(ratio).max().unwrap_or(Ratio::ZERO)
    }

    /// The least possible load, if it is known.
    pub fn bound(&self) -> Option<Ratio> {
        self.bound
    }

    /// Bytes per second of one unit of bandwidth.
    pub fn unit(&self) -> f64 {
        self.wiring.unit
    }
}

/// In every allreduce, all ranks but one send a vector, and all but one receive one. `None` with switches.
fn least_load(wiring: &WireGraph) -> Option<Ratio> {
    let all: u64 = wiring.wires.iter().map(|wire| wire.capacity).sum();
    (all > 0 && !wiring.has_switches()).then(|| Ratio::new(2 * (wiring.ranks as u64 - 1), all))
}

impl Variant {
    fn check_size(self, ranks: usize, most: usize) -> Result<(), Unpackable> {
        if ranks > most {
            return Err(Unpackable::TooLarge { variant: self.name(), ranks, most });
        }
        Ok(())
    }
}

/// A packing, as trees over arcs between ranks.
struct ArcTrees {
    arcs: Vec<SwitchedArc>,
    batches: Vec<Batch>,
    /// The largest rate at which every part can flow. 0 if it was not computed.
    rate: Ratio,
}

impl ArcTrees {
    /// Packs `roots` trees from each rank over wires of these capacities; `None` if the search finds none.
    fn over(
        wiring: &WireGraph,
        capacities: &[u64],
        roots: &[u64],
        budget: Budget<'_>,
    ) -> Result<Option<ArcTrees>, Spent> {
        let Some(arcs) = without_switches(wiring, capacities, roots, budget)? else { return Ok(None) };
        let batches = pack(wiring.ranks, &arcs, roots, budget)?;
        Ok(batches.map(|batches| ArcTrees { arcs, batches, rate: Ratio::ZERO }))
    }

    /// The least load of a vector that is cut into `parts` parts.
    fn bound(&self, parts: u64) -> Ratio {
        Ratio::new(self.rate.denominator(), self.rate.numerator() * u128::from(parts))
    }
}

/// The most trees per root of a packing. If the optimal rate needs more, wires are used in coarser shares.
const MOST_EACH: u64 = 16;

/// The best packing with these weights.
fn optimal(wiring: &WireGraph, weights: &[u64], budget: Budget<'_>) -> Result<ArcTrees, Unpackable> {
    if wiring.ranks == 1 {
        let (arcs, batches) = (Vec::new(), vec![Batch { count: 1, arcs: Vec::new() }]);
        return Ok(ArcTrees { arcs, batches, rate: Ratio::new(1u64, 1u64) });
    }
    let rate = rate(wiring, weights, budget)?.ok_or(Unpackable::NoTrees)?;
    let (trees, scale) = (rate.numerator(), rate.denominator());
    let exact = (trees <= u128::from(MOST_EACH)).then_some(trees as u64);
    let coarse = [1, 2, 4, 8, 16].into_iter().filter(|each| exact.is_none_or(|exact| *each < exact));
    let candidates: Vec<u64> = exact.into_iter().chain(coarse).collect();
    for slack in 0..=16u128 {
        for &each in &candidates {
            // The number of trees that a wire carries if every root has `each`, rounded down.
            let share = |capacity: u64| {
                (u128::from(capacity) * u128::from(each) * scale * (16 + slack) / (16 * trees)) as u64
            };
            let capacities: Vec<u64> = wiring.wires.iter().map(|wire| share(wire.capacity)).collect();
            let roots: Vec<u64> = weights.iter().map(|weight| weight * each).collect();
            if let Some(found) = ArcTrees::over(wiring, &capacities, &roots, budget)? {
                return Ok(ArcTrees { rate, ..found });
            }
        }
    }
    Err(Unpackable::NoTrees)
}

/// The number of trees that each rank roots, with the number of trees that each wire may carry.
struct Weighing {
    trees: u64,
    /// The number of trees that a wire of one unit carries, relative to other weighings.
    scale: u64,
    capacities: Vec<u64>,
    roots: Vec<u64>,
}

/// The most trees of a weighing.
const MOST_TREES: u64 = 32;

/// Weighings with increasing rates.
fn weigh(networks: &[&WireGraph], budget: Budget<'_>) -> Result<Vec<Weighing>, Spent> {
    let wiring = networks[0];
    let ranks = wiring.ranks as u64;
    if ranks == 1 {
        return Ok(vec![Weighing { trees: 1, scale: 1, capacities: Vec::new(), roots: vec![1] }]);
    }
    // Every tree leads into every rank except its root once.
    let into: u64 = wiring.wires.iter().filter(|w| w.target < wiring.ranks).map(|wire| wire.capacity).sum();
    let parts = (into / (ranks - 1)).div_ceil(MOST_TREES / 2).max(1);
    let mut found: Vec<Weighing> = Vec::new();
    for scale in 1..=MOST_SCALE {
        let capacities: Vec<u64> = wiring.wires.iter().map(|wire| wire.capacity * scale / parts).collect();
        let into = wiring.wires.iter().zip(&capacities).filter(|(wire, _)| wire.target < wiring.ranks);
        let most = (into.map(|(_, capacity)| *capacity).sum::<u64>() / (ranks - 1)).min(MOST_TREES);
        // More trees at the same rate would only make smaller parts.
        let better =
            |trees: u64| found.last().is_none_or(|best| 100 * trees * best.scale > 101 * best.trees * scale);
        for trees in (1..=most).rev().take_while(|trees| better(*trees)) {
            if let Some(mut roots) = least_roots(networks, &capacities, trees, budget)? {
                let missing = trees - roots.iter().sum::<u64>();
                (0..missing).for_each(|index| roots[((2 * index + 1) * ranks / (2 * missing)) as usize] += 1);
                found.push(Weighing { trees, scale, capacities, roots });
                break;
            }
        }
    }
    Ok(found)
}

/// The largest `scale` of a weighing.
const MOST_SCALE: u64 = 8;

impl WireGraph {
    /// The ports by which a message leaves `source` if its path begins with the wire `first`. A rank with a single
    /// cable, to a switch, counts as a rank of a ring; then the shorter way around the ring decides the port.
    fn ports(&self, first: usize, source: Rank, target: Rank) -> Vec<Port> {
        let wire = &self.wires[first];
        let only = wire.ports.len() == 1 && self.wires.iter().filter(|w| w.source == source).count() == 1;
        if only && wire.target >= self.ranks {
            let up = (target + self.ranks - source) % self.ranks;
            return vec![usize::from(2 * up > self.ranks)];
        }
        wire.ports.clone()
    }

    /// One lane for each wire. There must be no switches.
    fn lanes(&self) -> Vec<Lane> {
        let wires = self.wires.iter().enumerate();
        let lane = |(id, wire): (usize, &wiring::WireBundle)| Lane {
            source: wire.source,
            target: wire.target,
            wires: vec![id],
            ports: wire.ports.clone(),
        };
        wires.map(lane).collect()
    }
}

impl Forest {
    /// Adds the trees of a packing. Returns the tree of each part, root by root. For trees that lead up, `turned` gives
    /// the opposite wire of each wire.
    fn plant(&mut self, wiring: &WireGraph, found: &ArcTrees, turned: Option<&[usize]>) -> Vec<usize> {
        let first = self.lanes.len();
        for arc in &found.arcs {
            let wires: Vec<usize> = match turned {
                None => arc.path.clone(),
                Some(turned) => arc.path.iter().rev().map(|wire| turned[*wire]).collect(),
            };
            let (source, target) = match turned {
                None => (arc.source, arc.target),
                Some(_) => (arc.target, arc.source),
            };
            let ports = wiring.ports(wires[0], source, target);
            self.lanes.push(Lane { source, target, wires, ports });
        }
        let mut parts = Vec::new();
        for batch in &found.batches {
            let edge = |arc: &usize| {
                let SwitchedArc { source, target, .. } = found.arcs[*arc];
                TreeEdge { parent: source, child: target, lane: first + *arc }
            };
            self.trees.push(Tree { edges: batch.arcs.iter().map(edge).collect() });
            parts.extend(std::iter::repeat_n(self.trees.len() - 1, batch.count as usize));
        }
        parts
    }

    /// Decides which tree each part goes up, and which it goes down. Both lists are ordered by root. If there are more
    /// trees of one kind, parts share the trees of the other.
    fn pair_up(&mut self, [up, down]: &[Vec<usize>; 2]) {
        let (ups, downs) = (up.len().max(1), down.len().max(1));
        let parts = ups / gcd(ups as u128, downs as u128) as usize * downs;
        let course = |part: usize| TreeCourse {
            up: up.get(part * ups / parts).copied(),
            down: down.get(part * downs / parts).copied(),
        };
        self.courses = (0..parts).map(course).collect();
    }
}

/// Whether undirected trees are possible: links between ranks lead both ways with equal bandwidth, and there are no
/// switches.
pub fn undirected(topology: &Topology) -> bool {
    let wiring = WireGraph::from_topology(topology);
    wiring.opposites().is_some() && !wiring.has_switches()
}
