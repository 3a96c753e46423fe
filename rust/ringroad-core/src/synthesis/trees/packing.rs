//! Packings of arborescences: every rank roots its own trees, and together they stay within the capacity of the arcs.
//!
//! Edmonds: Edge-disjoint branchings, 1973. Equal trees grow as one batch (as in Schrijver: Combinatorial Optimization,
//! section 53.9, in Tarjan, and in Zhao et al.: ForestColl). A batch may take an arc for as many trees as leaves enough
//! for all other batches. A maximum flow to the arc's end tells that number; it starts from the arc's start and from
//! all ranks that the other batches have reached. If a batch can take an arc with some of its trees only, the others
//! form a batch of their own.

use crate::synthesis::flow::{MaxFlow, UNLIMITED};
use crate::synthesis::{Budget, Spent};
use crate::units::Rank;

/// An arc from one rank to another, possibly through switches.
#[derive(Debug, Clone)]
pub(super) struct SwitchedArc {
    pub source: usize,
    pub target: usize,
    pub capacity: u64,
    /// The wires on its path.
    pub path: Vec<usize>,
}

/// Equal trees from one root to all ranks.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// The number of trees.
    pub count: u64,
    /// The arcs, each after the one that reaches its source.
    pub arcs: Vec<usize>,
}

/// A batch that does not reach all ranks yet.
#[derive(Debug, Clone)]
struct Growing {
    batch: Batch,
    reached: Vec<bool>,
    /// The ranks in the order in which they were reached.
    order: Vec<Rank>,
    /// The arc of the flow that brings this batch's trees into the node that stands for the batch.
    place: Option<usize>,
}

/// The batches of a packing with `roots` trees from each rank; `None` if there is no such packing.
pub(super) fn pack(
    ranks: usize,
    arcs: &[SwitchedArc],
    roots: &[u64],
    budget: Budget<'_>,
) -> Result<Option<Vec<Batch>>, Spent> {
    let mut packing = PackingSearch::new(ranks, arcs, roots);
    let mut done = Vec::new();
    for (root, count) in roots.iter().enumerate().filter(|(_, count)| **count > 0) {
        let mut reached = vec![false; ranks];
        reached[root] = true;
        let batch = Batch { count: *count, arcs: Vec::new() };
        packing.waiting.push(Growing { batch, reached, order: vec![root], place: None });
        packing.flow.set(packing.root_arc(root), 0);
        while let Some(growing) = packing.waiting.pop() {
            if let Some(place) = growing.place {
                packing.flow.set(place, 0);
            }
            let Some(batch) = packing.grow(growing, budget)? else { return Ok(None) };
            done.push(batch);
        }
    }
    Ok(Some(done))
}

struct PackingSearch<'a> {
    ranks: usize,
    arcs: &'a [SwitchedArc],
    outgoing: Vec<Vec<usize>>,
    /// The remaining capacity of every arc, and the ranks that each waiting batch has reached.
    flow: MaxFlow,
    /// The number of trees that are still to be grown, without the batch that is growing.
    others: u64,
    /// Batches that were split off and are still to be grown.
    waiting: Vec<Growing>,
}

impl<'a> PackingSearch<'a> {
    fn new(ranks: usize, arcs: &'a [SwitchedArc], roots: &[u64]) -> PackingSearch<'a> {
        let mut flow = MaxFlow::new(ranks + 1);
        let mut outgoing = vec![Vec::new(); ranks];
        for (id, arc) in arcs.iter().enumerate() {
            flow.arc(arc.source, arc.target, arc.capacity);
            outgoing[arc.source].push(id);
        }
        for (rank, count) in roots.iter().enumerate() {
            flow.arc(ranks, rank, *count);
        }
        let others = roots.iter().sum();
        PackingSearch { ranks, arcs, outgoing, flow, others, waiting: Vec::new() }
    }

    fn root_arc(&self, rank: Rank) -> usize {
        2 * (self.arcs.len() + rank)
    }

    /// Extends a batch to all ranks, breadth first. Trees that cannot take an arc are split off and wait. `None` if it
    /// fails.
    fn grow(&mut self, mut growing: Growing, budget: Budget<'_>) -> Result<Option<Batch>, Spent> {
        self.others -= growing.batch.count;
        let mut next = 0;
        while growing.order.len() < self.ranks {
            let Some(&source) = growing.order.get(next) else { return Ok(None) };
            next += 1;
            for index in 0..self.outgoing[source].len() {
                let id = self.outgoing[source][index];
                let target = self.arcs[id].target;
                let most = growing.batch.count.min(self.flow.capacity(2 * id));
                if growing.reached[target] || most == 0 {
                    continue;
                }
                budget.check()?;
                let taken = self.spare(source, target, most);
                if taken == 0 {
                    continue;
                }
                if taken < growing.batch.count {
                    let mut rest = growing.clone();
                    rest.batch.count -= taken;
                    self.others += rest.batch.count;
                    rest.place = Some(self.place(&rest));
                    self.waiting.push(rest);
                }
                growing.batch.count = taken;
                growing.batch.arcs.push(id);
                growing.reached[target] = true;
                growing.order.push(target);
                self.flow.set(2 * id, self.flow.capacity(2 * id) - taken);
            }
        }
        Ok(Some(growing.batch))
    }

    /// With how many of up to `most` trees a batch can take an arc from `source` to `target`.
    fn spare(&mut self, source: Rank, target: Rank, most: u64) -> u64 {
        let root = self.root_arc(source);
        let rooted = self.flow.capacity(root);
        self.flow.set(root, UNLIMITED);
        let reached = self.flow.maximum(self.ranks, target, self.others + most);
        self.flow.set(root, rooted);
        reached - self.others.min(reached)
    }

    /// Adds a node that stands for all ranks that a batch has reached. Returns the arc that leads into it.
    fn place(&mut self, batch: &Growing) -> usize {
        let node = self.flow.node();
        for rank in &batch.order {
            self.flow.arc(node, *rank, UNLIMITED);
        }
        self.flow.arc(self.ranks, node, batch.batch.count)
    }
}
