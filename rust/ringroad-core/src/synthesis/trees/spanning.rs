//! Undirected trees: what is reduced up a tree is spread down the same tree.
//!
//! A tree uses one direction of each of its edges for going up, the other for going down. The search looks for as many
//! trees as possible with no edge in more trees than its room allows. The upper bound (Nash-Williams, Tutte) is the
//! minimum over all partitions of the ranks of the room of edges between parts, divided by the number of parts less
//! one. Trees grow one after the other. Then one tree at a time is removed and grown again where there is room: the
//! price of an edge grows by a constant factor with each tree that uses it, and with the distance from the root at
//! which it is attached.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::synthesis::{Budget, Ratio, Spent};
use crate::units::Rank;

/// A link between two ranks, in both directions.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoWayLink {
    pub ends: [Rank; 2],
    /// The number of trees that may use it.
    pub room: u64,
}

/// A spanning tree as `(parent, child, link)`, each edge after the one that reaches its parent.
#[derive(Debug, Clone)]
pub(super) struct Spanning {
    pub edges: Vec<(Rank, Rank, usize)>,
}

/// The price of an edge with room for exactly one more tree, and the price of one more level of depth.
const UNIT: u64 = 1 << 20;
const DEPTH: u64 = UNIT / 20;
/// The price changes by a factor of 3/2 per tree, over at most this many trees in either direction.
const STEPS: usize = 40;

/// As many trees as the search finds such that no link is in more trees than it has room for.
pub(super) fn spanning_trees(
    ranks: usize,
    links: &[TwoWayLink],
    budget: Budget<'_>,
) -> Result<Vec<Spanning>, Spent> {
    let all: u64 = links.iter().map(|link| link.room).sum();
    let mut room = vec![0; ranks];
    links.iter().for_each(|link| link.ends.iter().for_each(|end| room[*end] += link.room));
    let most = (all / (ranks as u64 - 1).max(1)).min(room.into_iter().min().unwrap_or(0));
    let mut grower = Grower::new(ranks, links);
    for _ in 0..most {
        budget.check()?;
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
        budget.check()?;
        grower.regrow();
    }
    Ok(grower.trees)
}

/// The number of trees in which the slowest of usual links may be; and a link of mean bandwidth, where links differ.
const LOAD: u64 = 32;

/// The same links with room for trees instead of their capacity. What a tree carries is chosen such that there are not
/// more trees than if all links were equal: on a network of fast links with one slow link, room in proportion to the
/// slowest link would mean thousands of trees. A link that is too slow for a single tree gets no room, unless other
/// links do not connect all ranks.
pub(super) fn rooms(ranks: usize, links: &[TwoWayLink]) -> Vec<TwoWayLink> {
    let Some(slowest) = links.iter().map(|link| link.room).min() else { return Vec::new() };
    let all: u64 = links.iter().map(|link| link.room).sum();
    // No packing carries more than this: the room between the parts of a partition, divided by the parts less one. The
    // partitions are those that links of at least some speed make.
    let mut most = Ratio::new(all, (ranks as u64 - 1).max(1));
    for level in 0..u64::BITS {
        let parts = Components::new(ranks, links.iter().filter(|link| link.room >> level > 0));
        if parts.count > 1 {
            let between = links.iter().filter(|link| !parts.joins(link)).map(|link| link.room);
            most = most.min(Ratio::new(between.sum::<u64>(), parts.count as u64 - 1));
        }
    }
    if most == Ratio::ZERO {
        return links.to_vec();
    }
    // What one tree carries.
    let mean = most * Ratio::new(ranks as u64 - 1, LOAD * links.len() as u64);
    let each = mean.max(Ratio::new(slowest, LOAD));
    let room = |link: &TwoWayLink| {
        let trees = most.min(Ratio::new(link.room, 1u64)) * Ratio::new(each.denominator(), each.numerator());
        TwoWayLink { room: (trees.numerator() / trees.denominator()) as u64, ..*link }
    };
    let mut rooms: Vec<TwoWayLink> = links.iter().map(room).collect();
    if Components::new(ranks, rooms.iter().filter(|link| link.room > 0)).count > 1 {
        rooms.iter_mut().for_each(|link| link.room = link.room.max(1));
    }
    rooms
}

/// The parts into which links divide the ranks.
struct Components {
    part_of: Vec<usize>,
    count: usize,
}

impl Components {
    fn new<'a>(ranks: usize, links: impl Iterator<Item = &'a TwoWayLink>) -> Components {
        let mut at = vec![Vec::new(); ranks];
        for TwoWayLink { ends: [a, b], .. } in links {
            at[*a].push(*b);
            at[*b].push(*a);
        }
        let mut parts = Components { part_of: vec![usize::MAX; ranks], count: 0 };
        for start in 0..ranks {
            let mut found = vec![start];
            while let Some(rank) = found.pop() {
                if parts.part_of[rank] == usize::MAX {
                    parts.part_of[rank] = parts.count;
                    found.extend(&at[rank]);
                }
            }
            parts.count += usize::from(parts.part_of[start] == parts.count);
        }
        parts
    }

    fn joins(&self, link: &TwoWayLink) -> bool {
        self.part_of[link.ends[0]] == self.part_of[link.ends[1]]
    }
}

/// How often each tree is grown again before one tree is given up.
const ROUNDS: usize = 12;

struct Grower<'a> {
    ranks: usize,
    links: &'a [TwoWayLink],
    at: Vec<Vec<usize>>,
    /// The number of trees that use each link.
    uses: Vec<u64>,
    trees: Vec<Spanning>,
    next: usize,
    prices: Vec<u64>,
}

impl<'a> Grower<'a> {
    fn new(ranks: usize, links: &'a [TwoWayLink]) -> Grower<'a> {
        let mut at = vec![Vec::new(); ranks];
        for (id, link) in links.iter().enumerate().filter(|(_, link)| link.room > 0) {
            link.ends.iter().for_each(|end| at[*end].push(id));
        }
        // Whole numbers, which are the same on every machine; `UNIT` is in the middle.
        let mut prices = vec![UNIT; 2 * STEPS + 1];
        for step in 1..=STEPS {
            prices[STEPS + step] = prices[STEPS + step - 1] * 3 / 2;
            prices[STEPS - step] = prices[STEPS - step + 1] * 2 / 3;
        }
        Grower { ranks, links, at, uses: vec![0; links.len()], trees: Vec::new(), next: 0, prices }
    }

    /// By how much the uses of links exceed their room, in total.
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

    /// Removes the tree that has the most overloaded links.
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

    /// Grows a tree by the cheapest link out of the reached ranks (Prim). Trees of different `index` start at different
    /// ranks.
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
    /// The same tree with its root in the middle of its longest path, which makes it as shallow as possible.
    pub fn centred(&self, ranks: usize) -> Spanning {
        // The rank that is reached last from anywhere is one end of a longest path. The rank reached last from there is
        // the other end.
        let end = self.rooted(ranks, 0).last().unwrap_or(0);
        let across = self.rooted(ranks, end);
        let mut parents = vec![None; ranks];
        across.edges.iter().for_each(|(parent, child, _)| parents[*child] = Some(*parent));
        let way: Vec<Rank> = std::iter::successors(across.last(), |rank| parents[*rank]).collect();
        self.rooted(ranks, way.get(way.len() / 2).copied().unwrap_or(0))
    }

    /// The same tree with another root, its edges in breadth-first order.
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

    /// The child of its last edge.
    fn last(&self) -> Option<Rank> {
        self.edges.last().map(|edge| edge.1)
    }
}
