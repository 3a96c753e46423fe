//! Double binary tree: two trees with half of the vector each. Each rank has children in at most one of them.
//!
//! Sanders, Speck, Traff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35,
//! 2009; in NCCL since 2.4. The first tree is in order, and its left subtrees are perfect: every other rank is a leaf.
//! The second tree is its mirror image, or for an odd number of ranks the same tree shifted by one, so that the leaves
//! of one tree are inner nodes of the other. Each half moves in pieces, by one edge in every step. In an allreduce, the
//! first pieces move down while the last ones still move up. In a broadcast, the root sends to the roots of two trees
//! of all other ranks.
//!
//! ```text
//! n = 7   allreduce           3                4         broadcast        0 - 4          0 - 3
//!                         1       5        2       6     from 0         2       6      5       1
//!                       0   2   4   6    1   3   5   0                1   3   5      6   4   2
//! ```
//!
//! Cost, in k pieces: allreduce 2 floor(log2 n) + k - 1 steps and 2 vectors (3/2 if n = 3, 1 if n = 2); broadcast and
//! reduce floor(log2(n-1)) + k steps and 1 vector.

use std::ops::Range;

use super::{ScheduleRequest, Shape};
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::units::Rank;

/// An edge of a tree; the child is `depth` edges below the top.
struct DoubleTreeEdge {
    parent: Rank,
    child: Rank,
    depth: usize,
}

/// Allreduce, broadcast and reduce, for any number of ranks and any root.
pub(super) fn schedule(request: &ScheduleRequest<'_>) -> Schedule {
    let ScheduleRequest { name, shape, collective, parameter: pieces, .. } = *request;
    let ranks = shape.ranks();
    let forwards = match collective {
        Collective::Reduce { root } => Collective::Broadcast { root },
        other => other,
    };
    let halves = [false, true].map(|second| {
        let edges = tree(ranks, forwards.root(), second);
        let mut half = Schedule::empty(name, forwards, ranks, pieces);
        flow(shape, forwards, &edges, pieces).into_iter().for_each(|sends| half.push(sends));
        half
    });
    let both = Schedule::split(name, &halves).expect("both trees have as many pieces");
    if forwards == collective {
        both
    } else {
        both.reverse().expect("a broadcast can be reversed")
    }
}

/// The messages of each step along the edges of one tree.
fn flow(shape: &Shape, collective: Collective, edges: &[DoubleTreeEdge], pieces: usize) -> Vec<Vec<Send>> {
    let height = edges.iter().map(|edge| edge.depth).max().unwrap_or(0);
    let up = if collective == Collective::Allreduce { height } else { 0 };
    let steps = if height == 0 { 0 } else { up + height + pieces - 1 };
    let mut flow: Vec<Vec<Send>> = (0..steps).map(|_| Vec::new()).collect();
    for &DoubleTreeEdge { parent, child, depth } in edges {
        let reduce = shape.send(child, parent, ChunkSet::default(), Action::Reduce);
        let copy = shape.send(parent, child, ChunkSet::default(), Action::Copy);
        for piece in 0..pieces {
            let of_piece = |send: &Send| Send { chunks: ChunkSet::range(piece, piece + 1), ..*send };
            if up > 0 {
                flow[up - depth + piece].push(of_piece(&reduce));
            }
            flow[up + depth - 1 + piece].push(of_piece(&copy));
        }
    }
    flow
}

/// The edges of one of the two trees: of all ranks, or of all except the root, which is then put on top.
fn tree(ranks: usize, root: Option<Rank>, second: bool) -> Vec<DoubleTreeEdge> {
    let nodes = if root.is_some() { ranks - 1 } else { ranks };
    let rank = |node: usize| {
        let node = match (second, nodes.is_multiple_of(2)) {
            (false, _) => node,
            (true, true) => nodes - 1 - node,
            (true, false) => (node + 1) % nodes,
        };
        root.map_or(node, |root| (root + 1 + node) % ranks)
    };
    let mut edges = Vec::new();
    grow(0..nodes, root, usize::from(root.is_some()), &rank, &mut edges);
    edges
}

/// Adds the in-order tree of a range of nodes below `parent`.
fn grow(
    nodes: Range<usize>,
    parent: Option<Rank>,
    depth: usize,
    rank: &impl Fn(usize) -> Rank,
    edges: &mut Vec<DoubleTreeEdge>,
) {
    if nodes.is_empty() {
        return;
    }
    let top = nodes.start + (1 << nodes.len().ilog2()) - 1;
    let child = rank(top);
    edges.extend(parent.map(|parent| DoubleTreeEdge { parent, child, depth }));
    grow(nodes.start..top, Some(child), depth + 1, rank, edges);
    grow(top + 1..nodes.end, Some(child), depth + 1, rank, edges);
}
