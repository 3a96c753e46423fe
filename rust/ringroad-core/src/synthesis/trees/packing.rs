//! Arborescences side by side: every rank's own trees, together within what the arcs carry.
//!
//! Edmonds: Edge-disjoint branchings, 1973. Trees that are alike grow as one batch (Schrijver: Combinatorial Optimization,
//! section 53.9; so do Tarjan, and Zhao et al. in ForestColl). A batch takes an arc with as much as leaves all other
//! batches enough: how much that is, a maximum flow from the arc's start and all that other batches have reached to its end
//! says. What a batch cannot take with all its trees it takes with some, and the others go on alone.

use crate::synthesis::flow::{Flow, UNLIMITED};
use crate::units::Rank;

/// From one rank to another, through switches if need be.
#[derive(Debug, Clone)]
pub(super) struct Arc {
    pub source: usize,
    pub target: usize,
    pub capacity: u64,
    /// The wires that it goes over.
    pub path: Vec<usize>,
}

/// Trees that are alike, from their root to all ranks.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// How many.
    pub count: u64,
    /// The arcs in an order in which they can be taken from the root on.
    pub arcs: Vec<usize>,
}

/// A batch that does not span yet.
#[derive(Debug, Clone)]
struct Growing {
    batch: Batch,
    reached: Vec<bool>,
    /// The ranks in the order in which they were reached.
    order: Vec<Rank>,
    /// Where it stands for others in the flow: a node, and the arc by which its trees come.
    place: Option<usize>,
}

/// The batches of a packing with so many trees from each rank; `None` where there is none.
pub(super) fn pack(ranks: usize, arcs: &[Arc], roots: &[u64]) -> Option<Vec<Batch>> {
    let mut packing = Packing::new(ranks, arcs, roots);
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
            done.push(packing.grow(growing)?);
        }
    }
    Some(done)
}

struct Packing<'a> {
    ranks: usize,
    arcs: &'a [Arc],
    outgoing: Vec<Vec<usize>>,
    /// What of every arc is left, and where the trees that are to be grown have got.
    flow: Flow,
    /// Trees that are still to be grown, but for the batch that is growing.
    others: u64,
    /// What has been left behind by batches that grew.
    waiting: Vec<Growing>,
}

impl<'a> Packing<'a> {
    fn new(ranks: usize, arcs: &'a [Arc], roots: &[u64]) -> Packing<'a> {
        let mut flow = Flow::new(ranks + 1);
        let mut outgoing = vec![Vec::new(); ranks];
        for (id, arc) in arcs.iter().enumerate() {
            flow.arc(arc.source, arc.target, arc.capacity);
            outgoing[arc.source].push(id);
        }
        for (rank, count) in roots.iter().enumerate() {
            flow.arc(ranks, rank, *count);
        }
        let others = roots.iter().sum();
        Packing { ranks, arcs, outgoing, flow, others, waiting: Vec::new() }
    }

    fn root_arc(&self, rank: Rank) -> usize {
        2 * (self.arcs.len() + rank)
    }

    /// Lets a batch span all ranks, breadth first; what has to part from it waits.
    fn grow(&mut self, mut growing: Growing) -> Option<Batch> {
        self.others -= growing.batch.count;
        let mut next = 0;
        while growing.order.len() < self.ranks {
            let source = *growing.order.get(next)?;
            next += 1;
            for index in 0..self.outgoing[source].len() {
                let id = self.outgoing[source][index];
                let target = self.arcs[id].target;
                let most = growing.batch.count.min(self.flow.capacity(2 * id));
                if growing.reached[target] || most == 0 {
                    continue;
                }
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
        Some(growing.batch)
    }

    /// With how many of up to `most` trees a batch can go from `source` to `target`.
    fn spare(&mut self, source: Rank, target: Rank, most: u64) -> u64 {
        let root = self.root_arc(source);
        let rooted = self.flow.capacity(root);
        self.flow.set(root, UNLIMITED);
        let reached = self.flow.maximum(self.ranks, target, self.others + most);
        self.flow.set(root, rooted);
        reached - self.others.min(reached)
    }

    /// A node that stands for all that a batch has reached.
    fn place(&mut self, batch: &Growing) -> usize {
        let node = self.flow.node();
        for rank in &batch.order {
            self.flow.arc(node, *rank, UNLIMITED);
        }
        self.flow.arc(self.ranks, node, batch.batch.count)
    }
}
