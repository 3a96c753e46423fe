//! Undirected trees: what is reduced up a tree is spread down the same one.
//!
//! A tree carries up by one direction of each of its edges, and down by the other one. So many trees are sought that no
//! edge is in more of them than it is allowed to be. The bound (Nash-Williams, Tutte) is the least, over all partitions of the
//! ranks, of what crosses between parts over the parts less one. Trees grow one after the other; then again and again one
//! is removed and grown anew where there is room: an edge is the more expensive the more trees it is in, growing by a
//! constant factor, and the farther from the root it is attached.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::Rank;

/// What joins two ranks, both ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub ends: [Rank; 2],
    /// In how many trees it may be.
    pub room: u64,
}

/// A spanning tree: its root, and `(parent, child, link)` in an order in which they can be taken from the root on.
#[derive(Debug, Clone)]
pub(super) struct Spanning {
    pub edges: Vec<(Rank, Rank, usize)>,
}

/// What an edge costs with room for one more tree, and what another edge of depth costs.
const UNIT: u64 = 1 << 20;
const DEPTH: u64 = UNIT / 20;
/// By how many steps of a constant factor, 3/2, prices go up and down.
const STEPS: usize = 40;

/// As many trees as are found with no link in more than it has room for.
pub(super) fn spanning_trees(ranks: usize, links: &[Link]) -> Vec<Spanning> {
    let all: u64 = links.iter().map(|link| link.room).sum();
    let mut room = vec![0; ranks];
    links.iter().for_each(|link| link.ends.iter().for_each(|end| room[*end] += link.room));
    let most = (all / (ranks as u64 - 1).max(1)).min(room.into_iter().min().unwrap_or(0));
    let mut grower = Grower::new(ranks, links);
    for _ in 0..most {
        grower.add();
    }
    let mut patience = ROUNDS * grower.trees.len();
    while grower.excess() > 0 && !grower.trees.is_empty() {
        if patience == 0 {
            grower.remove_worst();
            patience = ROUNDS * grower.trees.len();
            continue;
        }
        patience -= 1;
        grower.regrow();
    }
    grower.trees
}

/// How often every tree is grown anew before there is one less.
const ROUNDS: usize = 12;

struct Grower<'a> {
    ranks: usize,
    links: &'a [Link],
    at: Vec<Vec<usize>>,
    /// In how many trees each link is.
    uses: Vec<u64>,
    trees: Vec<Spanning>,
    next: usize,
    prices: Vec<u64>,
}

impl<'a> Grower<'a> {
    fn new(ranks: usize, links: &'a [Link]) -> Grower<'a> {
        let mut at = vec![Vec::new(); ranks];
        for (id, link) in links.iter().enumerate() {
            link.ends.iter().for_each(|end| at[*end].push(id));
        }
        // UNIT in the middle; whole numbers, so that it is the same everywhere.
        let mut prices = vec![UNIT; 2 * STEPS + 1];
        for step in 1..=STEPS {
            prices[STEPS + step] = prices[STEPS + step - 1] * 3 / 2;
            prices[STEPS - step] = prices[STEPS - step + 1] * 2 / 3;
        }
        Grower { ranks, links, at, uses: vec![0; links.len()], trees: Vec::new(), next: 0, prices }
    }

    /// How much more room links would need.
    fn excess(&self) -> u64 {
        self.uses.iter().zip(self.links).map(|(uses, link)| uses.saturating_sub(link.room)).sum()
    }

    fn add(&mut self) {
        let tree = self.grow(self.trees.len());
        self.count(&tree, true);
        self.trees.push(tree);
    }

    fn count(&mut self, tree: &Spanning, more: bool) {
        for (_, _, link) in &tree.edges {
            self.uses[*link] = if more { self.uses[*link] + 1 } else { self.uses[*link] - 1 };
        }
    }

    fn regrow(&mut self) {
        let index = self.next % self.trees.len();
        self.next += 1;
        let old = self.trees[index].clone();
        self.count(&old, false);
        let tree = self.grow(index);
        self.count(&tree, true);
        self.trees[index] = tree;
    }

    /// Takes out the tree with the most links that are too full.
    fn remove_worst(&mut self) {
        let full = |tree: &Spanning| {
            tree.edges.iter().filter(|(_, _, link)| self.uses[*link] > self.links[*link].room).count()
        };
        let worst = (0..self.trees.len()).max_by_key(|tree| full(&self.trees[*tree]));
        if let Some(worst) = worst {
            let tree = self.trees.remove(worst);
            self.count(&tree, false);
        }
    }

    fn price(&self, link: usize) -> u64 {
        let (uses, room) = (self.uses[link] as i64, self.links[link].room as i64);
        let step = (uses + 1 - room).clamp(-(STEPS as i64), STEPS as i64);
        self.prices[(step + STEPS as i64) as usize]
    }

    /// A tree over the cheapest links that lead out of what is reached (Prim), roots being spread.
    fn grow(&self, index: usize) -> Spanning {
        let root = index * 7919 % self.ranks;
        let mut depths: Vec<Option<u64>> = vec![None; self.ranks];
        let mut heap = BinaryHeap::new();
        let mut edges = Vec::with_capacity(self.ranks - 1);
        let reach = |rank: Rank, depth: u64, depths: &mut Vec<Option<u64>>, heap: &mut BinaryHeap<_>| {
            depths[rank] = Some(depth);
            for &link in &self.at[rank] {
                let [a, b] = self.links[link].ends;
                let other = if a == rank { b } else { a };
                if depths[other].is_none() {
                    heap.push(Reverse((self.price(link) + DEPTH * depth, link, rank, other)));
                }
            }
        };
        reach(root, 0, &mut depths, &mut heap);
        while let Some(Reverse((_, link, parent, child))) = heap.pop() {
            let (Some(depth), None) = (depths[parent], depths[child]) else { continue };
            edges.push((parent, child, link));
            reach(child, depth + 1, &mut depths, &mut heap);
        }
        Spanning { edges }
    }
}

impl Spanning {
    /// The same tree with its root in the middle of its longest way, so that it is as shallow as can be.
    pub fn centred(&self, ranks: usize) -> Spanning {
        // What is reached last from anywhere is an end of a longest way, and what is from there the other one.
        let end = self.rooted(ranks, 0).last().unwrap_or(0);
        let across = self.rooted(ranks, end);
        let mut parents = vec![None; ranks];
        across.edges.iter().for_each(|(parent, child, _)| parents[*child] = Some(*parent));
        let way: Vec<Rank> = std::iter::successors(across.last(), |rank| parents[*rank]).collect();
        self.rooted(ranks, way.get(way.len() / 2).copied().unwrap_or(0))
    }

    /// The same tree with this root, breadth first.
    pub fn rooted(&self, ranks: usize, root: Rank) -> Spanning {
        let mut at = vec![Vec::new(); ranks];
        for &(a, b, link) in &self.edges {
            at[a].push((b, link));
            at[b].push((a, link));
        }
        let mut edges: Vec<(Rank, Rank, usize)> = Vec::with_capacity(self.edges.len());
        let mut reached = vec![false; ranks];
        reached[root] = true;
        let mut next = 0;
        let mut parent = root;
        loop {
            for &(child, link) in &at[parent] {
                if !std::mem::replace(&mut reached[child], true) {
                    edges.push((parent, child, link));
                }
            }
            let Some(edge) = edges.get(next) else { return Spanning { edges } };
            parent = edge.1;
            next += 1;
        }
    }

    /// The rank that its last edge leads to.
    fn last(&self) -> Option<Rank> {
        self.edges.last().map(|edge| edge.1)
    }
}
